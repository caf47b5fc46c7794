"""A study that the paper's figures and claims rest on, kept in a file of its own as soon as it is played."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aftereffect.environments import Environment
from aftereffect.outputs import make_folder
from aftereffect.policies import Policy
from aftereffect.simulation import Study
from aftereffect.simulation.crew import Crew
from aftereffect.simulation.plan import Plan, planned

PARTS = "parts"


@dataclass(frozen=True)
class Part:
    """One study to be played, and the name of its file."""

    name: str
    policies: tuple[Policy, ...]
    environment: Environment
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

    @property
    def plan(self) -> Plan:
        """What is to be played."""
        return planned(
            self.policies,
            self.environment,
            self.checkpoints[-1],
            self.replications,
            seed=self.seed,
            checkpoints=self.checkpoints,
        )

    def play(self, crew: Crew, progress: Callable[[int], None]) -> Study:
        """Play it."""
        return self.plan.play(crew, progress)

    def keep(self, study: Study, folder: Path) -> None:
        """Write its file, in place of one of other settings."""
        path = self.path(folder)
        make_folder(path.parent)
        study.save(path)

    def kept(self, folder: Path) -> Study | None:
        """The study as an earlier run left it; None if there is none, or one of other settings or other code."""
        return self.plan.kept(self.path(folder))
