"""What every engine can do, how tasks run through it, and how results merge."""

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from seqbatch.errors import EngineError

if TYPE_CHECKING:
    import pyarrow as pa


# ----------------------------------------------------------------------
# What every engine can do: take a piece, say which are finished, hand out what became of them.


#: How often the process that works on a piece may die before the piece is given up.
TRIES = 3
#: Seconds that a cluster has to answer.
PATIENCE = 10


@dataclass(frozen=True)
class TaskResult:
    """What became of a piece: a value, or the error that the function raised.

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
    """Does pieces of work somewhere.

    Attributes
    ----------
    name
        What a person calls it.
    room
        How many pieces are handed over before the first must be finished.
    """

    name: str
    room: int

    @abstractmethod
    def submit(self, function: Callable[[Any], Any], piece: Any) -> Any:
        """Hand a piece over; return what it is known by from then on."""

    @abstractmethod
    def finished(self, under_way: Collection[Any]) -> Collection[Any]:
        """Wait until at least one of these is finished; return those that are."""

    @abstractmethod
    def outcome(self, handle: Any) -> TaskResult:
        """Return what became of a finished piece."""

    @abstractmethod
    def forget(self, handles: Collection[Any]) -> None:
        """Begin none of these any more: nobody waits for them."""

    @abstractmethod
    def close(self) -> None:
        """End the processes that were started for it."""


def attempted(function: Callable[[Any], Any], piece: Any) -> TaskResult:
    """Apply a function in a process of an engine, such that its error can travel back."""
    try:
        return TaskResult(value=function(piece))
    except Exception as error:
        return TaskResult(error=travelling(error), trace=traceback.format_exc())


def travelling(error: Exception) -> Exception:
    """Return an error that survives the way to another process, with the same text."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        return EngineError(f"{type(error).__name__}: {error}")
    assert isinstance(copy, Exception)
    return copy


def lost(reason: object) -> TaskResult:
    """Return what became of a piece whose processes died, one after the other."""
    return TaskResult(
        error=EngineError(
            f"every process that worked on it ended before it was done ({reason}). Was it killed, "
            "or out of memory? A script that uses several processes must do so under "
            'if __name__ == "__main__".'
        )
    )


# ----------------------------------------------------------------------
# Pieces through an engine, and their results back.


Piece = TypeVar("Piece")
Result = TypeVar("Result")


def as_completed(
    engine: Engine, function: Callable[[Piece], Result], pieces: Iterable[Piece]
) -> Generator[tuple[int, Result], None, None]:
    """Yield the place and the result of every piece, in the order in which they are finished.

    An error of the function is raised as it is, with a note that names the piece. Pieces that have
    not begun by then are forgotten, as they are when the generator is closed.

    Parameters
    ----------
    engine
        Where to run.
    function
        A pure function of one piece. Other processes must be able to import it.
    pieces
        Plain data. They are taken as there is room for them.
    """
    return _results(engine, function, pieces, ordered=False)


def over_batches(
    engine: Engine,
    function: "Callable[[pa.RecordBatch], Result]",
    batches: "Iterable[pa.RecordBatch]",
) -> Generator[Result, None, None]:
    """Yield the result for every Arrow batch, in the order of the batches, in flat memory.

    See :func:`as_completed`. A batch is read when there is room for it, and no more than twice the
    engine's room are anywhere at a time.
    """
    with closing(_results(engine, function, batches, ordered=True)) as results:
        for _, result in results:
            yield result


def _results(
    engine: Engine, function: Callable[[Any], Any], pieces: Iterable[Any], *, ordered: bool
) -> Generator[tuple[int, Any], None, None]:
    coming, under_way = enumerate(pieces), dict[Any, tuple[int, str]]()
    # Results that wait for that of an earlier piece.
    held, due = dict[int, Any](), 0
    try:
        while True:
            room = min(engine.room, 2 * engine.room - len(held)) - len(under_way)
            for place, piece in islice(coming, max(room, 0)):
                name = str(getattr(piece, "name", f"piece {place + 1}"))
                under_way[engine.submit(function, piece)] = (place, name)
            if not under_way:
                return
            for handle in engine.finished(under_way):
                place, name = under_way.pop(handle)
                held[place] = _value(engine.outcome(handle), name)
                if not ordered:
                    yield place, held.pop(place)
            while due in held:
                yield due, held.pop(due)
                due += 1
    finally:
        engine.forget(under_way)


def _value(outcome: TaskResult, name: str) -> Any:
    """Return the value, or raise the error with the piece's name."""
    if outcome.error is None:
        return outcome.value
    outcome.error.add_note(f"In {name}.")
    if outcome.trace:
        raise outcome.error from EngineError(f"in another process:\n{outcome.trace}")
    raise outcome.error


# ----------------------------------------------------------------------
# Merge statistics in a fixed tree.


Value = TypeVar("Value")


def merge_tree(merge: Callable[[Value, Value], Value], values: Iterable[Value]) -> Value:
    """Merge values two by two, neighbours first, until one is left.

    Which are merged with which depends on their number alone: floating point sums have the same
    bits wherever the values were made. Values are merged as they come, and at most one of each
    level of the tree is kept.

    Parameters
    ----------
    merge
        Makes one of two neighbours, the earlier one first.
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
