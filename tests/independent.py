"""Simulators written apart from the package, as literally as possible: lists, one loop over slots, an array of arrivals."""

import math
import random

MEANS = (0.9, 0.7, 0.5, 0.3)


def land(rng, spread, t, arrivals):
    """Add a reward of 1, pulled in slot t, to the slots where it lands."""
    kind, *numbers = spread
    if kind == "uniform":
        low, high = numbers
        arrivals[t + rng.randint(low, high)] += 1
    elif kind == "interval":
        low, end = numbers
        for lag in range(low, end):
            arrivals[t + lag] += 1 / (end - low)
    elif kind == "rise":
        (d,) = numbers
        for lag in range(1, d + 1):
            arrivals[t + lag] += 2 * lag / (d * (d + 1))
    elif kind == "geometric":
        (gamma,) = numbers
        for lag in range(1, 120):
            arrivals[t + lag] += (1 - gamma) * gamma ** (lag - 1)
    else:
        arrivals[t] += 1


def ars_ucb(seed, spread, horizon, alpha=4.0, f=lambda k: k * k):
    """Algorithm 1, slot by slot; returns the regret."""
    rng = random.Random(seed)
    arrivals = [0.0] * (horizon + 200)
    n = [0] * len(MEANS)
    m = [0.0] * len(MEANS)
    k = [1] * len(MEANS)
    t = 0
    regret = 0.0
    while t < horizon:
        fresh = [i for i in range(len(MEANS)) if k[i] == 1]
        if fresh:
            arm = fresh[0]
        else:
            u = [min(m[i] / n[i] + math.sqrt(alpha * math.log(t) / n[i]), 1) for i in range(len(MEANS))]
            arm = min((i for i in range(len(MEANS)) if u[i] == max(u)), key=lambda i: (n[i], i))
        for _ in range(f(k[arm])):
            if t == horizon:
                break
            if rng.random() < MEANS[arm]:
                land(rng, spread, t, arrivals)
            m[arm] += arrivals[t]
            n[arm] += 1
            regret += max(MEANS) - MEANS[arm]
            t += 1
        k[arm] += 1
    return regret


def ucb1(seed, spread, horizon):
    """UCB1 that credits the slot's total to the arm just played; returns the regret."""
    rng = random.Random(seed)
    arrivals = [0.0] * (horizon + 200)
    n = [0] * len(MEANS)
    m = [0.0] * len(MEANS)
    regret = 0.0
    for t in range(horizon):
        if t < len(MEANS):
            arm = t
        else:
            u = [m[i] / n[i] + math.sqrt(2 * math.log(t) / n[i]) for i in range(len(MEANS))]
            arm = u.index(max(u))
        if rng.random() < MEANS[arm]:
            land(rng, spread, t, arrivals)
        m[arm] += arrivals[t]
        n[arm] += 1
        regret += max(MEANS) - MEANS[arm]
    return regret
