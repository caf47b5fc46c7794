"""The paper's figures."""

import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.paper import FIGURES
from aftereffect.paper.looks import LOOKS
from aftereffect.spec import name_of


def test_there_are_the_fourteen_stochastic_panels():
    assert list(FIGURES) == [2, 3, 4, 5, *range(10, 20)]
    assert {figure.environment.means for figure in FIGURES.values()} == {(0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)}
    spreads = [str(figure.environment.spread) for figure in FIGURES.values()]
    assert spreads == [
        "uniform-delay(10, 30)",
        "uniform-delay(10, 30)",
        "uniform-delay(0, 60)",
        "uniform-delay(0, 60)",
        "interval(30, 40)",
        "interval(10, 20)",
        "linear-decay(100)",
        "linear-decay(50)",
        "geometric(0.8)",
        "geometric(0.9)",
        "power-law(3)",
        "power-law(2)",
        "linear-rise(100)",
        "linear-rise(50)",
    ]


def test_every_policy_has_a_look_and_no_two_in_a_panel_look_alike_in_grey():
    for figure in FIGURES.values():
        looks = [LOOKS[policy] for policy in figure.policies]
        assert len({str(look.dashes) for look in looks}) == len(looks)
        assert len({look.colour for look in looks}) == len(looks)
        assert len({look.name for look in looks}) == len(looks)


def test_rivals_play_where_the_paper_names_them():
    rivals = {number: [name_of(type(p)) for p in figure.policies[4:]] for number, figure in FIGURES.items()}
    assert {number for number, names in rivals.items() if "odaaf" in names} == {2, 3, 4, 5}
    assert {number for number, names in rivals.items() if "generalized-odaaf" in names} == {10, 11, 12, 13, 18, 19}
    assert all(names[-1] == "ucb1" for names in rivals.values())


def test_figures_14_and_15_are_as_the_paper_says():
    assert FIGURES[14].environment == ae.StochasticBandit([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1], ae.Geometric(0.8))
    assert FIGURES[15].environment.spread == ae.Geometric(0.9)
    assert [str(policy) for policy in FIGURES[14].policies] == [
        *(f"ars-ucb(alpha={alpha}, growth=power(2))" for alpha in (1, 2, 4, 8)),
        "ucb1",
    ]
    assert [str(policy) for policy in FIGURES[15].policies] == [
        *(f"ars-ucb(alpha=4, growth={growth})" for growth in ("power(1)", "power(2)", "power(3)", "exponential")),
        "ucb1",
    ]


def test_paper_draws_png_and_svg(tmp_path, capsys):
    folder = tmp_path / "new" / "pictures"
    status = main(["paper", "--figure", "15", "--out", str(folder), "--horizon", "500", "--replications", "5"])
    assert status == 0
    assert sorted(path.name for path in folder.iterdir()) == ["figure-15.png", "figure-15.svg"]
    assert capsys.readouterr().out.split() == [str(folder / "figure-15.png"), str(folder / "figure-15.svg")]
    assert "Figure 15" in (folder / "figure-15.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--horizon", "0"], "horizon must be a whole number from 1"),
        (["--replications", "0"], "replications must be a whole number of at least 1, got 0"),
        (["--figure", "99"], "there is no figure 99"),
        (["--seed", "-1"], "seed must be"),
    ],
)
def test_refusals_write_nothing(tmp_path, capsys, arguments, message):
    assert main(["paper", "--out", str(tmp_path / "pictures"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_out_on_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("precious")
    for out in ("file", "file/pictures"):
        assert main(["paper", "--out", str(tmp_path / out)]) == 2
        assert "it is not a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "precious"
