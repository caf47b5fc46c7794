"""Sweeps: a grid of studies that a file describes, and that can be stopped and continued."""

from aftereffect.sweeps._cells import Cell, SweepResults
from aftereffect.sweeps._sweep import Progress, Sweep

__all__ = [
    "Cell",
    "Progress",
    "Sweep",
    "SweepResults",
]
