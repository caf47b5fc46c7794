"""Estimates of the lag: the parts against scipy and literal versions, the whole against known lags."""

import json
import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import null_space, toeplitz
from scipy.signal import lfilter
from scipy.stats import multivariate_normal

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.lag._evidence import RELATIVE_DEVIATIONS, Evidence
from aftereffect.lag._model import (
    DRIFT_COLUMNS,
    Observations,
    drift_and_patterns,
    fill_gaps,
    fit_noise,
    lag_edges,
    read_observations,
    shares_played,
)
from aftereffect.lag._sampling import sample
from aftereffect.lag._shapes import shares_of
from aftereffect.simulation import trace_run

MEANS = (0.9, 0.6, 0.3)


def blocks(slots, arms, rng):
    """Arms held for a random while each."""
    return np.repeat(rng.integers(0, arms, slots), rng.integers(1, 40, slots))[:slots]


def arrivals(arms, means, shares):
    """Totals without noise."""
    return np.convolve(np.array(means)[arms], shares)[: len(arms)]


def estimate_of(delay, replication=0, slots=3_000, means=MEANS):
    return ae.estimate_lag(
        trace_run(ae.ArsUcb(), ae.StochasticBandit(means, delay), slots, 11, replication)
    )


def test_whitening_is_the_inverse_of_the_covariance():
    """Whitened rows have the inner products of the inverse covariance, here of an autoregression of order 2 with a floor."""
    noise = fit_noise(
        lfilter([1], [1, -0.6, -0.2], np.random.default_rng(1).normal(size=400)), 4, 0.0
    )
    order = len(noise.coefficients) - 1
    covariances = [noise.variances[0]]
    for lag in range(1, 30):
        weights = noise.coefficients[min(lag, order)]
        partial = noise.coefficients[lag][-1] * noise.variances[lag - 1] if lag <= order else 0.0
        older = noise.coefficients[min(lag - 1, order)] if lag <= order else weights
        covariances.append(
            partial + sum(weight * covariances[lag - 1 - back] for back, weight in enumerate(older))
        )
    rows = np.random.default_rng(2).normal(size=(30, 5))
    white = noise.whiten(rows)
    wanted = rows.T @ np.linalg.solve(toeplitz(covariances), rows)
    np.testing.assert_allclose(white.T @ white / noise.variance, wanted, rtol=1e-8)
    assert noise.log_determinant(30) == pytest.approx(np.linalg.slogdet(toeplitz(covariances))[1])


def test_a_daily_pattern_is_found_and_white_noise_has_none():
    rng, slots = np.random.default_rng(3), np.arange(1_000)
    noise = rng.normal(size=1_000)
    daily = np.cos(2 * np.pi * slots / 24) + np.cos(2 * np.pi * slots / 12)
    assert drift_and_patterns(noise).shape[1] == DRIFT_COLUMNS + 1
    columns = drift_and_patterns(noise + daily)
    assert columns.shape[1] == DRIFT_COLUMNS + 1 + 4
    np.testing.assert_allclose(columns @ (columns.T @ daily), daily, atol=1e-9)


def test_the_evidence_is_that_of_a_normal_distribution():
    """Against the density of totals whose covariance is that of noise and of what arms bring, level and drift projected out."""
    rng = np.random.default_rng(4)
    history = Observations(rng.integers(0, 2, 50), rng.normal(size=50))
    edges = lag_edges(6, 20)
    played, columns = shares_played(history, edges), drift_and_patterns(np.zeros(50))
    noise = fit_noise(history.totals, 0, 0.0)
    shares = np.array([0.2, 0.3, 0.5, 0, 0, 0, 0])
    model = Evidence(played, history.totals, columns, noise, 1.0, np.arange(50))
    free = null_space(columns.T)
    each = []
    for relative in RELATIVE_DEVIATIONS:
        design = np.einsum("tbk,b->tk", played, shares) * math.sqrt(noise.variance) * relative
        covariance = noise.variance * np.eye(50) + design @ design.T
        each.append(
            multivariate_normal(np.zeros(free.shape[1]), free.T @ covariance @ free).logpdf(
                free.T @ history.totals
            )
        )
    without = multivariate_normal(
        np.zeros(free.shape[1]), noise.variance * np.eye(free.shape[1])
    ).logpdf(free.T @ history.totals)
    assert model.log_ratio(shares[None])[0] == pytest.approx(
        np.log(np.mean(np.exp(np.array(each) - without))), rel=1e-6
    )


def test_draws_are_those_of_a_known_posterior():
    """A normal prior and likelihood: the posterior and the evidence are known."""
    rng = np.random.default_rng(5)

    def prior(rows):
        return -0.5 * np.square(rows).sum(axis=1)

    def likelihood(rows):
        return -0.5 * np.square((rows - 2.0) / 0.2).sum(axis=1)

    draws = sample(lambda count: rng.normal(size=(count, 2)), prior, likelihood, rng)
    variance = 1 / (1 + 25)
    np.testing.assert_allclose(draws.rows.mean(axis=0), 2 * 25 * variance, atol=0.05)
    np.testing.assert_allclose(draws.rows.var(axis=0), variance, rtol=0.35)
    wanted = 2 * (math.log(0.2) - 0.5 * math.log(1.04) - 0.5 * 4 / 1.04)
    assert draws.log_evidence == pytest.approx(wanted, abs=0.5)


@pytest.mark.parametrize(
    ("log_a", "log_b", "delay"),
    [(0, 0, ae.Interval(0, 19)), (0, math.log(2), ae.Shape(np.arange(39, 0, -2) / 400))],
)
def test_shapes_are_the_delays_they_should_be(log_a, log_b, delay):
    edges = np.arange(31)
    mean = 20 / (1 + math.exp(log_b))
    shape = np.array([[-0.5, math.log(mean), log_a, log_b, 0.0, 0.0, 0.0, 0.0, -9.0]])
    wanted = np.zeros(30)
    wanted[: len(delay.shares)] = delay.shares
    np.testing.assert_allclose(shares_of(shape, edges)[0], wanted, atol=0.006)


def test_the_design_is_what_it_says():
    """Arms, then slots without an arm, then what was before the first slot."""
    rng = np.random.default_rng(1)
    history = Observations(rng.integers(-1, 3, 60), np.zeros(60))
    edges = lag_edges(16, 5)
    rows = shares_played(history, edges)
    assert edges[0] == 0
    assert edges[-1] == 17
    assert rows.shape == (60, len(edges) - 1, 5)
    for t in (0, 1, 7, 59):
        for b, (first, end) in enumerate(pairwise(edges)):
            arms = [history.arms[t - lag] if t >= lag else 4 for lag in range(first, end)]
            for column, arm in enumerate((0, 1, 2, -1, 4)):
                assert rows[t, b, column] == pytest.approx(arms.count(arm) / (end - first))


def test_gaps_are_interpolated_in_rows_as_in_totals():
    known = np.array([1, 2, 5])
    assert fill_gaps(np.array([9.0, 1, 2, 9, 9, 8, 9]), known).tolist() == [1, 1, 2, 4, 6, 8, 8]
    rows = np.arange(14.0).reshape(7, 2)
    assert fill_gaps(rows, known)[3].tolist() == [6, 7]


@pytest.mark.parametrize(
    "delay",
    [
        ae.Interval(5, 15),
        ae.LinearDecay(30),
        ae.Immediate(),
        ae.Shape([0, 0.3, *([0.0] * 38), 0.7]),
    ],
    ids=str,
)
def test_without_noise_the_lag_is_found(delay):
    arms = blocks(2_000, 3, np.random.default_rng(2))
    estimate = ae.estimate_lag(arms, arrivals(arms, MEANS, delay.shares))
    assert estimate.conclusive
    rough = len(delay.shares) > 32  # two single lags far apart: bins of far lags are wide
    assert estimate.mean == pytest.approx(delay.mean_lag, rel=0.15 if rough else 0.05, abs=0.2)
    assert estimate.low <= estimate.mean <= estimate.high


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("delay", "slots", "means"),
    [
        (ae.Interval(5, 15), 3_000, MEANS),
        (ae.UniformDelay(0, 60), 5_000, tuple(arm / 10 for arm in range(9, 0, -1))),
    ],
    ids=str,
)
def test_bands_hold_the_truth(delay, slots, means):
    """Bands of 90 % in eight histories: at most one of those that can tell is wrong; `make bench-lag` counts better."""
    estimates = [
        each
        for each in (estimate_of(delay, replication, slots, means) for replication in range(8))
        if each.conclusive
    ]
    assert len(estimates) >= 6
    assert sum(each.low <= delay.mean_lag <= each.high for each in estimates) >= len(estimates) - 1
    over = np.flatnonzero(np.cumsum(delay.shares) >= 0.9 - 1e-9)[0]
    assert np.median([each.p90.value for each in estimates]) == pytest.approx(over, rel=0.25)


@pytest.mark.compiled
def test_the_curve_is_the_share_arrived_by_each_lag():
    estimate = estimate_of(ae.Interval(5, 15))
    assert estimate.lags == tuple(range(len(estimate.lags)))
    assert estimate.arrived[0] == pytest.approx(0, abs=0.1)
    assert estimate.arrived[-1] == pytest.approx(1)
    assert all(np.diff(estimate.arrived) >= -1e-12)
    assert all(
        row["low"] <= row["arrived"] + 1e-9 and row["arrived"] <= row["high"] + 1e-9
        for row in estimate.rows()
    )
    assert estimate.arrived[10] == pytest.approx(6 / 11, abs=0.15)
    assert f"<td>{estimate.p90}</td>" in estimate._repr_html_()


@pytest.mark.compiled
def test_histories_of_all_kinds_say_the_same():
    trace = trace_run(ae.ArsUcb(), ae.StochasticBandit(MEANS, ae.Interval(2, 5)), 600, 1, 0)
    names = np.array(["A", "B", "C"])[trace.arms]
    lines = [
        SimpleNamespace(played=name, total=total)
        for name, total in zip(names, trace.totals, strict=True)
    ]
    columns = (trace.arms.tolist(), trace.totals.tolist())
    histories = [(trace,), (lines,), (tuple(lines),), columns, (names, trace.totals)]
    assert len({str(ae.estimate_lag(*history)) for history in histories}) == 1


def test_two_records_in_a_tuple_are_two_slots():
    records = (SimpleNamespace(played="A", total=1.0), SimpleNamespace(played="B", total=2.0))
    assert ae.estimate_lag(records).slots == 2


def test_missing_totals_are_left_out_and_their_arms_are_not():
    arms = blocks(2_000, 3, np.random.default_rng(2))
    totals = arrivals(arms, MEANS, ae.Interval(5, 15).shares).tolist()
    gone = [None if slot % 7 == 3 else total for slot, total in enumerate(totals)]
    estimate = ae.estimate_lag(arms, gone)
    assert estimate.mean == pytest.approx(10, abs=0.3)
    assert estimate.slots == 2_000 - gone.count(None)


@pytest.mark.compiled
def test_a_higher_level_is_a_wider_band_and_a_seed_the_same_one():
    trace = trace_run(ae.ArsUcb(), ae.StochasticBandit(MEANS, ae.Interval(2, 5)), 600, 1, 0)
    half, most = ae.estimate_lag(trace, level=0.5), ae.estimate_lag(trace, level=0.99)
    assert most.low < half.low < half.mean < half.high < most.high
    assert ae.estimate_lag(trace, level=0.5) == half


def shop(seed, *, slots=1_000, arms=4, best=2.0, rough=0.3, ar=0.0, daily=0.0, delay=None):
    """A business with a level of 10 that no arm makes, and with effects of arms that were in flight before."""
    rng = np.random.default_rng(seed)
    shares = np.diff(1 - 0.9 ** np.arange(100)) if delay is None else delay
    played = blocks(slots, arms, rng)
    means = rng.permutation(np.linspace(0, best, arms))
    noise = lfilter([math.sqrt(1 - ar**2)], [1, -ar], rng.normal(0, rough, slots + 200))[200:]
    made = np.convolve(np.concatenate([np.full(len(shares), best / 2), means[played]]), shares)[
        len(shares) :
    ][:slots]
    return played, 10 + daily * np.sin(2 * np.pi * np.arange(slots) / 24) + made + noise


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"ar": 0.7}, {"daily": 4.0}, {"arms": 2, "best": 1.0}, {"arms": 20, "slots": 1_500}],
    ids=str,
)
def test_a_level_that_no_arm_makes_does_not_mislead(options):
    """Geometric shares, mean lag 9: of six histories each, most can tell, and nearly all of these bands are right."""
    estimates = [ae.estimate_lag(*shop(seed, **options)) for seed in range(6)]
    conclusive = [each for each in estimates if each.conclusive]
    assert len(conclusive) >= 4
    assert sum(each.low <= 9 <= each.high for each in conclusive) >= len(conclusive) - 1


@pytest.mark.parametrize(
    "options", [{}, {"ar": 0.9}, {"daily": 4.0, "ar": 0.7}, {"arms": 40, "slots": 200}], ids=str
)
def test_arms_that_do_not_matter_tell_nothing(options):
    assert not any(
        ae.estimate_lag(*shop(seed, best=0.0, **options)).conclusive for seed in range(6)
    )


@pytest.mark.parametrize("scale", [1e300, 1e-300, -1e307])
def test_totals_of_any_size(scale):
    played, totals = shop(1)
    usual = ae.estimate_lag(played, totals)
    assert ae.estimate_lag(played, totals * scale).mean == pytest.approx(usual.mean, rel=1e-3)


@pytest.mark.parametrize("none", [-1, None])
def test_slots_without_an_arm(none):
    """The arm that brings nothing, named or not: the same totals tell the same lag."""
    rng = np.random.default_rng(6)
    played = blocks(2_000, 3, rng)
    totals = (
        5
        + arrivals(played, (1.0, 0.5, 0.0), ae.Interval(5, 15).shares)
        + rng.normal(0, 0.05, 2_000)
    )
    estimate = ae.estimate_lag([none if arm == 2 else arm for arm in played.tolist()], totals)
    assert estimate.conclusive
    assert estimate.mean == pytest.approx(10, abs=0.5)
    assert read_observations(["A", none, "B"], [1, 2, 3]).arms.tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (([], []), "0 slots with totals are too few"),
        ((["A"] * 300, [None] * 300), "0 slots with totals are too few"),
        ((["A", "B"] * 100, [0.0] * 200), "all totals are the same"),
        ((["A"] * 200, np.random.default_rng(3).random(200)), "only one arm was played"),
        (
            (["A", "B"] * 100, np.random.default_rng(3).random(200)),
            "an effect of the arms on totals",
        ),
        ((list(range(41)) * 3, range(123)), "41 arms are too many, at most 40"),
    ],
)
def test_cannot_tell(history, reason):
    estimate = ae.estimate_lag(*history)
    assert not estimate.conclusive
    assert estimate.reason.startswith(reason)
    assert str(estimate).startswith("cannot tell the lag: ")
    assert estimate._repr_html_() == f"<p>{estimate}</p>"
    assert json.loads(json.dumps(estimate.to_dict(), allow_nan=False))["conclusive"] is False


@pytest.mark.slow
def test_long_histories_are_read_from_their_beginning():
    rng = np.random.default_rng(4)
    assert ae.estimate_lag(blocks(12_000, 2, rng), rng.random(12_000)).slots == 10_000
    many = ae.estimate_lag(rng.integers(0, 30, 4_000), rng.random(4_000))
    assert many.slots == 5 * 10**6 // (60 * 30)


@pytest.mark.parametrize(
    ("history", "options", "message"),
    [
        ((5,), {}, "estimate_lag needs a trace"),
        (("ABC",), {}, "estimate_lag needs a trace"),
        ((5, [1]), {}, "estimate_lag needs a trace"),
        ((["A"], [1, 2]), {}, "one total for each slot, got 1 arms and 2 totals"),
        ((["A"], ["x"]), {}, "totals must be numbers"),
        ((["A"], [1]), {"level": 0.85}, "level must be one of 0.5, 0.8, 0.9, 0.95, 0.99, got 0.85"),
        ((["A"], [1]), {"level": "high"}, "level must be"),
        ((["A"] * 200, range(200)), {"seed": -1}, "seed must be"),
    ],
)
def test_refusals(history, options, message):
    with pytest.raises(ae.ParameterError, match=message):
        ae.estimate_lag(*history, **options)


def test_numbers_that_are_no_numbers_count_as_missing():
    totals = read_observations(["A", "B"], [math.nan, math.inf]).totals
    assert np.isnan(totals).all()


def test_command_line(tmp_path, monkeypatch, capsys):
    storage = f"sqlite:///{tmp_path / 'live.db'}"
    monkeypatch.setenv("AFTEREFFECT_STORAGE", storage)
    experiment = ae.Experiment.create(
        "shop", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 10), storage=storage
    )
    assert main(["lag", "shop"]) == 0
    assert capsys.readouterr().out.startswith("cannot tell the lag: 0 slots")
    pulled, shares = [], ae.Interval(3, 5).shares
    for slot in range(400):
        pulled.append({"A": 8.0, "B": 2.0}[experiment.ask(slot).arm])
        arriving = pulled[::-1][: len(shares)]
        experiment.tell(slot, float(np.dot(arriving, shares[: len(arriving)])))
    assert main(["lag", "shop", "--plot", str(tmp_path / "lag.png")]) == 0
    assert (tmp_path / "lag.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.startswith("mean lag 4.0 slots (")
    assert main(["lag", "shop", "--format", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {
        "conclusive",
        "mean",
        "low",
        "high",
        "p90",
        "arrived",
    }
    assert main(["lag", "shop", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("lag,arrived,low,high\n0,")
    assert main(["lag", "shop", "--level", "2"]) == 2
    assert main(["lag", "shop", "--plot", str(tmp_path / "lag.txt")]) == 2
    assert main(["lag", "nobody"]) == 2
    assert "Traceback" not in capsys.readouterr().err
