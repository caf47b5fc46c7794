"""A study that the paper's figures and claims rest on, kept in a file of its own as soon as it is played."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aftereffect.environments import Environment
from aftereffect.errors import InputError
from aftereffect.outputs import make_folder
from aftereffect.policies import Policy
from aftereffect.provenance import made_by
from aftereffect.simulation import Study, simulate

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
            str(self.environment),
            self.checkpoints,
            self.replications,
            self.seed,
            made_by(),
            [str(policy.told(self.environment.knowledge)) for policy in self.policies],
        )
        found = (
            str(study.environment),
            study.checkpoints,
            study.replications,
            study.seed,
            study.made_by,
            [runs.label for runs in study],
        )
        return study if found == wanted else None
