"""Policies for adversarial bandits decide as their pseudo-code, line by line."""

import math

import numpy as np
import pytest

import aftereffect as ae
import independent_adversarial as independent
from learners import driven, each_base, each_variant, made_up, scores


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


@pytest.mark.compiled
def test_a_batch_longer_than_the_horizon_is_cut_to_it():
    runs = ae.simulate(
        ae.MiniBatch(size=2_000), ae.StochasticBandit([0.1, 0.9]), 1_000, 50, seed=1
    )[0]
    assert 0 < runs.pulls[:, 1].sum() < 50_000
