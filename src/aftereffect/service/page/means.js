// @ts-check
// The mean total of each arm, as a dot.

import { applyLook, nameArm, selectArms } from "./arms.js";
import { drawAxisBelow, Chart, truncateTexts, roundEnds, makeScale, makeTicks, measureText } from "./charts.js";
import { MIN_WIDE } from "./charts.js";
import { makeSvg, resizeChildren, setText, setAttributes } from "./dom.js";
import { addUnit, makeAmountFormat, formatCount, formatQuantity, formatPercent } from "./format.js";
import { makeSlotNames } from "./slot-names.js";

/** With more arms than this, rows are narrow. */
export const MAX_WIDE_ROWS = 14;
/** The axis covers at least this share of the largest mean, so that small differences look small. */
const MIN_SPAN = 0.2;
/** Arms that have a row; the table beside the chart has all. */
export const MAX_MEANS = 50;

export class Means extends Chart {
  /** `onChooseArm` is called with the arm that is read. */
  constructor(figure, onChooseArm) {
    super(figure, "Means, arm by arm");
    this.onChoose = (row) => onChooseArm(row === null ? null : this.arms[row]);
    setAttributes(this.reader, { "aria-orientation": "vertical" });
  }

  /** `order` is the order of the arms in the table beside the chart. */
  update(status, order) {
    const shown = new Set(selectArms(status.arms, MAX_MEANS));
    this.arms = order.filter((arm) => shown.has(arm));
    const title = addUnit(`mean total per ${makeSlotNames(status).perSlot}`, status.unit);
    const write = makeAmountFormat(status.arms.map(({ mean }) => mean), status.unit);
    this.show({ all: status.arms, arms: this.arms, title, write }, summarize(status.arms, write));
  }

  paint(width, { all, arms, title, write }) {
    const isWide = width >= MIN_WIDE;
    const step = isWide ? (arms.length > MAX_WIDE_ROWS ? 20 : 30) : 40;
    const widest = Math.max(...arms.map((arm) => measureText(nameArm(all[arm]))));
    const names = isWide ? Math.ceil(Math.min(widest, width * 0.4)) + 12 : 0;
    const area = this.resize(width, arms.length * step + 50, { left: names, right: 14, top: 6, bottom: 44 });
    const known = arms.filter((arm) => all[arm].mean !== null).map((arm) => all[arm].mean);
    const about = (area.right - area.left) / 70;
    const [from, to] = findEnds(known, about);
    const x = makeScale(from, to, area.left + 12, area.right - 12);
    const y = (row) => area.top + step * (row + 0.5);
    // On a narrow chart, the name has a line of its own above the dot.
    const dotY = (row) => y(row) + (isWide ? 0 : 9);
    const place = (row) =>
      isWide
        ? { x: names - 10, y: y(row) + 4, "text-anchor": "end" }
        : { x: 2, y: y(row) - 4, "text-anchor": "start" };
    drawAxisBelow(this.getLayer("grid"), area, x, makeTicks(from, to, about), title, true);
    const labels = truncateTexts(arms.map((arm) => nameArm(all[arm])), isWide ? names - 12 : width - 8);
    const make = () => makeSvg("g", {}, makeSvg("text"), makeSvg("circle"), makeSvg("text"));
    const rows = resizeChildren(this.getLayer("rows"), arms.length, make);
    arms.forEach((arm, row) => {
      const { mean } = all[arm];
      const [label, dot, nothing] = rows[row].children;
      setAttributes(label, { class: "label", ...place(row) });
      setText(label, labels[row]);
      const circle = mean === null ? { r: 0 } : { r: 5, cx: x(mean), cy: dotY(row) };
      setAttributes(applyLook(dot, arm, "dot"), { ...circle, fill: "currentColor" });
      setAttributes(nothing, { class: "faint", x: area.left + 12, y: dotY(row) + 4 });
      setText(nothing, mean === null ? "no totals yet" : "");
    });
    this.points = {
      count: arms.length,
      at: (row) => {
        const { mean } = all[arms[row]];
        return { x: mean === null ? area.left : x(mean), y: y(row), below: y(row) + step / 2 + 3, step, area };
      },
      near: (_, pixel) => Math.max(0, Math.min(arms.length - 1, Math.floor((pixel - area.top) / step))),
      text: (row) => describeArm(all[arms[row]], write),
    };
  }

  mark(layer, { y, step, area }) {
    const [band] = resizeChildren(layer, 1, () => makeSvg("rect"));
    setAttributes(band, { x: 0, width: area.right, y: y - step / 2, height: step, rx: 4 });
  }
}

function findEnds(means, about) {
  if (means.length === 0) return [0, 1];
  const [low, high] = [Math.min(...means), Math.max(...means)];
  const lacking = Math.max(0, MIN_SPAN * Math.max(Math.abs(low), Math.abs(high)) - (high - low));
  return roundEnds(low - lacking / 2, high + lacking / 2, about);
}

function describeArm(arm, write) {
  const { pulls, share, rounds, mean } = arm;
  const lines = [
    { label: "mean", value: write(mean) },
    { label: "pulls", value: `${formatCount(pulls)} (${formatPercent(share)})` },
    { label: "rounds", value: formatCount(rounds) },
  ];
  return { title: nameArm(arm), lines };
}

function summarize(arms, write) {
  const known = arms.filter(({ mean }) => mean !== null).sort((a, b) => b.mean - a.mean);
  if (known.length === 0) return `Means of ${formatQuantity(arms.length, "arm")}: none has a mean yet.`;
  const [best, worst] = [known[0], known.at(-1)];
  const highest = `Highest mean: ${best.arm}, ${write(best.mean)}.`;
  const lowest = `Lowest mean: ${worst.arm}, ${write(worst.mean)}.`;
  return `Means of ${formatQuantity(arms.length, "arm")}. ${highest} ${lowest} All are in the table.`;
}
