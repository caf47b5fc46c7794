"""Coupon Purchase Prediction (Kaggle, 2015): every slot is a visit to a coupon's page, every arm a day of the week."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from aftereffect import checks
from aftereffect.data.cache import Arrays, kept_beside
from aftereffect.data.packing import existing_folder, find
from aftereffect.data.tables import MOMENT, TEXT, WHOLE, Table
from aftereffect.errors import InputError, ParameterError
from aftereffect.extras import imported
from aftereffect.spec import nearest

RuleName: TypeAlias = Literal["usable", "strict"]

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
FLAGS = tuple(f"USABLE_DATE_{day}" for day in WEEKDAYS)

COUPONS = Table("coupon_list_train", {"DISPFROM": MOMENT, **dict.fromkeys(FLAGS, WHOLE), "COUPON_ID_hash": TEXT}, missing="NA")
VISITS = Table("coupon_visit_train", {"I_DATE": MOMENT, "VIEW_COUPON_ID_hash": TEXT}, missing="NA")

#: When a day pays, by the coupon's flag for it, which is 0, 1 or 2.
RULES: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]] = {
    "usable": lambda flags: flags > 0,
    "strict": lambda flags: flags == 1,
}


class Coupons(NamedTuple):
    """By slot and weekday, 1 where that day pays and 0 where not; and the weekdays' names."""

    flags: npt.NDArray[np.uint8]
    names: tuple[str, ...]


def load_coupon(
    folder: str | os.PathLike[str], slots: int | None = None, rule: RuleName = "usable", *, only_choosy: bool = False
) -> Coupons:
    """Which days of the week pay in each slot, by the coupons that were looked at.

    A slot is a visit, in the order of time; a day pays if the coupon is usable on it. Visits to coupons that are not in the
    list or have no flags are left out. Without a file of visits, every coupon is one slot, in the order in which they were
    put on sale.

    Parameters
    ----------
    folder
        Where coupon_list_train is, and coupon_visit_train if there is one, each as .csv, .csv.gz or .csv.zip. What was read
        is kept there in a small file; a folder that cannot be written does as well, more slowly.
    slots
        How many slots, from the first on; all if not given.
    rule
        ``"usable"`` where a day pays if its flag is above 0, ``"strict"`` where it must be 1.
    only_choosy
        Leave out the coupons that are usable every day: whatever is played, they pay.

    Raises
    ------
    InputError
        If a file is missing or not what it should be, or if there are fewer slots.
    ParameterError
        If slots or rule are outside what is allowed.
    """
    wanted = None if slots is None else checks.whole("slots", slots, at_least=1)
    if not isinstance(rule, str) or rule not in RULES:
        raise ParameterError(f"unknown rule {rule!r}: {nearest(str(rule), RULES)}")
    where = existing_folder(folder)
    coupons, visits = COUPONS.path(where), find(where, VISITS.name)
    sources = (coupons,) if visits is None else (coupons, visits)
    kept = kept_beside(where, "coupon", sources, lambda: _coupons_in_time(coupons, visits))

    pays, coupon = RULES[rule](kept["flags"]), kept["coupon"]
    if only_choosy:
        coupon = coupon[~np.all(pays, axis=1)[coupon]]
    if wanted is not None and wanted > len(coupon):
        which = f"{'coupons' if visits is None else 'visits to coupons'} with flags{', not all set' * only_choosy}"
        raise InputError(f"cannot read {wanted:,} slots from {sources[-1]}: it has {len(coupon):,} {which}")
    return Coupons(pays.astype(np.uint8)[coupon[:wanted]], WEEKDAYS)


def _coupons_in_time(coupons: Path, visits: Path | None) -> Arrays:
    """The flags of each coupon that has them, in order of sale, and for each slot which of these coupons it is."""
    flagged = COUPONS.rows(coupons).unique("COUPON_ID_hash", keep="first", maintain_order=True)
    if flagged.is_empty():
        raise COUPONS.refusal(coupons, "none of its coupons has flags")
    on_sale = flagged.sort("DISPFROM", maintain_order=True)
    flags = on_sale.select(FLAGS).to_numpy()
    if visits is None:
        return {"flags": flags, "coupon": np.arange(len(flags), dtype=np.int32)}

    pl = imported("polars")
    place = on_sale.select(pl.col("COUPON_ID_hash").alias("VIEW_COUPON_ID_hash")).with_row_index("coupon")
    found = [
        part.with_row_index("line").join(place, on="VIEW_COUPON_ID_hash").sort("I_DATE", "line").select("I_DATE", "coupon")
        for part in VISITS.parts(visits)
    ]
    in_time = pl.concat(found).sort("I_DATE", maintain_order=True)
    if in_time.is_empty():
        raise VISITS.refusal(visits, f"none of its visits is to a coupon that has flags in {coupons.name}")
    return {"flags": flags, "coupon": in_time["coupon"].to_numpy()}
