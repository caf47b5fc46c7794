"""The rules behind the report's verdicts: other regrets, another verdict."""

import numpy as np
import pytest

from aftereffect.errors import ParameterError
from aftereffect.reproduction._claims import judge_claim, judge_draws, middle_95, resample_means
from aftereffect.reproduction._settings import DECADES, DEFAULT, QUICK, Settings
from aftereffect.reproduction.stochastic import CLAIMS, FIGURES, RECOMMENDED
from aftereffect.reproduction.stochastic.claims import Evidence
from aftereffect.simulation import PolicyRuns, Study

LOGARITHMIC, BELOW, BEST = CLAIMS
RUNS = 100


def study(figure, policies, regret, checkpoints):
    """A study with regrets of our making: by policy, then by replication and checkpoint."""
    pulls, rounds = np.ones((RUNS, figure.bandit.arms)), np.ones(RUNS, dtype=int)
    informed = [policy.with_delay_facts(figure.bandit.delay_facts) for policy in policies]
    runs = [
        PolicyRuns(
            label=str(p),
            policy=p,
            regret=r,
            pulls=pulls[: len(r)],
            rounds=rounds[: len(r)],
            seconds=0.0,
        )
        for p, r in zip(informed, regret, strict=True)
    ]
    return Study(
        bandit=figure.bandit,
        bandit_label=str(figure.bandit),
        engine="roundwise",
        horizon=checkpoints[-1],
        checkpoints=checkpoints,
        seed=1,
        made_by="a test",
        runs=tuple(runs),
    )


def evidence(number, finals=None, decades=(1_000, 1_100, 1_200), runs=RUNS):
    """Evidence in which the policies of a figure end with these regrets, on average, and the long runs pass through these."""
    figure = FIGURES[str(number)]
    wobble = np.linspace(-1, 1, runs)[:, None]
    regret = (
        [np.full((runs, 1), 1_000.0) + wobble for _ in figure.policies]
        if finals is None
        else finals
    )
    shown = study(figure, figure.policies, regret, (100_000,))
    curve = np.zeros((runs, len(DEFAULT.long_checkpoints)))
    curve[:, DECADES] = decades + wobble
    return Evidence(figure, shown, study(figure, [RECOMMENDED], [curve], DEFAULT.long_checkpoints))


def verdicts(claim, cases):
    return judge_claim(claim, cases).verdict


FLAT, GROWING, STEEP = (1_000, 1_100, 1_200), (1_000, 1_100, 1_240), (1_000, 2_000, 3_300)
SETTINGS = (10, 11, 12, 14)


@pytest.mark.parametrize(
    ("decades", "verdict", "count"),
    [
        ([FLAT] * 4, "reproduced", "holds in 4, open in 0, fails in 0 of 4 settings"),
        ([FLAT, FLAT, FLAT, GROWING], "partly", "holds in 3, open in 0, fails in 1 of 4 settings"),
        (
            [FLAT, FLAT, GROWING, GROWING],
            "partly",
            "holds in 2, open in 0, fails in 2 of 4 settings",
        ),
        (
            [FLAT, GROWING, GROWING, STEEP],
            "not reproduced",
            "holds in 1, open in 0, fails in 3 of 4 settings",
        ),
    ],
)
def test_regret_is_logarithmic(decades, verdict, count):
    found = judge_claim(
        LOGARITHMIC,
        [evidence(number, decades=each) for number, each in zip(SETTINGS, decades, strict=True)],
    )
    assert (found.verdict, found.count) == (verdict, count)
    assert [row[-1] for row in found.rows] == [
        "holds" if each == FLAT else "fails" for each in decades
    ]


def test_a_sentence_says_why():
    cases = [evidence(number, decades=each) for number, each in ((10, FLAT), (11, GROWING))]
    assert judge_claim(LOGARITHMIC, cases).why == (
        "Holds in 1 of 2 settings, fails in 1: ten times the slots add 1.00 to 1.40 times the regret "
        "that the tenfold before added, where a logarithm adds as much."
    )
    assert judge_claim(LOGARITHMIC, cases[:1]).why.startswith("Holds in 1 of 1 settings: ten times")


def test_growth_and_exponent_both_count():
    slow_but_growing = evidence(
        10, decades=(10_000, 10_010, 10_030)
    )  # twice the decade before, exponent .001
    steep_but_steady = evidence(
        10, decades=(1, 1_000, 2_000)
    )  # as much as the decade before, exponent .3
    for case in (slow_but_growing, steep_but_steady):
        assert judge_claim(LOGARITHMIC, [case]).rows[0][-1] == "fails"
    row = judge_claim(LOGARITHMIC, [evidence(10, decades=FLAT)]).rows[0]
    assert row[1:4] == ("1,000", "1,100", "1,200")
    assert row[4] == "1.00 (1.00 .. 1.00)"
    assert row[5] == "0.04 (0.04 .. 0.04)"


def test_what_the_runs_cannot_tell_is_open():
    loud = np.random.default_rng(1).normal(0, 400, (RUNS, 1)) * [0, 0, 1]
    found = judge_claim(LOGARITHMIC, [evidence(10, decades=np.array([1_000, 1_100, 1_200]) + loud)])
    assert found.rows[0][-1] == "open"
    assert found.verdict == "partly"


def test_settings_that_two_panels_share_count_once():
    assert (
        judge_claim(LOGARITHMIC, [evidence(2), evidence(3)]).count
        == "holds in 1, open in 0, fails in 0 of 1 settings"
    )
    assert judge_claim(BELOW, [evidence(2), evidence(3)]).count.endswith("of 3 comparisons")


def finals(figure, ours, rivals):
    """Regrets at the horizon: ARS-UCB at one level, its rivals at theirs, and some noise that differs."""
    rng = np.random.default_rng(figure)
    players = FIGURES[str(figure)]
    levels = [*[ours] * len(players.variants), *rivals, 5_000]
    return [level + rng.normal(0, 10, (RUNS, 1)) for level in levels]


@pytest.mark.parametrize(
    ("rivals", "verdict", "cases"),
    [
        ((1_200, 1_300, 1_400), "reproduced", ["holds", "holds", "holds"]),
        ((1_200, 1_000, 1_400), "partly", ["holds", "open", "holds"]),
        ((1_200, 1_300, 900), "partly", ["holds", "holds", "fails"]),
        ((800, 1_300, 900), "not reproduced", ["fails", "holds", "fails"]),
    ],
)
def test_ars_ucb_is_below_every_rival(rivals, verdict, cases):
    found = judge_claim(BELOW, [evidence(2, finals(2, 1_000, rivals))])
    assert found.verdict == verdict
    assert [row[-1] for row in found.rows] == cases
    assert found.rows[0][4] == f"{rivals[0] / 1_000:.1f}"


def variants(levels, deviations):
    """Four variants of ARS-UCB, of which the recommended one is the third where alpha varies; and naive UCB1."""
    noise = np.random.default_rng(3).normal(0, 1, (5, RUNS, 1))
    noise = (noise - noise.mean(axis=1, keepdims=True)) / noise.std(axis=1, keepdims=True)
    return [
        level + deviation * each
        for level, deviation, each in zip([*levels, 1], [*deviations, 1], noise, strict=True)
    ]


LOW, HIGH = (300, 200, 100, 400), (100, 200, 300, 400)


@pytest.mark.parametrize(
    ("means", "deviations", "verdict"),
    [
        (LOW, (8, 6, 2, 9), "reproduced"),
        (LOW, (2, 6, 8, 9), "partly"),
        (HIGH, (8, 6, 2, 9), "partly"),
        (HIGH, (2, 6, 8, 9), "not reproduced"),
    ],
)
def test_alpha_4_with_k_squared_is_best(means, deviations, verdict):
    found = judge_claim(
        BEST, [evidence(14, variants(means, deviations)), evidence(16, variants(means, deviations))]
    )
    assert found.verdict == verdict
    good = "yes", "no"
    assert found.rows[0][4] == good[means is HIGH]
    assert found.rows[0][7] == good[deviations[2] == 8]


def test_best_in_half_of_the_panels_is_not_most_and_near_the_lowest_is_best():
    best, worst = variants(LOW, (8, 6, 2, 9)), variants(HIGH, (2, 6, 8, 9))
    assert verdicts(BEST, [evidence(14, best), evidence(16, worst)]) == "not reproduced"


def correlated(differences, factors=(1, 1)):
    """Alpha 1 and alpha 4, in that order, differing by just this much in each run; the others far above."""
    common = np.random.default_rng(5).normal(0, 50, RUNS)
    near = 500 + factors[0] * common
    mine = near + differences if factors[1] == factors[0] else 500 + factors[1] * common
    return [
        each[:, None]
        for each in (near, 2_000 + 9 * common, mine, 3_000 + 9 * common, 5_000 + common)
    ]


@pytest.mark.parametrize(("errors", "best"), [(0.1, "yes"), (1.9, "yes"), (2.1, "no")])
def test_near_the_lowest_is_best_by_standard_errors_of_the_paired_difference(errors, best):
    noise = np.linspace(-1, 1, RUNS)
    noise = (
        noise / noise.std(ddof=1) * np.sqrt(RUNS)
    )  # a standard error of 1, though the runs themselves spread by 50
    row = judge_claim(BEST, [evidence(14, correlated(errors + noise))]).rows[0]
    assert row[4] == best
    assert row[3] == f"{errors:.1f} ± 1.0 (alpha 1, rounds k²)"


def test_deviations_have_an_error_of_their_own():
    """Runs that move together: their deviations differ by 10 % in every draw, and the means not at all."""
    row = judge_claim(BEST, [evidence(14, correlated(0, factors=(1.0, 1.1)))]).rows[0]
    assert row[4] == "yes"
    assert row[7] == "no"
    alike = judge_claim(BEST, [evidence(14, correlated(0, factors=(1.0, 1.0)))]).rows[0]
    assert alike[7] == "yes"


@pytest.mark.parametrize(
    ("decades", "case_verdict"),
    [
        ((10_000, 11_000, 12_290), "holds"),
        ((10_000, 11_000, 12_310), "fails"),  # the increment 1.31 times the one before
        ((1_000, 10_000, 15_800), "holds"),
        ((1_000, 10_000, 15_900), "fails"),  # an exponent of .2014
        ((1_000, 1_000, 1_000), "holds"),  # nothing is lost any more
        ((1_000, 1_000, 1_010), "fails"),  # something is, after nothing was
    ],
)
def test_the_limits_of_logarithmic_growth(decades, case_verdict):
    figure = FIGURES["10"]
    curve = np.zeros((RUNS, len(DEFAULT.long_checkpoints)))
    curve[:, DECADES] = decades
    long = study(figure, [RECOMMENDED], [curve], DEFAULT.long_checkpoints)
    assert (
        judge_claim(LOGARITHMIC, [Evidence(figure, evidence(10).shown, long)]).rows[0][-1]
        == case_verdict
    )


def test_decades_end_at_a_hundredth_a_tenth_and_the_whole():
    assert DEFAULT.long_checkpoints[DECADES] == (10**5, 10**6, 10**7)
    assert QUICK.long_checkpoints[DECADES] == (10**4, 10**5, 10**6)
    with pytest.raises(ParameterError, match="long_horizon must be a multiple of 1,000, got 1,999"):
        Settings(long_horizon=1_999)


@pytest.mark.parametrize(
    ("share", "case_verdict"),
    [(0.975, "holds"), (0.974, "open"), (0.026, "open"), (0.025, "fails")],
)
def test_a_case_needs_nearly_all_draws(share, case_verdict):
    draws = np.zeros(1_000, dtype=bool)
    draws[: round(1_000 * share)] = True
    assert judge_draws(draws) == case_verdict


def test_of_two_panels_with_one_setting_the_first_is_judge_claim():
    found = judge_claim(LOGARITHMIC, [evidence(2, decades=FLAT), evidence(3, decades=STEEP)])
    assert [row[-1] for row in found.rows] == ["holds"]


def test_without_cases_or_with_one_run_nothing_is_judge_claim():
    assert verdicts(BELOW, [evidence(14), evidence(15)]) == "not judged"
    for claim in CLAIMS:
        assert verdicts(claim, []) == "not judged"
        assert verdicts(claim, [evidence(10, runs=1)]) == "not judged"


def test_the_bootstrap_has_the_moments_of_a_mean():
    samples = np.random.default_rng(2).gamma(2, 3, (400, 2))
    draws = resample_means(samples)
    assert draws.shape == (2_000, 2)
    assert draws.mean(axis=0) == pytest.approx(samples.mean(axis=0), rel=0.01)
    assert draws.std(axis=0) == pytest.approx(samples.std(axis=0) / 20, rel=0.1)
    assert np.array_equal(draws, resample_means(samples))
    low, high = middle_95(np.arange(1_001.0))
    assert (low, high) == pytest.approx((25, 975))
