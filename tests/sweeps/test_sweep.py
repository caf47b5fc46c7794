"""Sweeps: what a file means, what is refused, and that nothing is lost when one is killed."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.simulation import Task
from aftereffect.sweeps import Estimate
from aftereffect.sweeps._grid import COLUMNS, KEYS, RESULTS

SMALL = """
[grid]
policy = ["ars-ucb(alpha={alpha})", "ucb1"]
arms = [2, 3]
delay = ["interval(3,4)", "geometric({gamma})"]
horizon = [1e2, 200]
replications = 4
seed = [1, 2]

[parameters]
alpha = [1, 4]
gamma = [0.5, 0.9]
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="sweep.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def results_of(folder):
    """All that a sweep left, without how long it took."""
    return (
        pl.read_parquet(folder / "*.parquet")
        .drop("seconds")
        .sort("policy", "bandit", "horizon", "seed", "replication")
    )


def test_cells_are_all_combinations_and_only_of_parameters_that_are_named(file):
    sweep = ae.Sweep.read(file(SMALL))
    # policies: 2 + 1, delays: 1 + 2, times arms, horizons, seeds
    assert len(sweep) == 3 * 3 * 2 * 2 * 2
    assert len({cell.name for cell in sweep.cells}) == len(sweep)
    filled = {(cell.settings["policy"], cell.settings["delay"]) for cell in sweep.cells}
    assert ("ars-ucb(alpha=4)", "geometric(0.5)") in filled
    assert ("ucb1", "interval(3,4)") in filled
    assert len(filled) == 9


def test_a_parameter_named_twice_in_a_cell_has_one_value(file):
    sweep = ae.Sweep.read(
        file("""
        [grid]
        policy = "generalized-odaaf(d={d})"
        means = [0.9, 0.1]
        delay = "uniform-delay(0,{d})"
        horizon = 1000
        [parameters]
        d = [3, 7]
        """)
    )
    assert [(cell.settings["policy"], cell.settings["delay"]) for cell in sweep.cells] == [
        ("generalized-odaaf(d=3)", "uniform-delay(0,3)"),
        ("generalized-odaaf(d=7)", "uniform-delay(0,7)"),
    ]


def test_a_cell_is_the_study_that_simulate_would_play(file, tmp_path):
    results = ae.Sweep.read(file(SMALL)).play(tmp_path / "out")
    for cell, study in list(results)[::17]:
        means = {2: [0.9, 0.1], 3: [0.9, 0.5, 0.1]}[cell.settings["arms"]]
        bandit = ae.StochasticBandit(means, ae.parse(cell.settings["delay"]))
        alone = ae.simulate(
            cell.settings["policy"], bandit, cell.settings["horizon"], 4, seed=cell.settings["seed"]
        )
        assert str(study) == str(alone)
        assert (study.runs[0].regret == alone.runs[0].regret).all()


def test_fixed_rewards_are_read_beside_the_file(file, tmp_path):
    (tmp_path / "clicks.csv").write_text("arm\n" + "\n".join("01120" * 20))
    text = """
        [grid]
        policy = ["ars-exp3", "exp3"]
        rewards = ["clicks.csv", "drawn-arm([0.5,0.3,0.2], seed={s})"]
        delay = ["immediate", "hold-back(2)"]
        horizon = 100
        replications = 2
        [parameters]
        s = [1, 2]
        """
    results = ae.Sweep.read(file(text)).play(tmp_path / "out")
    assert len(results) == 2 * 3 * 2
    assert results.to_polars()["arms"].to_list() == [3] * 12


def test_parts_are_a_data_set_of_studies(file, tmp_path):
    results = ae.Sweep.read(file(SMALL)).play(tmp_path / "out")
    frame = results_of(tmp_path / "out")
    assert frame.height == 4 * len(results)
    table = results.to_polars()
    assert table.height == len(results)
    assert table.columns[:6] == ["alpha", "gamma", "policy", "arms", "delay", "horizon"]
    row = table.row(5, named=True)
    study = ae.Study.load(tmp_path / "out" / row["part"])
    assert study.runs[0].final.mean() == row["regret_mean"]


def test_finished_cells_are_not_played_again(file, tmp_path):
    source, out = file(SMALL), tmp_path / "out"
    first = ae.Sweep.read(source).play(out)
    times = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    names = sorted(times)
    (out / names[0]).unlink()
    (out / names[1]).write_bytes(b"cut short")
    (out / ".draft-0123456789abcdef.part").write_bytes(b"half writ")
    again = ae.Sweep.read(source).play(out)
    assert (first.reused, again.reused) == (0, len(first) - 2)
    changed = {
        path.name for path in out.glob("*.parquet") if path.stat().st_mtime_ns != times[path.name]
    }
    assert changed == set(names[:2])
    assert not list(out.glob(".draft-*"))


def test_a_larger_grid_keeps_the_cells_of_the_smaller(file, tmp_path):
    out = tmp_path / "out"
    few = ae.Sweep.read(file(SMALL)).play(out)
    more = ae.Sweep.read(file(SMALL.replace("seed = [1, 2]", "seed = [3, 2, 1]"))).play(out)
    assert more.reused == len(few)
    assert len(more) == len(few) * 3 // 2


def test_other_code_is_played_again(file, tmp_path, monkeypatch):
    source, out = file(SMALL), tmp_path / "out"
    ae.Sweep.read(source).play(out)
    monkeypatch.setattr(
        "aftereffect.simulation._plan.describe_code", lambda: "aftereffect of tomorrow"
    )
    assert ae.Sweep.read(source).play(out).reused == 0


def test_a_damaged_cell_is_played_again(file, tmp_path):
    source, out = file(PLAYED), tmp_path / "out"
    ((_, before),) = ae.Sweep.read(source).play(out)
    (cell,) = out.glob("*.parquet")
    damaged = bytearray(cell.read_bytes())
    damaged[len(damaged) // 3] ^= 1
    cell.write_bytes(damaged)
    again = ae.Sweep.read(source).play(out)
    ((_, after),) = again
    assert again.reused == 0
    assert after[0].regret.tolist() == before[0].regret.tolist()


def test_a_notebook_shows_a_table_and_progress_goes_to_standard_error(file, tmp_path, capsys):
    text = PLAYED.replace("arms = 2", "arms = [2, 3]")
    results = ae.Sweep.read(file(text)).play(tmp_path / "<out>", progress=True)
    assert capsys.readouterr().err == "2 of 2 cells\n"
    html = results._repr_html_()
    assert html.startswith("<table><caption>2 cells in ")
    assert "&lt;out&gt;" in html
    assert "<th>arms</th>" in html
    assert html.count("<tr>") == 3
    assert repr(results) == f"<SweepResults in {tmp_path}/<out>: 2 cells, 0 reused>"


def test_a_file_with_a_byte_order_mark(file):
    source = file(PLAYED)
    source.write_bytes(b"\xef\xbb\xbf" + source.read_bytes())
    assert len(ae.Sweep.read(source)) == 1


def test_one_process_at_a_time(file, tmp_path):
    sweep = ae.Sweep.read(file(SMALL))

    def second(stage):
        with pytest.raises(ae.OutputError, match="another process is writing there"):
            sweep.play(tmp_path / "out")

    sweep.play(tmp_path / "out", progress=second)


def test_progress_counts_cells_and_guesses_the_end(file, tmp_path):
    stages = []
    sweep = ae.Sweep.read(file(SMALL))
    sweep.play(tmp_path / "out", progress=stages.append)
    complete = [stage.complete for stage in stages]
    assert complete == sorted(complete)
    assert (complete[0], complete[-1]) == (0, len(sweep))
    assert stages[0].seconds_left is None
    assert stages[-1].seconds_left == 0
    assert stages[1].seconds_left > 0


def test_time_left_by_hand(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("aftereffect.sweeps.time.monotonic", lambda: now[0])

    def task(policy, horizon, arms):
        means = tuple(0.9 / (arm + 1) for arm in range(arms))
        return Task(
            policy, ae.StochasticBandit(means), "roundwise", horizon, (horizon,), 1, range(100)
        )

    known, longer, wider = (
        task(ae.Ucb1(), 100, 2),
        task(ae.Ucb1(), 400, 2),
        task(ae.ArsUcb(), 100, 6),
    )
    estimate = Estimate([known, longer, wider], workers=2)
    assert estimate.seconds_left() is None
    estimate.note(known, 50, seconds=1.0)
    # per replication .02 s, twice as much at 4 times the horizon, three times as much with 3 times
    # the arms
    processor = 50 * 0.02 + 100 * 0.04 + 100 * 0.06
    assert estimate.seconds_left() == pytest.approx(processor * 10 / (1 + 20))
    now[0] = 90.0  # half of that time was spent on something else
    estimate.note(wider, 100, seconds=89.0)
    assert estimate.seconds_left() == pytest.approx((50 * 0.02 + 100 * 0.04) * 100 / (90 + 20))


TWO_HUNDRED = """
[grid]
policy = ["ars-ucb", "ucb1"]
means = [[0.9, 0.5, 0.1], [0.6, 0.4]]
delay = "uniform-delay(2,9)"
horizon = [200, 300, 400, 500, 600]
seed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
replications = 30
"""


def test_killed_ten_times_it_ends_as_if_it_had_not_been(file, tmp_path):
    source, out = file(TWO_HUNDRED), tmp_path / "out"
    whole = ae.Sweep.read(source).play(tmp_path / "whole")
    assert len(whole) == 200
    moments = random.Random(7)
    command = [
        sys.executable,
        "-m",
        "aftereffect",
        "sweep",
        str(source),
        "--out",
        str(out),
        "--format",
        "csv",
    ]
    reached = []
    for _ in range(10):
        wanted = (reached[-1] if reached else 0) + moments.randint(1, 15)
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            while len(list(out.glob("*.parquet"))) < wanted:
                assert process.poll() is None
                time.sleep(0.001)
            time.sleep(moments.uniform(0, 0.01))
            process.send_signal(signal.SIGKILL)
        reached.append(len(list(out.glob("*.parquet"))))
    assert process.returncode == -signal.SIGKILL
    assert reached[-1] < 200
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"200 cells in {out}, {reached[-1]} of them from before" in finished.stderr
    assert {path.name for path in out.glob("*.parquet")} == {
        cell.path(out).name for cell in whole.cells
    }
    assert results_of(out).equals(results_of(tmp_path / "whole"))
    assert [path.name for path in out.iterdir() if path.name.startswith(".")] == [".lock"]


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_command_line(file, tmp_path, capsys, monkeypatch, form):
    monkeypatch.chdir(tmp_path)
    source = file(SMALL, "small.toml")
    assert main(["sweep", "small.toml", "--format", form]) == 0
    printed = capsys.readouterr()
    assert "72 cells in small, 0 of them from before" in printed.err
    if form == "json":
        cells = json.loads(printed.out)
        assert len(cells) == 72
        assert cells[0]["parameters"] == {"alpha": 1}
        assert cells[0]["checkpoints"][-1] == cells[0]["horizon"] == 100
    else:
        lines = printed.out.splitlines()
        assert len(lines) == 73
        assert lines[0].startswith("policy" if form == "table" else "alpha,gamma,policy")
    assert main(["sweep", str(source), "--format", form]) == 0
    again = capsys.readouterr()
    assert again.out == printed.out
    assert "72 of them from before" in again.err


DOCUMENT = Path(__file__).parents[2] / "docs" / "sweeps.md"


def test_the_sweep_of_the_documents(file):
    (example,) = re.findall("```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    # policies: 3 + 1, delays: 1 + 2, times arms, horizons, seeds
    assert len(ae.Sweep.read(file(example))) == 4 * 3 * 3 * 2 * 3


def test_the_problems_of_the_documents(file, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall("```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    file(example.replace('"ucb1"', '"ucb"').replace("seed =", "seeds ="))
    assert main(["sweep", "sweep.toml"]) == 2
    assert f"```\n{capsys.readouterr().err}```" in DOCUMENT.read_text()


def test_the_keys_of_the_documents():
    named = re.findall(r"^\| (`.*?) \|", DOCUMENT.read_text(), re.MULTILINE)
    assert [key.strip("`") for cell in named for key in cell.split(", ")] == list(KEYS)


def refused(capsys, path):
    assert main(["sweep", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith(f"aftereffect: {path}: ") for line in lines)
    return [line.removeprefix(f"aftereffect: {path}: ") for line in lines]


def assert_problems(lines, *problems):
    """Each line is about this value, in the order of the file, and says this."""
    assert [line.partition(": ")[0] for line in lines] == [path for path, _ in problems]
    for line, (_, fragment) in zip(lines, problems, strict=True):
        assert fragment in line


def test_every_problem_of_the_file_is_reported_with_its_path(file, capsys, tmp_path):
    path = file("""[grid]
policy = ["ars-ucb(alpha={alfa})", 3]
means = [[0.9, 0.8], [0.5], 7]
horizon = [1e5, "many", 0, true]
sed = 1
seed = []
best = 0.5
rewards = "drawn-arm([0.5,0.5])"
engine = "roundwize"

[parameters]
alpha = [1, [2]]
beta = []

[more]
x = 1
""")
    assert_problems(
        refused(capsys, path),
        ("grid.policy[0]", "unknown parameter {alfa}: did you mean 'alpha'?"),
        ("grid.policy[1]", "expected text, in quotes, got 3"),
        ("grid.means[1]", "at least two numbers, one per arm, got 1"),
        ("grid.means[2]", "must be a list, got 7"),
        ("grid.horizon[1]", "whole number from 1 to 9,007,199,254,740,992, got 'many'"),
        ("grid.horizon[2]", "got 0"),
        ("grid.horizon[3]", "got True"),
        ("grid.sed", "unknown key: did you mean 'seed'?"),
        ("grid.seed", "is empty"),
        ("grid.best", "only together with arms"),
        ("grid.rewards", "together with means"),
        ("grid.engine", "unknown engine 'roundwize': did you mean 'roundwise'?"),
        ("parameters.alpha", "no text in the grid names it: write {alpha}"),
        ("parameters.alpha[1]", "expected a number, text, true or false, got [2]"),
        ("parameters.beta", "is empty"),
        ("parameters.beta", "no text in the grid names it: write {beta}"),
        ("more", "unknown table: known: grid, parameters"),
    )
    assert not (tmp_path / "sweep").exists()


def test_every_problem_of_the_cells_is_reported_with_its_path(file, capsys):
    path = file("""[grid]
policy = [
    "ars-ucb(alpha={alpha})",
    "arsucb",
    "ucb1",
    "clw",
    "ucb1",
    "ars-ucb(alpha=4)",
]
means = [[0.9, 0.8, 0.7], [0.5, 0.3]]
delay = [
    "interval(30,39)",
    "power-law(2)",
    "per-arm([immediate, immediate])",
]
horizon = [1e5, 2, 100_000]

[parameters]
alpha = [1, 4, -4]
""")
    assert_problems(
        refused(capsys, path),
        ("grid.policy[0]", "alpha must be a number above 0, got -4"),
        ("grid.policy[1]", "unknown policy 'arsucb': did you mean 'ars-ucb'?"),
        ("grid.policy[3]", "(with delay 'power-law(2)')"),
        ("grid.policy[4]", "gives the same cell as grid.policy[2]"),
        ("grid.policy[5]", "gives the same cell as grid.policy[0]"),
        ("grid.delay[2]", "for each of the 3 arms, got 2"),
        ("grid.horizon[1]", "at least the number of arms, 3, got 2"),
        ("grid.horizon[2]", "gives the same cell as grid.horizon[0]"),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[grid]\nmeans = [.9, .8]",
            "not TOML: Invalid value (at line 2, column 10), numbers begin with a digit, such as 0.9",
        ),
        ("[grid]\npolicy = [", "not TOML: Invalid value (at end of document)"),
        ("grid = 3", "grid: expected one table, [grid], got 3"),
        ("[[grid]]\nseed = 1", "grid: expected one table, [grid], got [{'seed': 1}]"),
        ('policy = "ucb1"', "policy: belongs below [grid]"),
        (f"x = {'9' * 5_000}", "not TOML: Exceeds the limit"),
        (f"x = {'[' * 5_000}", "not TOML: maximum recursion depth exceeded"),
        ("", "grid: the table [grid] is missing"),
        (
            f'[grid]\npolicy = "ucb1"\narms = 2\nhorizon = {list(range(1, 1001))}\nseed = {list(range(1001))}',
            "grid: a sweep has at most 1,000,000 cells, but this could have 1,001,000",
        ),
    ],
)
def test_a_file_that_is_no_sweep(file, capsys, text, problem):
    assert any(line.startswith(problem) for line in refused(capsys, file(text)))


PLAYED = """[grid]
policy = "ucb1"
arms = 2
horizon = 100
"""


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            PLAYED.replace('"ucb1"', '"ars-ucb(alpha={a}, growth=power({b}), alpha={a})"'),
            [
                ("grid.policy", "unknown parameter {a}: known: none"),
                ("grid.policy", "unknown parameter {b}: known: none"),
            ],
        ),
        (
            PLAYED + 'delay = "interval(3,4)"\nreward_law = "foo"',
            [("grid.reward_law", "unknown reward law 'foo'")],
        ),
        (
            PLAYED.replace("arms = 2", 'delay = "immediate"\nrewards = "none.csv"'),
            [("grid.rewards", "/none.csv: there is no such file")],
        ),
        (
            PLAYED.replace("arms = 2", 'rewards = "drawn-arm([0.5,0.5])"').replace(
                "100", "[100, 2e9]"
            ),
            [("grid.horizon[1]", "1,000,000,000 slots of drawn-arm([0.5, 0.5], seed=0)")],
        ),
        (
            PLAYED.replace("100", "[100, 2e7]")
            + 'delay = "power-law(2)"\nengine = ["roundwise", "slotwise"]',
            [("grid.horizon[1]", "use the roundwise engine")],
        ),
        (
            PLAYED.replace('"ucb1"', '"ars-ucb(alpha={seed})"') + "[parameters]\nseed = [1, 2]",
            [("parameters.seed", "results have a column of that name: choose another")],
        ),
    ],
    ids=["parameters", "reward", "file", "schedule", "slotwise", "column"],
)
def test_mistakes_are_refused_before_anything_runs(file, capsys, tmp_path, text, problems):
    assert_problems(refused(capsys, file(text)), *problems)
    assert not (tmp_path / "sweep").exists()


def test_a_whole_bandit_is_a_key(file, capsys):
    text = """
    [grid]
    policy = "fixed-switchback"
    bandit = ['seasonal-bandit([0, {lift}], slot="1d")', "stochastic-bandit([.9, .1])"]
    horizon = 100
    [parameters]
    lift = [0.1, 0.2]
    """
    cells = ae.Sweep.read(file(text)).cells
    assert [type(cell.plan.bandit).__name__ for cell in cells] == [
        "SeasonalBandit",
        "SeasonalBandit",
        "StochasticBandit",
    ]
    assert cells[1].plan.bandit.lifts == (0, 0.2)
    doubled = text.replace("horizon", "means = [0.9, 0.1]\n    horizon")
    assert "grid.bandit: cannot be given together with means" in "\n".join(
        refused(capsys, file(doubled))
    )


def test_parameters_of_any_name_and_of_mixed_types(file, tmp_path):
    text = PLAYED.replace('"ucb1"', '"ars-ucb(alpha={al-pha}, growth={growth})"')
    text += "[parameters]\nal-pha = [4, 2.5, '5', 10000000000000000000000]\ngrowth = 'power(1)'"
    table = ae.Sweep.read(file(text)).play(tmp_path / "out").to_polars()
    assert table["al-pha"].to_list() == ["4", "2.5", "5", "10000000000000000000000"]
    assert table.columns == [
        "al-pha",
        "growth",
        *(name for name in COLUMNS if name in table.columns),
    ]
    assert set(RESULTS) < set(table.columns)


def test_a_file_without_an_ending_needs_a_folder(file, capsys, tmp_path):
    path = file(PLAYED, "sweep")
    assert main(["sweep", str(path)]) == 2
    assert "the folder of the results needs another name" in capsys.readouterr().err
    assert main(["sweep", str(path), "--out", str(tmp_path / "out")]) == 0


def test_a_full_disk_is_reported_in_one_line(file, tmp_path, capsys, monkeypatch):
    def full(frame, path):
        raise pl.exceptions.ComputeError("No space left on device (os error 28)\n\nmore")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    assert main(["sweep", str(file(PLAYED))]) == 2
    assert capsys.readouterr().err.endswith(".parquet: No space left on device (os error 28)\n")
    assert [path.name for path in (tmp_path / "sweep").iterdir()] == [".lock"]


def test_a_grid_must_say_what_is_played(file, capsys):
    assert_problems(
        refused(capsys, file("[grid]")),
        ("grid", "policy is missing"),
        ("grid", "horizon is missing"),
        ("grid", "means or arms or rewards or bandit is missing"),
    )


@pytest.mark.parametrize("name", ["none.toml", "."])
def test_a_file_that_cannot_be_read(tmp_path, capsys, name):
    assert main(["sweep", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.startswith("aftereffect: cannot read")
