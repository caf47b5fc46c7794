"""What several units play and observe in a slot, as the text of an event.

- A decision has the arm of each unit, in the order of the settings: ``[0, 1, 1, 0]``.
- Its probabilities are a row per unit, with a number per arm. If all rows are the same, there is
  one: ``[[0.5, 0.5]]``.
- A total has a row for each unit that it is about: the number of the unit, the arm that was played,
  the total, and the covariates if some were ever given: ``[[0, 1, 37.0], [2, 0, null]]``. The arm
  is null if nothing was played, and the total if it is missing.
"""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aftereffect._core import Matrix, short_repr, suggest
from aftereffect.errors import ParameterError

Covariates = tuple[float | None, ...]


class UnitTotal(NamedTuple):
    """What one unit observed: its number, the arm that it played, and its total.

    The arm is None if nothing was played, the total if it is missing, and the covariates if none
    were ever given.
    """

    unit: int
    arm: int | None
    total: float | None
    covariates: Covariates | None = None


def write_totals(totals: Iterable[UnitTotal]) -> str:
    """The text of an event about some units.

    >>> write_totals([UnitTotal(0, 1, 37.0), UnitTotal(2, 0, None, (3.5, None))])
    '[[0, 1, 37.0], [2, 0, null, [3.5, null]]]'
    """
    return json.dumps([each[: 3 if each.covariates is None else 4] for each in totals])


def read_unit_totals(text: str | None) -> list[UnitTotal]:
    """What `write_totals` wrote.

    >>> read_unit_totals("[[2, 0, null, [3.5, null]]]")
    [UnitTotal(unit=2, arm=0, total=None, covariates=(3.5, None))]
    """
    return [
        UnitTotal(unit, arm, total, tuple(rest[0]) if rest else None)
        for unit, arm, total, *rest in json.loads(text or "[]")
    ]


def write_arms(arms: Iterable[int]) -> str:
    """The text of a decision for all units."""
    return json.dumps(list(arms))


def read_arms(text: str | None) -> tuple[int, ...]:
    """What `write_arms` wrote; nothing where an event is not about units.

    >>> read_arms("[0, 1]"), read_arms(None)
    ((0, 1), ())
    """
    return tuple(json.loads(text)) if text else ()


def write_chances(chances: Matrix) -> str:
    """The text of probabilities by unit and arm.

    >>> import numpy as np
    >>> write_chances(np.array([[0.5, 0.5], [0.5, 0.5]]))
    '[[0.5, 0.5]]'
    """
    rows = chances[:1] if (chances == chances[0]).all() else chances
    return json.dumps(rows.tolist())


def read_chances(text: str | None, units: int) -> list[list[float]] | None:
    """What `write_chances` wrote, with a row for each unit; None where there is no text.

    >>> read_chances("[[0.5, 0.5]]", units=2)
    [[0.5, 0.5], [0.5, 0.5]]
    """
    if text is None:
        return None
    rows: list[list[float]] = json.loads(text)
    return rows * units if len(rows) == 1 else rows


def find_unit(units: Sequence[str], slot: int, unit: object) -> int:
    """The number of a unit that a caller names for a slot.

    >>> find_unit(["north", "south"], 0, "south")
    1
    """
    if unit is None:
        first = ", ".join(f"{name!r}: 37" for name in units[:2])
        raise ParameterError(
            f"the total of slot {slot} is for no unit, and the experiment has {len(units):,}: give "
            f"the name of the unit, or totals by unit, such as {{{first}}}"
        )
    if unit not in units:
        hint = (
            suggest(str(unit), units)
            if units
            else "the experiment has none; they are named when it is created"
        )
        raise ParameterError(f"slot {slot} has an unknown unit {short_repr(unit)}: {hint}")
    return units.index(str(unit))
