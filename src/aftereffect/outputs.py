"""Files are written whole or not at all, and a path that cannot be written is found before any work."""

import os
import secrets
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aftereffect.errors import AftereffectError, OutputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Kinds of pictures, and how fine those of dots are.
PICTURES, DPI = (".png", ".svg", ".pdf"), 160
_DRAFT, _LOCK = ".draft-", ".lock"


def writable(path: str | os.PathLike[str], suffixes: Collection[str]) -> Path:
    """The path, after making sure that a file of one of these kinds can be written there. Leaves nothing behind."""
    target = Path(path)
    if os.fspath(path).endswith(("/", os.sep)):  # which a Path forgets
        raise OutputError(f"cannot write {os.fspath(path)}: that is a folder, name a file in it")
    if target.suffix.lower() not in suffixes:
        raise OutputError(f"cannot write {target}: its name must end in {' or '.join(suffixes)}")
    with _told(target):
        if target.is_dir():
            raise OutputError(f"cannot write {target}: it is a folder, name a file in it")
        if target.exists() and not (target.is_file() and os.access(target, os.W_OK)):
            raise OutputError(f"cannot write {target}: what is there is not a file that may be replaced")
    writable_folder(target.parent)
    return target


def writable_folder(folder: Path) -> Path:
    """An existing folder, after making sure that files can be written in it. Leaves nothing behind."""
    with _told(folder):
        if not folder.is_dir():
            problem = "it is not a folder" if folder.exists() else "it does not exist, create it first"
            raise OutputError(f"cannot write into {folder}: {problem}")
        with tempfile.TemporaryFile(dir=folder):
            return folder


def creatable_folder(folder: Path) -> Path:
    """A folder that exists and can be written, or that can be made. Leaves nothing behind."""
    with _told(folder):
        candidates = (folder, *folder.absolute().parents)
        writable_folder(next(path for path in candidates if path.exists() or path.is_symlink()))
    return folder


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, unless they are there."""
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def replacing(target: Path, suffix: str | None = None) -> Iterator[Path]:
    """A path to write to, which takes the target's place when all went well and disappears when not.

    It ends as the target does, as writers look at that; with another suffix, those who read all files that end so do not find
    it.
    """
    final = target.resolve()  # a link stays a link
    draft = final.with_name(f"{_DRAFT}{secrets.token_hex(8)}{target.suffix if suffix is None else suffix}")
    with _told(target):
        try:
            yield draft
            draft.replace(final)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Have a folder alone, and free of what a process that was killed left half written."""
    import fcntl  # not on every system; those that lack it can do all else

    with _told(folder):
        lock = (folder / _LOCK).open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system lets go of it, however the process ends
        except BlockingIOError:
            raise OutputError(f"cannot write into {folder}: another process is at work there, wait for its end") from None
        except OSError:  # a file system without locks, where nobody can be kept out
            yield
            return
        for draft in folder.glob(f"{_DRAFT}*"):
            draft.unlink(missing_ok=True)
        yield


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say which path it was when the system refuses."""
    try:
        yield
    except AftereffectError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write a picture; the ending of the path says in which format."""
    with replacing(writable(path, PICTURES)) as draft:
        figure.savefig(draft, dpi=DPI)
