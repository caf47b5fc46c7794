"""Worlds with a known mean lag, for ``benchmarks/lag.py``: policies, rewards, and other revenue."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import aftereffect as ae
from aftereffect.simulation import trace_run

Floats = NDArray[np.float64]
Arms = NDArray[np.int64]
Choose = Callable[[int, Floats], int]


class Played(NamedTuple):
    """A history, and the mean lag behind it."""

    arms: Arms
    totals: Floats
    mean_lag: float


@dataclass(frozen=True)
class World:
    """Where a history comes from.

    Attributes
    ----------
    delay
        How a reward arrives.
    arms, slots
        How many of them.
    chooses
        "paper": ARS-UCB in the bandit of the library; "rounds": a UCB policy whose rounds grow,
        which sees the totals of this world; "blocks": random arms, each held for 1 to 48 slots;
        "switchback": each arm for 24 slots in turn.
    best
        Means of arms are spread evenly from 0 to here. In the paper's bandits: from .9 to .1.
    noise
        The standard deviation of what is added to the reward of a pull, relative to `best`.
    base
        The level of revenue that no arm makes.
    daily, weekly
        How much of the base recurs every 24 slots (with two peaks) and every 168.
    ar, rough
        Noise of the base: its autocorrelation from slot to slot, and its standard deviation.
    trend
        How much the base rises over the history, at a constant rate.
    before
        The mean reward of a pull in each slot before the first, relative to `best`: rewards that
        are on their way at the beginning.
    scales
        Whether the arms' effects are multiplied by the daily and weekly pattern.
    whole
        Whether a reward arrives as a whole, at a random lag, instead of in shares.
    """

    name: str
    delay: ae.delays.LagLaw
    arms: int
    slots: int
    chooses: Literal["paper", "rounds", "blocks", "switchback"] = "rounds"
    best: float = 1.0
    noise: float = 0.5
    base: float = 0.0
    daily: float = 0.0
    weekly: float = 0.0
    ar: float = 0.0
    rough: float = 0.0
    trend: float = 0.0
    before: float = 0.0
    scales: bool = False
    whole: bool = False

    @property
    def has_effects(self) -> bool:
        """Whether arms differ at all."""
        return self.best > 0

    def play(self, seed: int) -> Played:
        """One history."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        if self.chooses == "paper":
            means = np.linspace(0.9, 0.1, self.arms).round(6)
            trace = trace_run(
                ae.ArsUcb(), ae.StochasticBandit(means.tolist(), self.delay), self.slots, seed, 0
            )
            return Played(trace.arms, trace.totals + self._other_revenue(rng), self.delay.mean_lag)
        return self._play_arms(rng)

    def _other_revenue(self, rng: np.random.Generator) -> Floats:
        """The revenue of each slot that no arm makes."""
        steps = np.arange(self.slots)
        shocks = rng.normal(0, self.rough * np.sqrt(1 - self.ar**2), self.slots)
        shocks[0] = rng.normal(0, self.rough)
        echoes = np.empty(self.slots)
        last = 0.0
        for slot, shock in enumerate(shocks):
            echoes[slot] = last = self.ar * last + shock
        pattern = self._pattern(steps + int(rng.integers(168)))
        scale = pattern if self.scales else 1.0
        return self.base * pattern + scale * echoes + self.trend * steps / self.slots

    def _pattern(self, clock: Arms) -> Floats:
        day = 2 * np.pi * clock / 24
        daily = 0.7 * np.sin(day) + 0.3 * np.sin(2 * day + 1)
        pattern: Floats = (
            1 + self.daily * daily + self.weekly * np.where(clock % 168 >= 120, 1.0, -0.4)
        )
        return pattern

    def _play_arms(self, rng: np.random.Generator) -> Played:
        shares = _shares(self.delay)
        reach = len(shares)
        means = rng.permutation(
            np.linspace(0, self.best, self.arms) if self.arms > 1 else np.array([self.best])
        )
        totals = np.zeros(self.slots + reach)
        totals[: self.slots] = self._other_revenue(rng)
        totals[:reach] += self.before * self.best * (1 - np.cumsum(shares))
        noise = rng.normal(0, self.noise * self.best, self.slots)
        lags = rng.choice(reach, self.slots, p=shares / shares.sum())
        choose = {"rounds": _rounds, "blocks": _blocks, "switchback": _switchback}[self.chooses](
            self.arms, rng
        )
        arms = np.empty(self.slots, dtype=np.int64)
        for slot in range(self.slots):
            arm = arms[slot] = choose(slot, totals)
            reward = means[arm] + noise[slot]
            if self.whole:
                totals[slot + lags[slot]] += reward
            else:
                totals[slot : slot + reach] += reward * shares
        return Played(arms, totals[: self.slots], float(self.delay.mean_lag))


def _shares(delay: ae.delays.LagLaw) -> Floats:
    """The share at each lag, up to where only a millionth is left."""
    shares: Floats = np.asarray(delay.share(np.arange(20_000)), dtype=np.float64)
    reach = int(np.searchsorted(np.cumsum(shares), 1 - 1e-6)) + 1
    return shares[:reach] / shares[:reach].sum()


def _rounds(arms: int, _: np.random.Generator) -> Choose:
    """UCB on the averages of rounds, each of an arm longer by one slot than its last."""
    sums, pulls, rounds = np.zeros(arms), np.zeros(arms), np.zeros(arms, dtype=np.int64)
    state = {"arm": -1, "first": 0, "end": 0}

    def choose(slot: int, totals: Floats) -> int:
        if slot < state["end"]:
            return state["arm"]
        if slot:
            arm = state["arm"]
            sums[arm] += totals[state["first"] : slot].sum()
            pulls[arm] += slot - state["first"]
            rounds[arm] += 1
        if (rounds == 0).any():
            arm = int(np.flatnonzero(rounds == 0)[0])
        else:
            scale = max(float(np.std(totals[:slot])), 1e-9)
            arm = int((sums / pulls + scale * np.sqrt(2 * np.log(slot + 1) / pulls)).argmax())
        state.update(arm=arm, first=slot, end=slot + 1 + int(rounds[arm]))
        return arm

    return choose


def _blocks(arms: int, rng: np.random.Generator) -> Choose:
    """Random arms, held for 1 to 48 slots."""
    state = {"arm": 0, "end": 0}

    def choose(slot: int, _: Floats) -> int:
        if slot >= state["end"]:
            state.update(arm=int(rng.integers(arms)), end=slot + int(rng.integers(1, 49)))
        return state["arm"]

    return choose


def _switchback(arms: int, _: np.random.Generator) -> Choose:
    """Each arm for 24 slots in turn."""
    return lambda slot, _: slot // 24 % arms


def _paper(delay: ae.delays.LagLaw, star: str = "") -> World:
    return World(f"paper, {delay}{star}", delay, 9, 5_000, "paper")


GEOMETRIC = ae.Geometric(0.9)
TWO = ae.Shape([0, 0.3, *([0.0] * 38), 0.7])
#: An existing business: revenue in two daily peaks and on weekends, noise that lasts for hours.
SHOP = {"base": 10.0, "daily": 0.4, "weekly": 0.2, "ar": 0.7, "rough": 0.5}

WORLDS = [
    _paper(ae.Interval(5, 15), "*"),
    _paper(ae.UniformDelay(5, 15)),
    _paper(ae.Interval(35, 45)),
    _paper(ae.UniformDelay(20, 60), "*"),
    _paper(ae.Interval(80, 120), "*"),
    _paper(ae.UniformDelay(50, 150)),
    _paper(GEOMETRIC, "*"),
    _paper(ae.LinearDecay(100), "*"),
    _paper(ae.LinearRise(50)),
    _paper(ae.Immediate()),
    World("paper and level 5, interval(5, 15)", ae.Interval(5, 15), 9, 5_000, "paper", base=5),
    World("level, geometric(0.9)*", GEOMETRIC, 4, 1_000, "blocks", base=10, before=0.5),
    World("level, UCB, geometric(0.9)*", GEOMETRIC, 4, 5_000, base=10, before=0.5, whole=True),
    World("level, lineardecay(100)", ae.LinearDecay(100), 4, 5_000, "blocks", base=10, before=0.5),
    World("level, two lags", TWO, 4, 3_000, "blocks", base=10, whole=True),
    World("level, geometric(0.8)", ae.Geometric(0.8), 10, 500, "blocks", base=5, rough=0.2),
    World("level, interval(2, 5)", ae.Interval(2, 5), 2, 200, "blocks", base=3, rough=0.3),
    World(
        "level, AR .8, geometric(0.9)*", GEOMETRIC, 4, 1_000, "blocks", base=10, ar=0.8, rough=0.5
    ),
    World(
        "level, AR .9, uniform(0, 20)",
        ae.UniformDelay(0, 20),
        3,
        3_000,
        "blocks",
        base=10,
        ar=0.9,
        rough=0.5,
        whole=True,
    ),
    World(
        "level, AR .6, UCB, interval(5, 15)",
        ae.Interval(5, 15),
        4,
        3_000,
        base=5,
        ar=0.6,
        rough=0.5,
        best=2,
    ),
    World("shop, geometric(0.9)*", GEOMETRIC, 4, 1_000, "blocks", **SHOP),
    World("shop, strong effects", GEOMETRIC, 4, 1_008, "blocks", best=8, **SHOP),
    World(
        "shop, switchback, geometric(0.8)",
        ae.Geometric(0.8),
        4,
        2_016,
        "switchback",
        best=3,
        **SHOP,
    ),
    World(
        "shop, UCB, uniform(0, 20)", ae.UniformDelay(0, 20), 4, 5_000, best=2, whole=True, **SHOP
    ),
    World(
        "shop that scales, interval(5, 15)*",
        ae.Interval(5, 15),
        4,
        2_000,
        "blocks",
        best=2,
        scales=True,
        **SHOP,
    ),
    World(
        "level rises, lineardecay(30)*",
        ae.LinearDecay(30),
        4,
        2_000,
        "blocks",
        base=10,
        trend=2,
        ar=0.5,
        rough=0.3,
    ),
    World("40 arms, geometric(0.9)*", GEOMETRIC, 40, 200, "blocks", base=3),
    World("40 arms, uniform(0, 20)*", ae.UniformDelay(0, 20), 40, 2_000, "blocks", base=3),
    World(
        "20 arms, level, geometric(0.8)",
        ae.Geometric(0.8),
        20,
        1_000,
        "blocks",
        base=3,
        rough=0.2,
        before=1.0,
    ),
    World("no effects*", ae.Immediate(), 40, 200, "blocks", best=0, rough=1),
    World("no effects, UCB", ae.Immediate(), 40, 1_000, best=0, rough=1),
    World("no effects, AR .9*", ae.Immediate(), 2, 500, "blocks", best=0, rough=1, ar=0.9),
    World("no effects, AR .95, UCB", ae.Immediate(), 4, 2_000, best=0, rough=1, ar=0.95),
    World("no effects, shop", ae.Immediate(), 4, 1_000, "blocks", best=0, **SHOP),
    World("no effects, shop, UCB", ae.Immediate(), 4, 5_000, best=0, **SHOP),
]
