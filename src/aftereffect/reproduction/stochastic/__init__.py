"""The stochastic chapter: ARS-UCB and ODAAF, in figures 2-5 and 10-19."""

from aftereffect.reproduction.stochastic.chapter import CHAPTER
from aftereffect.reproduction.stochastic.claims import CLAIMS
from aftereffect.reproduction.stochastic.figures import FIGURES, MEANS, RECOMMENDED

__all__ = ["CHAPTER", "CLAIMS", "FIGURES", "MEANS", "RECOMMENDED"]
