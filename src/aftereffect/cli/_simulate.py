"""The command ``simulate``."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from aftereffect._core import check_writable, parse, require_extra
from aftereffect.bandits import bandit_from_options
from aftereffect.cli._formats import Printer
from aftereffect.cli._shared import check_picture, connect_workers, progress_bar
from aftereffect.cli._values import DaskAddress, Format, Jobs, Number, Numbers, OutputFile, SpecText
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy
from aftereffect.simulation import (
    DEFAULT_CHECKPOINTS,
    EngineRequest,
    Study,
    plan_study,
    save_picture,
    worker_pool,
)
from aftereffect.simulation import STUDY_SUFFIXES as TABLES


def simulate(
    *,
    policy: Annotated[list[str], Parameter(negative=(), metavar="SPEC")],
    horizon: Number,
    bandit: SpecText | None = None,
    means: Numbers | None = None,
    reward_law: SpecText | None = None,
    rewards: Annotated[str | None, Parameter(metavar="FILE")] = None,
    delay: SpecText | None = None,
    replications: Number = 100,
    seed: Number | None = None,
    engine: EngineRequest = "roundwise",
    checkpoints: Number = DEFAULT_CHECKPOINTS,
    keep: Number | None = None,
    jobs: Jobs | None = None,
    dask: DaskAddress | None = None,
    format: Format = "table",
    out: OutputFile | None = None,
    plot: OutputFile | None = None,
) -> None:
    """Simulate policies on a bandit and print their regret.

    With --means, rewards are drawn at random. With --rewards, they are read from a file. With
    --bandit, you give any bandit. Give one of the three. "aftereffect list" shows all policies,
    delays, reward laws and bandits.

    Parameters
    ----------
    policy
        A policy such as "ars-ucb(alpha=4, growth=power(2))". Repeat the option to compare several.
    horizon
        The number of slots in each replication, such as 1e5.
    bandit
        A whole bandit such as 'history-bandit("sales.csv", [0,.05,.1], slot="1d")'.
    means
        The expected reward of each arm, from 0 to 1, separated by commas: .9,.8,.7
    reward_law
        How the reward of a pull is distributed around its mean, such as "beta(2)". The default is
        bernoulli.
    rewards
        A .csv, .npy or .parquet file with one row per slot. It has one column per arm, with rewards
        from 0 to 1. Or it has a single column with the number of the only arm that pays 1 in the
        slot; the first arm is 0. You can also give a schedule such as "drawn-arm([.5,.3,.2])".
    delay
        When the reward of a pull arrives, such as "interval(30,39)" for equal shares at the lags 30
        to 39. By default it arrives in the slot of the pull.
    replications
        How many independent runs of each policy to simulate.
    seed
        A whole number. The same seed gives the same results. Without this option, a seed is drawn
        and printed.
    engine
        How to simulate: "roundwise" is fast, "slotwise" simulates every slot, "cuda" is roundwise
        on an NVIDIA GPU (needs the extra "gpu"). All results have the same distribution.
        "cuda-single" computes in single precision there: faster, for policies of rounds and at most
        1e6 slots. "auto" takes a GPU for large studies, if there is one.
    checkpoints
        The number of slots at which to record the regret. They are spaced evenly on a log scale.
    keep
        How many replications to keep in memory, with the engine "cuda" or "cuda-single". The others
        leave only what the printed numbers need. Percentiles are then at most 0.4 % off. Without
        this option, all replications are kept. With it, --out cannot be given.
    format
        How to print the results. The csv format has the mean, its standard error and the 95th
        percentile at every checkpoint.
    out
        Save all replications to a .parquet file (needs the extra "data") or to a .csv file. In
        Python, Study.load reads the .parquet file.
    plot
        Save a picture of the regret curves to a .png, .svg or .pdf file (needs the extra "plot").
    """
    played = bandit_from_options(
        bandit=bandit,
        means=means,
        reward_law=reward_law,
        rewards=rewards,
        delay=delay,
        option="--{}",
    )
    players = [parse(text, Policy) for text in policy]
    if out is not None:
        if keep is not None:
            raise ParameterError("give --keep or --out, not both: a file has all replications")
        check_writable(out, TABLES)
        if out.suffix.lower() == ".parquet":
            require_extra("data")
    check_picture(plot)
    plan = plan_study(
        players,
        played,
        horizon,
        replications,
        seed=seed,
        engine=engine,
        checkpoints=checkpoints,
        keep=keep,
    )
    with (
        connect_workers(dask, jobs) as options,
        worker_pool(**options) as pool,
        progress_bar(len(players) * plan.replications) as progress,
    ):
        study = plan.play(pool, partial(progress, "simulating"))
    try:  # files first: whoever reads the printed output may stop early
        if out is not None:
            study.save(out)
        if plot is not None:
            save_picture(study, plot)
    finally:  # on a full disk, this is all that is left of the results
        STUDY.show(study, format)


def _list_points(study: Study) -> tuple[Sequence[str], list[list[object]]]:
    rows: list[list[object]] = []
    for runs in study:
        sems = [None] * len(study.checkpoints) if runs.sem is None else runs.sem.tolist()
        curve = zip(study.checkpoints, runs.mean.tolist(), sems, runs.p95.tolist(), strict=True)
        rows += [[runs.label, *point] for point in curve]
    return ("policy", "slot", "regret_mean", "regret_sem", "regret_p95"), rows


STUDY = Printer(Study.__str__, Study.summaries, _list_points)
