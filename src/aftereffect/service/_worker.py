"""A process that reads long logs for the service, so that writers do not wait for it.

It starts when it is first needed (``aftereffect serve`` starts it at once) and starts again if it
ends early. Threads that compute for long lower their priority. It ends with the service, however
suddenly that ends, because its standard input ends. Requests and answers are pickled and go over
the standard input and output of the process, each after its length.
"""

import logging
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from typing import IO, Any

from aftereffect._core import list_plugin_modules
from aftereffect.errors import AftereffectError, StorageError
from aftereffect.live import open_storage

_LENGTH = struct.Struct("!Q")
#: Operations that compute for long, and the niceness of their threads.
_HEAVY, _NICENESS = ("lag", "results", "verify", "export", "log", "feeds"), 10


def send(file: IO[bytes], message: object) -> None:
    """Write a message."""
    text = pickle.dumps(message)
    file.write(_LENGTH.pack(len(text)) + text)
    file.flush()


def receive(file: IO[bytes]) -> Any:
    """Read the next message; EOFError if there is none."""
    (length,) = _LENGTH.unpack(_read(file, _LENGTH.size))
    return pickle.loads(_read(file, length))


def _read(file: IO[bytes], length: int) -> bytes:
    text = file.read(length)
    if len(text) < length:
        raise EOFError
    return text


class Worker:
    """The process, as the service sees it; threads may share it.

    Parameters
    ----------
    url
        The URL of the storage; it goes to the process over its input, as it may hold a password.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Worker(f"sqlite:///{folder}/live.db") as worker:
    ...     worker.call("feeds")
    ([], 0)
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: dict[int, Future[Any]] = {}
        self._number = 0
        self._closed = False

    def call(self, operation: str, *given: Any) -> Any:
        """Run an operation of `Scans` in the process; returns or raises what it does."""
        answer: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise StorageError("the service is stopping: try again later")
            process = self._start()
            self._number += 1
            self._answers[self._number] = answer
            with suppress(OSError):  # it has just ended: `_listen` answers everybody who waits
                send(_pipe(process.stdin), (self._number, operation, given))
        return answer.result()

    def __enter__(self) -> "Worker":
        """Start the process before it is needed."""
        with self._lock:
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; it only reads."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the process unless it is running."""
        process = self._process
        if process is None or process.poll() is not None:
            # The process finds modules where this one does, and nowhere else.
            command = [sys.executable, "-P", "-m", "aftereffect.service._worker"]
            environment = os.environ | {
                "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
                "OPENBLAS_NUM_THREADS": "1",  # leave the other cores to others
                "OMP_NUM_THREADS": "1",
            }
            process = self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
            self._answers = {}
            threading.Thread(
                target=self._listen, args=(process, self._answers), name="worker", daemon=True
            ).start()
            send(_pipe(process.stdin), (self._url, list_plugin_modules()))
        return process

    def _listen(self, process: "subprocess.Popen[bytes]", answers: dict[int, Future[Any]]) -> None:
        """Hand out answers until the process ends; then whoever still waits gets an error."""
        with suppress(EOFError, OSError), process:
            try:
                while True:
                    number, result, error = receive(_pipe(process.stdout))
                    answer = answers.pop(number)
                    if error is None:
                        answer.set_result(result)
                    else:
                        answer.set_exception(error)
            finally:
                process.kill()
        with self._lock:
            left = list(answers.values())
            answers.clear()
        for answer in left:
            answer.set_exception(StorageError("the process that reads logs has ended: try again"))


def _pipe(file: IO[bytes] | None) -> IO[bytes]:
    if file is None:
        raise OSError("the process has no pipe")
    return file


def main() -> None:
    """Run the process itself: each request in a thread, until the input ends."""
    # A stop signal is for the service, which ends this process when it is done with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that nothing printed is taken for an answer
    from aftereffect.service._monitoring import log_to_stderr
    from aftereffect.service._scans import Scans

    log_to_stderr()
    log = logging.getLogger("aftereffect.service")
    try:
        url, modules = receive(requests)
        for module in modules:
            try:
                import_module(module)
            except Exception:
                log.exception("the module %s cannot be imported", module)
        scans, writing = Scans(open_storage(url)), threading.Lock()
    except (AftereffectError, EOFError):  # the service reports the storage's error, or has ended
        return

    def run(number: int, operation: str, given: tuple[Any, ...]) -> None:
        answer: tuple[int, Any, Exception | None]
        # Only Linux has a niceness for each thread.
        if operation in _HEAVY and sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            answer = (number, scans.call(operation, *given), None)
        except AftereffectError as error:
            answer = (number, None, error)
        except Exception as error:
            log.exception("%s failed", operation)
            answer = (number, None, RuntimeError(repr(error)))  # not every error can be pickled
        with writing:
            send(answers, answer)

    try:
        while True:
            threading.Thread(target=run, args=receive(requests), daemon=True).start()
    except EOFError:
        os._exit(0)  # the service has ended, so nobody waits for the rest


if __name__ == "__main__":
    main()
