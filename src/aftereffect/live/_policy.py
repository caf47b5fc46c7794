"""The policy of a live experiment: floors by the names of arms, refusals and warnings."""

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

import numpy as np

from aftereffect._core import as_spec, check_float, short_repr, suggest
from aftereffect.errors import ParameterError, name_field
from aftereffect.live._results import explain_refusal
from aftereffect.live._state import Draws, ExperimentState
from aftereffect.live._unit_state import make_state
from aftereffect.live.events import Link
from aftereffect.live.settings import (
    Settings,
    check_arms,
    check_control,
    check_units,
    order_arms,
)
from aftereffect.policies import MAX_FLOORS, Floors, Policy, UnitPolicy, round_kernels

#: The number of rounds that are tried to find out when a second arm is played.
_MAX_ROUNDS = 2_000
#: Where policies planned a smaller share of the slots than this, a warning says so.
_MIN_PLANNED_SHARE = 1 / 3


#: The policy of experiments for which none is named, and of those with several units.
DEFAULT_POLICY, DEFAULT_UNIT_POLICY = "adaptive-switchback", "unit-switchback"


def choose_policy(policy: object, units: object) -> tuple[Policy, tuple[str, ...]]:
    """The policy of an experiment with these units, and their names.

    An experiment with one unit is an experiment without: it has the policy that a `UnitPolicy` has
    for one, and the unit needs no name.

    >>> policy, units = choose_policy("fixed-unit-switchback(block=12)", ["north"])
    >>> policy.block, units
    (12, ())
    """
    with name_field("units"):
        names = check_units(units)
    if policy is None:
        policy = DEFAULT_UNIT_POLICY if len(names) > 1 else DEFAULT_POLICY
    with name_field("policy"):
        chosen = as_spec(policy, Policy)
    if len(names) != 1:
        return chosen, names
    return (chosen.for_one_unit() if isinstance(chosen, UnitPolicy) else chosen), ()


def add_floors(
    policy: Policy, arms: object, control: object, control_share: object, floors: object
) -> Policy:
    """The policy with the floors that are given by the names of arms; itself if there are none.

    >>> from aftereffect import Ucb1
    >>> str(add_floors(Ucb1(), ["A", "B"], control="B", control_share=0.1, floors=None))
    'floors(ucb1, [0.1, 0])'
    """
    if control_share is None and (floors is None or floors == {}):
        return policy
    if isinstance(policy, UnitPolicy):
        with name_field("floors" if control_share is None else "control_share"):
            raise ParameterError(
                f"{policy} plays several units, which share the arms by its own rule: leave out "
                "control_share and floors, or create an experiment for each unit"
            )
    with name_field("arms"):
        names = check_arms(arms)
    with name_field("control"):
        first = check_control(control, names)
    with name_field("floors"):
        shares = _check_floors(floors, names)
    if control_share is not None:
        with name_field("control_share"):
            if first is None:
                raise ParameterError(
                    "control_share is the least share of the control: name that arm as control"
                )
            if first in shares:
                raise ParameterError(
                    f"the control {first!r} has a control_share and a floor: give one"
                )
            shares[first] = _check_share("control_share", control_share)
    with name_field("floors"):
        ordered = tuple(shares.get(arm, 0.0) for arm in order_arms(names, first))
        return Floors(policy, ordered) if any(ordered) else policy


def _check_floors(floors: object, names: tuple[str, ...]) -> dict[str, float]:
    if floors is None:
        return {}
    if not isinstance(floors, Mapping):
        raise ParameterError(
            f"floors must be shares by the names of arms, such as {{'B': 0.05}}, "
            f"got {short_repr(floors)}"
        )
    for arm in floors:
        if arm not in names:
            raise ParameterError(
                f"a floor must be that of one of the arms, got {short_repr(arm)}: "
                f"{suggest(str(arm), names)}"
            )
    return {arm: _check_share(f"the floor of {arm}", share) for arm, share in floors.items()}


def _check_share(name: str, share: object) -> float:
    return check_float(name, share, at_least=0, at_most=MAX_FLOORS)


def check_playable(settings: Settings) -> None:
    """Refuse settings under which the policy cannot begin, or plays one arm to the very end.

    Without probabilities, no rule can say when to stop, and no guardrail can stop an arm.
    """
    slots = settings.planned_slots
    if settings.stop_when_loss_below is not None:
        with name_field("stop_when_loss_below"):
            reason = explain_refusal(settings, len(settings.arms))
            if reason is not None:
                raise ParameterError(f"no rule can say when to stop: {reason}")
    if settings.has_stops:
        with name_field("guardrails"):
            reason = explain_refusal(settings, len(settings.arms))
            if reason is not None:
                raise ParameterError(f"no guardrail can stop an arm: {reason}")
            if not settings.policy.learns_from_any_arm:
                raise ParameterError(
                    f"no guardrail can stop an arm: {settings.policy} cannot learn from another "
                    "arm than the one that it chose; use another policy, such as "
                    "adaptive-switchback, or guardrails that do not stop"
                )
    with name_field("policy"):
        if settings.looks_at_slots:
            make_state(settings, Link(0, b"")).decide()
            return
        alone = count_slots_of_first_arm(settings.policy, len(settings.arms), slots, settings.seed)
        if alone >= slots:
            raise ParameterError(
                f"{settings.policy} plays one arm for all {slots:,} slots of the horizon: "
                "use a longer horizon, shorter slots, or another policy such as ars-ucb"
            )


@lru_cache(maxsize=256)
def count_slots_of_first_arm(policy: Policy, arms: int, horizon: int, seed: int) -> int:
    """The least number of slots for which the first arm is played before a second one is.

    The policy is tried on totals that are all the same and come at once; with others it may take
    longer. A policy that draws its arms may draw another one after the first round.
    """
    kernels = round_kernels(policy)
    params, state = policy.params(arms, horizon), policy.initial(arms)
    draws = Draws(seed)
    begin = draws.position
    rng = cast(np.random.Generator, draws)
    played, first = 0, None
    for _ in range(_MAX_ROUNDS):
        arm, slots, window = map(int, kernels.decide(state, params, played, rng))
        if first is None:
            first = arm
        if arm != first or played >= horizon:
            break
        played += slots
        if draws.position != begin:
            break
        kernels.absorb(state, params, arm, window, 0.5 * window)
    return min(played, horizon)


def find_warnings(state: ExperimentState) -> tuple[str, ...]:
    """What the owner of an experiment should know about its policy and its feed."""
    return tuple(note for note in (_warn_of_one_arm(state), _warn_of_waiting(state)) if note)


def _warn_of_one_arm(state: ExperimentState) -> str:
    settings, arms = state.settings, len(state.settings.arms)
    is_known = settings.looks_at_slots or np.count_nonzero(state.arm_totals.pulls) > 1
    if state.ended or is_known:
        return ""
    alone = count_slots_of_first_arm(settings.policy, arms, settings.planned_slots, settings.seed)
    if alone <= arms:
        return ""
    share = f" ({alone / settings.horizon:.0%} of the horizon)" if settings.horizon else ""
    return f"at least the first {alone:,} slots go to one arm{share}"


def _warn_of_waiting(state: ExperimentState) -> str:
    if not state.lateness or state.planned >= _MIN_PLANNED_SHARE * state.lasted:
        return ""
    held = 1 - state.planned / state.lasted
    return (
        f"totals come {state.lateness:,} slots late, and {held:.0%} of the slots only waited for "
        "them: the rounds of this policy are too short for totals that come so late"
    )
