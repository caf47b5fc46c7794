"""Adversarial bandits and their policies, written apart from the package and as literally as possible.

A world is a table, a dictionary of arrivals and one loop over slots; policies toss their coins slot
by slot, as the papers have it. Nothing here knows of rounds that are drawn at once, of prefix sums
or of logarithms of weights."""

import math


class World:
    """A table of rewards, and when they land.

    That is ("hold-back", d, reset), ("uniform", a, b), ("interval", a, b) or, by arm, ("intervals",
    (a, b), ...)."""

    def __init__(self, table, delay, rng=None):
        self.table, self.rng = table, rng
        self.kind, *self.numbers = delay
        totals = [sum(row[arm] for row in table) for arm in range(len(table[0]))]
        self.arms = len(totals)
        self.best = totals.index(max(totals))  # the smallest index where several bring as much
        self.most = max(totals)
        self.arrivals = {}
        self.t = self.run = self.gained = 0
        self.last = None
        self.held = 0

    def play(self, arm, begins):
        """Pull an arm; what is seen in this slot. `begins` says whether a round does."""
        reward = self.table[self.t][arm]
        if arm != self.last or (begins and self.kind == "hold-back" and self.numbers[1]):
            self.run = 0
        self.last = arm
        self.run += 1
        if self.kind == "hold-back":
            d = self.numbers[0]
            held = arm == self.best and self.run >= 3 * d
            self.held += held
            self._land(d if held else 1, reward)
        elif self.kind == "uniform":
            if reward:
                self._land(self.rng.randint(*self.numbers), reward)
        else:
            low, end = self.numbers if self.kind == "interval" else self.numbers[arm]
            for lag in range(low, end):
                self._land(lag, reward / (end - low))
        self.gained += reward
        self.t += 1
        return self.arrivals.pop(self.t - 1, 0)

    def _land(self, lag, reward):
        if reward:
            self.arrivals[self.t + lag] = self.arrivals.get(self.t + lag, 0) + reward

    @property
    def regret(self):
        """Of generated reward, against the arm that is best over the whole table."""
        return self.most - self.gained


def softmax(scores):
    highest = max(scores)
    weights = [math.exp(score - highest) for score in scores]
    return [weight / sum(weights) for weight in weights]


class GainExp3:
    """W_a += gamma x / (N p_a);  p = (1 - gamma) softmax(W) + gamma / N."""

    def __init__(self, arms, gamma):
        self.arms, self.gamma = arms, gamma
        self.w = [0.0] * arms
        self.p = [1 / arms] * arms

    def feed(self, arm, gain):
        self.w[arm] += self.gamma * gain / (self.arms * self.p[arm])
        self.p = [(1 - self.gamma) * share + self.gamma / self.arms for share in softmax(self.w)]


class LossExp3:
    """L_a += (1 - x) / p_a;  p ~ exp(-eta L)."""

    def __init__(self, arms, eta):
        self.eta = eta
        self.losses = [0.0] * arms
        self.p = [1 / arms] * arms

    def feed(self, arm, gain):
        self.losses[arm] += (1 - gain) / self.p[arm]
        self.p = softmax([-self.eta * loss for loss in self.losses])


class Tsallis:
    """L_a += (1 - x) / p_a;  p_i = eta^2 / (L_i - lambda)^2, lambda by bisection."""

    def __init__(self, arms, eta):
        self.eta = eta
        self.losses = [0.0] * arms
        self.p = [1 / arms] * arms

    def feed(self, arm, gain):
        self.losses[arm] += (1 - gain) / self.p[arm]
        least = min(self.losses)
        gaps = [loss - least for loss in self.losses]
        low, high = self.eta, self.eta * math.sqrt(len(gaps))  # of min L - lambda
        while high - low > 1e-14 * high:
            middle = (low + high) / 2
            if middle in (low, high):
                break
            if sum((self.eta / (gap + middle)) ** 2 for gap in gaps) > 1:
                low = middle
            else:
                high = middle
        p = [(self.eta / (gap + high)) ** 2 for gap in gaps]
        self.p = [each / sum(p) for each in p]


def gain_gamma(arms, updates):
    return min(1, math.sqrt(arms * math.log(arms) / ((math.e - 1) * updates)))


def wrapper_gamma(d, arms, horizon):
    return min(1, math.sqrt(2 * d * arms * math.log(arms) / (horizon + d)))


def drawn(rng, p):
    """An arm, by the inverse of the distribution function."""
    u = rng.random()
    for arm, chance in enumerate(p):
        u -= chance
        if u < 0:
            return arm
    return len(p) - 1


def naive_learner(form, arms, updates):
    if form == "gain":
        return GainExp3(arms, gain_gamma(arms, updates))
    return LossExp3(arms, math.sqrt(2 * math.log(arms) / (arms * updates)))


def exp3(world, rng, horizon, form):
    learner = naive_learner(form, world.arms, horizon)
    for _ in range(horizon):
        arm = drawn(rng, learner.p)
        learner.feed(arm, min(world.play(arm, True), 1))
    return world.regret


def root_up(k):
    """The square root, rounded up."""
    return math.isqrt(k - 1) + 1


def ars_exp3(world, rng, horizon, g=root_up, doubling=False):
    epoch = 1024 if doubling else horizon
    while world.t < horizon:
        t0, rounds, slots = world.t, 0, 0
        while slots + g(rounds + 1) <= epoch:
            rounds += 1
            slots += g(rounds)
        gamma = gain_gamma(world.arms, rounds)
        w = [0.0] * world.arms
        for k in range(1, rounds + 1):
            p = [
                (1 - gamma) * share + gamma / world.arms
                for share in softmax([each / g(rounds) for each in w])
            ]
            arm = drawn(rng, p)
            z = 0
            for slot in range(g(k)):
                if world.t == horizon:
                    return world.regret
                z += world.play(arm, slot == 0)
            w[arm] += gamma * min(z, g(k)) / (world.arms * p[arm])
        p = [
            (1 - gamma) * share + gamma / world.arms
            for share in softmax([each / g(rounds) for each in w])
        ]
        arm = drawn(rng, p)
        while world.t < min(t0 + epoch, horizon):
            world.play(arm, world.t == t0 + slots)
        epoch *= 2
    return world.regret


def wrapped(variant, base, d, arms, horizon):
    """The learner inside CLW."""
    log = math.log(arms)
    if base == "exp3-gain":
        return GainExp3(arms, wrapper_gamma(max(d, 1), arms, horizon))
    if variant == "jmlr":
        if base == "exp3":
            return LossExp3(arms, math.sqrt((d + 1) * log / (arms * horizon)))
        return Tsallis(arms, math.sqrt((horizon // (2 * d + 1)) / 2))
    if base == "exp3":
        return LossExp3(arms, 4 * math.sqrt(d * log / ((4 * arms + 1) * horizon)))
    return Tsallis(arms, math.sqrt((horizon // (2 * d)) / 2))


def update_slots(variant, d, rng, slots):
    """The slots, counted from 1, of the updates: coins tossed slot by slot, as each paper has it."""
    updates = []
    if variant == "colt":
        q = 1 / (2 * (2 * d - 1))
        last = 0  # slot 0 belongs to no block: no update before slot 2d
        for t in range(1, slots + 1):
            if t - 1 == last or last in range(t - 2 * d + 1, t - 1):
                continue
            if rng.random() < q:
                updates.append(t)
                last = t
    elif variant == "jmlr":
        beta = 1 / (2 * d + 1)
        bits = [None] + [rng.random() < beta for _ in range(slots)]
        updates = [
            t for t in range(2 * d + 1, slots + 1) if bits[t] and not any(bits[t - 2 * d : t])
        ]
    else:
        q = 1 / (2 * d)
        bits = [None] + [rng.random() < q for _ in range(slots + 2 * d)]
        updates = [
            t for t in range(2 * d, slots + 1) if bits[t] and not any(bits[t + 1 : t + 2 * d])
        ]
    return updates


def clw(world, rng, horizon, d, variant, base):
    window, divisor = (d + 1, 2 * d + 1) if variant == "jmlr" else (d, 2 * d)
    learner = wrapped(variant, base, d, world.arms, horizon)
    updates = set(update_slots(variant, d, rng, horizon))
    seen = [0]
    arm = None
    for t in range(1, horizon + 1):
        begins = t == 1 or t - 1 in updates
        if begins:
            arm = drawn(rng, learner.p)
        seen.append(world.play(arm, begins))
        if t in updates:
            x = sum(seen[t - window + 1 : t + 1]) / divisor
            assert x <= 1 + 1e-12
            learner.feed(arm, min(x, 1))
    return world.regret


def fifth_root_up(slots):
    """The fifth root, rounded up."""
    d = 1
    while d**5 < slots:
        d += 1
    return d


def ars_clw(world, rng, horizon, first_phase, h=fifth_root_up):
    end = first_phase
    while world.t < horizon:
        d = max(1, min(end - 1, h(end)))
        learner = GainExp3(world.arms, wrapper_gamma(d, world.arms, end))
        slots = end - world.t
        updates = set(update_slots("seed", d, rng, slots))
        seen = [0]
        arm = None
        for t in range(1, min(slots, horizon - world.t) + 1):
            begins = t == 1 or t - 1 in updates
            if begins:
                arm = drawn(rng, learner.p)
            seen.append(world.play(arm, begins))
            if t in updates:  # at most 1: the guess of d may be too low
                learner.feed(arm, min(sum(seen[t - d + 1 : t + 1]) / (2 * d), 1))
        end *= 2
    return world.regret


def mini_batch(world, rng, horizon, form, size=None):
    size = size or math.ceil((horizon / (world.arms * math.log(world.arms))) ** (1 / 3))
    learner = naive_learner(form, world.arms, horizon // size)
    for _ in range(horizon // size):
        arm = drawn(rng, learner.p)
        total = sum(world.play(arm, slot == 0) for slot in range(size))
        learner.feed(arm, min(total, size) / size)
    while world.t < horizon:
        world.play(arm, world.t % size == 0)
    return world.regret
