"""Pieces through an engine, and their results back."""

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from seqbatch.engine.base import Engine, Outcome
from seqbatch.errors import EngineError

if TYPE_CHECKING:
    import pyarrow as pa

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


def _value(outcome: Outcome, name: str) -> Any:
    """Return the value, or raise the error with the piece's name."""
    if outcome.error is None:
        return outcome.value
    outcome.error.add_note(f"In {name}.")
    if outcome.trace:
        raise outcome.error from EngineError(f"in another process:\n{outcome.trace}")
    raise outcome.error
