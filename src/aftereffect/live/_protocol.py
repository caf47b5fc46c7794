"""What a local experiment and one on a service have in common."""

import os
from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from aftereffect.lag import LagEstimate
from aftereffect.live.maintenance import Verification
from aftereffect.live.records import Decision, SlotRecord, TotalRecord
from aftereffect.live.status import Status


@runtime_checkable
class ExperimentLike(Protocol):
    """An experiment, wherever it runs: `Experiment` here, `RemoteExperiment` on a service.

    Code that is written for this type runs with both. The methods are described at `Experiment`.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> def play(experiment: ExperimentLike, slots: int) -> float:
    ...     for slot in range(slots):
    ...         experiment.tell(slot, len(experiment.ask(slot).arm))
    ...     return sum(record.total or 0 for record in experiment.history())
    >>> with Experiment.create(
    ...     "play", arms=["A", "BB"], policy="ucb1", reward_range=(0, 2), storage="memory://"
    ... ) as experiment:
    ...     play(experiment, 2)
    3.0
    """

    @property
    def name(self) -> str:
        """Its name."""

    def ask(self, slot: int | None = None, *, key: str | None = None) -> Decision:
        """Decide the next slot, or repeat the decision for a slot."""

    def tell(
        self,
        slot: int,
        total: float,
        *,
        arm: str | None = None,
        revise: bool = False,
        confirm: bool = False,
    ) -> TotalRecord:
        """Record the total of a slot."""

    def mark_missing(self, slot: int, *, revise: bool = False) -> TotalRecord:
        """Record that the total of a slot is lost."""

    def tell_many(
        self,
        totals: Mapping[int, float | None]
        | Iterable[tuple[int, float | None] | tuple[int, float | None, str | None]],
        *,
        revise: bool = False,
        confirm: bool = False,
    ) -> list[TotalRecord]:
        """Record many totals at once, all or none."""

    def skip(self, first: int, last: int | None = None) -> Status:
        """Record that nothing was decided for some slots, from the next one on."""

    def status(self) -> Status:
        """The status of the experiment, arm by arm, and its next decision."""

    def history(self, after: int = -1, limit: int | None = None) -> list[SlotRecord]:
        """The slots after one, at most so many."""

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the history into a .csv or a .parquet file."""

    def verify(self) -> Verification:
        """Check every event and derive every decision again."""

    def lag(self, *, level: float = 0.9) -> LagEstimate:
        """Estimate the lag from the totals."""

    def end(self) -> Status:
        """End the experiment for good."""

    def close(self) -> None:
        """Let go of what was opened for it; the experiment goes on."""

    def __enter__(self) -> "ExperimentLike": ...

    def __exit__(self, *_: object) -> None: ...
