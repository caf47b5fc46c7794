"""DynLin-UCB: holds a plan until the state has settled, and learns what plans bring by entry.

For totals of a linear system (see `LinearBandit`), by Mussi, Metelli and Restelli (2023). Plans are
vectors u of d entries, and the total per slot of a plan that is played for long is <h, u>, for an h
that is the same for all of them::

    V = lambda I, b = 0
    round m = 1, 2, ...:
        play the plan with the highest <V^-1 b, u> + beta(t) sqrt(u' V^-1 u)         ties: first
        for 1 + H slots, H = ln m / ln(1 / rho), rounded down
        V += u u',  b += y u                                 y: the total of the last of these slots

    beta(t) = c1 ln(e (t + 1)) / sqrt(lambda) + c2 sqrt(lambda)
              + sqrt(2 s^2 (ln T + d/2 ln(1 + t U^2 / (d lambda))))

rho is a bound on the spectral radius of the system, so that what earlier plans still bring falls by
it in every slot: after H slots at most c1 / m is left. c2 bounds the norm of h, s the noise, and U
is the norm of the largest plan. The regret is O(d sqrt(T) (1 - rho)^(-3/2)) but for logarithms.

With ``radius=0`` and ``leak=0`` it looks at every slot, and is Lin-UCB, which ignores the dynamics.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aftereffect._core import (
    Matrix,
    PolicyKernels,
    Vector,
    check_float,
    check_sequence,
    register,
)
from aftereffect.delays import DelayFacts
from aftereffect.errors import ParameterError
from aftereffect.policies.base import Policy

#: Entries of plans are at most so large, and plans have at most so many.
MAX_ENTRY, MAX_INPUTS = 1e6, 100
#: Closer to 1 a hold would be longer than any run; and 1 / lambda must be a number.
MAX_RADIUS, MIN_REGULARIZER = 1 - 1e-9, 1e-9
#: What a simulation fills in.
_FACTS = ("plans", "radius", "size", "leak", "noise", "reward_range")


class DynLinState(NamedTuple):
    """V^-1, b, how many rounds began, and room for V^-1 u."""

    inverse: Matrix
    response: Vector
    rounds: Vector
    weights: Vector


class DynLinParams(NamedTuple):
    """The plans, and the constants of the policy; ``log_shrink`` is ln(1 / rho)."""

    plans: Matrix
    log_shrink: float
    size: float
    leak: float
    variance: float
    regularizer: float
    log_horizon: float
    action: float
    low: float
    width: float


def find_width(params: DynLinParams, t: int) -> float:
    """Beta after t slots."""
    inputs, root = params.plans.shape[1], math.sqrt(params.regularizer)
    grown = 1.0 + t * params.action * params.action / (inputs * params.regularizer)
    doubt = params.log_horizon + 0.5 * inputs * math.log(grown)
    leak = params.leak / root * math.log(math.e * (t + 1.0))
    return leak + params.size * root + math.sqrt(2.0 * params.variance * doubt)


def decide(
    state: DynLinState, params: DynLinParams, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """The plan with the highest bound, until the state has settled; only the last slot counts."""
    inputs = params.plans.shape[1]
    if state.rounds[0] == 0.0:
        for row in range(inputs):
            state.inverse[row, row] = 1.0 / params.regularizer
    width, chosen, highest = find_width(params, t), 0, -math.inf
    for arm in range(params.plans.shape[0]):
        square, mean = weigh(state, params, arm), 0.0
        for row in range(inputs):
            mean += state.weights[row] * state.response[row]
        bound = mean + width * math.sqrt(max(square, 0.0))
        if bound > highest:
            chosen, highest = arm, bound
    state.rounds[0] += 1.0
    hold = int(math.log(state.rounds[0]) / params.log_shrink)
    return chosen, hold + 1, 1


def absorb(state: DynLinState, params: DynLinParams, arm: int, window: int, total: float) -> None:
    """Add a plan to V, of which the inverse changes by a product (Sherman, Morrison), and to b."""
    average = params.low + params.width * total / window
    grown = 1.0 + weigh(state, params, arm)
    for row in range(params.plans.shape[1]):
        state.response[row] += average * params.plans[arm, row]
        for column in range(params.plans.shape[1]):
            state.inverse[row, column] -= state.weights[row] * state.weights[column] / grown


def weigh(state: DynLinState, params: DynLinParams, arm: int) -> float:
    """Write V^-1 u into the weights, and return u' V^-1 u."""
    square = 0.0
    for row in range(params.plans.shape[1]):
        weight = 0.0
        for column in range(params.plans.shape[1]):
            weight += state.inverse[row, column] * params.plans[arm, column]
        state.weights[row] = weight
        square += weight * params.plans[arm, row]
    return square


@register
@dataclass(frozen=True)
class DynLinUcb(Policy):
    """DynLin-UCB: a linear bound on what plans bring, from slots in which the state has settled.

    It is made for a `LinearBandit`, which fills in what it must know. With ``radius=0, leak=0`` it
    is Lin-UCB, which ignores the dynamics.

    Parameters
    ----------
    plans
        The action vector of each arm; if not given, an arm is an entry of its own.
    radius
        A bound on the spectral radius of the system, from 0 on and below 1 by 1e-9 at least.
    size, leak, noise
        c2, c1 and s: bounds on the norm of what plans bring by entry, and on what earlier plans
        bring in all; and the standard deviation of a total.
    reward_range
        Which totals a bandit or an experiment has scaled to 0 and to 1.
    regularizer
        lambda, at least 1e-9; ln T if not given, but at least 1.

    Examples
    --------
    >>> import aftereffect as ae
    >>> plans = [[1, 0], [0, 1]]
    >>> bandit = ae.LinearBandit([[0.5]], [[0.1, -0.2]], [1], [0.1, 0.5], plans, sigma=0.01)
    >>> study = ae.simulate([DynLinUcb(), DynLinUcb(radius=0, leak=0)], bandit, 10_000, seed=1)
    >>> [round(float(runs.final.mean())) for runs in study]
    [612, 1989]
    """

    plans: tuple[tuple[float, ...], ...] | None = None
    radius: float | None = None
    size: float | None = None
    leak: float | None = None
    noise: float | None = None
    reward_range: tuple[float, float] | None = None
    regularizer: float | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        if self.plans is not None:
            self._set(plans=_check_plans(self.plans))
        if self.radius is not None:
            self._set(radius=check_float("radius", self.radius, at_least=0, at_most=MAX_RADIUS))
        for name in ("size", "leak", "noise"):
            if (bound := getattr(self, name)) is not None:
                self._set(**{name: check_float(name, bound, at_least=0, at_most=1e12)})
        if self.reward_range is not None:
            ends = check_sequence("reward_range", self.reward_range)
            if len(ends) != 2:
                raise ParameterError(f"reward_range must be two numbers, got {len(ends)}")
            low = check_float("the lower end of reward_range", ends[0], at_least=-1e12)
            high = check_float("the upper end of reward_range", ends[1], above=low, at_most=1e12)
            self._set(reward_range=(low, high))
        if self.regularizer is not None:
            given = check_float(
                "regularizer", self.regularizer, at_least=MIN_REGULARIZER, at_most=1e12
            )
            self._set(regularizer=given)

    def with_delay_facts(self, facts: DelayFacts) -> "DynLinUcb":
        if facts.system is None:
            return self
        missing = [name for name in _FACTS if getattr(self, name) is None]
        return replace(self, **{name: getattr(facts.system, name) for name in missing})

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> DynLinState:
        inputs = arms if self.plans is None else len(self.plans[0])
        if inputs > MAX_INPUTS:
            raise ParameterError(
                f"dyn-lin-ucb takes at most {MAX_INPUTS} arms without plans, got {arms:,}: "
                "pass plans=..."
            )
        return DynLinState(
            np.zeros((inputs, inputs)), np.zeros(inputs), np.zeros(1), np.zeros(inputs)
        )

    def params(self, arms: int, horizon: int) -> DynLinParams:
        bounds = {name: getattr(self, name) for name in ("radius", "size", "leak", "noise")}
        if missing := [name for name, bound in bounds.items() if bound is None]:
            raise ParameterError(
                f"dyn-lin-ucb must know its system, as of a linear-bandit: pass {missing[0]}=..."
            )
        inputs = len(self.initial(arms).response)
        plans = np.eye(inputs) if self.plans is None else np.array(self.plans)
        if len(plans) != arms:
            raise ParameterError(f"plans must be those of {arms} arms, got {len(plans)}")
        low, high = self.reward_range or (0.0, 1.0)
        radius = bounds["radius"]
        return DynLinParams(
            plans=plans,
            log_shrink=-math.log(radius) if radius > 0 else math.inf,
            size=bounds["size"],
            leak=bounds["leak"],
            variance=bounds["noise"] ** 2,
            regularizer=self.regularizer or max(math.log(horizon), 1.0),
            log_horizon=math.log(horizon),
            action=float(max(np.linalg.norm(plan) for plan in plans)),
            low=low,
            width=high - low,
        )


def _check_plans(plans: object) -> tuple[tuple[float, ...], ...]:
    rows = [
        check_sequence(f"plans[{arm}]", plan)
        for arm, plan in enumerate(check_sequence("plans", plans))
    ]
    if not rows or not 1 <= len(rows[0]) <= MAX_INPUTS or len({len(row) for row in rows}) > 1:
        raise ParameterError(
            f"plans must be vectors of the same length, from 1 to {MAX_INPUTS}, one per arm"
        )
    return tuple(
        tuple(
            check_float("a plan's entry", each, at_least=-MAX_ENTRY, at_most=MAX_ENTRY)
            for each in row
        )
        for row in rows
    )
