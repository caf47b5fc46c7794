"""Write the pictures of a figure."""

from pathlib import Path

from aftereffect.paper.figures import Figure
from aftereffect.paper.looks import LOOKS
from aftereffect.simulation import Study
from aftereffect.simulation.plotting import save_picture


def draw(figure: Figure, study: Study, folder: Path) -> list[Path]:
    """Write ``figure-N.png`` and ``figure-N.svg`` into a folder, made if need be; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    title = f"Figure {figure.number}: {figure.caption}\n{study.replications:,} replications, 95 % bands of the mean"
    paths = [folder / f"figure-{figure.number}{suffix}" for suffix in (".png", ".svg")]
    for path in paths:
        save_picture(study, path, title, [LOOKS[policy] for policy in figure.policies])
    return paths
