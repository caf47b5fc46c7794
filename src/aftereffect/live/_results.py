"""Who won? The log of an experiment, as `aftereffect.inference` reads it."""

import json
import math

import numpy as np

from aftereffect._core import Vector, check_float
from aftereffect.delays import LagLaw
from aftereffect.errors import ConflictError, ParameterError, name_field
from aftereffect.inference import LEVELS, Results, Trial, analyse
from aftereffect.live._reading import OpenLog, read_slot_events
from aftereffect.live._state import ExperimentState
from aftereffect.live.events import Event
from aftereffect.live.settings import Settings
from aftereffect.live.storage import View
from aftereffect.policies import AdaptiveSwitchback, Floors, Policy, has_probabilities

#: The most arms that are compared: time and memory grow with their number.
MAX_COMPARED = 40
#: The most rounds that are read, the first ones; and slots, these times the number of arms.
MAX_ROUNDS, MAX_CELLS = 4_000, 120_000


def check_results(level: object, stop_when_loss_below: object) -> float | None:
    """Check the arguments of `Experiment.results`; return the limit of the rule.

    >>> check_results(0.95, 5)
    5.0
    """
    with name_field("level"):
        if check_float("level", level) not in LEVELS:
            raise ParameterError(
                f"level must be one of {', '.join(map(str, LEVELS))}, got {level!r}"
            )
    if stop_when_loss_below is None:
        return None
    with name_field("stop_when_loss_below"):
        return check_float("stop_when_loss_below", stop_when_loss_below, above=0)


def find_results(log: OpenLog, level: float, stop_when_loss_below: float | None) -> Results:
    """What the totals and draws of a log show; see `Experiment.results`."""
    limit = check_results(level, stop_when_loss_below)
    settings = log.settings
    with log.reading() as (view, state):
        reason = explain_refusal(state)
        if reason is not None:
            raise ConflictError(reason)
        first, trial = read_trial(log, view, state)
    obstacle = find_obstacle(trial)
    found = analyse(trial if obstacle is None else _clear(trial), settings.arms, level)
    looks = (look._replace(slots=first + look.slots) for look in found.history)
    return found._replace(
        slots=first + found.slots if found.blocks else 0,
        history=tuple(look._replace(time=settings.find_time(look.slots)) for look in looks),
        unit=settings.unit,
        slot_length=settings.slot,
        stop_when_loss_below=limit,
        obstacle=obstacle,
    )


def find_obstacle(trial: Trial) -> str | None:
    """Why these totals cannot be compared, in a sentence; None if they can be."""
    known = trial.totals[~np.isnan(trial.totals)]
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


def read_trial(log: OpenLog, view: View, state: ExperimentState) -> tuple[int, Trial]:
    """The first slot that was decided, and from it on, what was drawn, played and observed.

    A slot that was skipped later counts as if the arm before had gone on, unless a total says what
    was played. Slots after the last total say nothing yet. Of long experiments, the first slots
    are read.
    """
    settings = log.settings
    decisions: dict[int, Event] = {}
    answers: dict[int, Event] = {}
    most = min(state.next_slot, MAX_CELLS // len(settings.arms))
    for event in read_slot_events(view, log.record, 0, most):
        if event.kind == "decision":
            decisions[event.slot] = event
        elif event.kind == "total":  # a later revision replaces the one before
            answers[event.slot] = event
    first = min(decisions, default=0)
    slots = range(first, max((slot + 1 for slot in answers if slot >= first), default=first))
    totals, played = np.full(len(slots), math.nan), np.zeros(len(slots), np.int64)
    blocks: list[Event] = []
    for at, slot in enumerate(slots):
        decision, answer = decisions.get(slot), answers.get(slot)
        if decision is not None and (not blocks or blocks[-1].round != decision.round):
            if len(blocks) == MAX_ROUNDS:
                slots, totals, played = slots[:at], totals[:at], played[:at]
                break
            blocks.append(decision)
        arms = (answer and answer.arm, decision and decision.arm)
        before = played[at - 1] if at else 0
        played[at] = next((arm for arm in arms if arm is not None), before)
        if answer is not None and answer.total is not None:
            totals[at] = answer.total
    if any(block.probabilities is None for block in blocks):  # the first logs have none
        raise ConflictError(_name_missing(settings))
    chances = [json.loads(block.probabilities or "") for block in blocks]
    return first, Trial(
        totals,
        played,
        starts=np.array([block.slot - first for block in blocks], np.int64),
        decided=np.array([block.arm for block in blocks], np.int64),
        probabilities=np.reshape(chances, (len(blocks), len(settings.arms))),
        places=np.array([_find_place(settings, slot) for slot in slots], np.int64),
        calendar=settings.calendar,
        history=_read_history(settings, first) if slots else np.zeros(0),
        delay=_find_delay(settings.policy),
    )


def _find_delay(policy: Policy) -> LagLaw | None:
    """The delay that a policy was told."""
    base = policy.base if isinstance(policy, Floors) else policy
    return base.delay if isinstance(base, AdaptiveSwitchback) else None


def _find_place(settings: Settings, slot: int) -> int:
    """The place of a slot in its week."""
    calendar = settings.calendar
    return (calendar.first + settings.place_on_wall(slot)) % calendar.slots_per_week


def _read_history(settings: Settings, first: int) -> Vector:
    """The totals before slot `first`; those of skipped slots are not known."""
    gap = np.full(settings.place_on_wall(first), math.nan)
    return np.append(np.array(settings.history, np.float64), gap)


def explain_refusal(state: ExperimentState) -> str | None:
    """Why `Experiment.results` cannot compare the arms; None if it can."""
    settings, arms = state.settings, len(state.settings.arms)
    if not has_probabilities(state.policy_state):
        return _name_missing(settings)
    if arms > MAX_COMPARED:
        return (
            f"results compare at most {MAX_COMPARED} arms, and {settings.name!r} has {arms:,}: the "
            "status has the mean total of each"
        )
    return None


def _name_missing(settings: Settings) -> str:
    return (
        f"results need the probabilities with which arms were drawn, and {settings.policy} does "
        "not record them: create experiments with control_share or floors, or with a policy that "
        "does, such as adaptive-switchback; the status has the mean total of each arm"
    )
