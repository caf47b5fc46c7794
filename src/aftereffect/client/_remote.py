"""An experiment on a service, with the methods of a local one, and how its answers are decoded.

Fields of an answer that this version does not know are ignored: a service may be newer.
"""

import math
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar, overload
from urllib.parse import quote

from aftereffect._core import atomic_write, check_int, check_writable, parse
from aftereffect.client._transport import Transport
from aftereffect.errors import ParameterError, ServiceError
from aftereffect.inference import (
    Effect,
    GuardedArm,
    Guardrail,
    GuardrailResults,
    Look,
    PlannedCourse,
    Results,
)
from aftereffect.lag import LagEstimate, Quantity, estimate_lag
from aftereffect.live import (
    HISTORY_SUFFIXES,
    ArmChange,
    ArmStatus,
    Decision,
    Difference,
    ExportForm,
    Slot,
    SlotRecord,
    Status,
    TotalInput,
    TotalRecord,
    TotalsInput,
    UnitStatus,
    UnitTotals,
    Verification,
    check_key,
    check_results,
    read_arm_names,
    read_totals,
    save_history,
)

#: Slots of a history in one answer.
_PAGE = 10_000
#: The level of the bands in the service's lag estimates, which it caches.
_SERVICE_LEVEL = 0.9


class RemoteExperiment:
    """One experiment on a service, from `Client.experiment` or `Client.create`.

    Its methods are those of `Experiment`, with the same answers and errors; see there. Both fit
    `aftereffect.live.ExperimentLike`.

    Examples
    --------
    >>> from aftereffect.client import Client
    >>> from aftereffect.live import ExperimentLike
    >>> isinstance(Client("http://127.0.0.1:8750").experiment("banner"), ExperimentLike)
    True
    """

    def __init__(self, transport: Transport, name: str, *, is_new: bool = False) -> None:
        self._transport, self._name = transport, name
        self._path = path_of(name)
        #: Whether `Client.create` has created it just now.
        self.is_new = is_new

    def __repr__(self) -> str:
        return f"<RemoteExperiment {self._name!r} at {self._transport.url}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def ask(self, slot: Slot | None = None, *, key: str | None = None) -> Decision:
        """Decide the next slot, or repeat the decision for a slot.

        Without a slot and without a key, the client makes up a key for this call: a repeated
        request then decides nothing twice.
        """
        if slot is not None and key is not None:
            raise ParameterError("ask with a slot or with a key, not with both")
        if slot is not None:
            _, answer = self._transport.send("PUT", f"{self._slot_path(slot)}/decision")
        else:
            asked = uuid.uuid4().hex if key is None else _check_header(key)
            headers = {"Idempotency-Key": asked}
            _, answer = self._transport.send("POST", f"{self._path}/slots", headers=headers)
        return decode_record(Decision, answer)

    @overload
    def tell(
        self,
        slot: Slot,
        total: float,
        *,
        unit: str | None = None,
        arm: str | None = None,
        covariates: Mapping[str, float | None] | None = None,
        guardrails: Mapping[str, float | None] | None = None,
        revise: bool = False,
        confirm: bool = False,
    ) -> TotalRecord: ...

    @overload
    def tell(
        self,
        slot: Slot,
        total: UnitTotals,
        *,
        unit: str | None = None,
        arm: str | None = None,
        covariates: Mapping[str, float | None] | None = None,
        guardrails: Mapping[str, float | None] | None = None,
        revise: bool = False,
        confirm: bool = False,
    ) -> list[TotalRecord]: ...

    def tell(
        self,
        slot: Slot,
        total: float | UnitTotals,
        *,
        unit: str | None = None,
        arm: str | None = None,
        covariates: Mapping[str, float | None] | None = None,
        guardrails: Mapping[str, float | None] | None = None,
        revise: bool = False,
        confirm: bool = False,
    ) -> TotalRecord | list[TotalRecord]:
        """Record the total of a slot; with several units, of one of them or of several."""
        if total is None:
            raise ParameterError(
                f"tell needs a number for slot {slot}, got None: "
                f"if the total is lost, call mark_missing({slot})"
            )
        if isinstance(total, Mapping):
            rows: Any = [(slot, total, arm, covariates, guardrails, unit)]
            return self.tell_many(rows, revise=revise, confirm=confirm)
        given = {"total": _to_json(total), "arm": arm, "revise": revise, "confirm": confirm}
        given["unit"] = unit
        return self._tell(slot, given | _numbers_to_json(covariates, guardrails))

    def mark_missing(
        self,
        slot: Slot,
        *,
        unit: str | None = None,
        covariates: Mapping[str, float | None] | None = None,
        guardrails: Mapping[str, float | None] | None = None,
        revise: bool = False,
    ) -> TotalRecord:
        """Record that the total of a slot is lost."""
        given = {"missing": True, "unit": unit, "revise": revise}
        return self._tell(slot, given | _numbers_to_json(covariates, guardrails))

    def tell_many(
        self,
        totals: TotalsInput,
        *,
        revise: bool = False,
        confirm: bool = False,
        key: str | None = None,
    ) -> list[TotalRecord]:
        """Record many totals at once, all or none; a service takes 10,000 at a time."""
        rows = [_row_to_json(row) for row in read_totals(totals)]
        given = {"totals": rows, "revise": revise, "confirm": confirm}
        headers = None if key is None else {"Idempotency-Key": _check_header(key)}
        _, answer = self._transport.send("POST", f"{self._path}/totals", given, headers)
        return [decode_record(TotalRecord, each) for each in answer["totals"]]

    def skip(self, first: Slot, last: Slot | None = None) -> Status:
        """Record that nothing was decided for some slots, from the next one on."""
        given = {"first": _to_json(first), "last": _to_json(first if last is None else last)}
        return decode_status(self._transport.send("POST", f"{self._path}/skip", given)[1])

    def change_arms(
        self,
        *,
        add: str | Sequence[str] = (),
        pause: str | Sequence[str] = (),
        resume: str | Sequence[str] = (),
        retire: str | Sequence[str] = (),
    ) -> Status:
        """Add, pause, resume or retire arms, from the next slot on."""
        given: dict[ArmChange, object] = {
            "add": add,
            "pause": pause,
            "resume": resume,
            "retire": retire,
        }
        names: dict[str, Any] = {
            change: list(read_arm_names(change, each)) for change, each in given.items()
        }
        return decode_status(self._transport.send("POST", f"{self._path}/arms", names)[1])

    def status(self) -> Status:
        """The status of the experiment, arm by arm, and its next decision."""
        return decode_status(self._transport.send("GET", self._path)[1])

    def history(self, after: int = -1, limit: int | None = None) -> list[SlotRecord]:
        """The slots after one, at most so many; read in several requests if there are many."""
        first = check_int("after", after, at_least=-1)
        wanted = math.inf if limit is None else check_int("limit", limit)
        records: list[SlotRecord] = []
        while wanted > 0:
            page = int(min(_PAGE, wanted))
            _, answer = self._transport.send(
                "GET", f"{self._path}/slots?after={first}&limit={page}"
            )
            found = [decode_record(SlotRecord, each) for each in answer["slots"]]
            has_units = bool(found) and found[0].unit is not None
            records += [each for each in found if each.slot <= first + wanted]
            wanted -= answer["last"] - first
            first = answer["last"]
            if not found or (len(found) < page and not has_units):
                break
        return records

    def export(self, path: str | os.PathLike[str], *, form: ExportForm = "slots") -> None:
        """Write the history into a .csv or a .parquet file, in the form that a tool reads.

        The client makes forms for other tools itself, from the history.
        """
        target = check_writable(path, HISTORY_SUFFIXES)
        if form != "slots":
            status, records = self.status(), self.history()
            arms = [arm.arm for arm in status.arms]
            names = (
                *status.covariates,
                *(parse(each, Guardrail).name for each in status.guardrails),
            )
            with atomic_write(target) as draft:
                units = [unit.unit for unit in status.units]
                save_history(records, arms, names, draft, target.suffix.lower(), form, units)
            return
        self._transport.save(f"{self._path}/export?format={target.suffix.lower()[1:]}", target)

    def verify(self) -> Verification:
        """Check every event and derive every decision again."""
        return decode_verification(self._transport.send("GET", f"{self._path}/verify")[1])

    def lag(self, *, level: float = _SERVICE_LEVEL) -> LagEstimate:
        """Estimate the lag from the totals.

        The service caches its estimate, with bands of level 0.9, and renews it when the number of
        totals has grown by a twentieth. For another level the client reads the history and
        computes the estimate itself.
        """
        if level != _SERVICE_LEVEL:
            return estimate_lag(self.history(), level=level)
        return decode_lag(self._transport.send("GET", f"{self._path}/lag")[1])

    def results(self, *, level: float = 0.95, stop_when_loss_below: float | None = None) -> Results:
        """The effect of each arm, with intervals that hold at every look."""
        check_results(level, stop_when_loss_below)
        query = f"level={level:g}"
        if stop_when_loss_below is not None:
            query += f"&stop_when_loss_below={float(stop_when_loss_below)!r}"
        return decode_results(self._transport.send("GET", f"{self._path}/results?{query}")[1])

    def end(self) -> Status:
        """End the experiment for good."""
        return decode_status(self._transport.send("POST", f"{self._path}/end")[1])

    def close(self) -> None:
        """Do nothing: the connections belong to the client. The experiment goes on."""

    def __enter__(self) -> "RemoteExperiment":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, slot: Slot, given: Mapping[str, Any]) -> TotalRecord:
        _, answer = self._transport.send("PUT", f"{self._slot_path(slot)}/total", given)
        return decode_record(TotalRecord, answer)

    def _slot_path(self, slot: Slot) -> str:
        return f"{self._path}/slots/{quote(str(_to_json(slot)), safe='')}"


def path_of(name: str) -> str:
    """The path of an experiment."""
    return f"/v1/experiments/{quote(str(name), safe='')}"


def _row_to_json(row: TotalInput) -> dict[str, Any]:
    """A row of `tell_many` as the service takes it; the service checks it."""
    slot: dict[str, Any] = {"slot": _to_json(row.slot), "unit": row.unit}
    slot |= _numbers_to_json(row.covariates, row.guardrails)
    if row.total is None:
        return slot | {"missing": True}
    return slot | {"total": _to_json(row.total), "arm": row.arm}


def _numbers_to_json(covariates: object, guardrails: object) -> dict[str, Any]:
    """The fields of a request that are given; the service checks them."""
    given = {"covariates": covariates, "guardrails": guardrails}
    return {
        field: {name: _to_json(number) for name, number in numbers.items()}
        if isinstance(numbers, Mapping)
        else numbers
        for field, numbers in given.items()
        if numbers is not None
    }


def _to_json(number: object) -> object:
    """A number of any type, also of numpy's, or a time, in a type that JSON has."""
    if isinstance(number, datetime):
        return number.isoformat()
    if isinstance(number, bool) or not isinstance(number, Real):
        return number
    return int(number) if isinstance(number, Integral) else float(number)


R = TypeVar("R", bound=NamedTuple)


def _check_header(key: str) -> str:
    """Check a key that is sent in a header."""
    if check_key(key) != key.strip():  # HTTP would remove the spaces, and find another key
        raise ParameterError(f"over HTTP a key must not begin or end with a space, got {key!r}")
    return key


def decode_record(record: type[R], answer: Mapping[str, Any], **decoded: Any) -> R:
    """A named tuple from an answer; `decoded` has the fields that need more than their value."""
    names = record._fields
    try:
        values = [decoded[name] if name in decoded else answer[name] for name in names]
    except (KeyError, TypeError):
        missing = sorted(set(names) - set(answer)) if isinstance(answer, Mapping) else list(names)
        raise ServiceError(
            f"the answer lacks {', '.join(missing)}: is the service of an older version?"
        ) from None
    return record._make(values)


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
        covariates=tuple(answer.get("covariates", ())),
        guardrails=tuple(answer.get("guardrails", ())),
        units=tuple(decode_record(UnitStatus, unit) for unit in answer.get("units", ())),
        plan=_decode_plan(answer),
    )


def _decode_plan(answer: Mapping[str, Any]) -> PlannedCourse | None:
    plan = answer.get("plan")
    return plan and decode_record(PlannedCourse, plan)


def decode_verification(answer: Mapping[str, Any]) -> Verification:
    """A `Verification`."""
    difference = answer.get("difference")
    return decode_record(
        Verification,
        answer,
        problems=tuple(answer.get("problems", ())),
        difference=difference and decode_record(Difference, difference),
    )


def decode_results(answer: Mapping[str, Any]) -> Results:
    """A `Results`."""

    def decode_effects(part: Mapping[str, Any], name: str) -> tuple[Effect, ...]:
        return tuple(decode_record(Effect, each) for each in part.get(name, ()))

    looks = (
        decode_record(Look, look, effects=decode_effects(look, "effects"))
        for look in answer.get("history", ())
    )
    return decode_record(
        Results,
        answer,
        effects=decode_effects(answer, "effects"),
        leads=decode_effects(answer, "leads"),
        history=tuple(looks),
        stopped=tuple(answer.get("stopped", ())),
        paused=tuple(answer.get("paused", ())),
        retired=tuple(answer.get("retired", ())),
        plan=_decode_plan(answer),
        guardrails=tuple(
            decode_record(
                GuardrailResults,
                found,
                arms=tuple(decode_record(GuardedArm, arm) for arm in found.get("arms", ())),
            )
            for found in answer.get("guardrails", ())
        ),
    )


def decode_lag(answer: Mapping[str, Any]) -> LagEstimate:
    """A `LagEstimate`."""
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
