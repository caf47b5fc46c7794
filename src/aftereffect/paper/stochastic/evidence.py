"""The studies that the stochastic figures and claims rest on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aftereffect.environments import StochasticBandit
from aftereffect.paper.part import Part
from aftereffect.paper.settings import Settings
from aftereffect.paper.stochastic.figures import RECOMMENDED, Figure, Policies
from aftereffect.simulation import Study


@dataclass(frozen=True)
class Order:
    """A way to number the arms; what an algorithm promises should not depend on it."""

    name: str
    relabelled: bool

    @property
    def suffix(self) -> str:
        """What the names of files have at their end."""
        return "-relabelled" if self.relabelled else ""

    def environment(self, figure: Figure) -> StochasticBandit:
        """A figure's world with its arms in this order."""
        given = figure.environment
        return StochasticBandit(given.means[::-1], given.spread, given.reward) if self.relabelled else given

    def policies(self, figure: Figure) -> Policies:
        """Who plays: all where it is drawn, else those that a claim is about."""
        return (*figure.ours, *figure.rivals) if self.relabelled else figure.policies


PAPER_ORDER = Order("Best arm first, as in the paper", relabelled=False)
ORDERS = (PAPER_ORDER, Order("Relabelled, worst arm first", relabelled=True))


def panel(figure: Figure, order: Order, settings: Settings) -> Part:
    """What a figure shows."""
    return Part(
        f"{figure.name}{order.suffix}",
        order.policies(figure),
        order.environment(figure),
        settings.checkpoints,
        settings.replications,
        settings.seed,
        drawn=not order.relabelled,
    )


def long_run(figure: Figure, order: Order, settings: Settings) -> Part:
    """What tells how regret grows with time: the recommended policy alone, for long."""
    return Part(
        f"{figure.name}-long{order.suffix}",
        (RECOMMENDED,),
        order.environment(figure),
        settings.long_checkpoints,
        settings.replications,
        settings.seed,
    )


def parts(figure: Figure, settings: Settings) -> list[Part]:
    """All that a figure and the claims about its setting rest on."""
    return [part(figure, order, settings) for order in ORDERS for part in (panel, long_run)]


@dataclass(frozen=True)
class Evidence:
    """What was found in one figure's setting, with the arms in one order: of what is drawn, only where it ends."""

    figure: Figure
    panel: Study
    long: Study


Found = Mapping[Order, Sequence[Evidence]]


def collected(figures: Iterable[Figure], settings: Settings, folder: Path) -> Found:
    """What a folder holds about those figures of which nothing is missing."""
    found: dict[Order, list[Evidence]] = {order: [] for order in ORDERS}
    for figure in figures:
        complete = [each for order in ORDERS if (each := _evidence(figure, order, settings, folder))]
        if len(complete) == len(ORDERS):
            for order, each in zip(ORDERS, complete, strict=True):
                found[order].append(each)
    return found


def _evidence(figure: Figure, order: Order, settings: Settings, folder: Path) -> Evidence | None:
    drawn, long = panel(figure, order, settings).kept(folder), long_run(figure, order, settings).kept(folder)
    return None if drawn is None or long is None else Evidence(figure, drawn.at_horizon(), long)
