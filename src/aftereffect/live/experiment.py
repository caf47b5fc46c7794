"""A live experiment: ask which arm, tell what came, survive."""

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from aftereffect.checks import whole
from aftereffect.errors import ConflictError, CorruptionError, NotFoundError, ParameterError
from aftereffect.extras import require
from aftereffect.live.events import fingerprint, now
from aftereffect.live.history import SAVERS, SUFFIXES, Line, lines
from aftereffect.live.ledger import Ledger, Saved
from aftereffect.live.outlook import check_playable
from aftereffect.live.reading import caught_up, events_about, opened, settings_of
from aftereffect.live.rules import (
    Outcome,
    Slot,
    checked_key,
    decide,
    decided,
    decided_for,
    finish,
    skip,
    tell,
    tellings,
)
from aftereffect.live.settings import MOST_LIVE_SLOTS, Settings, checked_name
from aftereffect.live.snapshot import is_due, taken
from aftereffect.live.status import Status, status_of
from aftereffect.live.storage import DEFAULT_STORAGE, Log, Record, Storage, View, open_storage
from aftereffect.live.verification import Verification, verified
from aftereffect.outputs import replacing, writable
from aftereffect.policies import Policy
from aftereffect.seeds import seed_or_drawn
from aftereffect.spec import as_spec, nearest

#: Slots whose events are read at a time.
_PIECE = 5_000


class Experiment:
    """One experiment in a storage. Make one with `create`, get back to it with `open`.

    May be shared by threads, and any number of processes may work on the same experiment at once.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> banner = Experiment.create("banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 200), storage="memory://")
    >>> banner.ask()
    Slot(number=0, arm='A', round=0, until=0, hold=False)
    >>> banner.tell(0, 37)
    Outcome(slot=0, value=37.0, change='recorded', arm='A')
    >>> banner.ask().arm
    'B'
    """

    def __init__(self, storage: Storage, record: Record) -> None:
        self._storage = storage
        self._record = record
        self._lock = threading.RLock()
        self._ledger: Ledger | None = None
        #: Whether `create` has made it just now.
        self.is_new = False
        with self._named():
            self.settings = settings_of(record)

    @classmethod
    def create(
        cls,
        name: str,
        *,
        arms: Sequence[str],
        policy: Policy | str,
        reward_range: Sequence[float],
        max_total: float | None = None,
        horizon: int | None = None,
        seed: int | None = None,
        storage: Storage | str = DEFAULT_STORAGE,
    ) -> "Experiment":
        """Begin an experiment; if it is there already, with these settings, it is opened.

        Parameters
        ----------
        name
            Letters, digits, ``-``, ``_`` and ``.``, 1 to 100 of them.
        arms
            What to choose from: at least two names.
        policy
            A policy or its spec string.
        reward_range
            The least and the most that the play of one slot can bring in all, over its whole life. Totals are scaled by it, not
            capped: several plays may land in one slot.
        max_total
            The largest total to believe, against typing errors.
        horizon
            How many slots it will last, for policies that plan ahead; nothing is decided beyond it.
        seed
            Of what a randomised policy draws; drawn if not given, and part of the settings.
        storage
            A storage, or its URL (see `open_storage`).

        Raises
        ------
        ConflictError
            If there is an experiment of that name with other settings.
        """
        drawn = seed_or_drawn(seed)
        wanted = Settings(name, arms, as_spec(policy, Policy), reward_range, drawn, max_total, horizon)
        if wanted.name in (".", ".."):  # a part of a path that no address can hold
            raise ParameterError(f"an experiment cannot be named {wanted.name!r}: add a letter")
        check_playable(wanted)
        kept = storage if isinstance(storage, Storage) else open_storage(storage)
        given = (wanted.name, wanted.written(), now())
        record, new = kept.create(*given, fingerprint(*given))
        experiment = cls(kept, record)
        if not new:
            experiment._check_same(wanted, any_seed=seed is None)
        experiment.is_new = new
        return experiment

    @classmethod
    def open(cls, name: str, *, storage: Storage | str = DEFAULT_STORAGE, check: bool = True) -> "Experiment":
        """Get back to an experiment; its snapshot, and what was recorded since, are checked.

        Parameters
        ----------
        name
            As it was created.
        storage
            A storage, or its URL (see `open_storage`).
        check
            False to get hold of one that may be damaged, in order to `verify` it.

        Raises
        ------
        NotFoundError
            If there is none of that name.
        CorruptionError
            If what is there is not what was recorded.
        """
        checked_name(name)
        kept = storage if isinstance(storage, Storage) else open_storage(storage)
        record = kept.find(name)
        if record is None:
            raise NotFoundError(f"there is no experiment {name!r} in {kept.url}: {nearest(name, kept.names())}")
        experiment = cls(kept, record)
        if check:
            with experiment._reading():
                pass
        return experiment

    def __repr__(self) -> str:
        return f"<Experiment {self.name!r} in {self._storage.url}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self.settings.name

    @property
    def storage(self) -> Storage:
        """Where it is kept."""
        return self._storage

    @property
    def record(self) -> Record:
        """As it lies in the storage; its chain of events begins there."""
        return self._record

    def ask(self, slot: int | None = None, *, key: str | None = None) -> Slot:
        """Decide the next slot, and record it before answering; or tell again what was decided.

        Parameters
        ----------
        slot
            The number of a decided slot, or of the next one; the next one if not given. To ask with the number is the safe way:
            however often it is repeated, after whatever crash, the answer is the same and no slot is passed over.
        key
            The other safe way, for those who do not count: any text, used for one slot alone. The same key gives the same slot.
        """
        return self.decide(slot, key)[0]

    def decide(self, slot: int | None = None, key: str | None = None) -> tuple[Slot, bool]:
        """As `ask`; and whether it was decided just now."""
        if slot is not None and key is not None:
            raise ParameterError("ask with the number of a slot or with a key, not with both")
        number = None if slot is None else whole("slot", slot)
        asked = None if key is None else checked_key(key)

        def known(view: View) -> Slot | None:
            if asked is not None:
                return decided_for(view, self._record, self.settings, asked)
            return None if number is None else decided(view, self._record, self.settings, number)

        ledger = self._ledger
        if number is not None and number < (MOST_LIVE_SLOTS if ledger is None else ledger.next_slot):
            with self.viewing() as view:  # who only looks keeps nobody waiting; a key is mostly new
                answer = known(view)
            if answer is not None:
                return answer, False
        with self._writing() as (log, ledger):
            if asked or (number is not None and number < ledger.next_slot):  # another client may have been faster
                answer = known(log)
                if answer is not None:
                    return answer, False
                if number is not None and not ledger.is_skipped(number):
                    raise CorruptionError(f"slot {number} was decided, and its decision is gone")
            return decide(log, ledger, number, asked), True

    def tell(self, slot: int, value: float, *, arm: str | None = None, revise: bool = False, confirm: bool = False) -> Outcome:
        """Record the total of a slot.

        Parameters
        ----------
        slot
            The number of a slot that is past. Totals may come late and in any order: none is ignored.
        value
            All that was seen in it, whichever arms it came from.
        arm
            The arm that was really played, if not the one that was advised. The log keeps both; policies learn from this one.
        revise
            Replace what was told before, while no decision was made by it.
        confirm
            The total is right, however far it is from all that was seen.

        Raises
        ------
        ConflictError
            If something else was told before, or the experiment is closed.
        ParameterError
            If the slot or the value cannot be; nothing is recorded. An `UnlikelyTotalError` can be confirmed.
        """
        if value is None:
            raise ParameterError(f"the total of slot {slot} must be a number, got None: what will never be known is missing")
        return self.tell_many([(slot, value, arm)], revise=revise, confirm=confirm)[0]

    def missing(self, slot: int, *, revise: bool = False) -> Outcome:
        """Record that the total of a slot will never be known: it counts neither as reward nor as play."""
        return self.tell_many([(slot, None)], revise=revise)[0]

    def tell_many(
        self,
        outcomes: Mapping[int, float | None] | Iterable[tuple[int, float | None] | tuple[int, float | None, str | None]],
        *,
        revise: bool = False,
        confirm: bool = False,
    ) -> list[Outcome]:
        """Record many at once, all or nothing: slots and their totals, None where one is missing, in any order.

        A third part of a row names the arm that was really played, if not the one that was advised.
        """
        rows = tellings(outcomes)  # now: where they come from may take its time, or ask this experiment
        with self._writing() as (log, ledger):
            return [tell(log, ledger, self._record, row, revise=revise, confirm=confirm) for row in rows]

    def skip(self, first: int, last: int | None = None) -> Status:
        """Record that nothing was decided for some slots, from the next one on: during an outage, say.

        They count neither as reward nor as play; a round that is under way goes on after them. Where an arm was played all the
        same, `tell` with that arm.
        """
        begin, end = whole("first", first), whole("last", first if last is None else last)
        with self._writing() as (log, ledger):
            skip(log, ledger, begin, end)
            return status_of(ledger)

    def status(self) -> Status:
        """How it stands, arm by arm, and what comes next."""
        with self._reading() as (_, ledger):
            return status_of(ledger)

    def history(self, after: int = -1, limit: int | None = None) -> list[Line]:
        """What happened in the slots after one, at most so many of them."""
        first = whole("after", after, at_least=-1) + 1
        most = None if limit is None else whole("limit", limit)
        with self._reading() as (view, ledger):
            stop = ledger.next_slot if most is None else min(first + most, ledger.next_slot)
            return list(self._lines(view, ledger.ahead(), first, stop))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the history into a .csv or a .parquet file (needs the extra ``data``)."""
        if Path(path).suffix.lower() == ".parquet":
            require("data")
        target = writable(path, SUFFIXES)
        with self._reading() as (view, ledger), replacing(target) as draft:
            SAVERS[target.suffix.lower()](self._lines(view, ledger.ahead(), 0, ledger.next_slot), draft)

    def verify(self) -> Verification:
        """Check every event, derive every decision again, and compare the snapshot with the log."""
        with self._storage.reading(self._record.id) as view:
            return verified(self._storage, self._record, self.settings, view)

    def close(self) -> Status:
        """End it: nothing is decided or told from now on. Its final table; closing again gives the same."""
        with self._writing() as (log, ledger):
            finish(log, ledger)
            return status_of(ledger)

    def _lines(self, view: View, ledger: Ledger, first: int, stop: int) -> Iterator[Line]:
        for begin in range(first, stop, _PIECE):
            end = min(begin + _PIECE, stop)
            yield from lines(ledger, events_about(view, self._record, begin, end), begin, end)

    @contextmanager
    def viewing(self) -> Iterator[View]:
        """Its log as it is now, for those who read it event by event; nothing of it is proved."""
        with self._named(), self._storage.reading(self._record.id) as view:
            yield view

    @contextmanager
    def _reading(self) -> Iterator[tuple[View, Ledger]]:
        """The log as it is now, and its fold."""
        with self._lock, self.viewing() as view:
            yield view, self._current(view)

    @contextmanager
    def _writing(self) -> Iterator[tuple[Log, Ledger]]:
        """The same, to be added to."""
        with self._lock, self._named():
            try:
                with self._storage.writing(self._record.id) as log:
                    ledger = self._current(log)
                    place = ledger.place
                    yield log, ledger
                    if is_due(ledger):
                        log.save(taken(ledger))
                        ledger.saved = Saved(ledger.place.seq, ledger.rounds)
            except BaseException as error:
                # A refusal changed nothing. After anything else the log is read again: it knows what was kept.
                refused = isinstance(error, (ParameterError, ConflictError))
                if not refused or self._ledger is None or self._ledger.place != place:
                    self._ledger = None
                raise

    def _current(self, view: View) -> Ledger:
        ledger, self._ledger = self._ledger, None  # an event that proves false leaves nothing behind
        if ledger is not None:
            ledger = caught_up(ledger, view)
        self._ledger = opened(self.settings, self._record, view) if ledger is None else ledger
        return self._ledger

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say which experiment is damaged, and what can be done."""
        try:
            yield
        except CorruptionError as error:
            raise CorruptionError(
                f"experiment {self._record.name!r} is damaged, {error}; verify tells how much is whole, restore a backup"
            ) from None

    def _check_same(self, wanted: Settings, *, any_seed: bool) -> None:
        known, asked = self.settings.plain(), wanted.plain()
        names = [name for name in known if known[name] != asked[name] and not (name == "seed" and any_seed)]
        if names:
            recorded, given = ({name: each[name] for name in names} for each in (known, asked))
            have, came = (", ".join(f"{name} {value}" for name, value in each.items()) for each in (recorded, given))
            message = f"experiment {self.name!r} exists with {have}; got {came}: a new idea is a new experiment"
            raise ConflictError(message, recorded, given)
