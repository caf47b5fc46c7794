"""Arms that come and go while an experiment runs: what changes, and what is refused.

- An event of the kind "arm" adds an arm, or pauses, resumes or retires one. It holds from the next
  slot on, which is its slot; its time says when it was recorded.
- An arm has the number of its place in the order in which arms came. Numbers and names are never
  used again, also not those of retired arms. So older events, decisions and probabilities stay as
  they are: those of arms that came later are 0.
- Only active arms are played. A paused arm may be resumed, a retired one never. If the arm of the
  open round is paused or retired, the round ends with the last decided slot.
- At least one arm stays active. The control does; so does the first arm where guardrails compare
  the others with it.
- The policy goes on from what it knows (`Policy.change_arms`): nothing is learned again. Effects of
  earlier pulls still arrive from arms that are not active; their totals can be told and revised.
- The arms are a part of the state, which is a fold of the log: snapshots have them, and `verify`
  derives every decision from the arms of its time.
- Results use the recorded probabilities. A round in which an arm could not be drawn says nothing
  about it. A retired arm is no candidate to ship.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from aftereffect._core import check_names, short_repr, suggest
from aftereffect.errors import ConflictError, ParameterError, name_field
from aftereffect.live.events import Event
from aftereffect.live.settings import Settings

#: Whether an arm may be played.
ArmState: TypeAlias = Literal["active", "paused", "retired"]
#: What may happen to an arm, in the order in which changes of one call are made.
ArmChange: TypeAlias = Literal["add", "resume", "pause", "retire"]

_STATES: dict[ArmChange, ArmState] = {
    "add": "active",
    "resume": "active",
    "pause": "paused",
    "retire": "retired",
}


class Arm(NamedTuple):
    """An arm, and whether it may be played, from slot `since` on; None if from the start."""

    name: str
    state: ArmState = "active"
    since: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether it may be played."""
        return self.state == "active"


def list_arms(settings: Settings) -> tuple[Arm, ...]:
    """The arms of an experiment before its first event."""
    return tuple(map(Arm, settings.arms))


class Change(NamedTuple):
    """What happens to an arm, which has a number."""

    change: ArmChange
    number: int
    name: str

    def write(self) -> str:
        """The text of an event, which has the number apart."""
        return json.dumps({"change": self.change, "name": self.name})


def follow_change(arms: tuple[Arm, ...], event: Event) -> tuple[Arm, ...]:
    """The arms after an event."""
    fields: dict[str, Any] = json.loads(event.guardrails or "")
    number = event.arm or 0
    arm = Arm(fields["name"], _STATES[fields["change"]], event.slot)
    return (*arms[:number], arm, *arms[number + 1 :])


def plan_changes(
    settings: Settings, arms: tuple[Arm, ...], given: dict[ArmChange, object]
) -> list[Change]:
    """What the caller of `Experiment.change_arms` wants, without what is so already."""
    wanted = {change: read_arm_names(change, given[change]) for change in _STATES}
    if not any(wanted.values()):
        raise ParameterError("expected at least one arm to add, pause, resume or retire, got none")
    changes: list[Change] = []
    for change, names in wanted.items():
        for name in names:
            with name_field(change):
                found = _plan_change(arms, change, name)
            if found is not None:
                changes.append(found)
                arm = Arm(name, _STATES[change])
                arms = (*arms[: found.number], arm, *arms[found.number + 1 :])
    if changes:
        _check_policy(settings, arms)
        _check_control(settings, arms)
    return changes


def read_arm_names(change: str, given: object) -> Sequence[str]:
    """The names of arms that a caller gives: one, or several.

    >>> read_arm_names("add", "D")
    ['D']
    """
    names: Any = [given] if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ParameterError(
            f"{change} must be the name of an arm, or a list of names, got {short_repr(given)}"
        )
    return names


def _plan_change(arms: tuple[Arm, ...], change: ArmChange, name: str) -> Change | None:
    """One change of an arm; None if it is as wanted already."""
    names = [arm.name for arm in arms]
    if name not in names:
        if change == "add":
            check_names("arms", [*names, name], "an arm")
            return Change(change, len(arms), name)
        raise ParameterError(f"there is no arm {short_repr(name)}: {suggest(name, names)}")
    number = names.index(name)
    state = arms[number].state
    if state == _STATES[change]:
        return None
    if state == "retired":
        advice = "add an arm with another name" if change != "pause" else "leave it as it is"
        raise ConflictError(f"arm {name!r} is retired for good: {advice}")
    if change == "add":
        raise ConflictError(f"arm {name!r} is paused: resume it instead of adding it again")
    return Change(change, number, name)


def _check_policy(settings: Settings, arms: tuple[Arm, ...]) -> None:
    policy = settings.policy
    if not (settings.looks_at_slots and policy.allows_new_arms):
        raise ConflictError(
            f"{policy} cannot go on with other arms: create experiments whose arms come and go "
            "with adaptive-switchback, or end this one and create another"
        )
    active = [arm.is_active for arm in arms]
    policy.with_active(active).params(len(arms), settings.planned_slots)  # refuses too many


def _check_control(settings: Settings, arms: tuple[Arm, ...]) -> None:
    first = arms[0]
    if not first.is_active and (settings.control is not None or settings.guardrails):
        raise ConflictError(
            f"{first.name!r} is the control, with which the other arms are compared: "
            "it can be neither paused nor retired"
        )
    if not any(arm.is_active for arm in arms):
        raise ConflictError(
            "at least one arm must stay active: add or resume another one at the same time, "
            "or end the experiment"
        )
