// Doing something about once a second, while somebody looks.

const EVERY = 1_000;
const SLOWEST = 15_000;
/** However long an answer takes, the service has this many times as long for others. */
const PAUSE = 3;
/** What the work says when there is nothing more to do until it is asked again. */
export const REST = "rest";

export class Loop {
  #work;
  #timer = null;
  #running = null;
  #failures = 0;

  /** `work(signal)` says whether all went well; if not, the next time comes later and later. */
  constructor(work) {
    this.#work = work;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#pause() : this.now()));
    window.addEventListener("online", () => this.now());
  }

  /** Do it at once, in place of what is under way. */
  now() {
    this.#pause();
    if (!document.hidden) this.#run();
  }

  #pause() {
    clearTimeout(this.#timer);
    this.#running?.abort();
    this.#running = null;
  }

  async #run() {
    const running = new AbortController();
    this.#running = running;
    const start = performance.now();
    const well = await this.#work(running.signal);
    if (this.#running !== running) return; // something newer took its place
    if (well === REST) return;
    this.#failures = well ? 0 : this.#failures + 1;
    const backOff = well ? EVERY : Math.min(SLOWEST, EVERY * 2 ** (this.#failures - 1));
    this.#timer = setTimeout(() => this.#run(), Math.max(backOff, PAUSE * (performance.now() - start)));
  }
}
