"""A shop whose totals have a day, noise and late effects, in experiments with a control."""

import numpy as np

import aftereffect as ae

#: What hours of a day usually bring.
DAY = 100 * (1 + 0.5 * np.sin(np.arange(24) / 24 * 2 * np.pi))
#: Floors that keep both arms random, and a policy that runs without being compiled.
SHOP = {
    "arms": ["A", "B"],
    "policy": "fixed-switchback(block=6)",
    "slot": "1h",
    "start": "2026-03-01T00:00",
    "timezone": "UTC",
    "control": "A",
    "control_share": 0.45,
    "floors": {"B": 0.45},
    "unit": "EUR",
    "seed": 5,
}


def list_past(days=28):
    """Totals of the days before 1 March, by hour."""
    rng = np.random.default_rng(2)
    return [
        (f"2026-02-{1 + day:02}T{hour:02}:00", round(DAY[hour] * rng.lognormal(0, 0.1), 2))
        for day in range(days)
        for hour in range(24)
    ]


def play_shop(name="shop", *, slots, lift=0.1, storage="memory://", create=None, **given):
    """An experiment in which B brings `lift` more, with so many slots; its totals are all known."""
    rng = np.random.default_rng(1)
    make = create or (lambda **settings: ae.Experiment.create(storage=storage, **settings))
    experiment = make(name=name, **SHOP | {"history": list_past()} | given)
    totals, before = {}, 0.0
    for slot in range(slots):
        arm = experiment.ask(slot).arm
        demand = DAY[slot % 24] * rng.lognormal(0, 0.1) * (1 + lift * (arm == "B"))
        totals[slot], before = round(0.6 * demand + 0.4 * before, 2), demand
        experiment.tell(slot, totals[slot])
    return experiment
