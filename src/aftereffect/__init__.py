"""Bandits whose rewards arrive late, spread over time, and anonymously.

In every slot one arm is played; its reward arrives bit by bit in later slots; all that is observed
is one total per slot, mixed from every arm played before.

>>> import aftereffect as ae
>>> bandit = ae.StochasticBandit(means=[.9, .8, .7], delay=ae.Interval(30, 39))
>>> study = ae.simulate(
...     [ae.ArsUcb(alpha=4), ae.Ucb1()], bandit, horizon=100_000, replications=200, seed=7
... )
>>> study.checkpoints[-1], len(study)
(100000, 2)

Start with `simulate`, or with `Experiment` for a live one. `parse` reads the spec strings of the
command line. The packages `delays`, `rewards`, `growth`, `theory` and `testing` hold the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aftereffect import delays, growth, rewards
from aftereffect._core import (
    AttributedKernels,
    PolicyKernels,
    SlotKernels,
    UnitKernels,
    __version__,
    parse,
    register,
)
from aftereffect.bandits import (
    AdversarialBandit,
    Bandit,
    Defects,
    HistoryBandit,
    LinearBandit,
    SeasonalBandit,
    StochasticBandit,
)
from aftereffect.client import Client
from aftereffect.delays import (
    Delay,
    Geometric,
    HoldBack,
    Immediate,
    Interval,
    LinearDecay,
    LinearRise,
    PerArm,
    PowerLaw,
    RandomDelay,
    Shape,
    UniformDelay,
)
from aftereffect.errors import (
    AftereffectError,
    ConflictError,
    CorruptionError,
    InputError,
    MissingExtraError,
    NotFoundError,
    OutputError,
    ParameterError,
    ServiceError,
    SpecError,
    StorageError,
    SweepError,
    UnknownPolicyError,
    UnlikelyTotalError,
    WorkerError,
)
from aftereffect.inference import Guardrail, Results
from aftereffect.lag import LagEstimate, estimate_lag
from aftereffect.live import Experiment, delete_experiment, open_storage
from aftereffect.planning import Plan, plan
from aftereffect.policies import (
    AdaptivePatientBandits,
    AdaptiveSwitchback,
    ArsClw,
    ArsExp3,
    ArsKlUcb,
    ArsUcb,
    AttributedKlUcb,
    AttributedPolicy,
    Bold,
    Clw,
    DelayedKlUcb,
    DelayedLeader,
    DelayedUcb,
    DelayedUcb1,
    Dew,
    Dexp3,
    DynLinUcb,
    Exp3,
    FixedSwitchback,
    FixedUnitSwitchback,
    Floors,
    GeneralizedOdaaf,
    LiDexp3,
    MiniBatch,
    Odaaf,
    OptimalSwitchback,
    PatientBandits,
    Policy,
    QpmD,
    RoundRobin,
    SettleUcb,
    Skipper,
    State,
    Ucb1,
    UnitPolicy,
    UnitSwitchback,
)
from aftereffect.simulation import PolicyRuns, Study, Trace, dask_cluster, simulate
from aftereffect.sweeps import Sweep, SweepResults

if TYPE_CHECKING:
    from aftereffect import testing, theory

__all__ = [
    "AdaptivePatientBandits",
    "AdaptiveSwitchback",
    "AdversarialBandit",
    "AftereffectError",
    "ArsClw",
    "ArsExp3",
    "ArsKlUcb",
    "ArsUcb",
    "AttributedKernels",
    "AttributedKlUcb",
    "AttributedPolicy",
    "Bandit",
    "Bold",
    "Client",
    "Clw",
    "ConflictError",
    "CorruptionError",
    "Defects",
    "Delay",
    "DelayedKlUcb",
    "DelayedLeader",
    "DelayedUcb",
    "DelayedUcb1",
    "Dew",
    "Dexp3",
    "DynLinUcb",
    "Exp3",
    "Experiment",
    "FixedSwitchback",
    "FixedUnitSwitchback",
    "Floors",
    "GeneralizedOdaaf",
    "Geometric",
    "Guardrail",
    "HistoryBandit",
    "HoldBack",
    "Immediate",
    "InputError",
    "Interval",
    "LagEstimate",
    "LiDexp3",
    "LinearBandit",
    "LinearDecay",
    "LinearRise",
    "MiniBatch",
    "MissingExtraError",
    "NotFoundError",
    "Odaaf",
    "OptimalSwitchback",
    "OutputError",
    "ParameterError",
    "PatientBandits",
    "PerArm",
    "Plan",
    "Policy",
    "PolicyKernels",
    "PolicyRuns",
    "PowerLaw",
    "QpmD",
    "RandomDelay",
    "Results",
    "RoundRobin",
    "SeasonalBandit",
    "ServiceError",
    "SettleUcb",
    "Shape",
    "Skipper",
    "SlotKernels",
    "SpecError",
    "State",
    "StochasticBandit",
    "StorageError",
    "Study",
    "Sweep",
    "SweepError",
    "SweepResults",
    "Trace",
    "Ucb1",
    "UniformDelay",
    "UnitKernels",
    "UnitPolicy",
    "UnitSwitchback",
    "UnknownPolicyError",
    "UnlikelyTotalError",
    "WorkerError",
    "__version__",
    "dask_cluster",
    "delays",
    "delete_experiment",
    "estimate_lag",
    "growth",
    "open_storage",
    "parse",
    "plan",
    "register",
    "rewards",
    "simulate",
    "testing",
    "theory",
]

_LAZY = ("testing", "theory")


def __getattr__(name: str) -> Any:
    """Packages that few need are loaded when they are named."""
    if name in _LAZY:
        return import_module(f"aftereffect.{name}")
    raise AttributeError(f"module 'aftereffect' has no attribute {name!r}")
