"""A plan: everything that a study will be, checked before anything runs."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aftereffect._core import MAX_SLOTS, as_spec, check_int, check_or_draw_seed, made_by, suggest
from aftereffect.bandits import ENGINES, Bandit, EngineName
from aftereffect.delays import DelayFacts
from aftereffect.errors import InputError, ParameterError
from aftereffect.policies import Policy
from aftereffect.simulation._contents import own_code
from aftereffect.simulation._replications import ChunkResult, Task
from aftereffect.simulation._runs import (
    DEFAULT_CHECKPOINTS,
    PolicyRuns,
    check_memory,
    choose_checkpoints,
)
from aftereffect.simulation._study import Study
from aftereffect.simulation._workers import Workers, run_tasks

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
    engine: EngineName
    horizon: int
    checkpoints: tuple[int, ...]
    seed: int
    replications: int
    made_by: str

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
            runs.append(
                PolicyRuns(
                    label=label, policy=policy, **result.runs._asdict(), seconds=result.seconds
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


def plan_study(
    policies: Policy | str | Iterable[Policy | str],
    bandit: Bandit | str,
    horizon: int,
    replications: int,
    *,
    seed: int | None = None,
    engine: EngineName = "roundwise",
    checkpoints: int | Iterable[int] = DEFAULT_CHECKPOINTS,
) -> Plan:
    """Make the plan of a study from the parameters of `simulate`; refuse what cannot run.

    >>> plan_study("ucb1", "stochastic-bandit([0.9, 0.5])", 1_000, 20, seed=1).replications
    20
    """
    world = as_spec(bandit, Bandit)
    by_label = _label_policies(policies, world.delay_facts)
    if engine not in ENGINES:
        raise ParameterError(f"unknown engine {engine!r}: {suggest(str(engine), ENGINES)}")
    slots = check_int("horizon", horizon, at_least=1, at_most=MAX_SLOTS)
    world.check(engine, slots)
    count = check_int("replications", replications, at_least=1, at_most=MAX_REPLICATIONS)
    entropy = check_or_draw_seed(seed)
    chosen = choose_checkpoints(slots, checkpoints)
    check_memory(
        len(by_label) * count * (len(chosen) + world.arms + 1) * 8,
        "replications, checkpoints or arms",
    )
    for policy in by_label.values():
        policy.params(world.arms, slots)
    return Plan(
        policies=by_label,
        bandit=world,
        engine=engine,
        horizon=slots,
        checkpoints=chosen,
        seed=entropy,
        replications=count,
        made_by=made_by() + own_code(*by_label.values(), world),
    )


def _label_policies(
    policies: Policy | str | Iterable[Policy | str], delay_facts: DelayFacts
) -> dict[str, Policy]:
    """Return policies by label, with the facts about the delay that they need.

    Different ones with the same text (two lambdas) are numbered.
    """
    several = (
        policies if isinstance(policies, Iterable) and not isinstance(policies, str) else [policies]
    )
    by_label: dict[str, Policy] = {}
    for policy in (as_spec(each, Policy).with_delay_facts(delay_facts) for each in several):
        if policy in by_label.values():
            raise ParameterError(f"each policy must be given once, but {policy} is given again")
        same_text = sum(str(policy) == str(other) for other in by_label.values())
        by_label[f"{policy} #{same_text + 1}" if same_text else str(policy)] = policy
    if not by_label:
        raise ParameterError("at least one policy is needed, got none")
    return by_label
