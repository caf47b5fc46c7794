// @ts-check
// The table of all arms; its columns can be sorted.

import { applyLook, makeSwatch, nameArm } from "./arms.js";
import { resizeChildren, make, setText, setAttributes } from "./dom.js";
import { addUnit, makeAmountFormat, formatCount, formatPercent } from "./format.js";

const COLUMNS = ["arm", "pulls", "share", "rounds", "mean", "probability"];

export class ArmsTable {
  #key = "arm";
  #descending = false;

  /** `onReorder` is called when the order changes. */
  constructor(table, onReorder) {
    const button = (key) => make("button", { type: "button", "data-key": key }, key);
    const titles = COLUMNS.map((key) => make("th", { scope: "col" }, button(key)));
    table.createTHead().append(make("tr", {}, ...titles));
    this.body = table.createTBody();
    this.titles = titles;
    table.tHead.addEventListener("click", ({ target }) => {
      const key = target.dataset.key;
      if (!key) return;
      // Numbers from the largest to the smallest; arms in the order of the experiment.
      this.#descending = key === this.#key ? !this.#descending : key !== "arm";
      this.#key = key;
      onReorder();
    });
  }

  /** The indices of the arms, sorted. */
  sort({ arms, next }) {
    const sign = this.#descending ? -1 : 1;
    const find = (arm) => (this.#key === "probability" ? next?.probabilities?.[arms[arm].arm] : arms[arm][this.#key]);
    const value = (arm) => (this.#key === "arm" ? arm : (find(arm) ?? -Infinity));
    return arms.map((_, arm) => arm).sort((a, b) => sign * (value(a) - value(b) || 0) || a - b);
  }

  update(status, order) {
    this.titles.forEach((title, at) => {
      const sorted = COLUMNS[at] === this.#key ? (this.#descending ? "descending" : "ascending") : "none";
      setAttributes(title, { "aria-sort": sorted });
    });
    setText(this.titles[COLUMNS.indexOf("mean")].firstElementChild, addUnit("mean", status.unit));
    const probabilities = status.next?.probabilities;
    this.titles.at(-1).hidden = !probabilities;
    const write = makeAmountFormat(status.arms.map(({ mean }) => mean));
    const rows = resizeChildren(this.body, order.length, makeRow);
    order.forEach((arm, at) => {
      const { arm: name, pulls, share, rounds, mean } = status.arms[arm];
      const [head, ...cells] = rows[at].children;
      const [square, label] = head.children;
      applyLook(square.firstElementChild, arm);
      setText(label, nameArm(status.arms[arm]));
      const texts = [formatCount(pulls), formatPercent(share), formatCount(rounds), write(mean)];
      texts.push(probabilities ? formatPercent(probabilities[name]) : "");
      texts.forEach((text, cell) => setText(cells[cell], text));
      cells.at(-1).hidden = !probabilities;
      rows[at].classList.toggle("playing", status.next?.arm === name);
    });
  }
}

function makeRow() {
  const head = make("th", { scope: "row" }, makeSwatch(0), make("span", { class: "name" }));
  return make("tr", {}, head, ...COLUMNS.slice(1).map(() => make("td")));
}
