"""What a form has done: the answer that was kept with the change."""

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from seqbatch.service.models import Name
from seqbatch.service.pages.doing import kept, told
from seqbatch.service.pages.gathering import standing
from seqbatch.service.pages.next_words import next_of
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.visitors import Visiting

router = APIRouter(include_in_schema=False, prefix="/campaigns/{name}")


@router.get("/done/{once}")
async def done(request: Request, name: Name, once: str, visitor: Visiting) -> Response:
    """What was done, and what comes next."""
    store = request.app.state.store
    answer = await run_in_threadpool(lambda: told(kept(store, visitor, once)))
    now = await standing(request, name)
    return page(
        request, "done.html", name=name, now=now, once_done=once, answer=answer,
        next=next_of(now), result=answer["result"],
    )  # fmt: skip
