"""Draw the pictures of the gallery, with the very code that the gallery shows: `make pictures`."""

import doctest
import os
import shutil
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent

if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "Agg"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "benchmarks").symlink_to(DOCS.parent / "benchmarks")
        os.chdir(folder)
        failed, _ = doctest.testfile(str(DOCS / "gallery.md"), module_relative=False)
        for picture in sorted(Path(folder).glob("*.png")):
            shutil.copy(picture, DOCS / "pictures" / picture.name)
    sys.exit(1 if failed else 0)
