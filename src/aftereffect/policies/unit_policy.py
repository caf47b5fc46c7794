"""What every policy offers that plays several units at once, such as stores, regions or servers."""

from abc import abstractmethod

from aftereffect._core import State, UnitKernels
from aftereffect.errors import ParameterError
from aftereffect.policies.base import Policy

#: The slots for which there is room if nobody says how many there will be.
_ROOM = 10_000


class UnitPolicy(Policy):
    """A policy that plays several units at once, which share arms and what is learned of them.

    In every slot each unit plays an arm and reports a total of its own. The state has ``choices``,
    the arm of each unit, and ``probabilities`` by unit and arm: `decide` writes both. Units of one
    decision are *dealt* together: see `UnitKernels`. The state grows by `move_into`, as others do.

    An experiment with a single unit has nothing to deal. It plays the policy `for_one_unit`, so it
    is an experiment as without units. All else that plays one unit refuses such a policy.

    Examples
    --------
    >>> import numpy as np
    >>> import aftereffect as ae
    >>> policy = ae.parse("fixed-unit-switchback(block=12)", ae.UnitPolicy)
    >>> state, params = policy.initial_for_units(2, units=4, slots=100), policy.params(2, 100)
    >>> slots = policy.kernels().decide(state, params, 0, np.random.default_rng(1))
    >>> slots, sorted(state.choices.tolist()), state.probabilities[0].tolist()
    (12, [0.0, 0.0, 1.0, 1.0], [0.5, 0.5])
    """

    @abstractmethod
    def kernels(self) -> UnitKernels:
        """The two plain functions; equal policies share them."""

    @abstractmethod
    def initial_for_units(self, arms: int, units: int, slots: int, covariates: int = 0) -> State:
        """A fresh state for so many units, and at most so many slots; see `initial_for`."""

    @abstractmethod
    def for_one_unit(self) -> Policy:
        """The policy that an experiment plays that has only one unit."""

    def initial(self, arms: int) -> State:
        return self.initial_for(arms, _ROOM)

    def initial_for(self, arms: int, slots: int, covariates: int = 0) -> State:
        return self.initial_for_units(arms, 1, slots, covariates)


def unit_kernels(policy: Policy) -> UnitKernels:
    """The kernels of a policy that plays several units.

    >>> import aftereffect as ae
    >>> unit_kernels(ae.FixedUnitSwitchback()) == ae.FixedUnitSwitchback().kernels()
    True
    """
    kernels = policy.kernels()
    if not isinstance(kernels, UnitKernels):
        raise ParameterError(
            f"{policy} plays one unit, but here are several: use unit-switchback, or an experiment "
            "for each unit"
        )
    return kernels
