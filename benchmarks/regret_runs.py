"""Play the policies whose regrets are compared, and what is read off their runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import aftereffect as ae
from aftereffect.errors import ParameterError
from aftereffect.kernels import Matrix, Vector
from aftereffect.paper.stochastic.figures import RECOMMENDED
from aftereffect.simulation.checkpoints import log_spaced
from aftereffect.theory import lai_robbins_slope
from measure import MEANS, processor_seconds
from regret_settings import Setting

HORIZONS = 10**4, 10**5, 10**6

SETTLE, ARS_KL, ARS, ODAAF, NAIVE = ae.SettleUcb(), ae.ArsKlUcb(), RECOMMENDED, ae.Odaaf("mean"), ae.Ucb1()
NAMES: Mapping[ae.Policy, str] = {
    SETTLE: "SettleUcb",
    ARS_KL: "ARS-KL-UCB",
    ARS: "ARS-UCB",
    ODAAF: "ODAAF",
    NAIVE: "UCB1",
}

GROWS_FROM, GROWS_TO, GROWTH_CHECKPOINTS = 10**5, 10**7, 31
COST_HORIZON, COST_RUNS, COST_REPEATS = 10**7, 64, 7
COST_SPREADS = ae.Interval(30, 40), ae.UniformDelay(0, 60), ae.Geometric(0.9)


@dataclass(frozen=True, eq=False)
class Played:
    """All runs in one setting: by policy the regret by run and horizon. Who cannot play there is not among them."""

    setting: Setting
    regrets: Mapping[ae.Policy, Matrix]

    def at(self, policy: ae.Policy, horizon: int) -> Vector | None:
        """The regret of every run; None if the policy cannot play here."""
        regret = self.regrets.get(policy)
        return None if regret is None else regret[:, HORIZONS.index(horizon)]

    def mean(self, policy: ae.Policy, horizon: int) -> float:
        """Over all runs; not a number if the policy cannot play here."""
        regret = self.at(policy, horizon)
        return math.nan if regret is None else float(regret.mean())

    def p95(self, policy: ae.Policy, horizon: int) -> float:
        """The regret that 95 % of the runs stay below."""
        regret = self.at(policy, horizon)
        return math.nan if regret is None else float(np.quantile(regret, 0.95))

    def worst(self, policy: ae.Policy, horizon: int) -> float:
        """The highest regret of any run."""
        regret = self.at(policy, horizon)
        return math.nan if regret is None else float(regret.max())

    def times_below(self, policy: ae.Policy, rival: ae.Policy, horizon: int) -> float:
        """How many times the policy's mean regret the rival's is."""
        return self.mean(rival, horizon) / self.mean(policy, horizon)

    def times_floor(self, policy: ae.Policy, horizon: int) -> float:
        """The mean regret as a multiple of the Lai-Robbins floor; not a number where that is not known."""
        try:
            slope = lai_robbins_slope(self.setting.environment)
        except ParameterError:  # rewards of another law than Bernoulli's
            return math.nan
        return self.mean(policy, horizon) / (slope * math.log(horizon))


def played(setting: Setting, runs: int, seed: int) -> Played:
    """Every policy that can play there."""
    return Played(
        setting, {policy: _regret(policy, setting, runs, seed) for policy in NAMES if _can_play(policy, setting.environment)}
    )


def _can_play(policy: ae.Policy, environment: ae.StochasticBandit) -> bool:
    try:
        policy.told(environment.knowledge)
    except ParameterError:  # what it must be told is infinite
        return False
    return True


def _regret(policy: ae.Policy, setting: Setting, runs: int, seed: int) -> Matrix:
    """By run and horizon; a policy that must know the horizon begins anew for each."""
    if not policy.needs_horizon:
        study = ae.simulate(policy, setting.environment, HORIZONS[-1], runs, seed=seed, checkpoints=HORIZONS)
        return study[0].regret
    ends = [ae.simulate(policy, setting.environment, horizon, runs, seed=seed, checkpoints=1)[0].final for horizon in HORIZONS]
    return np.column_stack(ends)


#: Exponents that are tried.
GROWTH_POWERS = [round(0.05 * step, 2) for step in range(1, 201)]


class Growth(NamedTuple):
    """The mean regret of SettleUcb where the long runs begin and end, and p in regret = a + b (ln T)^p between."""

    first: float
    last: float
    exponent: float


def growth(setting: Setting, runs: int, seed: int) -> Growth:
    """By least squares: a straight line against (ln T)^p for each p. What the first hold and visits cost is in a."""
    slots = log_spaced(GROWS_FROM, GROWS_TO, GROWTH_CHECKPOINTS)
    mean = ae.simulate(SETTLE, setting.environment, GROWS_TO, runs, seed=seed, checkpoints=slots)[0].mean
    left = {power: np.polyfit(np.log(slots) ** power, mean, 1, full=True)[1].sum() for power in GROWTH_POWERS}
    return Growth(float(mean[0]), float(mean[-1]), min(GROWTH_POWERS, key=left.__getitem__))


class Cost(NamedTuple):
    """Processor time of one replication."""

    settle: float
    ars: float

    @property
    def ratio(self) -> float:
        """How many times that of ARS-UCB."""
        return self.settle / self.ars


def cost(spread: ae.Spread) -> Cost:
    """The least of some repeats, taken in turns, so that the machine is as busy for the one as for the other."""
    environment = ae.StochasticBandit(MEANS, spread)
    repeats = [
        [processor_seconds(policy, environment, COST_HORIZON, COST_RUNS, repeats=1) for policy in (SETTLE, ARS)]
        for _ in range(COST_REPEATS)
    ]
    return Cost(*map(min, zip(*repeats, strict=True)))
