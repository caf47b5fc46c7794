"""The floors of a live experiment, given by the names of its arms: a control share, and others."""

from collections.abc import Mapping

from aftereffect._core import check_float, short_repr, suggest
from aftereffect.errors import ParameterError, name_field
from aftereffect.live.settings import check_arms, check_control, order_arms
from aftereffect.policies import MAX_FLOORS, Floors, Policy


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
