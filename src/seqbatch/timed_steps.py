"""Time the slow steps inside a call, for whoever listens: the service's log and its traces."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

#: Opens a context for a step, given its name; the context ends with the step.
Listener = Callable[[str], AbstractContextManager[object]]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Mark a step that may take long, such as "learn"; it costs nothing without a listener."""
    listener = _listener.get()
    if listener is None:
        yield
        return
    with listener(step):
        yield


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Report the steps of this block, and of threads that it starts with its context."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
