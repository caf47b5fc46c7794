"""What becomes of a design in one world: what it loses, when it ends, and which arm is shipped."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import Calendar, SlotKernels
from aftereffect.inference import Trial
from aftereffect.planning._endings import judge_by_rule, judge_fixed
from aftereffect.planning._worlds import Recipe, World, draw_world
from aftereffect.policies import FixedSwitchback, Policy, Recording, RecordingState
from aftereffect.simulation import Task, prepare, run_batch


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
