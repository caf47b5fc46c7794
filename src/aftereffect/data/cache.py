"""What is made of large files is kept beside them as a small one."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aftereffect.errors import OutputError
from aftereffect.outputs import replacing
from aftereffect.provenance import made_by

Arrays = dict[str, npt.NDArray[Any]]

_KEY = "made_of"


def kept_beside(folder: Path, name: str, sources: Iterable[Path], make: Callable[[], Arrays]) -> Arrays:
    """The arrays that `make` makes of the source files, made anew only when one of them or this package has changed.

    A folder that cannot be written just keeps nothing.
    """
    target = folder / f".aftereffect-{name}.npz"
    key = _made_of(sources)
    kept = _kept(target, key)
    if kept is not None:
        return kept
    arrays = make()
    contents: dict[str, Any] = {_KEY: key, **arrays}
    with suppress(OutputError), replacing(target) as draft:
        np.savez_compressed(draft, **contents)
    return arrays


def _made_of(sources: Iterable[Path]) -> str:
    """What tells one state of the files from another without reading them, and the code that reads them."""
    states = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    return json.dumps([made_by(), states])


def _kept(target: Path, key: str) -> Arrays | None:
    try:
        with target.open("rb") as file, np.load(file) as stored:
            return {name: stored[name] for name in stored.files if name != _KEY} if str(stored[_KEY]) == key else None
    except Exception:  # whatever is amiss with what was kept, making it anew is the answer
        return None
