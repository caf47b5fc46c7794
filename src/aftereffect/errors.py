"""Every error that aftereffect raises on purpose.

::

    AftereffectError
    |-- SpecError           (ValueError)   a spec string that cannot be read
    |-- ParameterError      (ValueError)   a value outside its range
    |   |-- UnknownPolicyError (KeyError)  a policy that a study does not have
    |   `-- UnlikelyTotalError             a total far from all others; confirm it
    |-- SweepError          (ValueError)   a sweep file with problems, all of them listed
    |-- OutputError         (OSError)      a path that cannot be written
    |-- InputError          (OSError)      a file that cannot be read
    |-- MissingExtraError   (ImportError)  an optional dependency that is not installed
    |-- WorkerError         (RuntimeError) workers that are gone, unreachable, or run other code
    |-- ConflictError       (ValueError)   a request that contradicts what is recorded
    |-- NotFoundError       (LookupError)  no live experiment of that name
    |-- ServiceError        (OSError)      a service that does not answer, or refuses
    `-- StorageError        (OSError)      a storage that cannot be reached, read or written
        `-- CorruptionError                a storage whose content was damaged or changed

Each leaf is also the builtin error that a caller would catch. Each message is one line that says
what was expected, what came, and what to do.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class AftereffectError(Exception):
    """Base of all errors raised on purpose."""


class SpecError(AftereffectError, ValueError):
    """A spec string such as ``interval(30, 39)`` that cannot be read.

    ``field`` is the parameter it was given for, if that is known.
    """

    field: str | None = None


class ParameterError(AftereffectError, ValueError):
    """A parameter outside its range; ``field`` is its name, if that is known."""

    field: str | None = None


class UnlikelyTotalError(ParameterError):
    """A total far from all others of the experiment: a typing error, unless you confirm it."""


class UnknownPolicyError(ParameterError, KeyError):
    """A policy that a study does not have."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError would show the message in quotes


@contextmanager
def name_field(field: str) -> Iterator[None]:
    """Set ``field`` of the errors raised within, unless they name one."""
    try:
        yield
    except (ParameterError, SpecError) as error:
        error.field = error.field or field
        raise


class SweepError(AftereffectError, ValueError):
    """A sweep file with problems; ``problems`` has a line for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class OutputError(AftereffectError, OSError):
    """A path that cannot be written."""


class InputError(AftereffectError, OSError):
    """A file that cannot be read, or that holds something else than expected."""


class MissingExtraError(AftereffectError, ImportError):
    """An optional dependency that is not installed."""


class WorkerError(AftereffectError, RuntimeError):
    """Workers of an executor that are gone, cannot be reached, or run other code."""


class ConflictError(AftereffectError, ValueError):
    """The request contradicts what is already recorded; nothing was changed.

    ``recorded`` and ``given`` say what differs, by name and in the types of JSON.
    """

    def __init__(
        self,
        message: str,
        recorded: Mapping[str, Any] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.recorded = dict(recorded or {})
        self.given = dict(given or {})


class NotFoundError(AftereffectError, LookupError):
    """No live experiment of that name."""


class ServiceError(AftereffectError, OSError):
    """A service that does not answer, or refuses."""


class StorageError(AftereffectError, OSError):
    """A storage that cannot be reached, read or written."""


class CorruptionError(StorageError):
    """A storage whose content is not what was recorded: damaged or changed."""
