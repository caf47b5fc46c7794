"""A live experiment: ask which arm to play, and tell what was observed."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias, overload

from aftereffect._core import (
    atomic_write,
    check_int,
    check_or_draw_seed,
    check_writable,
    require_extra,
)
from aftereffect.errors import ParameterError, name_field
from aftereffect.inference import Guardrail, PlannedCourse, Results
from aftereffect.lag import LagEstimate, estimate_lag
from aftereffect.live import _rules as rules
from aftereffect.live._arms import ArmChange
from aftereffect.live._history import place_history
from aftereffect.live._policy import add_floors, check_playable, choose_policy
from aftereffect.live._reading import OpenLog
from aftereffect.live._results import check_lag, find_results
from aftereffect.live._telling import tell_many
from aftereffect.live.events import fingerprint, now
from aftereffect.live.maintenance import Verification, find_record, verify_experiment
from aftereffect.live.records import (
    HISTORY_SUFFIXES,
    Decision,
    ExportForm,
    Slot,
    SlotRecord,
    TotalRecord,
    TotalsInput,
    UnitTotals,
    read_totals,
    save_history,
)
from aftereffect.live.settings import Settings, check_name, read_guardrails
from aftereffect.live.status import Status, make_status
from aftereffect.live.storage import DEFAULT_STORAGE, Record, Storage, View, open_or_borrow
from aftereffect.policies import Policy
from aftereffect.rewards import check_covariates

#: What came before an experiment: a file, rows of a time, a total and covariates, or totals; or by
#: unit.
HistoryInput: TypeAlias = (
    str
    | os.PathLike[str]
    | Sequence[float | None]
    | Sequence[tuple[str | datetime, float | None]]
    | Sequence[tuple[str | datetime, float | None, Mapping[str, float | None]]]
    | Mapping[str, Any]
)


class PlanLike(Protocol):
    """A plan: `aftereffect.Plan`, or what promises the same."""

    def promise_courses(self) -> Sequence[PlannedCourse]:
        """What it promises, by design."""


#: A plan, or what one promised by design, also as mappings.
PlanInput: TypeAlias = PlanLike | PlannedCourse | Sequence[PlannedCourse | Mapping[str, object]]


class Experiment:
    """An experiment in a storage: `create` begins one, `open` opens one that exists.

    Threads may share the object, and any number of processes may work on one experiment at once.
    Use it as a context manager to close its storage at the end of the block; the experiment itself
    goes on until `end` ends it.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> with Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 200), storage="memory://"
    ... ) as banner:
    ...     print(banner.ask(0))
    ...     print(banner.tell(0, 37))
    ...     print(banner.ask(1).arm)
    Decision(slot=0, arm='A', round=0, until=0, hold=False, time=None, probabilities=None)
    TotalRecord(slot=0, total=37.0, change='recorded', arm='A')
    B
    """

    def __init__(self, storage: Storage, record: Record) -> None:
        self._log = OpenLog(storage, record)
        #: Whether `create` or `open` opened the storage, so that `close` must close it.
        self._owns_storage = False
        #: Whether `create` has just created the experiment.
        self.is_new = False
        self.settings = self._log.settings

    @classmethod
    def create(
        cls,
        name: str,
        *,
        arms: Sequence[str],
        policy: Policy | str | None = None,
        units: Sequence[str] = (),
        reward_range: Sequence[float] | None = None,
        slot: str | None = None,
        start: str | datetime | None = None,
        timezone: str | None = None,
        history: HistoryInput | None = None,
        control: str | None = None,
        control_share: float | None = None,
        floors: Mapping[str, float] | None = None,
        covariates: Sequence[str] = (),
        unit: str | None = None,
        stop_when_loss_below: float | None = None,
        guardrails: Sequence[Guardrail | str] = (),
        plan: PlanInput | None = None,
        final_after: str | None = None,
        max_total: float | None = None,
        horizon: int | None = None,
        seed: int | None = None,
        storage: Storage | str = DEFAULT_STORAGE,
    ) -> "Experiment":
        """Create an experiment; if it exists with the same settings, open it.

        Parameters
        ----------
        name
            Letters, digits, ``-``, ``_`` and ``.``, 1 to 100 of them.
        arms
            The names of the arms, at least two.
        policy
            A policy or its spec string. The default, ``adaptive-switchback``, learns from totals as
            shops have them, with seasons, drift and noise. With several units it is
            ``unit-switchback``.
        units
            The names of units, such as stores, regions or servers: each plays an arm and has a
            total of its own in every slot. They share the arms, and what is learned of them. With
            one name or none, the experiment has one unit, which needs no name.
        reward_range
            The smallest and the largest reward of one pull, summed over all slots in which it
            arrives. Totals are scaled by it. A total may be larger, as rewards of several pulls may
            arrive in one slot. Policies that look at every slot, as the default does, need none.
        slot
            The length of a slot: ``15min``, ``1h``, ``1d`` or ``1w``. With it, slots have times,
            and policies know hours and days of the week.
        start
            When slot 0 begins, such as ``2026-03-02T00:00``. If not given, slot 0 follows the last
            slot of the history; without one it is the next full slot.
        timezone
            The time zone of the start and of the history, such as ``Europe/Berlin``; UTC if not
            given.
        history
            The totals before slot 0, in which the control was played: a .csv, .csv.gz or .parquet
            file with the columns time and total, pairs of both, or totals alone of which the last
            one lies directly before slot 0. With covariates, a file has a column for each, and a
            row may be ``(time, total, {name: number})``. With several units, a file has the column
            unit; anything else is given by unit, in a mapping.
        control
            The arm that was played before the experiment; the first if not given.
        control_share
            The least share of rounds that the control keeps, such as 0.1, whatever the policy
            decides: a holdback. The control must be named.
        floors
            The least share of rounds of other arms, such as ``{"B": 0.05}``; at most 0.9 in all,
            with the control. The policy is then `Floors` around the given one.
        covariates
            The names of numbers that come with each slot, such as ``["temperature", "rain"]``, at
            most 16. Only policies that look at every slot take them.
        unit
            The unit of the totals, such as ``EUR``: at most 20 characters. Tables and charts show
            it.
        stop_when_loss_below
            A rule to stop, which `results` uses: it says stop when shipping the leader is expected
            to cost less than this number per slot, in the unit of the totals. The experiment goes
            on all the same until `end` ends it. The policy must say its probabilities.
        guardrails
            Further totals of each slot in which arms may do harm, such as complaints: at most 5
            `Guardrail`, or their spec strings. They may stop arms.
        plan
            The plan that the experiment comes from, such as ``ae.Plan.load("plan.json")``. What it
            promised for the policy becomes part of the settings; `status` and `results` compare.
        final_after
            How long after the end of its slot a total may still change, such as ``72h``, ``30d`` or
            ``6w``. Until then it is provisional: it may be told again, with another number, without
            `revise`. The status counts provisional totals. Slots must have times.
        max_total
            The largest total to accept, against typing errors.
        horizon
            The number of slots that the experiment will last. Some policies need it; nothing is
            decided beyond it.
        seed
            The seed of a randomised policy; drawn if not given, and part of the settings.
        storage
            A storage, or its URL (see `open_storage`).

        Raises
        ------
        ConflictError
            If an experiment of that name exists with other settings.
        """
        drawn = check_or_draw_seed(seed)
        with name_field("covariates"):
            names = check_covariates(covariates)
        chosen, unit_names = choose_policy(policy, units)
        with name_field("history"):
            clock, totals, numbers = place_history(
                slot, start, timezone, history, names, unit_names
            )
        wanted = Settings(
            name,
            arms,
            add_floors(chosen, arms, control, control_share, floors),
            reward_range,
            drawn,
            max_total,
            horizon,
            slot,
            clock and clock.start.isoformat(),
            clock and clock.timezone,
            totals,
            control,
            names,
            numbers,
            unit,
            stop_when_loss_below,
            read_guardrails(guardrails),
            final_after=final_after,
            units=unit_names,
        )
        if plan is not None:
            wanted = wanted.with_plan(plan)
        if wanted.name in (".", ".."):  # no web address can have such a part
            raise ParameterError(f"an experiment cannot be named {wanted.name!r}: add a letter")
        check_playable(wanted)
        given = (wanted.name, wanted.to_json(), now())
        with open_or_borrow(storage) as (opened, owned):
            record, new = opened.create(*given, fingerprint(*given))
            experiment = cls(opened, record)
            if not new:
                # What was drawn, or follows from the time of day, may differ.
                free = [name for name, given in (("seed", seed), ("start", start)) if given is None]
                experiment.settings.check_same(wanted, free)
        experiment.is_new, experiment._owns_storage = new, owned
        return experiment

    @classmethod
    def open(
        cls, name: str, *, storage: Storage | str = DEFAULT_STORAGE, check: bool = True
    ) -> "Experiment":
        """Open an experiment, and check its snapshot and the events after it.

        Parameters
        ----------
        name
            The name it was created with.
        storage
            A storage, or its URL (see `open_storage`).
        check
            False to open an experiment that may be damaged, in order to `verify` it.

        Raises
        ------
        NotFoundError
            If there is no experiment of that name.
        CorruptionError
            If the storage does not hold what was recorded.
        """
        check_name(name)
        with open_or_borrow(storage) as (opened, owned):
            experiment = cls(opened, find_record(opened, name))
            if check:
                with experiment._log.reading():
                    pass
        experiment._owns_storage = owned
        return experiment

    def close(self) -> None:
        """Close the storage if `create` or `open` opened it from a URL; the experiment goes on.

        A storage object that the caller passed stays open.
        """
        if self._owns_storage:
            self._log.storage.close()

    def __enter__(self) -> "Experiment":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Experiment {self.name!r} in {self._log.storage.url}>"

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return self.settings.name

    @property
    def storage(self) -> Storage:
        """The storage that has the experiment."""
        return self._log.storage

    @property
    def record(self) -> Record:
        """The record of the experiment in its storage; the chain of events begins with it."""
        return self._log.record

    def ask(self, slot: Slot | None = None, *, key: str | None = None) -> Decision:
        """Decide the next slot and record the decision, or return the decision of a past slot.

        Parameters
        ----------
        slot
            The number of a decided slot or of the next one, or its time; if not given, the next
            one. Asking for a slot is safe: the same question has the same answer, even after a
            crash, and no slot is passed over.
        key
            An idempotency key, which makes asking without a number safe: any text, used for one
            slot only. The same key returns the same decision.
        """
        return self.find_or_decide(slot, key)[0]

    def find_or_decide(
        self, slot: Slot | None = None, key: str | None = None
    ) -> tuple[Decision, bool]:
        """Do what `ask` does, and also return whether the decision is new."""
        return rules.find_or_decide(self._log, slot, key)

    @overload
    def tell(
        self,
        slot: Slot,
        total: float,
        *,
        unit: str | None = None,
        arm: str | None = None,
        covariates: Mapping[str, float | None] | None = None,
        guardrails: Mapping[str, float | None] | None = None,
        revise: bool = False,
        confirm: bool = False,
    ) -> TotalRecord: ...

    @overload
    def tell(
        self,
        slot: Slot,
        total: UnitTotals,
        *,
        unit: str | None = None,
        arm: str | None = None,
        covariates: Mapping[str, float | None] | None = None,
        guardrails: Mapping[str, float | None] | None = None,
        revise: bool = False,
        confirm: bool = False,
    ) -> list[TotalRecord]: ...

    def tell(
        self,
        slot: Slot,
        total: float | UnitTotals,
        *,
        unit: str | None = None,
        arm: str | None = None,
        covariates: Mapping[str, float | None] | None = None,
        guardrails: Mapping[str, float | None] | None = None,
        revise: bool = False,
        confirm: bool = False,
    ) -> TotalRecord | list[TotalRecord]:
        """Record the total of a slot.

        Parameters
        ----------
        slot
            The number of a decided slot, or its time. Totals may come late and in any order; none
            is ignored.
        total
            All that was observed in the slot, whichever arms it came from. With several units, the
            total of one `unit`, or the totals of some of them by name, with None for one that is
            missing; the answer is then a list.
        unit
            The name of the unit, if there are several.
        arm
            The arm that was played, if it was not the decided one. The log has both; the policy
            learns from this one.
        covariates
            Numbers that come with the slot, by the names in the settings. Those that are left out
            stay as they are: not known, unless they were recorded before.
        guardrails
            Numbers of the guardrails, in the same way. They may come later: tell the same total
            again, with them.
        revise
            Replace what is recorded, however old it is. Decisions that were made stand, and later
            ones use what is known then. The log keeps both.
        confirm
            Accept the total even if it is far from all others.

        Raises
        ------
        ConflictError
            If another total is recorded, or the experiment has ended.
        ParameterError
            If the slot or the total is not possible; nothing is recorded. An `UnlikelyTotalError`
            can be confirmed.
        """
        if total is None:
            raise ParameterError(
                f"tell needs a number for slot {slot}, got None: "
                f"if the total is lost, call mark_missing({slot})"
            )
        rows: Any = [(slot, total, arm, covariates, guardrails, unit)]
        records = self.tell_many(rows, revise=revise, confirm=confirm)
        return records if isinstance(total, Mapping) else records[0]

    def mark_missing(
        self,
        slot: Slot,
        *,
        unit: str | None = None,
        covariates: Mapping[str, float | None] | None = None,
        guardrails: Mapping[str, float | None] | None = None,
        revise: bool = False,
    ) -> TotalRecord:
        """Record that the total of a slot, or of one `unit` in it, is lost: the policy ignores it.

        Its covariates and guardrails may be known all the same.
        """
        row = (slot, None, None, covariates, guardrails, unit)
        return self.tell_many([row], revise=revise)[0]

    def tell_many(
        self,
        totals: TotalsInput,
        *,
        revise: bool = False,
        confirm: bool = False,
        key: str | None = None,
    ) -> list[TotalRecord]:
        """Record the totals of several slots: all of them, or none.

        Each row is a slot, by number or time; its total, None if that is missing; the arm that was
        played, None if it was the decided one; covariates by name; numbers of guardrails by name;
        and the unit, if there are several. The last four may be left out. In the place of a total,
        a row may have totals by unit.

        With a `key`, any text, the batch is recorded once: later calls with that key record nothing
        and return nothing, whatever was told in between.
        """
        rows = read_totals(totals)  # before the lock: the rows may come from a slow iterator
        given = {"revise": revise, "confirm": confirm}
        with self._log.writing() as (log, state):
            return tell_many(log, state, self._log.record, rows, key, **given)

    def skip(self, first: Slot, last: Slot | None = None) -> Status:
        """Record that nothing was decided for some slots, such as during an outage.

        The first must be the next slot. The policy ignores these slots, and an open round goes on
        after them. If an arm was played all the same, `tell` its totals with that arm.
        """
        number = self.settings.number_slot
        begin = check_int("first", number(first))
        stop = check_int("last", number(first if last is None else last))
        with self._log.writing() as (log, state):
            rules.skip(log, state, begin, stop)
            return make_status(state)

    def change_arms(
        self,
        *,
        add: str | Sequence[str] = (),
        pause: str | Sequence[str] = (),
        resume: str | Sequence[str] = (),
        retire: str | Sequence[str] = (),
    ) -> Status:
        """Add, pause, resume or retire arms, from the next slot on; all of these changes or none.

        What is known of the other arms is kept. If the arm of the open round is paused or retired,
        the round ends. The same call again changes nothing. See docs/live.md.

        Parameters
        ----------
        add
            Names of new arms: no name is used twice, also not that of a retired arm.
        pause
            Arms that are not played until they are resumed.
        resume
            Arms that are paused.
        retire
            Arms that are never played again.

        Raises
        ------
        ConflictError
            If the policy cannot go on with other arms, if an arm is retired already, or if no arm
            would be active. The control can be neither paused nor retired.
        """
        given: dict[ArmChange, object] = {
            "add": add,
            "pause": pause,
            "resume": resume,
            "retire": retire,
        }
        with self._log.writing() as (log, state):
            rules.change_arms(log, state, given)
            return make_status(state)

    def status(self) -> Status:
        """The status of the experiment, arm by arm, and its next decision."""
        with self._log.reading() as (_, state):
            return make_status(state)

    def history(self, after: int = -1, limit: int | None = None) -> list[SlotRecord]:
        """The slots after slot `after`, at most `limit` of them; with units, a record for each."""
        first = check_int("after", after, at_least=-1) + 1
        most = None if limit is None else check_int("limit", limit)
        with self._log.reading() as (view, state):
            stop = state.next_slot if most is None else min(first + most, state.next_slot)
            return list(self._log.read_records(view, state, first, stop))

    def lag(self, *, level: float = 0.9) -> LagEstimate:
        """Estimate how long rewards take to arrive; see `aftereffect.estimate_lag`."""
        check_lag(self.settings)
        return estimate_lag(self.history(), level=level)

    def results(self, *, level: float = 0.95, stop_when_loss_below: float | None = None) -> Results:
        """Who won? The effect of each arm, with intervals that hold at every look.

        They rest on the probabilities with which arms were drawn. The log has them if the policy
        records them, as the default does, or if arms have floors. See docs/inference.md.

        Parameters
        ----------
        level
            The probability with which all intervals hold, at all looks: 0.8, 0.9, 0.95 or 0.99.
        stop_when_loss_below
            A rule to stop: `Results.stops` says whether shipping the leader is expected to cost
            less than this number per slot, in the unit of the totals. By default, the rule that the
            experiment was created with, if any.

        Raises
        ------
        ConflictError
            If the log has no probabilities, or there are more than 40 arms.
        """
        return find_results(self._log, level, stop_when_loss_below)

    def export(self, path: str | os.PathLike[str], *, form: ExportForm = "slots") -> None:
        """Write the history to a .csv or a .parquet file (needs the extra ``data``).

        Parameters
        ----------
        path
            The file.
        form
            ``slots`` is all that was recorded, a row per slot. ``mmm`` is for marketing mix models:
            date, total, and a column for each arm with 1 where it was played. ``clusters`` is for
            analyses of experiments in clusters: date, round, arm and total of each slot that has a
            total.
        """
        if Path(path).suffix.lower() == ".parquet":
            require_extra("data")
        target = check_writable(path, HISTORY_SUFFIXES)
        with self._log.reading() as (view, state), atomic_write(target) as draft:
            records = self._log.read_records(view, state, 0, state.next_slot)
            names = (*self.settings.covariates, *self.settings.guarded)
            suffix = target.suffix.lower()
            save_history(records, state.names, names, draft, suffix, form, self.settings.units)

    def verify(self) -> Verification:
        """Check every event, derive every decision again, and compare snapshot and log."""
        with self._log.storage.reading(self._log.record.id) as view:
            return verify_experiment(self._log.storage, self._log.record, self.settings, view)

    def end(self) -> Status:
        """End the experiment for good: from now on nothing is decided or recorded.

        Returns its final status. Ending it again changes nothing.
        """
        with self._log.writing() as (log, state):
            rules.end(log, state)
            return make_status(state)

    def read_log(self) -> AbstractContextManager[View]:
        """The log as it is now, to be read event by event; the hashes are not checked."""
        return self._log.view()
