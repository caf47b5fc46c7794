// Share of slots per arm over time: areas upon each other, named at their ends.

import { dress, fillLegend, OTHERS, shownOf } from "./arms.js";
import { axisBelow, axisLeft, Chart, fitting, scale, ticks, widthOf } from "./charts.js";
import { draw, fill, keep, make, say, set } from "./dom.js";
import { and, count, counted, percent, wholePercent } from "./words.js";

const HEIGHT = 280;
const TOP = 20;
const BOTTOM = 42;
const LINE = 15;
/** Room for a square and a percentage at each name. */
const BESIDE_NAMES = 26 + Math.ceil(widthOf(" 100%"));
/** An area that is thinner has no place for a name. */
const LEAST_NAMED = 0.03;
/** Lines between areas would be all one sees of more than these. */
const MOST_OUTLINED = 16;
/** Rows of the table, and lines of a tip: enough to read, few enough to take in. */
const MOST_ROWS = 16;
const MOST_LINES = 8;

export class Shares extends Chart {
  constructor(figure, table) {
    super(figure, "Share of slots, from the first slot to now");
    this.legend = figure.appendChild(make("ul", { class: "legend", "aria-label": "Legend: arms" }));
    this.table = table;
    table.addEventListener("toggle", () => this.fillTable());
  }

  update(status, timeline) {
    this.legend.hidden = true;
    if (timeline.slots === 0) return this.wait("Nothing to draw yet: no slot was asked for.");
    this.data = prepared(status, timeline);
    this.show(this.data, summary(this.data));
    this.fillTable();
  }

  paint(width, { bands, pieces, total }) {
    const named = namedOf(bands, pieces.length - 1);
    const names = Math.min(Math.max(...named.map((band) => widthOf(bands[band].name))), width * 0.2, 180);
    const right = named.length ? names + BESIDE_NAMES : 14;
    const area = this.size(width, HEIGHT, { left: 44, right, top: TOP, bottom: BOTTOM });
    const x = scale(0, total, area.left, area.right);
    const y = scale(0, 1, area.bottom, area.top);
    axisBelow(this.layer("below"), area, x, ticks(0, total, (area.right - area.left) / 90, true), "slots so far");
    const outlined = { "data-outlined": bands.length <= MOST_OUTLINED };
    const areas = keep(this.layer("areas", outlined), bands.length, () => draw("path"));
    const lower = (band, piece) => (band + 1 < bands.length ? bands[band + 1].upper[piece] : 0);
    bands.forEach(({ arm, upper }, band) => {
      const top = pieces.map((piece, at) => `${x(piece.last + 1)} ${y(upper[at])}`);
      const bottom = pieces.map((piece, at) => `${x(piece.last + 1)} ${y(lower(band, at))}`).reverse();
      // There is nothing before the first piece: it reaches back to the axis.
      const corners = [`${area.left} ${y(upper[0])}`, ...top, ...bottom, `${area.left} ${y(lower(band, 0))}`];
      set(dress(areas[band], arm), { d: `M${corners.join("L")}Z` });
    });
    axisLeft(this.layer("grid"), area, y, { values: [0, 0.25, 0.5, 0.75, 1], write: wholePercent }, "share of slots");
    this.#name(bands, named, names, area, (band) => y((bands[band].upper.at(-1) + lower(band, pieces.length - 1)) / 2));
    this.points = {
      count: pieces.length,
      at: (at) => ({ x: x(pieces[at].last + 1), y: (area.top + area.bottom) / 2, from: area.top, to: area.bottom }),
      near: (pixel) => nearest(pieces, x.back(pixel) - 1),
      text: (at) => described(bands, pieces[at], at),
    };
  }

  /** Names at the right, moved apart where they would overlap; a legend names all if these do not. */
  #name(bands, named, width, area, middle) {
    this.legend.hidden = named.length === bands.length;
    if (!this.legend.hidden) {
      const nameOf = new Map(bands.map(({ arm, name }) => [arm, name]));
      fillLegend(this.legend, [...nameOf.keys()], (arm) => nameOf.get(arm));
    }
    const places = apart(named.map(middle), area.top + LINE / 2, area.bottom - LINE / 2);
    const parts = () => [draw("path", { class: "leader" }), draw("rect", { width: 8, height: 8, rx: 2 }), draw("text")];
    const labels = keep(this.layer("names"), named.length, () => draw("g", {}, ...parts()));
    named.forEach((band, at) => {
      const { arm, name, share } = bands[band];
      const [leader, square, text] = labels[at].children;
      set(leader, { d: `M${area.right + 1} ${middle(band)}L${area.right + 9} ${places[at]}` });
      set(dress(square, arm), { x: area.right + 11, y: places[at] - 4 });
      set(text, { class: "label", x: area.right + 23, y: places[at] + 4 });
      say(text, `${fitting(name, width + 1)} ${wholePercent(share.at(-1))}`);
    });
  }

  /** As a table, at some slots; only while it is open. */
  fillTable() {
    if (!this.table.open || !this.data) return;
    const { bands, pieces } = this.data;
    const table = this.table.querySelector("table");
    const head = table.tHead ?? table.createTHead();
    const [row] = keep(head, 1, () => make("tr"));
    const titles = ["slots so far", ...bands.map(({ name }) => name)];
    const cells = keep(row, titles.length, () => make("th", { scope: "col" }));
    titles.forEach((title, at) => say(cells[at], title));
    const step = Math.max(1, Math.ceil(pieces.length / MOST_ROWS));
    const chosen = pieces.map((_, at) => at).filter((at) => (pieces.length - 1 - at) % step === 0);
    const line = (at) => [count(pieces[at].last + 1), ...bands.map(({ share }) => percent(share[at]))];
    fill(table.tBodies[0] ?? table.createTBody(), chosen.map(line));
  }
}

/** From pieces with plays of all arms to bands with shares of those that are shown; the first arm lies on top. */
function prepared(status, { pieces, slots }) {
  const shown = shownOf(status.arms);
  const bands = shown.map((arm) => ({ arm, name: status.arms[arm].arm }));
  if (shown.length < status.arms.length) bands.push({ arm: OTHERS, name: counted(status.arms.length - shown.length, "other") });
  bands.forEach((band) => Object.assign(band, { share: [], upper: [] }));
  for (const { plays } of pieces) {
    const all = plays.reduce((sum, each) => sum + each, 0); // fewer than slots where some were skipped
    let left = all;
    for (const band of bands) {
      const own = band.arm === OTHERS ? left : plays[band.arm];
      band.share.push(own / (all || 1));
      band.upper.push(left / (all || 1));
      left -= own;
    }
  }
  return { bands, pieces, total: slots };
}

/** Which bands have a name at their end: the largest, as many as there is room for. */
function namedOf(bands, last) {
  const wide = bands.map((_, band) => band).filter((band) => bands[band].share[last] > LEAST_NAMED);
  const largest = wide.sort((a, b) => bands[b].share[last] - bands[a].share[last]);
  return largest.slice(0, Math.floor((HEIGHT - TOP - BOTTOM) / LINE)).sort((a, b) => a - b);
}

function nearest(pieces, slot) {
  const width = pieces.length > 1 ? pieces[1].first : 1;
  const at = Math.min(pieces.length - 1, Math.max(0, Math.floor(slot / width)));
  return at > 0 && slot - pieces[at - 1].last < pieces[at].last - slot ? at - 1 : at;
}

/** Move places apart so that no two are closer than a line. */
function apart(places, first, last) {
  const moved = [];
  places.forEach((place, at) => moved.push(Math.max(place, at === 0 ? first : moved[at - 1] + LINE)));
  for (let at = moved.length - 1; at >= 0; at -= 1) {
    moved[at] = Math.min(moved[at], at === moved.length - 1 ? last : moved[at + 1] - LINE);
  }
  return moved;
}

function described(bands, piece, at) {
  const played = bands.filter(({ share }) => share[at] > 0).sort((a, b) => b.share[at] - a.share[at]);
  const lines = played.slice(0, MOST_LINES).map(({ arm, name, share }) => ({ arm, label: name, value: percent(share[at]) }));
  if (played.length > MOST_LINES) lines.push({ label: `and ${counted(played.length - MOST_LINES, "more arm")}`, value: "" });
  return { title: `After ${counted(piece.last + 1, "slot")}`, lines };
}

function summary({ bands, pieces, total }) {
  if (pieces.length === 0) return "Share of slots per arm: no slot was asked for yet.";
  const last = pieces.length - 1;
  const largest = bands.filter(({ share }) => share[last] > 0).sort((a, b) => b.share[last] - a.share[last]).slice(0, 5);
  const parts = largest.map(({ name, share }) => `${name} ${percent(share[last])}`);
  return `Share of ${counted(total, "slot")} per arm, over time. Now ${and(parts)}. More is in the table below.`;
}
