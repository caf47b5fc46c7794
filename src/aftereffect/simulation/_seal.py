"""A seal on Parquet files, which shows damage.

Parquet checks little of what it holds: a flipped bit can give other numbers without an error, or
abort the process that reads it. So each file has a *seal*: a mark and the SHA-256 of all other
bytes, between the last column and the footer::

    PAR1 | columns | mark, digest | footer | length of the footer | PAR1

Readers find the footer from the end and the columns by their offsets in it, so other programs do
not notice the seal.
"""

import hashlib
from pathlib import Path

from aftereffect.errors import InputError

_MAGIC = b"PAR1"
_MARK = b"aftereffect seal"
_SEAL = len(_MARK) + hashlib.sha256().digest_size
#: The length of the footer, and the magic behind it.
_END = 4 + len(_MAGIC)


def add_seal(path: Path) -> None:
    """Put a seal into a Parquet file that was just written."""
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        size = file.seek(-_END, 2) + _END
        file.seek(size - _END - int.from_bytes(file.read(4), "little"))
        start, footer = file.tell(), file.read()
        file.seek(start)
        file.write(_MARK + digest + footer)


def read_sealed(path: Path) -> bytes:
    """Return the bytes of a Parquet file, if they are those that were sealed.

    Raises
    ------
    InputError
        If it is not a Parquet file, has no seal, or is damaged.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if (
        len(content) < len(_MAGIC) + _END
        or content[: len(_MAGIC)] != _MAGIC
        or content[-len(_MAGIC) :] != _MAGIC
    ):
        raise InputError(f"cannot read {path}: not a Parquet file, or cut short")
    footer = len(content) - _END - int.from_bytes(content[-_END : -len(_MAGIC)], "little")
    start = footer - _SEAL
    if start < 0 or content[start : start + len(_MARK)] != _MARK:
        raise InputError(
            f"cannot read {path}: not written by Study.save, or damaged: "
            "it has no digest of its content"
        )
    digest = hashlib.sha256(memoryview(content)[:start])
    digest.update(memoryview(content)[footer:])
    if digest.digest() != content[start + len(_MARK) : footer]:
        raise InputError(
            f"cannot read {path}: it is damaged, its content does not match its digest: "
            "run the study again or restore the file"
        )
    return content
