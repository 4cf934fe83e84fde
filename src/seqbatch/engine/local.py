"""Engines on this machine: this process, or several."""

import pickle
import signal
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from seqbatch.engine.base import TRIES, Engine, TaskResult, attempted, lost, travelling
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# The engine of one process: this one, without a copy of anything.


class Here(Engine):
    """Does every piece as soon as it is handed over."""

    name = "local"
    room = 1

    def submit(self, function: Callable[[Any], Any], piece: Any) -> Any:
        """Do the piece; its outcome stands for it."""
        try:
            return _Done(TaskResult(value=function(piece)))
        except Exception as error:
            return _Done(TaskResult(error=error))

    def finished(self, under_way: Collection[Any]) -> Collection[Any]:
        """Return all of them."""
        return list(under_way)

    def outcome(self, handle: Any) -> TaskResult:
        """Return what became of a piece."""
        done: TaskResult = handle.outcome
        return done

    def forget(self, handles: Collection[Any]) -> None:
        """Do nothing: what was handed over is done."""

    def close(self) -> None:
        """Do nothing: no process was started."""


class _Done:
    """A piece that is done, told from others by itself."""

    def __init__(self, outcome: TaskResult) -> None:
        self.outcome = outcome


# ----------------------------------------------------------------------
# The engine of several processes on this machine.
#
# Each process has a pipe of its own, so that the death of one is told from that of any other: its
# piece goes to a new process, and the others go on. An executor of the standard library would lose
# them all.


#: Seconds that a process has to end by itself.
GRACE = 5
# A fresh process inherits no threads, locks or generator states.
_SPAWN = get_context("spawn")


class Processes(Engine):
    """Does pieces in a number of processes, each one piece at a time.

    Parameters
    ----------
    jobs
        How many processes; they start with the first pieces.
    """

    name = "local"

    def __init__(self, jobs: int) -> None:
        self.room = jobs
        self._waiting: deque[_Piece] = deque()
        self._done: dict[_Piece, TaskResult] = {}
        self._workers: list[_Worker] = []

    def submit(self, function: Callable[[Any], Any], piece: Any) -> Any:
        """Give the piece to an idle process, or have it wait for one."""
        made = _Piece(_packed((function, piece)))
        self._waiting.append(made)
        self._hand_out()
        return made

    def finished(self, under_way: Collection[Any]) -> Collection[Any]:
        """Wait for processes that answer or die."""
        while not (found := [piece for piece in under_way if piece in self._done]):
            busy = {worker.connection: worker for worker in self._workers if worker.piece}
            for connection in wait(list(busy)):
                self._hear(busy[connection])  # type: ignore[index]
            self._hand_out()
        return found

    def outcome(self, handle: Any) -> TaskResult:
        """Return what became of a finished piece."""
        return self._done.pop(handle)

    def forget(self, handles: Collection[Any]) -> None:
        """Begin none of these any more, and stop working on them."""
        self._waiting = deque(piece for piece in self._waiting if piece not in handles)
        self._end([each for each in self._workers if each.piece in handles])
        for piece in handles:
            self._done.pop(piece, None)

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

    def _hand_out(self) -> None:
        """Give waiting pieces to idle processes, of which new ones are started up to the limit."""
        idle = [worker for worker in self._workers if worker.piece is None]
        while self._waiting:
            if not idle:
                if len(self._workers) == self.room:
                    return
                idle.append(_Worker())
                self._workers.append(idle[0])
            worker, piece = idle.pop(), self._waiting.popleft()
            if not worker.take(piece):
                self._bury(worker, piece)

    def _hear(self, worker: "_Worker") -> None:
        piece = worker.piece
        assert piece is not None
        try:
            self._done[piece] = worker.answer()
        except (EOFError, OSError):
            self._bury(worker, piece)

    def _bury(self, worker: "_Worker", piece: "_Piece") -> None:
        """Take a dead process off the list; its piece is the next to be done, or given up."""
        self._workers.remove(worker)
        code = worker.end()
        piece.deaths += 1
        if piece.deaths < TRIES:
            self._waiting.appendleft(piece)
        else:
            self._done[piece] = lost(f"{TRIES} times, the last with exit code {code}")


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


class _Piece:
    """A piece on its way."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed
        self.deaths = 0


class _Worker:
    """A process and this end of its pipe."""

    def __init__(self) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_work, args=(theirs,), daemon=True)
        with _uninterrupted():
            self._process.start()
        # Or else the pipe would not end with the process.
        theirs.close()
        self.piece: _Piece | None = None

    def take(self, piece: _Piece) -> bool:
        """Send a piece; return whether the process was still there."""
        try:
            self.connection.send_bytes(piece.packed)
        except OSError:
            return False
        self.piece = piece
        return True

    def answer(self) -> TaskResult:
        """Return what became of the piece; EOFError or OSError where the process has died."""
        content = self.connection.recv_bytes()
        self.piece = None
        try:
            outcome = pickle.loads(content)
        except Exception as error:
            return TaskResult(error=error)
        assert isinstance(outcome, TaskResult)
        return outcome

    def dismiss(self) -> None:
        """Tell the process to end, at once where it is at work."""
        if self.piece is not None:
            self._process.terminate()
        self.connection.close()

    def end(self) -> int | None:
        """Have the process end; return its exit code."""
        self.dismiss()
        self._process.join(GRACE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        code = self._process.exitcode
        self._process.close()
        return code


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


def _work(connection: Connection) -> None:
    """Do pieces until the other end is closed."""
    # An interrupt reaches all processes of a terminal; the first one says when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            packed = connection.recv_bytes()
            connection.send_bytes(_answer(packed))
        except (EOFError, OSError):
            return


def _answer(packed: bytes) -> bytes:
    try:
        outcome = attempted(*pickle.loads(packed))
        return pickle.dumps(outcome)
    except Exception as error:  # what cannot be imported here, or cannot be sent back
        return pickle.dumps(TaskResult(error=travelling(error)))
