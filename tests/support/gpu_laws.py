"""Which runs the GPU is compared with a CPU on, and how many times each is played."""

from itertools import product

import numpy as np

import aftereffect as ae
from aftereffect.simulation import Runs, Task, prepare, run_batch
from aftereffect.simulation._driver import Streams
from aftereffect.simulation._tasks import give_facts
from samples import (
    ADVERSARIAL,
    ATTRIBUTED_POLICIES,
    BANDITS,
    DEMAND,
    LINEAR,
    MEANS,
    PER_ARM,
    POLICIES,
    SLOT_POLICIES,
    fit_arms,
)

#: One delay for each kernel, and one with three of them.
DELAYS = (
    ae.Immediate(),
    ae.UniformDelay(10, 30),
    ae.RandomDelay([0.2, 0, 0.5, 0, 0, 0, 0, 0.3]),
    ae.Interval(3, 8),
    ae.Geometric(0.9),
    ae.PowerLaw(2),
    PER_ARM[1],
)
SLOTS, COUNT = 100, 1_000_000
#: Replications of policies that look at every slot, which take a CPU long, and of all in demands.
FEW, FEWEST = 20_000, 500


def list_cases():
    """Policy, bandit, replications: every policy in every kind of delay, and some in every bandit."""
    stochastic = [ae.StochasticBandit(MEANS, delay) for delay in DELAYS]
    pairs = [*product((*POLICIES, *ATTRIBUTED_POLICIES), stochastic)]
    pairs += [*product((ae.Ucb1(), ae.ArsUcb()), BANDITS)]
    pairs += product((ae.Ucb1(), ae.Exp3(), ae.ArsClw()), ADVERSARIAL)
    pairs += product((ae.Ucb1(), ae.ArsUcb(), ae.DynLinUcb()), LINEAR)
    pairs = [(policy, bandit) for policy, bandit in pairs if _can_play(policy, bandit)]
    unlike = dict.fromkeys((fit_arms(policy, bandit.arms), bandit) for policy, bandit in pairs)
    few = [
        *product((ae.Ucb1(),), DEMAND),
        *product(SLOT_POLICIES, (DEMAND[0], DEMAND[2], DEMAND[4])),
    ]
    return [
        *((*pair, COUNT) for pair in unlike),
        *((fit_arms(policy, bandit.arms), bandit, _count_few(policy)) for policy, bandit in few),
    ]


def _count_few(policy):
    """Replications of a policy: a millisecond per slot on a CPU if it learns the delay too."""
    return FEWEST if policy == ae.AdaptiveSwitchback() else FEW


def count_slots(policy):
    """Slots of a run: SettleUcb holds its first arm for more than a hundred."""
    return 10 * SLOTS if isinstance(policy, ae.SettleUcb) else SLOTS


def _can_play(policy, bandit):
    """Whether the policy knows what it must, and the bandit can tell: power laws have no mean lag."""
    try:
        known = give_facts(policy, bandit)
        known.params(bandit.arms, SLOTS)
        Task(known, bandit, "cuda", SLOTS, (SLOTS,), 1, range(1)).bandit_engine()
    except ae.ParameterError:
        return False
    return True


class RandomStreams(Streams):
    """Generators that begin anywhere: to derive a million seeds takes longer than to play."""

    def __init__(self):
        super().__init__()
        self._begins = np.random.default_rng(17)

    def arguments_for(self, seed, replications):
        begins = self._begins.integers(2**64, size=(len(replications), 2, 4), dtype=np.uint64)
        begins[:, :, 3] |= np.uint64(1)  # the last word of an increment is odd
        given = super().arguments_for(seed, range(1))
        return given._replace(begins=np.ascontiguousarray(begins[:, :, self._order]))


def play_on_cpu(task: Task) -> Runs:
    """The task on the roundwise engine."""
    ready, streams = prepare(task), RandomStreams()
    parts = [run_batch(batch, ready, streams).runs for batch in task.batches()]
    return Runs(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def compare_moments(runs: Runs, others: Runs) -> list[float]:
    """Differences in standard errors: the means of all results, and the variance of the last regret."""
    pairs = [
        *zip(runs.regret.T, others.regret.T, strict=True),
        *zip(runs.pulls.T, others.pulls.T, strict=True),
    ]
    pairs.append((runs.rounds.astype(float), others.rounds.astype(float)))
    squares = [(each.regret[:, -1] - each.regret[:, -1].mean()) ** 2 for each in (runs, others)]
    return [_differ(*pair) for pair in [*pairs, squares]]


def _differ(one, other):
    difference = float(one.mean() - other.mean())
    if abs(difference) <= 1e-9 * max(1.0, abs(float(one.mean()))):  # rounding
        return 0.0
    error = float(np.sqrt(one.var() / len(one) + other.var() / len(other)))
    return difference / error if error > 0 else float("inf")
