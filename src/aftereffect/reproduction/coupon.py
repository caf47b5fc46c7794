"""Coupon Purchase Prediction (2015): a slot is a visit to a coupon, and an arm a weekday."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from aftereffect._core import check_int, import_optional, suggest
from aftereffect.errors import InputError, ParameterError
from aftereffect.reproduction.datasets import (
    INTEGER,
    TEXT,
    TIME,
    Arrays,
    Table,
    cache_beside,
    check_folder,
    find_file,
)

RuleName: TypeAlias = Literal["usable", "strict"]

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
FLAGS = tuple(f"USABLE_DATE_{day}" for day in WEEKDAYS)

COUPONS = Table(
    "coupon_list_train",
    {"DISPFROM": TIME, **dict.fromkeys(FLAGS, INTEGER), "COUPON_ID_hash": TEXT},
    missing="NA",
)
VISITS = Table("coupon_visit_train", {"I_DATE": TIME, "VIEW_COUPON_ID_hash": TEXT}, missing="NA")

#: Whether a day pays, by the flag of the coupon for that day, which is 0, 1 or 2.
RULES: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]] = {
    "usable": lambda flags: flags > 0,
    "strict": lambda flags: flags == 1,
}


class Coupons(NamedTuple):
    """By slot and weekday, 1 if that day pays and 0 if not; and the names of the weekdays.

    >>> len(Coupons(np.ones((10, 7), np.uint8), WEEKDAYS).flags)
    10
    """

    flags: npt.NDArray[np.uint8]
    names: tuple[str, ...]


def load_coupon(
    folder: str | os.PathLike[str],
    slots: int | None = None,
    rule: RuleName = "usable",
    *,
    only_choosy: bool = False,
) -> Coupons:
    """Which days of the week pay in each slot, by the coupons that people visited.

    A slot is a visit, in order of time; a day pays if the coupon is usable on it. Visits to coupons
    that are not in the list or have no flags are left out. Without a file of visits, every coupon
    is one slot, in the order in which they went on sale.

    Parameters
    ----------
    folder
        The folder with coupon_list_train, and coupon_visit_train if there is one, each as .csv,
        .csv.gz or .csv.zip. The result is cached there in a small file; if the folder cannot be
        written, the files are read each time.
    slots
        How many slots, from the first on; all by default.
    rule
        ``"usable"``: a day pays if its flag is above 0; ``"strict"``: if its flag is 1.
    only_choosy
        Leave out the coupons that are usable every day, as they pay whichever arm is pulled.

    Raises
    ------
    InputError
        If a file is missing or damaged, or has fewer slots.
    ParameterError
        If slots or rule are not allowed.

    Examples
    --------
    >>> load_coupon("kaggle/coupon", slots=1_000).flags.shape  # doctest: +SKIP
    (1000, 7)
    """
    wanted = None if slots is None else check_int("slots", slots, at_least=1)
    if not isinstance(rule, str) or rule not in RULES:
        raise ParameterError(f"unknown rule {rule!r}: {suggest(str(rule), RULES)}")
    where = check_folder(folder)
    coupons, visits = COUPONS.path(where), find_file(where, VISITS.name)
    sources = (coupons,) if visits is None else (coupons, visits)
    cached = cache_beside(
        where, "coupon", sources, __file__, lambda: _order_coupons(coupons, visits)
    )

    pays, coupon = RULES[rule](cached["flags"]), cached["coupon"]
    if only_choosy:
        coupon = coupon[~np.all(pays, axis=1)[coupon]]
    if wanted is not None and wanted > len(coupon):
        what = "coupons" if visits is None else "visits to coupons"
        flags = f"with flags{', not all set' if only_choosy else ''}"
        raise InputError(
            f"cannot read {wanted:,} slots from {sources[-1]}: "
            f"it has {len(coupon):,} {what} {flags}"
        )
    return Coupons(pays.astype(np.uint8)[coupon[:wanted]], WEEKDAYS)


def _order_coupons(coupons: Path, visits: Path | None) -> Arrays:
    """The flags of each coupon that has them, in order of sale, and the coupon of each slot."""
    flagged = COUPONS.read(coupons).unique("COUPON_ID_hash", keep="first", maintain_order=True)
    if flagged.is_empty():
        raise COUPONS.make_error(coupons, "none of its coupons has flags")
    on_sale = flagged.sort("DISPFROM", maintain_order=True)
    flags = on_sale.select(FLAGS).to_numpy()
    if visits is None:
        return {"flags": flags, "coupon": np.arange(len(flags), dtype=np.int32)}

    pl = import_optional("polars")
    numbers = on_sale.select(pl.col("COUPON_ID_hash").alias("VIEW_COUPON_ID_hash")).with_row_index(
        "coupon"
    )
    found = [
        part.with_row_index("line")
        .join(numbers, on="VIEW_COUPON_ID_hash")
        .sort("I_DATE", "line")
        .select("I_DATE", "coupon")
        for part in VISITS.read_parts(visits)
    ]
    in_time = pl.concat(found).sort("I_DATE", maintain_order=True)
    if in_time.is_empty():
        raise VISITS.make_error(
            visits, f"none of its visits is to a coupon that has flags in {coupons.name}"
        )
    return {"flags": flags, "coupon": in_time["coupon"].to_numpy()}
