"""A spread of its own for each arm."""

from dataclasses import dataclass

from aftereffect.checks import sequence
from aftereffect.errors import ParameterError
from aftereffect.spec import as_spec, register
from aftereffect.spreads.base import Spread, Spreading


@register
@dataclass(frozen=True)
class PerArm(Spreading):
    """Each arm's rewards land in their own way.

    Parameters
    ----------
    spreads
        One per arm, as spreads or spec strings.

    Examples
    --------
    >>> from aftereffect import Geometric, Interval
    >>> print(PerArm([Interval(3, 5), Geometric(0.5)]))
    per-arm([interval(3, 5), geometric(0.5)])
    """

    spreads: tuple[Spread, ...]

    def __post_init__(self) -> None:
        self._set(spreads=tuple(as_spec(spread, Spread) for spread in sequence("spreads", self.spreads)))

    def by_arm(self, arms: int) -> tuple[Spread, ...]:
        if len(self.spreads) != arms:
            raise ParameterError(f"per-arm needs a spread for each of the {arms} arms, got {len(self.spreads)}")
        return tuple(spread.by_arm(1)[0] for spread in self.spreads)
