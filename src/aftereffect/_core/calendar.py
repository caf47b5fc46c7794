"""How the slots of an experiment lie in days and weeks."""

from typing import NamedTuple


class Calendar(NamedTuple):
    """How slots lie in days and weeks: slots per day, and the place of slot 0 in its week.

    Slots of a week or more have 0 slots per day. A week begins on Monday.

    Examples
    --------
    >>> Calendar(slots_per_day=24, first=0).slots_per_week
    168
    """

    slots_per_day: int = 0
    first: int = 0

    @property
    def slots_per_week(self) -> int:
        """The number of slots in a week; 1 where slots are longer than days."""
        return max(7 * self.slots_per_day, 1)
