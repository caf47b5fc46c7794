"""Learners of policies for adversarial bandits: their weights and draws, against the same in exact numbers."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from aftereffect.policies import _learners
from learners import each_base


def softmax(scores):
    highest = max(scores)
    weights = [(score - highest).exp() for score in scores]
    return [weight / sum(weights) for weight in weights]


def tsallis(losses, eta):
    """p_i = eta^2 / (L_i - lambda)^2 that sum to 1: lambda by bisection."""
    low, high = min(losses) - eta * Decimal(len(losses)).sqrt(), min(losses) - eta
    for _ in range(110):
        middle = (low + high) / 2
        if sum((eta / (loss - middle)) ** 2 for loss in losses) > 1:
            high = middle
        else:
            low = middle
    return [(eta / (loss - low)) ** 2 for loss in losses]


class Exact:
    """A learner in forty digits."""

    def __init__(self, base, arms, rate, scores=None):
        self.base, self.rate = base, Decimal(rate)
        self.scores = (
            [Decimal(score) for score in scores] if scores is not None else [Decimal(0)] * arms
        )

    @property
    def p(self):
        arms = len(self.scores)
        if self.base == "exp3":
            return softmax([-self.rate * score for score in self.scores])
        if self.base == "tsallis":
            return tsallis(self.scores, self.rate)
        return [(1 - self.rate) * share + self.rate / arms for share in softmax(self.scores)]

    def feed(self, p, arm, gain):
        if self.base == "exp3-gain":
            self.scores[arm] += self.rate * Decimal(gain) / (len(self.scores) * p[arm])
        else:
            self.scores[arm] += (1 - Decimal(gain)) / p[arm]


def probabilities(state, mix):
    return [_learners.probability(state, mix, arm) for arm in range(len(state.score))]


def compared(base, rate, means, updates, scores=None, seed=1):
    """Feed a learner and its exact twin alike; the largest relative difference of probabilities, and the last of them.

    The loss form multiplies errors by 1 + eta / p with every loss: a plain softmax in doubles comes
    as far from its twin."""
    arms = len(means)
    learner = _learners.LEARNERS.index(base)
    mix = rate if base in _learners.MIXING else 0.0
    state = _learners.blank_learner(arms)
    if scores is not None:
        started(state, base, rate, scores)
    rng = np.random.default_rng(seed)
    apart = 0.0
    with localcontext() as context:
        context.prec = 40
        twin = Exact(base, arms, rate, scores)
        for _ in range(updates):
            p = twin.p
            ours = probabilities(state, mix)
            assert abs(math.fsum(ours) - 1) <= 1e-12
            apart = max(apart, relative(ours, p))
            arm = _learners.draw(state, mix, rng)
            gain = (
                float(rng.random() < means[arm])
                if rng.random() < 0.5
                else means[arm] * rng.random()
            )
            twin.feed(p, arm, gain)
            _learners.feed(state, learner, rate, arm, gain)
    assert all(np.isfinite(array).all() for array in state)
    return apart, ours


def relative(ours, exact):
    """The largest relative difference; what is below 1e-9 counts as that."""
    return max(
        abs(float((Decimal(a) - b) / max(b, Decimal("1e-9"))))
        for a, b in zip(ours, exact, strict=True)
    )


def started(state, base, rate, scores):
    """A learner that comes with these scores (losses, or logarithms of weights)."""
    state.score[:] = [-rate * score for score in scores] if base == "exp3" else scores
    if base == "tsallis":
        _learners.feed_tsallis(state, rate, 0, 1.0)  # a loss of nothing
    else:
        _learners.refresh(state)


@each_base
@pytest.mark.parametrize(
    ("means", "updates"),
    [((0.9, 0.5, 0.1), 3_000), ((0.5, 0.55, 0.6, 0.5, 0.4, 0.45, 0.5, 0.2), 1_000)],
)
def test_learners_are_what_they_say_over_thousands_of_updates(base, means, updates):
    rate = {"exp3": 0.01, "exp3-gain": 0.1, "tsallis": math.sqrt(updates / 2)}[base]
    apart, last = compared(base, rate, means, updates if base != "tsallis" else updates // 3)
    assert apart <= 1e-9
    assert max(last) > 1.5 / len(means)  # it has learned something


@pytest.mark.parametrize("rate", [1e-4, 0.05, 1])
def test_weights_are_those_of_the_scores(rate):
    """They are kept up to date by differences: errors do not add up, in more updates than there are without computing all."""
    rng = np.random.default_rng(2)
    state = _learners.blank_learner(5)
    for update in range(9_000):
        _learners.reinforce(state, rng.integers(5), rate * rng.normal())
        if update % 50 == 0:
            exact = softmax([Decimal(score) for score in state.score])
            assert relative(probabilities(state, 0.0), exact) <= 1e-12


@each_base
@pytest.mark.parametrize("delay", [1, 30, 2_000])
def test_learners_with_scores_near_ten_million(base, delay):
    rate = {"exp3": 0.02, "exp3-gain": 0.02, "tsallis": math.sqrt(10**7 / 21 / 2)}[base]
    offsets = np.array([0.3, 0.0, 1.0, 0.7]) * delay
    scores = (1e7 + np.round(offsets * 1024) / 1024).tolist()
    apart, _ = compared(base, rate, (0.9, 0.8, 0.5, 0.1), 150, scores)
    assert apart <= 1e-8  # a score near 1e7 is itself known to 2e-9


def test_a_weight_that_falls_or_rises_out_of_sight():
    for amounts in ([-5000.0, -4000.0, 3.0, 0.5, -1e300], [600.0, 650.0, 690.0], [-800.0] * 9):
        state = _learners.blank_learner(3)
        scores = [Decimal(0)] * 3
        for number, amount in enumerate(amounts):
            _learners.reinforce(state, number % 2, amount)
            scores[number % 2] += Decimal(amount)
        expected = [float(share) for share in softmax(scores)]
        assert probabilities(state, 0.0) == pytest.approx(expected, rel=1e-9, abs=1e-15)
        assert all(np.isfinite(array).all() for array in state)


@pytest.mark.parametrize(
    "losses",
    [
        [1e7, 1e7, 1e7],
        [1e7, 1e7 + 1, 1e7 + 1e4, 2e7],
        [0, 1e7],
        [1e7 + 1e-3, 1e7, *[1e7 + 50.0] * 10],
        [0.0] * 12,
    ],
)
@pytest.mark.parametrize("eta", [0.7, 50, 487.95, 2236.07])
def test_tsallis_weights(losses, eta):
    """They sum to one to 1e-12, meet the conditions of a minimum, and agree with a bisection in forty digits."""
    state = _learners.blank_learner(len(losses))
    started(state, "tsallis", eta, losses)
    weights = state.weight
    assert abs(math.fsum(weights) - 1) <= 1e-12
    assert math.fsum(probabilities(state, 0.0)) == pytest.approx(1, abs=1e-15)
    # L_i - eta / sqrt(p_i) is the same for all arms, namely lambda.
    multipliers = [
        Fraction(loss) - Fraction(eta / math.sqrt(weight))
        for loss, weight in zip(losses, weights, strict=True)
    ]
    roots = [eta / math.sqrt(weight) for weight in weights]
    assert all(abs(float(each - multipliers[0])) <= 1e-12 * max(roots) for each in multipliers)
    with localcontext() as context:
        context.prec = 40
        exact = tsallis([Decimal(loss) for loss in losses], Decimal(eta))
    assert weights == pytest.approx([float(each) for each in exact], rel=1e-11)


def test_draws_follow_the_probabilities():
    state = _learners.blank_learner(4)
    for arm, amount in enumerate([0.3, -1.0, 2.0, 0.0]):
        _learners.reinforce(state, arm, amount)
    rng = np.random.default_rng(3)
    for mix in (0.0, 0.2):
        counts = np.bincount([_learners.draw(state, mix, rng) for _ in range(8_000)], minlength=4)
        assert stats.chisquare(counts, 8_000 * np.array(probabilities(state, mix))).pvalue > 1e-5


def test_what_the_last_arm_is_when_rounding_leaves_something():
    """A random number next to 1 draws an arm that can be drawn."""

    class AlmostOne:
        def random(self):
            return 1 - 2**-53

    state = _learners.blank_learner(7)
    assert _learners.draw(state, 0.0, AlmostOne()) == 6
    assert _learners.draw(state, 0.3, AlmostOne()) == 6


def test_an_arm_without_weight_is_never_drawn():
    """Even where the sum of the weights, kept by differences, is a little too large."""
    state = _learners.blank_learner(3)
    _learners.reinforce(state, 2, -1e4)
    _learners.refresh(state)
    assert state.weight[2] == 0
    state.sum[0] *= 1 + 1e-12
    assert _learners.draw(state, 0.0, SimpleNamespace(random=lambda: 1 - 2**-53)) == 1
