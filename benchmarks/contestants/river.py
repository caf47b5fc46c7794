"""river's UCB, by pull and update: its `evaluate` is slower, with a dictionary per step."""

from importlib.metadata import version

from river import bandit

from contestants.protocol import answer
from contestants.world import World, in_worlds


def run(world: World, horizon: int) -> None:
    """With delta = 1 the index is that of UCB1."""
    policy = bandit.UCB(
        delta=1, seed=world.rng.getrandbits(32)
    )  # the seed decides between equal indices
    for _ in range(horizon):
        arm = policy.pull(world.arms)
        policy.update(arm, world.play(arm))


if __name__ == "__main__":
    answer(version("river"), in_worlds(run))
