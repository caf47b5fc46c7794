"""Policies: one algorithm per file, each a frozen dataclass of parameters and two plain kernels."""

from aftereffect.policies.ars_clw import ArsClw
from aftereffect.policies.ars_exp3 import ArsExp3
from aftereffect.policies.ars_kl_ucb import ArsKlUcb
from aftereffect.policies.ars_ucb import ArsUcb
from aftereffect.policies.base import Policy, State
from aftereffect.policies.clw import Clw
from aftereffect.policies.exp3 import Exp3
from aftereffect.policies.generalized_odaaf import GeneralizedOdaaf
from aftereffect.policies.mini_batch import MiniBatch
from aftereffect.policies.odaaf import Odaaf
from aftereffect.policies.round_robin import RoundRobin
from aftereffect.policies.settle_ucb import SettleUcb
from aftereffect.policies.ucb1 import Ucb1

__all__ = [
    "ArsClw",
    "ArsExp3",
    "ArsKlUcb",
    "ArsUcb",
    "Clw",
    "Exp3",
    "GeneralizedOdaaf",
    "MiniBatch",
    "Odaaf",
    "Policy",
    "RoundRobin",
    "SettleUcb",
    "State",
    "Ucb1",
]
