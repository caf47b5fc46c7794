"""Who won, and which arms do harm? What a log shows of both, by `aftereffect.inference`."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from aftereffect._core import Vector, check_float
from aftereffect.delays import LagLaw
from aftereffect.errors import ConflictError, ParameterError, name_field
from aftereffect.inference import (
    LEVELS,
    GuardedArm,
    Guardrail,
    GuardrailResults,
    Results,
    Trial,
    UnitTrial,
    analyse,
    find_level,
)
from aftereffect.live._reading import OpenLog, read_slot_events
from aftereffect.live._state import ExperimentState, Stop
from aftereffect.live._units import read_arms, read_chances, read_unit_totals
from aftereffect.live.events import Event
from aftereffect.live.settings import Settings, check_limit
from aftereffect.live.storage import Log, Record, View
from aftereffect.policies import (
    AdaptiveSwitchback,
    Floors,
    Policy,
    UnitSwitchback,
    has_probabilities,
)

#: The slots that are read before a decision, times the number of arms: nobody waits for long. So
#: with two arms, guardrails stop arms in the first 10,000 slots.
MAX_JUDGED = 20_000
#: The most arms that are compared: time and memory grow with their number.
MAX_COMPARED = 40
#: The most slots that are read, the first ones, times the number of arms.
MAX_CELLS = 120_000
#: The same where there are several units, times their number: their analysis works on whole arrays.
MAX_UNIT_CELLS = 800_000
#: The most rounds that are read, the first ones.
MAX_ROUNDS = 4_000


def compare_guarded(
    names: Sequence[str], guardrails: Sequence[Guardrail], trials: Sequence[Trial], level: float
) -> tuple[GuardrailResults, ...]:
    """What the totals of guardrails show of each arm.

    It never fails: what goes wrong in an analysis is the `problem` of its guardrail.
    """
    found = []
    for guardrail, trial in zip(guardrails, trials, strict=True):
        about = (guardrail.name, guardrail.harm, guardrail.tolerated, guardrail.stops, level)
        try:
            with np.errstate(all="ignore"):
                results = analyse(trial, names, level)
        except Exception as error:
            found.append(GuardrailResults(*about, 0, 0.0, (), _explain(error)))
            continue
        arms = (GuardedArm(*each, guardrail.judge(*each[3:5])) for each in results.effects)
        found.append(GuardrailResults(*about, results.blocks, results.mean, tuple(arms)))
    return tuple(found)


def judge_guardrails(log: Log, record: Record, state: ExperimentState) -> Iterator[Event]:
    """The events to record before the next decision, if guardrails are to be judged now.

    An arm is stopped if a guardrail that may do so shows harm; the control never is. Whatever goes
    wrong, the decision is made without it, and the log says why guardrails cannot be judged.
    """
    if not state.is_judgement_due:
        return
    settings = state.settings
    stopping = [guardrail for guardrail in settings.guardrails if guardrail.stops]
    names = [guardrail.name for guardrail in stopping]
    try:
        _, trials = read_trials(log, record, state, MAX_JUDGED, names)
        level = find_level(len(settings.guardrails))
        found = compare_guarded(state.names, stopping, trials, level)
    except Exception as error:
        found, problem = (), _explain(error)
    else:
        problem = "; ".join(f"{each.guardrail}: {each.problem}" for each in found if each.problem)
    if (problem or None) != state.guardrail_problem:
        text = json.dumps({"problem": problem or None})
        yield state.head.next("judgement", state.next_slot, guardrails=text)
    for number, arm in enumerate(state.names[1:], 1):  # the first is the control
        stop = _find_stop(found, arm)
        if stop is not None and number not in state.stopped:
            text = json.dumps(stop._asdict())
            yield state.head.next(
                "stop", state.next_slot, revision=number, arm=number, guardrails=text
            )


def _find_stop(found: tuple[GuardrailResults, ...], arm: str) -> Stop | None:
    """Why to stop an arm: the first guardrail that shows harm."""
    for guardrail in found:
        for guarded in guardrail.arms:
            if guarded.arm == arm and guarded.verdict == "harm shown":
                reason = (
                    f"{guarded.describe_span()} % {guardrail.harm} {guardrail.guardrail} "
                    f"than {guarded.versus}"
                )
                return Stop(guardrail.guardrail, reason)
    return None


def _explain(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__


def check_results(level: object, stop_when_loss_below: object) -> float | None:
    """Check the arguments of `Experiment.results`; return the limit of the rule, if one is given.

    >>> check_results(0.95, 5)
    5.0
    """
    with name_field("level"):
        if check_float("level", level) not in LEVELS:
            raise ParameterError(
                f"level must be one of {', '.join(map(str, LEVELS))}, got {level!r}"
            )
    with name_field("stop_when_loss_below"):
        return check_limit(stop_when_loss_below)


def find_results(log: OpenLog, level: float, stop_when_loss_below: float | None) -> Results:
    """What the totals and draws of a log show; see `Experiment.results`."""
    settings = log.settings
    limit = check_results(level, stop_when_loss_below) or settings.stop_when_loss_below
    with log.reading() as (view, state):
        reason = explain_refusal(settings, len(state.arms))
        if reason is not None:
            raise ConflictError(reason)
        decided, names = state.next_slot, state.names
        stopped = tuple(names[arm] for arm in sorted(state.stopped))
        paused = tuple(arm.name for arm in state.arms if arm.state == "paused")
        retired = tuple(arm.name for arm in state.arms if arm.state == "retired")
        guarded: list[Trial] = []
        if settings.units:
            first, trials = read_unit_trials(view, log.record, state)
        else:
            first, (trial, *guarded) = read_trials(
                view, log.record, state, MAX_CELLS, [None, *settings.guarded]
            )
            trials = (trial,)
    obstacle = find_obstacle(trials)
    compared = trials if obstacle is None else tuple(map(_clear, trials))
    whole = UnitTrial(compared) if settings.units else compared[0]
    found = analyse(whole, names, level, retired)
    looks = (look._replace(slots=first + look.slots) for look in found.history)
    return found._replace(
        slots=first + found.slots if found.blocks else 0,
        history=tuple(look._replace(time=settings.find_time(look.slots)) for look in looks),
        unit=settings.unit,
        slot_length=settings.slot,
        stop_when_loss_below=limit,
        guardrails=compare_guarded(
            names, settings.guardrails, guarded, find_level(len(settings.guardrails))
        ),
        stopped=stopped,
        paused=paused,
        retired=retired,
        obstacle=obstacle,
        plan=settings.plan,
        decided=decided,
    )


def find_obstacle(trials: Sequence[Trial]) -> str | None:
    """Why these totals cannot be compared, in a sentence; None if they can be."""
    totals = np.concatenate([trial.totals for trial in trials])
    known = totals[~np.isnan(totals)]
    if len(known) == 0 or known.sum() > 0:
        return None
    return (
        "Not yet: arms are compared in percent, so the totals must have a positive sum, and that "
        f"of the {len(known):,} totals so far is {known.sum():,.6g}."
    )


def _clear(trial: Trial) -> Trial:
    """A trial of the same arms, in which nothing was played yet."""
    fields = ("totals", "played", "starts", "decided", "probabilities", "places", "history")
    return trial._replace(**{name: getattr(trial, name)[:0] for name in fields})


def explain_refusal(settings: Settings, arms: int) -> str | None:
    """Why `Experiment.results` cannot compare so many arms; None if it can."""
    if not has_probabilities(settings.policy.initial(len(settings.arms))):
        return name_missing(settings)
    if arms > MAX_COMPARED:
        return (
            f"results compare at most {MAX_COMPARED} arms, and {settings.name!r} has {arms:,}: the "
            "status has the mean total of each"
        )
    return None


def check_lag(settings: Settings) -> None:
    """Refuse to estimate the lag of several units: the estimate is for one series of totals.

    >>> from aftereffect import Experiment
    >>> stores = Experiment.create(
    ...     "stores", arms=["A", "B"], units=["north", "south"], storage="memory://"
    ... )
    >>> check_lag(stores.settings)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    aftereffect.errors.ConflictError: the lag is estimated from the totals of one unit, ...
    """
    if settings.units:
        raise ConflictError(
            f"the lag is estimated from the totals of one unit, and {settings.name!r} has "
            f"{len(settings.units):,}: estimate it from those of one, with ae.estimate_lag"
        )


def read_trials(
    view: View,
    record: Record,
    state: ExperimentState,
    max_cells: int,
    guardrails: Sequence[str | None] = (None,),
) -> tuple[int, list[Trial]]:
    """The first slot that was decided, and from it on, what was drawn, played and observed.

    There is a trial for each of the guardrails, and one for the totals in the place of None. A slot
    that was skipped later counts as if the arm before had gone on, unless a total says what was
    played. Slots after the last total say nothing yet. Of long experiments, the first slots are
    read: at most `max_cells` divided by the number of arms.
    """
    settings, arms = state.settings, len(state.arms)
    decisions: dict[int, Event] = {}
    answers: dict[int, Event] = {}
    numbers: dict[int, list[float | None]] = {}
    most = min(state.next_slot, max_cells // arms)
    for event in read_slot_events(view, record, 0, most):
        if event.kind == "decision":
            decisions[event.slot] = event
        elif event.kind == "total":  # a later revision replaces the one before
            answers[event.slot] = event
        elif event.kind == "guardrails":
            numbers[event.slot] = json.loads(event.guardrails or "")
    known: dict[str | None, dict[int, float | None]] = {
        None: {slot: answer.total for slot, answer in answers.items()}
    }
    for place, name in enumerate(settings.guarded):
        known[name] = {slot: row[place] for slot, row in numbers.items()}
    first = min(decisions, default=0)
    draws = {
        slot: _Draw(slot, event.round, event.arm, _read_row(event))
        for slot, event in decisions.items()
    }
    played = {slot: answer.arm for slot, answer in answers.items()}
    history = _read_history(settings, first, settings.history)
    return first, [
        _make_trial(
            settings,
            arms,
            first,
            draws,
            played,
            known[name],
            np.zeros(0) if name is not None else history,
            None if name is not None else _find_delay(settings.policy),
        )
        for name in guardrails
    ]


def read_unit_trials(
    view: View, record: Record, state: ExperimentState
) -> tuple[int, tuple[Trial, ...]]:
    """The same for several units: a trial of each. All have the same slots and blocks."""
    settings, arms, units = state.settings, len(state.arms), len(state.settings.units)
    decisions: dict[int, Event] = {}
    dealt: dict[int, tuple[int, ...]] = {}
    chances: list[list[list[float]] | None] = []
    known: list[dict[int, float | None]] = [{} for _ in range(units)]
    played: list[dict[int, int | None]] = [{} for _ in range(units)]
    most = min(state.next_slot, MAX_UNIT_CELLS // (arms * units))
    for event in read_slot_events(view, record, 0, most):
        if event.kind == "decision":
            decisions[event.slot] = event
            dealt[event.slot] = read_arms(event.units)
            chances.append(read_chances(event.probabilities, units))
        elif event.kind == "total":
            for unit, arm, total, _ in read_unit_totals(event.units):
                known[unit][event.slot], played[unit][event.slot] = total, arm
    first = min(decisions, default=0)
    last = max((max(totals, default=-1) for totals in known), default=-1)
    delay = _find_delay(settings.policy)
    trials = []
    for unit in range(units):
        draws = {
            slot: _Draw(slot, event.round, dealt[slot][unit], None if rows is None else rows[unit])
            for (slot, event), rows in zip(decisions.items(), chances, strict=True)
        }
        if last >= first:  # all trials have the slots up to the last total of any unit
            known[unit].setdefault(last, None)
        history = _read_history(settings, first, [row[unit] for row in settings.history])
        given = (draws, played[unit], known[unit], history, delay)
        trials.append(_make_trial(settings, arms, first, *given))
    return first, tuple(trials)


class _Draw(NamedTuple):
    """What was drawn for a slot: the round, the arm, and the probability of each arm."""

    slot: int
    round: int | None
    arm: int | None
    probabilities: Sequence[float] | None


def _read_row(event: Event) -> list[float] | None:
    chances: list[float] | None = json.loads(event.probabilities or "null")
    return chances


def _make_trial(
    settings: Settings,
    arms: int,
    first: int,
    decisions: Mapping[int, _Draw],
    answers: Mapping[int, int | None],
    known: Mapping[int, float | None],
    history: Vector,
    delay: LagLaw | None,
) -> Trial:
    """A trial of these totals by slot; `answers` are the arms that were said to be played."""
    slots = range(first, max((slot + 1 for slot in known if slot >= first), default=first))
    totals, played = np.full(len(slots), math.nan), np.zeros(len(slots), np.int64)
    blocks: list[_Draw] = []
    for at, slot in enumerate(slots):
        decision, total = decisions.get(slot), known.get(slot)
        if decision is not None and (not blocks or blocks[-1].round != decision.round):
            if len(blocks) == MAX_ROUNDS:
                slots, totals, played = slots[:at], totals[:at], played[:at]
                break
            blocks.append(decision)
        known_arms = (answers.get(slot), decision and decision.arm)
        before = played[at - 1] if at else 0
        played[at] = next((arm for arm in known_arms if arm is not None), before)
        if total is not None:
            totals[at] = total
    if any(block.probabilities is None for block in blocks):  # the first logs have none
        raise ConflictError(name_missing(settings))
    chances = np.zeros((len(blocks), arms))
    for row, block in zip(chances, blocks, strict=True):
        drawn = block.probabilities or ()
        row[: len(drawn)] = drawn  # arms that were added later had the probability 0
    return Trial(
        totals,
        played,
        starts=np.array([block.slot - first for block in blocks], np.int64),
        decided=np.array([block.arm for block in blocks], np.int64),
        probabilities=chances,
        places=np.array([_find_place(settings, slot) for slot in slots], np.int64),
        calendar=settings.calendar,
        history=history if slots else np.zeros(0),
        delay=delay,
    )


def _find_delay(policy: Policy) -> LagLaw | None:
    """The delay that a policy was given."""
    base = policy.base if isinstance(policy, Floors) else policy
    return base.delay if isinstance(base, (AdaptiveSwitchback, UnitSwitchback)) else None


def _find_place(settings: Settings, slot: int) -> int:
    """The place of a slot in its week."""
    calendar = settings.calendar
    return (calendar.first + settings.place_on_wall(slot)) % calendar.slots_per_week


def _read_history(settings: Settings, first: int, totals: Sequence[float | None]) -> Vector:
    """The totals before slot `first`; those of skipped slots are not known."""
    gap = np.full(settings.place_on_wall(first), math.nan)
    return np.append(np.array(totals, np.float64), gap)


def name_missing(settings: Settings) -> str:
    """Why arms cannot be compared if probabilities are missing."""
    return (
        f"results need the probabilities with which arms were drawn, and {settings.policy} does "
        "not record them: create experiments with control_share or floors, or with a policy that "
        "does, such as adaptive-switchback; the status has the mean total of each arm"
    )
