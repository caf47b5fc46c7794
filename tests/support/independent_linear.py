"""Dynamical linear bandits and DynLin-UCB once more, apart from the package: the recursion slot by slot, and the pseudo-code with the inverse computed anew each time."""

import math

import numpy as np

#: The system of the authors' experiment with recorded data: three platforms, of which the outputs are added up.
A = ((0.38, 0.33, 0.6), (0.07, 0.76, -0.54), (0.18, 0.34, 0.05))
B = ((0.14, 0.34, -0.05), (-0.17, 0.03, -0.01), (0.04, -0.09, 0.17))
OMEGA, THETA = (-0.61, -0.04, -0.13), (0.13, 0.41, 0.02)
PLANS = ((1, 0, 0.5), (1, 0.5, 0), (0.5, 0, 1), (0.5, 1, 0), (0, 0.5, 1), (0, 1, 0.5))


class System:
    """The state, and what a plan brings in the next slot."""

    def __init__(self, rng, a, b, omega, theta, sigma, output_sigma):
        self.rng, self.sigma, self.output_sigma = rng, sigma, output_sigma
        self.a, self.b, self.omega, self.theta = map(np.array, (a, b, omega, theta))
        self.state = np.zeros(len(self.a))

    def play(self, plan):
        plan = np.array(plan)
        total = self.omega @ self.state + self.theta @ plan + self.output_sigma * self.rng.normal()
        noise = self.sigma * self.rng.normal(size=len(self.a))
        self.state = self.a @ self.state + self.b @ plan + noise
        return total


def level(plan, a=A, b=B, omega=OMEGA, theta=THETA):
    """What a plan brings per slot in the long run."""
    settled = np.linalg.solve(np.eye(len(a)) - np.array(a), np.array(b) @ plan)
    return np.dot(omega, settled) + np.dot(theta, plan)


def moments(rounds, system, plans):
    """Mean and covariance of the totals of rounds (arm, slots, window), summed slot by slot.

    With the noise of slot s, a total has <omega, A^(t - s - 1) noise>.
    """
    a, b, omega, theta, sigma, output_sigma = system
    a, b, omega = np.array(a), np.array(b), np.array(omega)
    slots = sum(count for _, count, _ in rounds)
    arms = np.repeat([arm for arm, _, _ in rounds], [count for _, count, _ in rounds])
    effects = [omega @ np.linalg.matrix_power(a, lag) for lag in range(slots)]
    means = np.array([np.dot(theta, plans[arm]) for arm in arms], dtype=float)
    weights = np.zeros((len(rounds), slots, len(a)))
    picks, end = np.zeros((len(rounds), slots)), 0
    for t in range(slots):
        for s in range(t):
            means[t] += effects[t - s - 1] @ b @ np.array(plans[arms[s]])
    for number, (_, count, window) in enumerate(rounds):
        end += count
        picks[number, end - window : end] = 1
        for t in range(end - window, end):
            for s in range(t):
                weights[number, s] += effects[t - s - 1]
    flat = weights.reshape(len(rounds), -1)
    covariance = sigma**2 * flat @ flat.T + output_sigma**2 * picks @ picks.T
    return picks @ means, covariance


def ucb1(seed, horizon, system, plans, scale):
    """UCB1 on scaled totals; returns the regret and the pulls."""
    world, (low, high) = System(np.random.default_rng(seed), *system), scale
    values = [level(plan, *system[:4]) for plan in plans]
    pulls, sums, regret = np.zeros(len(plans)), np.zeros(len(plans)), 0.0
    for t in range(horizon):
        if t < len(plans):
            arm = t
        else:
            arm = int(np.argmax(sums / pulls + np.sqrt(2 * math.log(t) / pulls)))
        sums[arm] += (world.play(plans[arm]) - low) / (high - low)
        pulls[arm] += 1
        regret += max(values) - values[arm]
    return regret, pulls


class DynLinUcb:
    """The box of the paper: say a plan and for how many slots, and learn the last total of them."""

    def __init__(self, plans, horizon, rho, c1, c2, noise, regularizer=None):
        self.plans, self.horizon, self.rho = np.array(plans, dtype=float), horizon, rho
        self.c1, self.c2, self.noise = c1, c2, noise
        self.regularizer = regularizer or math.log(horizon)
        self.v = self.regularizer * np.eye(self.plans.shape[1])
        self.b = np.zeros(self.plans.shape[1])
        self.m = 0

    def beta(self, t):
        d, norm = self.plans.shape[1], max(np.linalg.norm(plan) for plan in self.plans)
        grown = 1 + t * norm**2 / (d * self.regularizer)
        doubt = math.log(self.horizon) + d / 2 * math.log(grown)
        return (
            self.c1 / math.sqrt(self.regularizer) * math.log(math.e * (t + 1))
            + self.c2 * math.sqrt(self.regularizer)
            + math.sqrt(2 * self.noise**2 * doubt)
        )

    def bounds(self, t):
        inverse = np.linalg.inv(self.v)
        widths = np.sqrt([plan @ inverse @ plan for plan in self.plans])
        return self.plans @ inverse @ self.b + self.beta(t) * widths

    def hold(self):
        self.m += 1
        return 1 + (math.floor(math.log(self.m) / math.log(1 / self.rho)) if self.rho else 0)

    def learn(self, arm, total):
        self.v += np.outer(self.plans[arm], self.plans[arm])
        self.b += total * self.plans[arm]
