"""Campaigns at a glance: where each stands, and what comes next."""

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.situation import Situation
from seqbatch.errors import CampaignError
from seqbatch.service.pages.next_words import Next, next_of
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.visitors import Visiting
from seqbatch.service.problems import problem_of
from seqbatch.storage.stores import SQLStore

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Glance:
    """A campaign at a glance, or why it cannot be read."""

    name: str
    now: Situation | None = None
    next: Next | None = None
    failed: str = ""


@router.get("/")
async def campaigns(request: Request, visitor: Visiting) -> Response:
    """The campaigns that the token is for, those that wait for somebody first."""
    store: SQLStore = request.app.state.store

    def found() -> list[Glance]:
        names = [name for name in store.names() if visitor.token.sees(name)]
        # The newest first; those that are over come last.
        every = [_glance(store, name) for name in reversed(names)]
        return sorted(every, key=lambda one: one.now is not None and one.now.condition != "open")

    return page(request, "campaigns.html", campaigns=await run_in_threadpool(found))


def _glance(store: SQLStore, name: str) -> Glance:
    try:
        now = Campaign(store, name).situation()
    except CampaignError as error:
        # One that is damaged must not hide the others.
        return Glance(name, failed=problem_of(error, store.label).detail)
    return Glance(name, now, next_of(now))
