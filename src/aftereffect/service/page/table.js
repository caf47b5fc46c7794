// The table of all arms, in the order that is asked for.

import { dress, swatch } from "./arms.js";
import { keep, make, say, set } from "./dom.js";
import { amounts, count, percent } from "./words.js";

const COLUMNS = ["arm", "slots", "share", "rounds", "mean", "radius"];

export class ArmsTable {
  #key = "arm";
  #downwards = false;

  /** `reordered` is called when somebody wants another order. */
  constructor(table, reordered) {
    const titles = COLUMNS.map((key) => make("th", { scope: "col" }, make("button", { type: "button", "data-key": key }, key)));
    table.createTHead().append(make("tr", {}, ...titles));
    this.body = table.createTBody();
    this.titles = titles;
    table.tHead.addEventListener("click", ({ target }) => {
      const key = target.dataset.key;
      if (!key) return;
      // Numbers are wanted from the largest on; arms as they were given.
      this.#downwards = key === this.#key ? !this.#downwards : key !== "arm";
      this.#key = key;
      reordered();
    });
  }

  /** The numbers of the arms, in order. */
  order(arms) {
    const sign = this.#downwards ? -1 : 1;
    const value = (arm) => (this.#key === "arm" ? arm : (arms[arm][this.#key] ?? -Infinity));
    return arms.map((_, arm) => arm).sort((a, b) => sign * (value(a) - value(b) || 0) || a - b);
  }

  update(status, order) {
    this.titles.forEach((title, at) => {
      const sorted = COLUMNS[at] === this.#key ? (this.#downwards ? "descending" : "ascending") : "none";
      set(title, { "aria-sort": sorted });
    });
    const write = amounts(status.arms.map(({ mean }) => mean));
    const rows = keep(this.body, order.length, newRow);
    order.forEach((arm, at) => {
      const { arm: name, slots, share, rounds, mean, radius } = status.arms[arm];
      const [head, ...cells] = rows[at].children;
      const [square, label] = head.children;
      dress(square.firstElementChild, arm);
      say(label, name);
      [count(slots), percent(share), count(rounds), write(mean), write(radius)].forEach((text, cell) => say(cells[cell], text));
      rows[at].classList.toggle("playing", status.next?.arm === name);
    });
  }
}

function newRow() {
  const head = make("th", { scope: "row" }, swatch(0), make("span", { class: "name" }));
  return make("tr", {}, head, ...COLUMNS.slice(1).map(() => make("td")));
}
