"""Sizes, seeds and data of all runs, and where regret is noted. The paper does not say them."""

from dataclasses import dataclass
from pathlib import Path

from aftereffect._core import MAX_SEED, MAX_SLOTS, check_int
from aftereffect.errors import ParameterError
from aftereffect.simulation import MAX_REPLICATIONS, space_logarithmically

FIGURE_DECADES, FIGURE_CHECKPOINTS = 3, 50
#: Growth with time is judged by the last two decades of the long runs, so each of these decades
#: must begin at a checkpoint.
LONG_DECADES, CHECKPOINTS_PER_DECADE = 3, 10
#: Which checkpoints of the long runs those are: a hundredth of the horizon, a tenth, and all of it.
DECADES = slice(-1 - 2 * CHECKPOINTS_PER_DECADE, None, CHECKPOINTS_PER_DECADE)
#: Regret beyond the paper is compared at a hundredth of the horizon too, and no bandit there has
#: more than 20 arms.
MIN_BEYOND_HORIZON = 2_000


@dataclass(frozen=True)
class Settings:
    """Sizes of all runs, their seeds, and where the real data is. The paper does not say them.

    Parameters
    ----------
    horizon, replications
        Slots and runs of a stochastic figure.
    long_horizon
        Slots of the runs that show how the regret of ARS-UCB grows.
    adversarial_horizon, adversarial_replications
        Slots and runs of an adversarial figure.
    adversarial_long_horizon, adversarial_long_replications
        Slots and runs of further runs that judge which regrets are linear; 0 slots leave them out.
    beyond_horizon, beyond_replications
        Slots and runs of the comparisons beyond the paper. Regret is compared at this horizon, at
        a tenth and at a hundredth of it; runs ten times as long show how it grows.
    seed, beyond_seed
        The same seed gives the same results; `beyond_seed` is that of the chapter beyond the paper.
    data
        A folder with the original files of Outbrain and Coupon. Without it, rewards are drawn from
        published shares.

    Examples
    --------
    >>> Settings(horizon=10_000).checkpoints[-1]
    10000
    """

    horizon: int = 100_000
    replications: int = 200
    long_horizon: int = 10_000_000
    adversarial_horizon: int = 10_000_000
    adversarial_replications: int = 50
    adversarial_long_horizon: int = 0
    adversarial_long_replications: int = 12
    beyond_horizon: int = 1_000_000
    beyond_replications: int = 1_000
    seed: int = 7
    beyond_seed: int = 271_828
    data: Path | None = None

    def __post_init__(self) -> None:
        limits = {
            "horizon": (1, MAX_SLOTS),
            "replications": (1, MAX_REPLICATIONS),
            "long_horizon": (10**LONG_DECADES, MAX_SLOTS),
            "adversarial_horizon": (1, MAX_SLOTS),
            "adversarial_replications": (1, MAX_REPLICATIONS),
            "adversarial_long_horizon": (0, MAX_SLOTS),
            "adversarial_long_replications": (1, MAX_REPLICATIONS),
            "beyond_horizon": (MIN_BEYOND_HORIZON, MAX_SLOTS // 10),
            "beyond_replications": (1, MAX_REPLICATIONS),
            "seed": (0, MAX_SEED),
            "beyond_seed": (0, MAX_SEED),
        }
        for name, (least, most) in limits.items():
            label = name.removeprefix("adversarial_").removeprefix("beyond_")
            number = check_int(label, getattr(self, name), at_least=least, at_most=most)
            object.__setattr__(self, name, number)
        # Otherwise a tenth and a hundredth of it would be no checkpoints.
        if self.long_horizon % 10**LONG_DECADES:
            raise ParameterError(
                f"long_horizon must be a multiple of {10**LONG_DECADES:,}, "
                f"got {self.long_horizon:,}"
            )

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Where the curves of a stochastic figure are noted: its last three decades."""
        return space_logarithmically(
            max(1, self.horizon // 10**FIGURE_DECADES), self.horizon, FIGURE_CHECKPOINTS
        )

    @property
    def long_checkpoints(self) -> tuple[int, ...]:
        """Where the long runs are noted."""
        first = self.long_horizon // 10**LONG_DECADES
        return space_logarithmically(
            first, self.long_horizon, LONG_DECADES * CHECKPOINTS_PER_DECADE + 1
        )


def space_evenly(horizon: int) -> tuple[int, ...]:
    """Where adversarial curves are noted; half the horizon is always one of these slots.

    Even steps show linear regret as a straight line.
    """
    steps = range(1, FIGURE_CHECKPOINTS + 1)
    return tuple(sorted({max(1, horizon * step // FIGURE_CHECKPOINTS) for step in steps}))


DEFAULT = Settings()
QUICK = Settings(
    horizon=10_000,
    replications=50,
    long_horizon=1_000_000,
    adversarial_horizon=1_000_000,
    adversarial_replications=10,
    beyond_replications=50,
)
#: What ``--long`` sets `Settings.adversarial_long_horizon` to.
ADVERSARIAL_LONG_HORIZON = 100_000_000
