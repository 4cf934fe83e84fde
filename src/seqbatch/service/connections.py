"""Connections: closed if a request does not arrive in time, and limited in number."""

import asyncio
import resource
from functools import partial
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from seqbatch.service.call_limits import Settings

#: File descriptors for everything except connections: the store, files, pipes, libraries.
OTHERS = 200


class Connection(H11Protocol):
    """A connection that must send the head of each request in time.

    Nothing is known about a client before its request is complete. Without these limits, clients
    that never complete one could use up the file descriptors of the service.

    Parameters
    ----------
    head_seconds
        How long the first request may take until its head is complete, and every later request
        from its first byte.
    most
        The most connections at the same time. Above it, the oldest connection without a running
        request is closed; if there is none, the new one is closed.
    """

    def __init__(self, *args: Any, head_seconds: float, most: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_seconds = head_seconds
        self._most = most
        self._deadline: asyncio.TimerHandle | None = None
        self._opened = self.loop.time()

    @property
    def _running(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self._most:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        if self._running:
            self._stop_waiting()
        elif not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        # A further part of the same request does not extend its time.
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._head_seconds, self._drop)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _make_room(self) -> None:
        idle = [
            each
            for each in self.connections
            if isinstance(each, Connection) and each is not self and not each._running
        ]
        min(idle, key=lambda each: each._opened, default=self)._drop()

    def _drop(self) -> None:
        self.transport.abort()
        self.connections.discard(self)


def protocol(settings: Settings) -> "partial[Connection]":
    """Return the class of connections with the limits of a service."""
    return partial(
        Connection, head_seconds=settings.head_seconds, most=_descriptors(settings.connections)
    )


def _descriptors(wanted: int) -> int:
    """Allow this process enough file descriptors; return how many connections they suffice for."""
    needed = wanted + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - OTHERS))
