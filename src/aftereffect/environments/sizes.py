"""How much memory an environment's tables take, known before any of them is made: too much is refused by name."""

from functools import singledispatch
from typing import NamedTuple

from aftereffect.checks import cut, readable_bytes
from aftereffect.environments import slotwise
from aftereffect.environments.base import EngineName
from aftereffect.errors import ParameterError
from aftereffect.spreads import Delaying, FixedShares, Geometric, HoldBack, Immediate, PowerLaw, RandomLag, Spread, Spreading

#: Of the tables of all spreads and of what one run remembers; every thread has its own of the latter.
MAX_TABLE_BYTES = 128 * 2**20
#: A power law is a sum of at most so many terms.
_MOST_TERMS = 76
#: An adversary notes a few numbers.
_FEW = 8


class Cells(NamedTuple):
    """Numbers in the table of a spread, and numbers that are remembered for it."""

    law: int
    memory: int


def check_memory(delays: Delaying, arms: int, engine: EngineName, horizon: int) -> None:
    """Refuse delays that would need more than `MAX_TABLE_BYTES`."""
    needed = needed_bytes(delays, arms, engine, horizon)
    if needed > MAX_TABLE_BYTES:
        raise ParameterError(
            f"{cut(str(delays))} needs {readable_bytes(needed)} of memory on the {engine} engine, at most "
            f"{readable_bytes(MAX_TABLE_BYTES)} are taken: give shorter lags, or fewer spreads that differ"
        )


def needed_bytes(delays: Delaying, arms: int, engine: EngineName, horizon: int) -> int:
    """What the tables and the memory of one run take: as much as will be, or a little more."""
    if isinstance(delays, HoldBack):
        return 8 * (2 * (delays.d + 1) if engine == "slotwise" else 1) + 8 * _FEW
    if not isinstance(delays, Spreading):
        return 0
    spreads = list(dict.fromkeys(delays.by_arm(arms)))
    cells = [by_slots(spread, horizon) if engine == "slotwise" else by_rounds(spread) for spread in spreads]
    rows = {"roundwise": len(spreads), "slotwise": len(slotwise.ROWS)}[engine]
    return 8 * (len(spreads) * max(each.law for each in cells) + rows * max(each.memory for each in cells))


@singledispatch
def by_rounds(spread: Spread) -> Cells:
    """What a recipe of the fast engine takes."""
    return Cells(0, 0)  # of someone's own making, who knows what it needs


@by_rounds.register
def _(spread: Geometric) -> Cells:
    return Cells(3 + 256 * 2, 1)


@by_rounds.register
def _(spread: PowerLaw) -> Cells:
    return Cells(1 + 3 * _MOST_TERMS + 256 * (1 + _MOST_TERMS), _MOST_TERMS)


@by_rounds.register
def _(spread: FixedShares) -> Cells:
    reach = int(spread.reach)
    return Cells(2 * reach + 3, 2 * max(reach, 1))


@by_rounds.register
def _(spread: Immediate) -> Cells:
    return Cells(1, 1)


@by_rounds.register
def _(spread: RandomLag) -> Cells:
    return Cells(len(spread.lag_table()), int(spread.reach) + 1)


def by_slots(spread: Spread, horizon: int) -> Cells:
    """What a recipe of the literal engine takes: a ring as long as the longest lag, and a share for each lag."""
    reach = slotwise.held(spread, horizon)
    law = len(spread.lag_table()) if isinstance(spread, RandomLag) else reach + 2
    return Cells(law, reach + 1)
