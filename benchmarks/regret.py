"""Put the regret of SettleUcb beside its rivals into a document: ``make regret``.

``aftereffect reproduce --chapter beyond`` plays, draws and reports; this command reads its folder
(and plays what is missing there), prints the verdict on each claim and rewrites the table between
two markers in the document. The exit status is 1 if a claim was not reproduced.
"""

import argparse
import sys
from pathlib import Path

from aftereffect._core import check_writable
from aftereffect.errors import AftereffectError
from aftereffect.reproduction import CHAPTERS, DEFAULT, format_verdict, reproduce, summarize_regret
from tables import replace_between_markers, split_at_markers

BEGIN, END = "<!-- regret: written by make regret -->", "<!-- /regret -->"


def main() -> int:
    """Write the table and return the exit status."""
    parser = argparse.ArgumentParser(description="the regret of SettleUcb beside its rivals")
    parser.add_argument("folder", type=Path, help="the folder of aftereffect reproduce")
    parser.add_argument(
        "document", type=Path, help=f"its text between {BEGIN} and {END} is replaced"
    )
    options = parser.parse_args()
    try:
        document = check_writable(options.document, (".md",))
        split_at_markers(document.read_text(encoding="utf-8"), BEGIN, END)
        claims = reproduce(options.folder, CHAPTERS["beyond"].figures.values(), DEFAULT)
    except (AftereffectError, OSError, ValueError) as problem:
        parser.error(f"cannot write the table into {options.document}: {problem}")
    replace_between_markers(document, BEGIN, END, summarize_regret(options.folder, DEFAULT))
    judgements = [(claim, found) for claim, cases in claims for found in cases.values()]
    for claim, found in judgements:
        print(f"{format_verdict(found)}: {claim.title} ({found.count})")
    return 0 if all(found.verdict == "reproduced" for _, found in judgements) else 1


if __name__ == "__main__":
    sys.exit(main())
