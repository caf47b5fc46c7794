"""What oracles must know of waits: how long pulls are pending, until the last part arrives."""

from dataclasses import dataclass, replace

from aftereffect._core import MAX_LAG, check_float
from aftereffect.delays import ArmwiseDelay, Delay, RandomLag
from aftereffect.errors import ParameterError
from aftereffect.policies.base import AttributedPolicy


def find_waits(delay: Delay, arms: int) -> tuple[float, float]:
    """The mean and the largest lag of the last part of a pull, for the arm that waits longest.

    >>> from aftereffect import Interval, UniformDelay
    >>> find_waits(UniformDelay(10, 30), 2), find_waits(Interval(10, 30), 2)
    ((20.0, 30.0), (30.0, 30.0))
    """
    longest = float(delay.count_pending(arms) - 1)
    laws = delay.by_arm(arms) if isinstance(delay, ArmwiseDelay) else ()
    means = [law.mean_lag if isinstance(law, RandomLag) else float(law.known_reach) for law in laws]
    return max(means, default=longest), longest


def check_wait(policy: AttributedPolicy, name: str) -> None:
    """Check a lag that a policy was given, if there is one."""
    if (wait := getattr(policy, name)) is not None:
        policy._set(**{name: check_float(name, wait, at_least=0, at_most=MAX_LAG)})


@dataclass(frozen=True)
class TunedForWaits(AttributedPolicy):
    """An oracle that is tuned for the horizon, and for the mean and the largest wait."""

    mean_wait: float | None = None
    longest_wait: float | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        check_wait(self, "mean_wait")
        check_wait(self, "longest_wait")

    def with_delay(self, delay: Delay, arms: int) -> "TunedForWaits":
        mean, longest = find_waits(delay, arms)
        return replace(
            self,
            mean_wait=mean if self.mean_wait is None else self.mean_wait,
            longest_wait=longest if self.longest_wait is None else self.longest_wait,
        )

    def known_waits(self) -> tuple[float, float]:
        """The mean and the largest wait; an error if they are not known."""
        if self.mean_wait is None or self.longest_wait is None:
            raise ParameterError(f"{self} must know waits: pass mean_wait=... and longest_wait=...")
        return self.mean_wait, self.longest_wait
