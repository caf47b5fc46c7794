"""Whether totals still come: what an operator wants to be woken up for."""

import time
from datetime import datetime
from typing import NamedTuple

from aftereffect.errors import AftereffectError
from aftereffect.live import Experiment, Storage
from aftereffect.service.kept import MAX_KEPT, Kept

#: Seconds that are spent on looking at experiments; those that come later in the list are left out.
_SECONDS = 10.0


class Feed(NamedTuple):
    """How the totals of one experiment come: slots that were played and not told, and when the last was told, if any was."""

    experiment: str
    untold: int
    last_told_at: str | None

    def seconds(self, now: float) -> float | None:
        """How long ago that was."""
        return None if self.last_told_at is None else max(0.0, now - datetime.fromisoformat(self.last_told_at).timestamp())


def read_feed(experiment: Experiment) -> Feed | None:
    """The feed of an experiment; None if it is closed."""
    status = experiment.status()
    if status.closed:
        return None
    return Feed(status.name, status.untold, status.last_told_at)


def read_feeds(storage: Storage, experiments: Kept[Experiment]) -> tuple[list[Feed], int]:
    """The feeds of the latest experiments, and how many of these could not be read."""
    feeds, unreadable, end = [], 0, time.monotonic() + _SECONDS
    for name in storage.readable_names()[-MAX_KEPT:]:
        if time.monotonic() > end:
            break
        try:
            feed = read_feed(experiments[name])
        except AftereffectError:
            unreadable += 1
            continue
        if feed is not None:
            feeds.append(feed)
    return feeds, unreadable
