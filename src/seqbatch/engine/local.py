"""Engines on this machine: this process, or several."""

import os
import pickle
import signal
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection, parent_process, resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Thread
from typing import Any

from seqbatch.engine.base import TRIES, Engine, TaskResult, attempted, travelling
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# The engine of one process: this one, without a copy of anything.


class Here(Engine):
    """Runs every piece as soon as it is submitted."""

    name = "local"
    room = 1

    def submit(self, function: Callable[[Any], Any], piece: Any) -> "Future[Any]":
        """Run the piece; the future is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(TaskResult(value=function(piece)))
        except Exception as error:
            future.set_result(TaskResult(error=error))
        return future

    def close(self) -> None:
        """Do nothing: no process was started."""


# ----------------------------------------------------------------------
# The engine of several processes on this machine.
#
# Each process has an executor to itself. An executor of many processes breaks as a whole when one
# of them dies, and does not tell which piece that one had.


#: Seconds that a process has to end by itself.
GRACE = 5


class Processes(Engine):
    """Runs pieces in a number of processes, each one piece at a time.

    Parameters
    ----------
    jobs
        How many processes; they start with the first pieces.
    """

    name = "local"
    dead = (BrokenExecutor,)
    tries = TRIES

    def __init__(self, jobs: int) -> None:
        self.room = jobs
        self._workers: list[_Worker] = []

    def submit(self, function: Callable[[Any], Any], piece: Any) -> "Future[Any]":
        """Give the piece to an idle process, or to the one with the fewest."""
        packed = _packed((function, piece))
        while True:
            worker = min(self._workers, key=_Worker.load, default=None)
            if worker is None or (worker.load() and len(self._workers) < self.room):
                worker = _Worker()
                self._workers.append(worker)
            try:
                return worker.submit(packed)
            except BrokenExecutor:
                self._end([worker])

    def outcome(self, future: "Future[Any]") -> TaskResult:
        """Return the result of a future that is done."""
        content = future.result()
        try:
            outcome = pickle.loads(content)
        except Exception as error:
            return TaskResult(error=error)
        assert isinstance(outcome, TaskResult)
        return outcome

    def forget(self, futures: "Collection[Future[Any]]") -> None:
        """Cancel pieces, and end the processes that work on them."""
        self._end([each for each in self._workers if each.works_on(futures)])

    def close(self) -> None:
        """End all processes."""
        self._end(list(self._workers))

    def _end(self, workers: "list[_Worker]") -> None:
        # All are told before any is waited for: a large one takes its time to end.
        for worker in workers:
            worker.dismiss()
        for worker in workers:
            self._workers.remove(worker)
            worker.end()


def _packed(work: tuple[Callable[[Any], Any], Any]) -> bytes:
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidArgumentError(
            "what another process is to do", "something that pickle can send there",
            f"what it cannot ({error})",
            "Define functions at the top of a module, not as lambdas or within others; or use one "
            "job, or the engine dask or ray.",
        ) from error  # fmt: skip


class _Context(SpawnContext):
    """Starts fresh processes, without threads or locks of this one, and remembers them."""

    def __init__(self) -> None:
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """Make a process; an executor has no way to end one that is at work."""
        self.started.append(SpawnProcess(*args, **kwargs))
        return self.started[-1]


class _Worker:
    """An executor of one process."""

    def __init__(self) -> None:
        self._context = _Context()
        self._executor = ProcessPoolExecutor(1, mp_context=self._context, initializer=_begin)
        self._futures: list[Future[bytes]] = []

    def submit(self, packed: bytes) -> "Future[bytes]":
        """Hand a piece over; BrokenExecutor where the process has died."""
        # The executor starts its process with the first piece.
        with _uninterrupted():
            future = self._executor.submit(_answer, packed)
        self._futures.append(future)
        return future

    def load(self) -> int:
        """Return how many pieces it has."""
        self._futures = [future for future in self._futures if not future.done()]
        return len(self._futures)

    def works_on(self, futures: "Collection[Future[Any]]") -> bool:
        """Say whether any of these is neither done nor another's."""
        return self.load() > 0 and any(future in futures for future in self._futures)

    def dismiss(self) -> None:
        """Tell the process to end, at once where it is at work."""
        if self.load():
            for process in self._context.started:
                process.terminate()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def end(self) -> None:
        """Wait for the process that was told to end, and kill it if it does not."""
        for process in self._context.started:
            if not connection.wait([process.sentinel], GRACE):
                process.kill()
            process.join()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold interrupts back, also from a process that is started: until it ignores them itself."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Started by the first process, it would let interrupts through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Prepare a process: the one that started it says when to end, or ends itself."""
    # An interrupt reaches all processes of a terminal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it is killed; an executor would wait for ever."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _answer(packed: bytes) -> bytes:
    """Run a piece; return its result as bytes, since one that cannot be read ends an executor."""
    try:
        return pickle.dumps(attempted(*pickle.loads(packed)))
    except Exception as error:  # what cannot be imported here, or cannot be sent back
        return pickle.dumps(TaskResult(error=travelling(error)))
