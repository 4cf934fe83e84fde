"""The application: routes, errors, limits, graceful stop."""

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqbatch.service import access, problems
from seqbatch.service.access import Rate
from seqbatch.service.call_limits import Settings
from seqbatch.service.group_commit import Groups
from seqbatch.service.metrics import Metrics
from seqbatch.service.pages import campaign, create, plan, rendering, sign_in, waves
from seqbatch.service.pages.plan import Plans
from seqbatch.service.pages.rendering import ViewCache
from seqbatch.service.pages.uploads import Uploads
from seqbatch.service.problems import ProblemDocument
from seqbatch.service.routes import campaigns, health, plans, units, views
from seqbatch.storage import answers, open_store, tokens
from seqbatch.storage.stores import SQLStore

# ----------------------------------------------------------------------
# A signal to stop: from then on every answer ends its connection.
#
# The server asks connections to end after their next answer when a signal comes. One that arrives
# in that moment is not asked, and a client that goes on asking there would hold the server for as
# long as it waits at most.


#: What tells a server to stop.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
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


# ----------------------------------------------------------------------
# The application: routes, errors, limits, and what every answer carries.


#: The store of a worker, which is a process of its own; its settings, and the folder that all
#: workers share.
STORE = "SEQBATCH_SERVICE_STORE"
SETTINGS = "SEQBATCH_SERVICE_SETTINGS"
FOLDER = "SEQBATCH_SERVICE_FOLDER"
#: Every how many seconds what is old is dropped, and counts are kept for other workers.
FORGETTING, KEEPING = 3600.0, 1.0
#: The parts of the dashboard.
PAGES = (
    sign_in.router, campaign.list_router, campaign.router, waves.router, plan.router, create.router,
)  # fmt: skip
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"referrer-policy": b"no-referrer",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
}


def make_app(
    store: SQLStore, settings: Settings | None = None, *, folder: Path | None = None
) -> FastAPI:
    """Return the service of a store.

    Parameters
    ----------
    store
        Where campaigns, tokens and answers are kept.
    settings
        The limits.
    folder
        What several workers share: their counts, and files that wait for a confirmation. None for
        a single one.
    """
    settings = settings or Settings()
    app = FastAPI(
        title="seqbatch", version=version("seqbatch"), openapi_url=None, docs_url=None,
        redoc_url=None, lifespan=_lifespan, redirect_slashes=False,
        description="Plan and run adaptive experiments whose feedback comes in a few batches.",
    )  # fmt: skip
    app.state.store = store
    app.state.settings = settings
    app.state.access = access.Access(store, settings)
    app.state.rate = Rate(settings.rate, settings.burst)
    app.state.metrics = Metrics(None if folder is None else _made(folder / "counts"))
    app.state.groups = Groups(store, app.state.metrics)
    app.state.plans = Plans(settings.plans)
    app.state.memory = ViewCache()
    app.state.places = asyncio.Semaphore(settings.at_once)
    app.state.folder = folder
    app.state.stopping = StopSignal()
    # The routes that are asked most come first: they are looked for in this order.
    for part in (units, health, campaigns, views, plans):
        app.include_router(part.router)
    for router in PAGES:
        app.include_router(router)
    problems.handle(app, store.label, rendering.answered)
    app.add_middleware(Carried, metrics=app.state.metrics, stopping=app.state.stopping)
    _describe(app)
    return app


def from_environment() -> FastAPI:
    """Return the service of a worker."""
    return make_app(
        open_store(os.environ[STORE], create=False),
        Settings.of_text(os.environ[SETTINGS]),
        folder=Path(os.environ[FOLDER]),
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    with TemporaryDirectory(prefix="seqbatch-", ignore_cleanup_errors=True) as own:
        folder = app.state.folder or Path(own)
        app.state.uploads = Uploads(_made(folder / "uploads"), app.state.settings)
        async with _working(app):
            with app.state.stopping.watched():
                yield


@asynccontextmanager
async def _working(app: FastAPI) -> AsyncIterator[None]:
    tasks = [
        asyncio.create_task(_again_and_again(FORGETTING, partial(_forget, app))),
        asyncio.create_task(_again_and_again(KEEPING, app.state.metrics.keep)),
    ]
    yield
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    # What waits is finished; what is in the middle of a transaction ends it.
    await run_in_threadpool(app.state.groups.close)
    await run_in_threadpool(app.state.metrics.keep)


def _forget(app: FastAPI) -> None:
    """Drop answers, sessions and files whose time is over."""
    answers.forget(app.state.store)
    tokens.forget_sessions(app.state.store)
    app.state.uploads.forget()


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


async def _again_and_again(seconds: float, call: Callable[[], object]) -> None:
    while True:
        with contextlib.suppress(Exception):
            await run_in_threadpool(call)
        await asyncio.sleep(seconds)


def _describe(app: FastAPI) -> None:
    """Complete the schema: problems instead of the framework's own errors."""
    made = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = made()
            parts = schema.setdefault("components", {}).setdefault("schemas", {})
            for name in ("HTTPValidationError", "ValidationError"):
                parts.pop(name, None)
            problem = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
            parts.update(problem.pop("$defs", {}))
            parts["Problem"] = problem
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


class Carried:
    """Puts on every answer what it must carry, and counts it."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, stopping: StopSignal) -> None:
        self._app = app
        self._metrics = metrics
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def carrying(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                there = {name for name, _ in message["headers"]}
                more = [pair for pair in HEADERS.items() if pair[0] not in there]
                ends = [(b"connection", b"close")] if self._stopping.begun else []
                message["headers"] = [*message["headers"], *more, *ends]
            await send(message)

        try:
            await self._app(scope, receive, carrying)
        finally:
            # The route's pattern, never the path: a client could make any number of those.
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in ("GET", "POST") else "other"
            self._metrics.count(method, route, status, time.perf_counter() - began)
