"""The engine: submits pieces to an executor, collects their results, and merges them."""

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from seqbatch.errors import EngineError

if TYPE_CHECKING:
    import pyarrow as pa


# ----------------------------------------------------------------------
# The engine interface


#: How many times the process that works on a piece may die before the piece fails.
TRIES = 3
#: Seconds to wait for a cluster to answer.
PATIENCE = 10


@dataclass(frozen=True)
class TaskResult:
    """The result of a piece: a value, or the error that the function raised.

    Parameters
    ----------
    value
        What the function returned.
    error
        What it raised instead.
    trace
        Where it raised that, if in another process.
    """

    value: Any = None
    error: Exception | None = None
    trace: str = ""


class Engine(ABC):
    """Runs a function on pieces, through an executor of :mod:`concurrent.futures`.

    Attributes
    ----------
    name
        The engine's name in messages.
    room
        The maximum number of pieces in progress.
    dead
        The exceptions of a future whose process died.
    tries
        How often such a piece is submitted. A cluster retries by itself.
    """

    name: str
    room: int
    dead: tuple[type[Exception], ...] = ()
    tries: int = 1

    @abstractmethod
    def submit(self, function: Callable[[Any], Any], piece: Any) -> "Future[Any]":
        """Return the future of a piece."""

    def outcome(self, future: "Future[Any]") -> TaskResult:
        """Return the result of a finished future; raise the error if the piece could not run."""
        result = future.result()
        assert isinstance(result, TaskResult)
        return result

    def forget(self, futures: "Collection[Future[Any]]") -> None:
        """Cancel pieces whose results are not needed any more."""
        for future in futures:
            future.cancel()

    @abstractmethod
    def close(self) -> None:
        """End the processes that the engine started."""


def attempted(function: Callable[[Any], Any], piece: Any) -> TaskResult:
    """Apply a function in an engine's process; return errors in a form that can be pickled."""
    try:
        return TaskResult(value=function(piece))
    except Exception as error:
        return TaskResult(error=travelling(error), trace=traceback.format_exc())


def travelling(error: Exception) -> Exception:
    """Return an equivalent error that can be sent to another process, with the same text."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        return EngineError(f"{type(error).__name__}: {error}")
    assert isinstance(copy, Exception)
    return copy


def lost(reason: object) -> EngineError:
    """Return the error for a piece whose process died on every try."""
    return EngineError(
        f"every process that worked on it ended before it was done ({reason}). Was it killed, or "
        "out of memory? A script that uses several processes must do so under "
        'if __name__ == "__main__".',
        code="process-lost",
    )


# ----------------------------------------------------------------------
# Submitting pieces and collecting results


Piece = TypeVar("Piece")
Result = TypeVar("Result")


def as_completed(
    engine: Engine, function: Callable[[Piece], Result], pieces: Iterable[Piece]
) -> Generator[tuple[int, Result], None, None]:
    """Yield the position and the result of every piece, in the order in which they finish.

    An error of the function is raised unchanged, with a note that names the piece. Pieces that have
    not started by then are cancelled. Closing the generator cancels them, too.

    Parameters
    ----------
    engine
        Where to run.
    function
        A pure function of one piece. Other processes must be able to import it.
    pieces
        Plain data, read when there is room for them.
    """
    return _results(engine, function, pieces, ordered=False)


def over_batches(
    engine: Engine,
    function: "Callable[[pa.RecordBatch], Result]",
    batches: "Iterable[pa.RecordBatch]",
) -> Generator[Result, None, None]:
    """Yield the result for every Arrow batch, in the order of the batches, in flat memory.

    See :func:`as_completed`. A batch is read when there is room for it. At most twice the engine's
    room of batches and results are held at a time.
    """
    with closing(_results(engine, function, batches, ordered=True)) as results:
        for _, result in results:
            yield result


@dataclass
class _Task:
    """A piece, its position, and how often a process died while working on it."""

    place: int
    piece: Any
    deaths: int = 0

    @property
    def name(self) -> str:
        return str(getattr(self.piece, "name", f"piece {self.place + 1}"))


def _results(
    engine: Engine, function: Callable[[Any], Any], pieces: Iterable[Any], *, ordered: bool
) -> Generator[tuple[int, Any], None, None]:
    coming = (_Task(place, piece) for place, piece in enumerate(pieces))
    under_way: dict[Future[Any], _Task] = {}
    # Results that wait for the result of an earlier piece.
    held, due = dict[int, Any](), 0
    try:
        while True:
            room = min(engine.room, 2 * engine.room - len(held)) - len(under_way)
            for task in islice(coming, max(room, 0)):
                under_way[engine.submit(function, task.piece)] = task
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                task = under_way.pop(future)
                outcome = _outcome(engine, future, task)
                if outcome is None:
                    under_way[engine.submit(function, task.piece)] = task
                    continue
                held[task.place] = _value(outcome, task.name)
                if not ordered:
                    yield task.place, held.pop(task.place)
            while due in held:
                yield due, held.pop(due)
                due += 1
    finally:
        engine.forget(under_way)


def _outcome(engine: Engine, future: "Future[Any]", task: _Task) -> TaskResult | None:
    """Return the result of a future; None if its process died and the piece must be retried."""
    try:
        return engine.outcome(future)
    except engine.dead as error:
        task.deaths += 1
        if task.deaths < engine.tries:
            return None
        return TaskResult(error=lost(error if engine.tries == 1 else f"{engine.tries} times"))
    except Exception as error:
        return TaskResult(error=EngineError(f"engine {engine.name} could not run it: {error}"))


def _value(outcome: TaskResult, name: str) -> Any:
    """Return the value, or raise the error with the piece's name."""
    if outcome.error is None:
        return outcome.value
    outcome.error.add_note(f"In {name}.")
    if outcome.trace:
        raise outcome.error from EngineError(f"in another process:\n{outcome.trace}")
    raise outcome.error


# ----------------------------------------------------------------------
# Merging statistics in a fixed tree


Value = TypeVar("Value")


def merge_tree(merge: Callable[[Value, Value], Value], values: Iterable[Value]) -> Value:
    """Merge values two by two, neighbours first, until one is left.

    The tree depends only on the number of values, so floating point sums are bit-identical wherever
    the values were computed. Values are merged as they arrive, and at most one per level of the
    tree is held in memory.

    Parameters
    ----------
    merge
        Merges two neighbours, the earlier one first.
    values
        At least one.

    Examples
    --------
    >>> merge_tree(lambda left, right: f"({left} {right})", "abcde")
    '(((a b) (c d)) e)'
    """
    kept: list[tuple[int, Value]] = []
    for value in values:
        level = 0
        while kept and kept[-1][0] == level:
            value = merge(kept.pop()[1], value)
            level += 1
        kept.append((level, value))
    if not kept:
        raise ValueError("there is nothing to merge")
    _, value = kept.pop()
    while kept:
        value = merge(kept.pop()[1], value)
    return value
