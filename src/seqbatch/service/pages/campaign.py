"""One campaign: where it stands, wave by wave."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seqbatch.campaign import Campaign
from seqbatch.service.answering import bounded
from seqbatch.service.models import Name
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.visitors import Visiting

router = APIRouter(include_in_schema=False, prefix="/campaigns/{name}")


@router.get("")
async def overview(request: Request, name: Name, visitor: Visiting) -> Response:
    """Waves, actions, what is missing, and what comes next."""
    campaign = Campaign(request.app.state.store, name, who=visitor.token.name)
    status = await bounded(request, campaign.status)
    return page(request, "campaign.html", name=name, status=status)
