"""Where an oracle finds the parts that arrive in a slot.

The last pulls are in a ring: each has a column of the memory. What else there is to remember, and
where to look, depends on the delay:

- Rewards that are cut into the same shares: nothing to remember. A part arrives from every pull
  between the first lag and the last, unless the table has no share there.
- Rewards that arrive whole at a random lag: each slot has a list of the pulls that arrive in it.
- Any other recipe: the shares of each pull by lag, as a deposit of the slotwise engine leaves them.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from aftereffect._core import Matrix, Memory, Slots
from aftereffect.delays._engines import ARRIVALS, SHARES, Deposit, PartKernels

#: ``draw(tables, row, rng)``: one random lag, by the table in that row.
DrawLag: TypeAlias = Callable[[Matrix, int, np.random.Generator], int]

#: The memory, after the row of `ARRIVALS`. By pull: its arm, its reward, what of it has arrived.
PENDING_ARM, PENDING_REWARD, ARRIVED = range(1, 4)
#: For lists: by slot the first and the last pull of its list, by pull the next one in its list.
#: Each is a column and one, or 0 if there is none.
DUE_FIRST, DUE_LAST, DUE_NEXT = range(4, 7)
#: For any other recipe: by pull its last lag, and its share at each lag: a row for each lag.
LAST_LAG, PENDING_SHARES = 7, 8


def _find_column(here: int, lag: int, columns: int) -> int:
    """The column of the pull so many slots before the one in column `here`."""
    return here - lag if lag <= here else here - lag + columns


def _note_nothing(
    memory: Memory, tables: Matrix, row: int, slot: int, rng: np.random.Generator
) -> None:
    pass


def _find_share(
    memory: Memory, tables: Matrix, rows: Slots, first: int, end: int, here: int, before: int
) -> int:
    first_lag, lags = int(tables[tables.shape[0] - 1, 0]), tables.shape[1] - SHARES
    for lag in range(min(before, lags) - 1, first_lag - 1, -1):
        pull = _find_column(here, lag, memory.shape[1])
        row = rows[int(memory[PENDING_ARM, pull])]
        if first <= row < end and tables[row, SHARES + lag] > 0.0:
            return lag
    return -1


def _take_share(
    memory: Memory, tables: Matrix, row: int, pull: int, lag: int
) -> tuple[float, bool]:
    return tables[row, SHARES + lag], lag == int(tables[row, 0])


#: For rewards that are cut into the same shares, whose table is that of `deposit_shares`.
SHARE_PARTS = PartKernels(_note_nothing, _find_share, _take_share, rows=ARRIVED + 1)


@cache
def list_parts(draw_lag: DrawLag) -> PartKernels:
    """For rewards that arrive whole at a random lag."""

    def note(memory: Memory, tables: Matrix, row: int, slot: int, rng: np.random.Generator) -> None:
        columns = memory.shape[1]
        pull, due = slot % columns, (slot + draw_lag(tables, row, rng)) % columns
        if memory[DUE_FIRST, due] == 0.0:
            memory[DUE_FIRST, due] = pull + 1
        else:
            memory[DUE_NEXT, int(memory[DUE_LAST, due]) - 1] = pull + 1
        memory[DUE_LAST, due] = pull + 1
        memory[DUE_NEXT, pull] = 0.0

    return PartKernels(note, _find_due, _take_whole, rows=DUE_NEXT + 1)


def _find_due(
    memory: Memory, tables: Matrix, rows: Slots, first: int, end: int, here: int, before: int
) -> int:
    pull = int(memory[DUE_FIRST, here]) - 1
    while pull >= 0:
        lag = here - pull if pull <= here else here - pull + memory.shape[1]
        if lag < before:
            return lag
        memory[DUE_FIRST, here] = memory[DUE_NEXT, pull]  # it has been taken
        pull = int(memory[DUE_NEXT, pull]) - 1
    return -1


def _take_whole(
    memory: Memory, tables: Matrix, row: int, pull: int, lag: int
) -> tuple[float, bool]:
    return 1.0, True


@cache
def deposited_parts(deposit: Deposit) -> PartKernels:
    """For any recipe of the slotwise engine: the shares are what it deposits of a reward of 1."""

    def note(memory: Memory, tables: Matrix, row: int, slot: int, rng: np.random.Generator) -> None:
        columns = memory.shape[1]
        pull = cell = slot % columns
        deposit(memory, tables, row, slot, 1.0, rng)
        for lag in range(columns):
            share = memory[ARRIVALS, cell]
            memory[ARRIVALS, cell] = 0.0
            memory[PENDING_SHARES + lag, pull] = share
            if share > 0.0:
                memory[LAST_LAG, pull] = lag
            cell = cell + 1 if cell + 1 < columns else 0

    return PartKernels(note, _find_deposited, _take_deposited, rows=PENDING_SHARES)


def _find_deposited(
    memory: Memory, tables: Matrix, rows: Slots, first: int, end: int, here: int, before: int
) -> int:
    for lag in range(before - 1, -1, -1):
        pull = _find_column(here, lag, memory.shape[1])
        row = rows[int(memory[PENDING_ARM, pull])]
        if first <= row < end and memory[PENDING_SHARES + lag, pull] > 0.0:
            return lag
    return -1


def _take_deposited(
    memory: Memory, tables: Matrix, row: int, pull: int, lag: int
) -> tuple[float, bool]:
    return memory[PENDING_SHARES + lag, pull], lag == int(memory[LAST_LAG, pull])
