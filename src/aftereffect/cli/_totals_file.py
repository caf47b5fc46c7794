"""The totals of many slots from a CSV file."""

import csv
from pathlib import Path
from typing import Any

from aftereffect.cli._shared import read_number
from aftereffect.errors import InputError, ParameterError
from aftereffect.rewards import find_other_separator

_COLUMNS = ("slot", "total")
#: An optional column: the arm that was really played, where it is not the one decided.
_ARM = "arm"
#: What people write where there is no number.
_MISSING = ("", "missing")


def read_totals_file(path: Path) -> list[tuple[int, float | None, str | None]]:
    """Read slots, totals and arms; a missing total is None.

    A file with any line that cannot be read is refused as a whole.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            names = list(rows.fieldnames or ())
            absent = [name for name in _COLUMNS if name not in names]
            if absent:
                separator = find_other_separator(",".join(names))
                hint = f"; its columns are separated by {separator!r}: use commas"
                raise InputError(
                    f"the first line of {path} must name the columns slot and total, "
                    f"got no {' and no '.join(absent)}{hint if separator else ''}"
                )
            doubled = [name for name in (*_COLUMNS, _ARM) if names.count(name) > 1]
            if doubled:
                raise InputError(f"{path} has more than one column {doubled[0]}")
            return [_read_row(path, rows.line_num, row) for row in rows]
    except OSError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {path} as CSV: {error}") from None


def _read_row(path: Path, line: int, row: dict[Any, Any]) -> tuple[int, float | None, str | None]:
    if None in row or None in row.values():  # a comma within a number, or a file that was cut off
        hint = ": if numbers have decimal commas, use points" if None in row else ""
        raise InputError(f"{path}, line {line}: expected as many cells as there are columns{hint}")
    slot, total = (row[name].strip() for name in _COLUMNS)
    if not (slot.isascii() and slot.isdigit()):
        raise InputError(f"{path}, line {line}: a slot must be a whole number, got {slot!r}")
    try:
        number = None if total.lower() in _MISSING else read_number(total)
    except ParameterError:
        hint = ": write 1234.5, with a point and no other marks" if "," in total else ""
        raise InputError(
            f"{path}, line {line}: a total must be a number, or empty if it is missing, "
            f"got {total!r}{hint}"
        ) from None
    return int(slot), number, row.get(_ARM, "").strip() or None
