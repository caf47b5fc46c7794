"""Policies: one algorithm per file, each a frozen dataclass of parameters and two plain kernels.

Modules with an underscore hold what several policies share.
"""

from aftereffect._core import Params, State
from aftereffect.policies._averages import kl_bernoulli
from aftereffect.policies._delay_shapes import list_shapes
from aftereffect.policies._recording import Recording, RecordingState
from aftereffect.policies.adaptive_switchback import AdaptiveSwitchback
from aftereffect.policies.ars_clw import ArsClw
from aftereffect.policies.ars_exp3 import ArsExp3
from aftereffect.policies.ars_kl_ucb import ArsKlUcb
from aftereffect.policies.ars_ucb import ArsUcb
from aftereffect.policies.base import (
    MAX_REMEMBERED,
    Policy,
    map_arrays,
    move_into,
    named_arrays,
    round_kernels,
)
from aftereffect.policies.clw import Clw
from aftereffect.policies.exp3 import Exp3
from aftereffect.policies.fixed_switchback import FixedSwitchback
from aftereffect.policies.floors import MAX_FLOORS, Floors, has_probabilities, slot_floors
from aftereffect.policies.mini_batch import MiniBatch
from aftereffect.policies.odaaf import GeneralizedOdaaf, Odaaf
from aftereffect.policies.optimal_switchback import OptimalSwitchback
from aftereffect.policies.round_robin import RoundRobin
from aftereffect.policies.settle_ucb import SettleUcb
from aftereffect.policies.ucb1 import Ucb1

__all__ = [
    "MAX_FLOORS",
    "MAX_REMEMBERED",
    "AdaptiveSwitchback",
    "ArsClw",
    "ArsExp3",
    "ArsKlUcb",
    "ArsUcb",
    "Clw",
    "Exp3",
    "FixedSwitchback",
    "Floors",
    "GeneralizedOdaaf",
    "MiniBatch",
    "Odaaf",
    "OptimalSwitchback",
    "Params",
    "Policy",
    "Recording",
    "RecordingState",
    "RoundRobin",
    "SettleUcb",
    "State",
    "Ucb1",
    "has_probabilities",
    "kl_bernoulli",
    "list_shapes",
    "map_arrays",
    "move_into",
    "named_arrays",
    "round_kernels",
    "slot_floors",
]
