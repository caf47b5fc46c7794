"""What separates the cells of a file that should have commas."""

SEPARATORS = ";\t|"


def other_separator(line: str) -> str | None:
    """What the cells of a line are separated by instead of commas, if that can be seen."""
    return next((mark for mark in SEPARATORS if mark in line), None)
