"""Records from JSON. Fields that this version does not know are ignored: a service may be newer."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from aftereffect.errors import ServiceError
from aftereffect.live import ArmStatus, Decision, Difference, Status, Verification

if TYPE_CHECKING:
    from aftereffect.lag import LagEstimate

R = TypeVar("R")


def decode_record(record: type[R], answer: Mapping[str, Any], **decoded: Any) -> R:
    """A named tuple from an answer; `decoded` has the fields that need more than their value."""
    # Every record is a named tuple, for which Python has no type to name here.
    names: tuple[str, ...] = record._fields  # type: ignore[attr-defined]
    try:
        known = {name: answer[name] for name in names if name not in decoded}
    except (KeyError, TypeError):
        missing = sorted(set(names) - set(answer)) if isinstance(answer, Mapping) else list(names)
        raise ServiceError(
            f"the answer lacks {', '.join(missing)}: is the service of an older version?"
        ) from None
    return record(**known | decoded)


def decode_status(answer: Mapping[str, Any]) -> Status:
    """A `Status`."""
    following = answer.get("next")
    return decode_record(
        Status,
        answer,
        arms=tuple(decode_record(ArmStatus, arm) for arm in answer.get("arms", ())),
        next=following and decode_record(Decision, following),
        awaited=tuple(answer.get("awaited", ())),
        notes=tuple(answer.get("notes", ())),
    )


def decode_verification(answer: Mapping[str, Any]) -> Verification:
    """A `Verification`."""
    difference = answer.get("difference")
    return decode_record(
        Verification,
        answer,
        problems=tuple(answer.get("problems", ())),
        difference=difference and decode_record(Difference, difference),
    )


def decode_lag(answer: Mapping[str, Any]) -> "LagEstimate":
    """A `LagEstimate`."""
    from aftereffect.lag import LagEstimate, Quantity

    names = {field.name for field in fields(LagEstimate)}
    known: dict[str, Any] = {}
    for name, value in _restore_numbers(answer).items():
        if name in names:
            known[name] = (
                tuple(value)
                if isinstance(value, list)
                else decode_record(Quantity, _restore_numbers(value))
                if isinstance(value, Mapping)
                else value
            )
    if set(known) != names:
        raise ServiceError(
            f"the answer lacks {', '.join(sorted(names - set(known)))}: "
            "is the service of an older version?"
        )
    return LagEstimate(**known)


def _restore_numbers(answer: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has null for infinity and NaN: an open upper end is infinite, the rest NaN."""
    return {
        name: value if value is not None else math.inf if name == "high" else math.nan
        for name, value in answer.items()
    }
