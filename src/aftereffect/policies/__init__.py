"""Policies: one algorithm or family per file. A module with an underscore serves several of them.

Each policy is a frozen dataclass of parameters and two plain kernels.
"""

from aftereffect._core import Params, State
from aftereffect.policies._averages import kl_bernoulli
from aftereffect.policies._delay_shapes import DelayShapes, list_shapes
from aftereffect.policies._recording import Recording, RecordingState
from aftereffect.policies._season import MAX_REMEMBERED
from aftereffect.policies._unit_model import Posterior, learn_lifts
from aftereffect.policies._unit_noise import Noise, apply_filter, learn_noise
from aftereffect.policies._unit_slots import UnitSlots, blank_slots
from aftereffect.policies._unit_windows import Windows, find_shares, see_windows, spread_arms
from aftereffect.policies.adaptive_switchback import AdaptiveSwitchback
from aftereffect.policies.ars_clw import ArsClw
from aftereffect.policies.ars_exp3 import ArsExp3
from aftereffect.policies.ars_ucb import ArsKlUcb, ArsUcb
from aftereffect.policies.base import (
    AttributedPolicy,
    Kernels,
    Policy,
    TakeState,
    anonymous_kernels,
    check_anonymous,
    check_one_unit,
    make_take_state,
    map_arrays,
    move_into,
    named_arrays,
    round_kernels,
    stack_states,
)
from aftereffect.policies.clw import Clw
from aftereffect.policies.delayed_indices import AttributedKlUcb, DelayedUcb1
from aftereffect.policies.delayed_leader import DelayedLeader
from aftereffect.policies.delayed_ucb import DelayedKlUcb, DelayedUcb
from aftereffect.policies.delayed_weights import Dew, Dexp3, Skipper
from aftereffect.policies.dyn_lin_ucb import DynLinUcb
from aftereffect.policies.exp3 import Exp3
from aftereffect.policies.fixed_unit_switchback import FixedUnitSwitchback
from aftereffect.policies.floors import MAX_FLOORS, Floors, has_probabilities, slot_floors
from aftereffect.policies.li_dexp3 import LiDexp3
from aftereffect.policies.mini_batch import MiniBatch
from aftereffect.policies.odaaf import GeneralizedOdaaf, Odaaf
from aftereffect.policies.patient_bandits import AdaptivePatientBandits, PatientBandits
from aftereffect.policies.planned_switchback import FixedSwitchback, OptimalSwitchback
from aftereffect.policies.queues import Bold, QpmD
from aftereffect.policies.round_robin import RoundRobin
from aftereffect.policies.settle_ucb import SettleUcb
from aftereffect.policies.ucb1 import Ucb1
from aftereffect.policies.unit_policy import UnitPolicy, unit_kernels
from aftereffect.policies.unit_switchback import UnitSwitchback

__all__ = [
    "MAX_FLOORS",
    "MAX_REMEMBERED",
    "AdaptivePatientBandits",
    "AdaptiveSwitchback",
    "ArsClw",
    "ArsExp3",
    "ArsKlUcb",
    "ArsUcb",
    "AttributedKlUcb",
    "AttributedPolicy",
    "Bold",
    "Clw",
    "DelayShapes",
    "DelayedKlUcb",
    "DelayedLeader",
    "DelayedUcb",
    "DelayedUcb1",
    "Dew",
    "Dexp3",
    "DynLinUcb",
    "Exp3",
    "FixedSwitchback",
    "FixedUnitSwitchback",
    "Floors",
    "GeneralizedOdaaf",
    "Kernels",
    "LiDexp3",
    "MiniBatch",
    "Noise",
    "Odaaf",
    "OptimalSwitchback",
    "Params",
    "PatientBandits",
    "Policy",
    "Posterior",
    "QpmD",
    "Recording",
    "RecordingState",
    "RoundRobin",
    "SettleUcb",
    "Skipper",
    "State",
    "TakeState",
    "Ucb1",
    "UnitPolicy",
    "UnitSlots",
    "UnitSwitchback",
    "Windows",
    "anonymous_kernels",
    "apply_filter",
    "blank_slots",
    "check_anonymous",
    "check_one_unit",
    "find_shares",
    "has_probabilities",
    "kl_bernoulli",
    "learn_lifts",
    "learn_noise",
    "list_shapes",
    "make_take_state",
    "map_arrays",
    "move_into",
    "named_arrays",
    "round_kernels",
    "see_windows",
    "slot_floors",
    "spread_arms",
    "stack_states",
    "unit_kernels",
]
