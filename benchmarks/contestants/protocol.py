"""The request to a contestant and its answer. Standard library only, for every environment."""

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

WARM_UP_SLOTS = 200
REPEATS = 3


@dataclass(frozen=True)
class Work:
    """A policy on a Bernoulli bandit, played some times.

    Without lags a reward lands whole in the slot of its pull; with lags (a, b) in equal shares at
    the lags a, ..., b-1, and the total that lands in a slot is all that the policy sees of it.
    """

    means: Sequence[float]
    horizon: int
    replications: int
    seed: int
    lags: Sequence[int] | None = None
    policy: str = "ucb1"


@dataclass(frozen=True)
class Outcome:
    """How fast the work was done, with what, and to what end."""

    version: str
    slots_per_cpu_second: float
    regret: float
    standard_error: float


def answer(version: str, play: Callable[[Work], Sequence[float]]) -> None:
    """Do the work in argv and print the outcome.

    The clock counts this process's CPU seconds over all its threads. The fastest of some repeats
    stands, the one least disturbed by the rest of the machine; imports and compilation come before.

    Parameters
    ----------
    version
        Of what does the work.
    play
        Does the work and returns the final pseudo-regret of each replication.
    """
    work = Work(**json.loads(sys.argv[1]))
    play(replace(work, horizon=WARM_UP_SLOTS, replications=1))
    seconds, regrets = [], []
    for repeat in range(REPEATS):
        start = time.process_time()
        finals = play(replace(work, seed=work.seed + repeat))
        seconds.append(time.process_time() - start)
        regrets.extend(map(float, finals))
    outcome = Outcome(
        version,
        slots_per_cpu_second=work.horizon * work.replications / min(seconds),
        regret=statistics.fmean(regrets),
        standard_error=statistics.stdev(regrets) / math.sqrt(len(regrets)),
    )
    print(json.dumps(asdict(outcome)))
