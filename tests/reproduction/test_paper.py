"""The paper's stochastic figures, and how figures are played, stored, drawn and reported."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from base64 import b64encode
from dataclasses import replace
from urllib.parse import unquote

import polars as pl
import pytest

import aftereffect as ae
from aftereffect._core.spec import name_of
from aftereffect.cli import main
from aftereffect.reproduction import FIGURES as ALL_FIGURES
from aftereffect.reproduction import (
    PAPER_FIGURES,
    Settings,
    count_replications,
    find_figures,
    reproduce,
)
from aftereffect.reproduction._report import format_command
from aftereffect.reproduction.chapters import StoredStudy
from aftereffect.reproduction.stochastic import (
    CLAIMS,
    FIGURES,
    PAPER_ORDER,
    draw_study,
    list_options,
    shown_study,
)
from aftereffect.reproduction.stochastic.figures import STYLES


def test_the_paper_has_eighteen_figures_and_we_have_six():
    paper = [str(number) for number in range(2, 20)]
    assert list(ALL_FIGURES) == [
        *paper,
        "price-of-not-knowing",
        "regret",
        "orders",
        "price",
        "exponents",
        "dynamical",
    ]
    assert [figure.key for figure in PAPER_FIGURES] == [*paper, "price-of-not-knowing"]


def test_figures_are_found_by_number_or_name_each_once():
    found = find_figures([14, "15", 14.0, "regret"])
    assert [figure.name for figure in found] == ["figure-14", "figure-15", "regret"]
    with pytest.raises(ae.ParameterError, match=r"no figure 14\.5"):
        find_figures([14.5])


def test_there_are_the_fourteen_stochastic_panels():
    assert list(FIGURES) == [str(number) for number in (2, 3, 4, 5, *range(10, 20))]
    assert {figure.bandit.means for figure in FIGURES.values()} == {
        (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
    }
    delays = [str(figure.bandit.delay) for figure in FIGURES.values()]
    assert delays == [
        "uniform-delay(10, 30)",
        "uniform-delay(10, 30)",
        "uniform-delay(0, 60)",
        "uniform-delay(0, 60)",
        "interval(30, 39)",
        "interval(10, 19)",
        "linear-decay(100)",
        "linear-decay(50)",
        "geometric(0.8)",
        "geometric(0.9)",
        "power-law(3)",
        "power-law(2)",
        "linear-rise(100)",
        "linear-rise(50)",
    ]


def test_every_policy_has_a_style_of_its_own_and_no_two_in_a_figure_look_alike_in_grey():
    for figure in FIGURES.values():
        styles = [STYLES[policy] for policy in figure.policies]
        assert len({str(style.dashes) for style in styles}) == len(styles)
    assert len({style.colour for style in STYLES.values()}) == len(STYLES)
    assert len({style.name for style in STYLES.values()}) == len(STYLES)


def test_rivals_play_where_the_paper_names_them():
    rivals = {
        number: [name_of(type(p)) for p in figure.policies[4:]]
        for number, figure in FIGURES.items()
    }
    assert {int(key) for key, names in rivals.items() if "odaaf" in names} == {2, 3, 4, 5}
    assert {int(key) for key, names in rivals.items() if "generalized-odaaf" in names} == {
        10,
        11,
        12,
        13,
        18,
        19,
    }
    assert all(names[-1] == "ucb1" for names in rivals.values())


def test_figures_14_and_15_are_as_the_paper_says():
    assert FIGURES["14"].bandit == ae.StochasticBandit(
        [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1], ae.Geometric(0.8)
    )
    assert FIGURES["15"].bandit.delay == ae.Geometric(0.9)
    assert [str(policy) for policy in FIGURES["14"].policies] == [
        *(f"ars-ucb(alpha={alpha}, growth=power(2))" for alpha in (1, 2, 4, 8)),
        "ucb1",
    ]
    assert [str(policy) for policy in FIGURES["15"].policies] == [
        *(
            f"ars-ucb(alpha=4, growth={growth})"
            for growth in ("power(1)", "power(2)", "power(3)", "exponential")
        ),
        "ucb1",
    ]


SMALL = Settings(horizon=400, replications=6, long_horizon=10_000, seed=3)
PICTURE_SUFFIXES = {
    f"{name}{suffix}"
    for name in ("figure-14", "figure-15", "long-runs")
    for suffix in (".png", ".svg")
}
FIGURES_14_AND_15 = [FIGURES["14"], FIGURES["15"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Figures 14 and 15, reproduced on a small scale. Tests that change something copy it."""
    folder = tmp_path_factory.mktemp("paper") / "new" / "folder"
    reproduce(folder, FIGURES_14_AND_15, SMALL)
    return folder


@pytest.fixture
def no_play(monkeypatch):
    monkeypatch.setattr(
        "aftereffect.reproduction.chapters.StoredStudy.play",
        lambda *_, **__: pytest.fail("it played"),
    )


def test_everything_is_written_and_nothing_else(folder):
    assert {path.name for path in folder.iterdir()} == PICTURE_SUFFIXES | {
        "studies",
        "results.parquet",
        "report.md",
        "report.html",
    }
    studies = {
        f"figure-{n}{long}{order}.parquet"
        for n in (14, 15)
        for long in ("", "-long")
        for order in ("", "-relabelled")
    }
    assert {path.name for path in (folder / "studies").iterdir()} == studies
    assert "Figure 15" in (folder / "figure-15.svg").read_text()


def test_results_hold_every_replication(folder):
    results = pl.read_parquet(folder / "results.parquet")
    assert results["figure"].unique().sort().to_list() == ["14", "15"]
    assert results.height == 2 * 6 * (5 + 4 + 1 + 1)  # drawn, relabelled, and two long runs
    rows = results.filter((pl.col("study") == "figure-14") & (pl.col("policy") == "ucb1")).sort(
        "replication"
    )
    study = ae.simulate("ucb1", FIGURES["14"].bandit, 400, 6, seed=3, checkpoints=SMALL.checkpoints)
    assert rows["regret"].to_list() == study[0].regret.tolist()
    relabelled = results.filter(pl.col("study") == "figure-14-relabelled")
    assert ae.parse(relabelled["bandit"][0]).means == FIGURES["14"].bandit.means[::-1]
    assert relabelled["policy"].n_unique() == 4
    assert results.filter(pl.col("study").str.contains("long"))["horizon"].unique().to_list() == [
        10_000
    ]


def test_the_report_has_claims_rules_figures_tables_and_choices(folder):
    text = (folder / "report.md").read_text()
    assert "2 of the 18 figures, seed 3." in text
    assert "Made by aftereffect" in text
    for number, claim in enumerate(CLAIMS, 1):
        assert f"### Claim {number}: {claim.title}" in text
        assert f"**Rule.** {claim.rule}" in text
    # No rival plays here: in the summary, and in the section for either order.
    assert text.count("- not judged") == 1 + 2
    final = ae.simulate("ucb1", FIGURES["15"].bandit, 400, 6, seed=3)[0]
    cells = [f"{final.mean[-1]:,.1f}", f"{final.sem[-1]:,.1f}", f"{final.p95[-1]:,.1f}", *"---"]
    assert ["UCB1, naive", *cells] in table_rows(text)
    assert (
        "![Figure 15: geometric, gamma = 0.9, varying the growth of rounds](figure-15.png)" in text
    )
    for choice in (
        "400 slots; 10,000 for",
        "1, 2, 4, 8, with",
        "power(1), power(2), power(3), exponential",
        "Bernoulli",
    ):
        assert choice in text


def test_the_report_begins_with_all_verdicts_and_reasons(folder):
    text = (folder / "report.md").read_text()
    head, contents = text.partition("## Contents\n")[::2]
    rows = [line for line in head.splitlines() if line.startswith("| [")]
    assert len(rows) == len(CLAIMS)
    for row, claim in zip(rows, CLAIMS, strict=True):
        assert claim.title in row
        assert re.search(r"(✔ reproduced|◐ partly|✘ not reproduced|- not judged) +\|", row)
        assert re.search(r"\| [A-Z].*[\d].*\. *\|$|\| The figures played have no .*\. *\|$", row)
    listed = contents.partition("Made by")[0]
    assert "[Claim 1](#claim-1-the-regret-of-ars-ucb-is-logarithmic" in listed
    assert "[Figure 14](#figure-14-" in listed


def test_every_link_of_the_report_leads_to_one_heading(folder):
    page = (folder / "report.html").read_text()
    anchors = re.findall(r'<h\d id="([^"]+)"', page)
    links = [unquote(link) for link in re.findall(r'href="#([^"]+)"', page)]
    assert len(anchors) == len(set(anchors))
    assert len(links) >= len(CLAIMS) + 4
    assert set(links) <= set(anchors)


def table_rows(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_the_command_in_the_report_gives_its_numbers(folder, capsys):
    command = format_command(list_options(FIGURES["14"], SMALL))
    assert command in (folder / "report.md").read_text()
    words = shlex.split(command.replace("\\\n", " "))  # shlex keeps the newlines that a shell drops
    assert main([*words[1:], "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    saved = ae.Study.load(folder / "studies" / "figure-14.parquet")
    assert [each["policy"] for each in printed] == [runs.label for runs in saved]
    assert [each["regret_mean"][-1] for each in printed] == [runs.mean[-1] for runs in saved]


def test_the_page_holds_all_it_shows(folder):
    page = (folder / "report.html").read_text()
    sources = re.findall(r'(?:src|href)="([^"#][^"]*)', page)
    shown = [
        (folder / f"{name}.svg").read_bytes() for name in ("long-runs", "figure-14", "figure-15")
    ]
    assert sources == [
        f"data:image/svg+xml;base64,{b64encode(picture).decode()}" for picture in shown
    ]
    assert all(b"<svg" in picture for picture in shown)
    assert "<table>" in page
    assert "Claim 3" in page
    assert "url(" not in page
    assert "<script" not in page


def test_a_rerun_with_the_same_settings_plays_nothing_and_changes_nothing(
    folder, tmp_path, no_play
):
    shutil.copytree(folder, tmp_path / "again")
    before = contents(tmp_path / "again")
    reproduce(tmp_path / "again", FIGURES_14_AND_15, SMALL)
    assert contents(tmp_path / "again") == before
    reproduce(
        tmp_path / "again", [FIGURES["14"]], SMALL
    )  # the report still covers what else is there
    assert (tmp_path / "again" / "report.md").read_bytes() == before["report.md"]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_figure_shows_all_policies_and_again_those_of_the_paper(folder, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "aftereffect.reproduction.stochastic.save_canvas",
        lambda canvas, *_: drawn.append(canvas),
    )
    study = ae.Study.load(folder / "studies" / "figure-15.parquet")
    draw_study(FIGURES["15"], study, tmp_path)
    left, right = drawn[0].axes
    names = [STYLES[policy].name for policy in FIGURES["15"].policies]
    assert [line.get_label() for line in left.lines] == names
    assert [line.get_label() for line in right.lines] == names[:4]
    for axes, runs in ((left, study.runs), (right, study.runs[:4])):
        assert [line.get_ydata().tolist() for line in axes.lines] == [
            each.mean.tolist() for each in runs
        ]
        assert all(line.get_xdata().tolist() == list(study.checkpoints) for line in axes.lines)
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == names


def test_a_lost_picture_is_drawn_again_without_playing(folder, tmp_path, no_play):
    shutil.copytree(folder, tmp_path / "again")
    before = contents(tmp_path / "again")
    (tmp_path / "again" / "figure-15.svg").unlink()
    (tmp_path / "again" / "figure-14.png").write_bytes(b"")
    reproduce(tmp_path / "again", [FIGURES["14"]], SMALL)
    assert contents(tmp_path / "again") == before


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: replace(SMALL, seed=4),
        lambda folder: replace(SMALL, replications=7),
        lambda folder: replace(SMALL, horizon=401),
        lambda folder: (folder / "studies" / "figure-14.parquet").write_bytes(b"PAR1 cut short"),
        lambda folder: shutil.copy(
            folder / "studies" / "figure-15.parquet", folder / "studies" / "figure-14.parquet"
        ),
    ],
    ids=["seed", "replications", "horizon", "damaged", "another figure's"],
)
def test_what_does_not_fit_is_played_again(folder, tmp_path, change):
    again = tmp_path / "again"
    shutil.copytree(folder, again)
    changed = change(again)
    settings = changed if isinstance(changed, Settings) else SMALL
    (again / "figure-14.png").write_bytes(b"of other settings")
    reproduce(again, [FIGURES["14"]], settings)
    assert (again / "figure-14.png").read_bytes().startswith(b"\x89PNG")
    study = ae.Study.load(again / "studies" / "figure-14.parquet")
    assert (study.seed, study.replications, study.horizon) == (
        settings.seed,
        settings.replications,
        settings.horizon,
    )
    assert study.bandit == FIGURES["14"].bandit
    covered = 2 if settings is SMALL else 1  # figure 15 is there with the old settings only
    assert pl.read_parquet(again / "results.parquet")["figure"].n_unique() == covered


def test_other_code_is_another_result(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "aftereffect.simulation._plan.describe_code", lambda: "aftereffect of tomorrow"
    )
    assert shown_study(FIGURES["14"], PAPER_ORDER, SMALL).load(folder) is None


@pytest.mark.compiled
def test_an_interrupt_leaves_what_is_finished(tmp_path, monkeypatch):
    def interrupt(title, finished):
        if title == "figure 15 (2 of 2)":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(tmp_path, FIGURES_14_AND_15, SMALL, progress=interrupt)
    assert (tmp_path / "figure-14.png").exists()
    assert not (tmp_path / "figure-15.png").exists()
    assert "1 of the 18 figures" in (tmp_path / "report.md").read_text()
    monkeypatch.setattr(
        "aftereffect.reproduction.chapters.StoredStudy.play", refusing_figure_14(StoredStudy.play)
    )
    reproduce(tmp_path, FIGURES_14_AND_15, SMALL)
    assert "2 of the 18 figures" in (tmp_path / "report.md").read_text()


def refusing_figure_14(play):
    def checked(stored, *rest):
        assert "14" not in stored.name
        return play(stored, *rest)

    return checked


def test_an_interrupt_at_once_leaves_nothing(tmp_path):
    def interrupt(title, finished):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(tmp_path / "new", FIGURES_14_AND_15, SMALL, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.compiled
def test_progress_names_the_figure_and_adds_up(tmp_path):
    seen = []
    reproduce(tmp_path, FIGURES_14_AND_15, SMALL, progress=lambda *step: seen.append(step))
    assert list(dict.fromkeys(title for title, _ in seen)) == [
        "figure 14 (1 of 2)",
        "figure 15 (2 of 2)",
    ]
    assert sum(finished for _, finished in seen) == count_replications(FIGURES_14_AND_15, SMALL)
    again = []
    reproduce(tmp_path, FIGURES_14_AND_15, SMALL, progress=lambda *step: again.append(step))
    assert sum(finished for _, finished in again) == count_replications(FIGURES_14_AND_15, SMALL)


@pytest.mark.compiled
def test_the_command_says_which_claims_hold(tmp_path, capsys):
    options = ["--quick", "--horizon", "300", "--replications", "4", "--figure", "15,15"]
    assert main(["reproduce", "--out", str(tmp_path / "out"), *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""  # quiet where it is no terminal
    lines = out.splitlines()
    assert [line for line in lines if not line.startswith(" ")][:-1] == [
        claim.title for claim in CLAIMS
    ]
    assert (
        "  Best arm first, as in the paper: - not judged; the figures played have no comparisons for it"
        in lines
    )
    assert lines[-1] == f"report: {tmp_path / 'out' / 'report.html'}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--horizon", "0"],
            "horizon must be a whole number from 1 to 9,007,199,254,740,992, got 0",
        ),
        (["--horizon", "8"], "horizon must be at least the number of arms, 9, got 8"),
        (
            ["--replications", "0"],
            "replications must be a whole number from 1 to 10,000,000, got 0",
        ),
        (
            ["--figure", "99"],
            f"there is no figure 99; known: {', '.join(ALL_FIGURES)}",
        ),
        (
            ["--seed", "-1"],
            "seed must be a whole number from 0 to 9,223,372,036,854,775,807, got -1",
        ),
        (["--chapter", "beyond", "--figure", "14"], "give --chapter or --figure, not both"),
        (["--jobs", "0"], "jobs must be a whole number from 1 to 1,024, got 0"),
    ],
)
def test_refusals_write_nothing(tmp_path, capsys, arguments, message):
    assert main(["reproduce", "--out", str(tmp_path / "out"), *arguments]) == 2
    assert capsys.readouterr().err == f"aftereffect: {message}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["file", "file/pictures"])
def test_out_on_a_file_is_refused(tmp_path, capsys, out, no_play):
    (tmp_path / "file").write_text("precious")
    assert main(["reproduce", "--out", str(tmp_path / out)]) == 2
    assert (
        capsys.readouterr().err
        == f"aftereffect: cannot write into {tmp_path / 'file'}: it is not a folder\n"
    )
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize(
    "name",
    ["results.parquet", "report.html", "report.md", "figure-14.svg", "studies/figure-14.parquet"],
)
def test_a_folder_in_the_place_of_a_file_is_found_before_anything_is_played(
    tmp_path, name, no_play
):
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(ae.OutputError, match=f"{name}: it is a folder, name a file in it"):
        reproduce(tmp_path, [FIGURES["14"]], SMALL)
    assert list((tmp_path / name).iterdir()) == []


def test_jobs_are_checked_even_if_nothing_is_played(folder, no_play):
    with pytest.raises(ae.ParameterError, match="jobs must be a whole number from 1"):
        reproduce(folder, FIGURES_14_AND_15, SMALL, jobs=0)


@pytest.mark.compiled
def test_quick_results_have_a_folder_of_their_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert (
        main(["reproduce", "--quick", "--figure", "15", "--horizon", "300", "--replications", "2"])
        == 0
    )
    assert [path.name for path in tmp_path.iterdir()] == ["paper-quick"]


@pytest.mark.slow
def test_a_real_interrupt_leaves_a_report(tmp_path):
    command = [
        sys.executable,
        "-m",
        "aftereffect",
        "reproduce",
        "--out",
        str(tmp_path),
        "--figure",
        "15,17",
        "--horizon",
        "1000",
        "--replications",
        "500",
    ]
    program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (
        tmp_path / "studies" / "figure-15-long-relabelled.parquet"
    ).exists():  # figure 15 is complete
        assert program.poll() is None
        time.sleep(0.1)
    time.sleep(1)
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (130, "aftereffect: stopped\n")
    assert "1 of the 18 figures" in (tmp_path / "report.md").read_text()


def test_studies_that_is_a_file_is_refused(tmp_path, capsys, no_play):
    (tmp_path / "studies").write_text("precious")
    assert main(["reproduce", "--out", str(tmp_path)]) == 2
    assert (
        capsys.readouterr().err
        == f"aftereffect: cannot write into {tmp_path / 'studies'}: it is not a folder\n"
    )
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]


def test_a_folder_without_permission_is_refused(tmp_path, capsys, monkeypatch, no_play):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert main(["reproduce", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"aftereffect: cannot write {tmp_path}: Permission denied\n"
    assert list(tmp_path.iterdir()) == []
