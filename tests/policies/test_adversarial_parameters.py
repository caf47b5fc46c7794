"""Policies for adversarial bandits: their constants, against golden facts, and their parameters."""

import math

import numpy as np
import pytest
from scipy import stats

import aftereffect as ae
import independent_adversarial as independent
from aftereffect.policies import clw
from aftereffect.simulation import Task, interpret_driver, prepare, run_batch
from learners import BASES, driven, each_base, each_variant


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


def test_rounds_that_grow_beyond_all_numbers():
    assert ae.ArsExp3(beta=60).rounds(10**6) == 1
    assert ae.ArsExp3(beta=100).params(3, 10**6).rounds.tolist() == [1]
