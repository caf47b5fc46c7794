"""Policies: one algorithm per file, each a frozen dataclass of parameters and two plain kernels."""

from aftereffect.policies.ars_ucb import ArsUcb
from aftereffect.policies.base import Policy, State
from aftereffect.policies.generalized_odaaf import GeneralizedOdaaf
from aftereffect.policies.odaaf import Odaaf
from aftereffect.policies.round_robin import RoundRobin
from aftereffect.policies.ucb1 import Ucb1

__all__ = ["ArsUcb", "GeneralizedOdaaf", "Odaaf", "Policy", "RoundRobin", "State", "Ucb1"]
