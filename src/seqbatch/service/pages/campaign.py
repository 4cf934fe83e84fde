"""One campaign: where it stands wave by wave, what was learned, and what was done."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from seqbatch.campaign import Campaign, Status
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.views.policy_words import plainly
from seqbatch.campaign.views.reporting.first_screen import cautions, what_to_do
from seqbatch.campaign.views.reporting.material import Material
from seqbatch.campaign.views.words import metrics_table, remarks, violations, what_was_done
from seqbatch.errors import CampaignStateError
from seqbatch.service.answering import bounded
from seqbatch.service.models import Name
from seqbatch.service.pages import drawing
from seqbatch.service.pages.gathering import learned, material, standing
from seqbatch.service.pages.next_words import next_of
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.visitors import Visiting
from seqbatch.service.problems import problem_of

router = APIRouter(include_in_schema=False, prefix="/campaigns/{name}")

#: Events on a page of the history.
EVENTS = 50


@dataclass(frozen=True)
class Seen:
    """A campaign as its first page shows it; `learned` is None before the first wave is closed."""

    now: Situation
    status: Status
    learned: Material | None


@router.get("")
async def overview(request: Request, name: Name, _visitor: Visiting) -> Response:
    """Waves, actions, what is missing, what was learned, and what comes next."""
    state, campaign = request.app.state, Campaign(request.app.state.store, name)

    def looked() -> Seen:
        now = campaign.situation()
        found = None
        if now.spec.rows != "elsewhere":
            found = learned(state.memory, state.store, now)
        return Seen(now, campaign.status(at_event=now.sequence), found)

    seen = await bounded(request, looked)
    status = seen.status
    return page(
        request, "campaign.html", name=name, now=seen.now, status=status, next=next_of(seen.now),
        policy=plainly(status.policy), shares=drawing.shares(status),
        tables=status.tables()[1:] if status.actions else [],
        violations=violations(status.metrics), remarks=_remarks(status),
        learned=seen.learned, lifts=seen.learned and drawing.lifts(seen.learned.found),
    )  # fmt: skip


def _remarks(status: Status) -> list[str]:
    """Return what there is to know, but for guardrails and the hash: they have other places."""
    told = set(violations(status.metrics))
    return [said for said in remarks(status)[:-1] if said not in told]


@router.get("/findings")
async def findings(request: Request, name: Name, _visitor: Visiting) -> Response:
    """What was learned, how sure that is, and what to do."""
    state = request.app.state
    now = await standing(request, name)
    try:
        of = await bounded(request, lambda: material(state.memory, state.store, now))
    except CampaignStateError as error:
        said = problem_of(error, state.store.label).detail
        return page(request, "unknown.html", name=name, now=now, said=said)
    found = of.found
    return page(
        request, "findings.html", name=name, now=now, found=found, lifts=drawing.lifts(found),
        advice=what_to_do(of), cautions=cautions(found) if found.known else [],
        tables=found.tables(), warnings=found.quality.warnings,
        metrics=metrics_table(found.metrics) if found.metrics else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Done:
    """An event, and what was done in words."""

    event: Event
    what: str


@router.get("/history")
async def history(
    request: Request, name: Name, _visitor: Visiting, before: Annotated[int, Query(ge=1)] = 2**62
) -> Response:
    """Everything that was done, the newest first."""
    campaign = Campaign(request.app.state.store, name)
    now = await standing(request, name)
    every = await bounded(request, campaign.events)
    listed = [event for event in reversed(every) if event.sequence < before][:EVENTS]
    return page(
        request, "history.html", name=name, now=now, total=len(every),
        done=[Done(event, what_was_done(event)) for event in listed],
    )  # fmt: skip
