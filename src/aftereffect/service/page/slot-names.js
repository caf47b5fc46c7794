// @ts-check
// How slots are named: by their numbers, or by dates and times where the experiment has a calendar.

import { makeTicks } from "./charts.js";
import { formatCount, formatQuantity, joinWords, LANGUAGE } from "./format.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const WEEK = 7 * DAY;
const MONTH = 30.4 * DAY;
const LENGTHS = { "15min": 15 * MINUTE, "1h": HOUR, "1d": DAY, "1w": WEEK };
/** What a slot is called: alone, in the plural, and after "per". */
const SLOT_NOUNS = {
  "15min": ["slot of 15 minutes", "slots of 15 minutes", "15 minutes"],
  "1h": ["hour", "hours", "hour"],
  "1d": ["day", "days", "day"],
  "1w": ["week", "weeks", "week"],
};
/** A Monday: weeks are counted from it. */
const MONDAY = Date.UTC(1970, 0, 5);
const SHORT_DISTANCES = [15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, WEEK, 2 * WEEK];
const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];
/** Distances between ticks: their length, or about that of some months, and the pixels that a label needs. */
const DISTANCES = [
  ...SHORT_DISTANCES.map((length) => ({ length, months: 0, pixels: 82 })),
  ...MONTHS.map((months) => ({ length: months * MONTH, months, pixels: 60 })),
];
/** Minutes between two moments at which clocks show the same time, when they are set back. */
const SETBACKS = [-60, -30, 30, 60];

const days = new Intl.DateTimeFormat(LANGUAGE, {
  timeZone: "UTC", weekday: "short", day: "numeric", month: "short", year: "numeric",
});

/** The names of an experiment's slots. */
export function makeSlotNames({ start, slot_length: length, timezone }) {
  if (start === null) return new SlotNumbers();
  try {
    return new SlotTimes(start, length, timezone);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return new SlotNumbers(); // the service knows a time zone that this browser does not
  }
}

/** The calendar of an experiment as titles and texts; none if it has no calendar. */
export function describeCalendar({ start, slot_length: length, timezone }) {
  if (start === null) return [];
  const wall = readWall(start);
  const begin = `${formatDate(wall, true)}, ${formatClock(wall)} (${timezone})`;
  const [, , per] = SLOT_NOUNS[length];
  return [["slot length", /^\d/.test(per) ? per : `1 ${per}`], ["start", begin]];
}

class SlotNumbers {
  oneSlot = "slot";
  manySlots = "slots";
  perSlot = "slot";
  axis = "slot";
  axisSoFar = "slots so far";
  column = "slot";
  columnOfSpans = "slots";
  columnSoFar = "slots so far";
  /** Where the tick of a slot is within the slot. */
  tickPlace = 0.5;

  /** Slots within a sentence. */
  name(first, last = first) {
    return `${first === last ? "slot" : "slots"} ${this.write(first, last)}`;
  }

  /** Slots alone, as in a table: one, or the first and the last. */
  write(first, last) {
    return first === last ? formatCount(first) : `${formatCount(first)}–${formatCount(last)}`;
  }

  /** The end of a plan, within a sentence. */
  nameEnd(slot) {
    return this.name(slot);
  }

  /** All slots up to one, alone. */
  writeSoFar(slot) {
    return formatCount(slot + 1);
  }

  /** All slots up to one, as a title. */
  nameSoFar(slot) {
    return `After ${formatQuantity(slot + 1, "slot")}`;
  }

  /** Several parts that `write` made, within a sentence. */
  join(parts, slots) {
    return `${slots === 1 ? "slot" : "slots"} ${joinWords(parts)}`;
  }

  /** Ticks from slot 0 to another one, on an axis of this width in pixels. */
  makeTicks(last, width) {
    return makeTicks(0, last, width / 90, true);
  }

  /** A moment of the log: here on the clocks of the visitor. */
  writeMoment(time) {
    const moment = new Date(time);
    const wall = moment.getTime() - moment.getTimezoneOffset() * MINUTE;
    return `${formatDate(wall, moment.getFullYear() !== new Date().getFullYear())}, ${formatClock(wall)}`;
  }
}

/**
 * Times are of two kinds here, both in milliseconds: an instant, and what clocks on the wall show at an instant,
 * as if they were in UTC. Slots shorter than a day are counted in instants. Slots of a day or a week are counted on
 * the wall: they begin at the same time of day, and their names are dates.
 */
class SlotTimes {
  #startWall;
  #start;
  #length;
  #zone;
  #isShort;

  constructor(start, length, timezone) {
    this.#startWall = readWall(start);
    this.#start = Date.parse(start);
    this.#length = LENGTHS[length];
    this.#isShort = this.#length < DAY;
    [this.oneSlot, this.manySlots, this.perSlot] = SLOT_NOUNS[length];
    const numbers = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric" };
    const options = { ...numbers, hourCycle: "h23", timeZoneName: "shortOffset", timeZone: timezone };
    this.#zone = new Intl.DateTimeFormat(LANGUAGE, /** @type {Intl.DateTimeFormatOptions} */ (options));
    this.axis = this.axisSoFar = this.#isShort ? `time in ${timezone}` : "date";
    this.column = this.columnOfSpans = this.#isShort ? "time" : "date";
    this.columnSoFar = "up to";
    this.tickPlace = this.#isShort ? 0 : 0.5;
  }

  name(first, last = first) {
    return this.write(first, last);
  }

  write(first, last) {
    const from = this.#writeStart(first);
    if (this.#isShort && first === last) return from.join(", ");
    const to = this.#writeEnd(last);
    if (from[0] === to[0]) return this.#isShort ? `${from.join(", ")}–${to[1]}` : from[0];
    // A year that both ends share is written once.
    const year = / \d+$/.exec(to[0])?.[0];
    if (year && from[0].endsWith(year)) from[0] = from[0].slice(0, -year.length);
    return `${from.join(", ")} – ${to.join(", ")}`;
  }

  nameEnd(slot) {
    return this.writeSoFar(slot);
  }

  writeMoment(time) {
    return this.#writeInstant(Date.parse(time)).join(", ");
  }

  writeSoFar(slot) {
    return this.#writeEnd(slot).join(", ");
  }

  nameSoFar(slot) {
    return `Up to ${this.writeSoFar(slot)}`;
  }

  join(parts) {
    return parts.join("; "); // a time has a comma within
  }

  makeTicks(last, width) {
    const [from, to] = [this.#findWall(0), this.#findWall(last)];
    const fits = ({ length, pixels }) => length >= this.#length && length * width >= (to - from) * pixels;
    const distance = DISTANCES.find(fits) ?? DISTANCES.at(-1);
    const labels = new Map();
    let before = null;
    for (const place of listPlaces(from, to, distance)) {
      const slot = this.#findSlot(place);
      if (slot < 0 || slot > last || labels.has(slot)) continue;
      const wall = this.#findWall(slot);
      labels.set(slot, this.#writeTick(wall, before, distance));
      before = wall;
    }
    // A narrow axis may lie between two round places.
    if (labels.size === 0) labels.set(0, this.#writeStart(0).join(", "));
    return { values: [...labels.keys()], write: (slot) => labels.get(slot) };
  }

  /** The date, and for slots shorter than a day the time. */
  #writeStart(slot) {
    return this.#isShort ? this.#writeInstant(this.#findInstant(slot)) : [this.#writeDate(this.#findWall(slot))];
  }

  /** The last day of a slot, or the time at which it ends. */
  #writeEnd(slot) {
    if (!this.#isShort) return [this.#writeDate(this.#findWall(slot + 1) - DAY)];
    const end = this.#findInstant(slot + 1);
    const wall = this.#showClock(end);
    return wall % DAY === 0 ? [this.#writeDate(wall - DAY), "24:00"] : this.#writeInstant(end);
  }

  #writeInstant(instant) {
    const wall = this.#showClock(instant);
    const isDouble = SETBACKS.some((minutes) => this.#showClock(instant + minutes * MINUTE) === wall);
    const offset = isDouble ? ` ${this.#readClock(instant).timeZoneName}` : "";
    return [this.#writeDate(wall), formatClock(wall) + offset];
  }

  /** The page shows the year of the start in full, so only other years are written. */
  #writeDate(wall) {
    return formatDate(wall, !isSameYear(wall, this.#startWall));
  }

  /** What changes from tick to tick; what stays, only at the first. */
  #writeTick(wall, before, { length, months }) {
    if (months >= 12) return String(new Date(wall).getUTCFullYear());
    const isNewYear = !isSameYear(wall, before ?? this.#startWall);
    if (months) return formatMonth(wall, before === null || isNewYear);
    const date = formatDate(wall, isNewYear);
    if (length >= DAY) return date;
    const isNewDay = before === null || Math.floor(wall / DAY) !== Math.floor(before / DAY);
    if (!isNewDay) return formatClock(wall);
    return wall % DAY === 0 ? date : `${date}, ${formatClock(wall)}`;
  }

  #findInstant(slot) {
    return this.#start + slot * this.#length;
  }

  /** What clocks show when a slot begins. */
  #findWall(slot) {
    return this.#isShort ? this.#showClock(this.#findInstant(slot)) : this.#startWall + slot * this.#length;
  }

  /** The place of a time on the wall among the slots; for dates, the first slot from there on. */
  #findSlot(wall) {
    if (!this.#isShort) return Math.ceil((wall - this.#startWall) / this.#length) || 0; // no -0
    // Clocks have the offset of the day before or of the day after. A time that they skip becomes a later one.
    const [early, late] = [-DAY, DAY].map((away) => wall - (this.#showClock(wall + away) - (wall + away)));
    const instant = this.#showClock(early) !== wall && this.#showClock(late) === wall ? late : early;
    return (instant - this.#start) / this.#length;
  }

  #showClock(instant) {
    const { year, month, day, hour, minute } = this.#readClock(instant);
    return Date.UTC(year, month - 1, day, hour, minute);
  }

  #readClock(instant) {
    return Object.fromEntries(this.#zone.formatToParts(instant).map(({ type, value }) => [type, value]));
  }
}

const readWall = (time) => Date.parse(`${time.slice(0, 19)}Z`);
const formatClock = (wall) => new Date(wall).toISOString().slice(11, 16);
const isSameYear = (wall, other) => new Date(wall).getUTCFullYear() === new Date(other).getUTCFullYear();

function formatDate(wall, withYear) {
  const { weekday, day } = readDate(wall);
  return `${weekday} ${day} ${formatMonth(wall, withYear)}`;
}

function formatMonth(wall, withYear) {
  const { month, year } = readDate(wall);
  return withYear ? `${month} ${year}` : month;
}

function readDate(wall) {
  return Object.fromEntries(days.formatToParts(wall).map(({ type, value }) => [type, value]));
}

/** Round places of the calendar, from the last one before a time to another time. */
function* listPlaces(from, to, { length, months }) {
  if (months) {
    const date = new Date(from);
    const since = (date.getUTCFullYear() - 2000) * 12 + date.getUTCMonth();
    const first = Math.floor(since / months) * months;
    for (let month = first; Date.UTC(2000, month) <= to; month += months) yield Date.UTC(2000, month);
    return;
  }
  const first = Math.floor((from - MONDAY) / length) * length + MONDAY;
  for (let place = first; place <= to; place += length) yield place;
}
