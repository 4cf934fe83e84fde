"""Connections: closed if the client does not send or read in time, and limited in number."""

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
    read_seconds
        How long a client may read nothing of an answer that is ready.
    most
        The most connections at the same time. Above it, the oldest connection that waits for its
        client is closed, first those without a request; if there is none, the new one is closed.
    """

    def __init__(
        self, *args: Any, head_seconds: float, read_seconds: float, most: int, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._head_seconds = head_seconds
        self._read_seconds = read_seconds
        self._most = most
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._opened = self.loop.time()

    @property
    def _running(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _waits(self) -> bool:
        """Whether the client must act: send a request or its body, or read an answer."""
        return not self._running or self.cycle.more_body or self.flow.write_paused

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

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._read_seconds, self._drop)

    def resume_writing(self) -> None:
        """Go on writing."""
        self._stop_waiting_for_reading()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        self._stop_waiting_for_reading()
        super().connection_lost(exc)

    def _wait(self) -> None:
        # A further part of the same request does not extend its time.
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._head_seconds, self._drop)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_waiting_for_reading(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _make_room(self) -> None:
        others = [
            each
            for each in self.connections
            if isinstance(each, Connection) and each is not self and each._waits
        ]
        min(others, key=lambda each: (each._running, each._opened), default=self)._drop()

    def _drop(self) -> None:
        self.transport.abort()
        self.connections.discard(self)


def protocol(settings: Settings) -> "partial[Connection]":
    """Return the class of connections with the limits of a service."""
    return partial(
        Connection,
        head_seconds=settings.head_seconds,
        read_seconds=settings.read_seconds,
        most=_descriptors(settings.connections),
    )


def _descriptors(wanted: int) -> int:
    """Allow this process enough file descriptors; return how many connections they suffice for."""
    needed = wanted + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - OTHERS))
