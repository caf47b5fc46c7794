"""How an experiment stands."""

import math
from itertools import islice
from typing import Any, NamedTuple

from aftereffect.columns import aligned
from aftereffect.live.ledger import Ledger
from aftereffect.live.outlook import notes

#: Slots that a status lists, and that a sentence names.
_MOST_AWAITED, _MOST_SHOWN = 100, 10


class ArmStatus(NamedTuple):
    """One arm: for how many slots it was advised, and the average of the totals while it was played, in their own unit.

    The radius is what the policy adds to that average when it compares arms, in the same unit: None where it has no such idea
    or the arm has no average yet. It is no confidence interval.
    """

    arm: str
    slots: int
    share: float | None
    rounds: int
    mean: float | None
    radius: float | None


class Next(NamedTuple):
    """What the next slot will be: `arm`, planned up to slot `until`; a `hold` slot where the round waits for its totals."""

    slot: int
    arm: str
    round: int
    until: int
    hold: bool


class Status(NamedTuple):
    """An experiment at one moment; `next` is None when it is closed or all its slots are decided.

    Of the `slots` so far `skipped` were not decided, `told` have a total or are `missing`, and `untold` were played and have
    neither.
    Of the totals, the policy has `learned` so many; `waiting` ones wait for the end of their round, or for the next round of
    their arm. `late` is how many slots late the latest totals came, all but the latest tenth of them, and `last_told_at` when
    the last came. `awaited` are the first planned slots of the open round that were played and not told. `notes` are warnings.
    """

    name: str
    policy: str
    seed: int
    horizon: int | None
    closed: bool
    slots: int
    skipped: int
    told: int
    missing: int
    untold: int
    learned: int
    waiting: int
    late: int | None
    last_told_at: str | None
    rounds: int
    arms: tuple[ArmStatus, ...]
    next: Next | None
    awaited: tuple[int, ...]
    notes: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """By name, in the types that JSON has."""
        return self._asdict() | {
            "arms": [arm._asdict() for arm in self.arms],
            "next": self.next and self.next._asdict(),
            "awaited": list(self.awaited),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """A table of the arms, and what is next."""
        rows = [("arm", "slots", "share", "rounds", "mean", "radius")]
        rows += [
            (arm.arm, f"{arm.slots:,}", _shown(arm.share, ".1%"), f"{arm.rounds:,}", _shown(arm.mean), _shown(arm.radius))
            for arm in self.arms
        ]
        return "\n".join([f"{self.name}: {self.policy}, {self.progress()}", aligned(rows), self.outlook(), *self._notes()])

    def progress(self) -> str:
        """How far it is, in a sentence: what was told, and what came of it."""
        missing = f" ({self.missing:,} missing)" if self.missing else ""
        late = f", {self.late:,} {'slots' if self.late > 1 else 'slot'} late" if self.late else ""
        decided = self.slots - self.skipped
        skipped = f" ({self.skipped:,} skipped)" if self.skipped else ""
        parts = [
            f"{decided:,} {'slot' if decided == 1 else 'slots'} decided{skipped}",
            f"{self.told:,} told{missing}{late}",
            f"{self.learned:,} learned",
        ]
        if self.waiting:
            parts.append(f"{self.waiting:,} waiting")
        return ", ".join([*parts, f"{self.rounds:,} {'round' if self.rounds == 1 else 'rounds'} closed"])

    def _notes(self) -> list[str]:
        return [f"note: {note}" for note in self.notes]

    def outlook(self) -> str:
        """What comes next, in a sentence."""
        if self.closed:
            return "closed"
        if self.next is None:
            return f"all {self.slots:,} slots are decided: close it"
        if not self.next.hold:
            return f"next: slot {self.next.slot} plays {self.next.arm}, planned up to slot {self.next.until}{self._waiting()}"
        return f"next: slot {self.next.slot} holds {self.next.arm}{self._waiting()}"

    def _waiting(self) -> str:
        if not self.awaited:
            return ""
        shown = ", ".join(map(str, self.awaited[:_MOST_SHOWN]))
        more = " and more" if len(self.awaited) > _MOST_SHOWN else ""
        return f"; waiting for {'slots' if len(self.awaited) > 1 else 'slot'} {shown}{more}"


def status_of(ledger: Ledger) -> Status:
    """How an experiment stands, as the next decision will find it."""
    ahead = ledger.ahead()
    settings, tally = ahead.settings, ahead.tally
    low, high = settings.reward_range
    radii = settings.policy.radii(ahead.state, ahead.params, ahead.next_slot)
    decided = int(tally.slots.sum())
    arms = []
    for number, arm in enumerate(settings.arms):
        told = tally.told[number]
        radius = math.inf if radii is None else float(radii[number]) * (high - low)
        arms.append(
            ArmStatus(
                arm,
                int(tally.slots[number]),
                float(tally.slots[number] / decided) if decided else None,
                int(tally.rounds[number]),
                float(tally.collected[number] / told) if told else None,
                radius if math.isfinite(radius) else None,
            )
        )
    return Status(
        settings.name,
        str(settings.policy),
        settings.seed,
        settings.horizon,
        ahead.closed,
        ahead.next_slot,
        ahead.next_slot - decided,
        ahead.told,
        ahead.missing,
        untold=ahead.untold,
        learned=ahead.learned,
        waiting=ahead.told - ahead.missing - ahead.learned,
        late=ahead.late(),
        last_told_at=ahead.last_told_at,
        rounds=ahead.rounds,
        arms=tuple(arms),
        next=_next(ahead),
        awaited=tuple(islice(ahead.round.awaited(), _MOST_AWAITED)) if ahead.round else (),
        notes=notes(ahead),
    )


def _next(ahead: Ledger) -> Next | None:
    if ahead.closed or ahead.ended or ahead.round is None:
        return None
    slot, current = ahead.next_slot, ahead.round
    return Next(slot, ahead.settings.arms[current.arm], current.number, max(current.until, slot), hold=slot > current.until)


def _shown(value: float | None, notation: str = ",.4g") -> str:
    return "-" if value is None else format(value, notation)
