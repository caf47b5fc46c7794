"""Histories that are far too long, too large or something else: one line, at once, and nothing is recorded."""

import os
import random

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.live._history import read_past_totals
from aftereffect.rewards import _columns


def create(history, name="shop", storage="memory://"):
    return ae.Experiment.create(
        name, arms=["A", "B"], slot="1h", history=history, seed=1, storage=storage
    )


@pytest.mark.parametrize(
    ("history", "message"),
    [
        (
            [1e308] * 100,
            "a total of the history must be a number from -1e.100 to 1e.100, got 1e.308",
        ),
        ([5.0, -2e100], "from -1e.100 to 1e.100"),
        ([("2026-03-02T00:00", 1e200)], "from -1e.100 to 1e.100"),
        (np.ones((2, 2)), "expected a time"),
        (np.ones((2, 2, 2)), "expected a time"),
        (np.float64(3), "a list of"),
        (range(10**12), "at most 100,000 slots before the start"),
        ([("2026-03-02T00:00", 1)] * 200_000, "at most 100,000 slots"),
        (b"abc", "a list of"),
    ],
)
def test_a_history_that_cannot_be_is_refused_and_nothing_is_recorded(history, message):
    storage = ae.open_storage("memory://")
    with pytest.raises(ae.ParameterError, match=message) as caught:
        create(history, storage=storage)
    assert "\n" not in str(caught.value)
    assert storage.find("shop") is None


@pytest.mark.compiled
@pytest.mark.parametrize("seed", [2, 7])
def test_totals_of_all_sizes_in_one_history_are_taken(seed):
    """What one shape of delay expected was so small that its square was 0, by which was divided."""
    rng = random.Random(seed)
    history = [rng.choice((rng.random(), rng.choice((0.0, 5.0, 1e90, 1e-300)))) for _ in range(40)]
    experiment = ae.Experiment.create(
        "shop",
        arms=["A", "B"],
        slot="1d",
        start="2026-03-02",
        history=history,
        seed=1,
        storage="memory://",
    )
    for _ in range(3):
        experiment.tell(experiment.ask().slot, 1.0, confirm=True)
    assert experiment.verify().whole


def test_an_array_is_a_list_of_totals():
    assert read_past_totals(np.array([37.0, np.nan])) == ([], (37.0, None))


def test_a_file_with_too_many_rows_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(_columns, "MAX_ROWS", 10)
    path = tmp_path / "history.csv"
    path.write_text("time,total\n" + "2026-03-02T00:00,5\n" * 11 + "this line is not read\n")
    with pytest.raises(ae.InputError, match="must have at most 10 rows"):
        create(path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no /dev/zero")
def test_a_file_without_an_end_is_refused():
    with pytest.raises(ae.InputError, match="must have the columns time and total"):
        create("/dev/zero")
