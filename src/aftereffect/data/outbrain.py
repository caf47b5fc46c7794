"""Outbrain Click Prediction (Kaggle, 2016): every slot is a display with one click, every arm a category of pages."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from aftereffect import checks
from aftereffect.data.cache import Arrays, kept_beside
from aftereffect.data.packing import existing_folder
from aftereffect.data.tables import NUMBER, WHOLE, Table
from aftereffect.errors import InputError, ParameterError
from aftereffect.extras import imported
from aftereffect.spec import nearest

if TYPE_CHECKING:
    import polars

Ids: TypeAlias = npt.NDArray[np.int64]

CLICKS = Table("clicks_train", {"display_id": WHOLE, "ad_id": WHOLE, "clicked": WHOLE}, missing=r"\N")
ADS = Table("promoted_content", {"ad_id": WHOLE, "document_id": WHOLE}, missing=r"\N")
CATEGORIES = Table(
    "documents_categories", {"document_id": WHOLE, "category_id": WHOLE, "confidence_level": NUMBER}, missing=r"\N"
)

#: Which categories make one arm: those that get the same number.
GROUPINGS: dict[str, Callable[[Ids], Ids]] = {"parents": lambda ids: ids // 100, "raw": lambda ids: ids}


class Clicks(NamedTuple):
    """The arm that pays in each slot, and the category that each arm stands for."""

    paying: npt.NDArray[np.int16]
    names: tuple[str, ...]


def load_outbrain(
    folder: str | os.PathLike[str], slots: int | None = None, arms: Literal["parents", "raw"] | int = "parents"
) -> Clicks:
    """Which arm pays in each slot, by the clicks of Outbrain.

    A slot is a click, in the order of displays, which is that of time. It leads to an ad, the ad to its document, and the
    document to its category of highest confidence (the smallest where several have it); that category's arm pays. Clicks
    that do not lead to a category are left out.

    Parameters
    ----------
    folder
        Where clicks_train, promoted_content and documents_categories are, each as .csv, .csv.gz or .csv.zip. What was read
        is kept there in a small file, so that it is read once for all slots and arms; a folder that cannot be written does
        as well, more slowly.
    slots
        How many clicks, from the first on; all if not given.
    arms
        ``"parents"`` for the parent categories, 12 in the original file; ``"raw"`` for the categories themselves, 97; or a
        number n for the n parent categories that are clicked most in the whole file (the smaller id where equally often),
        without the clicks on others. Arms are in the order of category ids.

    Raises
    ------
    InputError
        If a file is missing or not what it should be, or if there are fewer slots.
    ParameterError
        If slots or arms are outside what is allowed.
    """
    wanted = None if slots is None else checks.whole("slots", slots, at_least=1)
    most = None if isinstance(arms, str) else checks.whole("arms, if neither 'parents' nor 'raw',", arms, at_least=2)
    if isinstance(arms, str) and arms not in GROUPINGS:
        raise ParameterError(f"unknown arms {arms!r}: {nearest(arms, GROUPINGS)}")
    where = existing_folder(folder)
    clicks, ads, categories = (table.path(where) for table in (CLICKS, ADS, CATEGORIES))
    kept = kept_beside(where, "outbrain", (clicks, ads, categories), lambda: _clicked_categories(clicks, ads, categories))

    grouping = GROUPINGS[arms] if isinstance(arms, str) else GROUPINGS["parents"]
    ids, arm_of_category = np.unique(grouping(kept["category_ids"]), return_inverse=True)
    paying = arm_of_category.astype(np.int16)[kept["clicked"]]
    if most is not None:
        if most > len(ids):
            raise ParameterError(f"arms must be at most {len(ids)}, the parent categories in {categories}, got {most}")
        ids, paying = _most_clicked(most, ids, paying)
    if wanted is not None and wanted > len(paying):
        raise InputError(f"cannot read {wanted:,} slots from {clicks}: it has {len(paying):,} clicks on these arms")
    return Clicks(paying[:wanted], tuple(map(str, ids)))


def _most_clicked(most: int, ids: Ids, paying: npt.NDArray[np.int16]) -> tuple[Ids, npt.NDArray[np.int16]]:
    """Some of the arms, and the slots in which one of them pays."""
    by_clicks = np.argsort(-np.bincount(paying, minlength=len(ids)), kind="stable")
    chosen = np.sort(by_clicks[:most])
    place = np.full(len(ids), -1, np.int16)
    place[chosen] = np.arange(most)
    moved = place[paying]
    return ids[chosen], moved[moved >= 0]


def _clicked_categories(clicks: Path, ads: Path, categories: Path) -> Arrays:
    """All category ids there are, sorted, and for each click in time order which of them it leads to."""
    pl = imported("polars")
    category_ids, category_of_ad = _categories_of_ads(ads, categories)
    found, clicked = [], 0
    for part in CLICKS.parts(clicks):
        chosen = part.filter(pl.col("clicked") == 1).with_row_index("line")
        found.append(chosen.join(category_of_ad, on="ad_id").sort("display_id", "line").select("display_id", "category"))
        clicked += chosen.height
    if not clicked:
        raise CLICKS.refusal(clicks, "none of its rows has clicked = 1")
    in_time = pl.concat(found).sort("display_id", maintain_order=True)
    if in_time.is_empty():
        raise CLICKS.refusal(
            clicks, f"none of its {clicked:,} clicks leads through {ads.name} to a category in {categories.name}"
        )
    return {"category_ids": category_ids, "clicked": in_time["category"].to_numpy()}


def _categories_of_ads(ads: Path, categories: Path) -> tuple[Ids, "polars.DataFrame"]:
    """All category ids there are, sorted, and for each ad which of them it leads to."""
    pl = imported("polars")
    document_of_ad = ADS.rows(ads).unique("ad_id", keep="first", maintain_order=True)
    category_ids: Ids = np.empty(0, np.int64)
    candidates = []
    for part in CATEGORIES.parts(categories):
        category_ids = np.union1d(category_ids, part["category_id"].unique().to_numpy())
        candidates.append(part.join(document_of_ad, on="document_id", how="semi"))  # few of all documents have an ad
    if len(category_ids) > np.iinfo(np.int16).max:
        raise CATEGORIES.refusal(categories, f"it has {len(category_ids):,} different categories")
    best = (
        pl.concat(candidates)
        .sort("confidence_level", "category_id", descending=[True, False])
        .unique("document_id", keep="first", maintain_order=True)
    )
    place = np.searchsorted(category_ids, best["category_id"].to_numpy()).astype(np.int16)
    category_of_document = best.select("document_id", pl.Series("category", place))
    return category_ids, document_of_ad.join(category_of_document, on="document_id").select("ad_id", "category")
