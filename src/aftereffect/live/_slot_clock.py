"""When slots begin, by the clocks of a time zone."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from aftereffect._core import Calendar, check_choice, short_repr
from aftereffect.errors import ParameterError, name_field
from aftereffect.rewards import SLOT_LENGTHS, SlotName

_DAY = timedelta(days=1)


class SlotClock(NamedTuple):
    """The length of slots, the time at which slot 0 begins on the wall, and the time zone.

    Slots shorter than a day all last equally long. When clocks change, days have one hour more or
    less, and so many more or fewer slots. Slots of a day or a week begin at the same time of day.

    A policy counts slots by the clock on the wall, so that a place in the week is always the same
    hour: see `place_on_wall`.

    Examples
    --------
    >>> clock = SlotClock("1h", datetime(2026, 3, 29), "Europe/Berlin")
    >>> [clock.find_time(slot).isoformat() for slot in (1, 2)]
    ['2026-03-29T01:00:00+01:00', '2026-03-29T03:00:00+02:00']
    >>> [clock.place_on_wall(slot) for slot in (0, 1, 2, 3)]
    [0, 1, 3, 4]
    """

    slot: SlotName
    start: datetime
    timezone: str

    @property
    def length(self) -> timedelta:
        """The length of a slot."""
        return SLOT_LENGTHS[self.slot][0]

    @property
    def calendar(self) -> Calendar:
        """How slots lie in days and weeks."""
        per_day = SLOT_LENGTHS[self.slot][1]
        week = Calendar(per_day).slots_per_week
        monday = self.start.date() - timedelta(days=self.start.weekday())
        since = self.start - datetime.combine(monday, datetime.min.time())
        return Calendar(per_day, since // self.length % week)

    def find_time(self, slot: int) -> datetime:
        """The time at which a slot begins."""
        zone = find_zone(self.timezone)
        try:
            if self.length >= _DAY:
                return (self.start + slot * self.length).replace(tzinfo=zone)
            begin = self.start.replace(tzinfo=zone).astimezone(UTC)
            return (begin + slot * self.length).astimezone(zone)
        except OverflowError:
            raise ParameterError(f"slot {slot:,} begins after the year 9999") from None

    def place_on_wall(self, slot: int) -> int:
        """How many slots clocks have shown since the start; an hour shown twice counts once."""
        if self.length >= _DAY or slot == 0:
            return slot
        return (self.find_time(slot).replace(tzinfo=None) - self.start) // self.length

    def find_slot(self, time: datetime) -> int:
        """The slot that begins at a time; negative before the start.

        A time without an offset from UTC is one of this time zone. If clocks show it twice, it is
        the first.
        """
        number, rest = divmod(self._find_age(time), self.length)
        if rest:
            raise ParameterError(
                f"no slot begins at {time.isoformat()}: slots of {self.slot} follow each other "
                f"from {self.start.isoformat()} on"
            )
        return number

    def find_running(self, time: datetime) -> int:
        """The slot that runs at a time; negative before the start."""
        return self._find_age(time) // self.length

    def _find_age(self, time: datetime) -> timedelta:
        """How long after the start a time is: on the clocks, if slots are so long."""
        zone = find_zone(self.timezone)
        local = time.replace(tzinfo=zone) if time.tzinfo is None else time.astimezone(zone)
        if self.length >= _DAY:
            return local.replace(tzinfo=None) - self.start
        return local.astimezone(UTC) - self.start.replace(tzinfo=zone).astimezone(UTC)

    def is_double(self, time: datetime) -> bool:
        """Whether clocks show a time without an offset twice."""
        zone = find_zone(self.timezone)
        first, second = (time.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
        return time.tzinfo is None and first != second


def make_clock(slot: object, start: object, timezone: object) -> SlotClock:
    """Check the settings of a clock.

    >>> make_clock("1d", "2026-03-02", "UTC").start
    datetime.datetime(2026, 3, 2, 0, 0)
    """
    with name_field("slot"):
        length = check_choice("slot", slot, SLOT_LENGTHS)
    with name_field("timezone"):
        if not isinstance(timezone, str):
            raise ParameterError(f"timezone must be a name, got {short_repr(timezone)}")
        zone = find_zone(timezone)
    with name_field("start"):
        begin = read_time("start", start)
    if begin.tzinfo is not None:
        begin = begin.astimezone(zone).replace(tzinfo=None)
    # A start that follows a history may be a time that clocks skip: then it is an hour later.
    begin = begin.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None)
    return SlotClock(length, begin, timezone)


def read_time(name: str, given: object) -> datetime:
    """Read a time in ISO 8601.

    >>> read_time("start", "2026-03-02T14:00").hour
    14
    """
    time = given
    if not isinstance(given, datetime):
        with suppress(ValueError):
            time = datetime.fromisoformat(str(given))
    if not isinstance(time, datetime) or not 1900 <= time.year < 2200:
        raise ParameterError(
            f"{name} must be a time from 1900 to 2199, such as 2026-03-02T00:00, "
            f"got {short_repr(given)}"
        )
    return time


def find_zone(name: str) -> ZoneInfo:
    """Find a time zone by its name.

    >>> find_zone("Europe/Berlin").key
    'Europe/Berlin'
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ParameterError(
            f"timezone must be a name such as UTC or Europe/Berlin, got {short_repr(name)}"
        ) from None
