// @ts-check
// Share of pulls per arm over time: stacked areas, named at their right end.

import { applyLook, fillLegend, nameArm, OTHERS, selectArms } from "./arms.js";
import { drawAxisBelow, drawAxisLeft, Chart, truncateTexts, makeScale, measureText } from "./charts.js";
import { MIN_WIDE } from "./charts.js";
import { makeSvg, fillRows, resizeChildren, make, setText, setAttributes } from "./dom.js";
import { makeSlotNames } from "./slot-names.js";
import { joinWords, formatQuantity, formatPercent, formatWholePercent } from "./format.js";

const HEIGHT = 280;
const TOP = 20;
const BOTTOM = 42;
const LINE = 15;
/** Pixels for a square and a percentage beside each name. */
const BESIDE_NAMES = 26 + Math.ceil(measureText(" 100%"));
/** Thinner areas have no room for a name. */
const MIN_NAMED = 0.03;
/** With more areas than this, the lines between them would hide the areas. */
const MAX_OUTLINED = 16;
/** Rows of the table, and lines of a tooltip. */
const MAX_ROWS = 16;
const MAX_LINES = 8;

export class Shares extends Chart {
  constructor(figure, table) {
    super(figure, "Share of pulls, from the first slot to now");
    this.legend = figure.appendChild(make("ul", { class: "legend", "aria-label": "Legend: arms" }));
    this.table = table;
    table.addEventListener("toggle", () => this.fillTable());
  }

  update(status, timeline) {
    this.legend.hidden = true;
    if (timeline.slots === 0) return this.showNote("No slots yet.");
    this.data = prepareBands(status, timeline);
    this.show(this.data, summarize(this.data));
    this.fillTable();
  }

  paint(width, { bands, pieces, total, names: slotNames }) {
    const named = width < MIN_WIDE ? [] : selectNamed(bands, pieces.length - 1);
    const names = Math.min(Math.max(...named.map((band) => measureText(bands[band].name))), width * 0.22, 220);
    const right = named.length ? names + BESIDE_NAMES : 14;
    const area = this.resize(width, HEIGHT, { left: 44, right, top: TOP, bottom: BOTTOM });
    const x = makeScale(0, total, area.left, area.right);
    const y = makeScale(0, 1, area.bottom, area.top);
    const below = slotNames.makeTicks(total, area.right - area.left);
    drawAxisBelow(this.getLayer("below"), area, x, below, slotNames.axisSoFar);
    const outlined = { "data-outlined": bands.length <= MAX_OUTLINED };
    const areas = resizeChildren(this.getLayer("areas", outlined), bands.length, () => makeSvg("path"));
    const lower = (band, piece) => (band + 1 < bands.length ? bands[band + 1].upper[piece] : 0);
    bands.forEach(({ arm, upper }, band) => {
      const top = pieces.map((piece, at) => `${x(piece.last + 1)} ${y(upper[at])}`);
      const bottom = pieces.map((piece, at) => `${x(piece.last + 1)} ${y(lower(band, at))}`).reverse();
      // The first piece reaches back to the axis.
      const corners = [`${area.left} ${y(upper[0])}`, ...top, ...bottom, `${area.left} ${y(lower(band, 0))}`];
      setAttributes(applyLook(areas[band], arm), { d: `M${corners.join("L")}Z` });
    });
    const quarters = { values: [0, 0.25, 0.5, 0.75, 1], write: formatWholePercent };
    drawAxisLeft(this.getLayer("grid"), area, y, quarters, "share of pulls");
    const middle = (band) => y((bands[band].upper.at(-1) + lower(band, pieces.length - 1)) / 2);
    this.#writeNames(bands, named, names, area, middle);
    this.points = {
      count: pieces.length,
      at: (at) => ({ x: x(pieces[at].last + 1), y: (area.top + area.bottom) / 2, from: area.top, to: area.bottom }),
      near: (pixel) => findNearest(pieces, x.back(pixel) - 1),
      text: (at) => describePoint(this.data, at),
    };
  }

  /** Write names at the right, moved apart where they would overlap; a legend if not all have room. */
  #writeNames(bands, named, width, area, middle) {
    this.legend.hidden = named.length === bands.length;
    if (!this.legend.hidden) {
      const label = ({ name, share }) => `${name} ${formatWholePercent(share.at(-1))}`;
      const nameOf = new Map(bands.map((band) => [band.arm, label(band)]));
      fillLegend(this.legend, [...nameOf.keys()], (arm) => nameOf.get(arm));
    }
    const places = moveApart(named.map(middle), area.top + LINE / 2, area.bottom - LINE / 2);
    const square = () => makeSvg("rect", { width: 8, height: 8, rx: 2 });
    const parts = () => [makeSvg("path", { class: "leader" }), square(), makeSvg("text")];
    const labels = resizeChildren(this.getLayer("names"), named.length, () => makeSvg("g", {}, ...parts()));
    const arms = named.filter((band) => bands[band].arm !== OTHERS);
    const texts = truncateTexts(arms.map((band) => bands[band].name), width + 1);
    named.forEach((band, at) => {
      const { arm, name, share } = bands[band];
      const [leader, square, text] = labels[at].children;
      setAttributes(leader, { d: `M${area.right + 1} ${middle(band)}L${area.right + 9} ${places[at]}` });
      setAttributes(applyLook(square, arm), { x: area.right + 11, y: places[at] - 4 });
      setAttributes(text, { class: "label", x: area.right + 23, y: places[at] + 4 });
      setText(text, `${texts[at] ?? name} ${formatWholePercent(share.at(-1))}`);
    });
  }

  /** As a table, at some slots; only while it is open. */
  fillTable() {
    if (!this.table.open || !this.data) return;
    const { bands, pieces, names } = this.data;
    const table = this.table.querySelector("table");
    const head = table.tHead ?? table.createTHead();
    const [row] = resizeChildren(head, 1, () => make("tr"));
    const titles = [names.columnSoFar, ...bands.map(({ name }) => name)];
    const cells = resizeChildren(row, titles.length, () => make("th", { scope: "col" }));
    titles.forEach((title, at) => setText(cells[at], title));
    const step = Math.max(1, Math.ceil(pieces.length / MAX_ROWS));
    const chosen = pieces.map((_, at) => at).filter((at) => (pieces.length - 1 - at) % step === 0);
    const line = (at) => [names.writeSoFar(pieces[at].last), ...bands.map(({ share }) => formatPercent(share[at]))];
    fillRows(table.tBodies[0] ?? table.createTBody(), chosen.map(line));
  }
}

/** From pieces with the pulls of all arms to bands with the shares of the shown arms; the first is on top. */
function prepareBands(status, { pieces, slots }) {
  const shown = selectArms(status.arms);
  const bands = shown.map((arm) => ({ arm, name: nameArm(status.arms[arm]) }));
  const others = status.arms.length - shown.length;
  if (others > 0) bands.push({ arm: OTHERS, name: formatQuantity(others, "other") });
  bands.forEach((band) => Object.assign(band, { share: [], upper: [] }));
  for (const { pulls } of pieces) {
    const all = pulls.reduce((sum, each) => sum + each, 0); // fewer than slots where some were skipped
    let left = all;
    for (const band of bands) {
      const own = band.arm === OTHERS ? left : pulls[band.arm];
      band.share.push(own / (all || 1));
      band.upper.push(left / (all || 1));
      left -= own;
    }
  }
  return { bands, pieces, total: slots, names: makeSlotNames(status) };
}

/** The bands with a name at their end: the largest, as many as there is room for. */
function selectNamed(bands, last) {
  const wide = bands.map((_, band) => band).filter((band) => bands[band].share[last] > MIN_NAMED);
  const largest = wide.sort((a, b) => bands[b].share[last] - bands[a].share[last]);
  return largest.slice(0, Math.floor((HEIGHT - TOP - BOTTOM) / LINE)).sort((a, b) => a - b);
}

function findNearest(pieces, slot) {
  const width = pieces.length > 1 ? pieces[1].first : 1;
  const at = Math.min(pieces.length - 1, Math.max(0, Math.floor(slot / width)));
  return at > 0 && slot - pieces[at - 1].last < pieces[at].last - slot ? at - 1 : at;
}

/** Move positions apart so that no two are closer than a line. */
function moveApart(places, first, last) {
  const moved = [];
  places.forEach((place, at) => moved.push(Math.max(place, at === 0 ? first : moved[at - 1] + LINE)));
  for (let at = moved.length - 1; at >= 0; at -= 1) {
    moved[at] = Math.min(moved[at], at === moved.length - 1 ? last : moved[at + 1] - LINE);
  }
  return moved;
}

function describePoint({ bands, pieces, names }, at) {
  const pulled = bands.filter(({ share }) => share[at] > 0).sort((a, b) => b.share[at] - a.share[at]);
  const line = ({ arm, name, share }) => ({ arm, label: name, value: formatPercent(share[at]) });
  const lines = pulled.slice(0, MAX_LINES).map(line);
  const more = pulled.length - MAX_LINES;
  if (more > 0) lines.push({ label: `and ${formatQuantity(more, "more arm")}`, value: "" });
  return { title: names.nameSoFar(pieces[at].last), lines };
}

function summarize({ bands, pieces, total }) {
  if (pieces.length === 0) return "Share of pulls per arm: no slots yet.";
  const last = pieces.length - 1;
  const pulled = bands.filter(({ share }) => share[last] > 0);
  const largest = pulled.sort((a, b) => b.share[last] - a.share[last]).slice(0, 5);
  const parts = largest.map(({ name, share }) => `${name} ${formatPercent(share[last])}`);
  const now = `Now ${joinWords(parts)}. More is in the table below.`;
  return `Share of pulls per arm over ${formatQuantity(total, "slot")}. ${now}`;
}
