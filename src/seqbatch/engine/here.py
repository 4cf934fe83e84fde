"""The engine of one process: this one, without a copy of anything."""

from collections.abc import Callable, Collection
from typing import Any

from seqbatch.engine.base import Engine, Outcome


class Here(Engine):
    """Does every piece as soon as it is handed over."""

    name = "local"
    room = 1

    def submit(self, function: Callable[[Any], Any], piece: Any) -> Any:
        """Do the piece; its outcome stands for it."""
        try:
            return _Done(Outcome(value=function(piece)))
        except Exception as error:
            return _Done(Outcome(error=error))

    def finished(self, under_way: Collection[Any]) -> Collection[Any]:
        """Return all of them."""
        return list(under_way)

    def outcome(self, handle: Any) -> Outcome:
        """Return what became of a piece."""
        done: Outcome = handle.outcome
        return done

    def forget(self, handles: Collection[Any]) -> None:
        """Do nothing: what was handed over is done."""

    def close(self) -> None:
        """Do nothing: no process was started."""


class _Done:
    """A piece that is done, told from others by itself."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
