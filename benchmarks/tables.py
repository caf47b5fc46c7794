"""Tables for people: aligned Markdown, numbers of few digits, and a place in a file that a command keeps."""

import math
from collections.abc import Sequence
from pathlib import Path

from aftereffect.outputs import replacing


def markdown(table: Sequence[Sequence[str]]) -> str:
    """A table whose first row is the head; numbers stand right, aligned also for those who read the file as it is."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    head, *body = [_row([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table]
    rule = _row(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join([head, rule, *body])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def rounded(number: float, digits: int) -> str:
    """A positive number to so many digits, without an exponent: 0.57, 12, 57,000."""
    value = float(f"{number:.{digits}g}")
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(value)))}f}"


def between(text: str, begin: str, end: str) -> tuple[str, str]:
    """What stands before and after a marked place, markers included; a ValueError if there is not one such place."""
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ValueError(f"expected one {begin} and one {end} after it")
    return text[: text.index(begin) + len(begin)], text[text.index(end) :]


def rewrite(target: Path, begin: str, end: str, content: str) -> None:
    """Replace what stands between two markers, whole or not at all."""
    before, after = between(target.read_text(encoding="utf-8"), begin, end)
    with replacing(target) as draft:
        draft.write_text(f"{before}\n\n{content}\n\n{after}", encoding="utf-8")
