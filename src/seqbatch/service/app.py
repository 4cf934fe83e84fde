"""The FastAPI application: routes, errors, limits, graceful shutdown."""

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
from seqbatch.service.call_limits import Rate, Settings
from seqbatch.service.call_log import FORMAT, HEADER, LEVEL, log_call, request_id, start_log
from seqbatch.service.call_trace import start_traces, traced
from seqbatch.service.group_commit import Groups
from seqbatch.service.long_calls import Places
from seqbatch.service.metrics import Metrics
from seqbatch.service.pages import (
    api,
    campaign,
    campaign_list,
    campaign_plan,
    create,
    plan,
    readings,
    rehearsal,
    rendering,
    sign_in,
    token_list,
    waves,
)
from seqbatch.service.pages.plan import Plans
from seqbatch.service.pages.rendering import ViewCache
from seqbatch.service.pages.uploads import Uploads
from seqbatch.service.problems import ProblemDocument
from seqbatch.service.rehearsals import Rehearsals
from seqbatch.service.routes import campaigns, health, plans, units, views
from seqbatch.storage import answers, open_store, tokens
from seqbatch.storage.stores import SQLStore

# ----------------------------------------------------------------------
# Graceful shutdown: after a stop signal, every answer closes its connection
#
# On a stop signal, the server closes existing connections after their next answer. It misses a
# connection that arrives at that moment. A client that keeps using this connection would delay the
# shutdown until its timeout.


#: Signals that stop a server.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """Records whether a stop signal has arrived."""

    def __init__(self) -> None:
        self.begun = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Handle signals before the current handlers; only the main thread receives signals."""
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
# The application


#: Environment variables for a worker process: its store, its settings, and the workers' shared
#: folder.
STORE = "SEQBATCH_SERVICE_STORE"
SETTINGS = "SEQBATCH_SERVICE_SETTINGS"
FOLDER = "SEQBATCH_SERVICE_FOLDER"
#: Seconds between clean-ups of old data, and between writes of counts for other workers.
FORGETTING, KEEPING = 3600.0, 1.0
#: How many campaigns' headlines are cached.
HEADLINES = 2_000
#: The routers of the dashboard.
PAGES = (
    sign_in.router, campaign_list.router, campaign.router, waves.router, plan.router,
    campaign_plan.router, token_list.router, api.router, create.router,
    rehearsal.router, readings.router,
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
    """Return the application that serves a store.

    Parameters
    ----------
    store
        The store of campaigns, tokens and answers.
    settings
        The limits.
    folder
        The folder that several workers share, for their counts and for uploaded files that wait
        for confirmation. None for a single worker.
    """
    settings = settings or Settings()
    app = FastAPI(
        title="seqbatch", version=version("seqbatch"), openapi_url=None, docs_url=None,
        redoc_url=None, lifespan=_lifespan, redirect_slashes=False,
        description="Plan and run adaptive experiments whose feedback comes in a few batches.",
        # Newer versions have their own spans; `call_trace` makes those of this service.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )  # fmt: skip
    app.state.store = store
    app.state.settings = settings
    app.state.access = access.Access(store, settings)
    app.state.rate = Rate(settings.rate, settings.burst)
    app.state.metrics = Metrics(None if folder is None else _made(folder / "counts"))
    app.state.groups = Groups(store, app.state.metrics)
    app.state.plans = Plans(settings.plans)
    app.state.memory = ViewCache()
    app.state.headlines = ViewCache(HEADLINES)
    app.state.places = Places(settings)
    app.state.look = None
    app.state.folder = folder
    app.state.stopping = StopSignal()
    # The most used routes come first, because routes are matched in this order.
    for part in (units, health, campaigns, views, plans):
        app.include_router(part.router)
    for router in PAGES:
        app.include_router(router)
    problems.handle(app, store.label, rendering.answered)
    app.add_middleware(Carried, metrics=app.state.metrics, stopping=app.state.stopping)
    _describe(app)
    return app


def from_environment() -> FastAPI:
    """Return the application of a worker process, configured by environment variables."""
    start_log(kind=os.environ.get(FORMAT, "text"), level=os.environ.get(LEVEL, "warning"))
    start_traces()
    return make_app(
        # Calls are answered with 503 until the server of the store can be reached.
        open_store(os.environ[STORE], create=False, wait_for_server=True),
        Settings.of_text(os.environ[SETTINGS]),
        folder=Path(os.environ[FOLDER]),
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    with TemporaryDirectory(prefix="seqbatch-", ignore_cleanup_errors=True) as own:
        folder = app.state.folder or Path(own)
        app.state.uploads = Uploads(_made(folder / "uploads"), app.state.settings)
        app.state.rehearsals = Rehearsals(_made(folder / "rehearsals"), app.state.settings)
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
    # Finish waiting calls and running transactions.
    await run_in_threadpool(app.state.groups.close)
    await run_in_threadpool(app.state.metrics.keep)


def _forget(app: FastAPI) -> None:
    """Delete expired answers, sessions and uploaded files."""
    answers.forget(app.state.store)
    tokens.forget_sessions(app.state.store)
    app.state.uploads.forget()
    app.state.rehearsals.forget()


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


async def _again_and_again(seconds: float, call: Callable[[], object]) -> None:
    while True:
        with contextlib.suppress(Exception):
            await run_in_threadpool(call)
        await asyncio.sleep(seconds)


def _describe(app: FastAPI) -> None:
    """Complete the OpenAPI schema: replace the framework's errors by problem documents."""
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
    """Middleware that adds the common headers to every answer, counts it and logs it."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, stopping: StopSignal) -> None:
        self._app = app
        self._metrics = metrics
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        request = request_id(scope)

        async def carrying(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                there = {name for name, _ in message["headers"]}
                more = [pair for pair in HEADERS.items() if pair[0] not in there]
                ends = [(b"connection", b"close")] if self._stopping.begun else []
                own = (HEADER, request.encode())
                message["headers"] = [*message["headers"], *more, *ends, own]
            await send(message)

        with traced(scope, request) as trace:
            try:
                await self._app(scope, receive, carrying)
            finally:
                # Count by the route's pattern: a client could invent any number of paths.
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if scope["method"] in ("GET", "POST") else "other"
                seconds = time.perf_counter() - began
                self._metrics.count(method, route, status, seconds)
                name = scope.get("path_params", {}).get("name", "")
                trace.end(method=method, route=route, status=status, campaign=name)
                log_call(
                    scope, request=request, route=route, status=status, seconds=seconds,
                    steps=trace.steps,
                )  # fmt: skip
