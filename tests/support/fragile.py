"""A storage whose clients may crash, and all that a state is: for state machines."""

from contextlib import contextmanager

import aftereffect as ae
from aftereffect.live._snapshots import take_snapshot


class CrashError(Exception):
    """The process ends here."""


class Fragile:
    """A storage whose client may crash at the end of a transaction: before it is committed, or after."""

    def __init__(self, storage):
        self.storage = storage
        self.crash = None

    def __getattr__(self, name):
        return getattr(self.storage, name)

    @contextmanager
    def writing(self, experiment):
        with self.storage.writing(experiment) as log:
            yield log
            if self.crash == "before":
                raise CrashError
        if self.crash == "after":
            raise CrashError


ae.live.Storage.register(Fragile)


def as_one(state):
    """All that a state is, and what it would decide next."""
    return take_snapshot(state), take_snapshot(state.look_ahead()), state.difference
