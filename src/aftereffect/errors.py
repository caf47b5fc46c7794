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
    """Base of all errors raised on purpose.

    Examples
    --------
    >>> import aftereffect as ae
    >>> try:
    ...     ae.Interval(39, 30)
    ... except ae.AftereffectError as error:
    ...     print(error)
    the last lag must be at least the first, 39, got 30
    """


class SpecError(AftereffectError, ValueError):
    """A spec string such as ``interval(30, 39)`` that cannot be read.

    ``field`` is the parameter it was given for, if that is known.

    Examples
    --------
    >>> import aftereffect as ae
    >>> ae.parse("interval(30 39)", ae.Delay)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    aftereffect.errors.SpecError: cannot read the spec 'interval(30 39)': expected ',' or ')', got
    '39'
    """

    field: str | None = None


class ParameterError(AftereffectError, ValueError):
    """A parameter outside its range; ``field`` is its name, if that is known.

    Examples
    --------
    >>> import aftereffect as ae
    >>> ae.Interval(39, 30)
    Traceback (most recent call last):
        ...
    aftereffect.errors.ParameterError: the last lag must be at least the first, 39, got 30
    """

    field: str | None = None


class UnlikelyTotalError(ParameterError):
    """A total far from all others of the experiment: a typing error, unless you confirm it.

    Examples
    --------
    >>> import aftereffect as ae
    >>> shop = ae.Experiment.create("shop", arms=["A", "B"], seed=1, storage="memory://")
    >>> _ = shop.tell_many([(shop.ask().slot, 100 + day % 3) for day in range(40)])
    >>> shop.tell(shop.ask().slot, 5000)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    aftereffect.errors.UnlikelyTotalError: the total of slot 40 is unlikely: got 5000, and the 40
    totals so far were 100 to 102; confirm it if it is right
    >>> shop.tell(40, 5000, confirm=True).change
    'recorded'
    """


class UnknownPolicyError(ParameterError, KeyError):
    """A policy that a study does not have.

    Examples
    --------
    >>> import aftereffect as ae
    >>> study = ae.simulate("ucb1", ae.StochasticBandit([0.9, 0.1]), 10, 2, seed=1)
    >>> study["exp3"]
    Traceback (most recent call last):
        ...
    aftereffect.errors.UnknownPolicyError: no policy 'exp3' in this study; there are: ucb1
    """

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
    r"""A sweep file with problems; ``problems`` has a line for each.

    Examples
    --------
    >>> import aftereffect as ae
    >>> from pathlib import Path
    >>> _ = Path("sweep.toml").write_text('[grid]\npolicy = "ucb1"\nseeds = 1')
    >>> try:
    ...     ae.Sweep.read("sweep.toml")
    ... except ae.SweepError as error:
    ...     print(len(error.problems), *error.problems, sep="\n")
    3
    sweep.toml: grid: horizon is missing
    sweep.toml: grid: means or arms or rewards or bandit is missing
    sweep.toml: grid.seeds: unknown key: did you mean 'seed'?
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class OutputError(AftereffectError, OSError):
    """A path that cannot be written.

    Examples
    --------
    >>> import aftereffect as ae
    >>> study = ae.simulate("ucb1", ae.StochasticBandit([0.9, 0.1]), 10, 2, seed=1)
    >>> study.save("results-2026/study.parquet")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    aftereffect.errors.OutputError: cannot write into results-2026: it does not exist, create it
    first
    """


class InputError(AftereffectError, OSError):
    """A file that cannot be read, or that holds something else than expected.

    Examples
    --------
    >>> import aftereffect as ae
    >>> ae.Study.load("study-7.parquet")
    Traceback (most recent call last):
        ...
    aftereffect.errors.InputError: cannot read study-7.parquet: there is no such file
    """


class MissingExtraError(AftereffectError, ImportError):
    """An optional dependency that is not installed.

    Examples
    --------
    >>> import aftereffect as ae
    >>> from unittest.mock import patch
    >>> study = ae.simulate("ucb1", ae.StochasticBandit([0.9, 0.1]), 10, 2, seed=1)
    >>> study.replications
    2
    >>> with patch.dict("sys.modules", pandas=None):  # doctest: +NORMALIZE_WHITESPACE
    ...     study.to_pandas()  # as where it is not installed
    Traceback (most recent call last):
        ...
    aftereffect.errors.MissingExtraError: this needs pandas: install it with pip, as no extra of
    aftereffect includes it
    """


class WorkerError(AftereffectError, RuntimeError):
    """Workers of an executor that are gone, cannot be reached, or run other code.

    Examples
    --------
    >>> import aftereffect as ae
    >>> from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
    >>> class Broken(ThreadPoolExecutor):  # it stands for a cluster that is gone
    ...     def submit(self, *_):
    ...         raise BrokenExecutor
    >>> bandit = ae.StochasticBandit([0.9, 0.1])
    >>> ae.simulate("ucb1", bandit, 10, 2, seed=1).replications  # by threads
    2
    >>> ae.simulate("ucb1", bandit, 10, 2, seed=1, executor=Broken(2))
    ... # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    aftereffect.errors.WorkerError: the executor failed (BrokenExecutor): its workers died or lost
    their scheduler
    """


class ConflictError(AftereffectError, ValueError):
    """The request contradicts what is already recorded; nothing was changed.

    ``recorded`` and ``given`` say what differs, by name and in the types of JSON.

    Examples
    --------
    >>> import aftereffect as ae
    >>> shop = ae.Experiment.create("shop", arms=["A", "B"], seed=1, storage="memory://")
    >>> _ = shop.ask(0), shop.tell(0, 37)
    >>> try:
    ...     shop.tell(0, 38)
    ... except ae.ConflictError as error:
    ...     print(error)
    ...     print(error.recorded, error.given)
    slot 0 has the total 37, got 38: give --revise or revise=True to replace it
    {'total': 37.0} {'total': 38.0}
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
    """No live experiment of that name.

    Examples
    --------
    >>> import aftereffect as ae
    >>> ae.Experiment.open("shop-2", storage="memory://")
    Traceback (most recent call last):
        ...
    aftereffect.errors.NotFoundError: there is no experiment 'shop-2' in memory://: known: none
    """


class ServiceError(AftereffectError, OSError):
    """A service that does not answer, or refuses.

    Examples
    --------
    >>> import aftereffect as ae
    >>> with ae.Client("http://127.0.0.1:9", retry_for=0) as client:
    ...     client.experiments()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    aftereffect.errors.ServiceError: no answer from http://127.0.0.1:9 within 0 s: ...
    """


class StorageError(AftereffectError, OSError):
    """A storage that cannot be reached, read or written.

    Examples
    --------
    >>> import aftereffect as ae
    >>> shop = {"arms": ["A", "B"], "seed": 1, "storage": "sqlite:///shops-2026/live.db"}
    >>> ae.Experiment.create("shop", **shop)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    aftereffect.errors.StorageError: sqlite:///shops-2026/live.db: it cannot be opened: its folder
    must exist, and both must be readable and writable (No such file or directory)
    """


class CorruptionError(StorageError):
    """A storage whose content is not what was recorded: damaged or changed.

    Examples
    --------
    >>> import aftereffect as ae
    >>> import sqlite3
    >>> with ae.open_storage("sqlite:///live.db") as storage:
    ...     shop = ae.Experiment.create("shop", arms=["A", "B"], seed=1, storage=storage)
    ...     _ = shop.ask(0), shop.tell(0, 37)
    >>> database = sqlite3.connect("live.db", isolation_level=None)
    >>> _ = database.execute("UPDATE aftereffect_events SET total = 73 WHERE kind = 'total'")
    >>> database.close()
    >>> ae.Experiment.open("shop", storage="sqlite:///live.db")
    ... # doctest: +NORMALIZE_WHITESPACE +ELLIPSIS
    Traceback (most recent call last):
        ...
    aftereffect.errors.CorruptionError: experiment 'shop' is damaged, ...event 2 of the log is not
    what was recorded; verify it to see how much is intact, and restore a backup
    """
