"""What an environment knows about its delays, for policies that must be told."""

from collections.abc import Iterable
from typing import NamedTuple

from aftereffect.spreads import Spread


class Knowledge(NamedTuple):
    """The truth about the delays of an environment; infinite where there is no such number."""

    mean_delay: float
    variance: float
    bound: float


def knowledge_of(spreads: Iterable[Spread]) -> Knowledge:
    """The truth about some spreads, one by arm: the largest of each number."""
    each = {id(spread): spread for spread in spreads}.values()  # thousands of arms may share one
    return Knowledge(
        max(spread.mean_lag for spread in each),
        max(spread.lag_variance for spread in each),
        max(spread.bound for spread in each),
    )
