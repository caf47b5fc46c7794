"""The results of a sweep: its cells and the studies that were stored for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aftereffect._core import html_table, import_optional, notation, text_table
from aftereffect.simulation import FINAL_HEADINGS, Study
from aftereffect.sweeps._cells import Cell

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True, eq=False, repr=False)
class SweepResults:
    r"""The cells of a sweep and the folder that holds their studies.

    Iterating gives each cell with its study, which is loaded when its turn comes. ``reused`` is the
    number of cells that an earlier run had finished.

    Examples
    --------
    >>> import pathlib
    >>> from aftereffect import Sweep
    >>> text = '[grid]\npolicy = "round-robin"\narms = [2, 3]\nhorizon = 100\nreplications = 1'
    >>> _ = pathlib.Path("sweep.toml").write_text(text)
    >>> results = Sweep.read("sweep.toml").play("results")
    >>> [study.arms for cell, study in results]
    [2, 3]
    """

    folder: Path
    cells: tuple[Cell, ...]
    reused: int

    def __repr__(self) -> str:
        return f"<SweepResults in {self.folder}: {len(self):,} cells, {self.reused:,} reused>"

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[tuple[Cell, Study]]:
        for cell in self.cells:
            yield cell, Study.load(cell.path(self.folder))

    def __str__(self) -> str:
        """Return a table with a row per cell: the settings that differ, and the final regret."""
        return text_table(self._rows(), left=1 + len(self._differing()))

    def _repr_html_(self) -> str:
        """Return the same table for notebooks."""
        return html_table(self._rows(), title=f"{len(self):,} cells in {self.folder}")

    def _differing(self) -> list[str]:
        """Return the keys, besides the policy, of which the cells have several values."""
        return [
            name
            for name in self.cells[0].settings
            if name != "policy" and len({str(cell.settings[name]) for cell in self.cells}) > 1
        ]

    def _rows(self) -> list[tuple[str, ...]]:
        differing = self._differing()
        rows = [(FINAL_HEADINGS[0], *differing, *FINAL_HEADINGS[1:])]
        for cell, study in self:
            rows += [
                (row[0], *(notation(cell.settings[name]) for name in differing), *row[1:])
                for row in study.final_rows()
            ]
        return rows

    def to_polars(self) -> "polars.DataFrame":
        """Return a table with a row per cell: parameters, settings, final regret, file name."""
        names = dict.fromkeys(name for cell in self.cells for name in cell.parameters)
        rows = [
            {
                **{name: cell.parameters.get(name) for name in names},
                **{
                    name: notation(value) if isinstance(value, tuple) else value
                    for name, value in cell.settings.items()
                },
                "policy": runs.label,
                "arms": study.arms,
                "horizon": study.horizon,
                "replications": study.replications,
                "seed": study.seed,
                "bandit": study.bandit_label,
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
            if not all(
                type(value) is float or (type(value) is int and abs(value) < 2**63)
                for value in values
            ):
                for row in rows:  # a column has one type
                    row[name] = None if row[name] is None else notation(row[name])
        frame: polars.DataFrame = import_optional("polars").DataFrame(
            rows, infer_schema_length=None
        )
        return frame
