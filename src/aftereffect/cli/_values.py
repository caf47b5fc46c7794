"""How users write the values of options (numbers, shares, slots, files), and their help."""

import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from cyclopts import Parameter, Token

from aftereffect.errors import ParameterError

Format: TypeAlias = Literal["table", "json", "csv"]
_WHOLE = re.compile(r"[+-]?\d+")
T = TypeVar("T")


def read_number(text: str) -> int | float:
    """Read a number in plain digits.

    Python would also accept ``1_000``, the digits of other scripts, and 0 for a number too small.
    """
    plain = text.strip()
    try:
        if not plain.isascii() or "_" in plain:
            raise ValueError
        number = int(plain) if _WHOLE.fullmatch(plain) else float(plain)
    except ValueError:
        raise ParameterError(f"expected a number, got {text!r}") from None
    if number == 0 and re.search("[1-9]", plain.lower().partition("e")[0]):
        raise ParameterError(
            f"expected 0, or a number of at least {math.ulp(0.0):.0g} without its sign, "
            f"got {text!r}"
        )
    return number


def read_share(text: str) -> float:
    """Read a share: .1 or 10%.

    >>> read_share("10%")
    0.1
    """
    whole, percent, rest = text.strip().partition("%")
    if rest:
        raise ParameterError(f"expected a share such as .1 or 10%, got {text!r}")
    return read_number(whole) / (100 if percent else 1)


def read_by_name(
    what: str, example: str, text: str | None, read: Callable[[str], T]
) -> dict[str, T] | None:
    """Read several numbers or texts, each after its name; None if nothing is given.

    >>> read_by_name("floors", "B=5%,C=2%", "B=5%,C=.02", read_share)
    {'B': 0.05, 'C': 0.02}
    """
    if text is None:
        return None
    found: dict[str, T] = {}
    for part in text.split(","):
        name, equals, written = part.rpartition("=")
        if not equals or name.strip() in found:
            raise ParameterError(
                f"expected {what} by name, once each, such as {example}, got {text!r}"
            )
        found[name.strip()] = read(written)
    return found


def _convert_share(type_: Any, tokens: Sequence[Token]) -> float:
    share = read_share(tokens[0].value)
    if share > 1:
        raise ParameterError(f"expected a share such as .1 or 10%, got {tokens[0].value!r}")
    return share


def _convert_number(type_: Any, tokens: Sequence[Token]) -> int | float:
    return read_number(tokens[0].value)


def _convert_slot(type_: Any, tokens: Sequence[Token]) -> int | float | str:
    """Read the number of a slot, or its time as text."""
    text = tokens[0].value
    if re.match(r"\d{4}-\d\d-\d\d", text):
        return text
    try:
        return read_number(text)
    except ParameterError:
        raise ParameterError(
            "expected the number of a slot, or the time at which it begins, such as "
            f"2026-03-02T00:00, got {text!r}"
        ) from None


def _convert_numbers(type_: Any, tokens: Sequence[Token]) -> tuple[int | float, ...]:
    if len(tokens) > 1:
        together = ",".join(token.value for token in tokens)
        raise ParameterError(f"expected one list of numbers with commas, such as {together}")
    return tuple(read_number(part) for part in tokens[0].value.split(","))


def _convert_file(type_: Any, tokens: Sequence[Token]) -> Path:
    """Read a path to a file. A slash at the end, which Python's paths drop, means a folder."""
    text = tokens[0].value
    if text.endswith(("/", os.sep)):
        raise ParameterError(f"expected a file, got the folder {text!r}: name a file in it")
    return Path(text)


class _Unchecked:
    """Keeps pydantic from checking a converted value again, with other messages.

    Cyclopts uses pydantic wherever something else has imported it.
    """

    def __get_pydantic_core_schema__(self, *_: object) -> dict[str, str]:
        return {"type": "any"}


StorageUrl: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="URL",
        env_var="AFTEREFFECT_STORAGE",
        help="The database that contains the experiments: sqlite:///file.db or "
        "postgresql+psycopg://user:password@host/database.",
    ),
]
Name: TypeAlias = Annotated[str, Parameter(help="The name of the experiment.")]
PrintFormat: TypeAlias = Annotated[Format, Parameter(help="How to print the answer.")]
Flag: TypeAlias = Annotated[bool, Parameter(negative=(), show_default=False)]
SpecText: TypeAlias = Annotated[str, Parameter(metavar="SPEC")]
_NUMBER = Parameter(
    converter=_convert_number, n_tokens=1, allow_leading_hyphen=True, metavar="NUMBER"
)
#: Where a number is used, Python's own check says whether it is whole and in range.
Number: TypeAlias = Annotated[int, _NUMBER, _Unchecked()]
#: The number of a slot, or the time at which it begins.
SlotText: TypeAlias = Annotated[
    int | str,
    Parameter(
        converter=_convert_slot, n_tokens=1, allow_leading_hyphen=True, metavar="NUMBER|TIME"
    ),
    _Unchecked(),
]
RealNumber: TypeAlias = Annotated[float, _NUMBER, _Unchecked()]
#: A share, such as .1 or 10%.
Share: TypeAlias = Annotated[
    float,
    Parameter(
        converter=_convert_share, n_tokens=1, allow_leading_hyphen=True, metavar="NUMBER|PERCENT"
    ),
    _Unchecked(),
]
Numbers: TypeAlias = Annotated[
    tuple[float, ...],
    Parameter(
        converter=_convert_numbers,
        n_tokens=1,
        allow_leading_hyphen=True,
        negative=(),
        json_list=False,
        metavar="NUMBER,...",
    ),
    _Unchecked(),
]
OutputFile: TypeAlias = Annotated[
    Path, Parameter(converter=_convert_file, n_tokens=1, metavar="FILE"), _Unchecked()
]
#: An option that may be repeated, with a file each time.
_REPEATED = Parameter(negative=(), consume_multiple=False, metavar="FILE", show_default=False)
Files: TypeAlias = Annotated[tuple[Path, ...], _REPEATED]
OutputFiles: TypeAlias = Annotated[tuple[OutputFile, ...], _REPEATED]
Folder: TypeAlias = Annotated[Path, Parameter(metavar="FOLDER")]
Jobs: TypeAlias = Annotated[
    Number,
    Parameter(
        help="The number of threads, or with --dask the number of workers. The default is one "
        "thread per core, or all workers."
    ),
]
DaskAddress: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="ADDRESS",
        help="Run on a Dask cluster: the address of its scheduler, such as tcp://10.0.0.1:8786, "
        'or "local" for one on this machine (needs the extra "dask").',
    ),
]
