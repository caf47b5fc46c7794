// @ts-check
// Numbers and sentences for people.

export const LANGUAGE = document.documentElement.lang;
const MISSING = "–";
/** By digits; making a format takes longer than using it a hundred times. */
const formats = new Map();
const MAX_RANGES = 6;

const whole = new Intl.NumberFormat(LANGUAGE);
const oneDigit = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
const percents = new Intl.NumberFormat(LANGUAGE, { style: "percent", ...oneDigit });
const wholePercents = new Intl.NumberFormat(LANGUAGE, { style: "percent" });
const compact = new Intl.NumberFormat(LANGUAGE, { notation: "compact", maximumSignificantDigits: 3 });
/** A number as short as it can be. */
export const formatAmount = (number) => short.format(number);
const short = new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: 3 });
const scientific = new Intl.NumberFormat(LANGUAGE, { notation: "scientific", maximumSignificantDigits: 4 });
const clock = new Intl.DateTimeFormat(LANGUAGE, { timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(LANGUAGE);
const joined = new Intl.ListFormat(LANGUAGE, { type: "conjunction" });
const plural = new Intl.PluralRules(LANGUAGE);

export const formatTime = (moment) => clock.format(moment);
export const formatCount = (number) => whole.format(number);
/** A number and a noun: "1 slot", "2 slots". */
export function formatQuantity(number, one, many = `${one}s`) {
  return `${formatCount(number)} ${plural.select(number) === "one" ? one : many}`;
}

export const formatWholePercent = (share) => wholePercents.format(share);
export const formatPercent = (share) => (share === null ? MISSING : percents.format(share));
/** With one decimal, and not below zero: an estimate of a time can be slightly negative. */
export const formatTenths = (number) => formatWithDigits(1).format(Math.max(0, number));
export const joinWords = (parts) => joined.format(parts);

/** A text with the unit of the totals, if they have one. */
export const addUnit = (text, unit) => (unit === null ? text : `${text} (${unit})`);

/** A format for amounts that belong together: the largest gets four digits. */
export function makeAmountFormat(values, unit = null) {
  const largest = values.reduce((most, value) => (value === null ? most : Math.max(most, Math.abs(value))), 0);
  const extreme = largest >= 1e9 || (largest > 0 && largest < 1e-3);
  const digits = largest > 0 ? Math.max(0, 3 - Math.floor(Math.log10(largest))) : 0;
  const format = extreme ? scientific : formatWithDigits(digits);
  const after = unit === null ? "" : ` ${unit}`;
  return (value) => (value === null ? MISSING : format.format(value) + after);
}

/** A number with its sign, also if that is +. */
export function formatSigned(number, digits) {
  return (number > 0 ? "+" : "") + formatWithDigits(digits).format(number);
}

/** A format for differences between amounts. */
export function makeSignedFormat(values) {
  const write = makeAmountFormat(values);
  return (value) => (value > 0 ? "+" : "") + write(value);
}

/** A format for the ticks of an axis, given their distance. */
export function makeTickFormat(step, largest) {
  if (largest >= 1e5 || step < 1e-4) return (value) => compact.format(value);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return (value) => formatWithDigits(digits).format(value);
}

function formatWithDigits(digits) {
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  if (!formats.has(digits)) formats.set(digits, new Intl.NumberFormat(LANGUAGE, options));
  return formats.get(digits);
}

/** The first letter as a capital one, to begin a sentence. */
export const capitalize = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

/** Slots in a few words: "slots 3, 7 and 9–12". */
function listSlots(numbers, names) {
  const ranges = [];
  for (const number of numbers) {
    const last = ranges.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  const shown = ranges.slice(0, MAX_RANGES).map(([first, last]) => names.write(first, last));
  const left = ranges.slice(MAX_RANGES).reduce((sum, [first, last]) => sum + last - first + 1, 0);
  if (left > 0) shown.push(`${formatCount(left)} more`);
  return names.join(shown, numbers.length);
}

/** The state of an experiment; of one that is silent, also since when. */
export function describeState({ state, last_total_at: last }, names) {
  return state === "silent" ? `silent since ${names.writeMoment(last)}` : state;
}

/** When the last total came. */
export function describeLastTotal({ last_total_at: last }, names) {
  return last === null ? "none yet" : `${names.writeMoment(last)} (${formatAge(Date.parse(last))})`;
}

/** How long ago a moment was, in the largest unit of time that fits: "3 hours ago". */
function formatAge(moment) {
  const minutes = Math.floor((Date.now() - moment) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 120) return relative.format(-minutes, "minute");
  if (minutes < 48 * 60) return relative.format(-Math.floor(minutes / 60), "hour");
  return relative.format(-Math.floor(minutes / (24 * 60)), "day");
}

/** What is decided now: words before the arm, the arm (or null), words after it. */
export function describeNow(status, names) {
  const next = status.next;
  const rounds = formatQuantity(status.rounds, "round");
  if (status.ended) return [`Ended after ${formatQuantity(status.slots, "slot")} and ${rounds}.`, null, ""];
  if (next === null) return [`All ${formatCount(status.slots)} slots of its horizon are decided.`, null, ""];
  if (next.arms) {
    const now = status.slots === 0 ? `No slots yet. ${capitalize(names.name(0))} will use` : "Now";
    return [`${now} ${describeUnits(next.arms)}, planned up to ${names.nameEnd(next.until)}.`, null, ""];
  }
  if (status.slots === 0) return [`No slots yet. ${capitalize(names.name(0))} will use `, next.arm, "."];
  if (next.hold) return ["Holds ", next.arm, `: all planned slots of round ${formatCount(next.round)} are decided.`];
  const now = status.state === "silent" ? "Next " : "Now ";
  return [now, next.arm, `, planned up to ${names.nameEnd(next.until)}.`];
}

/** In how many units each arm is played: "A in 3 units, B in 1 unit". */
export function describeUnits(arms) {
  const counts = new Map();
  for (const arm of Object.values(arms)) counts.set(arm, (counts.get(arm) ?? 0) + 1);
  const most = [...counts].sort((a, b) => b[1] - a[1]);
  return most.map(([arm, count]) => `${arm} in ${formatQuantity(count, "unit")}`).join(", ");
}

/** The totals that an experiment waits for, and its next slot. */
export function describeWaiting(status, names) {
  const awaited = status.awaited;
  const totals = awaited.length === 1 ? "the total" : "the totals";
  if (status.ended) return "This is the final status.";
  if (status.next === null) {
    return awaited.length ? `It waits for ${totals} of ${listSlots(awaited, names)}.` : "You can end it.";
  }
  const since = status.state === "silent" ? `No total has come since ${names.writeMoment(status.last_total_at)}. ` : "";
  const slot = capitalize(names.name(status.next.slot));
  const following = `${slot} is next, in round ${formatCount(status.next.round)}.`;
  if (awaited.length === 0) return since + following;
  const come = awaited.length === 1 ? "comes" : "come";
  const missing = `${totals} of ${listSlots(awaited, names)}`;
  const waiting = status.next.hold ? `The arm stays until ${missing} ${come}.` : `Outstanding: ${missing}.`;
  return `${since}${waiting} ${following}`;
}

/** The probability with which the current arm was drawn; null if the policy does not say it. */
export function describeDraw({ next }) {
  if (!next?.probabilities) return null;
  const probability = formatPercent(next.probabilities[next.arm]);
  return `The current arm, ${next.arm}, was drawn with probability ${probability}. The table has those of all arms.`;
}

/** The least share of rounds of each arm that has one, for the list of facts. */
export function describeFloors({ arms }) {
  const floors = arms.filter(({ floor }) => floor !== null).map(({ arm, floor }) => `${arm} ${formatPercent(floor)}`);
  return floors.length ? [["least share of rounds", floors.join(", ")]] : [];
}

/** The rule to stop, for the list of facts; the card with the results says whether it is met. */
export function describeRule({ stop_when_loss_below: limit, unit }, names) {
  if (limit === null) return [];
  const amount = formatAmount(limit) + (unit === null ? "" : ` ${unit}`);
  return [["rule to stop", `an expected loss below ${amount} per ${names.perSlot}`]];
}

/** From when on arms are paused or retired, or active since they came, for the list of facts. */
export function describeArms({ arms }, names) {
  const changed = arms.filter(({ since }) => since !== null);
  const texts = changed.map(({ arm, state, since }) => `${arm} ${state} from ${names.name(since)} on`);
  return texts.length ? [["arms that came or went", texts.join("; ")]] : [];
}

/** The arms that guardrails have stopped, and why these cannot be judged, in sentences. */
export function describeStops({ arms, guardrail_problem: problem }) {
  const stopped = arms.filter(({ stopped }) => stopped !== null);
  const sentences = stopped.map(({ arm, stopped: reason }) => `${arm} is stopped: ${reason}.`);
  return problem === null ? sentences : [...sentences, `Guardrails cannot be judged: ${problem}.`];
}

/** How many totals may still change, and for how long; nothing if totals are final at once. */
export function describeProvisional({ final_after: span, provisional }) {
  if (span === null) return [];
  return [["provisional", `${formatQuantity(provisional, "total")}, final after ${span}`]];
}

/** How late the totals usually come. */
export function describeLateness({ lateness }, names) {
  if (lateness === null) return "none yet";
  return lateness ? `${formatQuantity(lateness, names.oneSlot, names.manySlots)} late` : "on time";
}

/** The lag of a reward, or why it is unknown. */
export function describeLag({ conclusive, reason, mean, low, high, level, p90 }, { oneSlot, manySlots }) {
  if (!conclusive) return `Unknown: ${reason}.`;
  if (high < 0.05 && p90.high < 0.05) return `A reward arrives in the ${oneSlot} of its pull.`;
  const band = `${formatWholePercent(level)} band ${formatTenths(low)} to ${formatTenths(high)}`;
  const within = `${formatTenths(p90.low)} to ${formatTenths(p90.high)}`;
  const most = `nine tenths have arrived after ${formatTenths(p90.value)} ${manySlots} (${within})`;
  return `A reward takes ${formatTenths(mean)} ${manySlots} on average (${band}); ${most}.`;
}
