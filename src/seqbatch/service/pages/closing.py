"""Close a wave, behind a page that says what will happen, what is missing and what is for good."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seqbatch.campaign import Closed
from seqbatch.errors import CampaignStateError
from seqbatch.service.answering import bounded
from seqbatch.service.models import Name
from seqbatch.service.pages.doing import do
from seqbatch.service.pages.forms import read_form
from seqbatch.service.pages.gathering import standing
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.trying import tried
from seqbatch.service.pages.visitors import Visiting
from seqbatch.service.pages.wording import for_people
from seqbatch.service.problems import ProblemError, problem_of
from seqbatch.storage.stores import SQLStore

router = APIRouter(include_in_schema=False, prefix="/campaigns/{name}")


@router.get("/close")
async def what_will_happen(request: Request, name: Name, _visitor: Visiting) -> Response:
    """What closing the open wave would do.

    It is tried, for what would be refused and for what counts as absent. What the estimate and the
    declared rule would say is not shown: that would be a look that nobody recorded.
    """
    store = request.app.state.store
    now = await standing(request, name)
    found, refused = await bounded(request, lambda: _tried(store, name))
    units = now.units[now.wave - 1] if now.condition == "open" else 0
    return page(
        request, "close.html", name=name, now=now, found=found, refused=refused, units=units,
        missing=units - now.observed,
    )  # fmt: skip


def _tried(store: SQLStore, name: str) -> tuple[Closed | None, str]:
    """Return what closing would do, by force where it takes force, and why it would be refused."""
    try:
        return tried(store, name, lambda campaign: campaign.close()), ""
    except CampaignStateError as error:
        refused = for_people(problem_of(error, store.label).detail)
    try:
        by_force: dict[str, Any] = {"force": True, "reason": "only tried"}
        return tried(store, name, lambda campaign: campaign.close(**by_force)), refused
    except CampaignStateError:
        return None, refused


@router.post("/close")
async def close(request: Request, name: Name, visitor: Visiting) -> Response:
    """Close the wave that the page was about."""
    form = await read_form(request, visitor)
    if (wave := form.whole("wave")) is None:
        raise ProblemError(422, "form-refused", "the form must name the wave that it closes.")
    options: dict[str, Any] = {
        "wave": wave, "force": form.ticked("force"), "skip": form.ticked("skip"),
        "reason": form.text("reason"),
    }  # fmt: skip
    return await do(
        request, visitor, name, form, lambda campaign: campaign.close(**options), did="close"
    )
