"""A plan: everything that a study will be, checked before anything runs."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aftereffect.checks import MOST_SLOTS, whole
from aftereffect.environments import ENGINES, EngineName, Environment
from aftereffect.errors import InputError, ParameterError
from aftereffect.knowledge import Knowledge
from aftereffect.policies import Policy
from aftereffect.provenance import made_by
from aftereffect.seeds import seed_or_drawn
from aftereffect.simulation.checkpoints import DEFAULT_COUNT, checkpoints_for
from aftereffect.simulation.contents import own_code
from aftereffect.simulation.crew import Crew, Done, work
from aftereffect.simulation.memory import check_memory
from aftereffect.simulation.replications import Task
from aftereffect.simulation.study import PolicyRuns, Study
from aftereffect.spec import as_spec, nearest

#: A curve is kept of each.
MOST_REPLICATIONS = 10_000_000


@dataclass(frozen=True)
class Plan:
    """What will be played: policies by label, told what they must know, and all else.

    ``made_by`` is the code that will play it, as it was when the plan was made: this package, and what is one's own.
    """

    players: Mapping[str, Policy]
    environment: Environment
    engine: EngineName
    horizon: int
    checkpoints: tuple[int, ...]
    seed: int
    replications: int
    made_by: str

    @property
    def tasks(self) -> Iterator[Task]:
        """One task per policy."""
        for player in self.players.values():
            yield Task(
                player, self.environment, self.engine, self.horizon, self.checkpoints, self.seed, range(self.replications)
            )

    def play(self, crew: Crew, progress: Callable[[int], None] | None = None) -> Study:
        """Have it played; ``progress`` is called now and then with the number of replications finished since."""
        tell = None if progress is None else lambda _task, finished, _seconds: progress(finished)
        return self.study(work(self.tasks, crew, tell))

    def study(self, done: Iterable[Done]) -> Study:
        """The study, when all its tasks are done, in whatever order."""
        by_policy = {id(each.task.policy): each for each in done}
        found = ((label, policy, by_policy[id(policy)]) for label, policy in self.players.items())
        runs = tuple(PolicyRuns(label, policy, each.outcome, each.seconds) for label, policy, each in found)
        return Study(self.environment, self.engine, self.horizon, self.checkpoints, self.seed, self.made_by, runs)

    def kept(self, path: str | os.PathLike[str]) -> Study | None:
        """The study as an earlier run left it in a file; None if there is none, or one of another plan or of other code."""
        if not Path(path).is_file():
            return None
        try:
            study = Study.load(path)
        except InputError:  # cut short, or something else of that name
            return None
        wanted = (str(self.environment), self.engine, self.checkpoints, self.seed, self.replications, self.made_by)
        found = (str(study.environment), study.engine, study.checkpoints, study.seed, study.replications, study.made_by)
        return study if found == wanted and [runs.label for runs in study] == list(self.players) else None


def planned(
    policies: Policy | str | Iterable[Policy | str],
    environment: Environment | str,
    horizon: int,
    replications: int,
    *,
    seed: int | None = None,
    engine: EngineName = "roundwise",
    checkpoints: int | Iterable[int] = DEFAULT_COUNT,
) -> Plan:
    """The plan of a study, as `simulate` is asked for it; what cannot run is refused here."""
    world = as_spec(environment, Environment)
    players = _players(policies, world.knowledge)
    if engine not in ENGINES:
        raise ParameterError(f"unknown engine {engine!r}: {nearest(str(engine), ENGINES)}")
    slots = whole("horizon", horizon, at_least=1, at_most=MOST_SLOTS)
    world.check(engine, slots)
    count = whole("replications", replications, at_least=1, at_most=MOST_REPLICATIONS)
    entropy = seed_or_drawn(seed)
    marks = checkpoints_for(slots, checkpoints)
    check_memory(len(players) * count * (len(marks) + world.arms + 1) * 8, "replications, checkpoints or arms")
    for player in players.values():
        player.params(world.arms, slots)
    return Plan(players, world, engine, slots, marks, entropy, count, made_by() + own_code(*players.values(), world))


def _players(policies: Policy | str | Iterable[Policy | str], knowledge: Knowledge) -> dict[str, Policy]:
    """Policies, told what they must know, by label; different ones that look alike (two lambdas) are numbered."""
    several = policies if isinstance(policies, Iterable) and not isinstance(policies, str) else [policies]
    players: dict[str, Policy] = {}
    for policy in (as_spec(each, Policy).told(knowledge) for each in several):
        if policy in players.values():
            raise ParameterError(f"each policy must be given once, but {policy} is given again")
        alike = sum(str(policy) == str(other) for other in players.values())
        players[f"{policy} #{alike + 1}" if alike else str(policy)] = policy
    if not players:
        raise ParameterError("at least one policy is needed, got none")
    return players
