"""The studies that the figures and the claims rest on, each kept in a file of its own as soon as it is played."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aftereffect.environments import StochasticBandit
from aftereffect.errors import InputError
from aftereffect.outputs import make_folder
from aftereffect.paper.figures import RECOMMENDED, Figure, Policies
from aftereffect.paper.settings import Settings
from aftereffect.provenance import made_by
from aftereffect.simulation import Study, simulate

PARTS = "parts"


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


@dataclass(frozen=True)
class Part:
    """One study to be played, and the name of its file."""

    name: str
    policies: Policies
    environment: StochasticBandit
    checkpoints: tuple[int, ...]
    replications: int
    seed: int
    #: Whether the figure shows it.
    drawn: bool = False

    def path(self, folder: Path) -> Path:
        """Where it is kept."""
        return folder / PARTS / f"{self.name}.parquet"

    @property
    def steps(self) -> int:
        """Replications in all."""
        return self.replications * len(self.policies)

    def play(self, jobs: int | None, progress: Callable[[int], None] | None) -> Study:
        """Play it."""
        return simulate(
            self.policies,
            self.environment,
            self.checkpoints[-1],
            self.replications,
            seed=self.seed,
            checkpoints=self.checkpoints,
            jobs=jobs,
            progress=progress,
        )

    def keep(self, study: Study, folder: Path) -> None:
        """Write its file, in place of one of other settings."""
        path = self.path(folder)
        make_folder(path.parent)
        study.save(path)

    def kept(self, folder: Path) -> Study | None:
        """The study as an earlier run left it; None if there is none, or one of other settings or other code."""
        path = self.path(folder)
        if not path.is_file():
            return None
        try:
            study = Study.load(path)
        except InputError:  # cut short, or something else of that name
            return None
        wanted = (
            self.environment,
            self.checkpoints,
            self.replications,
            self.seed,
            made_by(),
            [policy.told(self.environment.knowledge) for policy in self.policies],
        )
        found = (
            study.environment,
            study.checkpoints,
            study.replications,
            study.seed,
            study.made_by,
            [runs.policy for runs in study],
        )
        return study if found == wanted else None


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
    """What was found in one figure's setting, with the arms in one order."""

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
    return None if drawn is None or long is None else Evidence(figure, drawn, long)
