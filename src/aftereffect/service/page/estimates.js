// @ts-check
// Estimates per arm: a dot for the mean, and a line for the radius, which the policy adds to it.

import { applyLook, selectArms } from "./arms.js";
import { drawAxisBelow, Chart, truncateText, roundEnds, makeScale, makeTicks, measureText } from "./charts.js";
import { makeSvg, resizeChildren, setText, setAttributes } from "./dom.js";
import { makeAmountFormat, formatCount, formatQuantity, formatPercent } from "./format.js";

/** With more arms than this, rows are narrow. */
export const MAX_WIDE_ROWS = 14;

export class Estimates extends Chart {
  /** `onChooseArm` is called with the arm that is read. */
  constructor(figure, onChooseArm) {
    super(figure, "Estimates, arm by arm");
    this.onChoose = (row) => onChooseArm(row === null ? null : this.arms[row]);
    setAttributes(this.reader, { "aria-orientation": "vertical" });
  }

  /** `order` is the order of the arms in the table beside the chart. */
  update(status, order) {
    const shown = new Set(selectArms(status.arms));
    const arms = order.filter((arm) => shown.has(arm));
    this.arms = arms;
    this.show({ all: status.arms, arms }, summarize(status.arms));
  }

  paint(width, { all, arms }) {
    const step = arms.length > MAX_WIDE_ROWS ? 20 : 30;
    const widest = Math.max(...arms.map((arm) => measureText(all[arm].arm)));
    const names = Math.ceil(Math.min(widest, width * 0.34)) + 12;
    const area = this.resize(width, arms.length * step + 50, { left: names, right: 14, top: 6, bottom: 44 });
    const known = arms.filter((arm) => all[arm].mean !== null);
    const about = (area.right - area.left) / 70;
    const [from, to] = findEnds(known.map((arm) => all[arm]), about);
    const x = makeScale(from, to, area.left + 8, area.right - 8);
    const y = (row) => area.top + step * (row + 0.5);
    drawAxisBelow(this.getLayer("grid"), area, x, makeTicks(from, to, about), "mean total per slot, and radius", true);
    const row = () => makeSvg("g", {}, makeSvg("text"), makeSvg("path"), makeSvg("circle"), makeSvg("text"));
    const rows = resizeChildren(this.getLayer("rows"), arms.length, row);
    arms.forEach((arm, row) => {
      const { arm: name, mean, radius } = all[arm];
      const [label, whisker, dot, nothing] = rows[row].children;
      setAttributes(label, { class: "label", x: names - 10, y: y(row) + 4, "text-anchor": "end" });
      setText(label, truncateText(name, names - 12));
      const end = mean === null || radius === null ? null : x(mean + radius);
      const line = end === null ? "" : `M${x(mean)} ${y(row)}H${end}M${end} ${y(row) - 4}v8`;
      setAttributes(applyLook(whisker, arm, "whisker"), { fill: "none", d: line });
      const place = mean === null ? { r: 0 } : { r: 5, cx: x(mean), cy: y(row) };
      setAttributes(applyLook(dot, arm, "dot"), { ...place, fill: "currentColor" });
      setAttributes(nothing, { class: "faint", x: area.left + 8, y: y(row) + 4 });
      setText(nothing, mean === null ? "no totals yet" : "");
    });
    this.points = {
      count: arms.length,
      at: (row) => {
        const { mean } = all[arms[row]];
        return { x: mean === null ? area.left : x(mean), y: y(row), below: y(row) + step / 2 + 3, step, area };
      },
      near: (_, pixel) => Math.max(0, Math.min(arms.length - 1, Math.floor((pixel - area.top) / step))),
      text: (row) => describeArm(all, arms[row]),
    };
  }

  mark(layer, { y, step, area }) {
    const [band] = resizeChildren(layer, 1, () => makeSvg("rect"));
    setAttributes(band, { x: 0, width: area.right, y: y - step / 2, height: step, rx: 4 });
  }
}

function findEnds(known, about) {
  if (known.length === 0) return [0, 1];
  const low = Math.min(...known.map(({ mean }) => mean));
  const high = Math.max(...known.map(({ mean, radius }) => mean + (radius ?? 0)));
  return roundEnds(low, high, about);
}

function describeArm(all, arm) {
  const { arm: name, pulls, share, rounds, mean, radius } = all[arm];
  const write = makeAmountFormat(all.map((each) => each.mean));
  const lines = [
    { label: "mean", value: write(mean) },
    { label: "radius", value: write(radius) },
    { label: "pulls", value: `${formatCount(pulls)} (${formatPercent(share)})` },
    { label: "rounds", value: formatCount(rounds) },
  ];
  return { title: name, lines };
}

function summarize(arms) {
  const known = arms.filter(({ mean }) => mean !== null).sort((a, b) => b.mean - a.mean);
  if (known.length === 0) return `Estimates of ${formatQuantity(arms.length, "arm")}: none has a mean yet.`;
  const write = makeAmountFormat(known.map(({ mean }) => mean));
  const [best, worst] = [known[0], known.at(-1)];
  const radius = best.radius === null ? "" : `, radius ${write(best.radius)}`;
  const highest = `Highest mean: ${best.arm}, ${write(best.mean)}${radius}.`;
  const lowest = `Lowest mean: ${worst.arm}, ${write(worst.mean)}.`;
  return `Estimates of ${formatQuantity(arms.length, "arm")}. ${highest} ${lowest} All are in the table.`;
}
