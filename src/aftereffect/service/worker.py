"""A process that reads long logs for the service, so that nobody who writes waits for it.

It is started when it is first needed (by ``aftereffect serve`` at once), gives way to others where it computes for long, ends
with the service however sudden that end is (its standard input ends), and is started again if it ends before. Requests and
answers are pickled, each after its length, over the standard input and output of the process.
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
from typing import IO, Any

from aftereffect.errors import AftereffectError, StorageError
from aftereffect.live import open_storage

_LENGTH = struct.Struct("!Q")
#: What computes for long, and how much it gives way to others.
_HEAVY, _NICENESS = ("lag", "verify", "export", "log", "feeds"), 10


def send(file: IO[bytes], message: object) -> None:
    """Write a message."""
    text = pickle.dumps(message)
    file.write(_LENGTH.pack(len(text)) + text)
    file.flush()


def receive(file: IO[bytes]) -> Any:
    """The next message; EOFError where there is none any more."""
    (length,) = _LENGTH.unpack(_read(file, _LENGTH.size))
    return pickle.loads(_read(file, length))


def _read(file: IO[bytes], length: int) -> bytes:
    text = file.read(length)
    if len(text) < length:
        raise EOFError
    return text


class Worker:
    """The process, seen from the service; may be shared by threads.

    Parameters
    ----------
    url
        Of the storage; it goes to the process over its input, as there may be a password in it.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: dict[int, Future[Any]] = {}
        self._number = 0
        self._closed = False

    def call(self, operation: str, *given: Any) -> Any:
        """What an operation of `Scans` answers, or the error that it raises."""
        answer: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise StorageError("the service is about to end")
            process = self._running()
            self._number += 1
            self._answers[self._number] = answer
            with suppress(OSError):  # it has just ended: who listens to it tells those who wait
                send(_pipe(process.stdin), (self._number, operation, given))
        return answer.result()

    def __enter__(self) -> "Worker":
        """Have the process ready before it is needed."""
        with self._lock:
            self._running()
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

    def _running(self) -> "subprocess.Popen[bytes]":
        process = self._process
        if process is None or process.poll() is not None:
            # It finds modules where this process does, and nowhere else.
            command = [sys.executable, "-P", "-m", "aftereffect.service.worker"]
            settings = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
            settings |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # cores are for others too
            process = self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=settings)
            self._answers = {}
            threading.Thread(target=self._listen, args=(process, self._answers), name="worker", daemon=True).start()
            send(_pipe(process.stdin), self._url)
        return process

    def _listen(self, process: "subprocess.Popen[bytes]", answers: dict[int, Future[Any]]) -> None:
        """Hand out answers, until the process ends; then whoever still waits is told so."""
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
    """The process itself: does what it is asked for, each in a thread, until its input ends."""
    for asked in (signal.SIGINT, signal.SIGTERM):  # a stop is for the service, which ends this process when it has done with it
        signal.signal(asked, signal.SIG_IGN)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed is no answer
    from aftereffect.service.logs import log_to_stderr
    from aftereffect.service.scans import Scans

    log_to_stderr()
    try:
        scans, writing = Scans(open_storage(receive(requests))), threading.Lock()
    except (AftereffectError, EOFError):  # the service says what is wrong with the storage, or has ended
        return

    def do(number: int, operation: str, given: tuple[Any, ...]) -> None:
        answer: tuple[int, Any, Exception | None]
        if operation in _HEAVY and sys.platform == "linux":  # where each thread has a niceness of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            answer = (number, scans.call(operation, *given), None)
        except AftereffectError as error:
            answer = (number, None, error)
        except Exception as error:
            logging.getLogger("aftereffect.service").exception("%s failed", operation)
            answer = (number, None, RuntimeError(repr(error)))  # of any error, not all can be sent
        with writing:
            send(answers, answer)

    try:
        while True:
            threading.Thread(target=do, args=receive(requests), daemon=True).start()
    except EOFError:
        os._exit(0)  # the service has ended, and nobody waits for what is still being read


if __name__ == "__main__":
    main()
