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
# The engine that runs in this process


class Here(Engine):
    """Runs every piece as soon as it is submitted."""

    name = "local"
    room = 1

    def submit(self, function: Callable[[Any], Any], piece: Any) -> "Future[Any]":
        """Run the piece now; return a finished future."""
        future: Future[Any] = Future()
        try:
            future.set_result(TaskResult(value=function(piece)))
        except Exception as error:
            future.set_result(TaskResult(error=error))
        return future

    def close(self) -> None:
        """Do nothing: no process was started."""


# ----------------------------------------------------------------------
# The engine that runs several processes on this machine
#
# Each process has its own executor. If one process of a shared executor dies, the whole executor
# breaks and does not report which piece that process was working on.


#: Seconds to wait for a process to end before it is killed.
GRACE = 5


class Processes(Engine):
    """Runs pieces in a number of processes, each one piece at a time.

    Parameters
    ----------
    jobs
        How many processes; they are started when pieces are submitted.
    """

    name = "local"
    dead = (BrokenExecutor,)
    tries = TRIES

    def __init__(self, jobs: int) -> None:
        self.room = jobs
        self._workers: list[_Worker] = []

    def submit(self, function: Callable[[Any], Any], piece: Any) -> "Future[Any]":
        """Give the piece to an idle process, or to the one with the fewest pieces."""
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
        """Return the result of a finished future."""
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
        # Signal all processes before waiting for any: a large process takes long to end.
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
            "the work for another process", "serialisable by pickle",
            f"an object that is not ({error})",
            "Define functions at the top level of a module, not as lambdas or inside other "
            "functions; or use one job, or the engine dask or ray.",
        ) from error  # fmt: skip


class _Context(SpawnContext):
    """Spawns processes, which inherit no threads or locks, and remembers them."""

    def __init__(self) -> None:
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """Create and remember a process: an executor cannot end a process that is working."""
        self.started.append(SpawnProcess(*args, **kwargs))
        return self.started[-1]


class _Worker:
    """An executor of one process."""

    def __init__(self) -> None:
        self._context = _Context()
        self._executor = ProcessPoolExecutor(1, mp_context=self._context, initializer=_begin)
        self._futures: list[Future[bytes]] = []

    def submit(self, packed: bytes) -> "Future[bytes]":
        """Submit a piece; raise BrokenExecutor if the process has died."""
        # The executor starts its process when the first piece is submitted.
        with _uninterrupted():
            future = self._executor.submit(_answer, packed)
        self._futures.append(future)
        return future

    def load(self) -> int:
        """Return the number of unfinished pieces."""
        self._futures = [future for future in self._futures if not future.done()]
        return len(self._futures)

    def works_on(self, futures: "Collection[Future[Any]]") -> bool:
        """Return whether this worker has not finished one of these futures."""
        return self.load() > 0 and any(future in futures for future in self._futures)

    def dismiss(self) -> None:
        """Signal the process to end, immediately if it is working."""
        if self.load():
            for process in self._context.started:
                process.terminate()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def end(self) -> None:
        """Wait for the dismissed process to end, and kill it if it does not."""
        for process in self._context.started:
            if not connection.wait([process.sentinel], GRACE):
                process.kill()
            process.join()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Block interrupts, also in a process started meanwhile until it ignores them itself."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Start the resource tracker now: starting it with the first process would unblock interrupts.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Prepare a process: only its parent ends it, by a signal or by ending itself."""
    # A terminal sends an interrupt to all of its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is killed; otherwise the executor would wait forever."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _answer(packed: bytes) -> bytes:
    """Run a piece; return its result as bytes: one that cannot be unpickled breaks an executor."""
    try:
        return pickle.dumps(attempted(*pickle.loads(packed)))
    except Exception as error:  # not importable here, or the result cannot be sent back
        return pickle.dumps(TaskResult(error=travelling(error)))
