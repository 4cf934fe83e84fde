"""Routes of operations: health, readiness, metrics."""

import asyncio
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse

from seqbatch.service.access import caller
from seqbatch.service.problems import ProblemError, responses

router = APIRouter(tags=["operations"])

#: Seconds that a call waits to find out whether the store can be read.
PATIENCE = 2.0


@router.get("/health", summary="Check that the process is running.")
async def health() -> dict[str, str]:
    """No token is needed."""
    return {"status": "ok"}


@router.get(
    "/ready", summary="Check that the store can be read.", responses={503: responses()[503]}
)
async def ready(request: Request) -> dict[str, str]:
    """No token is needed. The call answers 503 if the store cannot be read."""
    state = request.app.state
    # All callers share one look: a store that does not answer must not occupy every thread.
    if state.look is None or state.look.done():
        state.look = asyncio.ensure_future(run_in_threadpool(state.store.names))
    try:
        await asyncio.wait_for(asyncio.shield(state.look), PATIENCE)
    except TimeoutError:
        raise ProblemError(
            503, "store-failed", f"the store did not answer within {PATIENCE:g} seconds."
        ) from None
    return {"status": "ready"}


@router.get(
    "/metrics",
    summary="Return metrics for Prometheus.",
    response_class=PlainTextResponse,
    dependencies=[Depends(caller)],
    responses=responses(),
)
async def metrics(request: Request) -> PlainTextResponse:
    """The metrics count calls by route and status, durations, and calls that shared a transaction.

    They cover all workers; those of other workers may be a second old.
    """
    text = await run_in_threadpool(request.app.state.metrics.text)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get(
    "/v1/openapi.json",
    summary="Return the OpenAPI schema.",
    dependencies=[Depends(caller)],
    responses=responses(),
)
async def description(request: Request) -> JSONResponse:
    """The schema describes every call of this service."""
    found: dict[str, Any] = request.app.openapi()
    return JSONResponse(found)
