"""The adversarial chapter: ARS-EXP3, ARS-CLW and CLW, in figures 6 to 9."""

from aftereffect.reproduction.adversarial.chapter import CHAPTER
from aftereffect.reproduction.adversarial.claims import CLAIMS
from aftereffect.reproduction.adversarial.figures import FIGURES

__all__ = ["CHAPTER", "CLAIMS", "FIGURES"]
