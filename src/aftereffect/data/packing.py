"""The files as they come, bare, gzipped or zipped: found, and read a block of whole lines at a time.

They are unpacked as they are read, so that no copy is ever on disk and a file of any length takes the same memory.
"""

import gzip
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from aftereffect.errors import InputError

#: A block's length in bytes: long enough that its parsing outweighs its handling, short enough to be a small part of memory.
BLOCK = 8 << 20


class Stream(Protocol):
    """What is read from a file, unpacked."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int, /) -> bytes: ...


class Format(NamedTuple):
    """One way in which a csv file comes."""

    called: str
    opened: Callable[[Path], AbstractContextManager[Stream]]


@contextmanager
def _zipped(path: Path) -> Iterator[Stream]:
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.endswith(".csv") and not name.startswith("__MACOSX/")]
        if len(members) != 1:
            raise InputError(f"cannot read {path}: it should hold one csv file, but holds {', '.join(members) or 'none'}")
        with archive.open(members[0]) as stream:
            yield stream


#: By the ending of the name, in the order in which they are looked for: what needs no unpacking first.
FORMATS = {
    ".csv": Format("csv", lambda path: path.open("rb")),
    ".csv.gz": Format("gzip", gzip.GzipFile),
    ".csv.zip": Format("zip", _zipped),
}


def existing_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, after making sure that it is one."""
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"cannot read {path}: {'it is not a folder' if path.exists() else 'there is no such folder'}")
    return path


def find(folder: Path, name: str) -> Path | None:
    """The file of this name in whichever format is there, or None."""
    return next((path for ending in FORMATS if (path := folder / f"{name}{ending}").is_file()), None)


def blocks(path: Path) -> Iterator[bytes]:
    """The header line, then blocks of whole lines.

    A line is taken to end where its text has a line break: none of the original files has one within a value.
    """
    form = next(FORMATS[ending] for ending in FORMATS if path.name.endswith(ending))
    with _told(path, form), form.opened(path) as stream:
        yield stream.readline(BLOCK)
        while block := stream.read(BLOCK):
            yield block + stream.readline(BLOCK)


@contextmanager
def _told(path: Path, form: Format) -> Iterator[None]:
    """Say which file it was when it cannot be unpacked."""
    try:
        yield
    except InputError:
        raise
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile):
        problem = f"it is not a whole {form.called} file of {path.stem}: download it again"
        raise InputError(f"cannot read {path}: {problem}") from None
    except RuntimeError as error:  # what zipfile says of encryption and of methods that it does not know
        raise InputError(f"cannot read {path}: unpack it to {path.stem} by other means ({error})") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
