"""Simulation: one driver, two engines, all cores or many machines."""

from aftereffect.simulation.dask_workers import dask_cluster
from aftereffect.simulation.simulate import simulate
from aftereffect.simulation.study import PolicyRuns, Study
from aftereffect.simulation.trace import Trace

__all__ = ["PolicyRuns", "Study", "Trace", "dask_cluster", "simulate"]
