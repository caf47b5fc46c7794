"""Experiments on a simulated world, played against a service of their own: something to watch within seconds."""

import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

import numpy as np

from aftereffect.client import Client
from aftereffect.errors import AftereffectError
from aftereffect.live.rules import Slot
from aftereffect.outputs import make_folder
from aftereffect.service.run import address_of, server_for
from aftereffect.spreads import Interval, LinearDecay, Spread, UniformDelay


class Story(NamedTuple):
    """An experiment of the demo: what each arm brings per slot at most, and how late it lands and is told."""

    name: str
    arms: dict[str, float]
    policy: str
    most: float
    spread: Spread
    late: int


STORIES = (
    Story(
        "checkout-banner", {"Blue": 0.35, "Green": 0.5, "Video": 0.42, "None": 0.3}, "ars-ucb(alpha=1)", 200, Interval(2, 9), 0
    ),
    Story("price-of-the-day", {"9.90": 0.3, "10.90": 0.4, "11.90": 0.33}, "ars-ucb(alpha=1)", 1_000, LinearDecay(14), 3),
    Story("newsletter-hour", {"7:00": 0.2, "12:00": 0.3, "18:00": 0.45, "21:00": 0.4}, "ars-clw", 50, UniformDelay(0, 6), 1),
)
#: Slots that are played at once, so that there is something to see.
AHEAD = 200


class World:
    """What comes of playing: each pull's reward lands in shares, slot by slot."""

    def __init__(self, story: Story, seed: int) -> None:
        self._story = story
        self._rng = np.random.default_rng(seed)
        reach = int(story.spread.reach)
        self._shares = story.spread.share(np.arange(reach + 1))
        self._coming = deque([0.0] * (reach + 1))

    def play(self, arm: str) -> float:
        """The total of the next slot, in which this arm is played."""
        mean = self._story.arms[arm]
        reward = self._story.most * float(self._rng.beta(4 * mean, 4 * (1 - mean)))
        for lag, share in enumerate(self._shares):
            self._coming[lag] += reward * float(share)
        self._coming.append(0.0)
        return round(self._coming.popleft(), 2)


def play(client: Client, story: Story, speed: float, stop: threading.Event) -> None:
    """Play one experiment through the service: the first slots at once, then so many per second, until stopped."""
    client.create(story.name, arms=list(story.arms), policy=story.policy, reward_range=(0, story.most), seed=1)
    world, totals = World(story, seed=len(story.name)), deque[tuple[Slot, float]]()
    begun = client.status(story.name).slots
    for number in range(begun, sys.maxsize):
        slot = client.ask(story.name, number)
        totals.append((slot, world.play(slot.arm)))
        if len(totals) > story.late:
            told, total = totals.popleft()
            client.tell(story.name, told.number, total)
        if stop.wait(0 if number < begun + AHEAD else 1 / speed):
            return


def play_until_stopped(port: int, folder: Path | None, speed: float) -> None:
    """Start a service and play all stories against it, until it is interrupted."""
    kept = folder or Path(tempfile.mkdtemp(prefix="aftereffect-demo-"))
    try:
        make_folder(kept)
        server, listener = server_for(f"sqlite:///{kept / 'demo.db'}", "127.0.0.1", port)
        address, stop = address_of(listener), threading.Event()
        client = Client(address)
        players = [threading.Thread(target=_quietly, args=(client, story, speed, stop), daemon=True) for story in STORIES]
        for player in players:
            player.start()
        print(f"watch {len(STORIES)} experiments at {address} (Ctrl-C ends it)", flush=True)
        try:
            server.run(sockets=[listener])
        finally:
            stop.set()
    finally:
        if folder is None:
            shutil.rmtree(kept, ignore_errors=True)


def _quietly(client: Client, story: Story, speed: float, stop: threading.Event) -> None:
    """When the service stops, so does who plays against it."""
    while not stop.is_set():
        try:
            play(client, story, speed, stop)
        except AftereffectError as error:
            if not stop.is_set():
                print(f"aftereffect: {error}", file=sys.stderr)
                time.sleep(1)
