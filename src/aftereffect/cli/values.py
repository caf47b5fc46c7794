"""How values are written on the command line: ``1e5`` for whole numbers, commas for lists."""

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter, Token

from aftereffect.errors import ParameterError

_WHOLE = re.compile(r"[+-]?\d+")


def read_number(text: str) -> int | float:
    """A number in plain digits: Python would also take ``1_000``, the digits of other scripts, and 0 for what is too small."""
    plain = text.strip()
    try:
        if not plain.isascii() or "_" in plain:
            raise ValueError
        number = int(plain) if _WHOLE.fullmatch(plain) else float(plain)
    except ValueError:
        raise ParameterError(f"expected a number, got {text!r}") from None
    if number == 0 and re.search("[1-9]", plain.lower().partition("e")[0]):
        raise ParameterError(f"expected a number of at least {math.ulp(0.0):.0g} in size, or 0, got {text!r}")
    return number


def _one(type_: Any, tokens: Sequence[Token]) -> int | float:
    return read_number(tokens[0].value)


def _several(type_: Any, tokens: Sequence[Token]) -> tuple[int | float, ...]:
    if len(tokens) > 1:
        raise ParameterError(f"a list of numbers is given once, with commas: {','.join(token.value for token in tokens)}")
    return tuple(read_number(part) for part in tokens[0].value.split(","))


def _file(type_: Any, tokens: Sequence[Token]) -> Path:
    """A path to a file; a slash at the end, which Python's paths forget, says that a folder is meant."""
    text = tokens[0].value
    if text.endswith(("/", os.sep)):
        raise ParameterError(f"expected a file, got the folder {text!r}: name a file in it")
    return Path(text)


class _AsItIs:
    """Keeps pydantic, where something else has loaded it, from checking once more and with other words."""

    def __get_pydantic_core_schema__(self, *_: object) -> dict[str, str]:
        return {"type": "any"}


SpecText: TypeAlias = Annotated[str, Parameter(metavar="SPEC")]
_NUMBER = Parameter(converter=_one, n_tokens=1, allow_leading_hyphen=True, metavar="NUMBER")
#: Whether it is whole and within bounds is checked where it is used, with the same words as in Python.
Number: TypeAlias = Annotated[int, _NUMBER, _AsItIs()]
RealNumber: TypeAlias = Annotated[float, _NUMBER, _AsItIs()]
Numbers: TypeAlias = Annotated[
    tuple[float, ...],
    Parameter(converter=_several, n_tokens=1, allow_leading_hyphen=True, negative=(), json_list=False, metavar="NUMBER,..."),
    _AsItIs(),
]
OutputFile: TypeAlias = Annotated[Path, Parameter(converter=_file, n_tokens=1, metavar="FILE"), _AsItIs()]
