"""The experiment before the experiment: what candidate designs would bring on one's own history.

Read the modules in this order: `_history`, `_worlds`, `_designs`, `_endings`, `_jobs`, `_promises`,
`_plan`, `_work`, `_report`.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from aftereffect._core import check_float, check_int, check_or_draw_seed
from aftereffect.planning._designs import check_design, count_worlds, list_designs, name_design
from aftereffect.planning._history import Description, HistoryLike, describe, read_past
from aftereffect.planning._jobs import Job, Outcome
from aftereffect.planning._plan import Plan
from aftereffect.planning._promises import Estimate, Promise, make_promise
from aftereffect.planning._work import open_folder, open_pool, play_jobs
from aftereffect.planning._worlds import RangeLike, Recipe, read_lags, read_lifts
from aftereffect.policies import Policy

__all__ = ["Description", "Estimate", "Plan", "Promise", "plan"]

#: The worlds that are drawn, those of the first figures, and the parts that all worlds make.
_RUNS, _ROUGH_RUNS, _JOB_RUNS = 64, 8, 4
_MIN_RUNS, _MAX_RUNS = 4, 100_000
_MAX_WEEKS = 520
#: Of the worlds of a plan, so many are for the smallest lifts that are found.
_POWER_PART = 0.75
#: The weeks within which smallest lifts are found, and those for slots of a week.
_POWER_WEEKS, _LONG_POWER_WEEKS = (2, 4, 8, 12), (26, 52, 104)
#: The expected loss per slot at which the rule stops, as a part of the mean total.
_LIMIT = 0.001


def plan(
    history: HistoryLike,
    *,
    slot: str = "1h",
    arms: int = 2,
    lift: RangeLike = "5%",
    lag: RangeLike = 0.0,
    weeks: int = 8,
    designs: Sequence[Policy | str] | None = None,
    stop_when_loss_below: float | None = None,
    unit: str | None = None,
    runs: int = _RUNS,
    power: bool = True,
    seed: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    show_rough: Callable[[Plan], None] | None = None,
) -> Plan:
    """Play candidate designs on worlds made of a history, and say what they promise.

    Parameters
    ----------
    history
        The totals before the experiment, while the control was played: the path of a .csv, .csv.gz
        or .parquet file with the columns time and total, rows of (time, total), or totals that
        begin on a Monday. Two weeks at least.
    slot
        The length of a slot: 15min, 1h, 1d or 1w.
    arms
        The number of arms, with the control.
    lift
        How much more the best of the other arms brings than the control: ``"5%"``, or a range
        ``"3..10%"`` if you are not sure; it may begin below 0. The remaining arms lie between that
        and as much below 0.
    lag
        Within which time nearly all of an effect has arrived: ``"12h"``, ``"6..48h"``, or a number
        of slots.
    weeks
        How long the experiment lasts.
    designs
        Policies or their spec strings, instead of the usual candidates: an adaptive switchback that
        keeps a tenth for the control, and fixed switchbacks with blocks of three lengths.
    stop_when_loss_below
        The limit of the stop rule in the unit of the totals, per slot: see `Experiment.results`. By
        default 0.1 % of the mean total.
    unit
        The unit of the totals, such as EUR.
    runs
        The number of worlds for each design; fixed switchbacks, which are fast, are played in eight
        times as many. Errors fall with its square root.
    power
        Whether to find the smallest lifts that are found nine times of ten, in further worlds.
    seed
        The same seed gives the same plan. Without one it is drawn.
    folder
        A folder for finished parts. If a plan was stopped, the same call continues it.
    jobs, executor
        The number of processes, by default one per core; or who plays instead.
    progress
        A function that is called with the number of worlds that are done, and of all.
    show_rough
        A function that is called with the first figures, of few worlds.

    Examples
    --------
    >>> week = [60, 80, 90, 100, 120, 150, 70]
    >>> history = [total * (1 + (day * 7919 % 13) / 100) for day, total in enumerate(week * 12)]
    >>> found = plan(history, slot="1d", lift="10%", weeks=12, runs=8, seed=1, power=False,
    ...     designs=["fixed-switchback(block=1, blocks_per_arm=14)"], jobs=1)
    >>> found.recommended.end_median
    28
    """
    past, start = read_past(history, slot)
    week = past.calendar.slots_per_week
    arms = check_int("arms", arms, at_least=2, at_most=64)
    weeks = check_int("weeks", weeks, at_least=1, at_most=_MAX_WEEKS)
    runs = check_int("runs", runs, at_least=_MIN_RUNS, at_most=_MAX_RUNS)
    seed, slots = check_or_draw_seed(seed), weeks * week
    recipe = Recipe(past, arms, read_lifts(lift), read_lags(lag, past.slot), seed)
    limit = _LIMIT * float(past.totals.mean())
    if stop_when_loss_below is not None:
        limit = check_float("stop_when_loss_below", stop_when_loss_below, above=0)
    chosen = list_designs(past, arms, recipe.lags, slots)
    if designs is not None:
        chosen = [check_design(design, arms, slots) for design in designs]
    power_weeks = (_POWER_WEEKS if week > 1 else _LONG_POWER_WEEKS) if power else ()
    rounds = _list_rounds(recipe, chosen, runs, slots, limit, tuple(w * week for w in power_weeks))
    total = sum(len(job.worlds) for jobs_ in rounds for job in jobs_)
    outcomes: dict[tuple[str, bool], list[Outcome]] = {}
    done = 0

    def note(job: Job) -> None:
        nonlocal done
        done += len(job.worlds)
        if progress is not None:
            progress(done, total)

    def sum_up(*, is_rough: bool) -> Plan:
        promises = (
            make_promise(
                name_design(design),
                outcomes[str(design), False],
                outcomes.get((str(design), True), ()),
                power_weeks,
            )
            for design in chosen
        )
        return Plan(
            slot=past.slot,
            weeks=weeks,
            arms=arms,
            lift=(recipe.lifts.first, recipe.lifts.last),
            lag=(recipe.lags.first, recipe.lags.last),
            seed=seed,
            stop_when_loss_below=limit,
            unit=unit,
            source=os.fspath(history) if isinstance(history, (str, os.PathLike)) else None,
            history=describe(past, start),
            promises=tuple(promises),
            is_rough=is_rough,
        )

    prepare = [rounds[0][0]._replace(design=design) for design in chosen]
    with open_folder(folder) as finished, open_pool(jobs, executor, prepare) as submit:
        for number, jobs_ in enumerate(rounds):
            found = play_jobs(jobs_, submit, finished, note)
            for place, job in enumerate(jobs_):
                outcomes.setdefault((str(job.design), job.for_power), []).extend(found[place])
            if number == 0 and len(rounds) > 1 and show_rough is not None:
                show_rough(sum_up(is_rough=True))
    return sum_up(is_rough=False)


def _list_rounds(
    recipe: Recipe,
    designs: Sequence[Policy],
    runs: int,
    slots: int,
    limit: float,
    checks: tuple[int, ...],
) -> list[list[Job]]:
    """The jobs of the first figures, and then all others."""
    first = min(_ROUGH_RUNS, runs)
    power = round(_POWER_PART * runs) if checks else 0
    rounds = [
        [
            Job(recipe, design, worlds, slots, limit, (slots,))
            for design in designs
            for worlds in _split(design, begin, end)
        ]
        for begin, end in ((0, first), (first, runs))
    ]
    rounds[1] += [
        Job(recipe, design, worlds, max(checks), limit, checks, for_power=True)
        for design in designs
        for worlds in _split(design, 0, power)
    ]
    return [jobs for jobs in rounds if jobs]


def _split(design: Policy, begin: int, end: int) -> list[tuple[int, ...]]:
    """The worlds of a design between two numbers of runs, in parts that take about as long."""
    first, last, size = (count_worlds(design, runs) for runs in (begin, end, _JOB_RUNS))
    return [tuple(range(at, min(at + size, last))) for at in range(first, last, size)]
