// How arms look: eight colours that people with any kind of sight tell apart, then the same ones woven differently.

import { draw, keep, make, part, say, set } from "./dom.js";

const HUES = 8;
/** What is drawn over the colour from the ninth arm on, within a square of 6 by 6. */
const WEAVES = [
  "M-1 1l2-2M0 6l6-6M5 7l2-2",
  "M1.5 1.5h1.5v1.5h-1.5zM4.5 4.5h1.5v1.5h-1.5z",
  "M-1 5l2 2M0 0l6 6M5-1l2 2",
  "M0 1.5h6M0 4.5h6",
  "M1.5 0v6M4.5 0v6",
  "M0 0l6 6M0 6l6-6",
];
/** As many as a chart shows one by one; the others are grouped. */
export const MOST = 50;
export const OTHERS = -1;

/** The class that gives an arm its colour, and the paint that fills with it. */
export function look(arm) {
  if (arm === OTHERS) return { class: "hue-others", fill: "currentColor" };
  const hue = arm % HUES;
  const weave = Math.floor(arm / HUES) % (WEAVES.length + 1);
  return { class: `hue-${hue}`, fill: weave === 0 ? "currentColor" : woven(hue, weave) };
}

/** Dress an SVG element as an arm. */
export function dress(node, arm, kind = "") {
  const { class: hue, fill } = look(arm);
  return set(node, { class: `${kind} ${hue}`.trim(), fill, "data-arm": arm });
}

/** A small square in an arm's look. */
export function swatch(arm) {
  const square = draw("svg", { class: "swatch", "aria-hidden": "true", width: 12, height: 12 });
  square.append(dress(draw("rect", { width: 12, height: 12, rx: 2.5 }), arm));
  return square;
}

/** A list of arms and their looks. */
export function fillLegend(list, arms, nameOf) {
  const items = keep(list, arms.length, () => make("li", {}, swatch(0), make("span", { class: "name" })));
  arms.forEach((arm, at) => {
    dress(items[at].firstElementChild.firstElementChild, arm);
    say(items[at].lastElementChild, nameOf(arm));
  });
}

/** Which arms a chart shows one by one, in their own order: all, or the most played. */
export function shownOf(arms) {
  const all = arms.map((_, arm) => arm);
  if (all.length <= MOST) return all;
  const byPlays = all.toSorted((a, b) => arms[b].slots - arms[a].slots || a - b);
  return byPlays.slice(0, MOST - 1).sort((a, b) => a - b);
}

function woven(hue, weave) {
  const id = `weave:${weave}:${hue}`;
  if (!document.getElementById(id)) {
    const pattern = draw("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", class: `hue-${hue}` });
    pattern.append(draw("rect", { width: 6, height: 6, fill: "currentColor" }));
    pattern.append(draw("path", { d: WEAVES[weave - 1], class: "thread" }));
    part(document, "weaves").append(pattern);
  }
  return `url("#${id}")`;
}
