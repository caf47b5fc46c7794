"""Plans as users make them."""

import json
import pickle
import time
from concurrent.futures import BrokenExecutor, Executor, Future
from multiprocessing import get_context

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.planning import _work
from aftereffect.planning._history import read_past
from made_up_history import make_history

FIXED = "fixed-switchback(block=7, blocks_per_arm=6)"
OPTIONS = {"slot": "1d", "arms": 2, "weeks": 12, "seed": 1, "jobs": 1, "power": False}


def make_plan(history=None, **options):
    given = {"lift": "10%", "runs": 12, "designs": [FIXED]} | OPTIONS | options
    return ae.plan(make_history(12) if history is None else history, **given)


@pytest.mark.compiled
def test_the_loss_of_a_fixed_switchback_is_known_exactly():
    """All of the time both arms are compared, in whole weeks: half of the lift is lost."""
    plan = make_plan(runs=40, lift="8%")
    promise = plan.promises[0]
    demand = 84 * plan.history.mean
    assert promise.loss.mean == pytest.approx(0.08 / 2 * demand, abs=4 * promise.loss.error)
    assert promise.loss.error < 0.01 * promise.loss.mean
    assert promise.gain.mean == pytest.approx(0.08 / 2 * demand, abs=4 * promise.gain.error)
    assert (promise.end_median, promise.end_late, promise.ends.mean) == (84, 84, 1)


@pytest.mark.compiled
def test_a_plan_is_the_same_with_other_processes_and_after_a_stop(tmp_path, monkeypatch):
    plan = make_plan(power=True)
    assert make_plan(power=True, jobs=2, folder=tmp_path).digest == plan.digest
    assert len(list(tmp_path.glob("*.json"))) > 3
    monkeypatch.setattr(_work, "play_job", None)  # nothing is left to play
    assert make_plan(power=True, folder=tmp_path).digest == plan.digest
    monkeypatch.undo()
    next(tmp_path.glob("*.json")).write_text("[[1]]")  # is damaged, and played again
    assert make_plan(power=True, folder=tmp_path).digest == plan.digest
    assert make_plan(power=True, seed=2).digest != plan.digest


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_folder_is_free_as_soon_as_a_plan_is_made(tmp_path):
    """Processes of the plan end a little later, and have its files open until then."""
    with _work.open_folder(tmp_path):
        late = get_context("fork").Process(target=time.sleep, args=(60,))
        late.start()
    try:
        with _work.open_folder(tmp_path):
            assert late.is_alive()
    finally:
        late.kill()
        late.join()


class Only(Executor):
    """Has nothing but `submit`, and works at once, or fails."""

    def __init__(self, answer):
        self.answer = answer

    def submit(self, function, /, job):
        future = Future()
        try:
            future.set_result(self.answer(function, job))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.mark.compiled
def test_a_plan_is_the_same_with_any_executor():
    plan = make_plan(executor=Only(lambda play, job: pickle.loads(pickle.dumps(play))(job)))
    assert plan.digest == make_plan().digest


def raise_error(error):
    raise error


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda *_: ("aftereffect 9", []), "a worker runs aftereffect 9, but this process runs"),
        (lambda *_: raise_error(BrokenExecutor()), "the executor failed .BrokenExecutor."),
        (lambda *_: raise_error(ModuleNotFoundError(name="own")), "lack the module 'own'"),
        (lambda *_: raise_error(TypeError("cannot pickle x")), "fixed-switchback.* cannot be sent"),
    ],
)
def test_workers_that_cannot_play_are_reported(answer, message):
    with pytest.raises(ae.WorkerError, match=message):
        make_plan(executor=Only(answer))


@pytest.mark.compiled
def test_a_plan_is_saved_and_loaded(tmp_path):
    plan = make_plan(power=True, unit="EUR")
    plan.save(tmp_path / "plan.json")
    again = ae.Plan.load(tmp_path / "plan.json")
    assert str(again) == str(plan)
    assert json.loads(json.dumps(again.to_dict())) == json.loads(
        (tmp_path / "plan.json").read_text()
    )
    assert FIXED in str(plan)
    assert "EUR" in plan._repr_html_()
    (tmp_path / "plan.json").write_text((tmp_path / "plan.json").read_text().replace("EUR", "USD"))
    with pytest.raises(ae.InputError, match="must be a plan"):
        ae.Plan.load(tmp_path / "plan.json")
    plan.save(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert "data:image/svg+xml" in page
    assert all(sentence.split(" ")[0] in page for sentence in plan.recommend())


@pytest.mark.compiled
def test_it_says_when_an_experiment_is_not_worth_it():
    # All arms are worse than the control: an experiment only costs.
    plan = make_plan(lift="-10..-5%")
    assert plan.warning.startswith("Do not run this experiment, because within a year")
    assert plan.recommend()[0] == plan.warning
    # With ten times the noise nobody can tell the arms apart.
    noisy = make_plan(make_history(12, deviation=1.0), lift="1%", runs=24)
    assert noisy.warning is not None
    assert make_plan(lift="20%").warning is None


@pytest.mark.compiled
def test_designs_of_all_kinds_can_be_planned():
    designs = ["optimal-switchback(carryover=2, blocks=20)", "round-robin", FIXED]
    plan = make_plan(designs=designs, runs=4)
    optimal, alternating, _ = plan.promises
    assert alternating.ends.mean == 0
    assert alternating.end_median is None
    assert optimal.loss.mean < 2 * alternating.loss.mean
    assert plan.recommended.loss.mean == min(promise.loss.mean for promise in plan.promises)


@pytest.mark.compiled
def test_first_figures_come_early_and_progress_is_told():
    told, rough = [], []
    make_plan(progress=lambda *done: told.append(done), show_rough=rough.append)
    assert told[-1] == (96, 96)  # a fixed switchback has eight times as many worlds
    assert [plan.is_rough for plan in rough] == [True]
    assert rough[0].promises[0].worlds == 64
    assert "Rough figures" in str(rough[0])


def write(folder, text):
    path = folder / "history.csv"
    path.write_text(f"time,total\n{text}")
    return str(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-03-02,5\n2026-03-03,x\n", "line 3"),
        ("2026-03-02,5\n2026-03-02T05:00,5\n", "line 3.*whole number of slots"),
        ("2026-03-02,5\n2026-03-02,6\n", "line 3.*line 2"),
        ("2026-03-02,-5\n", "line 2"),
        ("", "at least one total"),
        ("2026-03-02,5\n2026-03-03,6\n", "at least 14 slots of 1d, got 2"),
        ("".join(f"2026-03-{day:02d},5\n" for day in range(2, 30)), "totals that differ, got 5"),
        ("".join(f"2026-03-{day:02d},{day}e100\n" for day in range(2, 30)), "at most 1e.100"),
        ("2026-03-02,5\n2026-04-20,6\n2026-04-21,7\n", "in at least 70% of its slots, got 6%"),
    ],
)
def test_a_broken_history_is_refused(tmp_path, text, message):
    with pytest.raises(ae.InputError, match=message):
        make_plan(write(tmp_path, text))


def test_two_weeks_are_enough_with_a_warning():
    with pytest.warns(UserWarning, match="only 2.0 weeks"):
        past, _ = read_past(make_history(2), "1d")
    assert past.weeks == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slot": "2h"}, "slot"),
        ({"arms": 1}, "arms"),
        ({"weeks": 0}, "weeks"),
        ({"runs": 1}, "runs"),
        ({"designs": ["ars-xcb"]}, "ars-xcb"),
        ({"stop_when_loss_below": 0}, "stop_when_loss_below"),
        ({"executor": 3}, "executor"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ae.AftereffectError, match=message):
        make_plan(**options)


@pytest.mark.compiled
@pytest.mark.filterwarnings("error")
def test_histories_of_any_size_can_be_planned():
    """Figures have digits that matter; a history with hardly any totals is not worth a plan."""
    small = make_plan(make_history(12) * 1e-5)
    loss = small.recommended.loss
    assert float(str(loss).partition(" ")[0]) == pytest.approx(loss.mean, rel=0.1)
    assert make_plan(make_history(12) * 1e90).recommended.best.mean == 1
    rare = np.zeros(84)
    rare[[30, 60]] = 5
    assert make_plan(rare).warning.startswith("Do not run this experiment")


def test_totals_from_an_array_or_rows_are_the_same_history():
    totals = make_history(8)
    times = np.arange("2026-03-02", "2026-04-27", dtype="datetime64[D]")
    rows = [(str(time), float(total)) for time, total in zip(times, totals, strict=True)]
    by_rows, start = read_past(rows, "1d")
    assert (by_rows.totals == read_past(totals, "1d")[0].totals).all()
    assert start.isoformat() == "2026-03-02T00:00:00"
