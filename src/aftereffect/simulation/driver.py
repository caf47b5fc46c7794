"""The one loop: decide, collect, absorb, to the horizon. Plain Python; `compiled` makes it fast."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from aftereffect.checks import shown
from aftereffect.errors import ParameterError
from aftereffect.kernels import Matrix, PolicyKernels, Slots, Vector, World, WorldKernels

Play: TypeAlias = Callable[
    [
        Matrix,
        Vector,
        Vector,
        Matrix,
        World,
        int,
        Slots,
        Vector,
        Vector,
        np.random.Generator,
        np.random.Generator,
    ],
    int,
]
Replay: TypeAlias = Callable[
    [
        Matrix,
        Matrix,
        Vector,
        Matrix,
        World,
        int,
        Slots,
        Matrix,
        Matrix,
        Slots,
        Sequence[np.random.Generator],
        Sequence[np.random.Generator],
    ],
    None,
]

#: Runs per call. The generators come as a tuple, whose length is part of the compiled signature, so there is one for all.
BATCH = 16


def driver(policy: PolicyKernels, environment: WorldKernels) -> Play:
    """One run to the horizon; writes regret at the checkpoints and plays per arm, returns the number of rounds.

    A decision that cannot be played ends it at slot t: it then returns -1 - t, with the arm and the slots of that decision in
    ``plays`` and the window in ``regret``. Compiled code cannot write them into a message; `bad_decision` does.
    """
    decide, absorb = policy
    collect, lose = environment

    def play(
        arms: Matrix,
        own: Vector,
        params: Vector,
        memory: Matrix,
        world: World,
        horizon: int,
        checkpoints: Slots,
        regret: Vector,
        plays: Vector,
        policy_rng: np.random.Generator,
        world_rng: np.random.Generator,
    ) -> int:
        t = rounds = reached = 0
        lost = 0.0
        while t < horizon:
            arm, planned, window = decide(arms, own, params, t, policy_rng)
            if not (0 <= arm < plays.shape[0] and planned >= 1 and 0 <= window <= planned):
                # Compiled code does not check indices: what a faulty kernel wrote elsewhere would not be noticed.
                plays[0], plays[1], regret[0] = arm, planned, window
                return -1 - t
            slots = min(planned, horizon - t)
            whole = slots == planned
            total = collect(memory, world, t, arm, slots, window if whole else 0, world_rng)
            while reached < checkpoints.shape[0] and checkpoints[reached] <= t + slots:
                regret[reached] = lost + lose(world, t, arm, checkpoints[reached] - t)
                reached += 1
            lost += lose(world, t, arm, slots)
            plays[arm] += slots
            if whole:
                absorb(arms, own, params, arm, window, total)
            t += slots
            rounds += 1
        return rounds

    return play


def bad_decision(policy: str, arms: int, t: int, decision: object) -> ParameterError:
    """What to raise when a policy decided what cannot be played."""
    wanted = (
        f"(arm, slots, window): an arm from 0 to {arms - 1}, at least one slot, a window within the slots, as whole numbers"
    )
    return ParameterError(f"decide of {policy} must return {wanted}, got {shown(decision)} at slot {t}")


def batch(play: Play) -> Replay:
    """Several runs in one call: a run may last microseconds, and threads only scale when the lock is rarely taken."""

    def replay(
        arms: Matrix,
        own: Matrix,
        params: Vector,
        memory: Matrix,
        world: World,
        horizon: int,
        checkpoints: Slots,
        regret: Matrix,
        plays: Matrix,
        rounds: Slots,
        policy_rngs: Sequence[np.random.Generator],
        world_rngs: Sequence[np.random.Generator],
    ) -> None:
        for r in range(rounds.shape[0]):
            memory[:] = 0.0
            rounds[r] = play(
                arms[r],
                own[r],
                params,
                memory,
                world,
                horizon,
                checkpoints,
                regret[r],
                plays[r],
                policy_rngs[r],
                world_rngs[r],
            )

    return replay
