"""The studies that stochastic figures and their claims rest on, with the arms in two orders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aftereffect.bandits import StochasticBandit
from aftereffect.reproduction._settings import Settings
from aftereffect.reproduction.chapters import StoredStudy
from aftereffect.reproduction.stochastic.claims import Evidence
from aftereffect.reproduction.stochastic.figures import RECOMMENDED, Policies, StochasticFigure


@dataclass(frozen=True)
class Order:
    """An order of the arms; no claim about a policy should depend on it."""

    name: str
    relabelled: bool

    @property
    def suffix(self) -> str:
        """The end of the names of its studies."""
        return "-relabelled" if self.relabelled else ""

    def bandit(self, figure: StochasticFigure) -> StochasticBandit:
        """A figure's bandit with its arms in this order."""
        given = figure.bandit
        if not self.relabelled:
            return given
        return StochasticBandit(given.means[::-1], given.delay, given.reward_law)

    def policies(self, figure: StochasticFigure) -> Policies:
        """The policies that play: all in the figure's own order, otherwise those with a claim."""
        return (*figure.variants, *figure.rivals) if self.relabelled else figure.policies


PAPER_ORDER = Order("Best arm first, as in the paper", relabelled=False)
ORDERS = (PAPER_ORDER, Order("Relabelled, worst arm first", relabelled=True))
EvidenceByOrder = Mapping[Order, Sequence[Evidence]]


def shown_study(figure: StochasticFigure, order: Order, settings: Settings) -> StoredStudy:
    """The study that a figure shows."""
    return StoredStudy(
        f"{figure.name}{order.suffix}",
        order.policies(figure),
        order.bandit(figure),
        settings.checkpoints,
        settings.replications,
        settings.seed,
        in_picture=not order.relabelled,
    )


def long_study(figure: StochasticFigure, order: Order, settings: Settings) -> StoredStudy:
    """A long study of the recommended policy alone, which shows how its regret grows."""
    return StoredStudy(
        f"{figure.name}-long{order.suffix}",
        (RECOMMENDED,),
        order.bandit(figure),
        settings.long_checkpoints,
        settings.replications,
        settings.seed,
    )


def list_studies(figure: StochasticFigure, settings: Settings) -> list[StoredStudy]:
    """All studies that a figure and the claims about its setting rest on."""
    kinds = (shown_study, long_study)
    return [make(figure, order, settings) for order in ORDERS for make in kinds]
