"""The status of an experiment: its arms, its next decision, and warnings."""

import html
import math
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np

from aftereffect._core import text_table
from aftereffect.errors import ParameterError, name_field
from aftereffect.live._slot_state import make_state
from aftereffect.live._state import Draws, ExperimentState
from aftereffect.live.events import Link
from aftereffect.live.records import Decision, read_probabilities
from aftereffect.live.settings import Settings
from aftereffect.policies import Policy, round_kernels

#: The number of slots that `awaited` lists, and that a sentence names.
_MAX_AWAITED, _MAX_NAMED = 100, 10
#: The number of rounds that are tried to find out when a second arm is played.
_MAX_ROUNDS = 2_000
#: Where policies planned a smaller share of the slots than this, a warning says so.
_MIN_PLANNED_SHARE = 1 / 3
_HEADER = ("arm", "pulls", "share", "rounds", "mean")


class ArmStatus(NamedTuple):
    """One arm: how often it was decided, and the mean total of the slots in which it was played.

    `radius` is what the policy adds to the mean when it compares arms, in the unit of the totals.
    It is None if the policy has no radius or the arm has no mean. It is not a confidence interval.
    `floor` is the least share of rounds that the arm keeps; None if it has no floor.

    Examples
    --------
    >>> ArmStatus("A", pulls=3, share=0.6, rounds=2, mean=38.5, radius=None, floor=None).mean
    38.5
    """

    arm: str
    pulls: int
    share: float | None
    rounds: int
    mean: float | None
    radius: float | None
    floor: float | None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict()

    def _cells(self, *last: str) -> tuple[str, ...]:
        counts = f"{self.pulls:,}", _show(self.share, ".1%"), f"{self.rounds:,}"
        return (self.arm, *counts, _show(self.mean), *last)


class Status(NamedTuple):
    """An experiment at one moment.

    `slots` is the number of slots so far. Of these, `skipped` were not decided, `received` have a
    total or are `missing`, and `outstanding` were played and have neither. `learned` is the number
    of totals from which the policy has learned. `waiting` is the number of totals that wait for the
    end of their round, or for the next round of their arm. `lateness` is a number of slots: 90 % of
    the latest totals came at most so many slots late. `last_total_at` is the time of the last
    total. `next` is the next decision. It is None if the experiment has `ended`, or if all its
    slots are decided. `awaited` are the first planned slots of the round that have no total.
    `notes` are warnings. `slot_length`, `start` and `timezone` say when slots begin, if they have
    times. `control` is the arm that was played before, and `history` the number of slots before the
    first whose totals the policy was given.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> exp.status().slots, exp.status().next.arm
    (0, 'A')
    """

    name: str
    policy: str
    seed: int
    horizon: int | None
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

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict() | {
            "arms": [arm.to_dict() for arm in self.arms],
            "next": self.next and self.next.to_dict(),
            "awaited": list(self.awaited),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """A table of the arms, and what comes next."""
        table = text_table(self._rows())
        first = f"{self.name}: {self.policy}, {self.progress()}"
        return "\n".join([first, table, self.outlook(), *(f"note: {note}" for note in self.notes)])

    def _rows(self) -> list[tuple[str, ...]]:
        """A table of the arms: with probabilities if the policy says them, else with radii.

        It has a column for floors, if there are any.
        """
        chances = self.next.probabilities if self.next else None
        has_floors = any(arm.floor for arm in self.arms)
        header = (*_HEADER, *(["floor"] if has_floors else []))
        rows = [(*header, "radius" if chances is None else "probability")]
        for arm in self.arms:
            last = _show(arm.radius) if chances is None else _show(chances[arm.arm], ".1%")
            rows.append(arm._cells(*([_show(arm.floor, ".1%")] if has_floors else []), last))
        return rows

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        header, *cells = self._rows()
        head = "".join(f"<th>{name}</th>" for name in header)
        rows = "".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in cells
        )
        name, policy = html.escape(self.name), html.escape(self.policy)
        end = [self.outlook(), *(f"note: {note}" for note in self.notes)]
        return (
            f"<p><b>{name}</b>: {policy}, {self.progress()}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            f"<p>{'<br>'.join(map(html.escape, end))}</p>"
        )

    def progress(self) -> str:
        """How far the experiment is, in one line."""
        decided = self.slots - self.skipped
        skipped = f" ({self.skipped:,} skipped)" if self.skipped else ""
        missing = f" ({self.missing:,} missing)" if self.missing else ""
        late = f", {_count(self.lateness, 'slot')} late" if self.lateness else ""
        parts = [
            f"{_count(decided, 'slot')} decided{skipped}",
            f"{_count(self.received, 'total')} received{missing}{late}",
            f"{self.learned:,} learned",
            *([f"{self.waiting:,} waiting"] if self.waiting else []),
            f"{_count(self.rounds, 'round')} closed",
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
        return f"next: slot {self.next.slot}{time} plays {self.next.arm}, {planned}{waiting}"


def make_status(state: ExperimentState) -> Status:
    """The status of an experiment, as the next decision will find it."""
    ahead = state.look_ahead()
    settings, totals = ahead.settings, ahead.arm_totals
    low, high = settings.reward_range or (0.0, 1.0)
    radii = settings.policy.radii(ahead.policy_state, ahead.params, ahead.next_slot)
    floors, decided = settings.floors, int(totals.pulls.sum())
    arms = []
    for number, arm in enumerate(settings.arms):
        pulls, count = int(totals.pulls[number]), totals.counts[number]
        radius = math.inf if radii is None else float(radii[number]) * (high - low)
        arms.append(
            ArmStatus(
                arm,
                pulls,
                pulls / decided if decided else None,
                int(totals.rounds[number]),
                float(totals.sums[number] / count) if count else None,
                radius if math.isfinite(radius) else None,
                floors.get(arm),
            )
        )
    return Status(
        settings.name,
        str(settings.policy),
        settings.seed,
        settings.horizon,
        ended=ahead.ended,
        slots=ahead.next_slot,
        skipped=ahead.next_slot - decided,
        received=ahead.received,
        missing=ahead.missing,
        outstanding=ahead.outstanding,
        learned=ahead.learned,
        waiting=ahead.received - ahead.missing - ahead.learned,
        lateness=ahead.lateness,
        last_total_at=ahead.last_total_at,
        rounds=ahead.rounds,
        arms=tuple(arms),
        next=_find_next(ahead),
        awaited=tuple(islice(ahead.list_awaited(), _MAX_AWAITED)),
        notes=tuple(note for note in (_warn_of_one_arm(ahead), _warn_of_waiting(ahead)) if note),
        slot_length=settings.slot,
        start=settings.find_time(0),
        timezone=settings.timezone,
        control=settings.control,
        history=len(settings.history),
    )


def check_playable(settings: Settings) -> None:
    """Refuse settings under which the policy cannot begin, or plays one arm to the very end."""
    slots = settings.planned_slots
    with name_field("policy"):
        if settings.looks_at_slots:
            make_state(settings, Link(0, b"")).decide()
            return
        alone = count_slots_of_first_arm(settings.policy, len(settings.arms), slots, settings.seed)
        if alone >= slots:
            raise ParameterError(
                f"{settings.policy} plays one arm for all {slots:,} slots of the horizon: "
                "use a longer horizon, shorter slots, or another policy such as ars-ucb"
            )


@lru_cache(maxsize=256)
def count_slots_of_first_arm(policy: Policy, arms: int, horizon: int, seed: int) -> int:
    """The least number of slots for which the first arm is played before a second one is.

    The policy is tried on totals that are all the same and come at once; with others it may take
    longer. A policy that draws its arms may draw another one after the first round.
    """
    kernels = round_kernels(policy)
    params, state = policy.params(arms, horizon), policy.initial(arms)
    draws = Draws(seed)
    begin = draws.position
    rng = cast(np.random.Generator, draws)
    played, first = 0, None
    for _ in range(_MAX_ROUNDS):
        arm, slots, window = map(int, kernels.decide(state, params, played, rng))
        if first is None:
            first = arm
        if arm != first or played >= horizon:
            break
        played += slots
        if draws.position != begin:
            break
        kernels.absorb(state, params, arm, window, 0.5 * window)
    return min(played, horizon)


def _find_next(ahead: ExperimentState) -> Decision | None:
    if ahead.ended or ahead.has_reached_horizon or ahead.round is None:
        return None
    slot, current = ahead.next_slot, ahead.round
    arm, until = ahead.settings.arms[current.arm], max(current.until, slot)
    return Decision(
        slot,
        arm,
        current.number,
        until,
        slot > current.until,
        ahead.settings.find_time(slot),
        read_probabilities(ahead.settings, current.probabilities),
    )


def _warn_of_one_arm(state: ExperimentState) -> str:
    settings, arms = state.settings, len(state.settings.arms)
    is_known = settings.looks_at_slots or np.count_nonzero(state.arm_totals.pulls) > 1
    if state.ended or is_known:
        return ""
    alone = count_slots_of_first_arm(settings.policy, arms, settings.planned_slots, settings.seed)
    if alone <= arms:
        return ""
    share = f" ({alone / settings.horizon:.0%} of the horizon)" if settings.horizon else ""
    return f"at least the first {alone:,} slots go to one arm{share}"


def _warn_of_waiting(state: ExperimentState) -> str:
    if not state.lateness or state.planned >= _MIN_PLANNED_SHARE * state.lasted:
        return ""
    held = 1 - state.planned / state.lasted
    return (
        f"totals come {state.lateness:,} slots late, and {held:.0%} of the slots only waited for "
        "them: the rounds of this policy are too short for totals that come so late"
    )


def _show(number: float | None, notation: str = ",.4g") -> str:
    return "-" if number is None else format(number, notation)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
