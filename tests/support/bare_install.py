"""What `pip install aftereffect` alone gives, and what it says of the rest: a part of `make dist`.

It runs in an environment with the wheel and nothing else, given the path of its program.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np

import aftereffect as ae
from aftereffect import inference

#: The weight that a bare installation may have, in MB; pip and setuptools do not count.
MAX_WEIGHT = 75
NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
BANDIT = ae.StochasticBandit([0.9, 0.5], ae.Interval(3, 9))


def weigh() -> float:
    """The size of all that was installed, in MB; what Python compiled beside it does not count."""
    folder = Path(sysconfig.get_path("purelib"))
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix != ".pyc"
        and not path.relative_to(folder).parts[0].startswith(NOT_OURS)
    ]
    return sum(path.stat().st_size for path in files) / 1e6


def play_live(storage: str, policy: str | None = None) -> int:
    """Play a live experiment of 50 slots, and count its totals when its log is verified."""
    rounds = {"policy": policy, "reward_range": (0, 1)} if policy else {}
    with ae.Experiment.create("shop", arms=["A", "B"], seed=1, storage=storage, **rounds) as shop:
        for _ in range(50):
            decision = shop.ask()
            shop.tell(decision.slot, 0.9 if decision.arm == "A" else 0.5)
        assert shop.verify().whole
        return shop.status().received


def analyse_switchback() -> float:
    """What analysis says of a switchback whose new arm brings 10 % more, in percent."""
    rng = np.random.default_rng(1)
    starts = np.arange(0, 240, 2)
    decided = rng.choice(2, len(starts), p=[0.5, 0.5])
    played = np.repeat(decided, 2)
    totals = 500 * (1 + 0.1 * played) * np.exp(rng.normal(0, 0.03, 240))
    chances = np.full((len(starts), 2), 0.5)
    trial = inference.Trial(totals, played, starts, decided, chances, np.zeros(240, int))
    return float(inference.analyse(trial, ["old", "new"]).effects[0].percent)


def estimate() -> ae.LagEstimate:
    """Estimate the lag where the reward of each pull of arm 0 arrives two slots later."""
    rng = np.random.default_rng(1)
    arms = rng.integers(2, size=400)
    totals = np.append([0.0, 0.0], 1.0 - arms[:-2]) + rng.normal(0, 0.1, 400)
    return ae.estimate_lag(arms.tolist(), totals.tolist())


def check_python() -> None:
    """What works, and what says in one line what to install."""
    assert BANDIT.delay_facts.mean_lag == 6
    assert play_live("memory://", "settle-ucb") == 50
    assert 1.5 < estimate().mean < 2.5
    assert 8 < analyse_switchback() < 12
    refused = {
        "simulation": [lambda: ae.simulate("ucb1", BANDIT, 100, 2, seed=1)],
        "live": [
            lambda: play_live("memory://"),
            lambda: play_live("sqlite:///shop.db", "settle-ucb"),
        ],
        "postgres": [lambda: ae.open_storage("postgresql+psycopg://localhost/shop")],
        "plot": [lambda: estimate().plot()],
        "dask": [lambda: ae.dask_cluster("local").__enter__()],
    }
    for extra, calls in refused.items():
        for call in calls:
            try:
                call()
            except ae.MissingExtraError as error:
                check_line(str(error), extra)
            else:
                raise AssertionError(f"{extra} is installed here")


def check_line(text: str, extra: str) -> None:
    """It is one line that names what to install."""
    print(f"  {text}")
    assert f'pip install "aftereffect[{extra}]"' in text
    assert "\n" not in text


def check_program(program: str) -> None:
    """The program tells its version, and what to install for each kind of command."""
    run = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ae.__version__
    for words, extra in (
        ("", "cli"),
        ("--help", "cli"),
        ("simulate --policy ucb1", "simulation"),
        ("plan totals.csv", "simulation"),
        ("create shop --arms A,B", "live"),
        ("reproduce --quick", "paper"),
        ("serve", "service"),
    ):
        run = subprocess.run([program, *words.split()], capture_output=True, text=True)
        assert (run.returncode, run.stdout) == (2, "")
        check_line(run.stderr.strip(), extra)


def main() -> None:
    """Check all."""
    weight = weigh()
    print(f"installed: {weight:.0f} MB")
    assert weight < MAX_WEIGHT
    check_python()
    check_program(sys.argv[1])


if __name__ == "__main__":
    main()
