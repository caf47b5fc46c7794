"""A policy whose decisions depend on covariates alone, and a history file with two of them."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import aftereffect as ae

NAMES = ("temperature", "rain")


class ThermometerState(NamedTuple):
    """Covariates lie by slot, from the first slot of the history on."""

    probabilities: np.ndarray
    origin: np.ndarray
    covariates: np.ndarray


def decide(state, params, t, rng):
    total, arms = 0.0, state.probabilities.shape[0]
    for slot in range(state.covariates.shape[0]):
        for number in range(state.covariates.shape[1]):
            if not math.isnan(state.covariates[slot, number]):
                total += state.covariates[slot, number] * (1 + slot % 7 + 10 * number)
    share = total - math.floor(total)
    for arm in range(arms):
        state.probabilities[arm] = (1.0 - share) / (arms - 1)
    state.probabilities[0] = share
    arm, left = 0, rng.random() - share
    while left >= 0.0 and arm < arms - 1:
        arm += 1
        left -= state.probabilities[arm]
    return arm, 3


def observe(state, params, t, arm, total, covariates):
    if state.origin[0] < 0.0:
        state.origin[0] = max(-t, 0)
    slot = t + int(state.origin[0])
    if slot < state.covariates.shape[0]:
        for number in range(state.covariates.shape[1]):
            state.covariates[slot, number] = covariates[number]


@dataclass(frozen=True)
class Thermometer(ae.Policy):
    """Draws arms by the covariates of all slots. Tests that need its name register it."""

    def kernels(self):
        return ae.SlotKernels(decide, observe)

    def initial(self, arms):
        return self.initial_for(arms, 500)

    def initial_for(self, arms, slots, covariates=0):
        room = np.full((slots, covariates), np.nan)
        return ThermometerState(np.full(arms, 1 / arms), np.full(1, -1.0), room)


def make_numbers(days, seed=5):
    """Made-up covariates by day; some are not known."""
    numbers = np.random.default_rng(seed).normal(10, 5, (days, len(NAMES))).round(3)
    numbers[2::9, 1] = np.nan
    return numbers


def write_history(path, numbers, start="2026-01-05"):
    """A file of daily totals with covariates, as a German spreadsheet writes it."""
    lines = ["Rain;time;shop;total;Temperature"]
    for day, (temperature, rain) in enumerate(numbers):
        cells = ["" if math.isnan(x) else str(x).replace(".", ",") for x in (rain, temperature)]
        time = np.datetime64(start) + day
        lines.append(f"{cells[0]};{time};x;{100 + day % 7};{cells[1]}")
    path.write_text("\n".join(lines))
    return str(path)
