"""Who won, by how much, and what it costs to stop now, as people and programs read it."""

import math
import os
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aftereffect._core import open_axes, save_figure, show_amount, text_table
from aftereffect.inference._course import PlannedCourse
from aftereffect.inference.guardrails import (
    GuardrailResults,
    describe_span,
    lay_out_guardrails,
)

if TYPE_CHECKING:
    import matplotlib.axes

#: Effects that have a sentence each; of more, only those that are shown have one.
_MAX_SENTENCES = 4
#: What follows "per", by the length of a slot.
_SLOT_WORDS = {"15min": "quarter of an hour", "1h": "hour", "1d": "day", "1w": "week"}
_FIGURE_SIZE = (8.0, 4.5)


class Effect(NamedTuple):
    """How much more an arm brings than another, in percent, and per slot in the unit of the totals.

    `low` and `high` are the ends of the interval: None where there is no end yet.

    Examples
    --------
    >>> effect = Effect("B", "A", percent=7.9, low=3.1, high=12.7, amount=4.0, amount_low=1.6,
    ...     amount_high=6.4)
    >>> effect.is_shown
    True
    >>> print(effect)
    B brings 7.9 % more than A (3.1 to 12.7 %).
    """

    arm: str
    versus: str
    percent: float
    low: float | None
    high: float | None
    amount: float
    amount_low: float | None
    amount_high: float | None

    @property
    def is_shown(self) -> bool:
        """Whether the interval excludes 0."""
        return (self.low is not None and self.low > 0) or (self.high is not None and self.high < 0)

    def __str__(self) -> str:
        """One sentence."""
        if self.is_shown:
            word = "more" if self.percent > 0 else "less"
            amount, span = f"{abs(self.percent):.1f} % {word}", describe_span(self.low, self.high)
            return f"{self.arm} brings {amount} than {self.versus} ({span} %)."
        if self.low is None and self.high is None:
            return f"Not yet: too little is known to compare {self.arm} with {self.versus}."
        less = "much less" if self.low is None else f"up to {-self.low:.1f} % less"
        more = "much more" if self.high is None else f"up to {self.high:.1f} % more"
        return f"Not yet: {self.arm} may bring {less} or {more} than {self.versus}."


class Look(NamedTuple):
    """The effects on the control as they were known after the first `slots` slots.

    `time` is when the last of these slots ended, if slots have times.

    Examples
    --------
    >>> Look(slots=0, effects=()).time is None
    True
    """

    slots: int
    effects: tuple[Effect, ...]
    time: str | None = None


class Results(NamedTuple):
    """What an experiment has shown so far.

    `effects` compare each arm with the control, and `leads` the leader with each other arm. With
    the probability `level`, all these intervals contain the true effects at every look.
    `probabilities` are those that each arm is the best. `loss` is what shipping the leader is
    expected to cost per slot, against shipping the best arm. `mean` is what the control brings per
    slot. `blocks` is the number of blocks that count, and `slots` the slots until the last of them
    settled.
    `history` has the effects on the control of earlier times. `unit` is the unit of the totals,
    and `slot_length` how long a slot lasts. The experiment may stop when the loss is below
    `stop_when_loss_below`: `stops` says whether it is. `guardrails` compare further totals, such as
    complaints; `stopped` are the arms that they have stopped. Arms may also be `paused`, or
    `retired`: then they are no candidates to ship. `obstacle` is a sentence that says why totals
    cannot be compared, if they cannot; then no block counts. `lost` is what the slots so far are
    expected to have lost, against always playing the best arm; None while nothing is known.
    `plan` is what the plan of the experiment promised, and `decided` the number of slots so far.

    Examples
    --------
    >>> import numpy as np
    >>> from aftereffect.inference import Trial, analyse
    >>> results = analyse(Trial(
    ...     totals=np.ones(4), played=np.zeros(4, int), starts=np.array([0]),
    ...     decided=np.array([0]), probabilities=np.array([[0.5, 0.5]]), places=np.zeros(4, int),
    ... ), ["A", "B"])
    >>> print(results.effects[0])
    Not yet: too little is known to compare B with A.
    >>> results.blocks, results.mean
    (0, 1.0)
    >>> results._replace(stop_when_loss_below=5.0).stops
    False
    """

    control: str
    leader: str
    level: float
    slots: int
    blocks: int
    mean: float
    effects: tuple[Effect, ...]
    leads: tuple[Effect, ...]
    probabilities: dict[str, float]
    loss: float
    history: tuple[Look, ...]
    unit: str | None = None
    slot_length: str | None = None
    stop_when_loss_below: float | None = None
    guardrails: tuple[GuardrailResults, ...] = ()
    stopped: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    obstacle: str | None = None
    lost: float | None = None
    plan: PlannedCourse | None = None
    decided: int = 0

    @property
    def stops(self) -> bool | None:
        """Whether the experiment may stop by its rule; None without one.

        It may not while an interval of the leader has no lower end: then too little is known, and
        the loss is small only because arms are assumed to differ little. Nor may it if the leader
        is stopped: then shipping it is no choice.
        """
        if self.stop_when_loss_below is None:
            return None
        is_known = all(effect.low is not None for effect in self.leads)
        return (
            is_known and self.leader not in self.stopped and self.loss < self.stop_when_loss_below
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has, with `stops` and the sentences."""
        return self._asdict() | {
            "effects": [effect._asdict() for effect in self.effects],
            "leads": [effect._asdict() for effect in self.leads],
            "history": [
                look._asdict() | {"effects": [effect._asdict() for effect in look.effects]}
                for look in self.history
            ],
            "guardrails": [
                found._asdict() | {"arms": [arm._asdict() for arm in found.arms]}
                for found in self.guardrails
            ],
            "stopped": list(self.stopped),
            "paused": list(self.paused),
            "retired": list(self.retired),
            "plan": self.plan and self.plan._asdict(),
            "planned": self.describe_plan(),
            "stops": self.stops,
            "sentences": self.describe(),
        }

    def describe(self) -> list[str]:
        """What is known, in a few sentences."""
        if self.blocks == 0:
            nothing = (
                "Not yet: the effects of the first rounds have not arrived, so nothing is known "
                "about the arms."
            )
            return [self.obstacle or nothing, *self.describe_rule(), *self.describe_plan()]
        leader = self.leader
        cost = f"Shipping {leader} now is expected to cost {self._name_loss()}"
        if all(effect.is_shown for effect in self.leads):
            first, cost = f"{leader} is the best arm.", f"{cost}."
        else:
            chance = show_chance(self.probabilities[leader])
            first = f"Not yet: which arm is best. {leader} leads, with a probability of {chance}."
            cost = f"{cost}, as another arm may be better."
        stopped = [
            f"{arm} is stopped: it showed harm{', so do not ship it' if arm == leader else ''}."
            for arm in self.stopped
        ]
        gone = [
            *(f"{arm} is paused: it may be resumed." for arm in self.paused),
            *(f"{arm} is retired: it is no candidate to ship." for arm in self.retired),
        ]
        said = [first, *self._describe_effects(), cost, *stopped, *gone, *self.describe_rule()]
        return [*said, *self.describe_plan(), *self.describe_lost()]

    def _describe_effects(self) -> list[str]:
        if len(self.effects) <= _MAX_SENTENCES:
            return [str(effect) for effect in self.effects]
        shown = [effect for effect in self.effects if effect.is_shown]
        others = len(self.effects) - len(shown)
        word = "arms differ" if others > 1 else "arm differs"
        rest = [f"Not yet: whether the other {others} {word} from {self.control}."]
        return [*map(str, shown), *(rest if others else [])]

    def describe_rule(self) -> list[str]:
        """What the rule to stop says, as one sentence; nothing without a rule."""
        limit = self.stop_when_loss_below
        if limit is None:
            return []
        amount = self._name_amount(limit)
        if self.stops:
            return [f"The rule says stop: the expected loss is below {amount}."]
        if self.leader in self.stopped:
            return [f"The rule says go on: {self.leader} leads, but is stopped."]
        if self.loss < limit:
            return ["The rule says go on: too little is known."]
        return [f"The rule says go on: the expected loss is not below {amount}."]

    def describe_plan(self) -> list[str]:
        """What the plan promised, and where the experiment is; nothing without a plan."""
        return [] if self.plan is None else self.plan.describe(self.decided, self.unit)

    def describe_lost(self) -> list[str]:
        """What the slots so far have lost, as one sentence; nothing without a plan."""
        if self.plan is None or self.lost is None:
            return []
        unit = f" {self.unit}" if self.unit else ""
        return [f"Lost so far, by what is known: {show_amount(self.lost)}{unit}."]

    def _name_loss(self) -> str:
        least = self.mean / 1_000
        if self.loss < least:
            return f"less than {self._name_amount(float(f'{least:.1g}'))}"
        return self._name_amount(self.loss)

    def _name_amount(self, amount: float) -> str:
        """An amount with its unit, and per slot."""
        unit = f" {self.unit}" if self.unit else ""
        return f"{show_amount(amount)}{unit} per {_SLOT_WORDS.get(self.slot_length or '', 'slot')}"

    def __str__(self) -> str:
        """A table of the effects, the sentences, and the same of the guardrails."""
        per_slot = f"{self.unit} per slot" if self.unit else "per slot"
        titles = ("arm", "against", "effect", "low", "high", per_slot, "low", "high", "best")
        rows: list[tuple[str, ...]] = [titles]
        for effect in self.effects:
            is_known = effect.low is not None or effect.high is not None
            numbers = effect[2:] if is_known else (None,) * 6
            percents = ("-" if each is None else f"{each:+.1f} %" for each in numbers[:3])
            amounts = (show_amount(each, "+") for each in numbers[3:])
            chance = show_chance(self.probabilities[effect.arm])
            rows.append((self._mark(effect.arm), effect.versus, *percents, *amounts, chance))
        level = f"{100 * self.level:g} %"
        note = (
            f"With a probability of {level}, all intervals contain the true effects, at every look"
        )
        guarded = lay_out_guardrails(self.guardrails)
        lines = [
            text_table(rows, left=2),
            f"{note}.",
            *self.describe(),
            *([guarded] if guarded else []),
        ]
        return "\n".join(lines)

    def _mark(self, arm: str) -> str:
        """The name of an arm, with what keeps it from being played."""
        marks = {"retired": self.retired, "stopped": self.stopped, "paused": self.paused}
        found = [mark for mark, arms in marks.items() if arm in arms]
        return f"{arm} ({found[0]})" if found else arm

    def plot(self, ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
        """Draw the interval of each arm against the control over time. Needs the extra ``plot``."""
        ax = open_axes(ax, _FIGURE_SIZE)
        is_timed = all(look.time is not None for look in self.history)
        # Times as they are on the wall: an axis has one offset from UTC only.
        at: list[Any] = [
            datetime.fromisoformat(look.time).replace(tzinfo=None) if look.time else look.slots
            for look in self.history
        ]
        ax.axhline(0, color="0.5", lw=1)
        least, most = self._find_range()
        for number, last in enumerate(self.effects):
            colour, rows = f"C{number % 10}", []
            for look in self.history:
                _, _, middle, low, high, *_ = look.effects[number]
                if low is None and high is None:  # nothing is known yet
                    rows.append((math.nan,) * 3)
                else:
                    rows.append(
                        (least if low is None else low, middle, most if high is None else high)
                    )
            lows, middles, highs = np.array(rows, np.float64).T
            ax.fill_between(at, lows, highs, step="post", color=colour, alpha=0.2, lw=0)
            name = f"{last.arm} against {last.versus}"
            ax.step(at, middles, where="post", color=colour, label=name)
        ax.set_ylim(least, most)
        if len(at) > 1:
            ax.set_xlim(at[0], at[-1])
        ax.set(xlabel="" if is_timed else "slots", ylabel="effect in %")
        title = f"Effects, with {100 * self.level:g} % intervals that hold at every look"
        ax.set_title(title, fontsize="medium")
        if is_timed:
            dates: Any = import_module("matplotlib.dates")
            locator = dates.AutoDateLocator()
            ax.xaxis.set_major_locator(locator)
            ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
        ax.legend(loc="best", frameon=False)
        return ax

    def _find_range(self) -> tuple[float, float]:
        """Percents that a picture shows: all that is known now, and most of what was before."""
        past = [effect for look in self.history for effect in look.effects]
        known = [each for each in past if each.low is not None or each.high is not None]
        numbers = [each for effect in known for each in effect[2:5] if each is not None]
        least, most = np.quantile([*numbers, 0.0], (0.05, 0.95))
        for effect in self.effects:
            given = [each for each in effect[2:5] if each is not None]
            least, most = min(least, 0, *given), max(most, 0, *given)
        margin = max(0.1 * float(most - least), 0.5)
        return float(least) - margin, float(most) + margin

    def save_plot(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file, in the format of its suffix. Needs the extra ``plot``."""
        save_figure(self.plot, _FIGURE_SIZE, path)


def show_chance(chance: float) -> str:
    """A probability in percent; one that is nearly 0 or 1 is not certain all the same.

    >>> show_chance(0.256), show_chance(0.9999)
    ('26 %', 'over 99 %')
    """
    return (
        "over 99 %" if chance > 0.99 else "under 1 %" if chance < 0.01 else f"{100 * chance:.0f} %"
    )
