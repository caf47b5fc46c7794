"""The log of an experiment, as `aftereffect.inference` reads it."""

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from aftereffect._core import Vector
from aftereffect.delays import LagLaw
from aftereffect.errors import ConflictError
from aftereffect.inference import Trial
from aftereffect.live._reading import read_slot_events
from aftereffect.live._state import ExperimentState
from aftereffect.live.events import Event
from aftereffect.live.settings import Settings
from aftereffect.live.storage import Record, View
from aftereffect.policies import AdaptiveSwitchback, Floors, Policy

#: The most rounds that are read, the first ones.
MAX_ROUNDS = 4_000


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
    settings = state.settings
    decisions: dict[int, Event] = {}
    answers: dict[int, Event] = {}
    numbers: dict[int, list[float | None]] = {}
    most = min(state.next_slot, max_cells // len(settings.arms))
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
    return first, [
        _make_trial(settings, first, decisions, answers, known[name], is_guardrail=name is not None)
        for name in guardrails
    ]


def _make_trial(
    settings: Settings,
    first: int,
    decisions: Mapping[int, Event],
    answers: Mapping[int, Event],
    known: Mapping[int, float | None],
    *,
    is_guardrail: bool,
) -> Trial:
    """A trial of these totals by slot. Those of a guardrail have no history and their own delay."""
    slots = range(first, max((slot + 1 for slot in known if slot >= first), default=first))
    totals, played = np.full(len(slots), math.nan), np.zeros(len(slots), np.int64)
    blocks: list[Event] = []
    for at, slot in enumerate(slots):
        decision, answer, total = decisions.get(slot), answers.get(slot), known.get(slot)
        if decision is not None and (not blocks or blocks[-1].round != decision.round):
            if len(blocks) == MAX_ROUNDS:
                slots, totals, played = slots[:at], totals[:at], played[:at]
                break
            blocks.append(decision)
        arms = (answer and answer.arm, decision and decision.arm)
        before = played[at - 1] if at else 0
        played[at] = next((arm for arm in arms if arm is not None), before)
        if total is not None:
            totals[at] = total
    if any(block.probabilities is None for block in blocks):  # the first logs have none
        raise ConflictError(name_missing(settings))
    chances = [json.loads(block.probabilities or "") for block in blocks]
    has_history = bool(slots) and not is_guardrail
    return Trial(
        totals,
        played,
        starts=np.array([block.slot - first for block in blocks], np.int64),
        decided=np.array([block.arm for block in blocks], np.int64),
        probabilities=np.reshape(chances, (len(blocks), len(settings.arms))),
        places=np.array([_find_place(settings, slot) for slot in slots], np.int64),
        calendar=settings.calendar,
        history=_read_history(settings, first) if has_history else np.zeros(0),
        delay=None if is_guardrail else _find_delay(settings.policy),
    )


def _find_delay(policy: Policy) -> LagLaw | None:
    """The delay that a policy was given."""
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


def name_missing(settings: Settings) -> str:
    """Why arms cannot be compared if probabilities are missing."""
    return (
        f"results need the probabilities with which arms were drawn, and {settings.policy} does "
        "not record them: create experiments with control_share or floors, or with a policy that "
        "does, such as adaptive-switchback; the status has the mean total of each arm"
    )
