// @ts-check
// The units of an experiment that has several: the arm that each plays next, and its totals.

import { applyLook, makeSwatch } from "./arms.js";
import { resizeChildren, make, findPart, setText } from "./dom.js";
import { addUnit, formatCount, makeAmountFormat } from "./format.js";

const COLUMNS = ["unit", "next arm", "totals", "missing", "outstanding", "mean"];

export class UnitsTable {
  constructor(root) {
    this.card = findPart(root, "units-card");
    const table = findPart(root, "units");
    this.titles = COLUMNS.map((title) => make("th", { scope: "col" }, title));
    table.createTHead().append(make("tr", {}, ...this.titles));
    this.body = table.createTBody();
  }

  update(status) {
    this.card.hidden = status.units.length === 0;
    setText(this.titles.at(-1), addUnit("mean", status.unit));
    const write = makeAmountFormat(status.units.map(({ mean }) => mean));
    const rows = resizeChildren(this.body, status.units.length, makeRow);
    status.units.forEach(({ unit, arm, received, missing, outstanding, mean }, at) => {
      const [head, playing, ...cells] = rows[at].children;
      setText(head, unit);
      const [square, label] = playing.children;
      square.toggleAttribute("hidden", arm === null);
      if (arm !== null) applyLook(square.firstElementChild, status.arms.findIndex((each) => each.arm === arm));
      setText(label, arm ?? "–");
      const texts = [...[received, missing, outstanding].map(formatCount), write(mean)];
      texts.forEach((text, cell) => setText(cells[cell], text));
    });
  }
}

function makeRow() {
  const playing = make("td", { class: "playing-arm" }, makeSwatch(0), make("span", { class: "name" }));
  const cells = COLUMNS.slice(2).map(() => make("td"));
  return make("tr", {}, make("th", { scope: "row", class: "name" }), playing, ...cells);
}
