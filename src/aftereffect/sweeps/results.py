"""What a sweep leaves: a folder with a Parquet file for each cell."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aftereffect.columns import aligned
from aftereffect.extras import imported
from aftereffect.simulation import Study
from aftereffect.simulation.study import FINAL_HEADINGS
from aftereffect.spec import notation
from aftereffect.sweeps.cells import Cell

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True, eq=False, repr=False)
class SweepResults:
    """The cells of a sweep and the folder that holds their studies.

    Iterating gives each cell with its study, read when its turn comes. ``found`` is how many of them were there before.
    """

    folder: Path
    cells: tuple[Cell, ...]
    found: int

    def __repr__(self) -> str:
        return f"<SweepResults in {self.folder}: {len(self):,} cells>"

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[tuple[Cell, Study]]:
        for cell in self.cells:
            yield cell, Study.load(cell.path(self.folder))

    def __str__(self) -> str:
        """A table with a row per cell: in what they differ, and the regret at the horizon."""
        words = [name for name in self.cells[0].words if len({str(cell.words[name]) for cell in self.cells}) > 1]
        differing = [name for name in words if name != "policy"]
        rows = [(FINAL_HEADINGS[0], *differing, *FINAL_HEADINGS[1:])]
        for cell, study in self:
            rows += [(row[0], *(notation(cell.words[name]) for name in differing), *row[1:]) for row in study.final_rows()]
        return aligned(rows, left=1 + len(differing))

    def to_polars(self) -> "polars.DataFrame":
        """One row per cell: its parameters, what was played, the regret at the horizon, the name of its file."""
        names = dict.fromkeys(name for cell in self.cells for name in cell.parameters)
        rows = [
            {
                **{name: cell.parameters.get(name) for name in names},
                **{name: notation(value) if isinstance(value, tuple) else value for name, value in cell.words.items()},
                "policy": runs.label,
                "arms": study.environment.arms,
                "horizon": study.horizon,
                "replications": study.replications,
                "seed": study.seed,
                "environment": str(study.environment),
                "regret_mean": float(runs.mean[-1]),
                "regret_sem": None if runs.sem is None else float(runs.sem[-1]),
                "regret_p95": float(runs.p95[-1]),
                "rounds_mean": float(runs.rounds.mean()),
                "seconds": runs.seconds,
                "part": cell.path(self.folder).name,
            }
            for cell, study in self
            for runs in study
        ]
        for name in names:
            values = [row[name] for row in rows if row[name] is not None]
            if not all(type(value) is float or (type(value) is int and abs(value) < 2**63) for value in values):
                for row in rows:  # a column has one type
                    row[name] = None if row[name] is None else notation(row[name])
        frame: polars.DataFrame = imported("polars").DataFrame(rows, infer_schema_length=None)
        return frame
