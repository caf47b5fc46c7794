"""Where the rewards of the adversarial figures come from: the original files where a user has them, else a stand-in."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from aftereffect.data import load_coupon, load_outbrain
from aftereffect.data.stand_ins import COUPON_WEEKDAYS, OUTBRAIN_PAGE_CLUSTERS, OUTBRAIN_PARENTS, OUTBRAIN_THREE_LARGEST
from aftereffect.errors import InputError
from aftereffect.schedules import DrawnArm, DrawnRewards, Recorded, Rows, Schedule

SEED = 20_160_614


@dataclass(frozen=True)
class Source:
    """Rewards for a panel: what they are, a stand-in of the published shares, and how to read the real ones if there are."""

    name: str
    stand_in: Schedule
    real: Callable[[Path, int], Schedule] | None = None

    def schedule(self, data: Path | None, slots: int) -> Schedule:
        """The rewards of that many slots."""
        return self.stand_in if data is None or self.real is None else self.real(data, slots)

    def told(self, data: Path | None) -> str:
        """What a caption says."""
        return (
            self.name if data is not None and self.real is not None else f"{self.name} (stand-in drawn from published shares)"
        )


def _shares(weights: list[float]) -> tuple[float, ...]:
    """Published shares are rounded; scaled to sum to one."""
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def _clicks(arms: Literal["parents"] | int) -> Callable[[Path, int], Schedule]:
    @lru_cache(maxsize=2)
    def read(data: Path, slots: int) -> Schedule:
        clicks = load_outbrain(_folder(data, "outbrain"), arms=arms)
        return Recorded(_enough(clicks.paying, slots), paying_arms=len(clicks.names))

    return read


@lru_cache(maxsize=2)
def _coupons(data: Path, slots: int) -> Schedule:
    """The coupons that are not usable every day."""
    return Recorded(_enough(load_coupon(_folder(data, "coupon"), only_choosy=True).flags, slots))


def _enough(rows: Rows, slots: int) -> Rows:
    """The first rows, or where there are too few, as many drawn from all."""
    if slots <= len(rows):
        return rows[:slots]
    return rows[np.random.default_rng(SEED).integers(len(rows), size=slots)]


def _folder(data: Path, name: str) -> Path:
    """The files of one competition, in a folder of their own or beside those of the other."""
    if not data.is_dir():
        raise InputError(f"cannot read {data}: there is no such folder")
    return data / name if (data / name).is_dir() else data


THREE = Source("clicks among the three largest Outbrain categories", DrawnArm(OUTBRAIN_THREE_LARGEST, SEED), _clicks(3))
TWELVE = Source(
    "clicks among the twelve Outbrain categories", DrawnArm(_shares(list(OUTBRAIN_PARENTS.values())), SEED), _clicks("parents")
)
CLUSTERS = Source("clicked pages by clusters of Outbrain categories", DrawnArm(_shares(list(OUTBRAIN_PAGE_CLUSTERS)), SEED))
COUPONS = Source("weekdays of coupons not usable every day, resampled", DrawnRewards(COUPON_WEEKDAYS, SEED), _coupons)
