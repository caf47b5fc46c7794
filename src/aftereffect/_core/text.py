"""Texts for messages and tables."""

import difflib
import html
from collections.abc import Iterable, Sequence

_MAX_SHOWN = 60


def short_repr(value: object) -> str:
    """A value for a message, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python does not print integers of thousands of digits
        return "a number of thousands of digits"
    return shorten(text)


def shorten(text: str) -> str:
    """A text for a message, cut where it is long."""
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."


def readable_bytes(count: float) -> str:
    """An amount of memory for a message.

    >>> readable_bytes(2**27), readable_bytes(21.8e12)
    ('134 MB', '21,800 GB')
    """
    return f"{count / 1e9:,.0f} GB" if count >= 10e9 else f"{count / 1e6:,.0f} MB"


def text_table(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows as lines of aligned columns: the first `left` to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            f"{cell:<{width}}" if number < left else f"{cell:>{width}}"
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def suggest(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(word.lower(), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"


def html_table(rows: Sequence[Sequence[str]], title: str) -> str:
    """Format rows, the first of them headings, as an HTML table with everything escaped.

    >>> html_table([("a", "b"), ("<", "1")], title="c & d")  # doctest: +ELLIPSIS
    '<table><caption>c &amp; d</caption><tr><th>a</th><th>b</th></tr><tr><td>&lt;</td>...</table>'
    """
    lines = [
        "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in row)
        for row, cell in zip(rows, ["th", *["td"] * (len(rows) - 1)], strict=True)
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{html.escape(title)}</caption>{body}</table>"
