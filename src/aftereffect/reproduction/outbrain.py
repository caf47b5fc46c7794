"""Outbrain Click Prediction (2016): a slot is a click, and an arm a category of pages."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from aftereffect._core import check_int, import_optional, suggest
from aftereffect.errors import InputError, ParameterError
from aftereffect.reproduction.datasets import (
    INTEGER,
    NUMBER,
    Arrays,
    Ids,
    Table,
    cache_beside,
    check_folder,
)

if TYPE_CHECKING:
    import polars

CLICKS = Table(
    "clicks_train", {"display_id": INTEGER, "ad_id": INTEGER, "clicked": INTEGER}, missing=r"\N"
)
ADS = Table("promoted_content", {"ad_id": INTEGER, "document_id": INTEGER}, missing=r"\N")
CATEGORIES = Table(
    "documents_categories",
    {"document_id": INTEGER, "category_id": INTEGER, "confidence_level": NUMBER},
    missing=r"\N",
)

#: How categories are grouped into arms: those with the same number make one arm.
GROUPINGS: dict[str, Callable[[Ids], Ids]] = {
    "parents": lambda ids: ids // 100,
    "raw": lambda ids: ids,
}


class Clicks(NamedTuple):
    """The arm that pays in each slot, and the category of each arm.

    >>> clicks = Clicks(np.array([0, 1, 1], np.int16), ("14", "17"))
    >>> clicks.names[clicks.paying[2]]
    '17'
    """

    paying: npt.NDArray[np.int16]
    names: tuple[str, ...]


def load_outbrain(
    folder: str | os.PathLike[str],
    slots: int | None = None,
    arms: Literal["parents", "raw"] | int = "parents",
) -> Clicks:
    """Which arm pays in each slot, by the clicks of Outbrain.

    A slot is a click, in the order of displays, which is the order of time. A click leads to an ad,
    the ad to its document, and the document to its category of highest confidence (the smallest id
    if several have it). The arm of that category pays. Clicks that lead to no category are left
    out.

    Parameters
    ----------
    folder
        The folder with clicks_train, promoted_content and documents_categories, each as .csv,
        .csv.gz or .csv.zip. The result is cached there in a small file, which serves all values of
        slots and arms; if the folder cannot be written, the files are read each time.
    slots
        How many clicks, from the first on; all by default.
    arms
        ``"parents"``: the parent categories, 12 in the original file. ``"raw"``: the categories
        themselves, 97. A number n: the n parent categories with the most clicks in the whole file
        (the smaller id if equal), without the clicks on others. Arms are in the order of category
        ids.

    Raises
    ------
    InputError
        If a file is missing or damaged, or has fewer slots.
    ParameterError
        If slots or arms are not allowed.

    Examples
    --------
    >>> load_outbrain("kaggle/outbrain", slots=1_000, arms=3).paying.shape  # doctest: +SKIP
    (1000,)
    """
    wanted = None if slots is None else check_int("slots", slots, at_least=1)
    count = None
    if not isinstance(arms, str):
        count = check_int("arms, if neither 'parents' nor 'raw',", arms, at_least=2)
    elif arms not in GROUPINGS:
        raise ParameterError(f"unknown arms {arms!r}: {suggest(arms, GROUPINGS)}")
    where = check_folder(folder)
    clicks, ads, categories = (table.path(where) for table in (CLICKS, ADS, CATEGORIES))
    cached = cache_beside(
        where,
        "outbrain",
        (clicks, ads, categories),
        __file__,
        lambda: _find_clicked_categories(clicks, ads, categories),
    )

    grouping = GROUPINGS[arms] if isinstance(arms, str) else GROUPINGS["parents"]
    ids, arm_of_category = np.unique(grouping(cached["category_ids"]), return_inverse=True)
    paying = arm_of_category.astype(np.int16)[cached["clicked"]]
    if count is not None:
        if count > len(ids):
            raise ParameterError(
                f"arms must be at most {len(ids)}, the number of parent categories in {categories},"
                f" got {count}"
            )
        ids, paying = _select_most_clicked(count, ids, paying)
    if wanted is not None and wanted > len(paying):
        raise InputError(
            f"cannot read {wanted:,} slots from {clicks}: "
            f"it has {len(paying):,} clicks on these arms"
        )
    return Clicks(paying[:wanted], tuple(map(str, ids)))


def _select_most_clicked(
    count: int, ids: Ids, paying: npt.NDArray[np.int16]
) -> tuple[Ids, npt.NDArray[np.int16]]:
    """The arms with the most clicks, and the slots in which one of them pays."""
    by_clicks = np.argsort(-np.bincount(paying, minlength=len(ids)), kind="stable")
    chosen = np.sort(by_clicks[:count])
    new_arm = np.full(len(ids), -1, np.int16)
    new_arm[chosen] = np.arange(count)
    renumbered = new_arm[paying]
    return ids[chosen], renumbered[renumbered >= 0]


def _find_clicked_categories(clicks: Path, ads: Path, categories: Path) -> Arrays:
    """All category ids, sorted, and the category of each click in order of time."""
    pl = import_optional("polars")
    category_ids, category_of_ad = _find_categories_of_ads(ads, categories)
    found, clicked = [], 0
    for part in CLICKS.read_parts(clicks):
        chosen = part.filter(pl.col("clicked") == 1).with_row_index("line")
        found.append(
            chosen.join(category_of_ad, on="ad_id")
            .sort("display_id", "line")
            .select("display_id", "category")
        )
        clicked += chosen.height
    if not clicked:
        raise CLICKS.make_error(clicks, "none of its rows has clicked = 1")
    in_time = pl.concat(found).sort("display_id", maintain_order=True)
    if in_time.is_empty():
        raise CLICKS.make_error(
            clicks,
            f"none of its {clicked:,} clicks leads through {ads.name} to a category in "
            f"{categories.name}",
        )
    return {"category_ids": category_ids, "clicked": in_time["category"].to_numpy()}


def _find_categories_of_ads(ads: Path, categories: Path) -> tuple[Ids, "polars.DataFrame"]:
    """All category ids, sorted, and the category of each ad."""
    pl = import_optional("polars")
    document_of_ad = ADS.read(ads).unique("ad_id", keep="first", maintain_order=True)
    category_ids: Ids = np.empty(0, np.int64)
    candidates = []
    for part in CATEGORIES.read_parts(categories):
        category_ids = np.union1d(category_ids, part["category_id"].unique().to_numpy())
        # Few of all documents have an ad.
        candidates.append(part.join(document_of_ad, on="document_id", how="semi"))
    if len(category_ids) > np.iinfo(np.int16).max:
        raise CATEGORIES.make_error(
            categories, f"it has {len(category_ids):,} different categories"
        )
    best = (
        pl.concat(candidates)
        .sort("confidence_level", "category_id", descending=[True, False])
        .unique("document_id", keep="first", maintain_order=True)
    )
    category = np.searchsorted(category_ids, best["category_id"].to_numpy()).astype(np.int16)
    category_of_document = best.select("document_id", pl.Series("category", category))
    return category_ids, document_of_ad.join(category_of_document, on="document_id").select(
        "ad_id", "category"
    )
