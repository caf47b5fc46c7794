"""A plan: what was asked, what the history is like, what designs promise, and what to do."""

import hashlib
import html
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aftereffect._core import (
    Calendar,
    __version__,
    atomic_write,
    check_writable,
    html_table,
    short_repr,
    show_amount,
    text_table,
)
from aftereffect.errors import InputError, ParameterError
from aftereffect.inference import PlannedCourse
from aftereffect.planning._history import Description
from aftereffect.planning._promises import Estimate, Promise
from aftereffect.planning._worlds import POWER_LIFTS
from aftereffect.rewards import SLOT_LENGTHS, SlotName

if TYPE_CHECKING:
    import matplotlib.figure

#: The format of files.
_FORMAT = 1
#: Weeks in which what is shipped must repay what the experiment costs.
_PAYBACK_WEEKS = 52
#: A gain must be so many standard errors above 0.
_CLEAR = 2.0
_SUFFIXES = (".json", ".html")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Plan:
    """What candidate designs would bring on worlds that are made of a history.

    Attributes
    ----------
    slot, weeks, arms, lift, lag, seed
        What was asked: the length of a slot, how long the experiment lasts, the number of arms, the
        first and last lift of the best arm but the control, those of the lag in slots, and the
        seed.
    stop_when_loss_below
        The limit of the stop rule, per slot.
    unit
        The unit of the totals.
    source
        The name of the file of the history.
    history
        What the history is like.
    promises
        What each design promises.
    is_rough
        Whether these are first figures, of a few worlds.
    saved_as
        The .json file that it was saved to, or loaded from.

    Examples
    --------
    >>> import aftereffect as ae
    >>> week = [60, 80, 90, 100, 120, 150, 70]
    >>> history = [total * (1 + (day * 7919 % 13) / 100) for day, total in enumerate(week * 12)]
    >>> plan = ae.plan(history, slot="1d", arms=2, lift="10%", weeks=12, runs=8, seed=1,
    ...     designs=["fixed-switchback(block=1, blocks_per_arm=14)"], jobs=1)
    >>> plan.recommended.best.mean
    1.0
    """

    slot: SlotName
    weeks: int
    arms: int
    lift: tuple[float, float]
    lag: tuple[float, float]
    seed: int
    stop_when_loss_below: float
    unit: str | None
    source: str | None
    history: Description
    promises: tuple[Promise, ...]
    is_rough: bool = False
    saved_as: str | None = None

    @property
    def recommended(self) -> Promise:
        """The design with the smallest expected loss."""
        return min(self.promises, key=lambda promise: promise.loss.mean)

    @property
    def slots_per_week(self) -> int:
        """The number of slots of a week."""
        return Calendar(SLOT_LENGTHS[self.slot][1]).slots_per_week

    @property
    def digest(self) -> str:
        """A digest of all that the plan says."""
        text = json.dumps(self._to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def warning(self) -> str | None:
        """Why nobody should run even the best design; None if it is worth it."""
        promise = self.recommended
        yearly = promise.gain.mean + _PAYBACK_WEEKS * promise.after.mean
        error = promise.gain.error + _PAYBACK_WEEKS * promise.after.error
        if yearly <= _CLEAR * error:
            return (
                f"Do not run this experiment, because within a year it is not expected to bring "
                f"more than doing nothing: {self._name(promise.gain)} in {self.weeks} weeks, then "
                f"{self._name(promise.after)} per week."
            )
        if promise.best.mean - _CLEAR * promise.best.error <= 1 / self.arms:
            return (
                f"Do not run this experiment, because {self.weeks} weeks are too short to tell the "
                f"arms apart: it would ship the best of {self.arms} arms in only "
                f"{_percent(promise.best)} of cases, which is no better than a guess."
            )
        return None

    def recommend(self) -> list[str]:
        """What to do, in a few sentences."""
        promise, warning = self.recommended, self.warning
        if warning is not None:
            return [warning, *self._name_smallest(promise)]
        weekly = f"{self._name(promise.after)} per week"
        sentences = [
            f"Run {promise.design} for {self.weeks} weeks.",
            f"It is expected to lose {self._name(promise.loss)} against always playing the best "
            f"arm, and to bring {self._name(promise.gain)} more than doing nothing; "
            f"afterwards {weekly}.",
            f"It ships the best arm in {_percent(promise.best)} of cases, and one that is worse "
            f"than the control in {_percent(promise.worse)}.",
        ]
        if promise.end_median is None:
            sentences.append(
                f"Do not wait for proof: the rule stops within {self.weeks} weeks in only "
                f"{_percent(promise.ends)} of cases."
            )
        else:
            late = (
                f"later than after {self.weeks} weeks"
                if promise.end_late is None
                else f"after {self._show_slots(promise.end_late)} at the latest"
            )
            sentences.append(
                f"It ends after {self._show_slots(promise.end_median)} (median), and in nine of "
                f"ten cases {late}."
            )
        return [*sentences, *self._name_smallest(promise)]

    def _name_smallest(self, promise: Promise) -> list[str]:
        if not promise.smallest:
            return []
        weeks, smallest = list(promise.smallest.items())[-1]
        if smallest is None:
            most = f"{100 * POWER_LIFTS[1]:.0f} %"
            return [f"Not even a lift of {most} is found nine times of ten within {weeks} weeks."]
        share = f"{100 * smallest.mean:.1f} %"
        return [f"The smallest lift found nine times of ten within {weeks} weeks is {share}."]

    @property
    def command(self) -> str:
        """The command that creates the recommended experiment."""
        arms = ",".join(chr(ord("A") + arm) for arm in range(self.arms))
        parts = [f"aftereffect create NAME --arms {arms} --slot {self.slot}"]
        if self.source is not None:
            parts.append(f"--history {shlex.quote(self.source)}")
        parts.append(f"--control A --policy '{self.recommended.design}'")
        parts.append(f"--stop-when-loss-below {self.stop_when_loss_below:.3g}")
        if self.unit is not None:
            parts.append(f"--unit {shlex.quote(self.unit)}")
        if self.saved_as is not None:
            parts.append(f"--plan {shlex.quote(self.saved_as)}")
        return " ".join(parts)

    def promise_courses(self) -> tuple[PlannedCourse, ...]:
        """What an experiment remembers of the plan, by design: see `Experiment.create`."""
        return tuple(
            PlannedCourse(
                promise.design,
                self.slot,
                self.arms,
                self.weeks * self.slots_per_week,
                promise.loss.mean,
                promise.loss_low,
                promise.loss_high,
                promise.end_median,
                promise.end_low,
                promise.end_high,
                self.seed,
                __version__,
                self.digest,
            )
            for promise in self.promises
        )

    def __repr__(self) -> str:
        return f"<Plan of {len(self.promises)} designs for {self.weeks} weeks, {self.digest}>"

    def __str__(self) -> str:
        """The history, a table of the designs, and what to do."""
        return "\n".join(self._write())

    def _write(self) -> Iterator[str]:
        yield f"History: {self.history}"
        yield ""
        yield self.question
        yield ""
        yield text_table(self.rows())
        yield ""
        if any(promise.smallest for promise in self.promises):
            yield text_table(self.power_rows())
            yield ""
        yield from self.recommend()
        if self.warning is None:
            yield self.command

    @property
    def question(self) -> str:
        """What was asked, in a few words."""
        lift, lag = _show_range(*(100 * end for end in self.lift)), _show_range(*self.lag)
        rough = "Rough figures, of few worlds. " if self.is_rough else ""
        worlds = _show_range(*(end(each.worlds for each in self.promises) for end in (min, max)))
        return (
            f"{rough}{self.arms} arms, lift {lift} %, lag {lag} slots, {self.weeks} weeks; "
            f"{worlds} worlds, seed {self.seed}. After ± is a Monte Carlo error. The rule stops "
            f"when the expected loss is below {self._amount(self.stop_when_loss_below)} per slot."
        )

    def rows(self) -> list[tuple[str, ...]]:
        """A table of the designs, with its headings."""
        unit = f", {self.unit}" if self.unit else ""
        rows: list[tuple[str, ...]] = [
            (
                *("design", f"loss{unit}", "9 of 10 from", "to", f"gain over nothing{unit}"),
                *("ends", "median", "9 of 10", "ships best", "ships worse"),
            )
        ]
        for promise in self.promises:
            rows.append(
                (
                    promise.design,
                    str(promise.loss),
                    f"{promise.loss_low:,.0f}",
                    f"{promise.loss_high:,.0f}",
                    str(promise.gain),
                    _percent(promise.ends),
                    self._show_slots(promise.end_median),
                    self._show_slots(promise.end_late),
                    _percent(promise.best),
                    _percent(promise.worse),
                )
            )
        return rows

    def power_rows(self) -> list[tuple[str, ...]]:
        """A table of the smallest lifts that are found nine times of ten, with its headings."""
        weeks = next(promise.smallest for promise in self.promises if promise.smallest)
        rows: list[tuple[str, ...]] = [
            ("smallest lift found 9 of 10", *(f"{each} weeks" for each in weeks))
        ]
        for promise in self.promises:
            cells = (
                f"over {100 * POWER_LIFTS[1]:.0f} %"
                if each is None
                else f"{100 * each.mean:.1f} ± {100 * each.error:.1f} %"
                for each in (promise.smallest.get(name) for name in weeks)
            )
            rows.append((promise.design, *cells))
        return rows

    def _name(self, amount: Estimate) -> str:
        return f"{amount}{f' {self.unit}' if self.unit else ''}"

    def _amount(self, amount: float) -> str:
        return f"{show_amount(amount)}{f' {self.unit}' if self.unit else ''}"

    def _show_slots(self, slots: int | None) -> str:
        """A number of slots as days or weeks."""
        if slots is None:
            return "later"
        days = 7 * slots / self.slots_per_week
        return f"{days:.0f} days" if days < 70 else f"{days / 7:.0f} weeks"

    def lay_out(self) -> dict[str, Any]:
        """Its texts and tables, in types that JSON has, for pages that show it."""
        tables = [{"title": self.question, "rows": self.rows()}]
        if any(promise.smallest for promise in self.promises):
            tables.append({"title": "Within so many weeks", "rows": self.power_rows()})
        return {
            "digest": self.digest,
            "sentences": self.recommend(),
            "command": None if self.warning else self.command,
            "history": str(self.history).splitlines(),
            "tables": tables,
        }

    def _repr_html_(self) -> str:
        """The tables and the recommendation for notebooks."""
        shown = self.lay_out()
        sentences = " ".join(html.escape(sentence) for sentence in shown["sentences"])
        tables = "".join(html_table(each["rows"], title=each["title"]) for each in shown["tables"])
        return f"{tables}<p>{sentences}</p>"

    def to_dict(self) -> dict[str, Any]:
        """All of it, in types that JSON has, with the recommendation."""
        return self._to_dict() | {
            "made_by": __version__,
            "digest": self.digest,
            "recommended": self.recommended.design,
            "warning": self.warning,
            "sentences": self.recommend(),
            "command": None if self.warning else self.command,
        }

    def _to_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self._list_fields()}
        return fields | {
            "format": _FORMAT,
            "history": self.history._asdict(),
            "promises": [promise._asdict() for promise in self.promises],
        }

    @classmethod
    def _list_fields(cls) -> list[str]:
        """The fields that files have: all but where the file is."""
        return [name for name in cls.__dataclass_fields__ if name != "saved_as"]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a .json file that `Plan.load` reads, or an .html report (extra ``plot``)."""
        target = check_writable(path, _SUFFIXES)
        if target.suffix.lower() == ".html":
            from aftereffect.planning._report import write_html

            text = write_html(self)
        else:
            # Its command names the file, from which the experiment takes the promise.
            object.__setattr__(self, "saved_as", os.fspath(path))
            text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        with atomic_write(target) as draft:
            draft.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Plan":
        """Read a plan that was saved as .json."""
        source = Path(path)
        try:
            given = json.loads(source.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot read {source}: {error.strerror}") from None
        except (UnicodeDecodeError, ValueError):
            raise InputError(f"cannot read {source}: it is not JSON, as plans are saved") from None
        try:
            return replace(cls.from_dict(given), saved_as=os.fspath(path))
        except (KeyError, TypeError, ValueError, AttributeError, ParameterError):
            raise InputError(
                f"{source} must be a plan that this version has saved, got "
                f"{short_repr(given)}: plan again"
            ) from None

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> "Plan":
        """Make a plan from what `to_dict` gives."""
        if given["format"] != _FORMAT:
            raise ParameterError(f"format must be {_FORMAT}, got {given['format']!r}")
        known = {name: given[name] for name in cls._list_fields()}
        history: dict[str, Any] = {
            name: tuple(value) if name.endswith(("_hour", "_day")) and value else value
            for name, value in known["history"].items()
        }
        plan = cls(
            **known
            | {
                "lift": tuple(known["lift"]),
                "lag": tuple(known["lag"]),
                "history": Description(**history),
                "promises": tuple(map(Promise.from_dict, known["promises"])),
            }
        )
        if plan.digest != given["digest"]:
            raise ParameterError("the digest does not fit")
        return plan

    def plot(self) -> "matplotlib.figure.Figure":
        """Draw the history, and what the designs promise. Needs the extra ``plot``."""
        from aftereffect.planning._report import draw

        return draw(self)


def _percent(share: Estimate) -> str:
    return f"{100 * share.mean:.0f} ± {100 * share.error:.0f} %"


def _show_range(first: float, last: float) -> str:
    return f"{first:g}" if first == last else f"{first:g} to {last:g}"
