"""The plan of a study: everything that it will be, checked before anything runs."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from aftereffect._core import (
    MAX_SLOTS,
    as_spec,
    check_int,
    check_or_draw_seed,
    check_sequence,
    describe_code,
    suggest,
)
from aftereffect.bandits import Bandit
from aftereffect.errors import InputError, ParameterError
from aftereffect.policies import Policy
from aftereffect.simulation._chunks import run_tasks
from aftereffect.simulation._contents import describe_own_code
from aftereffect.simulation._digest import Digest
from aftereffect.simulation._engine_choice import (
    ENGINE_CHOICES,
    EngineChoice,
    EngineRequest,
    choose_engine,
    is_for_gpu,
    recipe_of,
)
from aftereffect.simulation._replications import ChunkResult
from aftereffect.simulation._runs import PolicyRuns, check_memory
from aftereffect.simulation._study import Study
from aftereffect.simulation._tasks import Task, describe_data, give_facts
from aftereffect.simulation._workers import Workers

#: Regret is recorded at checkpoints only.
DEFAULT_CHECKPOINTS, MAX_CHECKPOINTS = 50, 10_000
#: A study has a curve in memory for each.
MAX_REPLICATIONS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be played: policies by label, with all that they need to know, and the settings.

    ``made_by`` is the code that will play it, as it was when the plan was made: this package, and
    policies and the like from outside it.

    >>> plan = plan_study("ucb1", "stochastic-bandit([0.9, 0.5])", 100, 20, seed=1)
    >>> list(plan.policies), plan.checkpoints[-1]
    (['ucb1'], 100)
    """

    policies: Mapping[str, Policy]
    bandit: Bandit
    engine: EngineChoice
    horizon: int
    checkpoints: tuple[int, ...]
    seed: int
    replications: int
    made_by: str
    keep: int | None = None

    @property
    def tasks(self) -> Iterator[Task]:
        """One task per policy."""
        for policy in self.policies.values():
            yield Task(
                policy=policy,
                bandit=self.bandit,
                engine=self.engine,
                horizon=self.horizon,
                checkpoints=self.checkpoints,
                seed=self.seed,
                replications=range(self.replications),
                keep=self.keep,
            )

    def play(self, workers: Workers, progress: Callable[[int], None] | None = None) -> Study:
        """Play it; ``progress`` is called with the number of replications finished since."""

        def report(_task: Task, finished: int, _seconds: float) -> None:
            if progress is not None:
                progress(finished)

        return self.assemble(run_tasks(self.tasks, workers, report))

    def assemble(self, results: Iterable[tuple[Task, ChunkResult]]) -> Study:
        """Make the study of the results of all its tasks, in whatever order they come."""
        by_policy = {id(task.policy): result for task, result in results}
        runs = []
        for label, policy in self.policies.items():
            result = by_policy[id(policy)]
            digest = result.digest
            runs.append(
                PolicyRuns(
                    label=label,
                    policy=policy,
                    **result.runs._asdict(),
                    seconds=result.seconds,
                    of_all=None if digest is None else digest.summarise(self.replications),
                )
            )
        return Study(
            bandit=self.bandit,
            bandit_label=str(self.bandit),
            engine=self.engine,
            horizon=self.horizon,
            checkpoints=self.checkpoints,
            seed=self.seed,
            made_by=self.made_by,
            runs=tuple(runs),
        )

    def load_finished(self, path: str | os.PathLike[str]) -> Study | None:
        """Load the study that an earlier run of this plan left in a file.

        Returns None if there is no such file, or one of another plan or of other code.
        """
        if not Path(path).is_file():
            return None
        try:
            study = Study.load(path)
        except InputError:  # cut short, or something else of that name
            return None
        found = (
            study.labels,
            study.bandit_label,
            study.engine,
            study.checkpoints,
            study.seed,
            study.replications,
            study.made_by,
        )
        wanted = (
            list(self.policies),
            str(self.bandit),
            self.engine,
            self.checkpoints,
            self.seed,
            self.replications,
            self.made_by,
        )
        return study if found == wanted else None


def choose_checkpoints(horizon: int, wanted: int | Iterable[int]) -> tuple[int, ...]:
    """Return increasing numbers of slots, the last of them the horizon.

    A number asks for that many, evenly spaced in log time (fewer where rounding makes some equal);
    a sequence is taken as it is. Regret is recorded at these slots only, so that memory and files
    do not grow with the horizon.
    """
    if isinstance(wanted, Iterable):
        given = tuple(
            check_int("a checkpoint", slot, at_least=1, at_most=horizon)
            for slot in check_sequence("checkpoints", wanted)
        )
        if not given or given[-1] != horizon or any(a >= b for a, b in pairwise(given)):
            raise ParameterError(
                f"checkpoints must increase and end with the horizon {horizon}, got {list(given)}"
            )
        return given
    count = check_int("checkpoints", wanted, at_least=1, at_most=MAX_CHECKPOINTS)
    if count >= horizon:
        return tuple(range(1, horizon + 1))
    return space_logarithmically(1, horizon, count)


def space_logarithmically(first: int, last: int, count: int) -> tuple[int, ...]:
    """Return so many slots, evenly spaced in log time, always with the last.

    There are fewer where rounding makes some equal.

    >>> space_logarithmically(1, 1_000, 4)
    (1, 10, 100, 1000)
    """
    return tuple(sorted({round(slot) for slot in np.geomspace(last, first, count)}))


def plan_study(
    policies: Policy | str | Iterable[Policy | str],
    bandit: Bandit | str,
    horizon: int,
    replications: int,
    *,
    seed: int | None = None,
    engine: EngineRequest = "roundwise",
    checkpoints: int | Iterable[int] = DEFAULT_CHECKPOINTS,
    keep: int | None = None,
) -> Plan:
    """Make the plan of a study from the parameters of `simulate`; refuse what cannot run.

    >>> plan_study("ucb1", "stochastic-bandit([0.9, 0.5])", 1_000, 20, seed=1).replications
    20
    """
    world = as_spec(bandit, Bandit)
    by_label = _label_policies(policies, world)
    if engine not in (*ENGINE_CHOICES, "auto"):
        known = (*ENGINE_CHOICES, "auto")
        raise ParameterError(f"unknown engine {engine!r}: {suggest(str(engine), known)}")
    slots = check_int("horizon", horizon, at_least=1, at_most=MAX_SLOTS)
    count = check_int("replications", replications, at_least=1, at_most=MAX_REPLICATIONS)
    own = describe_own_code(*by_label.values(), world)
    chosen_engine = choose_engine(engine, by_label.values(), world.arms, slots, count, own)
    world.check(recipe_of(chosen_engine), slots)
    entropy = check_or_draw_seed(seed)
    chosen = choose_checkpoints(slots, checkpoints)
    kept = _check_keep(keep, count, chosen_engine)
    needed = (count if kept is None else kept) * (len(chosen) + world.arms + 1) * 8
    if kept is not None:
        needed += Digest.count_bytes(count, len(chosen), world.arms)
    check_memory(len(by_label) * needed, "replications, checkpoints or arms")
    for policy in by_label.values():
        policy.params(world.arms, slots)
    return Plan(
        policies=by_label,
        bandit=world,
        engine=chosen_engine,
        horizon=slots,
        checkpoints=chosen,
        seed=entropy,
        replications=count,
        made_by=describe_code() + own + describe_data(world),
        keep=kept,
    )


def _check_keep(keep: int | None, count: int, engine: EngineChoice) -> int | None:
    """How many of so many replications to keep; None for all."""
    if keep is None or check_int("keep", keep, at_least=1, at_most=MAX_REPLICATIONS) >= count:
        return None
    if not is_for_gpu(engine):
        raise ParameterError(
            f"only the engines 'cuda' and 'cuda-single' can keep {keep:,} of {count:,} "
            f"replications, got {engine!r}: give keep to them, or to none"
        )
    return int(keep)


def _label_policies(
    policies: Policy | str | Iterable[Policy | str], bandit: Bandit
) -> dict[str, Policy]:
    """Return policies by label, with the facts about the bandit that they need.

    Different ones with the same text (two lambdas) are numbered.
    """
    several = (
        policies if isinstance(policies, Iterable) and not isinstance(policies, str) else [policies]
    )
    by_label: dict[str, Policy] = {}
    for policy in (give_facts(as_spec(each, Policy), bandit) for each in several):
        if policy in by_label.values():
            raise ParameterError(f"each policy must be given once, but {policy} is given again")
        same_text = sum(str(policy) == str(other) for other in by_label.values())
        by_label[f"{policy} #{same_text + 1}" if same_text else str(policy)] = policy
    if not by_label:
        raise ParameterError("at least one policy is needed, got none")
    return by_label
