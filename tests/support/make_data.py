"""Files in the schema of the originals, and what loaders should say of them, row by row."""

import csv
import gzip
import io
import random
import zipfile
from pathlib import Path

import pytest

import aftereffect as ae

ENDINGS = (".csv", ".csv.gz", ".csv.zip")
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
Rows = list[dict[str, object]]


def format_csv(rows: Rows) -> bytes:
    """The rows as the text of a csv file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def write_file(folder: Path, name: str, text: bytes, ending: str = ".csv") -> Path:
    """Write a file with this text in one of the formats."""
    path = folder / (name + ending)
    if ending == ".csv":
        path.write_bytes(text)
    elif ending == ".csv.gz":
        path.write_bytes(gzip.compress(text))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{name}.csv", text)
    return path


def write_files(folder: Path, files: dict[str, Rows], ending: str = ".csv") -> Path:
    """Write some files in one of the formats; return the folder."""
    for name, rows in files.items():
        write_file(folder, name, format_csv(rows), ending)
    return folder


def make_outbrain(displays: int, seed: int) -> dict[str, Rows]:
    """The three files of Outbrain.

    Displays are out of order, some ads and documents lead nowhere, and some confidences are equal.
    """
    rng = random.Random(seed)
    documents = [rng.randrange(10**6) for _ in range(60)]
    categories: Rows = [
        {
            "document_id": document,
            "category_id": category,
            "confidence_level": rng.choice((0.92, 0.5, 0.07, 1e-5)),
        }
        for document in documents[:50]
        for category in rng.sample([1403, 1408, 1510, 1702, 1907, 1909], 2)
    ]
    categories.append(
        {"document_id": 10**6 + 1, "category_id": 1100, "confidence_level": 0.9}
    )  # no ad leads to it
    ads: Rows = [
        {
            "ad_id": ad,
            "document_id": rng.choice((*documents, r"\N")),
            "campaign_id": rng.randrange(9),
            "advertiser_id": 7,
        }
        for ad in range(1, 101)
    ]
    clicks: Rows = []
    for display in rng.sample(range(1, displays + 1), displays):
        shown = rng.sample(range(1, 111), rng.randrange(2, 7))
        chosen = rng.choice(shown)
        clicks += [
            {"display_id": display, "ad_id": ad, "clicked": int(ad == chosen)} for ad in shown
        ]
    return {"clicks_train": clicks, "promoted_content": ads, "documents_categories": categories}


def list_clicked_categories(files: dict[str, Rows]) -> list[int]:
    """The category of each click in order of time, found row by row."""
    document_of = {row["ad_id"]: row["document_id"] for row in files["promoted_content"]}
    found = []
    for row in sorted(files["clicks_train"], key=lambda row: row["display_id"]):
        if row["clicked"] == 1:
            document = document_of.get(row["ad_id"])
            candidates = [
                each for each in files["documents_categories"] if each["document_id"] == document
            ]
            if candidates:
                best = min(
                    candidates, key=lambda each: (-each["confidence_level"], each["category_id"])
                )
                found.append(best["category_id"])
    return found


def make_coupon(visits: int, seed: int) -> dict[str, Rows]:
    """The two files of Coupon, with Japanese text and coupons without flags.

    Visits are out of order, some at equal times, some to unknown coupons.
    """
    rng = random.Random(seed)
    coupons: Rows = []
    for number in range(40):
        flags = (
            [rng.choices((0, 1, 2), (2, 5, 1))[0] for _ in WEEKDAYS]
            if rng.random() < 0.7
            else ["NA"] * 7
        )
        coupons.append(
            {"CAPSULE_TEXT": "グルメ", "DISPFROM": _draw_time(rng, days=4)}
            | {f"USABLE_DATE_{day}": flag for day, flag in zip(WEEKDAYS, flags, strict=True)}
            | {"USABLE_DATE_HOLIDAY": 1, "ken_name": "埼玉県", "COUPON_ID_hash": f"{number:032x}"}
        )
    coupons[0] |= {f"USABLE_DATE_{day}": 1 for day in WEEKDAYS}  # one that is usable every day
    visited: Rows = [
        {
            "PURCHASE_FLG": 0,
            "I_DATE": _draw_time(rng, days=9),
            "PAGE_SERIAL": 2,
            "VIEW_COUPON_ID_hash": f"{rng.randrange(45):032x}",
        }
        for _ in range(visits)
    ]
    return {"coupon_list_train": coupons, "coupon_visit_train": visited}


def list_flags(files: dict[str, Rows]) -> list[list[int]]:
    """The weekday flags of each slot in order of time, found row by row."""
    coupons = {
        row["COUPON_ID_hash"]: row
        for row in files["coupon_list_train"]
        if row["USABLE_DATE_MON"] != "NA"
    }
    if "coupon_visit_train" in files:
        visits = sorted(files["coupon_visit_train"], key=lambda row: row["I_DATE"])
        slots = [
            coupons[row["VIEW_COUPON_ID_hash"]]
            for row in visits
            if row["VIEW_COUPON_ID_hash"] in coupons
        ]
    else:
        slots = sorted(coupons.values(), key=lambda row: row["DISPFROM"])
    return [[row[f"USABLE_DATE_{day}"] for day in WEEKDAYS] for row in slots]


def _draw_time(rng: random.Random, days: int) -> str:
    return f"2011-07-{rng.randrange(1, days + 1):02d} {rng.randrange(24):02d}:00:00"


def refusal(call, error=ae.InputError) -> str:
    """The message of an error, one line."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    return message


OUTBRAIN = make_outbrain(displays=300, seed=1)
COUPON = make_coupon(visits=400, seed=2)
