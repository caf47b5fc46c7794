"""Bandits whose rewards come late, spread over time, and anonymous.

In every slot one arm is played; its reward lands bit by bit in later slots; all that is ever seen is one total per slot,
mixed from every arm played before.

>>> import aftereffect as ae
>>> env = ae.StochasticBandit(means=[.9, .8, .7], spread=ae.Interval(30, 40))
>>> study = ae.simulate([ae.ArsUcb(alpha=4), ae.Ucb1()], env, horizon=100_000, replications=200, seed=7)
>>> study.checkpoints[-1], len(study)
(100000, 2)

Start with `simulate`; `parse` reads the spec strings of the command line.
"""

from aftereffect.client import Client
from aftereffect.environments import AdversarialBandit, Environment, StochasticBandit
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
    UnlikelyTotalError,
    WorkerError,
)
from aftereffect.growth import Exponential, Growth, Power
from aftereffect.lag import LagEstimate, estimate_lag
from aftereffect.live import Experiment, delete_experiment, open_storage
from aftereffect.policies import (
    ArsClw,
    ArsExp3,
    ArsKlUcb,
    ArsUcb,
    Clw,
    Exp3,
    GeneralizedOdaaf,
    MiniBatch,
    Odaaf,
    Policy,
    RoundRobin,
    SettleUcb,
    Ucb1,
)
from aftereffect.provenance import __version__ as __version__
from aftereffect.rewards import Bernoulli, Beta, Constant, Reward, Uniform
from aftereffect.schedules import DrawnArm, DrawnRewards, Recorded, Schedule
from aftereffect.simulation import PolicyRuns, Study, Trace, dask_cluster, simulate
from aftereffect.spec import parse
from aftereffect.spreads import (
    Delaying,
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
    Spread,
    Spreading,
    UniformDelay,
)
from aftereffect.sweeps import Sweep, SweepResults

__all__ = [
    "AdversarialBandit",
    "AftereffectError",
    "ArsClw",
    "ArsExp3",
    "ArsKlUcb",
    "ArsUcb",
    "Bernoulli",
    "Beta",
    "Client",
    "Clw",
    "ConflictError",
    "Constant",
    "CorruptionError",
    "Delaying",
    "DrawnArm",
    "DrawnRewards",
    "Environment",
    "Exp3",
    "Experiment",
    "Exponential",
    "GeneralizedOdaaf",
    "Geometric",
    "Growth",
    "HoldBack",
    "Immediate",
    "InputError",
    "Interval",
    "LagEstimate",
    "LinearDecay",
    "LinearRise",
    "MiniBatch",
    "MissingExtraError",
    "NotFoundError",
    "Odaaf",
    "OutputError",
    "ParameterError",
    "PerArm",
    "Policy",
    "PolicyRuns",
    "Power",
    "PowerLaw",
    "RandomDelay",
    "Recorded",
    "Reward",
    "RoundRobin",
    "Schedule",
    "ServiceError",
    "SettleUcb",
    "Shape",
    "SpecError",
    "Spread",
    "Spreading",
    "StochasticBandit",
    "StorageError",
    "Study",
    "Sweep",
    "SweepError",
    "SweepResults",
    "Trace",
    "Ucb1",
    "Uniform",
    "UniformDelay",
    "UnlikelyTotalError",
    "WorkerError",
    "dask_cluster",
    "delete_experiment",
    "estimate_lag",
    "open_storage",
    "parse",
    "simulate",
]
