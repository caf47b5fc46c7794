"""Simulators written apart from the package, as literally as possible: lists, one loop over slots, an array of arrivals."""

import math
import random

MEANS = (0.9, 0.7, 0.5, 0.3)


def arrive(rng, delay, t, arrivals):
    """Add a reward of 1, pulled in slot t, to the slots where it arrives."""
    kind, *numbers = delay
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


def exponential(k):
    """Rounds of 4, 4, 8, 16 ... slots."""
    return 2 ** max(k, 2)


def ars_ucb(seed, delay, horizon, alpha=4.0, f=lambda k: k * k):
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
            u = [
                min(m[i] / n[i] + math.sqrt(alpha * math.log(t) / n[i]), 1)
                for i in range(len(MEANS))
            ]
            arm = min((i for i in range(len(MEANS)) if u[i] == max(u)), key=lambda i: (n[i], i))
        for _ in range(f(k[arm])):
            if t == horizon:
                break
            if rng.random() < MEANS[arm]:
                arrive(rng, delay, t, arrivals)
            m[arm] += arrivals[t]
            n[arm] += 1
            regret += max(MEANS) - MEANS[arm]
            t += 1
        k[arm] += 1
    return regret


def ucb1(seed, delay, horizon):
    """UCB1 that credits the slot's total to the arm just pulled; returns the regret."""
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
            arrive(rng, delay, t, arrivals)
        m[arm] += arrivals[t]
        n[arm] += 1
        regret += max(MEANS) - MEANS[arm]
    return regret


def odaaf(seed, delay, horizon, plays, bridged):
    """ODAAF with n_m = plays(m), as its pseudo-code has it; returns the regret."""
    rng = random.Random(seed)
    arrivals = [0.0] * (horizon + 200)
    slot = 0
    regret = 0.0

    def play(arm):
        nonlocal slot, regret
        if rng.random() < MEANS[arm]:
            arrive(rng, delay, slot, arrivals)
        seen = arrivals[slot]
        slot += 1
        regret += max(MEANS) - MEANS[arm]
        return seen

    order = list(range(len(MEANS)))
    rng.shuffle(order)
    observed = {arm: [] for arm in order}
    active = order
    m, last = 1, 0
    while slot < horizon:
        if len(active) == 1 or horizon * 4**-m <= math.e:
            arm = max(active, key=lambda j: sum(observed[j]) / max(len(observed[j]), 1))
            while slot < horizon:
                play(arm)
            break
        n = max(plays(m), last)
        for arm in active:
            while len(observed[arm]) < n and slot < horizon:
                observed[arm].append(play(arm))
        if slot == horizon:
            break
        average = {arm: sum(observed[arm]) / len(observed[arm]) for arm in active}
        highest = max(average.values())
        active = [arm for arm in active if average[arm] + 2**-m >= highest]
        if bridged and len(active) > 1:
            best = max(active, key=lambda j: average[j])
            for _ in range(n - last):
                if slot < horizon:
                    play(best)
        m, last = m + 1, n
    return regret
