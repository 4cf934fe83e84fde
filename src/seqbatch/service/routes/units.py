"""Routes that assign units and record outcomes, as JSON or as files."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from seqbatch.campaign import Assigned, Campaign, Recorded
from seqbatch.campaign.decide.repeated_rows import EqualRows
from seqbatch.campaign.files.formats import answer_format
from seqbatch.campaign.files.reading import MOST_SKIPPED, ReadingOptions, Source
from seqbatch.service.access import Caller
from seqbatch.service.api_models import (
    AssignmentsAnswer,
    AssignmentsBody,
    Name,
    OutcomesAnswer,
    OutcomesBody,
    Reason,
    reads,
)
from seqbatch.service.bodies import (
    FILES,
    MEDIA_TYPES,
    answer_type,
    media_type,
    names_of,
    pieces_of,
    read_json,
    sent_file,
    spooled,
    table_of,
    watched,
    zipped,
)
from seqbatch.service.group_commit import Groups, Small, assigned
from seqbatch.service.idempotency import as_json, call_of, changed, sent, stepped
from seqbatch.service.long_calls import placed
from seqbatch.service.problems import in_calls, responses
from seqbatch.service.roles import sight
from seqbatch.storage.answers import StoredAnswer
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.tokens import Token
from seqbatch.storage.transaction import SharedTransaction

# Each route declares the caller itself, not the router: checking the token twice takes time, and
# these are the most used routes.
router = APIRouter(prefix="/v1/campaigns", tags=["units"])

Format = Literal["csv", "parquet", "xlsx"]
FILE = {"schema": {"type": "string", "format": "binary"}}
#: Maximum number of warnings in the header of a file's answer, and the length of each.
MOST_WARNINGS, LONGEST_WARNING = 8, 300


def reading_of(
    sheet: Annotated[
        str | None, Query(description="For workbooks: the sheet (default: the first with cells).")
    ] = None,
    skip_rows: Annotated[
        int, Query(ge=0, le=MOST_SKIPPED, description="For files: lines or rows above the header.")
    ] = 0,
    dedupe: Annotated[
        str | None,
        Query(
            description="For files: which row of a repeated unit counts: first, last, or newest-by "
            "and a column.",
            examples=["newest-by updated_at"],
        ),
    ] = None,
) -> ReadingOptions:
    """Return how to read a file, from the query."""
    return {"sheet": sheet, "skip_rows": skip_rows, "dedupe": dedupe}


Reading = Annotated[ReadingOptions, Depends(reading_of)]


@router.post(
    "/{name}/assignments",
    summary="Assign an action to each unit; units that already have one keep it.",
    openapi_extra=reads(AssignmentsBody, files=True),
    responses={
        200: {"model": AssignmentsAnswer, "content": dict.fromkeys(FILES, FILE)},
        **responses(404, 409, 413, 415, 422),
    },
)
async def assign(
    request: Request,
    name: Name,
    token: Caller,
    reading: Reading,
    partial: Annotated[
        bool, Query(description="For files: assign the first units that fit.")
    ] = False,
    draw: Annotated[bool, Query(description="For files: draw as many as fit at random.")] = False,
    with_columns: Annotated[
        str,
        Query(
            alias="with",
            description="For files: columns to copy to the answer, separated by commas.",
            examples=["email,name"],
        ),
    ] = "",
    split_by: Annotated[
        Literal["action"] | None,
        Query(description="For files: answer with an archive of one file per action."),
    ] = None,
    wanted: Annotated[
        Format | None,
        Query(alias="format", description="Format of the answer (default: the file's)."),
    ] = None,
) -> Response:
    """The answer to JSON is JSON; the answer to a file is a file of assignments.

    For a file, the headers Seqbatch-Wave, -Event, -Assigned, -Repeated and -Left-Over hold the
    result, Seqbatch-Warnings holds a JSON list of warnings, and Seqbatch-Read-As a JSON text on how
    the file was read.
    """
    if media_type(request) in FILES:
        options = {
            "partial": partial, "draw": draw, "split_by": split_by,
            "with_columns": [each.strip() for each in with_columns.split(",") if each.strip()],
        }  # fmt: skip
        return await _assign_file(request, name, token, reading, options, wanted)
    body, hashed = await read_json(request, AssignmentsBody, or_file=True)
    call = call_of(request, token, hashed)

    def step(campaign: Campaign) -> StoredAnswer:
        table = table_of(body.units, what="units")
        options: dict[str, Any] = {
            "partial": body.partial, "draw": body.draw, "dedupe": body.dedupe,
        }  # fmt: skip
        return assigned(campaign.assign(table, **options))

    alone = body.partial or body.draw or body.dedupe
    joins = None if alone else tuple(names_of(body.units))
    return await _together(
        request, name, token=token, call=call, rows=body.units, step=step, joins=joins
    )


async def _together(request: Request, name: Name, **asked: Any) -> Response:
    """Make a small call together with other waiting calls for the same campaign."""
    groups: Groups = request.app.state.groups
    future = asyncio.get_running_loop().create_future()
    return sent(await groups.answered(name, Small(future=future, **asked)))


async def _assign_file(
    request: Request,
    name: Name,
    token: Token,
    reading: ReadingOptions,
    options: dict[str, Any],
    wanted: str | None,
) -> Response:
    store: SQLStore = request.app.state.store
    async with spooled(request, reading) as body:
        made = wanted or answer_format(body.source.file_format)
        call, out = call_of(request, token, body.hashed), body.folder / f"assignments.{made}"
        report = watched(request.app.state.settings)

        def change(base: SharedTransaction) -> StoredAnswer:
            campaign = Campaign(base, name, who=token.name, sight=sight(token))
            result = campaign.assign(body.source, out=out, report=report, **options)
            kind = answer_type(made, body.source)
            if options["split_by"] is not None:
                kind = MEDIA_TYPES["zip"]
                zipped(body.folder, "assignments-*").rename(out)
            return StoredAnswer(status=200, headers=_headers(result, kind), pieces=_content(out))

        answer = await placed(request, lambda: changed(store, call, change))
        return sent_file(out, answer.headers) if out.exists() else sent(answer)


def _headers(result: Assigned, media_type: str) -> dict[str, str]:
    counts = {
        "wave": result.wave, "event": result.event, "assigned": result.assigned,
        "repeated": result.repeated, "left-over": result.left_over,
    }  # fmt: skip
    said = {f"seqbatch-{name}": str(count) for name, count in counts.items() if count is not None}
    if result.warnings:
        # Keep the header short, because proxies refuse long ones.
        shown = [warning[:LONGEST_WARNING] for warning in result.warnings[:MOST_WARNINGS]]
        said["seqbatch-warnings"] = json.dumps(shown)
    if result.read_as:
        said["seqbatch-read-as"] = json.dumps(result.read_as[:LONGEST_WARNING])
    return {"content-type": media_type, **said}


def _content(path: Path) -> Iterator[bytes]:
    """Yield the content of a file, which is opened on first use."""
    yield from pieces_of(path.open("rb"))


@router.post(
    "/{name}/outcomes",
    summary="Record outcomes; the answer says what happened to the rows.",
    openapi_extra=reads(OutcomesBody, files=True),
    responses={200: {"model": OutcomesAnswer}, **responses(404, 409, 413, 415, 422)},
)
async def record(
    request: Request,
    name: Name,
    token: Caller,
    reading: Reading,
    correct: Annotated[bool, Query(description="For files: replace recorded values.")] = False,
    reason: Annotated[Reason, Query(description="For files: the reason.")] = "",
    equal_rows: Annotated[
        EqualRows | None, Query(description="For files: what equal rows without an id mean.")
    ] = None,
    match_ids: Annotated[
        bool, Query(description="For files: match ids that lost zeros or gained spaces.")
    ] = False,
    dry_run: Annotated[bool, Query(description="For files: record nothing.")] = False,
) -> Response:
    """The answer lists held rows (conflict or quarantined) with their reasons."""
    store: SQLStore = request.app.state.store
    if media_type(request) in FILES:
        options: dict[str, Any] = {
            "correct": correct, "reason": reason, "equal_rows": equal_rows,
            "match_ids": match_ids, "dry_run": dry_run,
        }  # fmt: skip
        async with spooled(request, reading) as file:
            call = None if dry_run else call_of(request, token, file.hashed)
            report = watched(request.app.state.settings)
            record = _recording(file.source, report=report, **options)
            return sent(await placed(request, lambda: stepped(store, name, token, call, record)))
    body, hashed = await read_json(request, OutcomesBody, or_file=True)
    options = {
        "correct": body.correct, "reason": body.reason, "equal_rows": body.equal_rows,
        "match_ids": body.match_ids, "dry_run": body.dry_run, "dedupe": body.dedupe,
    }  # fmt: skip
    call = None if body.dry_run else call_of(request, token, hashed)

    def step(campaign: Campaign) -> StoredAnswer:
        return as_json(_recording(table_of(body.outcomes, what="outcomes"), **options)(campaign))

    return await _together(request, name, token=token, call=call, rows=body.outcomes, step=step)


def _recording(rows: Source | Any, **options: Any) -> Callable[[Campaign], dict[str, Any]]:
    return lambda campaign: recorded(campaign.record(rows, **options))


def recorded(result: Recorded) -> dict[str, Any]:
    """Return the answer to a call of record."""
    return {**result.plain(), "advice": result.advised(in_calls)}
