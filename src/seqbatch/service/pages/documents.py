"""The report and the protocol as pages and as files, and what is stored as files."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from seqbatch.campaign import Campaign
from seqbatch.campaign.views.protocol import protocol as protocol_document
from seqbatch.campaign.views.report import document as report_document
from seqbatch.campaign.views.reporting.document import Document, Heading, Items, Picture
from seqbatch.display import Table, picture
from seqbatch.errors import CampaignStateError
from seqbatch.service.answering import bounded
from seqbatch.service.bodies import mark_of
from seqbatch.service.models import Name
from seqbatch.service.pages.gathering import material, standing
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.visitors import Visiting
from seqbatch.service.problems import problem_of
from seqbatch.service.routes import views

router = APIRouter(include_in_schema=False, prefix="/campaigns/{name}")


@router.get("/report")
async def report(request: Request, name: Name, _visitor: Visiting) -> Response:
    """The report as a page of the dashboard."""
    state = request.app.state
    now = await standing(request, name)

    def written() -> list[dict[str, object]]:
        return drawn(report_document(material(state.memory, state.store, now)))

    try:
        key = ("report", name, now.hash)
        made = await bounded(request, lambda: state.memory.get(key, written))
    except CampaignStateError as error:
        said = problem_of(error, state.store.label).detail
        return page(request, "unknown.html", name=name, now=now, said=said)
    return page(
        request, "document.html", name=name, now=now, what="report", title="Report", sections=made
    )


@router.get("/protocol")
async def protocol(request: Request, name: Name, _visitor: Visiting) -> Response:
    """What was declared before the first unit."""
    campaign = Campaign(request.app.state.store, name)
    now = await standing(request, name)
    made = await bounded(request, lambda: drawn(protocol_document(campaign.events())))
    return page(
        request, "document.html", name=name, now=now, what="protocol", title="Protocol",
        sections=made,
    )  # fmt: skip


def drawn(document: Document) -> list[dict[str, object]]:
    """Return a document's sections as a template shows them, with their pictures drawn."""
    return [
        {"key": one.key, "title": one.title, "parts": [_part(part) for part in one.parts]}
        for one in (document.first, *document.sections)
    ]


def _part(part: object) -> dict[str, object]:
    if isinstance(part, Heading):
        return {"kind": "heading", "text": part.text}
    if isinstance(part, Items):
        return {"kind": "items", "items": part.items}
    if isinstance(part, Table):
        return {"kind": "table", "table": part}
    if isinstance(part, Picture):
        source = picture(part.draw, "").partition('src="')[2].partition('"')[0]
        return {"kind": "picture", "source": source, "words": part.words, "caption": part.caption}
    return {"kind": "text", "text": part}


@router.get("/document")
async def document(
    request: Request,
    name: Name,
    _visitor: Visiting,
    what: Literal["report", "protocol"] = "report",
    file_format: Annotated[views.Document, Query(alias="format")] = "html",
) -> Response:
    """The report or the protocol as a file."""
    make = views.report if what == "report" else views.protocol
    return await make(request, name, file_format)


@router.get("/files")
async def files(request: Request, name: Name, _visitor: Visiting) -> Response:
    """What can be downloaded."""
    now = await standing(request, name)
    return page(request, "files.html", name=name, now=now)


@router.get("/export")
async def export(
    request: Request,
    name: Name,
    _visitor: Visiting,
    what: Literal["units", "outcomes", "held", "events"] = "units",
    file_format: Annotated[Literal["csv", "parquet", "arrow"], Query(alias="format")] = "csv",
) -> Response:
    """What is stored, as a file."""
    return await views.exported(request, name, what, file_format, mark=mark_of(file_format))
