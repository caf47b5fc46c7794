"""Every error that aftereffect raises on purpose.

::

    AftereffectError
    |-- SpecError           (ValueError)   a spec string that cannot be read
    |-- ParameterError      (ValueError)   a value outside what is allowed
    |   `-- UnlikelyTotalError             a total far from all that was seen, which must be confirmed
    |-- SweepError          (ValueError)   a sweep file that cannot be played, with all its problems
    |-- OutputError         (OSError)      a path that cannot be written
    |-- InputError          (OSError)      a file that cannot be read as what it should be
    |-- MissingExtraError   (ImportError)  an optional dependency that is not installed
    |-- WorkerError         (RuntimeError) workers that cannot be reached, are gone, or run other code
    |-- ConflictError       (ValueError)   something else than what a live experiment has recorded
    |-- NotFoundError       (LookupError)  no live experiment of that name
    |-- ServiceError        (OSError)      a service that is away, or refuses
    `-- StorageError        (OSError)      a storage that cannot be reached, read or written
        `-- CorruptionError                a storage that holds something else than was recorded

Each leaf is also the builtin that a caller would think of catching, and each message is one line that says what was
expected, what came, and what to do.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class AftereffectError(Exception):
    """Base of all errors raised on purpose."""


class SpecError(AftereffectError, ValueError):
    """A spec string such as ``interval(30, 40)`` that cannot be read; ``field`` is its parameter where that is known."""

    field: str | None = None


class ParameterError(AftereffectError, ValueError):
    """A parameter outside what is allowed; ``field`` is its name where that is known."""

    field: str | None = None


class UnlikelyTotalError(ParameterError):
    """A total that is far from all that a live experiment has seen: a typing error, or to be confirmed."""


@contextmanager
def about(field: str) -> Iterator[None]:
    """Name the parameter that errors raised within are about."""
    try:
        yield
    except (ParameterError, SpecError) as error:
        error.field = field
        raise


class SweepError(AftereffectError, ValueError):
    """A sweep file that cannot be played; ``problems`` has a line for each reason."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class OutputError(AftereffectError, OSError):
    """A path that cannot be written."""


class InputError(AftereffectError, OSError):
    """A file that cannot be read as what it should be."""


class MissingExtraError(AftereffectError, ImportError):
    """An optional dependency that is not installed."""


class WorkerError(AftereffectError, RuntimeError):
    """Workers of an executor that cannot be reached, are gone, or run other code."""


class ConflictError(AftereffectError, ValueError):
    """Something else than what a live experiment has recorded; nothing was changed.

    ``recorded`` is what it has, and ``given`` what came, by name and in the types that JSON has.
    """

    def __init__(self, message: str, recorded: Mapping[str, Any] | None = None, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.recorded = dict(recorded or {})
        self.given = dict(given or {})


class NotFoundError(AftereffectError, LookupError):
    """No live experiment of that name."""


class ServiceError(AftereffectError, OSError):
    """A service that is away, or refuses."""


class StorageError(AftereffectError, OSError):
    """A storage that cannot be reached, read or written."""


class CorruptionError(StorageError):
    """A storage that holds something else than was recorded."""
