"""``aftereffect simulate``."""

import csv
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from cyclopts import Parameter

from aftereffect.cli.progress import progress_bar
from aftereffect.cli.values import Number, Numbers, OutputFile, SpecText
from aftereffect.cli.workers import DaskAddress, Jobs, workers
from aftereffect.environments import EngineName, described
from aftereffect.extras import require
from aftereffect.outputs import PICTURES, writable
from aftereffect.policies import Policy
from aftereffect.simulation import Study
from aftereffect.simulation.checkpoints import DEFAULT_COUNT
from aftereffect.simulation.crew import hired
from aftereffect.simulation.plan import planned
from aftereffect.simulation.plotting import save_picture
from aftereffect.simulation.tables import SUFFIXES as TABLES
from aftereffect.spec import parse

Format = Literal["table", "json", "csv"]


def simulate(
    *,
    policy: Annotated[list[str], Parameter(negative=(), metavar="SPEC")],
    horizon: Number,
    means: Numbers | None = None,
    spread: SpecText | None = None,
    reward: SpecText | None = None,
    rewards: Annotated[str | None, Parameter(metavar="FILE")] = None,
    delays: SpecText | None = None,
    replications: Number = 100,
    seed: Number | None = None,
    engine: EngineName = "roundwise",
    checkpoints: Number = DEFAULT_COUNT,
    jobs: Jobs | None = None,
    dask: DaskAddress | None = None,
    format: Format = "table",
    out: OutputFile | None = None,
    plot: OutputFile | None = None,
) -> None:
    """Play policies many times in a bandit and print their regret.

    Rewards are drawn (--means, --spread, --reward) or were fixed beforehand (--rewards, --delays). Names of policies and
    spreads: aftereffect list.

    Parameters
    ----------
    policy
        A policy such as "ars-ucb(alpha=4, growth=power(2))"; give the option again for each further one.
    horizon
        Slots per replication, such as 1e5.
    means
        The expected reward of each arm, in [0, 1], with commas: .9,.8,.7
    spread
        How a pull's reward lands in later slots, such as "interval(30,40)"; at once by default.
    reward
        The law of a pull's whole reward; bernoulli by default.
    rewards
        A .npy, .csv or .parquet file with a row per slot: a column per arm with its rewards in [0, 1], or a single column with
        the number of the one arm that pays 1, counted from 0. Or a schedule such as "drawn-arm([.5,.3,.2])".
    delays
        What delays those rewards: a spread, or "hold-back(10)"; nothing by default.
    replications
        Independent runs of each policy.
    seed
        A whole number; the same seed gives the same result. Drawn and reported if not given.
    engine
        roundwise is fast, slotwise literal; both have the same law.
    checkpoints
        At how many slots, evenly spaced in log time, regret is noted.
    format
        How results are printed; csv has the mean, its standard error and the 95 % quantile at each checkpoint.
    out
        A file for every replication: .parquet, which can be loaded again (needs the extra "data"), or .csv.
    plot
        A .png, .svg or .pdf file for a picture of the regret curves (needs the extra "plot").
    """
    environment = described(means=means, spread=spread, reward=reward, rewards=rewards, delays=delays, option="--{}")
    players = [parse(text, Policy) for text in policy]
    if out is not None:
        writable(out, TABLES)
        if out.suffix.lower() == ".parquet":
            require("data")
    if plot is not None:
        require("plot")
        writable(plot, PICTURES)
    plan = planned(players, environment, horizon, replications, seed=seed, engine=engine, checkpoints=checkpoints)
    with (
        workers(dask, jobs) as who,
        hired(**who) as crew,
        progress_bar(len(players) * plan.replications) as progress,
    ):
        study = plan.play(crew, partial(progress, "simulating"))
    try:  # files first: the reader of what is printed may leave early
        if out is not None:
            study.save(out)
        if plot is not None:
            save_picture(study, plot)
    finally:  # and if a disk is full, this is all that is left
        FORMATS[format](study)


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
