"""How long effects linger: against scipy, a literal design, worlds without noise, and the truth of simulated ones."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import nnls

import aftereffect as ae
from aftereffect.cli.main import main
from aftereffect.lag.design import bins, shares_played
from aftereffect.lag.fit import nonnegative
from aftereffect.lag.seen import Seen, seen
from aftereffect.simulation.trace import traced

MEANS = (0.9, 0.6, 0.3)


def blocks(slots, arms, rng):
    """Arms held for a random while each."""
    return np.repeat(rng.integers(0, arms, slots), rng.integers(1, 40, slots))[:slots]


def landing(arms, means, shares):
    """Totals without noise."""
    return np.convolve(np.array(means)[arms], shares)[: len(arms)]


def told(spread, replication=0, slots=3_000, means=MEANS):
    return ae.estimate_lag(traced(ae.ArsUcb(), ae.StochasticBandit(means, spread), slots, 11, replication))


@pytest.mark.parametrize("seed", range(20))
def test_nonnegative_least_squares_agree_with_scipy(seed):
    rng = np.random.default_rng(seed)
    rows, target = rng.normal(size=(40, 8)), rng.normal(size=40)
    wanted, _ = nnls(rows, target)
    guess = rng.random(8) < 0.5
    found, positive = nonnegative(rows.T @ rows, rows.T @ target, guess)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    np.testing.assert_array_equal(positive, found > 0)


def test_the_design_is_what_it_says():
    rng = np.random.default_rng(1)
    history = Seen(rng.integers(0, 3, 60), np.zeros(60))
    edges = bins(16, 5)
    rows = shares_played(history, edges).reshape(60, len(edges) - 1, 3)
    for t in (0, 1, 7, 59):
        for b, (first, end) in enumerate(pairwise(edges)):
            for arm in range(3):
                played = [history.arm[t - lag] == arm for lag in range(first, end) if t >= lag]
                assert rows[t, b, arm] == pytest.approx(sum(played) / (end - first))


def test_slots_without_totals_have_no_row():
    history = Seen(np.array([0, 1, 0, 1]), np.array([1.0, np.nan, 2.0, np.nan]))
    assert shares_played(history, np.array([0, 1, 2])).tolist() == [[1, 0, 0, 0], [1, 0, 0, 1]]


@pytest.mark.parametrize(
    "spread", [ae.Interval(5, 16), ae.LinearDecay(30), ae.Immediate(), ae.Shape([0, 0.3, *([0.0] * 38), 0.7])], ids=str
)
def test_without_noise_the_lag_is_found(spread):
    arms = blocks(2_000, 3, np.random.default_rng(2))
    estimate = ae.estimate_lag((arms, landing(arms, MEANS, spread.shares)))
    assert estimate.known
    assert estimate.mean == pytest.approx(spread.mean_lag, rel=0.03, abs=0.05)
    assert estimate.low <= estimate.mean <= estimate.high


@pytest.mark.parametrize("spread", [ae.Interval(5, 16), ae.UniformDelay(0, 60)], ids=str)
def test_bands_hold_the_truth(spread):
    """Bands of 90 % in eight histories: five right or more but for five cases in a thousand; `make bench-lag` counts better."""
    estimates = [told(spread, replication) for replication in range(8)]
    assert sum(each.low <= spread.mean_lag <= each.high for each in estimates) >= 5
    assert all(each.known for each in estimates)
    over = np.flatnonzero(np.cumsum(spread.shares) >= 0.9 - 1e-9)[0]
    assert np.median([each.lingers.value for each in estimates]) == pytest.approx(over, rel=0.25)


def test_the_curve_is_the_share_landed_by_each_lag():
    estimate = told(ae.Interval(5, 16))
    assert estimate.lags == tuple(range(len(estimate.lags)))
    assert estimate.landed[0] == pytest.approx(0, abs=0.1)
    assert estimate.landed[-1] == pytest.approx(1)
    assert all(np.diff(estimate.landed) >= -1e-12)
    assert all(row["low"] <= row["landed"] + 1e-9 and row["landed"] <= row["high"] + 1e-9 for row in estimate.rows())
    assert estimate.landed[10] == pytest.approx(6 / 11, abs=0.15)


def test_histories_of_all_kinds_say_the_same():
    trace = traced(ae.ArsUcb(), ae.StochasticBandit(MEANS, ae.Interval(2, 6)), 600, 1, 0)
    names = np.array(["A", "B", "C"])[trace.arm]
    lines = [type("Line", (), {"arm": name, "value": value}) for name, value in zip(names, trace.observed, strict=True)]
    pair = (trace.arm.tolist(), trace.observed.tolist())
    estimates = [ae.estimate_lag(history) for history in (trace, pair, (names, trace.observed), lines)]
    assert len({str(each) for each in estimates}) == 1


def test_missing_totals_are_left_out_and_their_arms_are_not():
    arms = blocks(2_000, 3, np.random.default_rng(2))
    totals = landing(arms, MEANS, ae.Interval(5, 16).shares).tolist()
    gone = [None if slot % 7 == 3 else total for slot, total in enumerate(totals)]
    estimate = ae.estimate_lag((arms, gone))
    assert estimate.mean == pytest.approx(10, abs=0.3)
    assert estimate.slots == 2_000 - gone.count(None)


def test_a_higher_level_is_a_wider_band_and_a_seed_the_same_one():
    trace = traced(ae.ArsUcb(), ae.StochasticBandit(MEANS, ae.Interval(2, 6)), 600, 1, 0)
    half, most = ae.estimate_lag(trace, level=0.5), ae.estimate_lag(trace, level=0.99)
    assert most.low < half.low < half.mean < half.high < most.high
    assert ae.estimate_lag(trace, level=0.5) == half


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (([], []), "0 slots with totals are too few"),
        ((["A"] * 300, [None] * 300), "0 slots with totals are too few"),
        ((["A", "B"] * 100, [0.0] * 200), "all totals are the same"),
        ((["A", "B"] * 100, np.random.default_rng(3).random(200)), "the mean lag may be anything from"),
        ((list(range(41)) * 3, range(123)), "41 arms are too many, at most 40"),
    ],
)
def test_cannot_tell(history, reason):
    estimate = ae.estimate_lag(history)
    assert not estimate.known
    assert estimate.reason.startswith(reason)
    assert str(estimate).startswith("cannot tell how long effects linger: ")
    assert json.loads(json.dumps(estimate.plain(), allow_nan=False))["known"] is False


def test_long_histories_are_read_from_their_beginning():
    rng = np.random.default_rng(4)
    assert ae.estimate_lag((blocks(12_000, 2, rng), rng.random(12_000))).slots == 10_000
    assert ae.estimate_lag((rng.integers(0, 30, 4_000), rng.random(4_000))).slots == 10**6 // (12 * 30)


@pytest.mark.parametrize(
    ("history", "options", "message"),
    [
        (5, {}, "a history must be a trace"),
        ("ABC", {}, "a history must be a trace"),
        ((["A"], [1, 2]), {}, "one total for each slot, got 1 arms and 2 totals"),
        ((["A"], ["x"]), {}, "totals must be numbers"),
        ((["A"], [1]), {"level": 0.85}, "level must be one of 0.5, 0.8, 0.9, 0.95, 0.99, got 0.85"),
        ((["A"], [1]), {"level": "high"}, "level must be"),
        ((["A"] * 200, range(200)), {"seed": -1}, "seed must be"),
    ],
)
def test_refusals(history, options, message):
    with pytest.raises(ae.ParameterError, match=message):
        ae.estimate_lag(history, **options)


def test_numbers_that_are_no_numbers_count_as_missing():
    assert seen((["A", "B"], [math.nan, math.inf])).total.tolist() == pytest.approx([math.nan, math.nan], nan_ok=True)


def test_command_line(tmp_path, monkeypatch, capsys):
    storage = f"sqlite:///{tmp_path / 'live.db'}"
    monkeypatch.setenv("AFTEREFFECT_STORAGE", storage)
    experiment = ae.Experiment.create("shop", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 10), storage=storage)
    assert main(["lag", "shop"]) == 0
    assert capsys.readouterr().out.startswith("cannot tell how long effects linger: 0 slots")
    pulled, shares = [], ae.Interval(3, 6).shares
    for slot in range(400):
        pulled.append({"A": 8.0, "B": 2.0}[experiment.ask(slot).arm])
        landing_now = pulled[::-1][: len(shares)]
        experiment.tell(slot, float(np.dot(landing_now, shares[: len(landing_now)])))
    assert main(["lag", "shop", "--plot", str(tmp_path / "lag.png")]) == 0
    assert (tmp_path / "lag.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.startswith("mean lag 4.0 slots (")
    assert main(["lag", "shop", "--format", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {"known", "mean", "low", "high", "lingers", "landed"}
    assert main(["lag", "shop", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("lag,landed,low,high\n0,")
    assert main(["lag", "shop", "--level", "2"]) == 2
    assert main(["lag", "shop", "--plot", str(tmp_path / "lag.txt")]) == 2
    assert main(["lag", "nobody"]) == 2
    assert "Traceback" not in capsys.readouterr().err
