"""Rewards from files, in Python and on the command line."""

import json

import numpy as np
import polars as pl
import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.rewards import read_rewards

TABLE = np.random.default_rng(1).random((300, 3)).round(3)
PAYING = np.random.default_rng(2).integers(0, 3, 300)


def write(path, values):
    """Any of the formats."""
    frame = pl.DataFrame(
        values, schema=[f"arm{n}" for n in range(values.shape[1])] if values.ndim == 2 else ["arm"]
    )
    {
        ".npy": lambda: np.save(path, values),
        ".csv": lambda: frame.write_csv(path),
        ".parquet": lambda: frame.write_parquet(path),
    }[path.suffix]()
    return path


@pytest.mark.compiled
@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
@pytest.mark.parametrize("values", [TABLE, PAYING], ids=["table", "paying"])
def test_every_format_gives_the_same_game(tmp_path, capsys, suffix, values):
    path = write(tmp_path / f"rewards{suffix}", values)
    assert np.array_equal(read_rewards(path), values)
    options = [
        "--delay",
        "hold-back(3)",
        "--policy",
        "ars-exp3",
        "--horizon",
        "300",
        "--replications",
        "5",
        "--seed",
        "4",
    ]
    assert main(["simulate", "--rewards", str(path), *options, "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)[0]
    study = ae.simulate("ars-exp3", ae.AdversarialBandit(values, ae.HoldBack(3)), 300, 5, seed=4)
    assert printed["regret_mean"] == study[0].mean.tolist()
    assert printed["bandit"] == str(study.bandit)


def test_a_csv_file_may_do_without_names(tmp_path):
    (tmp_path / "bare.csv").write_text("0,1\n.5,0.25\n1,0\n")
    assert read_rewards(tmp_path / "bare.csv").tolist() == [[0, 1], [0.5, 0.25], [1, 0]]
    (tmp_path / "marked.csv").write_text("\ufeff0,1\n.5,0.25\n", encoding="utf-8")
    assert read_rewards(tmp_path / "marked.csv").tolist() == [[0, 1], [0.5, 0.25]]
    (tmp_path / "named.csv").write_text('"a;b",c\n0,1\n.5,0.25\n')
    assert read_rewards(tmp_path / "named.csv").tolist() == [[0, 1], [0.5, 0.25]]
    (tmp_path / "one.csv").write_text("1\n0\n2\n")
    assert read_rewards(tmp_path / "one.csv").tolist() == [1, 0, 2]


@pytest.mark.compiled
def test_a_schedule_may_be_written_in_place_of_a_file(capsys):
    options = ["--policy", "exp3", "--horizon", "100", "--replications", "2", "--seed", "1"]
    assert main(["simulate", "--rewards", "drawn-arm([.5,.3,.2], seed=2)", *options]) == 0
    assert (
        "adversarial-bandit(drawn-arm([0.5, 0.3, 0.2], seed=2), delay=immediate)"
        in capsys.readouterr().out
    )


def broken(tmp_path):
    """Files that hold no rewards, and what is said about each."""
    (tmp_path / "rewards.txt").write_text("0\n")
    (tmp_path / "words.csv").write_text("a,b\n1,no\n0,yes\n")
    (tmp_path / "gap.csv").write_text("a,b\n1,\n0,1\n")
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "text.parquet").write_text("hello")
    (tmp_path / "empty.csv").write_text("")
    np.savez(tmp_path / "several.npz", a=TABLE, b=TABLE)
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    np.save(tmp_path / "objects.npy", np.array([None, 1]), allow_pickle=True)
    (tmp_path / "semicolons.csv").write_text("a;b\n0.1;0.2\n")
    (tmp_path / "excel.csv").write_text("a;b\n0,1;0,2\n")
    (tmp_path / "bare.csv").write_text("0,1;0,2\n0,3;0,1\n")
    (tmp_path / "commas.csv").write_text("a,b\n0,1,0,2\n")
    (tmp_path / "quoted.csv").write_text('a,b\n"0,1","0,2"\n')
    (tmp_path / "dated.csv").write_text("day,a,b\n2026-01-01,.1,.2\n2026-01-02,.1,.2\n")
    (tmp_path / "counted.csv").write_text("slot,a,b\n0,.1,.2\n1,.1,.2\n2,.3,.4\n")
    (tmp_path / "counted.bare.csv").write_text("1,.1,.2\n2,.1,.2\n")
    huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (3000000000000, 1), }"
    (tmp_path / "claims.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + huge.ljust(117).encode() + b"\n"
    )
    np.save(tmp_path / "high.npy", TABLE * 3)
    np.save(tmp_path / "deep.npy", np.zeros((2, 2, 2)))
    return {
        "missing.csv": "missing.csv: there is no such file",
        "rewards.txt": "rewards.txt: its name must end in .npy or .csv or .parquet",
        "words.csv": "words.csv: the column b must hold numbers and nothing else, got 'no'",
        "gap.csv": "gap.csv: the column b has empty cells, and must hold numbers and nothing else",
        "semicolons.csv": "semicolons.csv: its columns are separated by ';': use commas\n",
        "excel.csv": "by ';': use commas; if it has decimal commas, write points: 0.5\n",
        "bare.csv": "by ';': use commas; if it has decimal commas, write points: 0.5\n",
        "commas.csv": "a line has more cells than the first, 2; if it has decimal commas, write points: 0.5\n",
        "quoted.csv": "must hold numbers and nothing else, got '0,1'; if it has decimal commas, write points: 0.5\n",
        "dated.csv": "the column day must hold numbers and nothing else, got '2026-01-01'; each column is an arm",
        "counted.csv": "the column slot counts the slots; each column is an arm, so take out slots, dates and the like\n",
        "counted.bare.csv": " counts the slots; each column is an arm",
        "claims.npy": "claims.npy: not a .npy file of numbers (mmap length is greater than file size)",
        "text.npy": "text.npy: not a .npy file of numbers",
        "text.parquet": "text.parquet: not a .parquet file of numbers",
        "empty.csv": "empty.csv: not a .csv file of numbers",
        "several.npy": "several.npy: expected one array, got several",
        "objects.npy": "objects.npy: not a .npy file of numbers",
        "high.npy": f"rewards must be numbers from 0 to 1, got {3 * TABLE.max():g}: divide all by the most that one can be",
        "deep.npy": "rewards must be a table with a row per slot and a column per arm, or the paying arm of each slot",
    }


def test_broken_files_are_refused_in_one_line(tmp_path, capsys):
    for name, message in broken(tmp_path).items():
        assert (
            main(
                [
                    "simulate",
                    "--rewards",
                    str(tmp_path / name),
                    "--policy",
                    "exp3",
                    "--horizon",
                    "2",
                ]
            )
            == 2
        )
        out, err = capsys.readouterr()
        assert message in err
        assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            [],
            "no bandit given: pass --means .9,.8,.7, --rewards clicks.csv or --bandit SPEC",
        ),
        (
            ["--delay", "hold-back(3)"],
            "no bandit given: pass --means .9,.8,.7, --rewards clicks.csv or --bandit SPEC",
        ),
        (
            ["--bandit", "seasonal-bandit([0, .1])", "--delay", "immediate"],
            "--bandit describes the whole bandit, got --delay as well: write it within the bandit",
        ),
        (
            ["--rewards", "x.csv", "--reward-law", "uniform"],
            "rewards are drawn (--reward-law) or fixed beforehand (--rewards), not both",
        ),
        (
            ["--means", ".9,.1", "--rewards", "x.csv"],
            "rewards are drawn (--means) or fixed beforehand (--rewards), not both",
        ),
        (
            ["--means", ".9,.1", "--delay", "hold-back(3)"],
            "depends on the play",
        ),
        (
            ["--rewards", "drawn-arm([.5,.5])", "--delay", "hold-back(0)"],
            "hold-back: d must be a whole number from 1",
        ),
        (["--rewards", "drawn-arm([.5,.4])"], "drawn-arm: shares must sum to 1"),
    ],
)
def test_what_does_not_fit_together_is_refused(capsys, options, message):
    assert main(["simulate", "--policy", "exp3", "--horizon", "100", *options]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count("\n")) == ("", 1)


def test_a_horizon_beyond_the_file_is_refused(tmp_path, capsys):
    path = write(tmp_path / "rewards.npy", TABLE)
    assert main(["simulate", "--rewards", str(path), "--policy", "exp3", "--horizon", "301"]) == 2
    assert (
        "horizon must be at most the 300 slots of recorded(300 slots of 3 arms"
        in capsys.readouterr().err
    )
