"""Both halves of the paper."""

from collections.abc import Iterable
from typing import Any

from aftereffect.errors import ParameterError
from aftereffect.paper.adversarial.half import AdversarialHalf
from aftereffect.paper.half import Figure, Half
from aftereffect.paper.stochastic.half import StochasticHalf

HALVES: tuple[Half[Any], ...] = (StochasticHalf(), AdversarialHalf())
#: Every figure, and the half that it belongs to, by the paper's numbers.
FIGURES: dict[int, Figure] = dict(sorted((number, figure) for half in HALVES for number, figure in half.figures.items()))
HALF_OF: dict[int, Half[Any]] = {number: half for half in HALVES for number in half.figures}


def numbered(numbers: Iterable[float]) -> list[Figure]:
    """Figures by the paper's numbers, each once."""
    chosen = []
    for number in dict.fromkeys(numbers):
        if number not in FIGURES:
            raise ParameterError(f"there is no figure {number:g}; known: {', '.join(map(str, FIGURES))}")
        chosen.append(FIGURES[int(number)])
    return chosen
