"""The routes that plan an experiment or a campaign."""

from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from seqbatch import planning
from seqbatch.service.access import caller
from seqbatch.service.api_models import CampaignPlanBody, PlanBody, reads
from seqbatch.service.bodies import read_json
from seqbatch.service.idempotency import as_json, sent
from seqbatch.service.long_calls import planned
from seqbatch.service.problems import responses

router = APIRouter(prefix="/v1", tags=["planning"], dependencies=[Depends(caller)])


@router.post(
    "/plan",
    summary="Plan an experiment: how many batches, how large, with which policy, at what cost.",
    openapi_extra=reads(PlanBody, changes=False),
    responses={200: {"model": dict[str, Any]}, **responses(413, 415, 422, 429)},
)
async def plan(request: Request) -> Response:
    """Nothing is stored."""
    body, _ = await read_json(request, PlanBody)
    options = body.model_dump()
    found = await planned(request, lambda progress: planning.plan(**options, progress=progress))
    return sent(as_json(found.as_dict()))


@router.post(
    "/plan/campaign",
    summary="Plan a campaign: customers in each wave, what is gained, and what will be found.",
    openapi_extra=reads(CampaignPlanBody, changes=False),
    responses={200: {"model": dict[str, Any]}, **responses(413, 415, 422, 429)},
)
async def plan_campaign(request: Request) -> Response:
    """Nothing is stored."""
    body, _ = await read_json(request, CampaignPlanBody)
    options = body.model_dump()
    found = await planned(
        request, lambda progress: planning.plan_campaign(**options, progress=progress)
    )
    return sent(as_json(found.as_dict()))
