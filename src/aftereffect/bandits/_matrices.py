"""Matrices as plain lists, for numbers that must be the same on every machine.

Sums are rounded once (`math.fsum`). Those of a library may depend on the processor.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

from aftereffect._core import check_float, check_sequence
from aftereffect.errors import ParameterError

Table: TypeAlias = list[list[float]]
Rows: TypeAlias = tuple[tuple[float, ...], ...]
AnyRows: TypeAlias = Sequence[Sequence[float]]

#: Numbers that are given may be this large.
MAX_ENTRY = 1e6


def check_vector(
    name: str, values: object, length: int | None = None, most: float = MAX_ENTRY
) -> tuple[float, ...]:
    """Finite numbers, as many as wanted.

    >>> check_vector("omega", [1, 2])
    (1.0, 2.0)
    """
    given = check_sequence(name, values)
    wanted = "at least one number" if length is None else f"{length} numbers"
    if len(given) != (length or max(len(given), 1)):
        raise ParameterError(f"{name} must be {wanted}, got {len(given)}")
    return tuple(
        check_float(f"{name}[{place}]", each, at_least=-most, at_most=most)
        for place, each in enumerate(given)
    )


def check_matrix(
    name: str, values: object, rows: int | None, columns: int, most: float = MAX_ENTRY
) -> Rows:
    """Rows of finite numbers, as many as wanted.

    >>> check_matrix("b", [[1], [2]], rows=2, columns=1)
    ((1.0,), (2.0,))
    """
    given = check_sequence(name, values)
    if rows is not None and len(given) != rows:
        raise ParameterError(
            f"{name} must have {rows} rows of {columns} numbers, got {len(given)} rows"
        )
    return tuple(
        check_vector(f"{name}[{row}]", each, columns, most) for row, each in enumerate(given)
    )


def transpose(rows: AnyRows) -> Table:
    """Rows as columns.

    >>> transpose([[1.0, 2.0]])
    [[1.0], [2.0]]
    """
    return [list(column) for column in zip(*rows, strict=True)]


def multiply(one: AnyRows, other: AnyRows) -> Table:
    """The product of two matrices.

    >>> multiply([[1.0, 2.0]], [[3.0], [4.0]])
    [[11.0]]
    """
    columns = list(zip(*other, strict=True))
    return [
        [math.fsum(x * y for x, y in zip(row, column, strict=True)) for column in columns]
        for row in one
    ]


def add_up(one: AnyRows, other: AnyRows) -> Table:
    """The sum of two matrices.

    >>> add_up([[1.0]], [[2.0]])
    [[3.0]]
    """
    return [
        [x + y for x, y in zip(row, each, strict=True)]
        for row, each in zip(one, other, strict=True)
    ]


def diagonal(entries: Sequence[float]) -> Table:
    """A matrix with these entries, and 0 elsewhere.

    >>> diagonal([1.0, 2.0])
    [[1.0, 0.0], [0.0, 2.0]]
    """
    size = len(entries)
    return [
        [entries[row] if row == column else 0.0 for column in range(size)] for row in range(size)
    ]


def find_root(covariance: Table) -> Table:
    """The lower triangle whose square is a covariance (Cholesky); some entries may be certain.

    >>> find_root([[0.0, 0.0], [0.0, 4.0]])
    [[0.0, 0.0], [0.0, 2.0]]
    """
    size = len(covariance)
    root = [[0.0] * size for _ in range(size)]
    for row in range(size):
        for column in range(row + 1):
            known = math.fsum(root[row][at] * root[column][at] for at in range(column))
            left = covariance[row][column] - known
            if row == column:
                # What rounding leaves of nothing is no variance.
                root[row][row] = math.sqrt(left) if left > 1e-14 * covariance[row][row] else 0.0
            elif root[column][column] > 0.0:
                root[row][column] = left / root[column][column]
    return root
