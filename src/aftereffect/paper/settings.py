"""How long and how often a reproduction plays, and on which data: the paper does not say."""

from dataclasses import dataclass
from pathlib import Path

from aftereffect.checks import MOST_SLOTS, whole
from aftereffect.errors import ParameterError
from aftereffect.seeds import LARGEST_SEED
from aftereffect.simulation.checkpoints import log_spaced
from aftereffect.simulation.plan import MOST_REPLICATIONS

FIGURE_DECADES, FIGURE_CHECKPOINTS = 3, 50
#: Growth with time is judged by the last two decades of the long runs, so both must begin at a checkpoint.
LONG_DECADES, CHECKPOINTS_PER_DECADE = 3, 10
#: Which of the checkpoints of the long runs those are: a hundredth and a tenth of the horizon, and the horizon.
DECADES = slice(-1 - 2 * CHECKPOINTS_PER_DECADE, None, CHECKPOINTS_PER_DECADE)


@dataclass(frozen=True)
class Settings:
    """Sizes of all runs, the seed of all, and where the real data is.

    Parameters
    ----------
    horizon, replications
        Slots and runs of a stochastic figure.
    long_horizon
        Slots of the runs that tell how the regret of ARS-UCB grows.
    adversarial_horizon, adversarial_replications
        Slots and runs of an adversarial figure.
    far_horizon, far_replications
        Slots and runs by which, if asked for, linear and sublinear regret are judged once more; 0 slots if not.
    seed
        The same seed gives the same results.
    data
        A folder with the original files of Outbrain and Coupon; stand-ins are drawn if not given.
    """

    horizon: int = 100_000
    replications: int = 200
    long_horizon: int = 10_000_000
    adversarial_horizon: int = 10_000_000
    adversarial_replications: int = 50
    far_horizon: int = 0
    far_replications: int = 12
    seed: int = 7
    data: Path | None = None

    def __post_init__(self) -> None:
        limits = {
            "horizon": (1, MOST_SLOTS),
            "replications": (1, MOST_REPLICATIONS),
            "long_horizon": (10**LONG_DECADES, MOST_SLOTS),
            "adversarial_horizon": (1, MOST_SLOTS),
            "adversarial_replications": (1, MOST_REPLICATIONS),
            "far_horizon": (0, MOST_SLOTS),
            "far_replications": (1, MOST_REPLICATIONS),
            "seed": (0, LARGEST_SEED),
        }
        for name, (least, most) in limits.items():
            label = name.removeprefix("adversarial_")
            object.__setattr__(self, name, whole(label, getattr(self, name), at_least=least, at_most=most))
        if self.long_horizon % 10**LONG_DECADES:  # or its tenth and hundredth would be no checkpoints
            raise ParameterError(f"long_horizon must be a multiple of {10**LONG_DECADES:,}, got {self.long_horizon:,}")

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Where the curves of a stochastic figure are noted: earlier there is nothing to see."""
        return log_spaced(max(1, self.horizon // 10**FIGURE_DECADES), self.horizon, FIGURE_CHECKPOINTS)

    @property
    def long_checkpoints(self) -> tuple[int, ...]:
        """Where the long runs are noted."""
        first = self.long_horizon // 10**LONG_DECADES
        return log_spaced(first, self.long_horizon, LONG_DECADES * CHECKPOINTS_PER_DECADE + 1)


def evenly_spaced(horizon: int) -> tuple[int, ...]:
    """Where adversarial curves are noted: linear regret is a straight line there. The middle is always one of them."""
    return tuple(sorted({max(1, horizon * step // FIGURE_CHECKPOINTS) for step in range(1, FIGURE_CHECKPOINTS + 1)}))


DEFAULT = Settings()
QUICK = Settings(
    horizon=10_000, replications=50, long_horizon=1_000_000, adversarial_horizon=1_000_000, adversarial_replications=10
)
FAR_HORIZON = 100_000_000
