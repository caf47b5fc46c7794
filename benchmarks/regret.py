"""Put the regret of SettleUcb beside rivals and oracles into a document: ``make regret``.

``aftereffect reproduce --chapter beyond`` plays, draws and reports; this command reads its folder
(and plays what is missing there), prints the verdict on each claim, rewrites the tables between
markers in the document, and copies the pictures that it shows. The exit status is 1 if a claim was
not reproduced.
"""

import argparse
import shutil
import sys
from pathlib import Path

from aftereffect._core import check_writable
from aftereffect.errors import AftereffectError
from aftereffect.reproduction import (
    CHAPTERS,
    DEFAULT,
    format_verdict,
    reproduce,
    summarize_dynamical,
    summarize_exponents,
    summarize_orders,
    summarize_price,
    summarize_regret,
)
from tables import replace_between_markers, split_at_markers

#: The tables, and the words that mark their places.
TABLES = {
    "regret": summarize_regret,
    "orders": summarize_orders,
    "price": summarize_price,
    "exponents": summarize_exponents,
    "dynamical": summarize_dynamical,
}
#: What the document shows.
PICTURES = ("price-of-anonymity.png", "dynamical-linear-bandits.png")


def markers(name: str) -> tuple[str, str]:
    """What stands before and after a table."""
    return f"<!-- {name}: written by make regret -->", f"<!-- /{name} -->"


def main() -> int:
    """Write the table and return the exit status."""
    parser = argparse.ArgumentParser(description="the regret of SettleUcb beside its rivals")
    parser.add_argument("folder", type=Path, help="the folder of aftereffect reproduce")
    parser.add_argument(
        "document",
        type=Path,
        help=f"its text between markers such as {markers('regret')} is replaced",
    )
    options = parser.parse_args()
    try:
        document = check_writable(options.document, (".md",))
        for name in TABLES:
            split_at_markers(document.read_text(encoding="utf-8"), *markers(name))
        claims = reproduce(options.folder, CHAPTERS["beyond"].figures.values(), DEFAULT)
    except (AftereffectError, OSError, ValueError) as problem:
        parser.error(f"cannot write the table into {options.document}: {problem}")
    for name, summarize in TABLES.items():
        replace_between_markers(document, *markers(name), summarize(options.folder, DEFAULT))
    for picture in PICTURES:
        shutil.copyfile(options.folder / picture, document.with_name(picture))
    judgements = [(claim, found) for claim, cases in claims for found in cases.values()]
    for claim, found in judgements:
        print(f"{format_verdict(found)}: {claim.title} ({found.count})")
    return 0 if all(found.verdict == "reproduced" for _, found in judgements) else 1


if __name__ == "__main__":
    sys.exit(main())
