"""Live experiments: ask which arm to play, and tell what was observed; a storage records both."""

import os
from collections.abc import Mapping, Sequence
from typing import Protocol, overload, runtime_checkable

from aftereffect._core import MAX_NAME_LENGTH
from aftereffect.inference import Results
from aftereffect.lag import LagEstimate
from aftereffect.live._arms import ArmChange, ArmState, read_arm_names
from aftereffect.live._history import MAX_LIVE_HISTORY, Past, read_pasts
from aftereffect.live._policy import DEFAULT_POLICY, DEFAULT_UNIT_POLICY
from aftereffect.live._reading import chain_start, check_log_end, read_events
from aftereffect.live._results import check_lag, check_results
from aftereffect.live._slot_clock import read_time
from aftereffect.live._slot_state import prepare_decide
from aftereffect.live._state import Difference, ExperimentState
from aftereffect.live._telling import MAX_KEY_LENGTH, check_key
from aftereffect.live._unit_state import make_state
from aftereffect.live._units import read_arms, read_unit_totals
from aftereffect.live.events import Event, Link, Snapshot, fingerprint, now
from aftereffect.live.experiment import Experiment, HistoryInput, PlanInput
from aftereffect.live.feeds import (
    FeedForm,
    FileReport,
    FolderFeed,
    find_form,
    leave_out_unplayed,
    read_totals_file,
    read_totals_query,
)
from aftereffect.live.hooks import CommandHook, Notice, Notifier, Webhook, sign
from aftereffect.live.maintenance import (
    LOG_SUFFIXES,
    Verification,
    check_absent,
    delete_experiment,
    export_log,
    find_record,
    read_last_hash,
    remove_exported,
)
from aftereffect.live.records import (
    HISTORY_SUFFIXES,
    Decision,
    ExportForm,
    Slot,
    SlotRecord,
    TotalInput,
    TotalRecord,
    TotalsInput,
    UnitTotals,
    lay_out_records,
    read_totals,
    save_history,
    write_csv,
)
from aftereffect.live.settings import (
    MAX_ARMS,
    MAX_LIVE_SLOTS,
    MAX_UNIT_LENGTH,
    MAX_UNITS,
    UNIT_COLUMN,
)
from aftereffect.live.status import ArmStatus, Status, UnitStatus, count_arms
from aftereffect.live.storage import (
    DEFAULT_STORAGE,
    Log,
    MemoryStorage,
    Record,
    Storage,
    TokenRecord,
    View,
    is_text,
    open_storage,
)

__all__ = [
    "DEFAULT_POLICY",
    "DEFAULT_STORAGE",
    "DEFAULT_UNIT_POLICY",
    "HISTORY_SUFFIXES",
    "LOG_SUFFIXES",
    "MAX_ARMS",
    "MAX_KEY_LENGTH",
    "MAX_LIVE_HISTORY",
    "MAX_LIVE_SLOTS",
    "MAX_NAME_LENGTH",
    "MAX_UNITS",
    "MAX_UNIT_LENGTH",
    "UNIT_COLUMN",
    "ArmChange",
    "ArmState",
    "ArmStatus",
    "CommandHook",
    "Decision",
    "Difference",
    "Event",
    "Experiment",
    "ExperimentLike",
    "ExperimentState",
    "ExportForm",
    "FeedForm",
    "FileReport",
    "FolderFeed",
    "HistoryInput",
    "Link",
    "Log",
    "MemoryStorage",
    "Notice",
    "Notifier",
    "Past",
    "PlanInput",
    "Record",
    "Slot",
    "SlotRecord",
    "Snapshot",
    "Status",
    "Storage",
    "TokenRecord",
    "TotalInput",
    "TotalRecord",
    "TotalsInput",
    "UnitStatus",
    "UnitTotals",
    "Verification",
    "View",
    "Webhook",
    "chain_start",
    "check_absent",
    "check_key",
    "check_lag",
    "check_log_end",
    "check_results",
    "count_arms",
    "delete_experiment",
    "export_log",
    "find_form",
    "find_record",
    "fingerprint",
    "is_text",
    "lay_out_records",
    "leave_out_unplayed",
    "make_state",
    "now",
    "open_storage",
    "prepare_decide",
    "read_arm_names",
    "read_arms",
    "read_events",
    "read_last_hash",
    "read_pasts",
    "read_time",
    "read_totals",
    "read_totals_file",
    "read_totals_query",
    "read_unit_totals",
    "remove_exported",
    "save_history",
    "sign",
    "write_csv",
]


@runtime_checkable
class ExperimentLike(Protocol):
    """An experiment, wherever it runs: `Experiment` here, `RemoteExperiment` on a service.

    Code that is written for this type runs with both. The methods are described at `Experiment`.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> def play(experiment: ExperimentLike) -> list[float | None]:
    ...     return [experiment.tell(slot, len(experiment.ask(slot).arm)).total for slot in (0, 1)]
    >>> settings = {"arms": ["A", "BB"], "policy": "ucb1", "reward_range": (0, 2)}
    >>> with Experiment.create("play", **settings, storage="memory://") as experiment:
    ...     play(experiment)
    [1.0, 2.0]
    """

    @property
    def name(self) -> str:
        """Its name."""

    def ask(self, slot: Slot | None = None, *, key: str | None = None) -> Decision:
        """Decide the next slot, or repeat the decision for a slot."""

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
        """Record the total of a slot; with several units, of one of them or of several."""

    def mark_missing(
        self,
        slot: Slot,
        *,
        unit: str | None = None,
        covariates: Mapping[str, float | None] | None = None,
        guardrails: Mapping[str, float | None] | None = None,
        revise: bool = False,
    ) -> TotalRecord:
        """Record that the total of a slot is lost."""

    def tell_many(
        self,
        totals: TotalsInput,
        *,
        revise: bool = False,
        confirm: bool = False,
        key: str | None = None,
    ) -> list[TotalRecord]:
        """Record many totals at once, all or none."""

    def skip(self, first: Slot, last: Slot | None = None) -> Status:
        """Record that nothing was decided for some slots, from the next one on."""

    def change_arms(
        self,
        *,
        add: str | Sequence[str] = (),
        pause: str | Sequence[str] = (),
        resume: str | Sequence[str] = (),
        retire: str | Sequence[str] = (),
    ) -> Status:
        """Add, pause, resume or retire arms, from the next slot on."""

    def status(self) -> Status:
        """The status of the experiment, arm by arm, and its next decision."""

    def history(self, after: int = -1, limit: int | None = None) -> list[SlotRecord]:
        """The slots after one, at most so many."""

    def export(self, path: str | os.PathLike[str], *, form: ExportForm = "slots") -> None:
        """Write the history into a .csv or a .parquet file, in the form that a tool reads."""

    def verify(self) -> Verification:
        """Check every event and derive every decision again."""

    def lag(self, *, level: float = 0.9) -> LagEstimate:
        """Estimate the lag from the totals."""

    def results(self, *, level: float = 0.95, stop_when_loss_below: float | None = None) -> Results:
        """The effect of each arm, with intervals that hold at every look."""

    def end(self) -> Status:
        """End the experiment for good."""

    def close(self) -> None:
        """Close what was opened for it; the experiment goes on."""

    def __enter__(self) -> "ExperimentLike": ...

    def __exit__(self, *_: object) -> None: ...
