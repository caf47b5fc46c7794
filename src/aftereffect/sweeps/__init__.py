"""Sweeps: a grid of studies, described in a file, that survives being stopped."""

from aftereffect.sweeps.cells import Cell
from aftereffect.sweeps.results import SweepResults
from aftereffect.sweeps.sweep import Stage, Sweep

__all__ = ["Cell", "Stage", "Sweep", "SweepResults"]
