"""What is wrong with the totals of a bandit: missing, wrong or late; and with its demand."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect._core import MAX_LAG, Spec, check_float, check_int, register
from aftereffect.errors import ParameterError

#: How much too high a spike is.
SPIKE = 10.0


class DefectParams(NamedTuple):
    """What is wrong with totals: the sums of the first one, two and three shares; and the rest."""

    missing: float
    up_to_zeros: float
    up_to_spikes: float
    late: int
    holiday: int
    drop: float


def spoil_total(params: DefectParams, total: float, rng: np.random.Generator) -> float:
    """The total as it is reported; NaN if it is missing.

    >>> from aftereffect import Defects
    >>> spoil_total(Defects(zeros=1).params, 5.0, np.random.default_rng(1))
    0.0
    """
    if params.up_to_spikes == 0.0:
        return total
    place = rng.random()
    if place < params.missing:
        return math.nan
    if place < params.up_to_zeros:
        return 0.0
    return SPIKE * total if place < params.up_to_spikes else total


#: By how much demand may drop or rise in the middle of a run.
MAX_DROP = 100.0


@register
@dataclass(frozen=True)
class Defects(Spec):
    """Totals that are missing, wrong or late, and demand that breaks its pattern.

    The totals of a history have the first three defects too.

    Parameters
    ----------
    missing, zeros, spikes
        The share of slots whose total is missing, reported as 0, or reported ten times too high.
    late
        How many slots totals come late, to policies that look at every slot. Others get the total
        of a round when it ends.
    holiday
        If 1, demand is half as large in one week of the run, drawn at random.
    drop
        Demand is multiplied by this from the middle of the run on.

    Examples
    --------
    >>> Defects(missing=.02, late=48).late
    48
    """

    kind = "defects"

    missing: float = 0.0
    zeros: float = 0.0
    spikes: float = 0.0
    late: int = 0
    holiday: int = 0
    drop: float = 1.0

    def __post_init__(self) -> None:
        shares = {
            name: check_float(name, getattr(self, name), at_least=0, at_most=1)
            for name in ("missing", "zeros", "spikes")
        }
        if math.fsum(shares.values()) > 1:
            raise ParameterError(
                "missing, zeros and spikes must sum to at most 1, "
                f"got {math.fsum(shares.values()):g}: make them smaller"
            )
        self._set(
            **shares,
            late=check_int("late", self.late, at_most=MAX_LAG),
            holiday=check_int("holiday", self.holiday, at_most=1),
            drop=check_float("drop", check_float("drop", self.drop, above=0), at_most=MAX_DROP),
        )

    @property
    def params(self) -> DefectParams:
        """What kernels read."""
        zeros = self.missing + self.zeros
        return DefectParams(
            self.missing, zeros, zeros + self.spikes, self.late, self.holiday, self.drop
        )
