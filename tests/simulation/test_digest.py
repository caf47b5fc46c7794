"""What is remembered of replications that are not kept, against NumPy on all of them."""

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.simulation import Digest, OfAll, PolicyRuns, Study
from aftereffect.simulation._digest import BINS, GROUP, find_bin, measure_group

COUNT = 2 * GROUP + 300
LAWS = {
    "smooth": lambda rng: rng.gamma(3.0, 50.0, COUNT),
    "both signs": lambda rng: rng.normal(0.0, 300.0, COUNT),
    "negative": lambda rng: -rng.gamma(3.0, 50.0, COUNT),
    "two values": lambda rng: rng.choice([0.3, 1e6], COUNT, p=[0.9, 0.1]),
    "one value": lambda rng: np.full(COUNT, 20.3),
    "none": lambda rng: np.zeros(COUNT),
    "large": lambda rng: rng.exponential(1e12, COUNT),
}


def digest_of(tables, rounds, size=COUNT):
    """The digest of replications, added up in chunks of whole groups."""
    whole = Digest.zeros(len(rounds), tables[0].shape[1], tables[1].shape[1])
    for first in reversed(range(0, len(rounds), size)):
        chunk = slice(first, first + size)
        part = Digest.zeros(len(rounds[chunk]), tables[0].shape[1], tables[1].shape[1])
        for table, found in zip(tables, (part.regret, part.pulls), strict=True):
            for group, column in np.ndindex(found.shape[:2]):
                measure_group(table[chunk], group, column, found[group, column])
        for column, row in enumerate(tables[0][chunk].T):
            np.add.at(part.counts[column], [find_bin(each) for each in row], 1)
        for group in range(len(part.rounds)):
            part.rounds[group] = rounds[chunk][group * GROUP : (group + 1) * GROUP].sum()
        whole.add(first, part)
    return whole


@pytest.fixture(scope="module")
def played():
    rng = np.random.default_rng(3)
    regret = np.stack([draw(rng) for draw in LAWS.values()], axis=1)
    pulls = rng.integers(0, 1_000, (COUNT, 2)).astype(float)
    return (regret, pulls), rng.integers(1, 500, COUNT)


def test_moments_are_those_of_all(played):
    (regret, pulls), rounds = played
    found = digest_of(*played).summarise(COUNT)
    assert found.mean == pytest.approx(regret.mean(axis=0), rel=1e-13, abs=1e-12)
    expected = regret.std(axis=0, ddof=1) / COUNT**0.5
    assert found.sem == pytest.approx(expected, rel=1e-11, abs=1e-13)
    assert found.mean_pulls == pytest.approx(pulls.mean(axis=0), rel=1e-13)
    assert found.mean_rounds == rounds.mean()


def test_percentiles_are_at_most_as_far_off_as_promised(played):
    regret = played[0][0]
    expected = np.quantile(regret, 0.95, axis=0)
    found = digest_of(*played).summarise(COUNT).p95
    assert found == pytest.approx(expected, rel=0.004, abs=1e-6)
    constant = list(LAWS).index("one value")
    assert found[constant] == 20.3


def test_chunks_do_not_matter(played):
    whole, parts = (digest_of(*played, size) for size in (COUNT, GROUP))
    assert all(np.array_equal(*pair) for pair in zip(whole, parts, strict=True))


@pytest.mark.parametrize("number", [0.0, 1e-9, 1e-6, 0.1, 1.0, 1.5, 255.0 / 256, 7e5, 3e12])
def test_bins_are_ordered_and_narrow(number):
    below, above = number * (1 - 1 / 128), number * (1 + 1 / 128)
    assert find_bin(-above) <= find_bin(-number) <= find_bin(-below) <= BINS // 2
    assert BINS // 2 <= find_bin(below) <= find_bin(number) <= find_bin(above)
    if number >= 1e-6:
        assert find_bin(below) < find_bin(number) < find_bin(above)


def test_numbers_without_a_bin_of_their_own_have_one_at_the_end():
    assert (find_bin(-1e300), find_bin(1e300)) == (0, BINS - 1)


def make_study(count):
    """A study of so many replications that keeps two."""
    of_all = OfAll(
        count,
        np.array([1.0, 2.0]),
        np.array([0.1, 0.2]),
        np.array([3.0, 4.0]),
        np.array([6.0, 4.0]),
        5.0,
    )
    runs = PolicyRuns(
        label="ucb1",
        policy=ae.Ucb1(),
        regret=np.ones((2, 2)),
        pulls=np.ones((2, 2)),
        rounds=np.ones(2, dtype=np.int64),
        seconds=1.0,
        of_all=of_all,
    )
    bandit = ae.StochasticBandit([0.9, 0.5])
    return Study(
        bandit=bandit,
        bandit_label=str(bandit),
        engine="cuda",
        horizon=10,
        checkpoints=(5, 10),
        seed=1,
        made_by="",
        runs=(runs,),
    )


def test_a_study_that_keeps_few_speaks_of_all(tmp_path):
    study = make_study(5_000)
    (summary,) = study.summaries()
    assert (study.replications, summary["replications"]) == (5_000, 5_000)
    assert summary["regret_mean"] == [1.0, 2.0]
    assert summary["regret_sem"] == [0.1, 0.2]
    assert summary["regret_p95"] == [3.0, 4.0]
    assert (summary["pulls_mean"], summary["rounds_mean"]) == ([6.0, 4.0], 5.0)
    assert study.final_rows() == [("ucb1", "2.0", "0.2", "4.0")]
    assert study.final_only().summaries()[0]["regret_p95"] == [4.0]
    assert len(study[0].final) == 2
    with pytest.raises(ae.ParameterError, match="of 5,000 this study keeps only 2"):
        study.save(tmp_path / "study.csv")


def test_only_gpus_keep_some(capsys, tmp_path):
    bandit = ae.StochasticBandit([0.9, 0.5])
    with pytest.raises(ae.ParameterError, match="can keep 5 of 10 replications, got 'roundwise'"):
        ae.simulate("ucb1", bandit, 100, 10, keep=5)
    with pytest.raises(ae.ParameterError, match="keep"):
        ae.simulate("ucb1", bandit, 100, 10, keep=0)
    assert ae.simulate("ucb1", bandit, 100, 10, keep=10, seed=1)[0].of_all is None
    command = [
        "simulate",
        "--policy",
        "ucb1",
        "--means",
        ".9,.5",
        "--horizon",
        "100",
        "--keep",
        "5",
    ]
    assert main([*command, "--out", str(tmp_path / "study.csv")]) == 2
    assert "not both" in capsys.readouterr().err
