"""Designs of experiments: the usual candidates, and what becomes of a design in one world.

What counts is what it loses, when it ends, and which arm is shipped. A fixed switchback ends when
it has compared the arms, and ships its best one. It finds a lift if a t-test of its blocks says so:
in every pass each arm has a block, the second half of which counts, and differences between passes
are taken out. Designs that record the probabilities of their draws end when the stop rule says so,
and find a lift if an interval that holds at every look says so (`aftereffect.inference`). Others
end with the horizon, and ship the arm that they played most.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import Calendar, Matrix, SlotKernels, Vector, as_spec
from aftereffect.errors import ParameterError
from aftereffect.inference import Trial, follow
from aftereffect.planning._history import Past, find_usual
from aftereffect.planning._worlds import Range, Recipe, World, draw_world
from aftereffect.policies import (
    AdaptiveSwitchback,
    FixedSwitchback,
    Floors,
    Policy,
    Recording,
    RecordingState,
    check_anonymous,
)
from aftereffect.simulation import Task, prepare, run_batch

#: The share of the control in the adaptive design.
CONTROL_SHARE = 0.1
#: Blocks of fixed switchbacks, in lags; the part of the experiment in which arms are compared.
_BLOCKS, _COMPARED = (1.0, 2.0, 4.0), 0.25
#: Fixed switchbacks are played in so many times as many worlds: they are that much faster, and a
#: few worlds in which they end with a wrong arm decide what they lose.
_FIXED_TIMES = 8
#: Passes over all arms that a fixed switchback has at least.
MIN_PASSES = 2
#: With which probability all intervals, or all tests, are right.
LEVEL = 0.95
#: Totals are at least this part of what is usual, where logarithms are taken.
_FLOOR = 0.02


def list_designs(past: Past, arms: int, lags: Range, slots: int) -> list[Policy]:
    """The usual candidates: an adaptive switchback with a control, and fixed ones."""
    adaptive = Floors(AdaptiveSwitchback(), (CONTROL_SHARE, *[0.0] * (arms - 1)))
    calendar = past.calendar
    # Blocks are whole parts of days, or whole days.
    unit = calendar.window
    fixed: list[FixedSwitchback] = []
    for lengths in _BLOCKS:
        block = max(round(lengths * max(lags.last, 1) / unit), 1) * unit
        if block >= calendar.slots_per_day > 0:
            block = round(block / calendar.slots_per_day) * calendar.slots_per_day
        block = min(block, slots // (2 * MIN_PASSES * arms))
        if block >= 1 and block not in [each.block for each in fixed]:
            passes = max(int(_COMPARED * slots) // (block * arms), MIN_PASSES)
            fixed.append(FixedSwitchback(block, passes))
    return [adaptive, *fixed]


def count_worlds(design: Policy, runs: int) -> int:
    """In how many worlds a design is played, if others are played in so many.

    >>> count_worlds(FixedSwitchback(24, 3), 64)
    512
    """
    return runs * _FIXED_TIMES if isinstance(design, FixedSwitchback) else runs


def check_design(design: Policy | str, arms: int, slots: int) -> Policy:
    """Check that a design can be planned with so many arms and slots."""
    policy = check_anonymous(as_spec(design, Policy))
    policy.params(arms, slots)
    if isinstance(policy, FixedSwitchback):
        needed = policy.block * policy.blocks_per_arm * arms
        if policy.blocks_per_arm < MIN_PASSES or needed > slots:
            raise ParameterError(
                f"{policy} must compare the arms at least {MIN_PASSES} times within {slots:,} "
                f"slots, but needs {needed:,} slots for {policy.blocks_per_arm:,} times: choose "
                "other blocks, or more weeks"
            )
    return policy


def name_design(design: Policy) -> str:
    """Its spec string, without the calendar, which everything fills in by itself.

    >>> name_design(FixedSwitchback(24, 3))
    'fixed-switchback(block=24, blocks_per_arm=3)'
    """
    return str(design).replace("(first=0)", "").replace(", first=0", "")


class Outcome(NamedTuple):
    """What became of a design in a world; amounts in the unit of the totals.

    ``lost`` is what it lost in all slots, against the best arm, and ``idle`` what playing the
    control loses. It ended after ``end`` slots, by its rule or its plan; None if it did not. The
    arm that is shipped then brings ``after`` more per week than the control; ``is_best`` says
    whether it is the best one, and ``is_worse`` whether it is worse than the control. ``lift`` is
    that of the best arm but the control, and ``found`` whether it was found to be better, by each
    check.
    """

    lost: float
    idle: float
    end: int | None
    after: float
    is_best: bool
    is_worse: bool
    lift: float
    found: tuple[bool, ...]


class Job(NamedTuple):
    """Worlds in which a design is played for so many slots.

    The rule stops when the expected loss per slot is below ``limit``. ``checks`` are the slots
    after which lifts may be found. In worlds for power a fixed switchback compares arms all the
    time.
    """

    recipe: Recipe
    design: Policy
    worlds: tuple[int, ...]
    slots: int
    limit: float
    checks: tuple[int, ...]
    for_power: bool = False


def play_job(job: Job) -> list[Outcome]:
    """Play a design in some worlds."""
    return [
        play_world(job, draw_world(job.recipe, number, job.slots, for_power=job.for_power), number)
        for number in job.worlds
    ]


def play_world(job: Job, world: World, number: int) -> Outcome:
    """Play a design in one world."""
    design, slots, bandit = _lengthen(job), job.slots, world.bandit
    task = _make_task(job, design, world, number)
    played = run_batch(task, _prepare(task))
    if not isinstance(task.policy, Recording):
        end, shipped, found = None, int(np.argmax(played.runs.pulls[0])), (False,) * len(job.checks)
    else:
        trial = read_trial(played.states, bandit.calendar, slots)
        trial = trial._replace(
            totals=trial.totals * world.scale, history=trial.history * world.scale
        )
        if isinstance(design, FixedSwitchback):
            end, shipped, found = judge_fixed(design, trial, world, job.checks)
        else:
            end, shipped, found = judge_by_rule(trial, world, job.limit, job.checks)
    multipliers = 1 + np.array(world.lifts)
    best, demand = float(multipliers.max()), float(world.demand.sum())
    return Outcome(
        lost=float(played.runs.regret[0, -1]) / 100 * best * demand,
        idle=(best - 1) * demand,
        end=end,
        after=world.lifts[shipped] * demand * bandit.calendar.slots_per_week / slots,
        is_best=bool(multipliers[shipped] == best),
        is_worse=world.lifts[shipped] < 0,
        lift=max(world.lifts[1:]),
        found=found,
    )


def prepare_job(job: Job) -> None:
    """Compile what a job needs."""
    world = draw_world(job.recipe, job.worlds[0], job.slots)
    _prepare(_make_task(job, job.design, world, job.worlds[0]))


def _make_task(job: Job, design: Policy, world: World, number: int) -> Task:
    """A run of a design, which is recorded if it looks at every slot."""
    has_record = isinstance(design.kernels(), SlotKernels)
    policy = (Recording(design) if has_record else design).with_calendar(world.bandit.calendar)
    numbers = range(number, number + 1)
    return Task(policy, world.bandit, "slotwise", job.slots, (job.slots,), job.recipe.seed, numbers)


_prepared: dict[tuple[Policy, int, int], Any] = {}


def _prepare(task: Task) -> Any:
    """Prepare a task: its driver once in a process, what belongs to its world each time."""
    key = (task.policy, task.bandit.arms, task.horizon)
    if key not in _prepared:
        _prepared.clear()  # jobs of one design follow each other
        _prepared[key] = prepare(task)
        return _prepared[key]
    return _prepared[key]._replace(engine=task.bandit.engine("slotwise", task.horizon))


def _lengthen(job: Job) -> Policy:
    """The design, or for power the fixed switchback that compares arms to the end."""
    design = job.design
    if job.for_power and isinstance(design, FixedSwitchback):
        passes = job.slots // (design.block * job.recipe.arms)
        return replace(design, blocks_per_arm=max(passes, 1))
    return design


def read_trial(states: RecordingState, calendar: Calendar, slots: int) -> Trial:
    """The record of the first run of a batch, with so many slots."""
    blocks, before = (int(count) for count in states.counts[0])
    starts = states.starts[0, :blocks].astype(np.int64)
    played = states.played[0, before : before + slots].astype(np.int64)
    return Trial(
        totals=states.totals[0, before : before + slots],
        played=played,
        starts=starts,
        decided=played[starts],
        probabilities=states.chances[0, :blocks],
        places=(calendar.first + np.arange(slots)) % calendar.slots_per_week,
        calendar=calendar,
        history=states.totals[0, :before],
    )


def judge_by_rule(
    trial: Trial, world: World, limit: float, checks: Sequence[int]
) -> tuple[int | None, int, tuple[bool, ...]]:
    """When the rule stopped, which arm led then or at the end, and whether the best was found."""
    course = follow(trial, limit, LEVEL)
    at = len(course.slots) - 1 if course.stop is None else course.stop
    end = None if course.stop is None else int(course.slots[at])
    best = 1 + int(np.argmax(world.lifts[1:]))
    shown = course.slots[course.is_better[:, best]]
    first = int(shown[0]) if len(shown) else math.inf
    return end, int(course.leaders[at]), tuple(first <= check for check in checks)


def judge_fixed(
    design: FixedSwitchback, trial: Trial, world: World, checks: Sequence[int]
) -> tuple[int | None, int, tuple[bool, ...]]:
    """When arms had been compared, which one was best, and whether the best was found."""
    arms, block = trial.arms, design.block
    compared = design.blocks_per_arm * arms * block
    slots = len(trial.totals)
    shipped = int(trial.played[compared]) if compared < slots else _find_best_ratio(trial, block)
    best = 1 + int(np.argmax(world.lifts[1:]))
    values = measure_blocks(trial, block, compared)
    found = tuple(
        is_better(values[: min(check, compared) // (arms * block)], best, 0) for check in checks
    )
    return min(compared, slots), shipped, found


def _find_best_ratio(trial: Trial, block: int) -> int:
    """The arm with the largest mean over all blocks."""
    values = measure_blocks(trial, block, len(trial.totals))
    return int(np.argmax(values.mean(axis=0))) if len(values) else 0


def measure_blocks(trial: Trial, block: int, compared: int) -> Matrix:
    """Logarithms of totals over what is usual, in the second half of blocks, by pass and arm."""
    usual = _find_season(trial)
    count, arms = compared // block, trial.arms
    keep = slice(block // 2, None)
    known = ~np.isnan(trial.totals)
    totals, expected = (
        np.where(known, each, 0.0)[: count * block].reshape(count, block)[:, keep].sum(axis=1)
        for each in (trial.totals, usual)
    )
    is_usual = expected > 0  # not if all totals of the history were 0
    floored = np.maximum(totals, _FLOOR * expected)
    ratios = np.log(np.divide(floored, expected, out=np.ones_like(floored), where=is_usual))
    passes = count // arms
    values: Matrix = np.zeros((passes, arms))
    played = trial.played[: passes * arms * block : block].reshape(passes, arms)
    rows = np.repeat(np.arange(passes)[:, None], arms, axis=1)
    values[rows, played] = ratios[: passes * arms].reshape(passes, arms)
    return values


def _find_season(trial: Trial) -> Vector:
    """What is usual in the slots of a trial."""
    week, before = trial.week, len(trial.history)
    place = (int(trial.places[0]) - before) % week
    usual = find_usual(trial.history, place, week)
    season = np.zeros(week)
    season[(place + np.arange(before)) % week] = usual
    found: Vector = season[trial.places]
    return found


def is_better(values: Matrix, arm: int, other: int) -> bool:
    """Whether a t-test shows that an arm is better; all pairs of arms are tested together.

    >>> is_better(np.array([[0.0, 0.1], [0.01, 0.1], [0.0, 0.11], [0.01, 0.12]]), 1, 0)
    True
    """
    passes, arms = values.shape
    freedom = (passes - 1) * (arms - 1)
    if freedom < 1:
        return False
    left = values - values.mean(axis=1, keepdims=True)
    means = left.mean(axis=0)
    variance = float(((left - means) ** 2).sum()) / freedom
    error = math.sqrt(2 * variance / passes)
    alpha = (1 - LEVEL) / math.comb(arms, 2)
    return bool(means[arm] - means[other] > find_t(1 - alpha / 2, freedom) * error)


@cache
def find_t(chance: float, freedom: int) -> float:
    """The quantile of Student's t, for a chance above 1/2.

    >>> round(find_t(0.975, 10), 3)
    2.228
    """
    # With x = sqrt(freedom) tan(angle), the density is a power of the cosine of the angle.
    angles = np.linspace(0, math.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    sums = np.append(0.0, np.cumsum((density[1:] + density[:-1]) / 2))
    angle = float(np.interp(2 * chance - 1, sums / sums[-1], angles))
    return math.sqrt(freedom) * math.tan(angle)
