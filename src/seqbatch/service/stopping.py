"""A signal to stop: from then on every answer ends its connection.

The server asks connections to end after their next answer when a signal comes. One that arrives in
that moment is not asked, and a client that goes on asking there would hold the server for as long
as it waits at most.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

#: What tells a server to stop.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopping:
    """Whether a signal to stop has come."""

    def __init__(self) -> None:
        self.begun = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Hear signals before whoever hears them now; only a main thread gets any."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with ExitStack() as stack:
            for number in SIGNALS:
                before = signal.getsignal(number)
                if callable(before):
                    signal.signal(number, self._heard(before))
                    stack.callback(signal.signal, number, before)
            yield

    def _heard(self, before: Callable[..., Any]) -> Callable[..., None]:
        def heard(number: int, frame: Any) -> None:
            self.begun = True
            before(number, frame)

        return heard
