"""Routes of operations: health, readiness, metrics."""

from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse

from seqbatch.service.access import caller
from seqbatch.service.problems import responses

router = APIRouter(tags=["operations"])


@router.get("/health", summary="Say that the process lives.")
async def health() -> dict[str, str]:
    """Open to everybody, and says nothing else."""
    return {"status": "ok"}


@router.get("/ready", summary="Say whether the store answers.", responses={503: responses()[503]})
async def ready(request: Request) -> dict[str, str]:
    """Open to everybody: 503 where the store cannot be read."""
    await run_in_threadpool(request.app.state.store.names)
    return {"status": "ready"}


@router.get(
    "/metrics",
    summary="Counts for Prometheus.",
    response_class=PlainTextResponse,
    dependencies=[Depends(caller)],
    responses=responses(),
)
async def metrics(request: Request) -> PlainTextResponse:
    """Calls by route and status, their durations, and how many shared a transaction.

    Of all workers together, those of others as of a second ago.
    """
    text = await run_in_threadpool(request.app.state.metrics.text)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get(
    "/v1/openapi.json",
    summary="This description.",
    dependencies=[Depends(caller)],
    responses=responses(),
)
async def description(request: Request) -> JSONResponse:
    """The OpenAPI schema of the service."""
    found: dict[str, Any] = request.app.openapi()
    return JSONResponse(found)
