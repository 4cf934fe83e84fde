"""Clients on loopback that use little processor time and leave the rest to the servers.

Each holds a connection and makes one call after another. With retry, a call that gets no answer, or
the answer to try again later, is repeated with the same key.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

#: Answers after which the same call is made again.
AGAIN = (429, 502, 503, 504)


@dataclass(frozen=True)
class Asked:
    """One call: where, what, and the key that it is made under."""

    path: str
    body: bytes
    key: str = ""


@dataclass
class Load:
    """The results of calls.

    Parameters
    ----------
    seconds
        How long they took in all.
    durations
        How long each took, in seconds.
    answers
        What each was answered with, by its key.
    odd
        Answers that are no success, by their status.
    again
        How often a call was made again.
    """

    seconds: float = 0.0
    durations: list[float] = field(default_factory=list)
    answers: dict[str, bytes] = field(default_factory=dict)
    odd: list[tuple[int, bytes]] = field(default_factory=list)
    again: int = 0

    @property
    def rate(self) -> float:
        """Calls answered a second."""
        return len(self.durations) / self.seconds

    def percentile(self, share: float) -> float:
        """How long all but some calls took, in milliseconds."""
        return 1e3 * float(np.percentile(self.durations, share))


class Line:
    """A persistent connection that reconnects if it is cut."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._head = f"host: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, asked: Asked) -> tuple[int, bytes]:
        """Make a call; return its status and what was answered."""
        if self._open is None:
            self._open = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 26)
        reader, writer = self._open
        key = f"idempotency-key: {asked.key}\r\n" if asked.key else ""
        writer.write(
            f"POST {asked.path} HTTP/1.1\r\n{self._head}{key}content-type: application/json\r\n"
            f"content-length: {len(asked.body)}\r\n\r\n".encode()
            + asked.body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        _, _, rest = head.partition(b"content-length:")
        content = await reader.readexactly(int(rest.partition(b"\r\n")[0]))
        if b"connection: close" in head:
            self.close()
        return int(head[9:12]), content

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open[1].close()
            self._open = None


def loaded(
    port: int,
    token: str,
    calls: Iterator[Asked],
    clients: int,
    *,
    seconds: float,
    retry: bool = False,
) -> Load:
    """Make calls for some seconds, or until there are no more; each client one at a time."""
    load = Load()

    async def client(over: Callable[[], bool]) -> None:
        line = Line(port, token)
        for asked in calls:
            began = time.perf_counter()
            status, content = await _until_answered(line, asked, load, retry=retry)
            load.durations.append(time.perf_counter() - began)
            if status == 200:
                load.answers[asked.key] = content
            else:
                load.odd.append((status, content))
            if over():
                break
        line.close()

    async def everybody() -> None:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client(lambda: time.perf_counter() - began > seconds))
        load.seconds = time.perf_counter() - began

    asyncio.run(everybody())
    return load


async def _until_answered(
    line: Line, asked: Asked, load: Load, *, retry: bool
) -> tuple[int, bytes]:
    for attempt in range(200):
        try:
            status, content = await line.ask(asked)
            if not retry or status not in AGAIN:
                return status, content
        except (OSError, asyncio.IncompleteReadError):
            line.close()
            if not retry:
                raise
        load.again += 1
        await asyncio.sleep(min(0.02 * 2**attempt, 0.5))
    raise TimeoutError(f"call {asked.key} got no answer")
