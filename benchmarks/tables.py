"""Generated text in a document: the place between two markers that a command rewrites."""

from pathlib import Path

from aftereffect._core import atomic_write


def split_at_markers(text: str, begin: str, end: str) -> tuple[str, str]:
    """The text before and after the generated part, markers included.

    A ValueError unless each marker is there once, the one after the other.
    """
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ValueError(f"expected one {begin} and one {end} after it")
    return text[: text.index(begin) + len(begin)], text[text.index(end) :]


def replace_between_markers(target: Path, begin: str, end: str, content: str) -> None:
    """Replace the generated part of a document, all of it or nothing."""
    before, after = split_at_markers(target.read_text(encoding="utf-8"), begin, end)
    with atomic_write(target) as draft:
        draft.write_text(f"{before}\n\n{content}\n\n{after}", encoding="utf-8")
