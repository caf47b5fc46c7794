"""Simulated experiments on a service of their own: they show what the service and its page do."""

import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

import numpy as np

from aftereffect._core import make_folder
from aftereffect.client import Client
from aftereffect.delays import Interval, LagLaw, LinearDecay, UniformDelay
from aftereffect.errors import AftereffectError
from aftereffect.service import DEFAULT_HOST, address_of, server_for


class Scenario(NamedTuple):
    """An experiment of the demo.

    `arms` has the mean reward of each arm as a share of `max_reward`, which is in this `unit`;
    `delay` is how rewards arrive, and every total is sent `lateness` slots after its slot. A slot
    stands for the time that `slot` says. A `control` keeps its share of the rounds.
    """

    name: str
    arms: dict[str, float]
    policy: str
    max_reward: float
    unit: str
    slot: str
    delay: LagLaw
    lateness: int
    control: str | None = None


SCENARIOS = (
    Scenario(
        "checkout-banner",
        {"Blue": 0.35, "Green": 0.5, "Video": 0.42, "None": 0.3},
        "ars-ucb(alpha=1)",
        200,
        "EUR",
        "1h",
        Interval(2, 8),
        0,
    ),
    Scenario(
        "free-shipping",
        {"from 49 EUR": 0.3, "from 39 EUR": 0.33, "from 29 EUR": 0.31},
        "adaptive-switchback(delay=interval(2, 8))",
        200,
        "EUR",
        "1h",
        Interval(2, 8),
        0,
        control="from 49 EUR",
    ),
    Scenario(
        "price-of-the-day",
        {"9.90": 0.3, "10.90": 0.4, "11.90": 0.33},
        "ars-ucb(alpha=1)",
        1_000,
        "EUR",
        "1d",
        LinearDecay(14),
        3,
    ),
    Scenario(
        "newsletter-hour",
        {"7:00": 0.2, "12:00": 0.3, "18:00": 0.45, "21:00": 0.4},
        "ars-clw",
        50,
        "orders",
        "1d",
        UniformDelay(0, 6),
        1,
    ),
)
#: When all experiments begin; their time runs faster than that of clocks.
START = "2026-03-02"
#: The share of rounds that a control keeps.
CONTROL_SHARE = 0.2
#: Rewards vary as much as the mean of so many yeses and noes.
EVENNESS = 40
#: Slots that are played without a pause at the start, so that there is something to see.
FIRST_SLOTS = 200


class DelayedTotals:
    """The totals of a scenario: the reward of each pull arrives in shares, slot by slot."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._rng = np.random.default_rng(seed)
        reach = int(scenario.delay.reach)
        self._shares = scenario.delay.share(np.arange(reach + 1))
        self._arriving = deque([0.0] * (reach + 1))

    def pull(self, arm: str) -> float:
        """The total of the next slot, in which this arm is pulled."""
        mean = self._scenario.arms[arm]
        reward = self._scenario.max_reward * float(
            self._rng.beta(EVENNESS * mean, EVENNESS * (1 - mean))
        )
        for lag, share in enumerate(self._shares):
            self._arriving[lag] += reward * float(share)
        self._arriving.append(0.0)
        return round(self._arriving.popleft(), 2)


def play(client: Client, scenario: Scenario, speed: float, stop: threading.Event) -> None:
    """Play one scenario through the service until it is stopped.

    The first slots are played at once, the others at `speed` slots per second.
    """
    experiment = client.create(
        scenario.name,
        arms=list(scenario.arms),
        policy=scenario.policy,
        reward_range=(0, scenario.max_reward),
        control=scenario.control,
        control_share=None if scenario.control is None else CONTROL_SHARE,
        unit=scenario.unit,
        slot=scenario.slot,
        start=START,
        seed=1,
    )
    source, totals = DelayedTotals(scenario, seed=len(scenario.name)), deque[tuple[int, float]]()
    first = experiment.status().slots
    for slot in range(first, sys.maxsize):
        totals.append((slot, source.pull(str(experiment.ask(slot).arm))))
        if len(totals) > scenario.lateness:
            experiment.tell(*totals.popleft())
        if stop.wait(0 if slot < first + FIRST_SLOTS else 1 / speed):
            return


def play_until_stopped(port: int, folder: Path | None, speed: float) -> None:
    """Start a service and play all scenarios against it, until it is interrupted."""
    used = folder or Path(tempfile.mkdtemp(prefix="aftereffect-demo-"))
    try:
        make_folder(used)
        server, listener = server_for(f"sqlite:///{used / 'demo.db'}", DEFAULT_HOST, port)
        address, stop = address_of(listener), threading.Event()
        client = Client(address)
        for scenario in SCENARIOS:
            threading.Thread(
                target=_keep_playing, args=(client, scenario, speed, stop), daemon=True
            ).start()
        print(f"watch {len(SCENARIOS)} experiments at {address} (stop with Ctrl-C)", flush=True)
        try:
            server.run(sockets=[listener])
        finally:
            stop.set()
    finally:
        if folder is None:
            shutil.rmtree(used, ignore_errors=True)


def _keep_playing(client: Client, scenario: Scenario, speed: float, stop: threading.Event) -> None:
    """Play, and after an error play on, until the service stops."""
    while not stop.is_set():
        try:
            play(client, scenario, speed, stop)
        except AftereffectError as error:
            if not stop.is_set():
                print(f"aftereffect: {error}", file=sys.stderr)
                time.sleep(1)
