"""Large original files: found, read block by block, and their contents cached beside them.

They may be plain, gzipped or zipped. They are unpacked while they are read, so that no copy is ever
on disk and a file of any length takes the same memory.
"""

import gzip
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from aftereffect._core import atomic_write, made_by, sources_digest
from aftereffect.errors import InputError, OutputError

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

#: Bytes in a block: enough that parsing takes longer than handling, and few beside the memory.
BLOCK = 8 << 20
#: The formats by the ending of the name, in the order in which they are looked for.
FORMATS = {".csv": "csv", ".csv.gz": "gzip", ".csv.zip": "zip"}
_KEY = "made_of"


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, if it is one."""
    path = Path(folder)
    if not path.is_dir():
        problem = "it is not a folder" if path.exists() else "there is no such folder"
        raise InputError(f"cannot read {path}: {problem}")
    return path


def find_file(folder: Path, name: str) -> Path | None:
    """The file of this name in whichever format is there, or None."""
    paths = (folder / f"{name}{ending}" for ending in FORMATS)
    return next((path for path in paths if path.is_file()), None)


def read_blocks(path: Path) -> Iterator[bytes]:
    """The header line, then blocks of whole lines.

    A line ends at each line break: none of the original files has one within a value.
    """
    with _name_errors(path), _open(path) as stream:
        yield stream.readline(BLOCK)
        while block := stream.read(BLOCK):
            yield block + stream.readline(BLOCK)


class _Stream(Protocol):
    """A file that is being unpacked."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int, /) -> bytes: ...


@contextmanager
def _open(path: Path) -> Iterator[_Stream]:
    """The unpacked contents of a file."""
    if path.suffix == ".gz":
        with gzip.open(path) as unzipped:
            yield unzipped
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            members = [
                name
                for name in archive.namelist()
                if name.endswith(".csv") and not name.startswith("__MACOSX/")
            ]
            if len(members) != 1:
                found = ", ".join(members) or "none"
                raise InputError(f"cannot read {path}: expected one csv file in it, found {found}")
            with archive.open(members[0]) as member:
                yield member
    else:
        with path.open("rb") as plain:
            yield plain


@contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    """Name the file in the message if it cannot be unpacked."""
    try:
        yield
    except InputError:
        raise
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile):
        form = next(FORMATS[ending] for ending in FORMATS if path.name.endswith(ending))
        raise InputError(
            f"cannot read {path}: it is not a complete {form} file of {path.stem}, "
            "download it again"
        ) from None
    except RuntimeError as error:  # zipfile raises it for encryption and for unknown methods
        raise InputError(
            f"cannot read {path}: unpack it to {path.stem} with another program ({error})"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def cache_beside(
    folder: Path, name: str, sources: Iterable[Path], make: Callable[[], Arrays]
) -> Arrays:
    """The arrays that `make` makes of the source files, cached in the folder.

    They are made anew only when a source file or this package has changed. If the folder cannot be
    written, nothing is cached.
    """
    target = folder / f".aftereffect-{name}.npz"
    states = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    key = json.dumps([made_by(), sources_digest([Path(__file__).parent]), states])
    cached = _load_cached(target, key)
    if cached is not None:
        return cached
    arrays = make()
    contents: dict[str, Any] = {_KEY: key, **arrays}
    with suppress(OutputError), atomic_write(target) as draft:
        np.savez_compressed(draft, **contents)
    return arrays


def _load_cached(target: Path, key: str) -> Arrays | None:
    try:
        with target.open("rb") as file, np.load(file) as stored:
            if str(stored[_KEY]) != key:
                return None
            return {name: stored[name] for name in stored.files if name != _KEY}
    except Exception:  # whatever is wrong with the cached file, it is made anew
        return None
