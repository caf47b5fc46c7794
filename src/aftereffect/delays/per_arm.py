"""Each arm with a delay of its own."""

from dataclasses import dataclass

from aftereffect._core import as_spec, check_sequence, register
from aftereffect.delays.base import ArmwiseDelay, LagLaw
from aftereffect.errors import ParameterError


@register
@dataclass(frozen=True)
class PerArm(ArmwiseDelay):
    """Each arm has its own delay.

    Parameters
    ----------
    delays
        One per arm, as delays or spec strings.

    Examples
    --------
    >>> from aftereffect import Geometric, Interval
    >>> delay = PerArm([Interval(3, 4), Geometric(0.5)])
    >>> print(delay)
    per-arm([interval(3, 4), geometric(0.5)])
    >>> [law.mean_lag for law in delay.by_arm(2)]
    [3.5, 2.0]
    """

    delays: tuple[LagLaw, ...]

    def __post_init__(self) -> None:
        given = check_sequence("delays", self.delays)
        self._set(delays=tuple(as_spec(delay, LagLaw) for delay in given))

    def by_arm(self, arms: int) -> tuple[LagLaw, ...]:
        if len(self.delays) != arms:
            raise ParameterError(
                f"per-arm needs a delay for each of the {arms} arms, got {len(self.delays)}"
            )
        return tuple(delay.by_arm(1)[0] for delay in self.delays)
