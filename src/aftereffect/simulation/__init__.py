"""Simulation: one driver, two engines, all cores."""

from aftereffect.simulation.simulate import simulate
from aftereffect.simulation.study import PolicyRuns, Study
from aftereffect.simulation.trace import Trace

__all__ = ["PolicyRuns", "Study", "Trace", "simulate"]
