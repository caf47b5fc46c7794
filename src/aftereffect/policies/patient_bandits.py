"""PatientBandits (Manegueu, Vernade, Carpentier and Valko, 2020): oracles for long tails.

They learn from all pulls at once, and count what has not arrived as nothing. That makes the average
of an arm too low, by no more than the tail of its delay, which differs from arm to arm. They know
an alpha such that at most a share m^-alpha arrives later than m slots, for any m and any arm::

    m_i + sqrt(2 ln(2 K T^3) / T_i) + 2 T_i^-min(alpha, 1/2)         T_i: pulls of arm i
    first, every arm once                                            m_i: what arrived of them / T_i

The regret is at most sum_i max{64 ln(2 T) / gap_i, (8 / gap_i)^max((1 - alpha) / alpha, 1)} + 2 K.

The adaptive form knows the horizon T too, but of alpha only that it is at least a, and that at
least a share c m^-alpha arrives later than m slots. It estimates alpha from the arm that was pulled
most often, b, after every arm was pulled twice::

    D = T_b / 2,    d = (c / 2)^(1 / a) D                            both rounded down
    M_x = what arrived within x slots of the pulls of b that were x slots ago or more, per pull
    alpha = max{min(-ln(M_D - M_d) / ln T_b, 1/2) - ln(24 sqrt(ln(2 K T^3)) / (c mu)) / ln T_b, 0}

mu is the least mean of any arm, or less. What is subtracted is large: alpha is 0 until some arm was
pulled 576 ln(2 K T^3) / (c mu)^2 times, so for 18,000 slots at least with the shortest of horizons,
and until then the index is that of UCB.

Nothing is told of lags beyond those at which a pull is complete, so D is no larger than these.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aftereffect._core import AttributedKernels, Matrix, Vector, check_float, register
from aftereffect.delays import ArmwiseDelay, Delay
from aftereffect.errors import ParameterError
from aftereffect.policies.base import AttributedPolicy

#: A larger alpha makes no difference.
MAX_ALPHA = 0.5


class PatientState(NamedTuple):
    """By arm what arrived, and the pulls."""

    arrived: Vector
    pulls: Vector


class PatientParams(NamedTuple):
    """2 ln(2 K T^3), and alpha."""

    width: float
    alpha: float


def find_width(arms: int, horizon: int) -> float:
    """2 ln(2 K T^3)."""
    return 2.0 * (math.log(2 * arms) + 3.0 * math.log(horizon))


def choose_patiently(arrived: Vector, pulls: Vector, width: float, alpha: float) -> int:
    """The arm with the highest index; the first of several."""
    chosen, highest = 0, -math.inf
    for arm in range(pulls.shape[0]):
        slack = math.sqrt(width / pulls[arm]) + 2.0 * pulls[arm] ** -alpha
        index = arrived[arm] / pulls[arm] + slack
        if index > highest:
            chosen, highest = arm, index
    return chosen


def decide_patient(
    state: PatientState, params: PatientParams, t: int, rng: np.random.Generator
) -> int:
    """Every arm once, then the one with the highest index."""
    chosen = t
    if t >= state.pulls.shape[0]:
        chosen = choose_patiently(state.arrived, state.pulls, params.width, params.alpha)
    state.pulls[chosen] += 1.0
    return chosen


def arrive_patient(
    state: PatientState,
    params: PatientParams,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Add what arrives."""
    state.arrived[arm] += amount


def find_alpha(delay: Delay, arms: int) -> float:
    """The largest alpha that the delays of all arms have, up to 1/2.

    Lags count until an oracle takes a pull for complete.

    >>> from aftereffect import PowerLaw, UniformDelay
    >>> [round(find_alpha(delay, 2), 2) for delay in (PowerLaw(1.4), UniformDelay(0, 30))]
    [0.42, 0.13]
    """
    alpha = MAX_ALPHA
    for law in delay.by_arm(arms) if isinstance(delay, ArmwiseDelay) else ():
        lags = np.arange(2, law.known_reach)
        tails = law.tail(lags)
        kept = tails > 0.0
        alpha = min([alpha, *(-np.log(tails[kept]) / np.log(lags[kept])).tolist()])
    return max(alpha, 0.0)


@register
@dataclass(frozen=True)
class PatientBandits(AttributedPolicy):
    """PatientBandits: UCB that makes up for rewards which have not arrived yet: an oracle.

    Parameters
    ----------
    alpha
        At most a share m^-alpha of a reward arrives later than m slots. A simulation fills in the
        largest that holds, up to 1/2.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(["patient-bandits(0.5)", "patient-bandits"], bandit, 10_000, seed=1)
    >>> [round(float(runs.final.mean())) for runs in study]
    [149, 104]
    """

    alpha: float | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        if self.alpha is not None:
            self._set(alpha=check_float("alpha", self.alpha, at_least=0, at_most=1e6))

    def with_delay(self, delay: Delay, arms: int) -> "PatientBandits":
        return self if self.alpha is not None else replace(self, alpha=find_alpha(delay, arms))

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_patient, arrive_patient)

    def initial_within(self, arms: int, pending: int) -> PatientState:
        return PatientState(np.zeros(arms), np.zeros(arms))

    def params(self, arms: int, horizon: int) -> PatientParams:
        if self.alpha is None:
            raise ParameterError(f"{self} must know the tail of the delay: pass alpha=...")
        return PatientParams(find_width(arms, horizon), min(self.alpha, MAX_ALPHA))


class Ripe(NamedTuple):
    """By arm: a lag, the pulls that were longer ago, what of them arrived within it; and later.

    ``late`` is by arm and lag.
    """

    lag: Vector
    pulls: Vector
    arrived: Vector
    late: Matrix


class AdaptiveState(NamedTuple):
    """What arrived, by arm and within both lags; and by recent pull its arm and what arrived."""

    arrived: Vector
    pulls: Vector
    last_arms: Vector
    last_arrived: Vector
    long: Ripe
    short: Ripe


class AdaptiveParams(NamedTuple):
    """2 ln(2 K T^3), the ratio of both lags, and what is subtracted from alpha ln T_b."""

    width: float
    ratio: float
    margin: float


def ripen(ripe: Ripe, state: AdaptiveState, t: int, arm: int, lag: float) -> None:
    """Bring one arm from slot t - 1 to slot t, with this lag: as large as before, or 1 larger."""
    if lag > ripe.lag[arm]:
        ripe.lag[arm] = lag
        ripe.arrived[arm] += ripe.late[arm, int(lag)]
        return
    pulled = t - 1 - int(lag)
    here = pulled % state.last_arms.shape[0]
    if pulled >= 0 and state.last_arms[here] == arm:
        ripe.pulls[arm] += 1.0
        ripe.arrived[arm] += state.last_arrived[here]


def ripe_mean(ripe: Ripe, arm: int) -> float:
    """What arrived within the lag, per pull; 0 without pulls."""
    mean: float = ripe.arrived[arm] / max(ripe.pulls[arm], 1.0)
    return mean


def estimate_alpha(rise: float, pulls: float, margin: float) -> float:
    """Alpha, by what arrives between both lags.

    >>> estimate_alpha(0.0, 10_000, 0.0), round(estimate_alpha(0.01, 1e8, 4.0), 3)
    (0.5, 0.033)
    """
    log = math.log(pulls)
    plain = MAX_ALPHA if rise <= 0.0 else min(-math.log(rise) / log, MAX_ALPHA)
    return max(plain - margin / log, 0.0)


def decide_adaptive(
    state: AdaptiveState, params: AdaptiveParams, t: int, rng: np.random.Generator
) -> int:
    """Every arm twice, then the one with the highest index."""
    arms, size = state.pulls.shape[0], state.last_arms.shape[0]
    most = 0
    for arm in range(arms):
        if state.pulls[arm] > state.pulls[most]:
            most = arm
        lag = min(math.floor(0.5 * state.pulls[arm]), size - 1)
        ripen(state.long, state, t, arm, float(lag))
        ripen(state.short, state, t, arm, float(math.floor(params.ratio * lag)))
    chosen: int = t % arms
    if t >= 2 * arms:
        rise = ripe_mean(state.long, most) - ripe_mean(state.short, most)
        alpha = estimate_alpha(rise, state.pulls[most], params.margin)
        chosen = choose_patiently(state.arrived, state.pulls, params.width, alpha)
    state.pulls[chosen] += 1.0
    state.last_arms[t % size] = chosen
    state.last_arrived[t % size] = 0.0
    return chosen


def arrive_adaptive(
    state: AdaptiveState,
    params: AdaptiveParams,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Add what arrives, of a pull that is ripe as late."""
    lag = t - pulled
    state.arrived[arm] += amount
    state.last_arrived[pulled % state.last_arms.shape[0]] += amount
    if lag > state.long.lag[arm]:
        state.long.late[arm, lag] += amount
    if lag > state.short.lag[arm]:
        state.short.late[arm, lag] += amount


@register
@dataclass(frozen=True)
class AdaptivePatientBandits(AttributedPolicy):
    """PatientBandits that estimates alpha: an oracle.

    Parameters
    ----------
    least_alpha, scale
        For some alpha of `least_alpha` or more, at most a share m^-alpha of a reward arrives later
        than m slots, and at least `scale` times that.
    least_mean
        No arm has a lower mean.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(AdaptivePatientBandits(0.5, 0.5), bandit, horizon=10_000, seed=1)
    >>> round(float(study[0].final.mean()))
    104
    """

    least_alpha: float
    least_mean: float
    scale: float = 1.0
    needs_horizon = True

    def __post_init__(self) -> None:
        for name in ("least_alpha", "least_mean", "scale"):
            self._set(**{name: check_float(name, getattr(self, name), above=0, at_most=1)})

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_adaptive, arrive_adaptive)

    def initial_within(self, arms: int, pending: int) -> AdaptiveState:
        long, short = (
            Ripe(np.zeros(arms), np.zeros(arms), np.zeros(arms), np.zeros((arms, pending)))
            for _ in range(2)
        )
        recent = np.full(pending, -1.0), np.zeros(pending)
        return AdaptiveState(np.zeros(arms), np.zeros(arms), *recent, long, short)

    def params(self, arms: int, horizon: int) -> AdaptiveParams:
        width = find_width(arms, horizon)
        margin = math.log(24.0 * math.sqrt(width / 2.0) / (self.scale * self.least_mean))
        return AdaptiveParams(width, (self.scale / 2.0) ** (1.0 / self.least_alpha), margin)
