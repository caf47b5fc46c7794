// @ts-check
// Totals by slot; rounds are shaded in the colours of their arms.

import { applyLook, fillLegend, nameArm, OTHERS, selectArms } from "./arms.js";
import { drawAxisBelow, drawAxisLeft, Chart, roundEnds, makeScale, makeTicks, measureText } from "./charts.js";
import { makeSvg, fillRows, resizeChildren, make, setText, setAttributes } from "./dom.js";
import { makeSlotNames } from "./slot-names.js";
import { addUnit, capitalize, makeAmountFormat, formatCount, formatQuantity } from "./format.js";

const HEIGHT = 320;
/** Height of the strip that shows the arms in their full colour. */
const STRIP = 14;
/** Narrower rounds are not shaded: many of them in a row would flicker. In the strip they are taken together. */
const MIN_SHADED = 16;
const MIN_PART = 24;
const MAX_DOTS = 160;
const MAX_LINES = 6;

export class Totals extends Chart {
  constructor(figure, table, explanation) {
    super(figure, "Totals, from the first slot to now");
    this.legend = figure.appendChild(make("ul", { class: "legend", "aria-label": "Legend: arms" }));
    this.explanation = explanation;
    this.table = table;
    table.addEventListener("toggle", () => this.fillTable());
  }

  update(status, timeline) {
    this.legend.hidden = timeline.slots === 0;
    if (timeline.slots === 0) return this.showNote("No slots yet.");
    this.data = preparePieces(status, timeline);
    const mean = `Mean of every ${formatCount(timeline.width)} ${this.data.names.manySlots}`;
    const several = `${mean}; the band goes from the smallest to the largest total.`;
    const what = timeline.width === 1 ? `The total of each ${this.data.names.oneSlot}.` : several;
    const strip = "The strip below shows the arms, or the share of each where they change too fast to be drawn";
    const shades = "Longer rounds are shaded in the colour of their arm.";
    const ofUnits = "Totals are means over the units. The strip below shows the share of units that play each arm.";
    setText(this.explanation, this.data.units > 1 ? `${what} ${ofUnits}` : `${what} ${strip}. ${shades}`);
    this.show(this.data, summarize(this.data));
    fillLegend(this.legend, this.data.shown, this.data.nameOf);
    this.fillTable();
  }

  paint(width, { pieces, runs, units, shown, low, high, total, several, names, unit }) {
    const [from, to] = roundEnds(low, high, 5);
    const upwards = makeTicks(from, to, 5);
    const left = Math.max(...upwards.values.map((value) => measureText(upwards.write(value)))) + 12;
    const area = this.resize(width, HEIGHT, { left, right: 14, top: 20, bottom: 42 + STRIP });
    const x = makeScale(0, total, area.left, area.right);
    const y = makeScale(from, to, area.bottom, area.top);
    const below = { ...area, bottom: area.bottom + STRIP };
    // A slot reaches from its number to the next. The tick of a number or a date is in the middle, that of a time at
    // the beginning, so that there may be one at the end of the last slot.
    const slots = names.makeTicks(total - 2 * names.tickPlace, area.right - area.left);
    drawAxisBelow(this.getLayer("below"), below, (slot) => x(slot + names.tickPlace), slots, names.axis);
    const pixels = (area.right - area.left) / total;
    const wide = findWide(runs, MIN_SHADED / pixels);
    this.#shade(shown, units > 1 ? [] : [...wide], area, x); // a slot of several units has no one colour
    this.#drawStrip(shown, joinRuns(runs, wide, MIN_PART / pixels), units, area, x);
    const title = addUnit(`total per ${names.perSlot}`, unit);
    drawAxisLeft(this.getLayer("grid"), area, y, upwards, several ? `${title}: mean and range` : title);
    const parts = findStretches(pieces);
    const middle = (piece) => x((piece.first + piece.last + 1) / 2);
    const line = (of, value) => of.map((piece) => `${middle(piece)} ${y(value(piece))}`);
    const around = (of) => [...line(of, (piece) => piece.high), ...line(of, (piece) => piece.low).reverse()];
    const path = (at) => makeSvg("path", { class: ["range", "mean", "dots"][at] });
    const [range, mean, dots] = resizeChildren(this.getLayer("lines"), 3, path);
    setAttributes(range, { d: several ? parts.map((of) => `M${around(of).join("L")}Z`).join("") : "" });
    setAttributes(mean, { d: parts.map((of) => `M${line(of, (piece) => piece.mean).join("L")}`).join("") });
    // A line of length zero with round ends is a dot.
    const dotted = pieces.length <= MAX_DOTS ? parts.flat() : [];
    setAttributes(dots, { d: dotted.map((piece) => `M${middle(piece)} ${y(piece.mean)}h0`).join("") });
    this.points = {
      count: pieces.length,
      at: (at) => ({ x: middle(pieces[at]), y: y(pieces[at].mean ?? from), from: area.top, to: below.bottom }),
      near: (pixel) => Math.min(pieces.length - 1, Math.max(0, Math.floor(x.back(pixel) / (pieces[0].last + 1)))),
      text: (at) => describePoint(this.data, at),
    };
  }

  #shade(shown, runs, area, x) {
    const group = () => makeSvg("g", {}, makeSvg("path"), makeSvg("path"));
    const kinds = resizeChildren(this.getLayer("rounds"), shown.length, group);
    const draw = (of) => of.map(({ first, last }) => drawBox(x(first), x(last + 1), area.top, area.bottom)).join("");
    shown.forEach((arm, at) => {
      const own = runs.filter((run) => run.arm === arm);
      const [full, pale] = kinds[at].children;
      setAttributes(applyLook(full, arm, "shade"), { d: draw(own.filter((run) => !run.pale)) });
      setAttributes(applyLook(pale, arm, "shade pale"), { d: draw(own.filter((run) => run.pale)) });
    });
  }

  /** The arms of each part, one above the other if there are several: as tall as their share of the slots. */
  #drawStrip(shown, parts, units, area, x) {
    const paths = resizeChildren(this.getLayer("strip"), shown.length, () => makeSvg("path"));
    const boxes = new Map(shown.map((arm) => [arm, ""]));
    for (const { first, last, pulls } of parts) {
      let top = area.bottom;
      for (const arm of shown.filter((each) => pulls.has(each))) {
        const bottom = top + (STRIP * pulls.get(arm)) / ((last - first + 1) * units);
        boxes.set(arm, boxes.get(arm) + drawBox(x(first), x(last + 1), round(top), round(bottom)));
        top = bottom;
      }
    }
    shown.forEach((arm, at) => setAttributes(applyLook(paths[at], arm), { d: boxes.get(arm) }));
  }

  /** As a table, the latest first; only while it is open. */
  fillTable() {
    if (!this.table.open || !this.data) return;
    const { pieces, several, write, nameOf, names, unit } = this.data;
    const table = this.table.querySelector("table");
    const totals = [addUnit("mean", unit), "smallest", "largest"];
    const ofSeveral = [names.columnOfSpans, "last round", "arm with the most pulls", ...totals];
    const titles = several ? ofSeveral : [names.column, "round", "arm", addUnit("total", unit)];
    const [row] = resizeChildren(table.tHead ?? table.createTHead(), 1, () => make("tr"));
    const cells = resizeChildren(row, titles.length, () => make("th", { scope: "col" }));
    titles.forEach((title, at) => setText(cells[at], title));
    const rows = pieces.toReversed().map((piece) => {
      const means = several ? [piece.mean, piece.low, piece.high] : [piece.mean];
      const number = piece.round === null ? "–" : formatCount(piece.round);
      return [names.write(piece.first, piece.last), number, nameOf(piece.main), ...means.map(write)];
    });
    fillRows(table.tBodies[0] ?? table.createTBody(), rows);
  }
}

/** Pieces with the arm that has most pulls in each, and runs of pieces that belong to one round. */
function preparePieces(status, { pieces: given, slots, width }) {
  const apart = new Set(selectArms(status.arms));
  const shown = [...apart, ...(apart.size < status.arms.length ? [OTHERS] : [])];
  const nameOf = (arm) => (arm === null ? "none" : arm === OTHERS ? "others" : nameArm(status.arms[arm]));
  let before = status.arms.map(() => 0);
  const pieces = given.map((piece) => {
    const pulled = countPulls(before, piece.pulls);
    before = piece.pulls;
    return { ...piece, pulled, main: pulled.length ? pulled[0][0] : null };
  });
  const runs = [];
  for (const { first, last, round: number, main, pulled } of pieces) {
    if (main === null) continue; // all slots were skipped
    const arm = apart.has(main) ? main : OTHERS;
    const pulls = new Map();
    for (const [each, count] of pulled) addPulls(pulls, apart.has(each) ? each : OTHERS, count);
    const run = runs.at(-1);
    if (run && run.arm === arm && run.round === number && run.last === first - 1) extendRun(run, last, pulls);
    // Of two rounds of one arm in a row, the second is pale.
    else runs.push({ first, last, arm, round: number, pulls, pale: run?.arm === arm && !run.pale });
  }
  const known = pieces.filter((piece) => piece.mean !== null);
  const low = Math.min(...known.map((piece) => piece.low));
  const high = Math.max(...known.map((piece) => piece.high));
  const ends = known.length ? { low, high } : { low: 0, high: 1 };
  const highs = known.map((piece) => piece.high);
  const [write, writeWithUnit] = [makeAmountFormat(highs), makeAmountFormat(highs, status.unit)];
  const texts = { write, writeWithUnit, nameOf, names: makeSlotNames(status), unit: status.unit };
  const units = Math.max(status.units.length, 1);
  return { pieces, runs, units, shown, ...ends, total: slots, several: width > 1, ...texts };
}

function addPulls(pulls, arm, count) {
  pulls.set(arm, (pulls.get(arm) ?? 0) + count);
}

function extendRun(run, last, pulls) {
  run.last = last;
  for (const [arm, count] of pulls) addPulls(run.pulls, arm, count);
}

/** Runs of at least so many slots, alone or on average with their neighbours: else rounds that grow would show gaps. */
function findWide(runs, slots) {
  const count = (run) => run.last - run.first + 1;
  const average = (some) => some.reduce((sum, run) => sum + count(run), 0) / some.length;
  const isWide = (run, at) => Math.max(count(run), average(runs.slice(Math.max(0, at - 1), at + 2))) >= slots;
  return new Set(runs.filter(isWide));
}

/** Wide runs as they are; the others joined with their neighbours, until each has at least so many slots. */
function joinRuns(runs, wide, slots) {
  const parts = [];
  for (const run of runs) {
    const part = parts.at(-1);
    const isOpen = part?.isOpen && part.last === run.first - 1 && part.last - part.first + 1 < slots;
    if (isOpen && !wide.has(run)) extendRun(part, run.last, run.pulls);
    else parts.push({ ...run, pulls: new Map(run.pulls), isOpen: !wide.has(run) });
  }
  return parts;
}

const round = (pixels) => Math.round(pixels * 10) / 10;
const drawBox = (left, right, top, bottom) => `M${left} ${top}H${right}V${bottom}H${left}Z`;

/** The pulls of each arm in a piece, the largest number first. */
function countPulls(before, after) {
  const pulled = [];
  after.forEach((pulls, arm) => pulls > before[arm] && pulled.push([arm, pulls - before[arm]]));
  return pulled.sort((a, b) => b[1] - a[1]);
}

/** Pieces with a mean, split where there is none. */
function findStretches(pieces) {
  const found = [[]];
  for (const piece of pieces) {
    if (piece.mean !== null) found.at(-1).push(piece);
    else if (found.at(-1).length) found.push([]);
  }
  return found.filter((stretch) => stretch.length);
}

function describePoint({ pieces, several, writeWithUnit, nameOf, names }, at) {
  const { first, last, round: number, mean, low, high, pulled } = pieces[at];
  const writePulls = (pulls) => (several ? formatQuantity(pulls, "pull") : "");
  const line = ([arm, pulls]) => ({ arm, label: nameOf(arm), value: writePulls(pulls) });
  const arms = pulled.slice(0, MAX_LINES).map(line);
  const more = pulled.length - MAX_LINES;
  if (more > 0) arms.push({ label: `and ${formatQuantity(more, "more arm")}`, value: "" });
  const within = number === null ? "skipped" : `round ${formatCount(number)}`;
  const title = `${capitalize(names.name(first, last))}, ${within}`;
  if (mean === null) return { title, lines: [{ label: "no total", value: "" }, ...arms] };
  const totals = several ? [["mean", mean], ["smallest", low], ["largest", high]] : [["total", mean]];
  return { title, lines: [...totals.map(([label, value]) => ({ label, value: writeWithUnit(value) })), ...arms] };
}

function summarize({ pieces, low, high, total, writeWithUnit: write, names }) {
  const known = pieces.filter((piece) => piece.mean !== null);
  if (known.length === 0) return `Totals of ${formatQuantity(total, "slot")}: none has come yet.`;
  const { first, last, mean } = known.at(-1);
  const latest = `${names.name(first, last)}: ${write(mean)}${first === last ? "" : " on average"}`;
  const all = `Totals of ${formatQuantity(total, "slot")}, from ${write(low)} to ${write(high)}.`;
  return `${all} The latest: ${latest}. All are in the table below.`;
}
