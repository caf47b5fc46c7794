"""How values are written on the command line: ``1e5`` for whole numbers, commas for lists."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter, Token

from aftereffect.errors import ParameterError


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise ParameterError(f"expected a number, got {text!r}") from None


def _one(type_: Any, tokens: Sequence[Token]) -> int | float:
    return _number(tokens[0].value)


def _several(type_: Any, tokens: Sequence[Token]) -> tuple[int | float, ...]:
    if len(tokens) > 1:
        raise ParameterError(f"a list of numbers is given once, with commas: {','.join(token.value for token in tokens)}")
    return tuple(_number(part) for part in tokens[0].value.split(","))


class _AsItIs:
    """Keeps pydantic, where something else has loaded it, from checking once more and with other words."""

    def __get_pydantic_core_schema__(self, *_: object) -> dict[str, str]:
        return {"type": "any"}


SpecText: TypeAlias = Annotated[str, Parameter(metavar="SPEC")]
#: Whether it is whole and within bounds is checked where it is used, with the same words as in Python.
Number: TypeAlias = Annotated[
    int, Parameter(converter=_one, n_tokens=1, allow_leading_hyphen=True, metavar="NUMBER"), _AsItIs()
]
Numbers: TypeAlias = Annotated[
    tuple[float, ...],
    Parameter(converter=_several, n_tokens=1, allow_leading_hyphen=True, negative=(), json_list=False, metavar="NUMBER,..."),
    _AsItIs(),
]
