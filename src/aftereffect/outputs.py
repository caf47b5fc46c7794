"""Files are written whole or not at all, and a path that cannot be written is found before any work."""

import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from aftereffect.errors import OutputError


def writable(path: str | os.PathLike[str], suffixes: Collection[str]) -> Path:
    """The path, after making sure that a file of one of these kinds can be written there. Leaves nothing behind."""
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise OutputError(f"cannot write {target}: its name must end in {' or '.join(suffixes)}")
    if target.is_dir():
        raise OutputError(f"cannot write {target}: it is a folder, name a file in it")
    writable_folder(target.parent)
    return target


def writable_folder(folder: Path) -> Path:
    """An existing folder, after making sure that files can be written in it. Leaves nothing behind."""
    if not folder.is_dir():
        problem = "it is not a folder" if folder.exists() else "it does not exist, create it first"
        raise OutputError(f"cannot write into {folder}: {problem}")
    try:
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise OutputError(f"cannot write into {folder}: {error.strerror or error}") from None


def creatable_folder(folder: Path) -> Path:
    """A folder that exists and can be written, or that can be made. Leaves nothing behind."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    writable_folder(existing)
    return folder


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write to, which takes the target's place when all went well and disappears when not."""
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix)
        os.close(handle)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from None
    draft = Path(name)
    try:
        yield draft
        draft.chmod(0o666 & ~_umask())
        draft.replace(target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
