// @ts-check
// All experiments: their state, and the arm of each.

import { applyLook, nameArm, OTHERS, selectArms } from "./arms.js";
import { makeSvg, resizeChildren, make, findPart, setText, setAttributes } from "./dom.js";
import { fillPlanLinks } from "./plans.js";
import { Problem } from "./service.js";
import { joinWords, formatCount, formatQuantity, formatPercent } from "./format.js";
import { describeState, describeUnits } from "./format.js";
import { makeSlotNames } from "./slot-names.js";

/** With more experiments than this, the search field is shown. */
const MAX_WITHOUT_SEARCH = 8;
/** Experiments that are read each second. */
const MAX_READ = 12;

export class Overview {
  #rows = new Map();
  #left = { name: null, scroll: 0 };

  constructor(root) {
    this.root = root;
    this.list = findPart(root, "rows");
    this.search = findPart(root, "search").querySelector("input");
    this.search.addEventListener("input", () => this.#filter());
  }

  /** Remove everything, when the token is forgotten. */
  clear() {
    this.#rows.clear();
    this.list.replaceChildren();
    fillPlanLinks(findPart(this.root, "plans"), []);
  }

  /** Remember the place, to come back to it. */
  leave(name) {
    this.#left = { name, scroll: window.scrollY };
  }

  enter() {
    window.scrollTo(0, this.#left.scroll);
    const link = this.#rows.get(this.#left.name)?.link ?? this.root.querySelector("h1");
    link.focus({ preventScroll: true });
  }

  async refresh(service, signal) {
    const names = (await service.fetchNames(signal)).reverse(); // the newest first
    this.#arrange(names);
    fillPlanLinks(findPart(this.root, "plans"), await service.fetchPlans(signal));
    const due = names.map((name) => this.#rows.get(name)).filter((row) => row.isDue());
    const longest = due.sort((a, b) => a.readAt - b.readAt).slice(0, MAX_READ);
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
    findPart(this.root, "empty").hidden = names.length > 0;
    findPart(this.root, "search").hidden = names.length <= MAX_WITHOUT_SEARCH && !this.search.value;
    setText(findPart(this.root, "number"), names.length ? `${formatCount(names.length)}, the newest first` : "");
    this.#filter();
  }

  #filter() {
    const wanted = this.search.value.trim().toLowerCase();
    let found = 0;
    for (const [name, row] of this.#rows) {
      row.item.hidden = !name.toLowerCase().includes(wanted);
      found += !row.item.hidden;
    }
    findPart(this.root, "none").hidden = found > 0 || this.#rows.size === 0;
  }
}

class Row {
  /** When it was last read. */
  readAt = 0;
  #ended = false;

  constructor(name) {
    this.name = name;
    this.link = make("a", { href: `#${encodeURIComponent(name)}`, class: "name" }, name);
    this.state = make("span", { class: "state" });
    this.now = make("span", { class: "row-now name" });
    this.slots = make("span", { class: "row-slots" });
    this.policy = make("span", { class: "row-policy soft" });
    this.bar = makeSvg("svg", { class: "bar", role: "img", viewBox: "0 0 100 6", preserveAspectRatio: "none" });
    setAttributes(this.bar, { "aria-label": "No slots yet" });
    this.item = make("li", { class: "card" }, this.link, this.state, this.now, this.slots, this.policy, this.bar);
  }

  /** An experiment that has ended does not change; one that is out of sight can wait. */
  isDue() {
    const box = this.item.getBoundingClientRect();
    const inSight = !this.item.hidden && box.bottom > 0 && box.top < window.innerHeight;
    return inSight && !this.#ended;
  }

  async refresh(service, signal) {
    this.readAt = performance.now();
    try {
      this.#show(await service.fetchStatus(this.name, signal));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.#showProblem(error.message);
    }
  }

  #showProblem(message) {
    setText(setAttributes(this.state, { "data-state": "problem" }), "problem");
    setText(this.now, message);
  }

  #show(status) {
    this.#ended = status.ended;
    const state = describeState(status, makeSlotNames(status));
    setText(setAttributes(this.state, { "data-state": status.state }), state);
    const going = status.state === "silent" ? "next" : "now";
    const verb = status.slots === 0 ? "begins with" : status.next?.hold ? "holds" : going;
    const next = status.next;
    setText(this.now, next ? `${verb} ${next.arms ? describeUnits(next.arms) : next.arm}` : "");
    setText(this.slots, `${formatQuantity(status.slots, "slot")}, ${formatQuantity(status.arms.length, "arm")}`);
    setText(this.policy, status.policy);
    this.#drawBar(status.arms);
  }

  /** Draw the shares of the arms as a bar. */
  #drawBar(arms) {
    const shown = selectArms(arms).filter((arm) => arms[arm].share > 0);
    const shares = shown.map((arm) => [arm, arms[arm].share]);
    const rest = 1 - shares.reduce((sum, [, share]) => sum + share, 0);
    if (shown.length && rest > 1e-9) shares.push([OTHERS, rest]);
    const parts = resizeChildren(this.bar, shares.length, () => makeSvg("rect", { height: 6, y: 0 }));
    let x = 0;
    shares.forEach(([arm, share], at) => {
      setAttributes(applyLook(parts[at], arm), { x, width: share * 100, fill: "currentColor" });
      x += share * 100;
    });
    const largest = shown.toSorted((a, b) => arms[b].share - arms[a].share).slice(0, 3);
    const words = largest.map((arm) => `${nameArm(arms[arm])} ${formatPercent(arms[arm].share)}`);
    const label = shown.length ? `Share of pulls, the largest: ${joinWords(words)}` : "No slots yet";
    setAttributes(this.bar, { "aria-label": label });
  }
}
