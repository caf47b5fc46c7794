"""What a slot's total can be, and what is likely after all that was seen: against typing errors."""

import math
from dataclasses import dataclass

from aftereffect.checks import real
from aftereffect.errors import ParameterError, UnlikelyTotalError
from aftereffect.live.settings import Settings

#: Totals that must have been seen before they say what is likely; until then it is so many times what one pull can bring.
_ENOUGH, _AT_FIRST = 20, 4.0
#: Standard deviations from the mean, and times the largest so far, up to which a total is believed.
_DEVIATIONS, _TIMES = 8.0, 2.0


@dataclass
class Seen:
    """The totals so far: how many, their mean, the sum of squares around it, the least and the most."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def add(self, total: float) -> None:
        """One more."""
        self.least, self.most = (min(self.least, total), max(self.most, total)) if self.count else (total, total)
        self.count += 1
        off = total - self.mean
        self.mean += off / self.count
        self.squares += off * (total - self.mean)

    def check_likely(self, settings: Settings, slot: int, total: float) -> None:
        """Refuse a total that is far from all that was seen."""
        least, most = self.likely(settings)
        if not least <= total <= most:
            known = f"the {self.count:,} so far were {self.least:g} to {self.most:g}" if self.count else "it is the first"
            raise UnlikelyTotalError(
                f"the total of slot {slot} is far from those before it, got {total:g} and {known}: confirm it if it is right"
            )

    def likely(self, settings: Settings) -> tuple[float, float]:
        """The least and the most that the next total is likely to be.

        What one pull can bring is always likely, and so is nothing at all. More than that comes where rewards of several pulls
        land together, and how much more is seen soon.
        """
        high = max(settings.reward_range[1], 0.0)
        if self.count < _ENOUGH:
            return -math.inf, _AT_FIRST * high + _TIMES * max(self.most, 0.0)
        breadth = _DEVIATIONS * math.sqrt(self.squares / (self.count - 1))
        return min(0.0, _TIMES * self.least, self.mean - breadth), max(high, _TIMES * self.most, self.mean + breadth)


def check_possible(settings: Settings, slot: int, value: object) -> float:
    """A total that a slot can have brought."""
    total = real(f"the total of slot {slot}", value) + 0.0  # no zero below zero: SQLite does not keep its sign
    low, high = settings.reward_range
    most = max(high, 0.0) * (slot + 1)
    if total < low:
        raise ParameterError(
            f"the total of slot {slot} must be at least {low:g}, the lower end of the reward range, got {total:g}"
        )
    if total > most:
        plays = f"the {slot + 1:,} plays so far" if slot else "a play"
        raise ParameterError(f"the total of slot {slot} must be at most {most:g}, as much as {plays} can bring, got {total:g}")
    if settings.max_total is not None and total > settings.max_total:
        raise ParameterError(f"the total of slot {slot} must be at most {settings.max_total:g}, the max_total, got {total:g}")
    return total
