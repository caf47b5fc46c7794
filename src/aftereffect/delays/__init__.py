"""Delays: when the rewards of pulls arrive.

Each delay is one file: its law, and how the slotwise and the roundwise engine simulate it. See
`aftereffect.delays.base` for how to add one.
"""

from aftereffect.delays._attributed import AttributedEngine
from aftereffect.delays._engines import (
    ARM,
    ARRIVALS,
    LAST,
    REWARD,
    SLOTWISE_ROWS,
    TOTAL,
    TRACE_ROWS,
    CollectRow,
    Deposit,
    Recipe,
    RoundwiseEngine,
    Size,
    SlotwiseEngine,
    Step,
    play_slots,
    record_slots,
    take_arrivals,
)
from aftereffect.delays._parts import ARRIVED, PENDING_ARM, PENDING_REWARD
from aftereffect.delays.base import (
    NEGLIGIBLE_TAIL,
    ArmwiseDelay,
    ClosedForm,
    Delay,
    DelayFacts,
    FiniteLagLaw,
    LagLaw,
    LinearFacts,
)
from aftereffect.delays.fixed_shares import Immediate, Interval, LinearDecay, LinearRise, Shape
from aftereffect.delays.geometric import Geometric
from aftereffect.delays.hold_back import HoldBack
from aftereffect.delays.per_arm import PerArm
from aftereffect.delays.power_law import PowerLaw
from aftereffect.delays.random_lag import RandomDelay, RandomLag, UniformDelay

__all__ = [
    "ARM",
    "ARRIVALS",
    "ARRIVED",
    "LAST",
    "NEGLIGIBLE_TAIL",
    "PENDING_ARM",
    "PENDING_REWARD",
    "REWARD",
    "SLOTWISE_ROWS",
    "TOTAL",
    "TRACE_ROWS",
    "ArmwiseDelay",
    "AttributedEngine",
    "ClosedForm",
    "CollectRow",
    "Delay",
    "DelayFacts",
    "Deposit",
    "FiniteLagLaw",
    "Geometric",
    "HoldBack",
    "Immediate",
    "Interval",
    "LagLaw",
    "LinearDecay",
    "LinearFacts",
    "LinearRise",
    "PerArm",
    "PowerLaw",
    "RandomDelay",
    "RandomLag",
    "Recipe",
    "RoundwiseEngine",
    "Shape",
    "Size",
    "SlotwiseEngine",
    "Step",
    "UniformDelay",
    "play_slots",
    "record_slots",
    "take_arrivals",
]
