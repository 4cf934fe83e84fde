"""Routes that read a campaign: status, findings, rule, report, protocol, events, export."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from seqbatch.campaign import Campaign, Status
from seqbatch.service.access import Caller, caller
from seqbatch.service.api_models import EventsAnswer, FindingsAnswer, Name, sends
from seqbatch.service.bodies import FILES, MEDIA_TYPES, own_folder, sent_file
from seqbatch.service.idempotency import as_json, sent
from seqbatch.service.long_calls import bounded
from seqbatch.service.problems import responses
from seqbatch.service.roles import sight
from seqbatch.storage.tokens import Token

router = APIRouter(prefix="/v1/campaigns/{name}", tags=["views"], dependencies=[Depends(caller)])

AtEvent = Annotated[
    int | None,
    Query(ge=1, lt=2**63, description="Show the campaign as it was right after this event."),
]
Document = Literal["html", "md", "json"]
DOCUMENTS = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
}
DOCUMENT = sends("text/html", "text/markdown", "application/json")
#: The media types of a rule's formats.
RULES = {"json": "application/json", "sql": "application/sql", "python": "text/x-python"}
#: Content security policy of reports: only inline styles and pictures.
PAGE = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


@router.get(
    "/status",
    summary="Show the status of a campaign.",
    responses={200: {"model": Status}, **responses(404, 422, 429)},
)
async def status(request: Request, name: Name, token: Caller, at_event: AtEvent = None) -> Response:
    """The status covers waves, actions, outcomes, limits and notes on the estimate.

    While results are withheld from the caller, counts are sums over all actions.
    """
    campaign = _seen(request, name, token)
    return sent(as_json(await bounded(request, lambda: campaign.status(at_event=at_event))))


@router.get(
    "/findings",
    summary="Show what was learned: what works, by how much, how certain it is, what to run next.",
    responses={200: {"model": FindingsAnswer}, **responses(404, 409, 422, 429)},
)
async def findings(
    request: Request,
    name: Name,
    token: Caller,
    level: Annotated[
        float, Query(gt=0, lt=1, description="Confidence level of the intervals.")
    ] = 0.95,
    at_event: AtEvent = None,
    tree: Annotated[
        bool, Query(description="Add a rule in a few words, judged on the last wave.")
    ] = False,
    boosted_trees: Annotated[
        bool, Query(description="Say if a rule by trees would have done better.")
    ] = False,
    conditional_power: Annotated[
        bool, Query(description="Say what the looks to come may show.")
    ] = False,
) -> Response:
    """The intervals are valid after adaptive waves."""
    campaign = _seen(request, name, token)
    found = await bounded(
        request,
        lambda: campaign.findings(
            level=level,
            at_event=at_event,
            tree=tree,
            boosted_trees=boosted_trees,
            conditional_power=conditional_power,
        ),
    )
    return sent(as_json(found.plain()))


@router.get(
    "/rule",
    summary="Return the rule to run next, to give actions to units outside the campaign.",
    responses={200: sends(*RULES.values()), **responses(404, 409, 422, 429)},
)
async def rule(
    request: Request,
    name: Name,
    token: Caller,
    file_format: Annotated[Literal["json", "sql", "python"], Query(alias="format")] = "json",
    kind: Literal["linear", "tree"] = "linear",
    dialect: Annotated[
        Literal["duckdb", "postgres", "spark", "bigquery", "snowflake", "trino"],
        Query(description="SQL dialect."),
    ] = "duckdb",
    units: Annotated[
        str, Query(max_length=1_000, description="Table of units in SQL, as table or schema.table.")
    ] = "units",
    at_event: AtEvent = None,
) -> Response:
    """A linear rule, or the tree of the findings: as JSON, as SQL, or as a Python program."""
    campaign = _seen(request, name, token)
    text = await bounded(
        request,
        lambda: campaign.next_rule(
            kind=kind, file_format=file_format, dialect=dialect, units=units, at_event=at_event
        ),
    )
    return Response(text, media_type=RULES[file_format])


@router.get(
    "/events",
    summary="List the events: what was done, by whom, when and why.",
    responses={200: {"model": EventsAnswer}, **responses(404, 422, 429)},
)
async def events(
    request: Request,
    name: Name,
    token: Caller,
    after: Annotated[int, Query(ge=0, lt=2**63, description="Return events after this one.")] = 0,
    most: Annotated[int, Query(ge=1, le=1_000, description="Maximum number of events.")] = 100,
) -> Response:
    """Events are in order; use `after` for the next page. Viewers see only the public fields."""
    every = await bounded(request, _seen(request, name, token).shown_events)
    return sent(as_json({"events": every[after : after + most], "total": len(every)}))


@router.get(
    "/report",
    summary="Return a report to share: the decision on one page, and an appendix.",
    responses={200: DOCUMENT, **responses(404, 409, 422, 429)},
)
async def report(
    request: Request,
    name: Name,
    token: Caller,
    file_format: Annotated[Document, Query(alias="format")] = "html",
    at_event: AtEvent = None,
    appendix: Annotated[
        bool, Query(description="Show the appendix: in a page it is closed, in Markdown left out.")
    ] = False,
) -> Response:
    """The page needs no network connection."""
    campaign = _seen(request, name, token)
    return await _file(
        request, f"{name}-report.{file_format}", DOCUMENTS[file_format],
        lambda out: campaign.report(
            out, file_format=file_format, at_event=at_event, appendix=appendix
        ),
    )  # fmt: skip


@router.get(
    "/protocol",
    summary="Return the protocol: what was declared before the first unit, for a committee.",
    responses={200: DOCUMENT, **responses(404, 409, 422, 429)},
)
async def protocol(
    request: Request, name: Name, file_format: Annotated[Document, Query(alias="format")] = "html"
) -> Response:
    """The page needs no network connection."""
    campaign = Campaign(request.app.state.store, name)
    return await _file(
        request, f"{name}-protocol.{file_format}", DOCUMENTS[file_format],
        lambda out: campaign.protocol(out, file_format=file_format),
    )  # fmt: skip


@router.get(
    "/package",
    summary="Return everything about a campaign as an archive that can be verified elsewhere.",
    responses={200: sends("application/zip"), **responses(404, 409, 422, 429)},
)
async def package(request: Request, name: Name, token: Caller) -> Response:
    """Unpack it and run ``python verify.py``.

    The record has the seed: of a campaign that is masked or withholds results, only an admin gets
    the archive.
    """
    campaign = _seen(request, name, token)
    return await _file(request, f"{name}.zip", MEDIA_TYPES["zip"], campaign.package)


@router.get(
    "/export",
    summary="Export units, outcomes, logged rows, held rows or events as a file.",
    responses={200: sends(*FILES, DOCUMENTS["json"]), **responses(404, 409, 422, 429)},
)
async def export(
    request: Request,
    name: Name,
    token: Caller,
    what: Literal["units", "outcomes", "rows", "held", "events", "sums"] = "units",
    file_format: Annotated[Literal["csv", "parquet", "xlsx"], Query(alias="format")] = "csv",
    at_event: AtEvent = None,
) -> Response:
    """In CSV files, text that a spreadsheet would run as a formula is escaped.

    Sums are JSON, whatever the format: a later campaign can start from them.
    """
    return await exported(request, name, token, what, file_format, at_event=at_event)


async def exported(
    request: Request,
    name: Name,
    token: Token,
    what: Literal["units", "outcomes", "rows", "held", "events", "sums"],
    file_format: Literal["csv", "parquet", "arrow", "xlsx"],
    *,
    at_event: int | None = None,
    mark: bytes = b"",
) -> Response:
    """Answer with an export, after an optional byte order mark."""
    campaign = _seen(request, name, token)
    if what == "sums":
        return await _file(
            request, f"{name}-sums.json", DOCUMENTS["json"],
            lambda out: campaign.export(out, what="sums"),
        )  # fmt: skip
    return await _file(
        request, f"{name}-{what}.{file_format}", MEDIA_TYPES[file_format],
        lambda out: campaign.export(out, what=what, file_format=file_format, at_event=at_event),
        mark=mark,
    )  # fmt: skip


def _seen(request: Request, name: str, token: Token) -> Campaign:
    """Return a campaign as far as the token's role may see it."""
    return Campaign(request.app.state.store, name, sight=sight(token))


async def _file(
    request: Request,
    name: Name,
    media_type: str,
    write: Callable[[Path], Any],
    *,
    mark: bytes = b"",
) -> Response:
    """Write a file, then answer with it in pieces."""
    with own_folder() as folder:
        out = folder / name
        await bounded(request, lambda: write(out))
        headers = {
            "content-type": media_type,
            "content-security-policy": PAGE,
            "content-disposition": f'attachment; filename="{name}"',
        }
        return sent_file(out, headers, mark=mark)
