"""What every engine can do: take a piece, say which are finished, hand out what became of them."""

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from seqbatch.errors import EngineError

#: How often the process that works on a piece may die before the piece is given up.
TRIES = 3
#: Seconds that a cluster has to answer.
PATIENCE = 10


@dataclass(frozen=True)
class Outcome:
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
    def outcome(self, handle: Any) -> Outcome:
        """Return what became of a finished piece."""

    @abstractmethod
    def forget(self, handles: Collection[Any]) -> None:
        """Begin none of these any more: nobody waits for them."""

    @abstractmethod
    def close(self) -> None:
        """End the processes that were started for it."""


def attempted(function: Callable[[Any], Any], piece: Any) -> Outcome:
    """Apply a function in a process of an engine, such that its error can travel back."""
    try:
        return Outcome(value=function(piece))
    except Exception as error:
        return Outcome(error=travelling(error), trace=traceback.format_exc())


def travelling(error: Exception) -> Exception:
    """Return an error that survives the way to another process, with the same text."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        return EngineError(f"{type(error).__name__}: {error}")
    assert isinstance(copy, Exception)
    return copy


def lost(reason: object) -> Outcome:
    """Return what became of a piece whose processes died, one after the other."""
    return Outcome(
        error=EngineError(
            f"every process that worked on it ended before it was done ({reason}). Was it killed, "
            "or out of memory? A script that uses several processes must do so under "
            'if __name__ == "__main__".'
        )
    )
