"""Who won? `Experiment.results` reads the log as inference needs it, and says what it shows."""

import json

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.inference import analyse
from aftereffect.live import _results
from worlds import play_shop


@pytest.fixture(scope="module")
def shop():
    """An experiment of six weeks in which B brings 10 % more."""
    with play_shop(slots=1_000) as experiment:
        yield experiment


def read(experiment):
    with experiment._log.reading() as (view, state):
        first, (trial,) = _results.read_trials(view, experiment.record, state, _results.MAX_CELLS)
        return first, trial


def test_results_of_an_experiment(shop):
    results = shop.results(stop_when_loss_below=5)
    (effect,) = results.effects
    assert (results.control, results.leader, results.level) == ("A", "B", 0.95)
    assert effect.is_shown
    assert effect.low < 10 < (effect.high or np.inf)
    assert effect.amount == pytest.approx(effect.percent / 100 * results.mean)
    assert results.stops is True
    assert shop.status().no_results is None
    assert results.describe() == [
        "B is the best arm.",
        str(effect),
        f"Shipping B now is expected to cost {results._name_loss()}.",
        "The rule says stop: the expected loss is below 5 EUR per hour.",
    ]
    assert results.history[-1].effects == results.effects
    assert results.history[-1].slots == results.slots <= 1_000
    assert results.history[-1].time == shop.settings.find_time(results.slots)


def test_the_rule_is_recorded_with_the_experiment():
    storage = ae.open_storage("memory://")
    with play_shop(slots=700, lift=0.2, storage=storage, stop_when_loss_below=5) as experiment:
        assert experiment.status().stop_when_loss_below == 5
        assert experiment.results().stops is True
        assert experiment.results(stop_when_loss_below=7).stop_when_loss_below == 7
    again = ae.Experiment.open("shop", storage=storage)
    assert again.results().describe()[-1].startswith("The rule says stop: the expected loss is be")
    with pytest.raises(ae.ConflictError, match=r"stop_when_loss_below is 5\.0, got 6\.0"):
        play_shop(slots=0, storage=storage, stop_when_loss_below=6)
    with play_shop(slots=0) as plain:
        assert "stop_when_loss_below" not in plain.settings.to_json()
        assert plain.status().stop_when_loss_below is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stop_when_loss_below": 0}, "stop_when_loss_below must be a number above 0"),
        ({"stop_when_loss_below": "5"}, "stop_when_loss_below must be a number above 0"),
        (
            {"stop_when_loss_below": 5, "policy": "ars-ucb", "reward_range": (0, 1)},
            "no rule can say when to stop: results need the probabilities .* ars-ucb",
        ),
        (
            {"stop_when_loss_below": 5, "arms": [f"arm {number}" for number in range(41)]},
            "no rule can say when to stop: results compare at most 40 arms",
        ),
    ],
)
def test_rules_that_are_refused(given, message):
    storage = ae.open_storage("memory://")
    plain = {"arms": ["A", "B"], "policy": "fixed-switchback", "storage": storage}
    with pytest.raises(ae.ParameterError, match=message) as caught:
        ae.Experiment.create("shop", **plain | given)
    assert caught.value.field == "stop_when_loss_below"
    assert storage.names() == []


def test_results_are_written_as_json(shop):
    results = shop.results()
    written = json.loads(json.dumps(results.to_dict(), allow_nan=False))
    assert written["stops"] is None
    assert written["sentences"] == results.describe()
    assert written["effects"][0]["percent"] == results.effects[0].percent
    assert written["history"][-1]["time"] == results.history[-1].time


def test_wider_intervals_have_a_higher_level(shop):
    narrow, wide = (shop.results(level=level).effects[0] for level in (0.8, 0.99))
    assert wide.low < narrow.low


def test_the_trial_is_what_the_log_says(shop):
    first, trial = read(shop)
    records = shop.history()
    assert first == 0
    assert trial.totals.tolist() == [record.total for record in records]
    assert [shop.settings.arms[arm] for arm in trial.played] == [r.played for r in records]
    begins = [
        record.slot
        for record in records
        if record.slot == 0 or record.round != records[record.slot - 1].round
    ]
    assert trial.starts.tolist() == begins
    chances = trial.probabilities[np.arange(len(begins)), trial.decided].tolist()
    assert chances == [records[slot].probability for slot in begins]
    assert trial.places[0] == 24 * 6  # a Sunday
    assert len(trial.history) == len(shop.settings.history)
    assert analyse(trial, shop.settings.arms).effects == shop.results().effects


def test_skipped_slots_other_arms_and_gaps():
    with play_shop(slots=0) as experiment:
        experiment.skip(0, 4)
        for slot in range(5, 9):
            experiment.ask(slot)
        experiment.skip(9, 10)
        experiment.ask(11)
        decided = [record.arm for record in experiment.history()]
        other = "B" if decided[6] == "A" else "A"
        experiment.tell(5, 70)
        experiment.tell(6, 71, arm=other)
        experiment.mark_missing(8)
        experiment.tell(10, 72, arm=other)
        first, trial = read(experiment)
        assert first == 5
        assert trial.totals.tolist() == pytest.approx([70, 71, *[np.nan] * 3, 72], nan_ok=True)
        # The skipped slot 9 counts as the slot before; of slot 10, the total says the arm.
        names = [experiment.settings.arms[arm] for arm in trial.played]
        assert names == [decided[5], other, decided[7], decided[8], decided[8], other]
        assert np.isnan(trial.history[-5:]).all()
        assert len(trial.history) == len(experiment.settings.history) + 5
        assert trial.places[0] == 24 * 6 + 5


def test_places_follow_the_clock_on_the_wall():
    with play_shop(slots=0, start="2026-03-29T00:00", timezone="Europe/Berlin") as experiment:
        for slot in range(4):
            experiment.ask(slot)
        experiment.tell(3, 70)
        assert (read(experiment)[1].places - 24 * 6).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("prepare", [lambda _: None, lambda exp: exp.skip(0, 3), ae.Experiment.ask])
def test_experiments_that_have_just_begun(prepare):
    with play_shop(slots=0) as experiment:
        prepare(experiment)
        results = experiment.results(stop_when_loss_below=5)
        assert (results.blocks, results.slots, results.stops) == (0, 0, False)
        assert [sentence[:8] for sentence in results.describe()] == ["Not yet:", "The rule"]
        assert str(results.effects[0]).startswith("Not yet: too little is known")


@pytest.mark.parametrize(("total", "shown"), [(0, "0"), (-5, "-1,000")])
def test_totals_that_cannot_be_compared_in_percent(total, shown):
    """They say so, and not that effects have not arrived; with larger totals there are results."""
    with play_shop(slots=0) as experiment:
        for slot in range(200):
            experiment.ask(slot)
            experiment.tell(slot, total)
        results = experiment.results(stop_when_loss_below=5)
        assert results.describe() == [
            "Not yet: arms are compared in percent, so the totals must have a positive sum, and "
            f"that of the 200 totals so far is {shown}.",
            "The rule says go on: too little is known.",
        ]
        assert (results.blocks, results.effects[0].is_shown) == (0, False)
        assert json.loads(json.dumps(results.to_dict()))["obstacle"] == results.describe()[0]
        for slot in range(200, 300):
            experiment.ask(slot)
            experiment.tell(slot, 100, confirm=True)
        better = experiment.results()
        assert (better.obstacle, better.mean > 0) == (None, True)


def test_fewer_slots_than_a_window():
    with play_shop(slots=1) as experiment:
        assert experiment.settings.calendar.window > 1
        results = experiment.results()
        assert (results.blocks, results.slots) == (0, 0)


def test_slots_without_times():
    with ae.Experiment.create(
        "plain", arms=["A", "B"], policy="exp3", reward_range=(0, 1), horizon=500, seed=1,
        storage="memory://", control="A", control_share=0.3,
    ) as experiment:  # fmt: skip
        for slot in range(60):
            experiment.tell(slot, 0.5 + 0.3 * (experiment.ask(slot).arm == "B"))
        results = experiment.results()
        assert results.blocks > 0
        assert {look.time for look in results.history} == {None}
        assert "per slot" in results.describe()[-1]


def test_policies_that_do_not_record_probabilities():
    experiment = ae.Experiment.create(
        "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    )
    with pytest.raises(
        ae.ConflictError, match=r"ars-ucb.* does not record .*control_share"
    ) as refused:
        experiment.results()
    assert experiment.status().no_results == str(refused.value)


def test_what_is_refused(shop):
    with pytest.raises(ae.ParameterError, match=r"level must be one of 0\.8, .*got 0\.5"):
        shop.results(level=0.5)
    for limit in (0, -1, float("nan")):
        with pytest.raises(ae.ParameterError, match="stop_when_loss_below"):
            shop.results(stop_when_loss_below=limit)
    arms = [f"arm {number}" for number in range(41)]
    crowd = ae.Experiment.create("crowd", arms=arms, policy="fixed-switchback", storage="memory://")
    with pytest.raises(ae.ConflictError, match="at most 40 arms, and 'crowd' has 41"):
        crowd.results()


def test_too_little_known_does_not_stop():
    """The loss is below any large limit before anything is known."""
    with play_shop(slots=60) as experiment:
        results = experiment.results(stop_when_loss_below=1e6)
        assert results.stops is False
        assert results.describe()[-1] == "The rule says go on: too little is known."


def test_of_long_experiments_the_first_slots_are_read(shop, monkeypatch):
    monkeypatch.setattr(_results, "MAX_CELLS", 1_200)
    trial = read(shop)[1]
    assert len(trial.totals) == len(trial.places) == 600
    monkeypatch.setattr(_results, "MAX_ROUNDS", 3)
    shorter = read(shop)[1]
    assert shorter.starts.tolist() == trial.starts[:3].tolist()
    assert len(shorter.totals) == len(shorter.played) == len(shorter.places) == trial.starts[3]


def test_the_picture(shop, tmp_path):
    pytest.importorskip("matplotlib")
    for name in ("results.png", "results.svg"):
        shop.results().save_plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5_000
    from matplotlib.figure import Figure

    axes = shop.results().plot(Figure().add_subplot())
    assert axes.get_ylabel() == "effect in %"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["B against A"]
