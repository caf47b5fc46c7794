"""Covariates in simulations: each slot comes with its own, of the history and of the run."""

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.simulation import Task, interpret_driver, prepare, run_batch
from aftereffect.testing import check_policy
from thermometer import NAMES, Thermometer, make_numbers, write_history

WEEKS, BEFORE, HORIZON = 30, 4, 60
NUMBERS = make_numbers(7 * WEEKS)


def make_bandit(tmp_path, **given):
    file = write_history(tmp_path / "history.csv", NUMBERS)
    settings = {"slot": "1d", "weeks_before": BEFORE, "covariates": NAMES}
    return ae.HistoryBandit(file, [0, 0.1, 0.2], **settings | given)


def run(policy, bandit, build=None, replications=3):
    task = Task(policy, bandit, "slotwise", HORIZON, (HORIZON,), 1, range(replications))
    return run_batch(task, prepare(task, build) if build else prepare(task))


@pytest.mark.parametrize(
    "build",
    [interpret_driver, pytest.param(None, marks=pytest.mark.compiled)],
    ids=["plain", "fast"],
)
@pytest.mark.parametrize("feed", ["defects", "defects(late=5, missing=.2)"])
def test_every_slot_comes_with_its_covariates(tmp_path, build, feed):
    """Whatever happens to its total."""
    bandit = make_bandit(tmp_path, start=70, feed=ae.parse(feed))
    for states in run(Thermometer(), bandit, build).states.covariates:
        expected = NUMBERS[70 - 7 * BEFORE : 70 + HORIZON]
        assert np.array_equal(states, expected, equal_nan=True)


@pytest.mark.compiled
def test_covariates_follow_the_window_that_a_run_draws(tmp_path):
    """The policy stores what it is shown, and no two windows of the history are alike."""
    states = run(Thermometer(), make_bandit(tmp_path), replications=12).states
    begins = set()
    for numbers in states.covariates:
        (begin,) = [
            first
            for first in range(len(NUMBERS) - len(numbers) + 1)
            if np.array_equal(NUMBERS[first : first + len(numbers)], numbers, equal_nan=True)
        ]
        assert begin % 7 == 0
        begins.add(begin)
    assert len(begins) > 3


@pytest.mark.compiled
def test_compiled_runs_are_plain_ones_and_depend_on_covariates(tmp_path):
    bandit = make_bandit(tmp_path)
    fast, plain = run(Thermometer(), bandit), run(Thermometer(), bandit, interpret_driver)
    assert (fast.runs.pulls == plain.runs.pulls).all()
    assert np.array_equal(fast.states.probabilities, plain.states.probabilities)
    without = run(Thermometer(), make_bandit(tmp_path, covariates=None))
    assert not np.array_equal(fast.states.probabilities, without.states.probabilities)
    assert without.states.covariates.shape == (3, HORIZON + 7 * BEFORE, 0)


@pytest.mark.compiled
def test_a_policy_that_uses_covariates_passes_the_checks():
    check_policy(Thermometer())


@pytest.mark.compiled
def test_baselines_ignore_covariates(tmp_path):
    for policy in (ae.FixedSwitchback(7, 1), ae.OptimalSwitchback(3)):
        given, none = (
            ae.simulate(policy, make_bandit(tmp_path, covariates=names), HORIZON, 4, seed=2)[0]
            for names in (NAMES, None)
        )
        assert (given.final == none.final).all()


def test_the_spec_string_and_the_data_digest_say_which_covariates(tmp_path):
    bandit = make_bandit(tmp_path)
    assert str(bandit).endswith('covariates=["temperature", "rain"])')
    assert ae.parse(str(bandit)) == bandit
    assert bandit.covariate_count == 2
    none = make_bandit(tmp_path, covariates=None)
    assert "covariates" not in str(none)
    assert none.covariate_count == 0
    assert bandit.data_digest != none.data_digest
    odd = make_bandit(tmp_path, covariates=["geometric", "wind speed", "true"])
    assert ae.parse(str(odd)).covariates == ("geometric", "wind speed", "true")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("temperature", "covariates must be a list"),
        (["temperature", "temperature"], "covariates must have different names"),
        (["Rain", "rain"], "must differ by more than capitals"),
        (["Total"], "the name of another column, got 'Total'"),
        (['"'], "must not have quotes"),
        ([" rain"], "a covariate's name must be 1 to 100"),
        ([7], "a covariate's name must be"),
        ([f"number {n}" for n in range(17)], "covariates must be at most 16, got 17"),
    ],
)
def test_names_that_are_refused(tmp_path, names, message):
    with pytest.raises(ae.ParameterError, match=message):
        make_bandit(tmp_path, covariates=names)


def test_columns_that_are_not_there(tmp_path):
    with pytest.raises(
        ae.InputError,
        match=r"must have one column 'wind', .* got none: its columns are rain, time, shop, total, temp",
    ):
        ae.simulate("round-robin", make_bandit(tmp_path, covariates=["wind"]), HORIZON, 2)
    with pytest.raises(ae.ParameterError, match="covariates are columns of a file"):
        ae.HistoryBandit([1, 2, 3], [0, 0.1], covariates=["rain"])
