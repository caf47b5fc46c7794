// Estimates per arm: a dot for the mean, and a line from there for the radius, which the policy adds.

import { dress, shownOf } from "./arms.js";
import { axisBelow, Chart, fitting, round, scale, ticks, widthOf } from "./charts.js";
import { draw, keep, say, set } from "./dom.js";
import { amounts, count, counted, percent } from "./words.js";

/** From so many arms on, rows are narrow. */
export const MANY = 14;

export class Estimates extends Chart {
  /** `chosen` is told which arm is read. */
  constructor(figure, chosen) {
    super(figure, "Estimates, arm by arm");
    this.chosen = (row) => chosen(row === null ? null : this.arms[row]);
    set(this.reader, { "aria-orientation": "vertical" });
  }

  /** `order` is that of the table beside it. */
  update(status, order) {
    const shown = new Set(shownOf(status.arms));
    const arms = order.filter((arm) => shown.has(arm));
    this.arms = arms;
    this.show({ all: status.arms, arms }, summary(status.arms));
  }

  paint(width, { all, arms }) {
    const step = arms.length > MANY ? 20 : 30;
    const widest = Math.max(...arms.map((arm) => widthOf(all[arm].arm)));
    const names = Math.ceil(Math.min(widest, width * 0.34)) + 12;
    const area = this.size(width, arms.length * step + 50, { left: names, right: 14, top: 6, bottom: 44 });
    const known = arms.filter((arm) => all[arm].mean !== null);
    const about = (area.right - area.left) / 70;
    const [from, to] = ends(known.map((arm) => all[arm]), about);
    const x = scale(from, to, area.left + 8, area.right - 8);
    const y = (row) => area.top + step * (row + 0.5);
    axisBelow(this.layer("grid"), area, x, ticks(from, to, about), "mean total per slot, and what the policy adds", true);
    const row = () => draw("g", {}, draw("text"), draw("path"), draw("circle"), draw("text"));
    const rows = keep(this.layer("rows"), arms.length, row);
    arms.forEach((arm, row) => {
      const { arm: name, mean, radius } = all[arm];
      const [label, whisker, dot, nothing] = rows[row].children;
      say(set(label, { class: "label", x: names - 10, y: y(row) + 4, "text-anchor": "end" }), fitting(name, names - 12));
      const end = mean === null || radius === null ? null : x(mean + radius);
      const line = end === null ? "" : `M${x(mean)} ${y(row)}H${end}M${end} ${y(row) - 4}v8`;
      set(dress(whisker, arm, "whisker"), { fill: "none", d: line });
      const place = mean === null ? { r: 0 } : { r: 5, cx: x(mean), cy: y(row) };
      set(dress(dot, arm, "dot"), { ...place, fill: "currentColor" });
      say(set(nothing, { class: "faint", x: area.left + 8, y: y(row) + 4 }), mean === null ? "no totals yet" : "");
    });
    this.points = {
      count: arms.length,
      at: (row) => {
        const { mean } = all[arms[row]];
        return { x: mean === null ? area.left : x(mean), y: y(row), below: y(row) + step / 2 + 3, step, area };
      },
      near: (_, pixel) => Math.max(0, Math.min(arms.length - 1, Math.floor((pixel - area.top) / step))),
      text: (row) => described(all, arms[row]),
    };
  }

  mark(layer, { y, step, area }) {
    const [band] = keep(layer, 1, () => draw("rect"));
    set(band, { x: 0, width: area.right, y: y - step / 2, height: step, rx: 4 });
  }
}

function ends(known, about) {
  if (known.length === 0) return [0, 1];
  const least = Math.min(...known.map(({ mean }) => mean));
  const most = Math.max(...known.map(({ mean, radius }) => mean + (radius ?? 0)));
  return round(least, most, about);
}

function described(all, arm) {
  const { arm: name, slots, share, rounds, mean, radius } = all[arm];
  const write = amounts(all.map((each) => each.mean));
  const lines = [
    { label: "mean", value: write(mean) },
    { label: "radius", value: write(radius) },
    { label: "slots", value: `${count(slots)} (${percent(share)})` },
    { label: "rounds", value: count(rounds) },
  ];
  return { title: name, lines };
}

function summary(arms) {
  const known = arms.filter(({ mean }) => mean !== null).sort((a, b) => b.mean - a.mean);
  if (known.length === 0) return `Estimates of ${counted(arms.length, "arm")}: none has a mean yet.`;
  const write = amounts(known.map(({ mean }) => mean));
  const [best, worst] = [known[0], known.at(-1)];
  const radius = best.radius === null ? "" : `, radius ${write(best.radius)}`;
  const highest = `Highest mean: ${best.arm}, ${write(best.mean)}${radius}.`;
  const lowest = `Lowest mean: ${worst.arm}, ${write(worst.mean)}.`;
  return `Estimates of ${counted(arms.length, "arm")}. ${highest} ${lowest} All are in the table.`;
}
