"""Extreme parameters: a policy is played at once or refused by name; laws end; spreads cost nothing before they are played."""

import math
import resource
import tracemalloc
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import aftereffect as ae
import samples
from aftereffect._core.checks import check_float, check_int
from aftereffect.bandits.base import MAX_TABLE_BYTES
from aftereffect.growth import power_slots, rounds_within
from aftereffect.rewards.laws import beta_one
from aftereffect.theory import ars_clw_bound, d2, first_right_guess, theorem_1, theorem_2
from fuzz_cases import made
from fuzz_specs import TEST_LIMIT as LIMIT
from fuzz_specs import run

POLICIES = (
    *(f"ars-exp3(beta={beta})" for beta in ("1e-300", "1e-9", "1e-4", "0.001", "0.005", "0.01", "0.015", "0.018", "0.02")),
    *(f"ars-exp3(beta={beta})" for beta in ("0.1", "0.5", "0.99", "1", "1.01", "2", "50", "100")),
    *(f"ars-exp3(beta={beta}, doubling=true)" for beta in ("1e-300", "0.01", "1", "100")),
    *(f"odaaf(mean_lag={delay})" for delay in ("0", "1e-300", "1e6", "9e15")),
    "odaaf(variant=bounded, mean_lag=9e15, reach=9e15)",
    "odaaf(variant=bounded, mean_lag=0, reach=9e15)",
    "odaaf(variant=variance, mean_lag=9e15, lag_variance=8e31)",
    *(f"generalized-odaaf(d={bound})" for bound in ("0", "1e-300", "1e12", "9e15")),
    *(f"ars-ucb(alpha={alpha})" for alpha in ("5e-324", "1e-300", "4", "1e300")),
    *(f"ars-ucb(growth=power({power}))" for power in ("0", "1e-300", "1e-12", "100")),
    "ars-kl-ucb(growth=power(100))",
    "ars-kl-ucb(growth=exponential)",
    *(f"clw(d={d}, variant={variant}, base={base})" for d, variant, base in (
        (0, "jmlr", "tsallis"), (1, "colt", "exp3"), (10_000_000, "seed", "exp3-gain"), (10_000_000, "jmlr", "tsallis"),
    )),
    "ars-clw(h=power(100), first_phase=2)",
    "ars-clw(h=power(0), first_phase=1099511627776)",
    "settle-ucb(burn_in=100, look=100, hold=10000)",
    "settle-ucb(burn_in=0, look=5e-324, hold=10)",
    "dyn-lin-ucb(radius=0.999999999, size=1e12, leak=1e12, noise=1e12)",
    "mini-batch(base=ars-exp3(beta=0.01), size=9007199254740992)",
    "mini-batch(base=mini-batch(base=odaaf(mean_lag=9e15)))",
)  # fmt: skip
SETTINGS = ((2, 2), (3, 1_000), (50, 2**20), (2, 2**40), (10_000, 2**40))


@pytest.mark.slow
def test_every_policy_starts_at_once_or_is_refused():
    todo = [
        replace(
            made(1, 0),
            number=number,
            kind="policy",
            text=text,
            made_of=None,
            arms=arms,
            horizon=horizon,
        )
        for number, (text, arms, horizon) in enumerate(
            (text, *setting) for text in POLICIES for setting in SETTINGS
        )
    ]
    found = run(todo, workers=2, limit=LIMIT)
    # Live, one that plays one arm for the whole horizon is refused.
    assert [
        f"{each.case}: {each.outcome}"
        for each in found
        if each.outcome not in ("accepted", "refused")
    ] == []
    assert sum(each.outcome == "accepted" for each in found) > len(found) / 2
    assert sorted(each.case.number for each in found) == list(range(len(todo)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "odaaf(mean_lag=1e308)",
            "odaaf: mean_lag must be a number from 0 to 9,007,199,254,740,992, got 1e+308",
        ),
        (
            "odaaf(lag_variance=1e308)",
            "odaaf: lag_variance must be a number from 0 to 8.11296e+31, got 1e+308",
        ),
        (
            "odaaf(reach=1e16)",
            "odaaf: reach must be a number from 0 to 9,007,199,254,740,992, got 1e+16",
        ),
        (
            "generalized-odaaf(d=1e308)",
            "generalized-odaaf: d must be a number from 0 to 9,007,199,254,740,992, got 1e+308",
        ),
        (
            "ars-ucb(alpha=1.7e308)",
            "ars-ucb: alpha must be a number of at most 1e+300, got 1.7e+308",
        ),
        (
            "beta(1e101)",
            "beta: concentration must be a number above 0 and of at most 1e+100, got 1e+101",
        ),
        (
            "shape([1.7e308, 1.7e308])",
            "shape: weights must sum to 1, got a sum of inf: divide each by it",
        ),
    ],
)
def test_what_would_overflow_is_refused_by_name(text, message):
    with pytest.raises(ae.ParameterError) as caught:
        ae.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "p", [1e-300, 1e-13, 0.001, 0.01, 0.018, 0.1, 0.3, 0.5, 0.7, 0.99, 1, 1.01, 1.5, 2, 3, 40, 100]
)
def test_rounds_are_those_that_fit_when_added_up_one_by_one(p):
    slots, last, played = 3_000, 0, 0
    counts = []
    for allowed in range(1, slots + 1):
        while played + power_slots(np.array([p]), last + 1) <= allowed:
            last += 1
            played += power_slots(np.array([p]), last)
        counts.append(last)
    assert [rounds_within(p, allowed) for allowed in range(1, slots + 1, 7)] == counts[::7]


def test_rounds_of_long_runs():
    """By formulas: k(k+1)/2 and k(k+1)(2k+1)/6 slots for p = 1 and 2; and for p = 1/2, m^2 of them have m slots at most."""
    for slots in (10**9, 2**40, 2**40 - 1):
        k = rounds_within(1, slots)
        assert k * (k + 1) // 2 <= slots < (k + 1) * (k + 2) // 2
        k = rounds_within(2, slots)
        assert k * (k + 1) * (2 * k + 1) // 6 <= slots < (k + 1) * (k + 2) * (2 * k + 3) // 6
        k = rounds_within(0.5, slots)
        whole_lengths = math.isqrt(k)
        played = sum(m * (2 * m - 1) for m in range(1, whole_lengths + 1)) + (
            k - whole_lengths**2
        ) * (whole_lengths + 1)
        assert played <= slots < played + whole_lengths + 1


@pytest.mark.parametrize("concentration", [1e-9, 1e-5, 2e-4])
@pytest.mark.parametrize("mean", [0.02, 0.4])
def test_extreme_beta_laws_are_drawn_truly(concentration, mean):
    """Their mass is at the ends: compared there, and between 1e-40 and 1 - 1e-9 where there is any."""
    rng = np.random.default_rng(4)
    drawn = np.array([beta_one(np.array([concentration]), mean, 0, rng) for _ in range(40_000)])
    law = stats.beta(concentration * mean, concentration * (1 - mean))
    for cell in (1e-200, 1e-40, 0.5):
        expected = law.cdf(cell)
        assert (
            abs(np.mean(drawn <= cell) - expected)
            < 4 * math.sqrt(expected * (1 - expected) / len(drawn)) + 1e-12
        )


@pytest.mark.compiled
def test_extreme_beta_laws_end():
    """With 1e-9 machine code drew for ever: of a billion tries of its own sampler about one is of use."""
    from aftereffect.simulation import _compiled  # here: it loads numba

    law, rng = np.array([1.0]), np.random.default_rng(5)

    def draw(params, mean, rng):
        return beta_one(params, mean, 0, rng)

    types = (_compiled._typeof(law), _compiled._types.float64, _compiled._types.npy_rng)
    fast = _compiled._compile_once(_compiled._Program(draw, beta_one, False, (law,), types))

    def play(concentration):
        law[0] = concentration
        drawn = np.array(
            [[fast(law, mean, rng) for mean in (0.5, 0.3, 1e-320)] for _ in range(2_000)]
        )
        return "accepted" if abs(drawn.mean(0) - [0.5, 0.3, 0]).max() < 0.05 else f"drew {drawn}"

    for concentration in (5e-324, 1e-300, 1e-9, 1e100):
        (found,) = run([made(1, 0)], limit=LIMIT, examine=lambda _, c=concentration: play(c))
        assert found.outcome == "accepted", concentration


@pytest.mark.parametrize(
    "text",
    [
        "interval(0, 9999999)",
        "interval(9999998, 9999998)",
        "uniform-delay(0, 10000000)",
        "linear-decay(10000000)",
        "linear-rise(10000000)",
    ],
)
def test_a_spread_makes_no_table_before_it_is_played(text):
    tracemalloc.start()
    world = ae.StochasticBandit([0.9, 0.1], ae.parse(text, ae.delays.LagLaw))
    assert ae.parse(str(world)) == world
    assert world.delay_facts.reach >= 9_999_998
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**6


@pytest.mark.parametrize(
    "delay",
    [
        ae.Interval(0, 0),
        ae.Interval(7, 89),
        ae.UniformDelay(3, 3),
        ae.UniformDelay(0, 61),
        ae.LinearDecay(1),
        ae.LinearDecay(77),
        ae.LinearRise(1),
        ae.LinearRise(78),
    ],
    ids=str,
)
def test_formulas_are_those_of_the_shares(delay):
    lags = np.arange(len(delay.shares))
    assert delay.reach == len(delay.shares) - 1
    assert delay.mean_lag == pytest.approx(lags @ delay.shares, rel=1e-13)
    assert delay.lag_variance == pytest.approx(
        (lags - delay.mean_lag) ** 2 @ delay.shares, rel=1e-12, abs=1e-12
    )
    assert math.fsum(delay.shares) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("engine", ["roundwise", "slotwise"])
@pytest.mark.parametrize("world", [*samples.BANDITS, *samples.ADVERSARIAL], ids=str)
def test_memory_is_known_before_it_is_taken(world, engine):
    made_ready = world.engine(engine, 300)
    taken = made_ready.world.tables.nbytes + 8 * made_ready.memory[0] * made_ready.memory[1]
    assert (
        taken
        <= world.delay.count_bytes(engine, world.arms, 300)
        <= 4 * taken + 2 * 10**5 * world.arms
    )


@pytest.mark.parametrize(
    ("delay", "engine", "needed"),
    [
        (ae.Interval(0, 9_999_999), "roundwise", "320 MB"),
        (ae.LinearRise(5_000_000), "roundwise", "160 MB"),
        (ae.UniformDelay(0, 10_000_000), "slotwise", "160 MB"),
        (ae.PerArm([ae.Interval(0, 999_999 + arm) for arm in range(40)]), "roundwise", "1,280 MB"),
    ],
    ids=str,
)
def test_what_needs_too_much_memory_is_refused_with_the_amount(delay, engine, needed):
    world = ae.StochasticBandit([0.5] * (40 if isinstance(delay, ae.PerArm) else 2), delay)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        ae.ParameterError,
        match=f"needs {needed} of memory on the {engine} engine, but at most 134 MB are allowed",
    ):
        ae.simulate("ucb1", world, 100, 1, engine=engine)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB
    assert MAX_TABLE_BYTES == 2**27


def test_an_adversary_that_waits_too_long_is_refused_by_slots_alone():
    world = ae.AdversarialBandit(ae.rewards.DrawnRewards([0.5, 0.4]), ae.HoldBack(10_000_000))
    world.check("roundwise", 100)
    with pytest.raises(
        ae.ParameterError,
        match=r"hold-back\(10000000, reset_on_round=false\) needs 160 MB of memory",
    ):
        world.check("slotwise", 100)


def test_drawn_rewards_of_many_arms_are_limited_by_their_memory():
    many = ae.rewards.DrawnRewards([0.5] * 2_000)
    assert many.length == 500_000
    assert ae.rewards.DrawnArm([1 / 1_000] * 1_000).length == 8_000_000
    with pytest.raises(ae.ParameterError, match="horizon must be at most the 500,000 slots"):
        ae.AdversarialBandit(many).check("roundwise", 500_001)


def test_drawn_rewards_do_not_depend_on_the_pieces_they_are_drawn_in(monkeypatch):
    schedule = ae.rewards.DrawnRewards([0.2, 0.5, 0.7], seed=3)
    whole_piece = np.concatenate(list(schedule._pieces(1_000)))
    monkeypatch.setattr("aftereffect.rewards.schedules._PIECE", 50)
    assert np.array_equal(np.concatenate(list(schedule._pieces(1_000))), whole_piece)


def test_thousands_of_arms_share_what_is_known_of_one_spread():
    calls = []

    class Counted(ae.Geometric):
        @property
        def mean_lag(self):
            calls.append(1)
            return super().mean_lag

    assert ae.StochasticBandit([0.5] * 5_000, Counted(0.5)).delay_facts.mean_lag == 2
    assert len(calls) == 1


def test_numbers_of_any_type():
    assert check_float("x", Decimal("0.25")) == check_float("x", Fraction(1, 4)) == 0.25
    assert check_int("x", Decimal(7)) == 7
    for value, shown in (
        (Decimal("sNaN"), "nan"),
        (Decimal("Infinity"), "inf"),
        (Fraction(10**400, 3), "inf"),
    ):
        for check in (check_float, check_int):
            with pytest.raises(ae.ParameterError, match=f"got {shown}"):
                check("x", value)


@pytest.mark.parametrize(
    "word",
    [np.array([1.0, 2.0]), 10**5000, None, ["mean"], "x" * 10**6],
    ids=["array", "large number", "none", "list", "long"],
)
def test_what_is_no_word_is_refused_in_one_short_line(word):
    for make in (
        ae.Odaaf,
        ae.Exp3,
        lambda given: ae.Clw(1, given),
        lambda given: ae.Clw(1, base=given),
    ):
        with pytest.raises(ae.ParameterError, match=r"unknown (variant|form|base) ") as caught:
            make(word)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "text",
    ["x" * 10**6, "ucb1(" + "x" * 10**6 + "=1)", "(" * 10**6, "clw(" * 10**5, "[" * 10**5],
    ids=lambda text: text[:4],
)
def test_messages_about_long_texts_are_short(text):
    with pytest.raises(ae.SpecError) as caught:
        ae.parse(text)
    assert len(str(caught.value)) < 1_000  # it lists all names


def test_a_growth_that_raises_is_refused_with_its_reason():
    with pytest.raises(
        ae.ParameterError,
        match=r"growth\(3\) must be .*, but calling it gave ZeroDivisionError: integer division",
    ):
        ae.ArsUcb(growth=lambda k: 1 + 0 // (3 - k))


@pytest.mark.slow
def test_bounds_that_are_nowhere_reached_are_infinite():
    """Each of these did not end."""
    assert first_right_guess(ae.ArsClw(ae.growth.Power(0)), 2) == math.inf
    assert first_right_guess(ae.ArsClw(), 1e8) == math.inf
    assert ars_clw_bound(ae.ArsClw(ae.growth.Power(0)), 3, 5, 1_000).total == math.inf
    world = ae.StochasticBandit([0.9, 0.5], ae.Geometric(0.8))
    assert theorem_1(ae.ArsUcb(5, ae.growth.Power(0)), world, 10**6).log_t2 == math.inf
    assert theorem_1(ae.ArsUcb(4 + 1e-12), world, 10**6).log_t2 == math.inf
    with pytest.raises(
        ae.ParameterError, match="horizon must be a whole number from 1 to 9,007,199,254,740,992"
    ):
        theorem_2(ae.ArsExp3(), 3, 10, 10**400)
    with pytest.raises(
        ae.ParameterError,
        match=r"sums over at most 10,000,000 lags, but geometric\(0.999999999\) has",
    ):
        d2(ae.StochasticBandit([0.9, 0.5], ae.Geometric(0.999999999)))


@pytest.mark.parametrize(
    "rewards",
    [Decimal("sNaN"), 10**5_000, Fraction(10**400), [[Decimal("NaN"), 1], [0, 1]]],
    ids=["signalling NaN", "integer", "fraction", "NaN in a table"],
)
def test_rewards_that_are_no_numbers_of_this_world(rewards):
    with pytest.raises(ae.ParameterError, match="rewards must be "):
        ae.AdversarialBandit(rewards)
