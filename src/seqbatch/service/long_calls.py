"""Long calls: they run in threads, a few at a time, for a limited time."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from seqbatch.service.call_limits import Settings
from seqbatch.service.problems import ProblemError, client_gone

#: Seconds between checks whether the client is still connected.
LOOKING = 0.1
#: Seconds that a call waits for a place.
PATIENCE = 1.0

T = TypeVar("T")
#: A plan reports its progress by this function, which raises an error to end it.
Progress = Callable[[float], None]


class EndedError(Exception):
    """Ends a plan whose client has disconnected or has waited too long."""


class Places:
    """The places of long calls: files, views and plans cannot keep one another waiting.

    Parameters
    ----------
    settings
        How many long calls of each kind may run at the same time.
    """

    def __init__(self, settings: Settings) -> None:
        self.files = asyncio.Semaphore(settings.at_once)
        self.views = asyncio.Semaphore(settings.at_once)
        self.plans = asyncio.Semaphore(settings.plans_at_once)


async def placed(request: Request, call: Callable[[], T]) -> T:
    """Process a file in a thread; if too many are running, ask the client to retry later.

    The task keeps its place until it ends, even if the client disconnects.
    """
    return await _placed(request.app.state.places.files, call)


async def bounded(request: Request, call: Callable[[], T]) -> T:
    """Run a view in a thread, and wait for at most the allowed time.

    A thread cannot be stopped. A task that takes too long keeps its place until it ends.
    """
    return await _in_time(request, request.app.state.places.views, call)


async def planned(request: Request, call: Callable[[Progress], T]) -> T:
    """Run a plan in a thread; end it if the client disconnects or the allowed time is over.

    Parameters
    ----------
    request
        The call that asks for the plan.
    call
        Makes the plan; it must report its progress often.
    """
    async with _watched(request) as ended:

        def progress(_share: float) -> None:
            if ended.is_set():
                raise EndedError

        def run() -> T:
            try:
                progress(0.0)
                return call(progress)
            except EndedError:
                raise client_gone() from None

        return await _in_time(request, request.app.state.places.plans, run)


async def _in_time(request: Request, places: asyncio.Semaphore, call: Callable[[], T]) -> T:
    seconds = request.app.state.settings.seconds
    try:
        return await asyncio.wait_for(_placed(places, call), seconds)
    except TimeoutError:
        raise ProblemError(
            503, "too-slow", f"the call took longer than {seconds:g} seconds. Request less."
        ) from None


async def _placed(places: asyncio.Semaphore, call: Callable[[], T]) -> T:
    try:
        await asyncio.wait_for(places.acquire(), PATIENCE)
    except TimeoutError:
        raise ProblemError(
            429, "busy", "too many long calls are running; try again later.",
            headers={"Retry-After": "2"},
        ) from None  # fmt: skip
    running = asyncio.ensure_future(run_in_threadpool(call))
    running.add_done_callback(lambda done: _released(places, done))
    return await asyncio.shield(running)


def _released(places: asyncio.Semaphore, done: "asyncio.Future[T]") -> None:
    places.release()
    # If the client has gone, nothing else looks at the error of its task.
    if not done.cancelled():
        done.exception()


@asynccontextmanager
async def _watched(request: Request) -> AsyncIterator[threading.Event]:
    """Yield an event that is set when the client has gone or the block ends."""
    ended = threading.Event()

    async def look() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(LOOKING)
        ended.set()

    looking = asyncio.create_task(look())
    try:
        yield ended
    finally:
        ended.set()
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
