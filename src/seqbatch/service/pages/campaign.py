"""The pages of a campaign: overview, findings, history, report, protocol, files."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from seqbatch.campaign import Campaign, Status
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.findings_text import details, with_sections
from seqbatch.campaign.views.history import what_was_done
from seqbatch.campaign.views.metrics import broken_sentences, guardrail_lines
from seqbatch.campaign.views.protocol import protocol as protocol_document
from seqbatch.campaign.views.recommendation import given_shares
from seqbatch.campaign.views.report import report as report_document
from seqbatch.campaign.views.report_results import Material
from seqbatch.campaign.views.status import (
    remarks,
)
from seqbatch.document import Document
from seqbatch.errors import CampaignStateError
from seqbatch.policies.registry import plainly
from seqbatch.service.api_models import Name
from seqbatch.service.bodies import mark_of
from seqbatch.service.long_calls import bounded
from seqbatch.service.pages import rendering
from seqbatch.service.pages.forms import kept, told
from seqbatch.service.pages.rendering import (
    drawn,
    hour_of,
    learned,
    material,
    next_of,
    on_pages,
    page,
    standing,
)
from seqbatch.service.pages.session import Visiting, Visitor
from seqbatch.service.problems import problem_of
from seqbatch.service.routes import views

# ----------------------------------------------------------------------
# The page after a form: what was done


router = APIRouter(include_in_schema=False, prefix="/campaigns/{name}")


@router.get("/done/{once}")
async def done(request: Request, name: Name, once: str, visitor: Visiting) -> Response:
    """Show what was done, and the next step."""
    store = request.app.state.store
    answer = await run_in_threadpool(lambda: told(kept(store, visitor, once)))
    now = await standing(request, name)
    found = await _learned(request, visitor, now) if answer["did"] == "close" else None
    return page(
        request, "done.html", name=name, now=now, once_done=once, answer=answer,
        next=next_of(now), result=answer["result"], found=found,
        lifts=found and rendering.lifts(found),
        next_shares=given_shares(found) if found and now.condition == "open" else {},
    )  # fmt: skip


async def _learned(request: Request, visitor: Visitor, now: Situation) -> Findings | None:
    """Return what the closed waves showed; None if the visitor may not see it."""
    state = request.app.state
    if now.spec.rows == "elsewhere" or visitor.sight.hides(now):
        return None
    made = await bounded(request, lambda: learned(state.memory, state.store, now))
    return None if made is None else made.found


# ----------------------------------------------------------------------
# Report, protocol and exports


@router.get("/report")
async def report(request: Request, name: Name, visitor: Visiting) -> Response:
    """Show the report as a page of the dashboard."""
    state = request.app.state
    now = await standing(request, name)

    def written() -> list[dict[str, object]]:
        return _every(report_document(material(state.memory, state.store, now)))

    try:
        visitor.sight.require_results(now)
        key = ("report", name, now.hash, hour_of(now))
        made = await bounded(request, lambda: state.memory.get(key, written))
    except CampaignStateError as error:
        said = problem_of(error, state.store.label).said(on_pages)
        return page(request, "unknown.html", name=name, now=now, said=said)
    return page(
        request, "document.html", name=name, now=now, what="report", title="Report",
        asked=now.spec.question, sections=made,
    )  # fmt: skip


@router.get("/protocol")
async def protocol(request: Request, name: Name, _visitor: Visiting) -> Response:
    """Show the protocol: what was declared before the first unit."""
    campaign = Campaign(request.app.state.store, name)
    now = await standing(request, name)
    made = await bounded(request, lambda: _every(protocol_document(campaign.events())))
    return page(
        request, "document.html", name=name, now=now, what="protocol", title="Protocol",
        asked=None, sections=made,
    )  # fmt: skip


def _every(document: Document) -> list[dict[str, object]]:
    """Return all sections of a document, for a template."""
    return drawn((document.first, *document.sections))


@router.get("/document")
async def document(
    request: Request,
    name: Name,
    visitor: Visiting,
    what: Literal["report", "protocol"] = "report",
    file_format: Annotated[views.Document, Query(alias="format")] = "html",
) -> Response:
    """Return the report or the protocol as a file."""
    if what == "report":
        return await views.report(request, name, visitor.token, file_format)
    return await views.protocol(request, name, file_format)


@router.get("/files")
async def files(request: Request, name: Name, _visitor: Visiting) -> Response:
    """List the files to download."""
    now = await standing(request, name)
    return page(request, "files.html", name=name, now=now)


@router.get("/export")
async def export(
    request: Request,
    name: Name,
    visitor: Visiting,
    what: Literal["units", "outcomes", "rows", "held", "events", "sums"] = "units",
    file_format: Annotated[
        Literal["csv", "parquet", "arrow", "xlsx"], Query(alias="format")
    ] = "csv",
) -> Response:
    """Return an export as a file."""
    return await views.exported(
        request, name, visitor.token, what, file_format, mark=mark_of(file_format)
    )


# ----------------------------------------------------------------------
# One campaign: overview, findings and history


#: Number of events per page of the history.
EVENTS = 15


@dataclass(frozen=True)
class Seen:
    """The data of the overview page; `learned` is None before the first wave is closed."""

    now: Situation
    status: Status
    learned: Material | None


@router.get("")
async def overview(request: Request, name: Name, visitor: Visiting) -> Response:
    """Show a campaign: waves, actions, missing outcomes, results and the next step."""
    state = request.app.state
    campaign = Campaign(state.store, name, sight=visitor.sight)

    def looked() -> Seen:
        now = campaign.situation()
        found = None
        if now.spec.rows != "elsewhere" and not visitor.sight.hides(now):
            found = learned(state.memory, state.store, now)
        return Seen(now, campaign.status(at_event=now.sequence), found)

    seen = await bounded(request, looked)
    status = seen.status
    return page(
        request, "campaign.html", name=name, now=seen.now, status=status, next=next_of(seen.now),
        policy=plainly(status.policy), shares=rendering.shares(status),
        tables=status.tables()[1:] if status.actions else [],
        broken=broken_sentences(seen.learned.found) if seen.learned else [],
        remarks=remarks(status)[:-1],
        learned=seen.learned, lifts=seen.learned and rendering.lifts(seen.learned.found),
    )  # fmt: skip


@router.get("/findings")
async def findings(request: Request, name: Name, visitor: Visiting) -> Response:
    """Show what was learned, how certain it is, and what to do."""
    state = request.app.state
    now = await standing(request, name)
    try:
        visitor.sight.require_results(now)
        of = await bounded(request, lambda: material(state.memory, state.store, now))
    except CampaignStateError as error:
        said = problem_of(error, state.store.label).said(on_pages)
        return page(request, "unknown.html", name=name, now=now, said=said)
    found = of.found
    tables = with_sections(found)
    return page(
        request, "findings.html", name=name, now=now, found=found, lifts=rendering.lifts(found),
        decision=found.decision, waves=await run_in_threadpool(lambda: rendering.by_wave(found)),
        said=details(found), guardrails=guardrail_lines(found),
        metrics=[table for section, table in tables if section == "metrics"],
        tables=[table for section, table in tables if section != "metrics"],
    )  # fmt: skip


@dataclass(frozen=True)
class Done:
    """An event, and its description."""

    event: Event
    what: str


@router.get("/history")
async def history(
    request: Request, name: Name, visitor: Visiting, before: Annotated[int, Query(ge=1)] = 2**62
) -> Response:
    """List the events, newest first."""
    campaign = Campaign(request.app.state.store, name, sight=visitor.sight)
    now = await standing(request, name)
    every = await bounded(request, campaign.shown_events)
    listed = [event for event in reversed(every) if event.sequence < before][:EVENTS]
    return page(
        request, "history.html", name=name, now=now, total=len(every),
        done=[Done(event, what_was_done(event)) for event in listed],
    )  # fmt: skip
