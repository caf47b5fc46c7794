"""Studies: tables, files, traces, pictures."""

import json
import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import aftereffect as ae
from aftereffect._core.installation import require_extra
from aftereffect.simulation import print_progress, save_picture, worker_pool
from aftereffect.simulation._seal import add_seal

ENV = ae.StochasticBandit([0.9, 0.6, 0.3], ae.Interval(3, 8))


@pytest.fixture(scope="module")
def study():
    return ae.simulate(["ars-ucb", "ucb1"], ENV, 1_000, 30, seed=7, checkpoints=12)


def test_table(study):
    lines = str(study).splitlines()
    assert lines[0] == str(ENV)
    assert lines[1] == "horizon 1,000, 30 replications, seed 7, roundwise engine"
    assert lines[3].split() == ["policy", "mean", "regret", "sem", "p95"]
    runs = study["ucb1"]
    sem = runs.final.std(ddof=1) / math.sqrt(30)
    expected = f"{runs.final.mean():,.1f} {sem:,.1f} {np.quantile(runs.final, 0.95):,.1f}"
    assert lines[5].split() == ["ucb1", *expected.split()]
    assert len({len(line) for line in lines[3:]}) == 1


def test_reprs_are_short(study):
    assert repr(study).startswith(f"<Study of {ENV}: horizon 1,000, 30 replications, mean regret: ")
    assert f", ucb1 {study['ucb1'].mean[-1]:,.1f}>" in repr(study)
    assert repr(study[1]) == "<PolicyRuns of ucb1: 30 replications>"
    assert repr(study.trace(1, 0)) == "<Trace of 1,000 slots>"


def test_a_single_replication_has_no_standard_error():
    alone = ae.simulate("ucb1", ENV, 100, 1, seed=1)
    assert alone[0].sem is None
    assert str(alone).splitlines()[-1].split()[2] == "-"
    assert json.loads(json.dumps(alone.summaries()))[0]["regret_sem"] == [None] * len(
        alone.checkpoints
    )
    alone.plot(Figure().add_subplot())


def test_checkpoints_are_even_in_log_time_and_end_with_the_horizon(study):
    assert study.checkpoints[0] == 1
    assert study.checkpoints[-1] == 1_000
    steps = np.diff(np.log(study.checkpoints[5:]))
    assert steps == pytest.approx(np.full(len(steps), steps[-1]), rel=0.05)
    assert ae.simulate("ucb1", ENV, 7, 1, seed=1).checkpoints == (1, 2, 3, 4, 5, 6, 7)
    assert ae.simulate("ucb1", ENV, 1_000, 1, seed=1, checkpoints=1).checkpoints == (1_000,)
    assert ae.simulate(
        "ucb1", ENV, 1_000, 1, seed=1, checkpoints=np.array([10, 1_000])
    ).checkpoints == (10, 1_000)


def test_policies_are_found_by_place_label_spec_and_object(study):
    for key in (0, "ars-ucb", "ars-ucb(alpha=4, growth=power(2))", "ars-ucb(4)", ae.ArsUcb()):
        assert study[key] is study.runs[0]
        assert key in study or key == 0
    assert study.labels == ["ars-ucb(alpha=4, growth=power(2))", "ucb1"]
    assert [runs.label for runs in study] == study.labels
    assert len(study) == 2
    assert study.runs[1] in study
    assert not any(
        key in study for key in ("round-robin", ae.ArsUcb(alpha=1), "no spec (", 0, None)
    )


def test_an_unknown_policy_is_a_key_error_and_a_parameter_error(study):
    for kind in (ae.UnknownPolicyError, ae.ParameterError, KeyError):
        with pytest.raises(kind) as caught:
            study["round-robin"]
        assert str(caught.value).startswith("no policy 'round-robin' in this study; there are: ars")
    with pytest.raises(IndexError):
        study[2]


def test_a_notebook_shows_an_escaped_table(study):
    html = study._repr_html_()
    assert html.count("<tr>") == 3
    assert f"<td>{study['ucb1'].mean[-1]:,.1f}</td>" in html
    assert "seed 7" in html
    odd = replace(study, bandit_label="<b>&", runs=(replace(study.runs[0], label="<i>"),))
    assert "&lt;b&gt;&amp;" in odd._repr_html_()
    assert "<td>&lt;i&gt;</td>" in odd._repr_html_()


def test_summaries_have_the_promised_fields(study):
    fields = "policy bandit horizon replications seed checkpoints regret_mean regret_sem regret_p95 pulls_mean rounds_mean"
    summary = json.loads(json.dumps(study.summaries()))[1]
    assert {*fields.split(), "seconds"} <= set(summary)
    assert summary["policy"] == "ucb1"
    assert ae.parse(summary["bandit"]) == ENV
    assert (
        len(summary["regret_mean"])
        == len(summary["regret_sem"])
        == len(summary["regret_p95"])
        == len(study.checkpoints)
    )
    assert summary["pulls_mean"] == study[1].pulls.mean(axis=0).tolist()
    assert summary["rounds_mean"] == 1_000


def test_polars(study):
    frame = study.to_polars()
    assert frame.columns == ["policy", "replication", "slot", "regret"]
    assert frame.height == 2 * 30 * len(study.checkpoints)
    one = frame.filter((pl.col("policy") == "ucb1") & (pl.col("replication") == 4))
    assert one["slot"].to_list() == list(study.checkpoints)
    assert one["regret"].to_list() == study["ucb1"].regret[4].tolist()


def test_save_and_load(study, tmp_path):
    path = tmp_path / "study.parquet"
    study.save(path)
    loaded = ae.Study.load(path)
    assert str(loaded) == str(study)
    assert loaded.summaries() == study.summaries()
    for mine, theirs in zip(study, loaded, strict=True):
        for name in ("regret", "pulls", "rounds"):
            assert np.array_equal(getattr(mine, name), getattr(theirs, name))
        assert mine.policy == theirs.policy
    assert list(tmp_path.iterdir()) == [path]
    assert np.array_equal(loaded.trace("ucb1", 3).arms, study.trace("ucb1", 3).arms)


def test_a_study_of_a_callable_growth_can_be_saved_but_not_played_again(tmp_path):
    study = ae.simulate(ae.ArsUcb(growth=lambda k: k), ENV, 100, 2, seed=1)
    study.save(tmp_path / "study.parquet")
    loaded = ae.Study.load(tmp_path / "study.parquet")
    assert np.array_equal(loaded[0].regret, study[0].regret)
    assert len(study.trace(0, 1)) == 100
    with pytest.raises(
        ae.ParameterError, match="is not a spec string, so it cannot be played again"
    ):
        loaded.trace(0, 1)


def test_files_that_are_no_studies_are_refused(tmp_path):
    with pytest.raises(ae.InputError, match="there is no such file"):
        ae.Study.load(tmp_path / "missing.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(ae.InputError, match="not a Parquet file"):
        ae.Study.load(tmp_path / "text.parquet")
    (tmp_path / "study.csv").write_text("policy\n")
    with pytest.raises(ae.InputError, match=r"can be loaded from .parquet files only"):
        ae.Study.load(tmp_path / "study.csv")
    pl.DataFrame({"policy": ["a"]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(
        ae.InputError,
        match=r"not written by Study.save, or damaged",
    ):
        ae.Study.load(tmp_path / "other.parquet")
    add_seal(tmp_path / "other.parquet")
    with pytest.raises(
        ae.InputError, match="not a saved study, it lacks the columns bandit, engine"
    ):
        ae.Study.load(tmp_path / "other.parquet")


@pytest.mark.parametrize(
    "change",
    [
        pl.col("rounds").cast(pl.String),
        pl.col("regret").cast(pl.List(pl.String)),
        pl.lit(None, pl.Int64).alias("horizon"),
        pl.when(pl.int_range(pl.len()) == 5)
        .then(pl.lit("ucb1"))
        .otherwise(pl.col("bandit"))
        .alias("bandit"),
        pl.col("regret").list.head(3),
        pl.col("replication") + 1,
        pl.lit("other").alias("engine"),
        pl.lit("odd").alias("policy"),
    ],
    ids=["type", "list", "null", "mixed", "short", "replications", "engine", "one policy"],
)
def test_files_that_look_like_a_study_but_are_none_are_refused(study, tmp_path, change):
    path = tmp_path / "study.parquet"
    study.save(path)
    pl.read_parquet(path).with_columns(change).write_parquet(path)
    add_seal(path)
    with pytest.raises(ae.InputError, match="not a saved study"):
        ae.Study.load(path)


def test_rows_may_come_in_any_order(study, tmp_path):
    path = tmp_path / "study.parquet"
    study.save(path)
    pl.read_parquet(path).reverse().write_parquet(path)
    add_seal(path)
    loaded = ae.Study.load(path)
    assert np.array_equal(loaded["ucb1"].regret, study["ucb1"].regret)


def test_damaged_files_are_refused(study, tmp_path):
    """A flipped bit, wherever it is, is noticed before polars sees it: there it gives other numbers, or ends the process."""
    path = tmp_path / "study.parquet"
    study.save(path)
    good = path.read_bytes()
    rng = np.random.default_rng(1)
    for place in (*rng.integers(len(good), size=600), *range(len(good) - 60, len(good))):
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        with pytest.raises(ae.InputError, match="cannot read"):
            ae.Study.load(path)
    for length in (0, 3, 12, 100, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(ae.InputError, match="cannot read"):
            ae.Study.load(path)


def test_a_sealed_file_is_a_parquet_file_for_all(study, tmp_path):
    path = tmp_path / "study.parquet"
    study.save(path)
    frame = pl.read_parquet(path)
    assert frame.height == 60
    assert frame["regret"].explode().to_list() == [
        *study[0].regret.ravel(),
        *study[1].regret.ravel(),
    ]
    assert pl.scan_parquet(path).select("policy", "rounds").collect().height == 60
    assert pl.read_parquet_schema(path) == frame.schema


def test_csv_has_the_rows_of_the_parquet_file(study, tmp_path):
    study.save(tmp_path / "study.csv")
    study.save(tmp_path / "study.parquet")
    wide, rows = pl.read_csv(tmp_path / "study.csv"), pl.read_parquet(tmp_path / "study.parquet")
    alike = [
        "policy",
        "bandit",
        "engine",
        "horizon",
        "seed",
        "made_by",
        "seconds",
        "replication",
        "rounds",
    ]
    assert wide.select(alike).rows() == rows.select(alike).rows()
    assert wide.columns == [
        *alike,
        "pulls_0",
        "pulls_1",
        "pulls_2",
        *(f"regret_{slot}" for slot in study.checkpoints),
    ]
    assert wide.select("^pulls_.*$").to_numpy().tolist() == rows["pulls"].to_list()
    assert wide.select("^regret_.*$").to_numpy().tolist() == rows["regret"].to_list()
    assert {path.name for path in tmp_path.iterdir()} == {"study.csv", "study.parquet"}


def test_pandas(study, monkeypatch):
    """Made of columns, so that pandas alone is needed; here its place is taken by what keeps them."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr("aftereffect._core.installation.find_spec", lambda module: None)
    with pytest.raises(
        ae.MissingExtraError,
        match="this needs pandas: install it with pip, as no extra of aftereffect includes it",
    ):
        study.to_pandas()
    monkeypatch.setattr("aftereffect._core.installation.find_spec", lambda module: object())
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    columns, frame = study.to_pandas(), study.to_polars()
    assert list(columns) == frame.columns
    assert all(list(values) == frame[name].to_list() for name, values in columns.items())


def test_a_study_of_recorded_rewards_can_be_saved_but_not_played_again(tmp_path):
    bandit = ae.AdversarialBandit(np.random.default_rng(1).random((100, 3)), ae.HoldBack(3))
    study = ae.simulate("exp3", bandit, 100, 4, seed=1)
    study.save(tmp_path / "study.parquet")
    loaded = ae.Study.load(tmp_path / "study.parquet")
    assert str(loaded) == str(study)
    assert np.array_equal(loaded["exp3"].regret, study["exp3"].regret)
    assert len(study.trace("exp3", 1)) == 100
    with pytest.raises(
        ae.ParameterError, match="is not a spec string, so it cannot be played again from a file"
    ):
        loaded.trace("exp3", 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("study.txt", "must end in .parquet or .csv"),
        ("missing/study.parquet", "does not exist, create it first"),
        (".", "must end in"),
    ],
)
def test_paths_that_cannot_be_written_are_refused(study, tmp_path, name, message):
    with pytest.raises(ae.OutputError, match=message):
        study.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(study, tmp_path, monkeypatch):
    path = tmp_path / "study.parquet"
    path.write_text("precious")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail)
    with pytest.raises(ae.OutputError, match="No space left on device"):
        study.save(path)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("policy", ["ars-ucb", "ucb1"])
def test_a_trace_is_the_slotwise_run(policy):
    study = ae.simulate(policy, ENV, 800, 5, seed=3, engine="slotwise")
    for replication in (0, 4):
        trace = study.trace(policy, replication)
        assert len(trace) == 800
        assert np.bincount(trace.arms, minlength=3).tolist() == study[0].pulls[replication].tolist()
        assert set(trace.rewards) <= {0.0, 1.0}
    frame = trace.to_polars()
    assert frame.columns == ["slot", "arm", "total", "reward"]
    assert frame.height == 800


def test_traces_that_do_not_exist_are_refused(study):
    with pytest.raises(
        ae.ParameterError, match="replication must be a whole number from 0 to 29, got 30"
    ):
        study.trace("ucb1", 30)
    long = ae.simulate("ars-ucb", ENV, 10**9, 1, seed=1)
    with pytest.raises(
        ae.ParameterError, match="at most 100,000,000 slots, got a horizon of 1,000,000,000"
    ):
        long.trace(0, 0)


def test_plot_shows_every_policy_with_a_band(study):
    ax = study.plot(Figure().add_subplot())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        runs.label for runs in study
    ]
    assert len(ax.lines) == len(ax.collections) == 2
    assert ax.lines[1].get_ydata().tolist() == study["ucb1"].mean.tolist()
    assert ax.get_xlabel()
    assert ax.get_ylabel()


def test_a_trace_is_drawn_as_a_bar_per_round():
    """A row per arm; together the bars cover every slot once, where its arm was pulled."""
    trace = ae.simulate("ars-ucb", ae.StochasticBandit([0.9, 0.5]), 300, 1, seed=1).trace(0, 0)
    ax = trace.plot(Figure().add_subplot())
    drawn = np.full(300, -1)
    for arm, collection in enumerate(ax.collections):
        for path in collection.get_paths():
            (left, low), (right, high) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            assert low < arm < high
            drawn[int(left) : int(right)] = arm
    assert np.array_equal(drawn, trace.arms)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["arm 0", "arm 1"]


def test_plot_makes_axes_of_its_own_if_given_none(study, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    ax = study.plot()
    assert ax.figure is pyplot.gcf()
    pyplot.close(ax.figure)


def test_progress_counts_every_replication():
    steps = []
    ae.simulate(["ucb1", "ars-ucb"], ENV, 100, 37, seed=1, progress=steps.append)
    assert sum(steps) == 74


def test_progress_true_prints_to_standard_error(capsys):
    quiet = ae.simulate("ucb1", ENV, 100, 37, seed=1, progress=False)
    assert capsys.readouterr().err == ""
    study = ae.simulate("ucb1", ENV, 100, 37, seed=1, progress=True)
    printed = capsys.readouterr()
    assert printed.err == "37 of 37 replications\n"
    assert printed.out == ""
    assert np.array_equal(study[0].regret, quiet[0].regret)


def test_progress_on_a_terminal_is_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("aftereffect.simulation._progress._BAR_PAUSE", 0.0)
    with print_progress(4, "cells") as show:
        show(2, "about 3 s left")
        show(2)
    half, whole = capsys.readouterr().err.split("\r")[1:]
    assert half.startswith(f"[{'#' * 15}{'-' * 15}] 2 of 4 cells, about 3 s left")
    assert whole.startswith(f"[{'#' * 30}] 4 of 4 cells")
    assert whole.endswith("\n")


@pytest.mark.parametrize("jobs", [0, -2, 1_025, 1.5])
def test_jobs_out_of_range_are_refused(jobs):
    with pytest.raises(ae.ParameterError, match="jobs must be"):
        ae.simulate("ucb1", ENV, 100, 2, seed=1, jobs=jobs)


def test_jobs_of_minus_one_are_all_cores():
    with worker_pool(-1) as all_cores, worker_pool() as default:
        assert all_cores.size == default.size >= 1
    ae.simulate("ucb1", ENV, 100, 2, seed=1, jobs=-1)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr("aftereffect._core.installation.find_spec", lambda name: None)
    with pytest.raises(
        ae.MissingExtraError, match=r'this needs polars: pip install "aftereffect\[data\]"'
    ):
        require_extra("data")


def test_a_dozen_policies_can_be_told_apart_in_a_picture(tmp_path):
    policies = [f"ars-ucb(alpha={alpha})" for alpha in range(1, 11)] + [
        "odaaf(variant=variance)",
        "odaaf(variant=bounded)",
    ]
    bandit = ae.StochasticBandit([0.9, 0.1], ae.UniformDelay(10, 30))
    study = ae.simulate(policies, bandit, 300, 3, seed=1, checkpoints=5)
    save_picture(study, tmp_path / "dozen.png")
    ax = study.plot(Figure().add_subplot())
    assert len({(line.get_color(), str(line._unscaled_dash_pattern)) for line in ax.lines}) == 12


def test_a_single_checkpoint_is_a_mark(tmp_path):
    study = ae.simulate("ucb1", ENV, 100, 3, seed=1, checkpoints=1)
    assert study.plot(Figure().add_subplot()).lines[0].get_marker() == "o"


def test_a_study_at_its_horizon_alone():
    study = ae.simulate(
        ["ucb1", "round-robin"], ae.StochasticBandit([0.9, 0.5]), 200, 30, seed=1, checkpoints=10
    )
    end = study.final_only()
    assert end.checkpoints == (200,)
    assert str(end) == str(study)
    for short, runs in zip(end, study, strict=True):
        assert short.regret.tolist() == runs.regret[:, -1:].tolist()
        assert not np.shares_memory(short.regret, runs.regret)
        assert short.pulls.tolist() == runs.pulls.tolist()
