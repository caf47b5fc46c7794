"""Several policies compiled as one: most of the time of a comparison goes into compiling."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import aftereffect as ae
from aftereffect._core import PolicyKernels


class SharedState(NamedTuple):
    """The state of the first policy, and of the others."""

    first: Any
    others: Any


class SharedParams(NamedTuple):
    """Which policy is played, the parameters of the first, and of the others."""

    chosen: int
    first: Any
    others: Any


@cache
def share(kernels, number=0):
    """The kernels of several policies as one, which plays the policy that its parameters choose."""
    (first_decide, first_absorb), *rest = kernels
    if not rest:
        return kernels[0]
    other_decide, other_absorb = share(tuple(rest), number + 1)

    def decide(state, params, t, rng):
        if params.chosen == number:
            return first_decide(state.first, params.first, t, rng)
        return other_decide(state.others, params.others, t, rng)

    def absorb(state, params, arm, window, total):
        if params.chosen == number:
            first_absorb(state.first, params.first, arm, window, total)
        else:
            other_absorb(state.others, params.others, arm, window, total)

    return PolicyKernels(decide, absorb)


def kernels_of(policies):
    """One policy for each of the different kernels of some policies."""
    return tuple({policy.kernels(): policy for policy in policies}.values())


#: Of the policies for stochastic bandits, for all tests that compare whole runs: with the same
#: kernels they share the same machine code.
STOCHASTIC = kernels_of(
    (
        ae.ArsUcb(),
        ae.ArsUcb(growth=ae.growth.Exponential()),
        ae.Ucb1(),
        ae.Odaaf("bounded", mean_lag=2, reach=5),
        ae.GeneralizedOdaaf(3),
    )
)


@dataclass(frozen=True)
class Sharing(ae.Policy):
    """One of some policies, with kernels that all of them share."""

    policy: ae.Policy
    family: tuple[ae.Policy, ...]

    def __str__(self):
        return str(self.policy)

    def with_delay_facts(self, delay_facts):
        return replace(
            self,
            policy=self.policy.with_delay_facts(delay_facts),
            family=tuple(each.with_delay_facts(delay_facts) for each in self.family),
        )

    def kernels(self):
        return share(tuple(policy.kernels() for policy in self.family))

    def initial(self, arms):
        *states, last = (policy.initial(arms) for policy in self._members())
        for state in reversed(states):
            last = SharedState(state, last)
        return last

    def params(self, arms, horizon):
        *params, last = (policy.params(arms, horizon) for policy in self._members())
        chosen = [policy.kernels() for policy in self.family].index(self.policy.kernels())
        for each in reversed(params):
            last = SharedParams(chosen, each, last)
        return last

    def _members(self):
        """The family, with the policy itself in the place of the one whose kernels it has."""
        kernels = self.policy.kernels()
        return [self.policy if each.kernels() == kernels else each for each in self.family]
