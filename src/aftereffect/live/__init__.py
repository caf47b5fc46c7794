"""Live experiments: ask which arm to play, tell what came, in a storage that survives."""

from aftereffect.live.deletion import delete_experiment
from aftereffect.live.experiment import Experiment
from aftereffect.live.history import Line
from aftereffect.live.rules import Outcome, Slot
from aftereffect.live.status import ArmStatus, Next, Status
from aftereffect.live.storage import DEFAULT_STORAGE, Storage, open_storage
from aftereffect.live.verification import Verification

__all__ = [
    "DEFAULT_STORAGE",
    "ArmStatus",
    "Experiment",
    "Line",
    "Next",
    "Outcome",
    "Slot",
    "Status",
    "Storage",
    "Verification",
    "delete_experiment",
    "open_storage",
]
