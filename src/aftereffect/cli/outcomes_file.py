"""Outcomes of many slots from a CSV file."""

import csv
from pathlib import Path
from typing import Any

from aftereffect.cli.values import read_number
from aftereffect.data.separators import other_separator
from aftereffect.errors import InputError, ParameterError

_COLUMNS = ("slot", "value")
#: Which arm was really played, where that is not the one advised.
_ARM = "arm"
#: What people write where there is no number.
_MISSING = ("", "missing")


def outcomes_in(path: Path) -> list[tuple[int, float | None, str | None]]:
    """Slots and totals, None where a total is missing; nothing is taken from a file that has a line which cannot be read."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            names = list(rows.fieldnames or ())
            absent = [name for name in _COLUMNS if name not in names]
            if absent:
                other = other_separator(",".join(names))
                found = f"{' and '.join(absent)} not found{f': separated by {other!r}, write commas' if other else ''}"
                raise InputError(f"{path} must begin with a line of names, slot and value among them; {found}")
            doubled = [name for name in (*_COLUMNS, _ARM) if names.count(name) > 1]
            if doubled:
                raise InputError(f"{path} has more than one column {doubled[0]}")
            return [_outcome(path, rows.line_num, row) for row in rows]
    except OSError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {path} as CSV: {error}") from None


def _outcome(path: Path, line: int, row: dict[Any, Any]) -> tuple[int, float | None, str | None]:
    if None in row or None in row.values():  # a comma within a number, or a file that was cut off
        hint = ": if it has decimal commas, write points" if None in row else ""
        raise InputError(f"{path}, line {line}: there must be as many cells as names in the first line{hint}")
    slot, value = (row[name].strip() for name in _COLUMNS)
    if not (slot.isascii() and slot.isdigit()):
        raise InputError(f"{path}, line {line}: a slot must be a whole number, got {slot!r}")
    try:
        total = None if value.lower() in _MISSING else read_number(value)
    except ParameterError:
        hint = ": write 1234.5, with a point and no other marks" if "," in value else ""
        raise InputError(
            f"{path}, line {line}: a value must be a number, or empty where it is missing, got {value!r}{hint}"
        ) from None
    return int(slot), total, row.get(_ARM, "").strip() or None
