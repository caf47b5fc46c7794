"""``aftereffect paper``."""

from pathlib import Path

from aftereffect.checks import whole
from aftereffect.cli.progress import progress_bar
from aftereffect.cli.values import Number, Numbers
from aftereffect.errors import ParameterError
from aftereffect.extras import require
from aftereffect.outputs import creatable_folder
from aftereffect.paper import FIGURES, draw
from aftereffect.paper.figures import DEFAULT_SIZE, QUICK_SIZE, SEED
from aftereffect.simulation import simulate


def paper(
    *,
    figure: Numbers | None = None,
    out: Path = Path("paper"),
    quick: bool = False,
    horizon: Number | None = None,
    replications: Number | None = None,
    seed: Number = SEED,
    jobs: Number | None = None,
) -> None:
    """Draw the paper's figures.

    Parameters
    ----------
    figure
        Which ones, by the paper's numbers, with commas: 14,15. All that there are by default (aftereffect list figures).
    out
        The folder for the pictures; made if it does not exist.
    quick
        Shorter and fewer runs, for a first look.
    horizon
        Slots per replication; 1e5 by default, 1e4 with --quick.
    replications
        Runs of each policy; 200 by default, 50 with --quick.
    seed
        The same seed gives the same pictures.
    jobs
        Threads; all cores by default.
    """
    require("matplotlib")
    unknown = [number for number in figure or () if number not in FIGURES]
    if unknown:
        raise ParameterError(f"there is no figure {unknown[0]:g}; known: {', '.join(map(str, FIGURES))}")
    chosen = [FIGURES[int(number)] for number in dict.fromkeys(figure or FIGURES)]
    default_horizon, default_replications = QUICK_SIZE if quick else DEFAULT_SIZE
    slots = default_horizon if horizon is None else horizon
    runs = default_replications if replications is None else whole("replications", replications, at_least=1)
    folder = creatable_folder(out)
    steps = runs * sum(len(each.policies) for each in chosen)
    with progress_bar("drawing", steps) as progress:
        for each in chosen:
            study = simulate(each.policies, each.environment, slots, runs, seed=seed, jobs=jobs, progress=progress)
            for path in draw(each, study, folder):
                print(path)
