// Numbers and sentences as people read them.

const LANGUAGE = document.documentElement.lang;
const MISSING = "–";
/** Making a format takes longer than using it a hundred times. */
const formats = new Map();
const MOST_RANGES = 6;

const whole = new Intl.NumberFormat(LANGUAGE);
const percents = new Intl.NumberFormat(LANGUAGE, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const wholePercents = new Intl.NumberFormat(LANGUAGE, { style: "percent" });
const compact = new Intl.NumberFormat(LANGUAGE, { notation: "compact", maximumSignificantDigits: 3 });
const scientific = new Intl.NumberFormat(LANGUAGE, { notation: "scientific", maximumSignificantDigits: 4 });
const clock = new Intl.DateTimeFormat(LANGUAGE, { timeStyle: "medium" });
const joined = new Intl.ListFormat(LANGUAGE, { type: "conjunction" });
const plural = new Intl.PluralRules(LANGUAGE);

export const time = (moment) => clock.format(moment);
export const count = (number) => whole.format(number);
export const counted = (number, one, many = `${one}s`) => `${count(number)} ${plural.select(number) === "one" ? one : many}`;
export const wholePercent = (share) => wholePercents.format(share);
export const percent = (share) => (share === null ? MISSING : percents.format(share));
/** To one decimal; not below zero, where an estimate of a time can fall. */
export const tenths = (number) => withDigits(1).format(Math.max(0, number));
export const lasting = (slots) => `${tenths(slots)} slots`;
export const and = (parts) => joined.format(parts);

/** How to write amounts that belong together: with as many decimals as give the largest four digits. */
export function amounts(values) {
  const largest = values.reduce((most, value) => (value === null ? most : Math.max(most, Math.abs(value))), 0);
  const extreme = largest >= 1e9 || (largest > 0 && largest < 1e-3);
  const digits = largest > 0 ? Math.max(0, 3 - Math.floor(Math.log10(largest))) : 0;
  const format = extreme ? scientific : withDigits(digits);
  return (value) => (value === null ? MISSING : format.format(value));
}

/** How to write the ticks of an axis, given how far they are apart. */
export function tickAmounts(step, largest) {
  if (largest >= 1e5 || step < 1e-4) return (value) => compact.format(value);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return (value) => withDigits(digits).format(value);
}

function withDigits(digits) {
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  if (!formats.has(digits)) formats.set(digits, new Intl.NumberFormat(LANGUAGE, options));
  return formats.get(digits);
}

/** Slot numbers in a few words: "slots 3, 7 and 9–12". */
export function slots(numbers) {
  const ranges = [];
  for (const number of numbers) {
    const last = ranges.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  const shown = ranges.slice(0, MOST_RANGES).map(([first, last]) => span(first, last));
  const left = ranges.slice(MOST_RANGES).reduce((sum, [first, last]) => sum + last - first + 1, 0);
  if (left > 0) shown.push(`${count(left)} more`);
  return `${numbers.length === 1 ? "slot" : "slots"} ${and(shown)}`;
}

export const span = (first, last) => (first === last ? count(first) : `${count(first)}–${count(last)}`);

/** "running", or how else an experiment stands. */
export function state(status) {
  if (status.closed) return "closed";
  if (status.next === null) return "all decided";
  return status.next.hold ? "holding" : "running";
}

/** What runs now: words before the arm, the arm (or null), words after it. */
export function now(status) {
  const next = status.next;
  const rounds = counted(status.rounds, "round");
  if (status.closed) return [`Closed after ${counted(status.slots, "slot")} and ${rounds}.`, null, ""];
  if (next === null) return [`All ${count(status.slots)} slots of its horizon are decided.`, null, ""];
  if (status.slots === 0) return ["Nothing was asked yet: slot 0 will play ", next.arm, "."];
  if (next.hold) return ["Holds ", next.arm, `: round ${count(next.round)} has had its planned slots.`];
  return ["Now ", next.arm, `, up to slot ${count(next.until)}.`];
}

/** What it waits for, and which slot is next. */
export function waits(status) {
  const awaited = status.awaited;
  const totals = awaited.length === 1 ? "the total" : "the totals";
  if (status.closed) return "This is its final table.";
  if (status.next === null) return awaited.length ? `It waits for ${totals} of ${slots(awaited)}.` : "It can be closed.";
  const following = `Slot ${count(status.next.slot)} is the next to ask for, in round ${count(status.next.round)}.`;
  if (awaited.length === 0) return following;
  const why = status.next.hold ? "It goes on with the same arm until it is told" : "Not told yet:";
  return `${why} ${totals} of ${slots(awaited)}. ${following}`;
}

/** How long effects linger, or why that cannot be told. */
export function lingering({ known, reason, mean, low, high, level, lingers }) {
  if (!known) return `Cannot tell: ${reason}.`;
  if (high < 0.05 && lingers.high < 0.05) return "A reward lands in the very slot of its pull.";
  const average = `A reward takes ${lasting(mean)} on average (${wholePercent(level)} band ${tenths(low)} to ${tenths(high)})`;
  return `${average}; nine tenths have landed after ${lasting(lingers.value)} (${tenths(lingers.low)} to ${tenths(lingers.high)}).`;
}
