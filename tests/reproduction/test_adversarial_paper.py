"""Figures 6 to 9: as the paper says, judged by computed rules, on stand-ins or on a user's own files."""

import json
import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import aftereffect as ae
import make_data
from aftereffect.cli import main
from aftereffect.reproduction import Settings, reproduce
from aftereffect.reproduction._claims import judge_claim
from aftereffect.reproduction.adversarial import CLAIMS, FIGURES
from aftereffect.reproduction.adversarial.claims import AdversarialEvidence
from aftereffect.reproduction.adversarial.figures import OURS, STYLES, make_clw
from aftereffect.simulation import PolicyRuns, Study

LINEAR, TRUE_D, WRONG_D = CLAIMS
RUNS = 40
SMALL = Settings(
    horizon=300,
    replications=3,
    long_horizon=1_000,
    adversarial_horizon=2_000,
    adversarial_replications=4,
    adversarial_long_replications=3,
)


def test_the_figures_are_as_the_paper_says():
    assert list(FIGURES) == ["6", "7", "8", "9", "price-of-not-knowing"]
    held = {key: [str(panel.delay) for panel in FIGURES[key].panels] for key in ("6", "7")}
    assert (
        held["6"]
        == ["hold-back(10, reset_on_round=false)", "hold-back(10, reset_on_round=true)"]
        + held["6"][:1] * 2
    )
    assert (
        held["7"]
        == ["hold-back(20, reset_on_round=false)", "hold-back(20, reset_on_round=true)"]
        + held["7"][:1] * 2
    )
    assert [panel.rewards.stand_in.arms for panel in FIGURES["6"].panels] == [3, 3, 12, 10]
    assert [str(FIGURES[key].panels[0].delay) for key in ("8", "9")] == [
        "uniform-delay(5, 10)",
        "uniform-delay(10, 20)",
    ]
    given = {
        key: [p.d for p in FIGURES[key].panels[0].players.values() if isinstance(p, ae.Clw)]
        for key in ("6", "7", "8", "9")
    }
    assert given == {"6": [10], "7": [20], "8": [10, 9, 11], "9": [20, 18, 22]}
    for figure in FIGURES.values():
        for panel in figure.panels:
            assert {"ours", "true d", "guesses d", "naive"} <= set(panel.players)
            assert str(panel.players["true d"]) == f"clw(d={panel.d}, variant=colt, base=exp3)"
    assert (
        len({style.colour for style in STYLES.values()})
        == len({str(style.dashes) for style in STYLES.values()})
        == len(STYLES)
    )


def study(policies, curves, horizon):
    """A study with regrets of our making, noted in the middle and at the end."""
    rounds, pulls = np.ones(RUNS, dtype=int), np.ones((RUNS, 3))
    pairs = zip(policies, curves, strict=True)
    runs = [
        PolicyRuns(
            label=str(p),
            policy=p,
            regret=np.array(curve, dtype=float),
            pulls=pulls,
            rounds=rounds,
            seconds=0.0,
        )
        for p, curve in pairs
    ]
    bandit = ae.AdversarialBandit(ae.rewards.DrawnArm([0.4, 0.3, 0.3]))
    return Study(
        bandit=bandit,
        bandit_label=str(bandit),
        engine="roundwise",
        horizon=horizon,
        checkpoints=(horizon // 2, horizon),
        seed=1,
        made_by="a test",
        runs=tuple(runs),
    )


def held_back(slope, exponent, runs_linear=1.0, number=6, place=0):
    """CLW losing this share of the gap per slot in some of the runs, ARS-EXP3 growing like this power of the horizon."""
    figure = FIGURES[str(number)]
    panel = figure.panels[place]
    gap, horizon = 0.02, 10_000
    wobble = np.linspace(-1, 1, RUNS)[:, None]
    slopes = np.where(np.arange(RUNS)[:, None] < runs_linear * RUNS, slope, 0.0) * gap
    rival = np.hstack([100 + 0 * slopes, 100 + slopes * horizon / 2])
    ours = 1_000 + wobble * [0, 1]
    drawn = study([OURS, make_clw(panel.d)], [ours, rival], horizon)
    tenth = study([OURS], [1_000 / 10**exponent + wobble * [0, 1]], horizon // 10)
    return AdversarialEvidence(figure, panel, "a panel", gap, drawn, tenth)


YES, NOT_LINEAR, NOT_SUBLINEAR = held_back(0.9, 0.7), held_back(0.3, 0.7), held_back(0.9, 0.99)


@pytest.mark.parametrize(
    ("cases", "verdict"),
    [
        ([YES, YES, YES], "reproduced"),
        ([YES, YES, NOT_LINEAR], "partly"),
        ([YES, NOT_LINEAR, NOT_SUBLINEAR], "not reproduced"),
    ],
)
def test_linear_and_sublinear(cases, verdict):
    assert judge_claim(LINEAR, cases).verdict == verdict


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        (held_back(0.51, 0.7), "holds"),
        (held_back(0.49, 0.7), "fails"),
        (held_back(0.9, 0.89), "holds"),
        (held_back(0.9, 0.91), "fails"),
        (held_back(0.9, 0.7, runs_linear=0.9), "holds"),
        (held_back(0.9, 0.7, runs_linear=0.5), "open"),
        (held_back(0.9, 0.7, runs_linear=0.1), "fails"),
    ],
)
def test_the_limits_of_linear_and_sublinear(case, verdict):
    assert judge_claim(LINEAR, [case]).rows[0][-1] == verdict


def oblivious(true_d, less, more, number=8):
    """ARS-EXP3 at 1,000 and CLW, with the true d or 10 % off, at these; with noise that differs."""
    figure = FIGURES[str(number)]
    panel = figure.panels[0]
    rng = np.random.default_rng(4)
    levels = {
        "ours": 1_000,
        "true d": true_d,
        "less": less,
        "more": more,
        "guesses d": 1,
        "naive": 1,
    }
    curves = [levels[player] + rng.normal(0, 20, (RUNS, 2)) for player in panel.players]
    return AdversarialEvidence(
        figure, panel, "a panel", 0.1, study(panel.players.values(), curves, 1_000), None
    )


@pytest.mark.parametrize(
    ("claim", "cases", "verdict"),
    [
        (TRUE_D, [oblivious(900, 1, 1), oblivious(900, 1, 1, 9)], "reproduced"),
        (TRUE_D, [oblivious(900, 1, 1), oblivious(1_100, 1, 1, 9)], "partly"),
        (TRUE_D, [oblivious(900, 1, 1), oblivious(1_000, 1, 1, 9)], "partly"),
        (TRUE_D, [oblivious(1_100, 1, 1), oblivious(1_100, 1, 1, 9)], "not reproduced"),
        (WRONG_D, [oblivious(1, 1_100, 1_200), oblivious(1, 1_100, 1_200, 9)], "reproduced"),
        (WRONG_D, [oblivious(1, 900, 1_200), oblivious(1, 1_100, 1_200, 9)], "partly"),
        (WRONG_D, [oblivious(1, 900, 800), oblivious(1, 900, 1_200, 9)], "not reproduced"),
    ],
)
def test_true_and_wrong_d(claim, cases, verdict):
    assert judge_claim(claim, cases).verdict == verdict


def test_claims_are_judged_by_the_figures_they_are_about():
    assert judge_claim(LINEAR, [oblivious(1, 1, 1)]).verdict == "not judged"
    assert judge_claim(TRUE_D, [YES]).verdict == judge_claim(WRONG_D, [YES]).verdict == "not judged"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    reproduce(folder, [FIGURES["6"], FIGURES["8"], FIGURES["price-of-not-knowing"]], SMALL)
    return folder


def test_everything_is_written_and_says_that_it_is_a_stand_in(folder):
    names = {path.name for path in folder.iterdir()}
    pictures = {
        f"{name}{suffix}"
        for name in ("figure-6", "figure-8", "price-of-not-knowing")
        for suffix in (".png", ".svg")
    }
    assert names == pictures | {"studies", "results.parquet", "report.md", "report.html"}
    text = (folder / "report.md").read_text()
    assert "2 of the 18 figures" in text
    abouts = re.findall(r"^(?:Clicks|Clicked|Weekdays).*:$", text, flags=re.MULTILINE)
    assert len(abouts) == 5
    assert all("(stand-in drawn from published shares)" in about for about in abouts)
    rows = [line for line in text.splitlines() if line.startswith(("| figure 6 ", "| figure 8 "))]
    assert len(rows) == 4 + 1 + 2  # four panels, one with the true d, two with a wrong one
    assert all("(stand-in drawn from published shares)" in row for row in rows)


def test_results_hold_every_replication(folder):
    results = pl.read_parquet(folder / "results.parquet")
    assert set(results["study"]) == {
        *(
            f"figure-6{key}{part}"
            for key in ("", "-restarted", "-twelve", "-clusters")
            for part in ("", "-tenth-horizon")
        ),
        "figure-8",
        "price-of-not-knowing-10",
        "price-of-not-knowing-20",
    }
    drawn = results.filter(pl.col("study") == "figure-8")
    assert drawn["policy"].n_unique() == 6
    assert drawn["horizon"].unique().to_list() == [2_000]
    assert results.filter(pl.col("study") == "figure-6-tenth-horizon")[
        "horizon"
    ].unique().to_list() == [200]
    given = results.filter(
        (pl.col("study") == "price-of-not-knowing-10") & pl.col("policy").str.starts_with("clw")
    )["policy"].unique()
    assert sorted(int(re.search(r"d=(\d+)", each)[1]) for each in given) == [
        2,
        5,
        8,
        10,
        12,
        15,
        20,
        30,
        40,
    ]


def test_the_command_in_the_report_gives_its_numbers(folder, capsys):
    blocks = re.findall(r"```sh\n(.*?)\n```", (folder / "report.md").read_text(), flags=re.DOTALL)
    words = shlex.split(blocks[-1].replace("\\\n", " "))
    assert main([*words[1:], "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    saved = ae.Study.load(folder / "studies" / "figure-8.parquet")
    assert [each["regret_mean"][-1] for each in printed] == [runs.mean[-1] for runs in saved]


def test_a_rerun_plays_nothing(folder, monkeypatch):
    monkeypatch.setattr(
        "aftereffect.reproduction.chapters.StoredStudy.play",
        lambda *_, **__: pytest.fail("it played"),
    )
    before = (folder / "report.md").read_bytes()
    reproduce(folder, [FIGURES["8"]], SMALL)
    assert (folder / "report.md").read_bytes() == before


@pytest.mark.compiled
def test_claims_may_be_judged_by_a_long_horizon_too(tmp_path):
    settings = Settings(
        adversarial_horizon=1_000,
        adversarial_replications=3,
        adversarial_long_horizon=20_000,
        adversarial_long_replications=3,
    )
    results = reproduce(tmp_path, [FIGURES["7"]], settings)
    assert [list(judgements) for _, judgements in results] == [["1,000 slots", "20,000 slots"]] * 3
    long = results[0][1]["20,000 slots"]
    assert len(long.rows) == 1
    assert "20,000 slots" in long.rows[0][1]


@pytest.fixture
def data(tmp_path):
    """Files of the original schema, made here."""
    for name, files in (
        ("outbrain", make_data.make_outbrain(400, 1)),
        ("coupon", make_data.make_coupon(300, 1)),
    ):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for stem, rows in files.items():
            make_data.write_file(folder, stem, make_data.format_csv(rows))
    return tmp_path / "data"


@pytest.mark.compiled
def test_with_files_of_ones_own_nothing_is_a_stand_in_but_the_clusters(data, tmp_path):
    reproduce(tmp_path / "out", [FIGURES["6"], FIGURES["8"]], replace(SMALL, data=data))
    text = (tmp_path / "out" / "report.md").read_text()
    lines = [line for line in text.splitlines() if "stand-in" in line]
    assert lines
    assert all("lusters" in line for line in lines)
    bandit = pl.read_parquet(tmp_path / "out" / "studies" / "figure-8.parquet")["bandit"][0]
    assert bandit.startswith("adversarial-bandit(recorded(2000 slots of 7 arms")


@pytest.mark.compiled
def test_one_data_set_is_enough_for_its_figures(data, tmp_path):
    shutil.rmtree(data / "outbrain")
    reproduce(tmp_path / "out", [FIGURES["8"]], replace(SMALL, data=data))
    assert "1 of the 18 figures" in (tmp_path / "out" / "report.md").read_text()


def test_missing_files_are_named_and_nothing_is_written(tmp_path, capsys):
    (tmp_path / "data").mkdir()
    for number, missing in ((6, "clicks_train"), (8, "coupon_list_train")):
        assert (
            main(
                [
                    "reproduce",
                    "--figure",
                    str(number),
                    "--data",
                    str(tmp_path / "data"),
                    "--out",
                    str(tmp_path / "out"),
                ]
            )
            == 2
        )
        err = capsys.readouterr().err
        assert missing in err
        assert err.count("\n") == 1
    assert (
        main(
            [
                "reproduce",
                "--figure",
                "6",
                "--data",
                str(tmp_path / "none"),
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == 2
    )
    assert "none: there is no such folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
