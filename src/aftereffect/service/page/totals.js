// Totals slot by slot, over rounds shaded in the colours of their arms.

import { dress, fillLegend, OTHERS, shownOf } from "./arms.js";
import { axisBelow, axisLeft, Chart, round, scale, ticks, widthOf } from "./charts.js";
import { draw, fill, keep, make, say, set } from "./dom.js";
import { amounts, count, counted, span } from "./words.js";

const HEIGHT = 320;
/** Of the strip that shows the arms in their full colour. */
const STRIP = 7;
const MOST_DOTS = 160;
const MOST_LINES = 6;

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
    if (timeline.slots === 0) return this.wait("Nothing to draw yet: no slot was asked for.");
    this.data = prepared(status, timeline);
    const several = `Mean of every ${count(timeline.width)} slots, within a band from the least to the most.`;
    const what = timeline.width === 1 ? "Each slot's total." : several;
    say(this.explanation, `${what} Rounds are shaded in the colour of the arm they play.`);
    this.show(this.data, summary(this.data));
    fillLegend(this.legend, this.data.shown, this.data.nameOf);
    this.fillTable();
  }

  paint(width, { pieces, runs, shown, least, most, total, several }) {
    const [from, to] = round(least, most, 5);
    const upwards = ticks(from, to, 5);
    const left = Math.max(...upwards.values.map((value) => widthOf(upwards.write(value)))) + 12;
    const area = this.size(width, HEIGHT, { left, right: 14, top: 20, bottom: 42 + STRIP });
    const x = scale(0, total, area.left, area.right);
    const y = scale(from, to, area.bottom, area.top);
    const below = { ...area, bottom: area.bottom + STRIP };
    // A slot reaches from its number to the next: its tick stands in its middle.
    const slots = ticks(0, total - 1, (area.right - area.left) / 90, true);
    axisBelow(this.layer("below"), below, (slot) => x(slot + 0.5), slots, "slot");
    this.#shade(shown, runs, area, x);
    axisLeft(this.layer("grid"), area, y, upwards, several ? "total per slot: mean, least to most" : "total per slot");
    const told = stretches(pieces);
    const middle = (piece) => x((piece.first + piece.last + 1) / 2);
    const line = (of, value) => of.map((piece) => `${middle(piece)} ${y(value(piece))}`);
    const around = (of) => [...line(of, (piece) => piece.most), ...line(of, (piece) => piece.least).reverse()];
    const [range, mean, dots] = keep(this.layer("lines"), 3, (at) => draw("path", { class: ["range", "mean", "dots"][at] }));
    set(range, { d: several ? told.map((of) => `M${around(of).join("L")}Z`).join("") : "" });
    set(mean, { d: told.map((of) => `M${line(of, (piece) => piece.mean).join("L")}`).join("") });
    // A stretch of length nothing with round ends is a dot.
    const dotted = pieces.length <= MOST_DOTS ? told.flat() : [];
    set(dots, { d: dotted.map((piece) => `M${middle(piece)} ${y(piece.mean)}h0`).join("") });
    this.points = {
      count: pieces.length,
      at: (at) => ({ x: middle(pieces[at]), y: y(pieces[at].mean ?? from), from: area.top, to: below.bottom }),
      near: (pixel) => Math.min(pieces.length - 1, Math.max(0, Math.floor(x.back(pixel) / (pieces[0].last + 1)))),
      text: (at) => described(this.data, at),
    };
  }

  #shade(shown, runs, area, x) {
    const kinds = keep(this.layer("rounds"), shown.length, () => draw("g", {}, draw("path"), draw("path"), draw("path")));
    const box = (of, top, bottom) =>
      of.map(({ first, last }) => `M${x(first)} ${top}H${x(last + 1)}V${bottom}H${x(first)}Z`).join("");
    shown.forEach((arm, at) => {
      const own = runs.filter((run) => run.arm === arm);
      const [full, pale, strip] = kinds[at].children;
      set(dress(full, arm, "shade"), { d: box(own.filter((run) => !run.pale), area.top, area.bottom) });
      set(dress(pale, arm, "shade pale"), { d: box(own.filter((run) => run.pale), area.top, area.bottom) });
      set(dress(strip, arm, "strip"), { d: box(own, area.bottom, area.bottom + STRIP) });
    });
  }

  /** As a table, the latest first; only while it is open. */
  fillTable() {
    if (!this.table.open || !this.data) return;
    const { pieces, several, write, nameOf } = this.data;
    const table = this.table.querySelector("table");
    const ofSeveral = ["slots", "last round", "most played arm", "mean", "least", "most"];
    const titles = several ? ofSeveral : ["slot", "round", "arm", "total"];
    const [row] = keep(table.tHead ?? table.createTHead(), 1, () => make("tr"));
    const cells = keep(row, titles.length, () => make("th", { scope: "col" }));
    titles.forEach((title, at) => say(cells[at], title));
    const rows = pieces.toReversed().map((piece) => {
      const means = several ? [piece.mean, piece.least, piece.most] : [piece.mean];
      const number = piece.round === null ? "–" : count(piece.round);
      return [span(piece.first, piece.last), number, nameOf(piece.main), ...means.map(write)];
    });
    fill(table.tBodies[0] ?? table.createTBody(), rows);
  }
}

/** Pieces with the arm that was played most in each, and runs of pieces that belong to one round. */
function prepared(status, { pieces: given, slots, width }) {
  const apart = new Set(shownOf(status.arms));
  const shown = [...apart, ...(apart.size < status.arms.length ? [OTHERS] : [])];
  const nameOf = (arm) => (arm === null ? "none" : arm === OTHERS ? "others" : status.arms[arm].arm);
  let before = status.arms.map(() => 0);
  const pieces = given.map((piece) => {
    const played = differences(before, piece.plays);
    before = piece.plays;
    return { ...piece, played, main: played.length ? played[0][0] : null };
  });
  const runs = [];
  for (const { first, last, round: number, main } of pieces) {
    if (main === null) continue; // nothing was played
    const arm = apart.has(main) ? main : OTHERS;
    const run = runs.at(-1);
    if (run && run.arm === arm && run.round === number && run.last === first - 1) run.last = last;
    else runs.push({ first, last, arm, round: number, pale: run?.arm === arm && !run.pale }); // so that both can be seen
  }
  const told = pieces.filter((piece) => piece.mean !== null);
  const least = Math.min(...told.map((piece) => piece.least));
  const most = Math.max(...told.map((piece) => piece.most));
  const ends = told.length ? { least, most } : { least: 0, most: 1 };
  const write = amounts(told.map((piece) => piece.most));
  return { pieces, runs, shown, ...ends, total: slots, several: width > 1, write, nameOf };
}

/** How often each arm was played in a piece, the most played first. */
function differences(before, after) {
  const played = [];
  after.forEach((plays, arm) => plays > before[arm] && played.push([arm, plays - before[arm]]));
  return played.sort((a, b) => b[1] - a[1]);
}

/** Pieces with a mean, cut where there is none. */
function stretches(pieces) {
  const found = [[]];
  for (const piece of pieces) {
    if (piece.mean !== null) found.at(-1).push(piece);
    else if (found.at(-1).length) found.push([]);
  }
  return found.filter((stretch) => stretch.length);
}

function described({ pieces, several, write, nameOf }, at) {
  const { first, last, round: number, mean, least, most, played } = pieces[at];
  const slots = (plays) => (several ? counted(plays, "slot") : "");
  const arms = played.slice(0, MOST_LINES).map(([arm, plays]) => ({ arm, label: nameOf(arm), value: slots(plays) }));
  if (played.length > MOST_LINES) arms.push({ label: `and ${counted(played.length - MOST_LINES, "more arm")}`, value: "" });
  const within = number === null ? "skipped" : `round ${count(number)}`;
  const title = `${first === last ? "Slot" : "Slots"} ${span(first, last)}, ${within}`;
  if (mean === null) return { title, lines: [{ label: "nothing told", value: "" }, ...arms] };
  const totals = several ? [["mean", mean], ["least", least], ["most", most]] : [["total", mean]];
  return { title, lines: [...totals.map(([label, value]) => ({ label, value: write(value) })), ...arms] };
}

function summary({ pieces, least, most, total, write }) {
  const told = pieces.filter((piece) => piece.mean !== null);
  if (told.length === 0) return `Totals of ${counted(total, "slot")}: none is told yet.`;
  const { first, last, mean } = told.at(-1);
  const [slots, average] = first === last ? ["slot", ""] : ["slots", " on average"];
  const latest = `${slots} ${span(first, last)}: ${write(mean)}${average}`;
  const all = `Totals of ${counted(total, "slot")}, from ${write(least)} to ${write(most)}.`;
  return `${all} The latest told, ${latest}. All are in the table below.`;
}
