"""The original data of the paper's adversarial experiments, two competitions of Kaggle.

Their rules do not allow others to pass the files on, so the package has none of their rows:
`load_outbrain` and `load_coupon` read the user's own copies. In Outbrain Click Prediction (2016) a
slot is a click and an arm a category of pages; in Coupon Purchase Prediction (2015) a slot is a
visit to a coupon and an arm a weekday.

The files are large, and may be plain, gzipped or zipped. They are unpacked while they are read, so
that no copy is ever on disk and a file of any length takes the same memory. A `Table` is such a
file with its columns; its rows are checked a block at a time. What was read is cached beside them.
"""

import gzip
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from aftereffect._core import (
    atomic_write,
    check_int,
    describe_code,
    import_optional,
    short_repr,
    sources_digest,
    suggest,
)
from aftereffect.errors import InputError, OutputError, ParameterError
from aftereffect.rewards import OTHER_SEPARATORS

if TYPE_CHECKING:
    import polars

__all__ = ["Clicks", "Coupons", "load_coupon", "load_outbrain"]

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Ids: TypeAlias = npt.NDArray[np.int64]

#: Bytes in a block: enough that parsing takes longer than handling, and few beside the memory.
BLOCK = 8 << 20
#: The formats by the ending of the name, in the order in which they are looked for.
FORMATS = {".csv": "csv", ".csv.gz": "gzip", ".csv.zip": "zip"}
_KEY = "made_of"


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, if it is one."""
    path = Path(folder)
    if not path.is_dir():
        problem = "it is not a folder" if path.exists() else "there is no such folder"
        raise InputError(f"cannot read {path}: {problem}")
    return path


def find_file(folder: Path, name: str) -> Path | None:
    """The file of this name in whichever format is there, or None."""
    paths = (folder / f"{name}{ending}" for ending in FORMATS)
    return next((path for path in paths if path.is_file()), None)


def read_blocks(path: Path) -> Iterator[bytes]:
    """The header line, then blocks of whole lines.

    A line ends at each line break: none of the original files has one within a value.
    """
    with _name_errors(path), _open(path) as stream:
        yield stream.readline(BLOCK)
        while block := stream.read(BLOCK):
            yield block + stream.readline(BLOCK)


class _Stream(Protocol):
    """A file that is being unpacked."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int, /) -> bytes: ...


@contextmanager
def _open(path: Path) -> Iterator[_Stream]:
    """The unpacked contents of a file."""
    if path.suffix == ".gz":
        with gzip.open(path) as unzipped:
            yield unzipped
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            members = [
                name
                for name in archive.namelist()
                if name.endswith(".csv") and not name.startswith("__MACOSX/")
            ]
            if len(members) != 1:
                found = ", ".join(members) or "none"
                raise InputError(f"cannot read {path}: expected one csv file in it, found {found}")
            with archive.open(members[0]) as member:
                yield member
    else:
        with path.open("rb") as plain:
            yield plain


@contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    """Name the file in the message if it cannot be unpacked."""
    try:
        yield
    except InputError:
        raise
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile):
        form = next(FORMATS[ending] for ending in FORMATS if path.name.endswith(ending))
        raise InputError(
            f"cannot read {path}: it is not a complete {form} file of {path.stem}, "
            "download it again"
        ) from None
    except RuntimeError as error:  # zipfile raises it for encryption and for unknown methods
        raise InputError(
            f"cannot read {path}: unpack it to {path.stem} with another program ({error})"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def cache_beside(
    folder: Path, name: str, sources: Iterable[Path], make: Callable[[], Arrays]
) -> Arrays:
    """The arrays that `make` makes of the source files, cached in the folder.

    They are made anew only when a source file or this package has changed. If the folder cannot be
    written, nothing is cached.
    """
    target = folder / f".aftereffect-{name}.npz"
    states = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    key = json.dumps([describe_code(), sources_digest([Path(__file__)]), states])
    cached = _load_cached(target, key)
    if cached is not None:
        return cached
    arrays = make()
    contents: dict[str, Any] = {_KEY: key, **arrays}
    with suppress(OutputError), atomic_write(target) as draft:
        np.savez_compressed(draft, **contents)
    return arrays


def _load_cached(target: Path, key: str) -> Arrays | None:
    try:
        with target.open("rb") as file, np.load(file) as stored:
            if str(stored[_KEY]) != key:
                return None
            return {name: stored[name] for name in stored.files if name != _KEY}
    except Exception:  # whatever is wrong with the cached file, it is made anew
        return None


class ColumnType(NamedTuple):
    """The type of a column: its name in messages, and how to read it; other text becomes null."""

    plural: str
    read: Callable[["polars.Expr"], "polars.Expr"]


def _read_int(text: "polars.Expr") -> "polars.Expr":
    return text.cast(import_optional("polars").Int64, strict=False)


def _read_float(text: "polars.Expr") -> "polars.Expr":
    return text.cast(import_optional("polars").Float64, strict=False).fill_nan(None)


def _read_time(text: "polars.Expr") -> "polars.Expr":
    return text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)


def _read_text(text: "polars.Expr") -> "polars.Expr":
    return text


INTEGER = ColumnType("whole numbers", _read_int)
NUMBER = ColumnType("numbers", _read_float)
TIME = ColumnType("times such as 2012-01-31 09:30:00", _read_time)
TEXT = ColumnType("text", _read_text)


@dataclass(frozen=True)
class Table:
    """An original file: its name without the ending, the columns we need, its word for null."""

    name: str
    columns: Mapping[str, ColumnType]
    missing: str

    def path(self, folder: Path) -> Path:
        """The path of the file, in whichever format."""
        path = find_file(folder, self.name)
        if path is None:
            names = ", ".join(self.name + ending for ending in FORMATS)
            raise InputError(f"cannot read {folder}: it has none of {names}; {self._expected}")
        return path

    def make_error(self, path: Path, problem: str) -> InputError:
        """The error to raise if the file is not as it should be."""
        return InputError(f"cannot read {path}: {problem}; {self._expected}")

    def read_parts(self, path: Path) -> Iterator["polars.DataFrame"]:
        """The rows without nulls, in the order of the file."""
        pl = import_optional("polars")
        lines = read_blocks(path)
        header = self._read_header(path, next(lines))
        before = 1
        for block in lines:
            self._check_encoding(path, block, before)
            try:
                text = pl.read_csv(
                    header + block,
                    columns=list(self.columns),
                    infer_schema_length=0,
                    null_values=self.missing,
                )
            except pl.exceptions.PolarsError:
                raise self.make_error(
                    path, f"what follows line {before:,} is not comma-separated text"
                ) from None
            values = text.select(
                kind.read(pl.col(name)).alias(name) for name, kind in self.columns.items()
            )
            self._check_types(path, text, values, before)
            yield values.drop_nulls()
            before += block.count(b"\n") or 1  # the last line may have no line break
        if before == 1:
            raise self.make_error(path, "it has no rows")

    def read(self, path: Path) -> "polars.DataFrame":
        """All rows at once, for a small file."""
        frame: polars.DataFrame = import_optional("polars").concat(self.read_parts(path))
        return frame

    @property
    def _expected(self) -> str:
        return f"expected the comma-separated columns {', '.join(self.columns)}"

    def _read_header(self, path: Path, line: bytes) -> bytes:
        """The header line, after a check that it has all columns that we need."""
        self._check_encoding(path, line, 0)
        text = line.decode("utf-8-sig").rstrip("\r\n")
        if not text:
            raise self.make_error(path, "it is empty" if not line else "its first line is empty")
        names = _split(text, ",")
        absent = [name for name in self.columns if name not in names]
        if absent:
            other = next(
                (mark for mark in OTHER_SEPARATORS if set(absent) <= set(_split(text, mark))), None
            )
            lacks = f"it lacks the column{'s' * (len(absent) > 1)} {', '.join(absent)}"
            raise self.make_error(
                path, lacks if other is None else f"its columns are separated by {other!r}"
            )
        return text.encode() + b"\n"

    def _check_encoding(self, path: Path, block: bytes, before: int) -> None:
        try:
            block.decode()
        except UnicodeDecodeError as error:
            line = before + block.count(b"\n", 0, error.start) + 1
            raise self.make_error(path, f"line {line:,} is not UTF-8 text") from None

    def _check_types(
        self, path: Path, text: "polars.DataFrame", values: "polars.DataFrame", before: int
    ) -> None:
        for name, kind in self.columns.items():
            if values[name].null_count() > text[name].null_count():
                row = (values[name].is_null() & text[name].is_not_null()).arg_true()[0]
                raise self.make_error(
                    path,
                    f"line {before + row + 1:,} has {short_repr(text[name][row])} in the column "
                    f"{name}, which holds {kind.plural}",
                )


def _split(text: str, mark: str) -> list[str]:
    return [name.strip('"') for name in text.split(mark)]


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
    cached = cache_beside(where, "coupon", sources, lambda: _order_coupons(coupons, visits))

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
