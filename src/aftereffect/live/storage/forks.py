"""Storages in processes that fork: each process has connections of its own."""

import os
import threading
import weakref
from typing import Protocol


class Forking(Protocol):
    """What is told when the process forks."""

    def prepare_fork(self) -> None:
        """Called before it does."""

    def start_in_child(self) -> None:
        """Called in the new process."""


#: Those that are in use in this process; none is added while it forks.
_storages: weakref.WeakSet[Forking] = weakref.WeakSet()
_registering = threading.Lock()
#: What belongs to the process that this one was forked from.
_kept: list[object] = []


def register(storage: Forking) -> None:
    """Have a storage told."""
    with _registering:
        _storages.add(storage)


def keep_in_parent(connections: object) -> None:
    """Never let go, in this process, of connections that its parent uses: they would be closed."""
    _kept.append(connections)


def _before() -> None:
    _registering.acquire()
    for storage in list(_storages):
        storage.prepare_fork()


def _after_in_child() -> None:
    _registering.release()
    for storage in list(_storages):
        storage.start_in_child()


if hasattr(os, "register_at_fork"):  # not on every system
    os.register_at_fork(before=_before, after_in_parent=_registering.release, after_in_child=_after_in_child)
