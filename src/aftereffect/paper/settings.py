"""How long and how often a reproduction plays: the paper does not say."""

from dataclasses import dataclass

from aftereffect.checks import MOST_SLOTS, whole
from aftereffect.errors import ParameterError
from aftereffect.simulation.checkpoints import log_spaced
from aftereffect.simulation.simulate import LARGEST_SEED, MOST_REPLICATIONS

FIGURE_DECADES, FIGURE_CHECKPOINTS = 3, 50
#: Growth with time is judged by the last two decades of the long runs, so both must begin at a checkpoint.
LONG_DECADES, CHECKPOINTS_PER_DECADE = 3, 10
#: Which of the checkpoints of the long runs those are: a hundredth and a tenth of the horizon, and the horizon.
DECADES = slice(-1 - 2 * CHECKPOINTS_PER_DECADE, None, CHECKPOINTS_PER_DECADE)


@dataclass(frozen=True)
class Settings:
    """Slots of a figure, runs of each policy, slots of the runs that tell how regret grows, and the seed of all."""

    horizon: int = 100_000
    replications: int = 200
    long_horizon: int = 10_000_000
    seed: int = 7

    def __post_init__(self) -> None:
        limits = {
            "horizon": (1, MOST_SLOTS),
            "replications": (1, MOST_REPLICATIONS),
            "long_horizon": (10**LONG_DECADES, MOST_SLOTS),
            "seed": (0, LARGEST_SEED),
        }
        for name, (least, most) in limits.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), at_least=least, at_most=most))
        if self.long_horizon % 10**LONG_DECADES:  # or its tenth and hundredth would be no checkpoints
            raise ParameterError(f"long_horizon must be a multiple of {10**LONG_DECADES:,}, got {self.long_horizon:,}")

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Where a figure's curves are noted: earlier there is nothing to see."""
        return log_spaced(max(1, self.horizon // 10**FIGURE_DECADES), self.horizon, FIGURE_CHECKPOINTS)

    @property
    def long_checkpoints(self) -> tuple[int, ...]:
        """Where the long runs are noted."""
        first = self.long_horizon // 10**LONG_DECADES
        return log_spaced(first, self.long_horizon, LONG_DECADES * CHECKPOINTS_PER_DECADE + 1)


DEFAULT = Settings()
QUICK = Settings(horizon=10_000, replications=50, long_horizon=1_000_000)
