"""``aftereffect simulate``."""

import csv
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from aftereffect.checks import whole
from aftereffect.cli.progress import progress_bar
from aftereffect.cli.values import Number, Numbers, SpecText
from aftereffect.environments import EngineName, StochasticBandit
from aftereffect.extras import require
from aftereffect.outputs import writable
from aftereffect.policies import Policy
from aftereffect.rewards import Reward
from aftereffect.simulation import Study
from aftereffect.simulation import simulate as run_study
from aftereffect.simulation.checkpoints import DEFAULT_COUNT
from aftereffect.simulation.plotting import SUFFIXES as PICTURES
from aftereffect.simulation.plotting import save_picture
from aftereffect.simulation.tables import SUFFIXES as TABLES
from aftereffect.spec import parse
from aftereffect.spreads import Spreading

Format = Literal["table", "json", "csv"]


def simulate(
    *,
    policy: Annotated[list[str], Parameter(negative=(), metavar="SPEC")],
    means: Numbers,
    horizon: Number,
    spread: SpecText = "immediate",
    reward: SpecText = "bernoulli",
    replications: Number = 100,
    seed: Number | None = None,
    engine: EngineName = "roundwise",
    checkpoints: Number = DEFAULT_COUNT,
    jobs: Number | None = None,
    format: Format = "table",
    out: Path | None = None,
    plot: Path | None = None,
) -> None:
    """Play policies many times in a stochastic bandit and print their regret.

    Names of policies and spreads: aftereffect list.

    Parameters
    ----------
    policy
        A policy such as "ars-ucb(alpha=4, growth=power(2))"; give the option again for each further one.
    means
        The expected reward of each arm, in [0, 1], with commas: .9,.8,.7
    horizon
        Slots per replication, such as 1e5.
    spread
        How a pull's reward lands in later slots, such as "interval(30,40)".
    reward
        The law of a pull's whole reward.
    replications
        Independent runs of each policy.
    seed
        A whole number; the same seed gives the same result. Drawn and reported if not given.
    engine
        roundwise is fast, slotwise literal; both have the same law.
    checkpoints
        At how many slots, evenly spaced in log time, regret is noted.
    jobs
        Threads; all cores by default.
    format
        How results are printed.
    out
        A .parquet file for all replications (needs the extra "data").
    plot
        A .png, .svg or .pdf file for a picture of the regret curves (needs the extra "plot").
    """
    environment = StochasticBandit(means, parse(spread, Spreading), parse(reward, Reward))
    players = [parse(text, Policy) for text in policy]
    if out is not None:
        require("data")
        writable(out, TABLES)
    if plot is not None:
        require("plot")
        writable(plot, PICTURES)
    runs = whole("replications", replications, at_least=1)
    with progress_bar(len(players) * runs) as progress:
        study = run_study(
            players,
            environment,
            horizon,
            runs,
            seed=seed,
            engine=engine,
            checkpoints=checkpoints,
            jobs=jobs,
            progress=partial(progress, "simulating"),
        )
    FORMATS[format](study)  # first, so that nothing is lost if a disk is full
    if out is not None:
        study.save(out)
    if plot is not None:
        save_picture(study, plot)


def _print_table(study: Study) -> None:
    print(study)


def _print_json(study: Study) -> None:
    print(json.dumps(study.summaries(), indent=2))


def _print_csv(study: Study) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["policy", "slot", "regret_mean", "regret_sem", "regret_p95"])
    for runs in study:
        sems = [""] * len(study.checkpoints) if runs.sem is None else runs.sem.tolist()
        rows = zip(study.checkpoints, runs.mean.tolist(), sems, runs.p95.tolist(), strict=True)
        writer.writerows([runs.label, *row] for row in rows)


FORMATS: dict[Format, Callable[[Study], None]] = {"table": _print_table, "json": _print_json, "csv": _print_csv}
