// All experiments: which run, and what they play.

import { dress, OTHERS, shownOf } from "./arms.js";
import { draw, keep, make, part, say, set } from "./dom.js";
import { Problem } from "./service.js";
import { and, count, counted, percent, state } from "./words.js";

/** From so many on, one wants to search. */
const MANY = 8;
/** How many experiments are looked at each second. */
const AT_ONCE = 12;

export class Overview {
  #rows = new Map();
  #left = { name: null, scroll: 0 };

  constructor(root) {
    this.root = root;
    this.list = part(root, "rows");
    this.search = part(root, "search").querySelector("input");
    this.search.addEventListener("input", () => this.#filter());
  }

  /** What was seen before somebody's token was forgotten is not to be seen after. */
  clear() {
    this.#rows.clear();
    this.list.replaceChildren();
  }

  /** Note where one was, to come back there. */
  leave(name) {
    this.#left = { name, scroll: window.scrollY };
  }

  enter() {
    window.scrollTo(0, this.#left.scroll);
    const link = this.#rows.get(this.#left.name)?.link ?? this.root.querySelector("h1");
    link.focus({ preventScroll: true });
  }

  async refresh(service, signal) {
    const names = (await service.names(signal)).reverse(); // the newest first
    this.#arrange(names);
    const due = names.map((name) => this.#rows.get(name)).filter((row) => row.isDue());
    const longest = due.sort((a, b) => a.seen - b.seen).slice(0, AT_ONCE);
    await Promise.all(longest.map((row) => row.refresh(service, signal)));
    return true;
  }

  #arrange(names) {
    const known = new Set(names);
    for (const [name, row] of this.#rows) {
      if (known.has(name)) continue;
      row.item.remove();
      this.#rows.delete(name);
    }
    names.forEach((name, at) => {
      if (this.#rows.has(name)) return;
      const row = new Row(name);
      this.#rows.set(name, row);
      this.list.insertBefore(row.item, this.list.children[at] ?? null);
    });
    part(this.root, "empty").hidden = names.length > 0;
    part(this.root, "search").hidden = names.length <= MANY && !this.search.value;
    say(part(this.root, "number"), names.length ? `${count(names.length)}, the newest first` : "");
    this.#filter();
  }

  #filter() {
    const wanted = this.search.value.trim().toLowerCase();
    let found = 0;
    for (const [name, row] of this.#rows) {
      row.item.hidden = !name.toLowerCase().includes(wanted);
      found += !row.item.hidden;
    }
    part(this.root, "none").hidden = found > 0 || this.#rows.size === 0;
  }
}

class Row {
  /** When it was last asked for. */
  seen = 0;
  #closed = false;

  constructor(name) {
    this.name = name;
    this.link = make("a", { href: `#${encodeURIComponent(name)}`, class: "name" }, name);
    this.state = make("span", { class: "state" });
    this.now = make("span", { class: "row-now name" });
    this.slots = make("span", { class: "row-slots" });
    this.policy = make("span", { class: "row-policy soft" });
    this.bar = draw("svg", { class: "bar", role: "img", viewBox: "0 0 100 6", preserveAspectRatio: "none" });
    set(this.bar, { "aria-label": "No slots yet" });
    this.item = make("li", { class: "card" }, this.link, this.state, this.now, this.slots, this.policy, this.bar);
  }

  /** One that is closed does not change any more, and one that is out of sight can wait. */
  isDue() {
    const box = this.item.getBoundingClientRect();
    const inSight = !this.item.hidden && box.bottom > 0 && box.top < window.innerHeight;
    return inSight && !this.#closed;
  }

  async refresh(service, signal) {
    this.seen = performance.now();
    try {
      this.#show(await service.status(this.name, signal));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.#failed(error.message);
    }
  }

  #failed(message) {
    say(set(this.state, { "data-state": "problem" }), "problem");
    say(this.now, message);
  }

  #show(status) {
    this.#closed = status.closed;
    const word = state(status);
    say(set(this.state, { "data-state": word }), word);
    const verb = status.slots === 0 ? "begins with" : status.next?.hold ? "holds" : "now";
    say(this.now, status.next ? `${verb} ${status.next.arm}` : "");
    say(this.slots, `${counted(status.slots, "slot")}, ${counted(status.arms.length, "arm")}`);
    say(this.policy, status.policy);
    this.#draw(status.arms);
  }

  /** Shares of the arms, in a line. */
  #draw(arms) {
    const shown = shownOf(arms).filter((arm) => arms[arm].share > 0);
    const shares = shown.map((arm) => [arm, arms[arm].share]);
    const rest = 1 - shares.reduce((sum, [, share]) => sum + share, 0);
    if (shown.length && rest > 1e-9) shares.push([OTHERS, rest]);
    const parts = keep(this.bar, shares.length, () => draw("rect", { height: 6, y: 0 }));
    let x = 0;
    shares.forEach(([arm, share], at) => {
      set(dress(parts[at], arm), { x, width: share * 100, fill: "currentColor" });
      x += share * 100;
    });
    const largest = shown.toSorted((a, b) => arms[b].share - arms[a].share).slice(0, 3);
    const words = largest.map((arm) => `${arms[arm].arm} ${percent(arms[arm].share)}`);
    set(this.bar, { "aria-label": shown.length ? `Share of slots, the largest: ${and(words)}` : "No slots yet" });
  }
}
