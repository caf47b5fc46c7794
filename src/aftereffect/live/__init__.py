"""Live experiments: ask which arm to play, tell what was observed, in a storage that survives."""

from aftereffect.live._protocol import ExperimentLike
from aftereffect.live._reading import chain_start, check_log_end, read_events
from aftereffect.live._rules import MAX_KEY_LENGTH, check_key
from aftereffect.live._state import Difference, ExperimentState
from aftereffect.live.events import Event, Link, Snapshot, fingerprint, now
from aftereffect.live.experiment import Experiment
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
    SlotRecord,
    TotalInput,
    TotalRecord,
    read_totals,
    write_csv,
)
from aftereffect.live.settings import MAX_ARMS, MAX_LIVE_SLOTS, MAX_NAME_LENGTH
from aftereffect.live.status import ArmStatus, Status
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
    "DEFAULT_STORAGE",
    "HISTORY_SUFFIXES",
    "LOG_SUFFIXES",
    "MAX_ARMS",
    "MAX_KEY_LENGTH",
    "MAX_LIVE_SLOTS",
    "MAX_NAME_LENGTH",
    "ArmStatus",
    "Decision",
    "Difference",
    "Event",
    "Experiment",
    "ExperimentLike",
    "ExperimentState",
    "Link",
    "Log",
    "MemoryStorage",
    "Record",
    "SlotRecord",
    "Snapshot",
    "Status",
    "Storage",
    "TokenRecord",
    "TotalInput",
    "TotalRecord",
    "Verification",
    "View",
    "chain_start",
    "check_absent",
    "check_key",
    "check_log_end",
    "delete_experiment",
    "export_log",
    "find_record",
    "fingerprint",
    "is_text",
    "now",
    "open_storage",
    "read_events",
    "read_last_hash",
    "read_totals",
    "remove_exported",
    "write_csv",
]
