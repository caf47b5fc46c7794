"""The paper's figures."""

import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.paper import FIGURES


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
