"""The rewards of the adversarial figures.

They are read from the original files where a user has them. If not, stand-ins are drawn from
averages of the data set that were published.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from aftereffect.errors import InputError
from aftereffect.reproduction.coupon import load_coupon
from aftereffect.reproduction.outbrain import load_outbrain
from aftereffect.rewards import DrawnArm, DrawnRewards, Recorded, Rows, Schedule

SEED = 20_160_614
#: The share of each parent category among Outbrain's categorised documents, by category id.
OUTBRAIN_PARENTS = {
    10: 0.0009,
    11: 0.0387,
    12: 0.0504,
    13: 0.0129,
    14: 0.1928,
    15: 0.1202,
    16: 0.1070,
    17: 0.1780,
    18: 0.0820,
    19: 0.1469,
    20: 0.0474,
    21: 0.0228,
}
#: The three largest of these, 14, 17 and 19, divided by their sum.
OUTBRAIN_THREE_LARGEST = (0.372, 0.344, 0.284)
#: The share of each of ten clusters of categories among the pages on which ads were clicked.
OUTBRAIN_PAGE_CLUSTERS = (0.007, 0.001, 0.093, 0.110, 0.002, 0.717, 0.023, 0.008, 0.010, 0.029)
#: Of the 4,537 coupons that are not usable every day, the share usable on each day from Monday on.
COUPON_WEEKDAYS = (0.776, 0.799, 0.911, 0.921, 0.861, 0.652, 0.638)


@dataclass(frozen=True)
class RewardsOfPanel:
    """The rewards of a panel: a name, a stand-in, and a reader of the original files, if any."""

    name: str
    stand_in: Schedule
    read: Callable[[Path, int], Schedule] | None = None

    def schedule(self, data: Path | None, slots: int) -> Schedule:
        """The rewards of that many slots."""
        return self.stand_in if data is None or self.read is None else self.read(data, slots)

    def describe(self, data: Path | None) -> str:
        """The name, with a note if it is a stand-in."""
        if data is not None and self.read is not None:
            return self.name
        return f"{self.name} (stand-in drawn from published shares)"


def _normalize(shares: Iterable[float]) -> tuple[float, ...]:
    """Scale shares, which were rounded for publication, so that they sum to one."""
    given = tuple(shares)
    return tuple(share / sum(given) for share in given)


def _clicks_reader(arms: Literal["parents"] | int) -> Callable[[Path, int], Schedule]:
    @lru_cache(maxsize=2)
    def read(data: Path, slots: int) -> Schedule:
        clicks = load_outbrain(_find_folder(data, "outbrain"), arms=arms)
        return Recorded(_take_rows(clicks.paying, slots), paying_arms=len(clicks.names))

    return read


@lru_cache(maxsize=2)
def _read_coupons(data: Path, slots: int) -> Schedule:
    """The coupons that are not usable every day."""
    coupons = load_coupon(_find_folder(data, "coupon"), only_choosy=True)
    return Recorded(_take_rows(coupons.flags, slots))


def _take_rows(rows: Rows, slots: int) -> Rows:
    """The first rows; or if there are too few, that many rows drawn from all."""
    if slots <= len(rows):
        return rows[:slots]
    return rows[np.random.default_rng(SEED).integers(len(rows), size=slots)]


def _find_folder(data: Path, name: str) -> Path:
    """The folder of one competition's files: of that name, or the one that holds all files."""
    if not data.is_dir():
        raise InputError(f"cannot read {data}: there is no such folder")
    return data / name if (data / name).is_dir() else data


THREE_CATEGORIES = RewardsOfPanel(
    "clicks among the three largest Outbrain categories",
    DrawnArm(OUTBRAIN_THREE_LARGEST, SEED),
    _clicks_reader(3),
)
TWELVE_CATEGORIES = RewardsOfPanel(
    "clicks among the twelve Outbrain categories",
    DrawnArm(_normalize(OUTBRAIN_PARENTS.values()), SEED),
    _clicks_reader("parents"),
)
PAGE_CLUSTERS = RewardsOfPanel(
    "clicked pages by clusters of Outbrain categories",
    DrawnArm(_normalize(OUTBRAIN_PAGE_CLUSTERS), SEED),
)
COUPONS = RewardsOfPanel(
    "weekdays of coupons not usable every day, resampled",
    DrawnRewards(COUPON_WEEKDAYS, SEED),
    _read_coupons,
)
