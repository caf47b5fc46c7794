// @ts-check
// A loop that runs about once a second, while the page is visible.

const EVERY = 1_000;
const MAX_PAUSE = 15_000;
/** The pause is at least this many times as long as the work took, so that the service can answer others. */
const REST_FACTOR = 3;
/** The work returns this when it has nothing to do until `now` is called. */
export const REST = "rest";

export class Loop {
  #work;
  #timer = null;
  #running = null;
  #failures = 0;

  /** `work(signal)` returns whether it succeeded; after failures the pause grows. */
  constructor(work) {
    this.#work = work;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#pause() : this.now()));
    window.addEventListener("online", () => this.now());
  }

  /** Run at once, in place of a run under way. */
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
    if (this.#running !== running) return; // a newer run took its place
    if (well === REST) return;
    this.#failures = well ? 0 : this.#failures + 1;
    const backOff = well ? EVERY : Math.min(MAX_PAUSE, EVERY * 2 ** (this.#failures - 1));
    this.#timer = setTimeout(() => this.#run(), Math.max(backOff, REST_FACTOR * (performance.now() - start)));
  }
}
