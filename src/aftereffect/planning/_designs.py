"""Designs of experiments: the usual candidates, with their names, and how often each is played."""

from aftereffect._core import as_spec
from aftereffect.errors import ParameterError
from aftereffect.planning._history import Past
from aftereffect.planning._worlds import Range
from aftereffect.policies import (
    AdaptiveSwitchback,
    FixedSwitchback,
    Floors,
    Policy,
    check_anonymous,
)

#: The share of the control in the adaptive design.
CONTROL_SHARE = 0.1
#: Blocks of fixed switchbacks, in lags; the part of the experiment in which arms are compared.
_BLOCKS, _COMPARED = (1.0, 2.0, 4.0), 0.25
#: Fixed switchbacks are played in so many times as many worlds: they are that much faster, and a
#: few worlds in which they end with a wrong arm decide what they lose.
_FIXED_TIMES = 8
#: Passes over all arms that a fixed switchback has at least.
MIN_PASSES = 2


def list_designs(past: Past, arms: int, lags: Range, slots: int) -> list[Policy]:
    """The usual candidates: an adaptive switchback with a control, and fixed ones."""
    adaptive = Floors(AdaptiveSwitchback(), (CONTROL_SHARE, *[0.0] * (arms - 1)))
    calendar = past.calendar
    # Blocks are whole parts of days, or whole days.
    unit = calendar.window
    fixed: list[FixedSwitchback] = []
    for lengths in _BLOCKS:
        block = max(round(lengths * max(lags.last, 1) / unit), 1) * unit
        if block >= calendar.slots_per_day > 0:
            block = round(block / calendar.slots_per_day) * calendar.slots_per_day
        block = min(block, slots // (2 * MIN_PASSES * arms))
        if block >= 1 and block not in [each.block for each in fixed]:
            passes = max(int(_COMPARED * slots) // (block * arms), MIN_PASSES)
            fixed.append(FixedSwitchback(block, passes))
    return [adaptive, *fixed]


def count_worlds(design: Policy, runs: int) -> int:
    """In how many worlds a design is played, if others are played in so many.

    >>> count_worlds(FixedSwitchback(24, 3), 64)
    512
    """
    return runs * _FIXED_TIMES if isinstance(design, FixedSwitchback) else runs


def check_design(design: Policy | str, arms: int, slots: int) -> Policy:
    """Check that a design can be planned with so many arms and slots."""
    policy = check_anonymous(as_spec(design, Policy))
    policy.params(arms, slots)
    if isinstance(policy, FixedSwitchback):
        needed = policy.block * policy.blocks_per_arm * arms
        if policy.blocks_per_arm < MIN_PASSES or needed > slots:
            raise ParameterError(
                f"{policy} must compare the arms at least {MIN_PASSES} times within {slots:,} "
                f"slots, but needs {needed:,} slots for {policy.blocks_per_arm:,} times: choose "
                "other blocks, or more weeks"
            )
    return policy


def name_design(design: Policy) -> str:
    """Its spec string, without the calendar, which everything fills in by itself.

    >>> name_design(FixedSwitchback(24, 3))
    'fixed-switchback(block=24, blocks_per_arm=3)'
    """
    return str(design).replace("(first=0)", "").replace(", first=0", "")
