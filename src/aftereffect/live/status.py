"""The status of an experiment: its arms, its next decision, and warnings."""

import html
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from aftereffect._core import text_table
from aftereffect.inference import PlannedCourse
from aftereffect.live._arms import ArmState
from aftereffect.live._policy import find_warnings
from aftereffect.live._results import explain_refusal
from aftereffect.live._state import ExperimentState
from aftereffect.live._unit_state import UnitState
from aftereffect.live.events import now
from aftereffect.live.records import Decision, answer_decision, count_noun

#: The number of slots that `awaited` lists, and that a sentence names.
_MAX_AWAITED, _MAX_NAMED = 100, 10
#: What an experiment does at one moment; `find_state` says which state is which.
State: TypeAlias = Literal[
    "not begun", "running", "waiting for totals", "silent", "complete", "ended"
]


class ArmStatus(NamedTuple):
    """One arm: how often it was decided, and the mean total of the slots in which it was played.

    `floor` is the least share of rounds that the arm keeps; None if it has no floor. `stopped` says
    why a guardrail has stopped the arm; None if none has. From the slot `since` on, the arm is
    `active`, `paused` or `retired`; None if it has been active from the start.

    Examples
    --------
    >>> ArmStatus("A", pulls=3, share=0.6, rounds=2, mean=38.5, floor=None, stopped=None).mean
    38.5
    """

    arm: str
    pulls: int
    share: float | None
    rounds: int
    mean: float | None
    floor: float | None
    stopped: str | None
    state: ArmState = "active"
    since: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict()

    def describe_change(self) -> str:
        """From when on the arm is as it is, in a few words."""
        return f"{self.arm} is {self.state} from slot {self.since:,} on"

    def _cells(self) -> tuple[str, ...]:
        counts = f"{self.pulls:,}", _show(self.share, ".1%"), f"{self.rounds:,}"
        return (self.arm, *counts, _show(self.mean))


class UnitStatus(NamedTuple):
    """One of several units: its next arm, and how many totals came, are missing or outstanding.

    `arm` is None if no slot is decided any more; `mean` is the mean total, None without any.

    Examples
    --------
    >>> UnitStatus("north", "A", received=3, missing=1, outstanding=0, mean=38.5).mean
    38.5
    """

    unit: str
    arm: str | None
    received: int
    missing: int
    outstanding: int
    mean: float | None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict()

    def _cells(self) -> tuple[str, ...]:
        counts = (f"{each:,}" for each in (self.received, self.missing, self.outstanding))
        return (self.unit, self.arm or "-", *counts, _show(self.mean))


class Status(NamedTuple):
    """An experiment at one moment.

    `state` is what it does (see docs/live.md). `slots` is the number of slots so far. Of these,
    `skipped` were not decided, `received` have a total or are `missing`, and `outstanding` were
    played and have neither. `learned` is the number of totals from which the policy has learned.
    `waiting` is the number of totals that wait for the end of their round, or for the next round of
    their arm. `lateness` is a number of slots: 90 % of the latest totals came at most so many slots
    late. `last_total_at` is the time of the last total. `next` is the next decision. It is None if
    the experiment has `ended`, or if all its slots are decided. `awaited` are the first planned
    slots of the round that have no total. `notes` are warnings. `slot_length`, `start` and
    `timezone` say when slots begin, if they have times. `control` is the arm that was played
    before, and `history` the number of slots before the first whose totals the policy was given.
    `unit` is the unit of the totals, and `covariates` are the names of the numbers that come with
    each slot. `stop_when_loss_below` is the rule to stop: `Experiment.results` says whether it is
    met, as that takes longer. So it does about the `guardrails`, which are spec strings here.
    `guardrail_problem` says why these cannot be judged, if they cannot. `no_results` says why
    `Experiment.results` cannot compare the arms, if it cannot. `plan` is what the plan that the
    experiment comes from promised, if it comes from one. `final_after` is how long after its slot a
    total may still change, and `provisional` the number of decided slots with a total, or marked
    missing, of which that is not over; None if totals are final at once.

    With several units, each has a place in `units`. Pulls, totals and what is counted of them are
    those of all units together: each unit has a pull and a total in every slot.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> exp.status().state, exp.status().next.arm
    ('not begun', 'A')
    """

    name: str
    policy: str
    seed: int
    horizon: int | None
    state: State
    ended: bool
    slots: int
    skipped: int
    received: int
    missing: int
    outstanding: int
    learned: int
    waiting: int
    lateness: int | None
    last_total_at: str | None
    rounds: int
    arms: tuple[ArmStatus, ...]
    next: Decision | None
    awaited: tuple[int, ...]
    notes: tuple[str, ...]
    slot_length: str | None
    start: str | None
    timezone: str | None
    control: str | None
    history: int
    unit: str | None
    covariates: tuple[str, ...]
    stop_when_loss_below: float | None
    guardrails: tuple[str, ...]
    guardrail_problem: str | None
    no_results: str | None
    plan: PlannedCourse | None
    final_after: str | None
    provisional: int | None
    units: tuple[UnitStatus, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has, with the sentences about the plan."""
        return self._asdict() | {
            "arms": [arm.to_dict() for arm in self.arms],
            "next": self.next and self.next.to_dict(),
            "awaited": list(self.awaited),
            "notes": list(self.notes),
            "covariates": list(self.covariates),
            "guardrails": list(self.guardrails),
            "units": [unit.to_dict() for unit in self.units],
            "plan": self.plan and self.plan._asdict(),
            "planned": self.describe_plan(),
        }

    def __str__(self) -> str:
        """A table of the arms, and what comes next."""
        tables = [text_table(self._rows())]
        if self.units:
            tables.append(text_table(self._unit_rows()))
        first = f"{self.name}: {self.describe_state()}; {self.policy}, {self.progress()}"
        return "\n".join([first, *tables, *self._last_lines()])

    def _unit_rows(self) -> list[tuple[str, ...]]:
        """A table of the units."""
        mean = f"mean ({self.unit})" if self.unit else "mean"
        header = ("unit", "next arm", "totals", "missing", "outstanding", mean)
        return [header, *(unit._cells() for unit in self.units)]

    def _rows(self) -> list[tuple[str, ...]]:
        """A table of the arms, with floors, stops and probabilities if there are any."""
        mean = f"mean ({self.unit})" if self.unit else "mean"
        chances = self.next.probabilities if self.next else None
        rows: list[tuple[str, ...]] = [("arm", "pulls", "share", "rounds", mean)]
        rows += [arm._cells() for arm in self.arms]
        if any(arm.floor for arm in self.arms):
            floors = ["floor", *(_show(arm.floor, ".1%") for arm in self.arms)]
            rows = [(*row, floor) for row, floor in zip(rows, floors, strict=True)]
        if any(arm.since is not None for arm in self.arms):
            states = ["state", *(arm.state for arm in self.arms)]
            rows = [(*row, state) for row, state in zip(rows, states, strict=True)]
        if any(arm.stopped for arm in self.arms):
            marks = ["guardrails", *("stopped" if arm.stopped else "-" for arm in self.arms)]
            rows = [(*row, mark) for row, mark in zip(rows, marks, strict=True)]
        if chances is not None:
            shown = ["probability", *(_show(chances.get(arm.arm), ".1%") for arm in self.arms)]
            rows = [(*row, chance) for row, chance in zip(rows, shown, strict=True)]
        return rows

    def _last_lines(self) -> list[str]:
        names = [f"covariates: {', '.join(self.covariates)}"] if self.covariates else []
        stopped = [f"{arm.arm} is stopped: {arm.stopped}" for arm in self.arms if arm.stopped]
        problem = self.guardrail_problem
        unjudged = [f"guardrails cannot be judged: {problem}"] if problem else []
        notes = (f"note: {note}" for note in self.notes)
        changed = [arm.describe_change() for arm in self.arms if arm.since is not None]
        return [
            *names,
            *changed,
            *stopped,
            *unjudged,
            self.outlook(),
            *self.describe_plan(),
            *notes,
        ]

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        tables = _make_html(self._rows()) + (_make_html(self._unit_rows()) if self.units else "")
        name, policy = html.escape(self.name), html.escape(self.policy)
        return (
            f"<p><b>{name}</b>: {self.describe_state()}; {policy}, {self.progress()}</p>"
            f"{tables}"
            f"<p>{'<br>'.join(map(html.escape, self._last_lines()))}</p>"
        )

    def describe_state(self) -> str:
        """The state in a few words; of one that is silent, also since when."""
        if self.state != "silent" or self.last_total_at is None:
            return self.state
        since = self.last_total_at[:16].replace("T", " ")  # the log has times in UTC
        return f"silent since {since} UTC"

    def describe_plan(self) -> list[str]:
        """What the plan promised, and where the experiment is; nothing without a plan."""
        return [] if self.plan is None else self.plan.describe(self.slots, self.unit)

    def progress(self) -> str:
        """How far the experiment is, in one line."""
        decided = self.slots - self.skipped
        skipped = f" ({self.skipped:,} skipped)" if self.skipped else ""
        missing = f" ({self.missing:,} missing)" if self.missing else ""
        late = f", {count_noun(self.lateness, 'slot')} late" if self.lateness else ""
        parts = [
            f"{count_noun(decided, 'slot')} decided{skipped}",
            f"{count_noun(self.received, 'total')} received{missing}{late}",
            f"{self.learned:,} learned",
            *([f"{self.waiting:,} waiting"] if self.waiting else []),
            *([f"{self.provisional:,} provisional"] if self.provisional else []),
            f"{count_noun(self.rounds, 'round')} closed",
        ]
        return ", ".join(parts)

    def outlook(self) -> str:
        """What comes next, in one line."""
        if self.ended:
            return "ended"
        if self.next is None:
            return f"all {self.slots:,} slots are decided: end it"
        waiting = ""
        if self.awaited:
            named = ", ".join(map(str, self.awaited[:_MAX_NAMED]))
            more = " and more" if len(self.awaited) > _MAX_NAMED else ""
            slots = "slots" if len(self.awaited) > 1 else "slot"
            waiting = f"; waiting for {slots} {named}{more}"
        time = f" ({self.next.time[:16].replace('T', ' ')})" if self.next.time else ""
        if self.next.hold:
            return f"next: slot {self.next.slot}{time} holds {self.next.arm}{waiting}"
        planned = f"planned up to slot {self.next.until}"
        plays = self.next.arm or count_arms(self.next.arms or {})
        return f"next: slot {self.next.slot}{time} plays {plays}, {planned}{waiting}"


def _make_html(table: list[tuple[str, ...]]) -> str:
    """A table whose first row is its header."""
    header, *cells = table
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    rows = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in cells
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def make_status(state: ExperimentState) -> Status:
    """The status of an experiment, as the next decision will find it."""
    ahead = state.look_ahead()
    settings, totals = ahead.settings, ahead.arm_totals
    floors, pulled = settings.floors, int(totals.pulls.sum())
    following, refusal = _find_next(ahead), explain_refusal(settings, len(ahead.arms))
    time = now()
    provisional = settings.find_provisional(time)
    arms = []
    for number, (arm, arm_state, since) in enumerate(ahead.arms):
        pulls, count = int(totals.pulls[number]), totals.counts[number]
        arms.append(
            ArmStatus(
                arm,
                pulls,
                pulls / pulled if pulled else None,
                int(totals.rounds[number]),
                float(totals.sums[number] / count) if count else None,
                floors.get(arm) if arm_state == "active" else None,
                stop.reason if (stop := ahead.stopped.get(number)) else None,
                arm_state,
                since,
            )
        )
    return Status(
        settings.name,
        str(settings.policy),
        settings.seed,
        settings.horizon,
        state=find_state(ahead, following, time),
        ended=ahead.ended,
        slots=ahead.next_slot,
        skipped=ahead.next_slot - ahead.decided,
        received=ahead.received,
        missing=ahead.missing,
        outstanding=ahead.outstanding,
        learned=ahead.learned,
        waiting=ahead.received - ahead.missing - ahead.learned,
        lateness=ahead.lateness,
        last_total_at=ahead.last_total_at,
        rounds=ahead.rounds,
        arms=tuple(arms),
        next=following,
        awaited=tuple(islice(ahead.list_awaited(), _MAX_AWAITED)),
        notes=find_warnings(ahead),
        slot_length=settings.slot,
        start=settings.find_time(0),
        timezone=settings.timezone,
        control=settings.control,
        history=len(settings.history),
        unit=settings.unit,
        covariates=tuple(settings.covariates),
        stop_when_loss_below=settings.stop_when_loss_below,
        guardrails=tuple(map(str, settings.guardrails)),
        guardrail_problem=ahead.guardrail_problem or (refusal if settings.guardrails else None),
        no_results=refusal,
        plan=settings.plan,
        final_after=settings.final_after,
        provisional=None if provisional is None else ahead.count_answered(provisional),
        units=_make_units(ahead, following),
    )


def _make_units(ahead: ExperimentState, following: Decision | None) -> tuple[UnitStatus, ...]:
    """The status of each unit, if there are several."""
    if not isinstance(ahead, UnitState):
        return ()
    arms = (following and following.arms) or {}
    counts = zip(ahead.settings.units, ahead.count_units(), strict=True)
    return tuple(UnitStatus(unit, arms.get(unit), *each) for unit, each in counts)


def find_state(state: ExperimentState, following: Decision | None, time: str) -> State:
    """What an experiment does at a time.

    - ``not begun``: no slot is decided.
    - ``ended``: `Experiment.end` has ended it.
    - ``complete``: all its slots are decided, and each has a total or is marked missing.
    - ``silent``: totals have come, but the last one is too long ago: see `is_silent`.
    - ``waiting for totals``: the last decided slot holds the arm until totals come, or all slots
      are decided and some have no total, or two slots or more are decided and no total has come.
    - ``running``: everything else.
    """
    decided = state.decided
    if state.ended:
        return "ended"
    if decided == 0:
        return "not begun"
    if following is None and state.outstanding == 0:
        return "complete"
    if is_silent(state, time):
        return "silent"
    has_none = state.last_total_at is None and state.outstanding > 0 and decided > 1
    holds = state.round is not None and state.next_slot - 1 > state.round.until
    if following is None or holds or has_none:
        return "waiting for totals"
    return "running"


def is_silent(state: ExperimentState, time: str) -> bool:
    """Whether no total has come for longer than the feed usually takes.

    If every total comes at most n slots late, then at least one comes in any n + 1 slots. So a feed
    is silent after more than twice as many slots and one more, with its usual lateness for n: three
    slots for a feed that is on time. Slots are counted by the clock; where slots have no times, by
    the decisions since the last total.
    """
    if state.last_total_at is None or state.lateness is None:
        return False
    slots, clock = 2 * (state.lateness + 1) + 1, state.settings.clock
    if clock is None:
        return state.next_slot - state.slots_at_last_total > slots
    since = datetime.fromisoformat(time) - datetime.fromisoformat(state.last_total_at)
    return since > timedelta(seconds=slots * clock.length.total_seconds())


def _find_next(ahead: ExperimentState) -> Decision | None:
    if ahead.ended or ahead.has_reached_horizon or ahead.round is None:
        return None
    current = ahead.round
    return answer_decision(
        ahead.settings,
        ahead.names,
        ahead.next_slot,
        current.number,
        current.until,
        current.arm,
        current.arms,
        current.probabilities,
    )


def count_arms(arms: Mapping[str, str]) -> str:
    """In how many units each arm is played.

    >>> count_arms({"north": "B", "south": "A", "west": "B"})
    'A in 1 unit, B in 2 units'
    """
    counts = sorted(Counter(arms.values()).items())
    return ", ".join(f"{arm} in {count_noun(count, 'unit')}" for arm, count in counts)


def _show(number: float | None, notation: str = ",.4g") -> str:
    return "-" if number is None else format(number, notation)
