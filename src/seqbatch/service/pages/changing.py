"""Change a campaign between two waves, go on against its rule, or end it early."""

import re
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seqbatch.campaign import Campaign
from seqbatch.campaign.deciding.proposal_words import proposal_text
from seqbatch.campaign.record.situation import Situation
from seqbatch.planning.replanning import Proposal
from seqbatch.service.models import Name
from seqbatch.service.pages.doing import do
from seqbatch.service.pages.forms import UNCLEAR, Form, read_form
from seqbatch.service.pages.gathering import standing
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.visitors import Visiting
from seqbatch.service.problems import ProblemError

router = APIRouter(include_in_schema=False, prefix="/campaigns/{name}")


@router.get("/change")
async def change(request: Request, name: Name, _visitor: Visiting) -> Response:
    """What can be changed."""
    now = await standing(request, name)
    proposal = None
    if now.proposal is not None:
        proposal = proposal_text(Proposal.of(now.proposal), now.spec.reward.unit)
    return page(request, "change.html", name=name, now=now, proposal=proposal)


@router.post("/amend")
async def amend(request: Request, name: Name, visitor: Visiting) -> Response:
    """Change sizes, actions and how outcomes are spelled; what was assigned stays."""
    form = await read_form(request, visitor)
    asked = _amendment(form, await standing(request, name))
    return await do(request, visitor, name, form, lambda c: c.amend(**asked), did="amend")


def _amendment(form: Form, now: Situation) -> dict[str, Any]:
    # By their numbers: a name may hold what no form sends back as it was.
    numbers = {str(number): now.actions[number].name for number in now.active}
    added = [line.strip() for line in form.text("add").splitlines() if line.strip()]
    return {
        "reason": form.text("reason"),
        "sizes": _sizes(form.text("sizes")),
        "add": added or None,
        "retire": [numbers.get(each, each) for each in form.every("retire")] or None,
        "floor": form.number("floor"),
        "reward_format": form.text("reward_format") or None,
    }


def _sizes(text: str) -> list[int] | None:
    """Return sizes as they are typed.

    >>> _sizes("400, 1600 3200"), _sizes(" ")
    ([400, 1600, 3200], None)
    """
    words = text.replace(",", " ").replace(";", " ").split()
    if not words:
        return None
    if UNCLEAR.search(text) or not all(re.fullmatch("[0-9]{1,12}", word) for word in words):
        raise ProblemError(
            422, "invalid-argument",
            "sizes must be whole numbers such as 400 1600, without commas in them and with a space "
            f"between two; received {text[:100]!r}.",
        )  # fmt: skip
    return [int(word) for word in words]


@router.post("/adopt")
async def adopt(request: Request, name: Name, visitor: Visiting) -> Response:
    """Make the proposed sizes the campaign's."""
    form = await read_form(request, visitor)
    reason = form.text("reason")

    def step(campaign: Campaign) -> Any:
        before = campaign.situation().sequence
        campaign.replan(adopt=True, reason=reason)
        return {"again": campaign.situation().sequence == before}

    return await do(request, visitor, name, form, step, did="adopt")


@router.post("/continue")
async def go_on(request: Request, name: Name, visitor: Visiting) -> Response:
    """Go on although the declared rule says to stop."""
    form = await read_form(request, visitor)
    reason = form.text("reason")
    return await do(request, visitor, name, form, lambda c: c.go_on(reason=reason), did="continue")


@router.post("/abort")
async def abort(request: Request, name: Name, visitor: Visiting) -> Response:
    """End the campaign early."""
    form = await read_form(request, visitor)
    if not form.ticked("sure"):
        raise ProblemError(
            422, "invalid-argument", "tick the box that says that the campaign ends for good."
        )
    reason = form.text("reason")
    return await do(request, visitor, name, form, lambda c: c.abort(reason=reason), did="abort")
