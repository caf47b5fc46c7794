"""A digest inside a Parquet file, which proves the file before anything parses it.

Parquet checks little of what it holds: a flipped bit can give other numbers without an error, or abort the process that reads
it. A seal is a mark and the SHA-256 of all other bytes, between the last column and the footer::

    PAR1 | columns | mark, digest | footer | length of the footer | PAR1

Readers find the footer from the end and the columns by their offsets in it, so nobody else sees the seal.
"""

import hashlib
from pathlib import Path

from aftereffect.errors import InputError

MAGIC = b"PAR1"
MARK = b"aftereffect seal"
_SEAL = len(MARK) + hashlib.sha256().digest_size
#: The length of the footer, and the magic behind it.
_END = 4 + len(MAGIC)


def seal(path: Path) -> None:
    """Put a seal into a Parquet file that was just written."""
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        size = file.seek(-_END, 2) + _END
        file.seek(size - _END - int.from_bytes(file.read(4), "little"))
        place, footer = file.tell(), file.read()
        file.seek(place)
        file.write(MARK + digest + footer)


def read_sealed(path: Path) -> bytes:
    """The bytes of a Parquet file, if they are those that were sealed.

    Raises
    ------
    InputError
        If it is no Parquet file, has no seal, or is damaged.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if len(content) < len(MAGIC) + _END or content[: len(MAGIC)] != MAGIC or content[-len(MAGIC) :] != MAGIC:
        raise InputError(f"cannot read {path}: not a Parquet file, or cut short")
    footer = len(content) - _END - int.from_bytes(content[-_END : -len(MAGIC)], "little")
    place = footer - _SEAL
    if place < 0 or content[place : place + len(MARK)] != MARK:
        raise InputError(f"cannot read {path}: not written by Study.save, or damaged: it lacks the seal of its content")
    digest = hashlib.sha256(memoryview(content)[:place])
    digest.update(memoryview(content)[footer:])
    if digest.digest() != content[place + len(MARK) : footer]:
        raise InputError(f"cannot read {path}: it is damaged, its content does not match its seal: play it again or restore it")
    return content
