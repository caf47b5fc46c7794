"""Policies for adversarial bandits: their constants, their learners, and their pseudo-code line by line."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import aftereffect as ae
import independent_adversarial as independent
from aftereffect.policies import _learners, clw, named_arrays
from aftereffect.simulation import Task, interpret_driver, prepare, run_batch

VARIANTS, BASES = ("colt", "jmlr", "seed"), ("exp3", "exp3-gain", "tsallis")
each_variant = pytest.mark.parametrize("variant", VARIANTS)
each_base = pytest.mark.parametrize("base", BASES)


# Golden facts


@pytest.mark.parametrize(
    ("beta", "slots", "rounds"),
    [
        (0.5, 100_000, 2796),
        (0.5, 1, 1),
        (0.5, 2, 1),
        (0.5, 3, 2),
        (0.5, 5, 3),
        (1, 55, 10),
        (1, 54, 9),
    ],
)
def test_rounds_of_ars_exp3(beta, slots, rounds):
    assert ae.ArsExp3(beta).rounds(slots) == rounds


@pytest.mark.parametrize(
    ("beta", "g"),
    [
        (0.5, independent.root_up),
        (1, lambda k: k),
        (1.5, lambda k: independent.root_up(k**3)),
        (2, lambda k: k * k),
        (0.25, lambda k: independent.root_up(independent.root_up(k))),
    ],
)
def test_rounds_are_as_many_as_fit(beta, g):
    policy = ae.ArsExp3(beta)
    played = rounds = 0
    for slots in range(1, 1_500):
        if played + g(rounds + 1) <= slots:
            rounds += 1
            played += g(rounds)
        assert policy.rounds(slots) == rounds


@pytest.mark.parametrize("arms", [2, 3, 12])
@pytest.mark.parametrize("horizon", [12, 1_000, 10**7])
def test_gamma_and_eta_of_exp3(arms, horizon):
    params = ae.Exp3().params(arms, horizon)
    gamma = min(1, math.sqrt(arms * math.log(arms) / ((math.e - 1) * horizon)))
    assert (params.rate, params.mix) == pytest.approx((gamma, gamma), rel=1e-14)
    params = ae.Exp3("loss").params(arms, horizon)
    eta = math.sqrt(2 * math.log(arms) / (arms * horizon))
    assert (params.rate, params.mix) == pytest.approx((eta, 0), rel=1e-14)


@pytest.mark.parametrize("arms", [2, 3, 12])
def test_gamma_of_ars_exp3(arms):
    params = ae.ArsExp3().params(arms, 100_000)
    gamma = min(1, math.sqrt(arms * math.log(arms) / ((math.e - 1) * 2796)))
    assert (*params.end, *params.rounds, *params.longest) == (100_000, 2796, 53)
    assert params.gamma == pytest.approx([gamma], rel=1e-14)
    assert ae.ArsExp3().params(12, 12).gamma.tolist() == [1]


@pytest.mark.parametrize(
    ("horizon", "ends"),
    [(1_000, [1024]), (1_024, [1024]), (1_025, [1024, 3072]), (9_999, [1024, 3072, 7168, 15360])],
)
def test_epochs_of_ars_exp3(horizon, ends):
    params = ae.ArsExp3(doubling=True).params(3, horizon)
    assert params.end.tolist() == ends
    table = zip(params.rounds, params.longest, params.gamma, strict=True)
    for number, (rounds, longest, gamma) in enumerate(table):
        k = ae.ArsExp3().rounds(1024 * 2**number)
        assert (rounds, longest) == (k, independent.root_up(k))
        assert gamma == pytest.approx(math.sqrt(3 * math.log(3) / ((math.e - 1) * k)), rel=1e-14)


@each_variant
@each_base
@pytest.mark.parametrize(
    ("d", "arms", "horizon"), [(1, 2, 100), (10, 3, 10**5), (20, 12, 10**7), (10, 12, 50)]
)
def test_rates_of_clw(variant, base, d, arms, horizon):
    log = math.log(arms)
    expected = {
        ("colt", "exp3"): 4 * math.sqrt(d * log / ((4 * arms + 1) * horizon)),
        ("jmlr", "exp3"): math.sqrt((d + 1) * log / (arms * horizon)),
        ("colt", "tsallis"): math.sqrt(horizon // (2 * d) / 2),
        ("jmlr", "tsallis"): math.sqrt(horizon // (2 * d + 1) / 2),
    }
    gamma = min(1, math.sqrt(2 * d * arms * log / (horizon + d)))
    params = ae.Clw(d, variant, base).params(arms, horizon)
    rate = gamma if base == "exp3-gain" else expected["jmlr" if variant == "jmlr" else "colt", base]
    assert params.rate == pytest.approx(rate, rel=1e-14)
    assert params.mix == (params.rate if base == "exp3-gain" else 0)
    window, divisor = (d + 1, 2 * d + 1) if variant == "jmlr" else (d, 2 * d)
    assert (params.d, params.window, params.divisor) == (d, window, divisor)


def test_clw_without_delay():
    """d = 0 is the undelayed bandit of the journal paper: every slot is a block, and no rate is zero."""
    for base in BASES:
        policy = ae.Clw(0, "jmlr", base)
        params = policy.params(3, 1_000)
        assert (params.d, params.window, params.divisor) == (0, 1, 1)
        assert params.rate > 0
        decisions, _ = driven(policy, 3, 300, 1)
        assert {(slots, window) for _, slots, window in decisions} == {(1, 1)}


def test_phases_of_ars_clw():
    params = ae.ArsClw().params(4, 10_000)
    phases = list(zip(params.end, params.d, strict=True))
    assert phases == [(1024, 4), (2048, 5), (4096, 6), (8192, 7), (16384, 7)]
    gammas = [math.sqrt(2 * d * 4 * math.log(4) / (end + d)) for end, d in phases]
    assert params.gamma == pytest.approx(gammas, rel=1e-14)
    assert [
        ae.ArsClw(ae.growth.Power(0.5)).guess(slots) for slots in (2, 3, 4, 5, 100, 101, 10**6)
    ] == [
        1,
        2,
        2,
        3,
        10,
        11,
        1000,
    ]
    assert [ae.ArsClw(ae.growth.Power(3)).guess(slots) for slots in (2, 3, 10)] == [
        1,
        2,
        9,
    ]  # less than the phase
    assert ae.ArsClw(ae.growth.Power(1), first_phase=8).params(12, 8).gamma.tolist() == [1]
    assert ae.ArsClw(first_phase=100).params(4, 100).end.tolist() == [100]
    assert ae.ArsClw(first_phase=100).params(4, 101).end.tolist() == [100, 200]


@pytest.mark.parametrize(
    ("horizon", "arms", "size"), [(1_000, 3, 7), (10**6, 2, 90), (10**6, 12, 33), (3, 3, 1)]
)
def test_default_size_of_mini_batches(horizon, arms, size):
    assert math.ceil((horizon / (arms * math.log(arms))) ** (1 / 3)) == size
    params = ae.MiniBatch().params(arms, horizon)
    assert (params.size, params.batches) == (size, horizon // size)
    gamma = independent.gain_gamma(arms, horizon // size)
    assert (params.base.rate, params.base.mix) == pytest.approx((gamma, gamma), rel=1e-14)


COUNTS = {
    ("colt", 10): (17544, 87),
    ("colt", 20): (8547, 61),
    ("jmlr", 10): (17947, 69),
    ("jmlr", 20): (9084, 49),
    ("seed", 10): (18868, 71),
    ("seed", 20): (9314, 50),
}


@pytest.mark.slow
@each_variant
@pytest.mark.parametrize("d", [10, 20])
def test_updates_in_a_million_slots(variant, d):
    """Played by the driver: rounds are blocks, and all but the last, which the horizon cuts, end with an update."""
    policy = ae.Clw(d, variant, "exp3")
    task = Task(policy, ae.StochasticBandit([0.5, 0.5]), "roundwise", 10**6, (10**6,), 5, range(8))
    updates = run_batch(task, prepare(task, interpret_driver)).runs.rounds - 1
    mean, deviation = COUNTS[variant, d]
    assert (np.abs(updates - mean) <= 4 * deviation).all()
    assert abs(updates.mean() - mean) <= 4 * deviation / math.sqrt(8)
    assert 0.3 * deviation < updates.std(ddof=1) < 2 * deviation


MEAN_BLOCK = {
    "colt": lambda d: 2 * d + (1 - 1 / (2 * (2 * d - 1))) * 2 * (2 * d - 1),
    "jmlr": lambda d: (2 * d + 1) * (1 - 1 / (2 * d + 1)) ** (-2 * d),
    "seed": lambda d: 2 * d * (1 - 1 / (2 * d)) ** (1 - 2 * d),
}


@pytest.mark.parametrize(
    ("variant", "d"),
    [
        ("colt", 1),
        ("colt", 3),
        ("colt", 10),
        ("jmlr", 1),
        ("jmlr", 6),
        ("seed", 1),
        ("seed", 2),
        ("seed", 10),
    ],
)
def test_blocks_are_those_of_coins_tossed_slot_by_slot(variant, d):
    rng = np.random.default_rng(d)
    number, least = clw.VARIANTS[variant].number, 2 * d + (variant == "jmlr")
    ours = np.array([clw.draw_length(number, d, rng) for _ in range(4_000)])
    mean = MEAN_BLOCK[variant](d)
    slots = int(4_000 * mean)
    updates = independent.update_slots(variant, d, rng, slots)
    theirs = np.diff(updates)
    assert ours.min() == theirs.min() == least
    assert stats.ks_2samp(ours, theirs, method="asymp").pvalue > 1e-5
    assert abs(ours.mean() - mean) <= 4 * ours.std() / math.sqrt(len(ours))
    assert abs(theirs.mean() - mean) <= 4 * theirs.std() / math.sqrt(len(theirs))
    firsts = [independent.update_slots(variant, d, rng, int(30 * mean))[0] for _ in range(400)]
    assert stats.ks_2samp(ours, firsts, method="asymp").pvalue > 1e-5
    assert abs(np.corrcoef(ours[1:], ours[:-1])[0, 1]) <= 4 / math.sqrt(len(ours))


def test_smallest_gaps():
    for d in (10, 20):
        for variant, least in (("colt", 2 * d), ("seed", 2 * d), ("jmlr", 2 * d + 1)):
            rng = np.random.default_rng(d)
            number = clw.VARIANTS[variant].number
            lengths = [clw.draw_length(number, d, rng) for _ in range(3_000)]
            assert min(lengths) == least


# Learners


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


# The pseudo-code, line by line


def made_up(slots, arms, seed):
    """What would be seen in each slot of each arm: delays pile rewards up, so that a slot may show more than 1."""
    rng = np.random.default_rng(1_000 + seed)
    return rng.random((slots, arms)) * np.linspace(0.4, 1.9, arms)


def driven(policy, arms, horizon, seed):
    """A policy's decisions, cut by the horizon as a driver does it, and its random numbers for another to draw."""
    decide, absorb = policy.kernels()
    state, params = policy.initial(arms), policy.params(arms, horizon)
    seen = made_up(horizon, arms, seed)
    rng = np.random.default_rng(seed)
    decisions, t = [], 0
    while t < horizon:
        arm, plan_study, window = decide(state, params, t, rng)
        slots = min(plan_study, horizon - t)
        if slots == plan_study:
            absorb(
                state, params, arm, window, float(seen[t + slots - window : t + slots, arm].sum())
            )
        else:
            window = 0
        decisions.append((arm, slots, window))
        t += slots
    return decisions, rng.random()


class Play:
    """Notes decisions of a second writing, and shows it what is seen."""

    def __init__(self, arms, horizon, seed):
        self.arms, self.horizon = arms, horizon
        self.seen = made_up(horizon, arms, seed)
        self.rng = np.random.default_rng(seed)
        self.t = 0
        self.decisions = []

    def round(self, arm, slots, window):
        """Play, and look at the last slots; None if the horizon cuts the round short."""
        end = min(self.t + slots, self.horizon)
        cut = self.t + slots - end
        window = 0 if cut else window
        self.decisions.append((arm, end - self.t, window))
        self.t = end
        return None if cut else float(self.seen[end - window : end, arm].sum())


def algorithm_ars_exp3(play, g, doubling):
    epoch = 1024 if doubling else play.horizon
    while play.t < play.horizon:
        end, rounds, slots = play.t + epoch, 0, 0
        while slots + g(rounds + 1) <= epoch:
            rounds += 1
            slots += g(rounds)
        gamma = independent.gain_gamma(play.arms, rounds)
        w = [0.0] * play.arms
        for k in range(1, rounds + 2):
            p = [
                (1 - gamma) * share + gamma / play.arms
                for share in independent.softmax([each / g(rounds) for each in w])
            ]
            if play.t == min(end, play.horizon):
                break
            arm = independent.drawn(play.rng, p)
            if k > rounds:
                play.round(arm, end - play.t, 0)
            elif (z := play.round(arm, g(k), g(k))) is not None:
                w[arm] += gamma * min(z, g(k)) / (play.arms * p[arm])
        epoch *= 2


@pytest.mark.parametrize(
    ("beta", "g", "doubling", "horizon"),
    [
        (0.5, independent.root_up, False, 20_000),
        (0.5, independent.root_up, False, 3),
        (0.5, independent.root_up, False, 9),
        (0.5, independent.root_up, True, 20_000),
        (0.5, independent.root_up, True, 1024 + 2048),
        (1, lambda k: k, False, 5_050),
        (1, lambda k: k, False, 5_077),
        (1.5, lambda k: independent.root_up(k**3), True, 9_000),
        (2, lambda k: k * k, False, 60_000),
    ],
)
@pytest.mark.parametrize("arms", [2, 5])
def test_ars_exp3_decides_as_its_pseudo_code(beta, g, doubling, horizon, arms):
    play = Play(arms, horizon, seed=3)
    algorithm_ars_exp3(play, g, doubling)
    decisions, after = driven(ae.ArsExp3(beta, doubling), arms, horizon, seed=3)
    assert decisions == play.decisions
    assert after == play.rng.random()  # not a number more was drawn


def tossed(rng, chance):
    """Failures before the first success, from one random number."""
    return 0 if chance == 1 else math.floor(math.log1p(-rng.random()) / math.log1p(-chance))


def block(rng, variant, d):
    """The slots up to and including the next update."""
    if variant == "colt":
        return 2 * d + tossed(rng, 1 / (2 * (2 * d - 1)))
    chance, least = (1 / (2 * d + 1), 2 * d + 1) if variant == "jmlr" else (1 / (2 * d), 2 * d)
    slots = gap = 0
    while gap < least:
        gap = 1 + tossed(rng, chance)
        slots += gap
    return slots


def algorithm_clw(play, variant, base, d):
    window, divisor = (d + 1, 2 * d + 1) if variant == "jmlr" else (d, 2 * d)
    learner = independent.wrapped(variant, base, d, play.arms, play.horizon)
    while play.t < play.horizon:
        arm = independent.drawn(play.rng, learner.p)
        total = play.round(arm, block(play.rng, variant, d), window)
        if total is not None:
            learner.feed(arm, min(total / divisor, 1))


@each_variant
@each_base
@pytest.mark.parametrize(("d", "arms"), [(1, 2), (3, 5), (10, 3)])
def test_clw_decides_as_its_pseudo_code(variant, base, d, arms):
    play = Play(arms, 9_000, seed=d)
    algorithm_clw(play, variant, base, d)
    decisions, after = driven(ae.Clw(d, variant, base), arms, 9_000, seed=d)
    assert decisions == play.decisions
    assert after == play.rng.random()
    assert len(decisions) > 90


def algorithm_ars_clw(play, first_phase, h):
    end = first_phase
    while play.t < play.horizon:
        d = max(1, min(end - 1, h(end)))
        learner = independent.GainExp3(play.arms, independent.wrapper_gamma(d, play.arms, end))
        while play.t < min(end, play.horizon):
            arm = independent.drawn(play.rng, learner.p)
            slots = block(play.rng, "seed", d)
            if play.t + slots > end:
                play.round(arm, end - play.t, 0)  # and learn nothing
            elif (total := play.round(arm, slots, d)) is not None:
                learner.feed(arm, min(total / (2 * d), 1))
        end *= 2


@pytest.mark.parametrize(
    ("policy", "first_phase", "h"),
    [
        (ae.ArsClw(), 1024, independent.fifth_root_up),
        (ae.ArsClw(first_phase=50), 50, independent.fifth_root_up),
        (ae.ArsClw(ae.growth.Power(0.5), first_phase=2), 2, independent.root_up),
        (ae.ArsClw(lambda slots: 4, first_phase=77), 77, lambda slots: 4),
        (ae.ArsClw(lambda slots: 10**6, first_phase=16), 16, lambda slots: 10**6),
    ],
    ids=["default", "first_phase=50", "power(0.5)", "callable", "too large"],
)
@pytest.mark.parametrize("arms", [2, 5])
def test_ars_clw_decides_as_its_pseudo_code(policy, first_phase, h, arms):
    play = Play(arms, 12_345, seed=4)
    algorithm_ars_clw(play, first_phase, h)
    decisions, after = driven(policy, arms, 12_345, seed=4)
    assert decisions == play.decisions
    assert after == play.rng.random()
    ends = np.cumsum([slots for _, slots, _ in decisions]).tolist()
    assert {first_phase * 2**k for k in range(20) if first_phase * 2**k < 12_345} <= set(
        ends
    )  # no block crosses a phase


@pytest.mark.parametrize("form", ["gain", "loss"])
def test_exp3_decides_as_its_pseudo_code(form):
    play = Play(4, 3_000, seed=5)
    learner = independent.naive_learner(form, 4, 3_000)
    while play.t < 3_000:
        arm = independent.drawn(play.rng, learner.p)
        learner.feed(arm, min(play.round(arm, 1, 1), 1))
    decisions, after = driven(ae.Exp3(form), 4, 3_000, seed=5)
    assert decisions == play.decisions
    assert after == play.rng.random()


@pytest.mark.parametrize("form", ["gain", "loss"])
@pytest.mark.parametrize(
    ("horizon", "size"),
    [(5_003, None), (5_003, 10), (5_000, 10), (999, 1), (1_000, 999), (1_000, 1_000)],
)
def test_mini_batches_decide_as_their_pseudo_code(form, horizon, size):
    play = Play(3, horizon, seed=6)
    slots = size or math.ceil((horizon / (3 * math.log(3))) ** (1 / 3))
    learner = independent.naive_learner(form, 3, horizon // slots)
    for _ in range(horizon // slots):
        arm = independent.drawn(play.rng, learner.p)
        learner.feed(arm, min(play.round(arm, slots, slots), slots) / slots)
    if play.t < horizon:
        play.round(arm, horizon - play.t, 0)  # the last arm, and nothing is learned
    decisions, after = driven(ae.MiniBatch(ae.Exp3(form), size), 3, horizon, seed=6)
    assert decisions == play.decisions
    assert after == play.rng.random()


@pytest.mark.parametrize("horizon", [900, 902, 1_000])
def test_mini_batches_of_a_policy_that_plays_rounds(horizon):
    """ARS-UCB over batches of three slots: a round of k batches shows their sum over three; the last is cut."""
    play = Play(3, horizon, seed=7)
    n, m, k, t, batches = [0] * 3, [0.0] * 3, [1] * 3, 0, horizon // 3
    while t < batches:
        if t < 3:
            arm = t
        else:
            u = [min(m[i] / n[i] + math.sqrt(0.5 * math.log(t) / n[i]), 1) for i in range(3)]
            arm = min(range(3), key=lambda i: (-u[i], n[i], i))
        length = min(k[arm], batches - t)
        looked = 3 * length if length == k[arm] else 0
        m[arm] += min(play.round(arm, 3 * length, looked), 3 * length) / 3
        n[arm] += length
        k[arm] += 1
        t += length
    if play.t < horizon:
        play.round(arm, horizon - play.t, 0)
    decisions, _ = driven(
        ae.MiniBatch(ae.ArsUcb(0.5, ae.growth.Power(1)), size=3), 3, horizon, seed=7
    )
    assert decisions == play.decisions


def test_mini_batches_show_at_most_one_a_slot():
    """UCB1, whose averages have no bound of their own, over batches of two slots that often show more than 2."""
    play = Play(3, 1_000, seed=8)
    n, m = [0] * 3, [0.0] * 3
    capped = 0
    for t in range(500):
        u = [m[i] / n[i] + math.sqrt(2 * math.log(t) / n[i]) for i in range(3)] if t >= 3 else []
        arm = u.index(max(u)) if u else t
        total = play.round(arm, 2, 2)
        capped += total > 2
        m[arm] += min(total, 2) / 2
        n[arm] += 1
    decisions, _ = driven(ae.MiniBatch("ucb1", size=2), 3, 1_000, seed=8)
    assert decisions == play.decisions
    assert capped > 50


def scores(state):
    """The scores and weights of the learner within a state, as a copy."""
    found = {name.rpartition(".")[2]: array for name, array in named_arrays(state)}
    return np.array([found["score"], found["weight"]])


@pytest.mark.parametrize(
    "policy",
    [
        ae.Exp3("loss"),
        ae.Clw(3, "colt", "exp3"),
        ae.Clw(0),
        ae.ArsClw(ae.growth.Power(0.5)),
        ae.ArsExp3(),
        ae.MiniBatch(ae.Exp3(), 7),
        ae.MiniBatch(ae.Clw(3), 2),
    ],
    ids=str,
)
def test_missing_and_further_slots_change_no_average(policy):
    """A learner looks at rates: half of the slots with half of the total teach as much as all, and so do twice as many."""
    decide, absorb = policy.kernels()
    params = policy.params(3, 1_000)
    learned = []
    for times in (1, 2, 0.5, 0.25):
        state, t = policy.initial(3), 0
        rng = np.random.default_rng(1)
        for _ in range(40):
            arm, slots, window = decide(state, params, t, rng)
            absorb(state, params, arm, times * window, times * window * [0.3, 0.8, 0.1][arm])
            t += slots
        learned.append(scores(state))
    assert not np.array_equal(learned[0], scores(policy.initial(3)))
    for other in learned[1:]:
        assert other == pytest.approx(learned[0], rel=1e-9)


@pytest.mark.parametrize(
    "policy", [ae.ArsClw(first_phase=12), ae.MiniBatch(ae.Clw(3), 20)], ids=str
)
def test_a_block_that_a_phase_or_the_last_batch_cuts_is_not_learned_from(policy):
    decide, absorb = policy.kernels()
    params = policy.params(3, 500)
    state = policy.initial(3)
    rng, t, cut = np.random.default_rng(3), 0, 0
    while t < 500:
        arm, slots, window = decide(state, params, t, rng)
        before = scores(state)
        absorb(state, params, arm, window, 0.5 * window)
        assert np.array_equal(scores(state), before) == (window == 0)
        cut += window == 0
        t += slots
    assert cut > 0


def test_what_the_last_arm_is_when_rounding_leaves_something():
    """A random number next to 1 draws an arm that can be drawn."""

    class AlmostOne:
        def random(self):
            return 1 - 2**-53

    state = _learners.blank_learner(7)
    assert _learners.draw(state, 0.0, AlmostOne()) == 6
    assert _learners.draw(state, 0.3, AlmostOne()) == 6


# Parameters


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ae.Exp3("gian"), "unknown form 'gian': did you mean 'gain'?"),
        (lambda: ae.Exp3("both"), "unknown form 'both': known: gain, loss"),
        (lambda: ae.Exp3(None), "unknown form None: known: gain, loss"),
        (lambda: ae.parse("exp3(form=los)"), "exp3: unknown form 'los': did you mean 'loss'?"),
        (lambda: ae.ArsExp3(0), "beta must be a number above 0 and of at most 100, got 0"),
        (lambda: ae.ArsExp3(-0.5), "beta must be a number above 0 and of at most 100, got -0.5"),
        (lambda: ae.ArsExp3(math.nan), "beta must be a number above 0 and of at most 100, got nan"),
        (lambda: ae.ArsExp3(101), "beta must be a number above 0 and of at most 100, got 101"),
        (lambda: ae.ArsExp3("1/2"), "beta must be a number above 0 and of at most 100, got '1/2'"),
        (lambda: ae.Clw(0, "colt"), "d must be a whole number from 1 to 10,000,000, got 0"),
        (lambda: ae.Clw(0, "seed"), "d must be a whole number from 1 to 10,000,000, got 0"),
        (lambda: ae.Clw(-1), "d must be a whole number from 0 to 10,000,000, got -1"),
        (lambda: ae.Clw(2.5), "d must be a whole number from 0 to 10,000,000, got 2.5"),
        (lambda: ae.Clw(math.inf), "d must be a whole number from 0 to 10,000,000, got inf"),
        (lambda: ae.Clw("10"), "d must be a whole number from 0 to 10,000,000, got '10'"),
        (lambda: ae.Clw(10**8), "d must be a whole number from 0 to 10,000,000, got 100000000"),
        (lambda: ae.Clw(3, "cold"), "unknown variant 'cold': did you mean 'colt'?"),
        (lambda: ae.Clw(3, "icml"), "unknown variant 'icml': known: colt, jmlr, seed"),
        (lambda: ae.Clw(3, "colt", "tsalis"), "unknown base 'tsalis': did you mean 'tsallis'?"),
        (lambda: ae.Clw(3, "colt", "exp3-gains"), "unknown base 'exp3-gains': did you mean 'exp3-gain'?"),
        (lambda: ae.Clw(3, "colt", "ucb"), "unknown base 'ucb': known: exp3, exp3-gain, tsallis"),
        (lambda: ae.parse("clw(0, variant=colt)"), "clw: d must be a whole number from 1 to 10,000,000, got 0"),
        (lambda: ae.parse("clw(3, base=exp)"), "clw: unknown base 'exp': did you mean 'exp3'?"),
        (lambda: ae.Clw().params(3, 100), "clw needs d, the largest lag: pass d=..."),
        (lambda: ae.simulate("clw", ae.AdversarialBandit([0, 1, 1], ae.PowerLaw(2)), 3, 1),
         "clw needs d, the largest lag, which is infinite or unknown here: pass d=..."),
        (lambda: ae.simulate("clw", ae.StochasticBandit([0.9, 0.1], ae.Geometric(0.5)), 10, 1),
         "clw needs d, the largest lag, which is infinite or unknown here: pass d=..."),
        (lambda: ae.simulate("mini-batch(clw)", ae.AdversarialBandit([0, 1, 1], ae.Geometric(0.5)), 3, 1),
         "clw needs d, the largest lag, which is infinite or unknown here: pass d=..."),
        (lambda: ae.ArsClw(first_phase=1), "first_phase must be a whole number from 2 to 1,099,511,627,776, got 1"),
        (lambda: ae.ArsClw(first_phase=2.5), "first_phase must be a whole number from 2 to 1,099,511,627,776, got 2.5"),
        (lambda: ae.ArsClw(lambda slots: 0), "growth(1) must be a whole number of at least 1, got 0"),
        (lambda: ae.ArsClw(lambda slots: 50 - slots), "growth must not decrease, but growth(2) = 48 after 49"),
        (lambda: ae.ArsClw(lambda slots: slots / 3), "growth(1) must be a whole number of at least 1, got 0.333333"),
        (lambda: ae.MiniBatch(size=0), "size must be a whole number from 1 to 9,007,199,254,740,992, got 0"),
        (lambda: ae.MiniBatch(size=2.5), "size must be a whole number from 1 to 9,007,199,254,740,992, got 2.5"),
        (lambda: ae.MiniBatch("exp3(form=los)"), "exp3: unknown form 'los': did you mean 'loss'?"),
    ],
)  # fmt: skip
def test_bad_parameters(make, message):
    with pytest.raises(ae.ParameterError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ae.MiniBatch("exp4"), "unknown policy 'exp4': did you mean 'exp3'?"),
        (lambda: ae.MiniBatch("immediate"), "expected a policy, got the delay 'immediate'"),
        (lambda: ae.MiniBatch(3), "expected a policy, got 3"),
        (lambda: ae.ArsClw(3), "expected a growth, got 3"),
        (lambda: ae.ArsClw("immediate"), "expected a growth, got the delay 'immediate'"),
        (
            lambda: ae.parse("ars-exp3(betta=1)"),
            "ars-exp3 has no parameter 'betta': did you mean 'beta'?",
        ),
    ],
)
def test_other_things_in_place_of_parameters(make, message):
    with pytest.raises(ae.SpecError) as caught:
        make()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (ae.Exp3(), "exp3(form=gain)"),
        (ae.ArsExp3(), "ars-exp3(beta=0.5, doubling=false)"),
        (ae.Clw(), "clw(variant=jmlr, base=tsallis)"),
        (ae.Clw(10, "colt", "exp3"), "clw(d=10, variant=colt, base=exp3)"),
        (ae.Clw(4, "seed", "exp3-gain"), "clw(d=4, variant=seed, base=exp3-gain)"),
        (ae.ArsClw(), "ars-clw(h=power(0.2), first_phase=1024)"),
        (ae.MiniBatch(), "mini-batch(base=exp3(form=gain))"),
        (
            ae.MiniBatch(ae.Clw(2), 20),
            "mini-batch(base=clw(d=2, variant=jmlr, base=tsallis), size=20)",
        ),
    ],
)
def test_spec_strings(policy, text):
    assert str(policy) == text
    assert ae.parse(text) == policy


@pytest.mark.parametrize(
    "text", ["ars-exp3(doubling=no)", "ars-exp3(doubling=0.3)", "hold-back(3, reset_on_round=off)"]
)
def test_flags_that_are_no_flags_are_refused(text):
    with pytest.raises(ae.ParameterError, match="must be true or false, got"):
        ae.parse(text)


def test_an_arm_without_weight_is_never_drawn():
    """Even where the sum of the weights, kept by differences, is a little too large."""
    state = _learners.blank_learner(3)
    _learners.reinforce(state, 2, -1e4)
    _learners.refresh(state)
    assert state.weight[2] == 0
    state.sum[0] *= 1 + 1e-12
    assert _learners.draw(state, 0.0, SimpleNamespace(random=lambda: 1 - 2**-53)) == 1


@pytest.mark.compiled
def test_a_batch_longer_than_the_horizon_is_cut_to_it():
    runs = ae.simulate(
        ae.MiniBatch(size=2_000), ae.StochasticBandit([0.1, 0.9]), 1_000, 50, seed=1
    )[0]
    assert 0 < runs.pulls[:, 1].sum() < 50_000


def test_rounds_that_grow_beyond_all_numbers():
    assert ae.ArsExp3(beta=60).rounds(10**6) == 1
    assert ae.ArsExp3(beta=100).params(3, 10**6).rounds.tolist() == [1]
