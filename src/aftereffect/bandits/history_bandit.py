"""The bandit whose arms multiply a demand that was recorded."""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import Calendar, Matrix, Memory, Vector, check_flag, check_int, register
from aftereffect.bandits._defects import Defects
from aftereffect.bandits._demand import DemandBandit
from aftereffect.bandits._demand_kernels import BASE, NUMBERS, ORIGIN, DemandWorld, FillBase
from aftereffect.bandits.base import EngineName
from aftereffect.delays import Delay, Immediate
from aftereffect.errors import ParameterError
from aftereffect.rewards import (
    MAX_HISTORY,
    SLOT_LENGTHS,
    History,
    RecordedTotals,
    SlotName,
    as_history,
    check_covariates,
    read_history,
)


class Windows(NamedTuple):
    """A series, and the slots at which runs may begin: `choices` of them, `step` apart."""

    series: Vector
    first: int
    step: int
    choices: int


@register
@dataclass(frozen=True)
class HistoryBandit(DemandBandit):
    """A recorded past with lifts put in: what policies would have lost on your own totals.

    The recorded totals are the demand. An arm with a lift of .05 multiplies it by 1.05. The delay
    spreads what it brings over later slots. Before the first slot, the first arm was played.

    The regret is the lost share in percent: the difference between what the best arm would have
    brought by the horizon and what the pulled arms brought, divided by the former. Totals are
    divided by the largest reward that a pull of the run could bring.

    Parameters
    ----------
    history
        The path of a .csv or .csv.gz file with the columns time and total, or a list of totals that
        begins on a Monday. Holes are filled by straight lines.
    lifts
        How much more than the recorded demand each arm brings, such as 0, .05 and .1.
    delay
        When a reward arrives. It arrives in the expected shares, also where its lag is random.
    slot
        The length of a slot: 15min, 1h, 1d or 1w.
    start
        The number of the slot of the history with which runs begin. By default each replication
        begins on a Monday, drawn at random.
    weeks_before
        How many weeks before that policies may see.
    shuffle
        Whether each replication puts the arms into a random order.
    feed
        What is wrong with the totals that policies get, and with the demand.
    history_delayed
        By default, the weeks before show the recorded totals times the multiplier of the first arm.
        If true, the delay is applied to them as well, as if it had always been there.
    covariates
        The names of further columns of the file, such as temperature: numbers that policies get
        with each slot. An empty cell is not known.

    Examples
    --------
    >>> import aftereffect as ae
    >>> week = [60, 80, 90, 100, 120, 150, 70]
    >>> bandit = HistoryBandit(week * 60, lifts=[0, .1, .25], slot="1d")
    >>> study = ae.simulate("round-robin", bandit, horizon=210, replications=8, seed=1)
    >>> round(float(study[0].final.mean()), 1)  # (.25 + .15 + 0) / 3 / 1.25
    10.7
    """

    history: str | RecordedTotals
    lifts: tuple[float, ...]
    delay: Delay = Immediate()
    slot: SlotName = "1h"
    start: int | None = None
    weeks_before: int = 8
    shuffle: bool = True
    feed: Defects = Defects()
    history_delayed: bool = False
    covariates: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._check_shared()
        if isinstance(self.history, str):
            if not self.history or '"' in self.history or not self.history.isprintable():
                raise ParameterError(
                    f"history must be a path without quotes and line breaks, got {self.history!r}"
                )
            if self.history.replace("-", "_").isidentifier():  # could be read as a name
                self._set(history=f"./{self.history}")
        else:
            self._set(history=as_history(self.history))
        self._set(history_delayed=check_flag("history_delayed", self.history_delayed))
        if self.covariates is not None:
            self._set(covariates=check_covariates(self.covariates))
            if not isinstance(self.history, str):
                raise ParameterError("covariates are columns of a file: give history as its path")
        if self.start is not None:
            self._set(start=check_int("start", self.start, at_most=MAX_HISTORY))

    @property
    def has_delayed_history(self) -> bool:
        return self.history_delayed

    @property
    def calendar(self) -> Calendar:
        calendar = Calendar(SLOT_LENGTHS[self.slot][1])
        if self.start is None:
            return calendar
        first = (self._series.first + self.start) % calendar.slots_per_week
        return Calendar(calendar.slots_per_day, first)

    @property
    def covariate_count(self) -> int:
        return len(self.covariates or ())

    @property
    def data_digest(self) -> str:
        if not isinstance(self.history, str):  # then its label has one
            return ""
        series = self._series
        given = series.totals.tobytes() + series.covariates.tobytes()
        return hashlib.sha256(given).hexdigest()[:12]

    def check(self, engine: EngineName, horizon: int) -> None:
        super().check(engine, horizon)
        self._windows(horizon)

    @property
    def _series(self) -> History:
        if isinstance(self.history, str):
            return read_history(self.history, self.slot, self.covariates or ())
        return self.history.history

    def _windows(self, horizon: int) -> Windows:
        series, place, _ = self._series
        week = Calendar(SLOT_LENGTHS[self.slot][1]).slots_per_week
        last = len(series) - horizon
        if self.start is not None:
            windows = Windows(series, self.start, 1, int(self._lead <= self.start <= last))
        else:
            first = self._lead + (-(self._lead + place)) % week
            windows = Windows(series, first, week, (last - first) // week + 1)
        if windows.choices < 1:
            begins = "a Monday" if self.start is None else f"slot {self.start:,}"
            raise ParameterError(
                f"history must have {self._lead:,} slots before {begins} and {horizon:,} from it "
                f"on, got {len(series):,} in all: choose a shorter horizon, fewer weeks_before, "
                "another start or a longer history"
            )
        return windows

    def _source(self, horizon: int) -> tuple[FillBase, Any]:
        return copy_window, self._windows(horizon)

    def _covariates(self, horizon: int) -> Matrix:
        return self._series.covariates


def copy_window(memory: Memory, world: DemandWorld, rng: np.random.Generator) -> None:
    """Draw where a run begins in the series, and copy it from there."""
    windows = world.source
    begin = windows.first
    if windows.choices > 1:
        begin += windows.step * int(rng.random() * windows.choices)
    memory[NUMBERS, ORIGIN] = begin - world.lead
    for place in range(world.lead + world.horizon):
        memory[BASE, place] = windows.series[begin - world.lead + place]
