"""The chapter beyond the paper: the regret of SettleUcb beside its rivals."""

from aftereffect.reproduction.beyond.chapter import CHAPTER, summarize_regret
from aftereffect.reproduction.beyond.figures import FIGURES

__all__ = ["CHAPTER", "FIGURES", "summarize_regret"]
