"""What is written: files, whole or not at all and checked before the work, tables and texts."""

import difflib
import html
import math
import os
import secrets
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aftereffect._core.installation import import_optional
from aftereffect.errors import AftereffectError, OutputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The formats of pictures, and the resolution of PNG.
PICTURE_SUFFIXES, DPI = (".png", ".svg", ".pdf"), 160
_DRAFT, _LOCK = ".draft-", ".lock"
#: Characters of a value that a message shows.
_MAX_SHOWN = 60


def check_writable(path: str | os.PathLike[str], suffixes: Collection[str]) -> Path:
    """Check that a file of one of these kinds can be written there; leaves nothing behind."""
    target = Path(path)
    if os.fspath(path).endswith(("/", os.sep)):  # a Path drops the slash
        raise OutputError(f"cannot write {os.fspath(path)}: that is a folder, name a file in it")
    if target.suffix.lower() not in suffixes:
        raise OutputError(f"cannot write {target}: its name must end in {' or '.join(suffixes)}")
    with _naming(target):
        if target.is_dir():
            raise OutputError(f"cannot write {target}: it is a folder, name a file in it")
        if target.exists() and not (target.is_file() and os.access(target, os.W_OK)):
            raise OutputError(f"cannot write {target}: it exists and is not a writable file")
    check_writable_folder(target.parent)
    return target


def check_writable_folder(folder: Path) -> Path:
    """Check that files can be written into an existing folder; leaves nothing behind."""
    with _naming(folder):
        if not folder.is_dir():
            problem = (
                "it is not a folder" if folder.exists() else "it does not exist, create it first"
            )
            raise OutputError(f"cannot write into {folder}: {problem}")
        with tempfile.TemporaryFile(dir=folder):
            return folder


def check_creatable_folder(folder: Path) -> Path:
    """Check that a folder can be written or created; leaves nothing behind."""
    with _naming(folder):
        candidates = (folder, *folder.absolute().parents)
        check_writable_folder(
            next(path for path in candidates if path.exists() or path.is_symlink())
        )
    return folder


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, if they do not exist."""
    with _naming(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def atomic_write(target: Path, suffix: str | None = None) -> Iterator[Path]:
    """Yield a path to write to; it replaces the target if all went well, and is removed if not.

    The draft has the target's suffix, as writers look at that, unless another one is given.
    """
    final = target.resolve()  # a link stays a link
    draft = final.with_name(
        f"{_DRAFT}{secrets.token_hex(8)}{target.suffix if suffix is None else suffix}"
    )
    with _naming(target):
        try:
            yield draft
            draft.replace(final)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder for this process, and remove what a killed process left half written."""
    import fcntl  # not on every system; without it all else works

    with _naming(folder):
        lock = (folder / _LOCK).open("w")
    with lock:
        try:
            fcntl.flock(
                lock, fcntl.LOCK_EX | fcntl.LOCK_NB
            )  # the system releases it, however the process ends
        except BlockingIOError:
            raise OutputError(
                f"cannot write into {folder}: another process is writing there; "
                "wait for it or choose another folder"
            ) from None
        except OSError:  # a file system without locks, where nobody can be locked out
            yield
            return
        for draft in folder.glob(f"{_DRAFT}*"):
            draft.unlink(missing_ok=True)
        try:
            yield
        finally:  # processes that were forked meanwhile hold the file, and may end later
            fcntl.flock(lock, fcntl.LOCK_UN)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn the system's errors into ours, with the path."""
    try:
        yield
    except AftereffectError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None


def open_axes(ax: "Axes | None", size: tuple[float, float]) -> "Axes":
    """Axes to draw on: the given ones, or those of a new figure of pyplot."""
    import_optional("matplotlib")
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.figure(figsize=size, layout="constrained").add_subplot()


def save_figure(
    draw: Callable[["Axes"], object], size: tuple[float, float], path: str | os.PathLike[str]
) -> None:
    """Draw a picture, and write it in the format that the path ends in."""
    import_optional("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure.add_subplot())
    with atomic_write(check_writable(path, PICTURE_SUFFIXES)) as draft:
        figure.savefig(draft, dpi=DPI)


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


def suggest(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(word.lower(), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"


def show_amount(amount: float | None, sign: str = "-") -> str:
    """An amount with three digits, or all digits of its whole part; "-" for none.

    >>> show_amount(48.97, "+"), show_amount(123_456.7), show_amount(0.01234), show_amount(0.5)
    ('+49.0', '123,457', '0.0123', '0.5')
    """
    if amount is None:
        return "-"
    size = math.floor(math.log10(abs(amount))) if amount else 0
    number = f"{amount:{sign},.{min(max(2 - size, 0), 9)}f}"
    return number if sign == "+" or "." not in number else number.rstrip("0").rstrip(".")
