"""Several policies compiled as one: most of the time of a comparison goes into compiling."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

import aftereffect as ae
from aftereffect.kernels import PolicyKernels


@cache
def either(kernels, number=0):
    """The kernels of several policies as one, which its first parameter chooses from: compiled once for all."""
    (first_decide, first_absorb), *rest = kernels
    other_decide, other_absorb = either(tuple(rest), number + 1) if rest else kernels[0]

    def decide(arms, own, params, t, rng):
        if params[0] == number:
            return first_decide(arms, own, params[1:], t, rng)
        return other_decide(arms, own, params, t, rng)

    def absorb(arms, own, params, arm, slots, total):
        if params[0] == number:
            first_absorb(arms, own, params[1:], arm, slots, total)
        else:
            other_absorb(arms, own, params, arm, slots, total)

    return PolicyKernels(decide, absorb)


def kernels_of(policies):
    """The different kernels of some policies."""
    return tuple(dict.fromkeys(policy.kernels() for policy in policies))


@dataclass(frozen=True)
class Sharing(ae.Policy):
    """One of some policies, with kernels that all of them share."""

    policy: ae.Policy
    family: tuple[PolicyKernels, ...]

    def __str__(self):
        return str(self.policy)

    def told(self, knowledge):
        return replace(self, policy=self.policy.told(knowledge))

    def kernels(self):
        return either(self.family)

    def initial(self, arms):
        return self.policy.initial(arms)

    def params(self, arms, horizon):
        return np.append(self.family.index(self.policy.kernels()), self.policy.params(arms, horizon))
