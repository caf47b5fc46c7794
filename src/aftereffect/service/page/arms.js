// @ts-check
// How arms look: eight colours that are distinct for every kind of sight, then the same colours with patterns.

import { makeSvg, resizeChildren, make, findPart, setText, setAttributes } from "./dom.js";

const HUES = 8;
/** Drawn over the colour from the ninth arm on, in a square of 6 by 6. */
const PATTERNS = [
  "M-1 1l2-2M0 6l6-6M5 7l2-2",
  "M1.5 1.5h1.5v1.5h-1.5zM4.5 4.5h1.5v1.5h-1.5z",
  "M-1 5l2 2M0 0l6 6M5-1l2 2",
  "M0 1.5h6M0 4.5h6",
  "M1.5 0v6M4.5 0v6",
  "M0 0l6 6M0 6l6-6",
];
/** Arms that a chart of the history shows one by one; more looks could hardly be told apart. */
export const MAX_APART = 12;
export const OTHERS = -1;

/** The class for the colour of an arm, and its fill. */
function lookOf(arm) {
  if (arm === OTHERS) return { class: "hue-others", fill: "currentColor" };
  const hue = arm % HUES;
  const pattern = Math.floor(arm / HUES) % (PATTERNS.length + 1);
  return { class: `hue-${hue}`, fill: pattern === 0 ? "currentColor" : makePattern(hue, pattern) };
}

/** Give an SVG element the look of an arm. */
export function applyLook(node, arm, kind = "") {
  const { class: hue, fill } = lookOf(arm);
  return setAttributes(node, { class: `${kind} ${hue}`.trim(), fill, "data-arm": arm });
}

/** A small square with the look of an arm. */
export function makeSwatch(arm) {
  const square = makeSvg("svg", { class: "swatch", "aria-hidden": "true", width: 12, height: 12 });
  square.append(applyLook(makeSvg("rect", { width: 12, height: 12, rx: 2.5 }), arm));
  return square;
}

/** The name of an arm of a status, marked if it is retired or paused, or if a guardrail has stopped it. */
export function nameArm({ arm, stopped, state }) {
  if (state === "retired") return `${arm} (retired)`;
  if (stopped !== null) return `${arm} (stopped)`;
  return state === "active" ? arm : `${arm} (${state})`;
}

/** Fill a legend with arms and their looks. */
export function fillLegend(list, arms, nameOf) {
  const items = resizeChildren(list, arms.length, () => make("li", {}, makeSwatch(0), make("span", { class: "name" })));
  arms.forEach((arm, at) => {
    applyLook(items[at].firstElementChild.firstElementChild, arm);
    setText(items[at].lastElementChild, nameOf(arm));
  });
}

/** The arms that a chart shows one by one, in their own order: all, or those with most pulls. */
export function selectArms(arms, most = MAX_APART) {
  const all = arms.map((_, arm) => arm);
  if (all.length <= most) return all;
  const byPulls = all.toSorted((a, b) => arms[b].pulls - arms[a].pulls || a - b);
  return byPulls.slice(0, most - 1).sort((a, b) => a - b);
}

function makePattern(hue, pattern) {
  const id = `pattern:${pattern}:${hue}`;
  if (!document.getElementById(id)) {
    const node = makeSvg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", class: `hue-${hue}` });
    node.append(makeSvg("rect", { width: 6, height: 6, fill: "currentColor" }));
    node.append(makeSvg("path", { d: PATTERNS[pattern - 1], class: "pattern-line" }));
    findPart(document, "patterns").append(node);
  }
  return `url("#${id}")`;
}
