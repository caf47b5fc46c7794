"""How an experiment stands."""

import math
from typing import Any, NamedTuple

from aftereffect.columns import aligned
from aftereffect.live.ledger import Ledger

_MOST_SHOWN = 10


class ArmStatus(NamedTuple):
    """One arm: how often it was played, and the average of the totals that counted while it was, in the totals' own unit.

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

    `awaited` are the planned slots of the open round that were played and not told.
    """

    name: str
    policy: str
    seed: int
    horizon: int | None
    closed: bool
    slots: int
    told: int
    missing: int
    rounds: int
    arms: tuple[ArmStatus, ...]
    next: Next | None
    awaited: tuple[int, ...]

    def plain(self) -> dict[str, Any]:
        """By name, in the types that JSON has."""
        return self._asdict() | {
            "arms": [arm._asdict() for arm in self.arms],
            "next": self.next and self.next._asdict(),
            "awaited": list(self.awaited),
        }

    def __str__(self) -> str:
        """A table of the arms, and what is next."""
        rows = [("arm", "slots", "share", "rounds", "mean", "radius")]
        rows += [
            (arm.arm, f"{arm.slots:,}", _shown(arm.share, ".1%"), f"{arm.rounds:,}", _shown(arm.mean), _shown(arm.radius))
            for arm in self.arms
        ]
        missing = f" ({self.missing:,} missing)" if self.missing else ""
        done = f"{self.slots:,} slots decided, {self.told:,} told{missing}, {self.rounds:,} rounds closed"
        return "\n".join([f"{self.name}: {self.policy}, {done}", aligned(rows), self.outlook()])

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
        more = f" and {len(self.awaited) - _MOST_SHOWN:,} more" if len(self.awaited) > _MOST_SHOWN else ""
        return f"; waiting for {'slots' if len(self.awaited) > 1 else 'slot'} {shown}{more}"


def status_of(ledger: Ledger) -> Status:
    """How a ledger stands."""
    settings, tally = ledger.settings, ledger.tally
    low, high = settings.reward_range
    radii = settings.policy.radii(ledger.state, ledger.params, ledger.next_slot)
    arms = []
    for number, arm in enumerate(settings.arms):
        counted = tally.counted[number]
        radius = math.inf if radii is None else float(radii[number]) * (high - low)
        arms.append(
            ArmStatus(
                arm,
                int(tally.slots[number]),
                float(tally.slots[number]) / ledger.next_slot if ledger.next_slot else None,
                int(tally.rounds[number]),
                float(tally.collected[number] / counted) if counted else None,
                radius if math.isfinite(radius) else None,
            )
        )
    awaited = tuple(ledger.round.awaited(ledger.next_slot)) if ledger.round else ()
    return Status(
        settings.name,
        str(settings.policy),
        settings.seed,
        settings.horizon,
        ledger.closed,
        ledger.next_slot,
        ledger.told,
        ledger.missing,
        ledger.rounds,
        tuple(arms),
        _next(ledger),
        awaited,
    )


def _next(ledger: Ledger) -> Next | None:
    if ledger.closed or ledger.ended:
        return None
    slot, number, arm, until, _ = ledger.decision()
    return Next(slot, ledger.settings.arms[arm], number, max(until, slot), hold=slot > until)


def _shown(value: float | None, notation: str = ",.4g") -> str:
    return "-" if value is None else format(value, notation)
