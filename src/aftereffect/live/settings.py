"""The settings of an experiment, which never change: arms, policy, calendar, history, seed."""

import json
import math
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from aftereffect._core import (
    MAX_NAME_LENGTH,
    MAX_SEED,
    Calendar,
    SlotKernels,
    UnitKernels,
    as_spec,
    check_columns,
    check_float,
    check_int,
    check_names,
    check_sequence,
    parse,
    short_repr,
    shorten,
    suggest,
)
from aftereffect.delays import DelayFacts
from aftereffect.errors import ConflictError, ParameterError, SpecError, name_field
from aftereffect.inference import MAX_GUARDRAILS, Guardrail, PlannedCourse, read_courses
from aftereffect.live._history import check_totals
from aftereffect.live._slot_clock import SlotClock, make_clock, read_time
from aftereffect.policies import (
    MAX_REMEMBERED,
    Floors,
    Policy,
    check_anonymous,
    unit_kernels,
)
from aftereffect.rewards import check_covariates

#: A slot per millisecond for 34 years. Policies that need no horizon get parameters for this one.
MAX_LIVE_SLOTS = 2**40
MAX_ARMS = 10_000
#: The largest total and the largest end of a reward range, so that sums of totals stay finite.
MAX_TOTAL = 1e100
MAX_UNIT_LENGTH = 20
#: The most units: each has a row in every answer.
MAX_UNITS = 1_000

#: Settings that the first experiments did not have.
_LATER = (
    *("slot", "start", "timezone", "history", "control"),
    *("covariates", "history_covariates", "unit", "stop_when_loss_below", "guardrails", "plan"),
    *("final_after", "units"),
)
#: The columns of exported histories, beside which covariates are further columns.
SLOT_COLUMNS = (
    *("slot", "arm", "played", "round", "hold", "total", "missing", "learned", "revisions"),
    *("decided_at", "received_at", "time", "probability", "covariates", "guardrails"),
)
#: The column that says which unit a row is about, where there are several.
UNIT_COLUMN = "unit"
#: How long after its slot a total may still change: a number, and what it counts.
_SPAN = re.compile(r"([1-9][0-9]{0,5})(min|h|d|w)")
_SPAN_UNITS = {
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_MAX_SPAN = timedelta(days=3_660)
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
#: A live experiment knows nothing about its delays.
_NO_FACTS = DelayFacts(math.inf, math.inf, math.inf)


@dataclass(frozen=True)
class Settings:
    """The settings of an experiment, checked.

    Parameters
    ----------
    name
        Letters, digits, ``-``, ``_`` and ``.``, 1 to 100 of them.
    arms
        The arms' names, at least two, all different.
    policy
        A policy or its spec string. It is refused if it needs facts about the delay that its
        parameters do not give. It gets the calendar of the slots.
    reward_range
        The smallest and the largest reward of one pull, summed over all slots in which it arrives.
        A policy that looks at every slot needs none.
    seed
        The seed of the random numbers that the policy draws.
    max_total
        The largest total that is accepted, against typing errors.
    horizon
        The number of slots that the experiment lasts. Some policies need it. No slot is decided
        beyond it.
    slot, start, timezone
        The length of a slot, the time at which slot 0 begins, and the time zone of the clocks that
        show it; None if slots have no times.
    history
        The totals of the slots before slot 0, in which the first arm was played.
    control
        The arm that was played before the experiment: it becomes the first.
    covariates
        The names of numbers that come with each slot, for a policy that looks at every slot.
    history_covariates
        The covariates of each slot of the history; None where a number is not known.
    unit
        The unit of the totals, at most 20 characters; None if they have none.
    stop_when_loss_below
        The rule to stop: an expected loss per slot, in the unit of the totals; None without one.
    guardrails
        Further totals of each slot, in which arms may do harm, or their spec strings.
    plan
        What the plan that the experiment came from promised, for its policy; None without a plan.
    final_after
        How long after the end of its slot a total may still change, such as ``72h``; None if it is
        final at once. Slots must have times.
    units
        The names of the units, such as stores, at least two; empty if there is one. The policy must
        be a `UnitPolicy`, and the history has a row per slot, with a total for each unit.
    """

    name: str
    arms: Sequence[str]
    policy: Policy
    reward_range: Sequence[float] | None
    seed: int
    max_total: float | None = None
    horizon: int | None = None
    slot: str | None = None
    start: str | None = None
    timezone: str | None = None
    history: Sequence[Any] = ()
    control: str | None = None
    covariates: Sequence[str] = ()
    history_covariates: Sequence[Any] = ()
    unit: str | None = None
    stop_when_loss_below: float | None = None
    guardrails: Sequence[Guardrail] = ()
    plan: PlannedCourse | None = None
    final_after: str | None = None
    units: Sequence[str] = ()

    def __post_init__(self) -> None:
        checks: dict[str, Callable[[Any], object]] = {
            "name": check_name,
            "arms": check_arms,
            "units": _check_several,
            "control": lambda control: check_control(control, self.arms),
            "history": lambda totals: _check_history(totals, len(self.units)),
            "seed": lambda seed: check_int("seed", seed, at_most=MAX_SEED),
            "horizon": lambda slots: (
                slots
                if slots is None
                else check_int("horizon", slots, at_least=len(self.arms), at_most=MAX_LIVE_SLOTS)
            ),
            "policy": lambda policy: _check_policy(
                policy, self.horizon, self.calendar, has_units=bool(self.units)
            ),
            "reward_range": lambda ends: _check_range(ends, self.policy),
            "max_total": lambda total: _check_max_total(total, self.reward_range),
            "covariates": lambda names: _check_covariates(
                names, self.policy, has_units=bool(self.units)
            ),
            "history_covariates": lambda rows: _check_past(
                rows, self.covariates, len(self.history), len(self.units)
            ),
            "unit": _check_unit,
            "stop_when_loss_below": check_limit,
            "guardrails": lambda guardrails: _check_guardrails(
                guardrails, self.covariates, has_units=bool(self.units)
            ),
            "plan": lambda plan: None if plan is None else _choose_course(plan, self),
            "final_after": lambda span: check_final_after(span, self.slot),
        }
        if self.slot is not None:
            clock = make_clock(self.slot, self.start, self.timezone)
            object.__setattr__(self, "start", clock.start.isoformat())
        for name, check in checks.items():
            with name_field(name):
                object.__setattr__(self, name, check(getattr(self, name)))
        object.__setattr__(self, "arms", order_arms(self.arms, self.control))

    def with_plan(self, plan: object) -> "Settings":
        """The same settings, with what a plan promised of such an experiment."""
        with name_field("plan"):
            return replace(self, plan=_choose_course(plan, self))

    @cached_property
    def clock(self) -> SlotClock | None:
        """When slots begin; None if they have no times."""
        return None if self.slot is None else make_clock(self.slot, self.start, self.timezone)

    @property
    def calendar(self) -> Calendar:
        """How slots lie in days and weeks."""
        return Calendar() if self.clock is None else self.clock.calendar

    def find_provisional(self, time: str) -> int | None:
        """The first slot whose total may still change at a time; None if totals are final at once.

        It is the last slot that ended too short ago, or not yet, and later slots follow it.
        """
        if self.final_after is None or self.clock is None:
            return None
        since = datetime.fromisoformat(time) - read_span(self.final_after)
        return max(self.clock.find_running(since), 0)

    @property
    def floors(self) -> dict[str, float]:
        """The least share of rounds of each arm that has one."""
        if not isinstance(self.policy, Floors):
            return {}
        shares = self.policy.shares
        return {arm: share for arm, share in zip(self.arms, shares, strict=True) if share > 0}

    @property
    def guarded(self) -> tuple[str, ...]:
        """The names of the guardrails."""
        return tuple(guardrail.name for guardrail in self.guardrails)

    @property
    def has_stops(self) -> bool:
        """Whether a guardrail may stop arms."""
        return any(guardrail.stops for guardrail in self.guardrails)

    @property
    def looks_at_slots(self) -> bool:
        """Whether the policy looks at every slot, and needs no reward range."""
        return _looks_at_slots(self.policy)

    @property
    def planned_slots(self) -> int:
        """The number of slots that the policy plans for."""
        most = MAX_REMEMBERED - len(self.history) if self.looks_at_slots else MAX_LIVE_SLOTS
        return self.horizon or most

    def scale(self, total: float) -> float:
        """Scale a total so that one pull brings 0 to 1; without a range, it stays as it is."""
        if self.reward_range is None:
            return total
        low, high = self.reward_range
        return (total - low) / (high - low)

    def number_slot(self, slot: object) -> object:
        """The number of a slot that is given by its time; anything else as it is."""
        if not isinstance(slot, (str, datetime)):
            return slot
        if self.clock is None:
            raise ParameterError(
                "the slots of this experiment have numbers and no times, as it was created without "
                f"slot: expected a whole number, got {shorten(str(slot))}"
            )
        number = self.clock.find_slot(read_time("slot", slot))
        if number < 0:
            raise ParameterError(
                f"slot 0 begins at {self.find_time(0)}, got the earlier time {slot}"
            )
        return number

    def find_time(self, slot: int) -> str | None:
        """The time at which a slot begins, as text; None if slots have no times."""
        return None if self.clock is None else self.clock.find_time(slot).isoformat()

    def place_on_wall(self, slot: int) -> int:
        """The number by which a policy knows a slot: see `SlotClock.place_on_wall`."""
        return slot if self.clock is None else self.clock.place_on_wall(slot)

    def to_json(self) -> str:
        """Write the settings as text; equal settings give equal text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """The settings by name, in types that JSON has; without those that were not in use."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        unused = {name for name in _LATER if given[name] in (None, ())}
        return {name: value for name, value in given.items() if name not in unused} | {
            "policy": str(self.policy),
            **({"guardrails": [str(each) for each in self.guardrails]} if self.guardrails else {}),
            **({} if self.plan is None else {"plan": self.plan._asdict()}),
        }

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))

    def check_same(self, wanted: "Settings", free: Container[str]) -> None:
        """Refuse other settings for the same experiment; those that are `free` may differ."""
        known, asked = self.to_dict(), wanted.to_dict()
        names = [
            name
            for name in {**known, **asked}
            if known.get(name) != asked.get(name) and name not in free
        ]
        if names:
            recorded, given = ({name: each.get(name) for name in names} for each in (known, asked))
            changes = "; ".join(
                f"{name} is {shorten(str(recorded[name]))}, got {shorten(str(given[name]))}"
                for name in names
            )
            raise ConflictError(
                f"experiment {self.name!r} already exists with other settings ({changes}): "
                "go on with it as it is, or choose another name",
                recorded,
                given,
            )


def check_name(name: object) -> str:
    """Check the name of an experiment."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            f"an experiment's name must be 1 to {MAX_NAME_LENGTH} letters, digits, "
            f"'-', '_' or '.', got {short_repr(name)}"
        )
    return name


def check_arms(arms: object) -> tuple[str, ...]:
    """Check the names of the arms."""
    names = check_sequence("arms", arms)
    if not 2 <= len(names) <= MAX_ARMS:
        raise ParameterError(f"arms must be 2 to {MAX_ARMS:,} names, got {len(names)}")
    return check_names("arms", names, "an arm")


def order_arms(arms: Sequence[str], control: str | None) -> tuple[str, ...]:
    """The arms as an experiment numbers them: the control becomes the first."""
    if control is None:
        return tuple(arms)
    return (control, *(arm for arm in arms if arm != control))


def check_units(units: object) -> tuple[str, ...]:
    """Check the names of units.

    >>> check_units(["north", "south"])
    ('north', 'south')
    """
    names = check_sequence("units", units)
    if len(names) > MAX_UNITS:
        raise ParameterError(f"units must be at most {MAX_UNITS:,} names, got {len(names):,}")
    return check_names("units", names, "a unit")


def _check_several(units: object) -> tuple[str, ...]:
    names = check_units(units)
    if len(names) == 1:
        raise ParameterError("units must be several names, got 1: leave out the only one")
    return names


def _check_history(history: Sequence[Any], units: int) -> tuple[Any, ...]:
    """Check the totals before slot 0; with units, those of each slot."""
    if not units:
        return check_totals(history, MAX_TOTAL)
    rows = tuple(check_totals(check_sequence("history", row), MAX_TOTAL) for row in history)
    if any(len(row) != units for row in rows):
        raise ParameterError(f"history must be totals of {units:,} units for each slot")
    return rows


def _looks_at_slots(policy: Policy) -> bool:
    return isinstance(policy.kernels(), (SlotKernels, UnitKernels))


def _check_covariates(names: object, policy: Policy, *, has_units: bool) -> tuple[str, ...]:
    known = check_covariates(names, (*SLOT_COLUMNS, *([UNIT_COLUMN] if has_units else ())))
    if known and not _looks_at_slots(policy):
        raise ParameterError(
            f"{policy} learns from rounds and cannot use covariates: leave them out, or choose a "
            "policy that looks at every slot, such as adaptive-switchback"
        )
    return known


def _check_past(
    rows: Sequence[Any], names: Sequence[str], slots: int, units: int
) -> tuple[Any, ...]:
    """Check the covariates before slot 0; with units, a row for each of them in every slot."""
    if not units:
        return _check_past_covariates(rows, names, slots)
    flat = _check_past_covariates([row for each in rows for row in each], names, slots * units)
    return tuple(flat[first : first + units] for first in range(0, len(flat), units))


def _check_past_covariates(
    rows: Sequence[Sequence[object]], names: Sequence[str], slots: int
) -> tuple[tuple[float | None, ...], ...]:
    if rows and (len(rows) != slots or {len(row) for row in rows} != {len(names)}):
        raise ParameterError(
            f"history_covariates must be {len(names)} numbers for each of {slots:,} slots"
        )
    return tuple(
        tuple(
            None if number is None else check_covariate(name, number)
            for name, number in zip(names, row, strict=True)
        )
        for row in rows
    )


def check_covariate(name: str, number: object) -> float:
    """Check a number that comes with a slot.

    >>> check_covariate("temperature", 3)
    3.0
    """
    try:
        return check_float(name, number, at_least=-MAX_TOTAL, at_most=MAX_TOTAL)
    except ParameterError as error:
        raise ParameterError(f"{error}: leave it out where it is not known") from None


def check_control(control: object, arms: Sequence[str]) -> str | None:
    """Check that the control is one of the arms, if there is one."""
    if control is not None and control not in arms:
        raise ParameterError(
            f"control must be one of the arms, got {short_repr(control)}: "
            f"{suggest(str(control), arms)}"
        )
    return None if control is None else str(control)


def _check_unit(unit: object) -> str | None:
    if unit is None:
        return None
    is_text = isinstance(unit, str) and unit.isprintable() and unit == unit.strip()
    if not is_text or not 1 <= len(str(unit)) <= MAX_UNIT_LENGTH:
        raise ParameterError(
            f"unit must be 1 to {MAX_UNIT_LENGTH} printable characters without spaces around "
            f"them, such as EUR, got {short_repr(unit)}"
        )
    return str(unit)


def read_guardrails(guardrails: object) -> tuple[Guardrail, ...]:
    """Read guardrails that are given as such, or as spec strings.

    >>> read_guardrails(["guardrail(refunds)"])[0].tolerated
    0.0
    """
    with name_field("guardrails"):
        given = check_sequence("guardrails", guardrails)
        return tuple(as_spec(each, Guardrail) for each in given)


def check_final_after(span: object, slot: object) -> str | None:
    """Check how long a total may change, if it may.

    >>> check_final_after("72h", "1h")
    '72h'
    """
    if span is None:
        return None
    if not isinstance(span, str) or not _SPAN.fullmatch(span) or read_span(span) > _MAX_SPAN:
        raise ParameterError(
            "final_after must be a time of at most ten years, such as 90min, 72h, 30d or 6w, "
            f"got {short_repr(span)}"
        )
    if slot is None:
        raise ParameterError("final_after needs slots with times: give the length of a slot too")
    return span


def read_span(text: str) -> timedelta:
    """A time such as 72h.

    >>> read_span("72h").days
    3
    """
    number, unit = _SPAN.findall(text)[0]
    return int(number) * _SPAN_UNITS[unit]


def _check_guardrails(
    guardrails: object, covariates: Sequence[str], *, has_units: bool
) -> tuple[Guardrail, ...]:
    known = read_guardrails(guardrails)
    if known and has_units:
        raise ParameterError(
            "guardrails are for experiments with one unit: leave them out, or create an experiment "
            "for each unit"
        )
    if len(known) > MAX_GUARDRAILS:
        raise ParameterError(
            f"guardrails must be at most {MAX_GUARDRAILS}, so that each has its part of the level, "
            f"got {len(known)}"
        )
    others = {*SLOT_COLUMNS, *(name.lower() for name in covariates)}
    check_columns("guardrails", [guardrail.name for guardrail in known], "a guardrail", others)
    return known


def _choose_course(plan: object, settings: Settings) -> PlannedCourse:
    """What a plan promised of an experiment like this one, which has the policy of a design."""
    if settings.units:
        raise ParameterError(
            "a plan is for an experiment with one unit: create one with several without the plan"
        )
    courses = read_courses(plan)
    for course in courses:
        planned, given = (course.arms, course.slot), (len(settings.arms), settings.slot)
        if planned != given:
            raise ParameterError(
                f"the plan is for {planned[0]} arms and slots of {planned[1]}, got {given[0]} arms "
                f"and {'slots without a length' if given[1] is None else f'slots of {given[1]}'}: "
                "plan again, or create the experiment without the plan"
            )
        design = _check_policy(course.design, settings.planned_slots, settings.calendar)
        if design == settings.policy:
            return course
    names = ", ".join(course.design for course in courses)
    raise ParameterError(
        f"the plan has no design {settings.policy}: choose one of {names}, or plan that one"
    )


def check_limit(loss: object) -> float | None:
    """Check the limit of a rule to stop, if there is one.

    >>> check_limit(5)
    5.0
    """
    return None if loss is None else check_float("stop_when_loss_below", loss, above=0)


def _check_max_total(total: object, reward_range: Sequence[float] | None) -> float | None:
    low = reward_range[0] if reward_range else -MAX_TOTAL
    return None if total is None else check_float("max_total", total, above=low)


def _check_range(reward_range: object, policy: Policy) -> tuple[float, float] | None:
    if reward_range is None:
        if _looks_at_slots(policy):
            return None
        raise ParameterError(
            f"{policy} needs a reward_range: the least and the most that one pull can bring"
        )
    ends = check_sequence("reward_range", reward_range)
    if len(ends) != 2:
        raise ParameterError(
            "reward_range must be two numbers, the least and the most that one pull can bring, "
            f"got {len(ends)}"
        )
    low = check_float(
        "the lower end of reward_range", ends[0], at_least=-MAX_TOTAL, at_most=MAX_TOTAL
    )
    high = check_float("the upper end of reward_range", ends[1], above=low, at_most=MAX_TOTAL)
    if high - low < 1 / MAX_TOTAL:
        raise ParameterError(
            f"the ends of reward_range must be at least {1 / MAX_TOTAL:g} apart, "
            f"got {low!r} and {high!r}"
        )
    return low, high


def _check_policy(
    policy: object, horizon: int | None, calendar: Calendar, *, has_units: bool = False
) -> Policy:
    """Check that a policy can be stored as a spec string, and that it has what it needs."""
    given = as_spec(policy, Policy)
    if has_units:
        unit_kernels(given)
    else:
        check_anonymous(given)
    chosen = given.with_delay_facts(_NO_FACTS).with_calendar(calendar)
    try:
        same = parse(str(chosen), Policy) == chosen
    except SpecError:
        same = False
    if not same:
        raise ParameterError(
            f"{chosen} cannot be used live: its spec string cannot be read back; "
            "put @aftereffect.register above your own classes"
        )
    if chosen.needs_horizon and horizon is None:
        raise ParameterError(
            f"{chosen} needs to know the number of slots in advance: give horizon (--horizon)"
        )
    return chosen
