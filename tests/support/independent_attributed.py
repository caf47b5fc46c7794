"""Oracles that know from which pull each reward comes, written apart from the package and as literally as possible.

A world is a dictionary of what happens in which slot. Policies keep whole histories and compute
everything anew, as the papers have it."""

import math
import random

MEANS = (0.9, 0.7, 0.5)


def draw_parts(rng, delay):
    """The lags at which parts of a reward arrive, and which part of it."""
    kind, low, high = delay
    if kind == "uniform":
        return [(rng.randint(low, high), 1.0)]
    return [(lag, 1 / (high - low + 1)) for lag in range(low, high + 1)]


def share_until(delay, lag):
    """The expected share of a reward that arrives at lags up to this one."""
    _, low, high = delay
    return min(max(lag - low + 1, 0), high - low + 1) / (high - low + 1)


def play(make_policy, seed, delay, horizon):
    """One run; returns the regret."""
    rng = random.Random(seed)
    policy = make_policy(rng, delay, horizon)
    calendar = {}
    regret = 0.0
    for t in range(horizon):
        arm = policy.choose(t)
        reward = 1.0 if rng.random() < MEANS[arm] else 0.0
        parts = draw_parts(rng, delay)
        for lag, part in parts:
            whole = reward if lag == max(lag for lag, _ in parts) else None
            calendar.setdefault(t + lag, []).append((t, arm, reward * part, whole))
        for pulled, played, amount, whole in sorted(calendar.pop(t, []), key=lambda each: each[0]):
            policy.hear(t, pulled, played, amount, whole)
        regret += max(MEANS) - MEANS[arm]
    return regret


class CompletePulls:
    """Learns from the pulls of which all has arrived."""

    def __init__(self, rng, delay, horizon):
        self.rewards = [[] for _ in MEANS]
        self.pulled = [0] * len(MEANS)

    def hear(self, t, pulled, arm, amount, whole):
        if whole is not None:
            self.rewards[arm].append(whole)

    def choose(self, t):
        unknown = [arm for arm, rewards in enumerate(self.rewards) if not rewards]
        if unknown:
            arm = min(unknown, key=lambda arm: self.pulled[arm])
        else:
            indices = [self.index(rewards, t) for rewards in self.rewards]
            arm = indices.index(max(indices))
        self.pulled[arm] += 1
        return arm


class DelayedUcb1(CompletePulls):
    """Joulani et al., section 4."""

    def index(self, rewards, t):
        n = len(rewards)
        return sum(rewards) / n + math.sqrt(2 * math.log(t) / n)


class KlUcb(CompletePulls):
    """KL-UCB on complete pulls."""

    def index(self, rewards, t):
        n = len(rewards)
        index = bisect(lambda p, q: n * bernoulli(p, q), sum(rewards) / n, math.log(t))
        return index, -n  # of several with the highest index, the one with the fewest pulls


def bernoulli(p, q):
    """The divergence of two coins."""
    if q >= 1:
        return math.inf if p < 1 else 0.0
    one = p * math.log(p / q) if p > 0 else 0.0
    return one + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


def poisson(p, q):
    """The divergence of two Poisson laws."""
    return (p * math.log(p / q) if p > 0 else 0.0) + q - p


def bisect(evidence, average, limit):
    """The highest q up to 1 with so little evidence."""
    if evidence(average, 1.0) <= limit:
        return 1.0
    low, high = average, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if evidence(average, middle) <= limit:
            low = middle
        else:
            high = middle
    return low


class DelayedUcb:
    """Vernade et al.: m is the largest lag, epsilon 0."""

    def __init__(self, rng, delay, horizon):
        self.delay, self.m = delay, delay[2]
        self.arms = []
        self.arrived = [0.0] * len(MEANS)

    def hear(self, t, pulled, arm, amount, whole):
        self.arrived[arm] += amount

    def choose(self, t):
        pulls = [self.arms.count(arm) for arm in range(len(MEANS))]
        # Before slot t, what a pull of slot s brought at lags up to t - 1 - s has been heard of.
        old = self.arms[: max(t - 1 - self.m, 0)]
        expected = [share_until(self.delay, self.m) * old.count(arm) for arm in range(len(MEANS))]
        for s in range(len(old), t):
            expected[self.arms[s]] += share_until(self.delay, t - 1 - s)
        nothing = [arm for arm in range(len(MEANS)) if expected[arm] == 0]
        if nothing:
            arm = min(nothing, key=lambda arm: pulls[arm])
        else:
            indices = [
                self.index(*each, t) for each in zip(self.arrived, pulls, expected, strict=True)
            ]
            best = [arm for arm, index in enumerate(indices) if index == max(indices)]
            arm = min(best, key=lambda arm: pulls[arm])
        self.arms.append(arm)
        return arm

    def index(self, arrived, pulls, expected, t):
        width = math.sqrt(math.log(t) / (2 * expected))
        return arrived / expected + math.sqrt(pulls / expected) * width


class DelayedKlUcb(DelayedUcb):
    """The same with the index of a Poisson law."""

    def index(self, arrived, pulls, expected, t):
        average = min(arrived / expected, 1.0)
        return bisect(lambda p, q: expected * poisson(p, q), average, math.log(t))


class Ucb1:
    """Auer et al., without delay."""

    def __init__(self):
        self.rewards = [[] for _ in MEANS]

    def choose(self):
        for arm, rewards in enumerate(self.rewards):
            if not rewards:
                return arm
        t = sum(len(rewards) for rewards in self.rewards)
        indices = [
            sum(rewards) / len(rewards) + math.sqrt(2 * math.log(t) / len(rewards))
            for rewards in self.rewards
        ]
        return indices.index(max(indices))

    def learn(self, arm, reward):
        self.rewards[arm].append(reward)


class QpmD:
    """Joulani et al., algorithm 2, with UCB1."""

    def __init__(self, rng, delay, horizon):
        self.base = Ucb1()
        self.queues = [[] for _ in MEANS]

    def hear(self, t, pulled, arm, amount, whole):
        if whole is not None:
            self.queues[arm].append(whole)

    def choose(self, t):
        arm = self.base.choose()
        while self.queues[arm]:
            self.base.learn(arm, self.queues[arm].pop(0))
            arm = self.base.choose()
        return arm


class Exp3:
    """Exp3 on losses, without delay, for so many slots."""

    def __init__(self, rng, slots):
        self.rng = rng
        self.eta = math.sqrt(2 * math.log(len(MEANS)) / (len(MEANS) * slots))
        self.losses = [0.0] * len(MEANS)

    def chances(self):
        weights = [math.exp(-self.eta * (loss - min(self.losses))) for loss in self.losses]
        return [weight / sum(weights) for weight in weights]

    def choose(self):
        return self.rng.choices(range(len(MEANS)), self.chances())[0]

    def learn(self, arm, reward):
        self.losses[arm] += (1 - reward) / self.chances()[arm]


class Bold:
    """Joulani et al., algorithm 1, with Exp3."""

    def __init__(self, rng, delay, horizon):
        self.make = lambda: Exp3(rng, math.ceil(horizon / (delay[2] + 1)))
        self.copies = []
        self.waiting = {}

    def hear(self, t, pulled, arm, amount, whole):
        if whole is not None:
            self.copies[self.waiting.pop(pulled)].learn(arm, whole)

    def choose(self, t):
        free = set(range(len(self.copies))) - set(self.waiting.values())
        if not free:
            free = {len(self.copies)}
            self.copies.append(self.make())
        self.waiting[t] = min(free)
        return self.copies[self.waiting[t]].choose()
