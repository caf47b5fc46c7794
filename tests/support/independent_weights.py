"""Adversarial oracles written apart from the package and as literally as possible.

They keep whole histories, compute every law anew from sums over them, and solve equations by bisection."""

import math


def draw(law, number):
    """The arm in whose part of [0, 1) a number falls."""
    for arm, chance in enumerate(law):
        if number < chance:
            return arm
        number -= chance
    return len(law) - 1


def bisect(function, low, high):
    """Where a falling function passes 0."""
    for _ in range(60):
        middle = (low + high) / 2
        if function(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


class Oracle:
    """Plays slot 1, 2, ...; `pulls` holds slot, arm, probability, lag and loss, None while pending."""

    def __init__(self, arms, horizon, mean, longest):
        self.arms, self.horizon, self.mean, self.longest = arms, horizon, mean, longest
        self.pulls = []
        self.missing = []

    def choose(self, number):
        """Pull an arm, drawn with this number."""
        t = len(self.pulls) + 1
        self.missing.append([pull for pull in self.pulls if pull["loss"] is None])
        law = self.find_law(t)
        arm = draw(law, number)
        self.pulls.append({"slot": t, "arm": arm, "chance": law[arm], "lag": None, "loss": None})
        return arm

    def hear(self, slot, t, loss):
        """The whole loss of the pull of a slot, which arrived in slot t."""
        self.pulls[slot - 1] |= {"loss": loss, "lag": t - slot}

    def estimate(self, counts=lambda pull: True):
        """The estimated losses of all arms, of known pulls that count."""
        losses = [0.0] * self.arms
        for pull in self.pulls:
            if pull["loss"] is not None and counts(pull):
                losses[pull["arm"]] += pull["loss"] / pull["chance"]
        return losses

    @property
    def waited(self):
        """The pending pulls, summed over slots."""
        return sum(len(missing) for missing in self.missing)


def soften(losses, eta):
    """Exponential weights."""
    weights = [math.exp(-eta * (loss - min(losses))) for loss in losses]
    return [weight / sum(weights) for weight in weights]


class Dew(Oracle):
    """Thune et al."""

    def find_law(self, t):
        k, n = self.arms, self.horizon
        eta = math.sqrt(math.log(k) / (k * n * math.e / 2 + self.mean * n))
        return soften(self.estimate(), min(eta, 1 / (4 * math.e * self.longest)))


class Skipper(Oracle):
    """Thune et al."""

    def find_law(self, t):
        k, n = self.arms, self.horizon
        whole = math.e * k * n / 2 + self.mean * n
        beta = math.sqrt(whole) / (4 * math.e * math.sqrt(math.log(k)))
        losses = self.estimate(lambda pull: pull["lag"] < beta)
        return soften(losses, 1 / (4 * math.e * beta))


class Dexp3(Oracle):
    """Bistritz et al., with epochs."""

    h = w = begin = 0
    scores = None

    def find_law(self, t):
        before = self.h, self.w
        while t >= 2**self.h:
            self.h += 1
        while self.waited >= 2**self.w:
            self.w += 1
        if (self.h, self.w) != before:
            self.begin = t
        k = self.arms
        eta = math.exp(-2) / 2 * math.sqrt(math.log(k) / (k * 2**self.h + 2**self.w))
        most = 1 / (math.e**2 * eta) - 1
        return soften(
            self.estimate(lambda pull: pull["slot"] >= self.begin and pull["lag"] <= most), eta
        )


def lead(losses, a, b):
    """The law with the least regularised loss, by two bisections."""

    def share(loss, shift):
        # The derivative of x loss - 2 a sqrt(x) + b x ln x, set to the shift.
        return bisect(lambda x: shift - (loss - a / math.sqrt(x) + b * (math.log(x) + 1)), 1e-15, 1)

    low, high = min(losses) - a * math.sqrt(len(losses)) - b * 99 - 99, min(losses) + b
    shift = bisect(lambda s: 1 - sum(share(loss, s) for loss in losses), low, high)
    law = [share(loss, shift) for loss in losses]
    return [x / sum(law) for x in law]


class Simple(Oracle):
    """Zimmert and Seldin."""

    def find_law(self, t):
        return lead(self.estimate(), math.sqrt(t), math.sqrt(2 * self.waited / math.log(self.arms)))


class Advanced(Oracle):
    """Zimmert and Seldin: a pull that has been pending for too long does not count from then on."""

    def __init__(self, *given):
        super().__init__(*given)
        self.skipped, self.counted = set(), 0

    def find_law(self, t):
        pending = [pull["slot"] for pull in self.missing[-1] if pull["slot"] not in self.skipped]
        self.counted += len(pending)
        b = math.sqrt(self.counted / math.log(self.arms))
        late = [slot for slot in pending if t - slot > b]
        self.skipped.update(late[:1])
        return lead(self.estimate(), math.sqrt(t), b)


class Both(Oracle):
    """Masoudian et al."""

    def find_law(self, t):
        k, d = self.arms, self.longest
        early = 10 * d + d**2 / (k ** (1 / 3) * math.log(k)) ** 2
        least = 24**2 * d**2 * k ** (2 / 3) * math.log(k)
        b = math.sqrt((self.waited + least) / math.log(k))
        return lead(self.estimate(), math.sqrt(t + early), b)


class LiDexp3(Oracle):
    """Li, Chen and Giannakis: every loss that was heard of changes the law in turn."""

    def __init__(self, *given):
        super().__init__(*given)
        self.heard, self.laws = {}, {}

    def hear(self, slot, t, loss):
        super().hear(slot, t, loss)
        self.heard.setdefault(t, []).append((self.pulls[slot - 1]["arm"], loss))

    def find_law(self, t):
        k, total = self.arms, self.horizon + self.mean * self.horizon
        eta = math.sqrt((1 + math.log(k)) / (k * total))
        delta_1, delta_2 = 1 / (2 * eta * self.longest) - 1 / total / eta, 1 / total
        p = self.laws.get(t - 1, [1 / k] * k)
        for arm, loss in self.heard.get(t - 1, []):
            estimate = loss / self.laws[t - 1][arm]
            w = [p[i] * math.exp(-eta * min(delta_1, estimate * (i == arm))) for i in range(k)]
            w = [max(each / sum(w), delta_2 / k) for each in w]
            p = [each / sum(w) for each in w]
        self.laws[t] = p
        return p
