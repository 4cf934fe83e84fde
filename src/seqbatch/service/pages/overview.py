"""Campaigns at a glance: where each stands, and what comes next."""

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.situation import Situation
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.visitors import Visiting
from seqbatch.storage.stores import SQLStore

router = APIRouter(include_in_schema=False)


@router.get("/")
async def campaigns(request: Request, visitor: Visiting) -> Response:
    """The campaigns that the token is for."""
    store: SQLStore = request.app.state.store

    def found() -> list[Situation]:
        names = [name for name in store.names() if visitor.token.sees(name)]
        return [Campaign(store, name).situation() for name in names]

    return page(request, "campaigns.html", campaigns=await run_in_threadpool(found))
