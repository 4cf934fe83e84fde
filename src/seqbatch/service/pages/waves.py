"""The pages that run a wave: upload units and outcomes, close, amend, end."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from seqbatch.campaign import Assigned, Campaign, Closed, Recorded
from seqbatch.campaign.decide.outcome_columns import wanted_columns
from seqbatch.campaign.decide.repeated_rows import EqualRows
from seqbatch.campaign.decide.replanning import proposal_text
from seqbatch.campaign.files.formats import answer_format
from seqbatch.campaign.record.current_situation import COMBINING, Situation
from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.spec.metrics import SENSIBLE
from seqbatch.errors import CampaignStateError, InvalidFileError, Remedy, remedies_in, told
from seqbatch.planning.proposal import Proposal
from seqbatch.service.api_models import Name
from seqbatch.service.bodies import (
    MEDIA_TYPES,
    answer_type,
    mark_of,
    own_folder,
    pieces_of,
    watched,
    zipped,
)
from seqbatch.service.idempotency import as_json, changed, sent
from seqbatch.service.long_calls import bounded, placed
from seqbatch.service.pages.forms import (
    FILE,
    UNCLEAR,
    Form,
    do,
    done_at,
    done_before,
    kept,
    read_form,
    tried,
)
from seqbatch.service.pages.readings import readings_of
from seqbatch.service.pages.rendering import on_pages, page, standing
from seqbatch.service.pages.session import Visiting, Visitor
from seqbatch.service.pages.uploads import Kept, Uploads, read_upload
from seqbatch.service.problems import ProblemError, problem_of
from seqbatch.service.routes.units import recorded
from seqbatch.storage import answers
from seqbatch.storage.answers import IdempotentCall, StoredAnswer
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.transaction import SharedTransaction

# ----------------------------------------------------------------------
# Assigning units: upload a file, check it, confirm


router = APIRouter(include_in_schema=False, prefix="/campaigns/{name}")

How = Literal["all", "draw", "partial"]
#: A progress callback, called for each piece of a file.
Report = Callable[[str, int], None]
#: Maximum number of listed problems of a file.
LISTED = 500


@router.get("/units")
async def units(request: Request, name: Name, _visitor: Visiting) -> Response:
    """Show the upload form, and the columns that the file needs."""
    now = await standing(request, name)
    columns = list(dict.fromkeys([*now.encoder(wave=now.wave).columns, *now.spec.beside]))
    return page(request, "units.html", name=name, now=now, columns=columns)


@router.post("/units")
async def upload_units(request: Request, name: Name, visitor: Visiting) -> Response:
    """Keep the file, and redirect to its check."""
    form, file = await read_upload(request, visitor)
    how = form.text("how", "all")
    asked = {"how": how} if how in ("draw", "partial") else {}
    # The file of actions has the ids in any case.
    ids = (await standing(request, name)).spec.unit
    copied = [column.strip() for column in form.text("with").split(",")]
    asked |= {"with": ", ".join(column for column in copied if column not in ids)}
    asked |= {"split": form.text("split")}
    asked = {key: text for key, text in asked.items() if text}
    query = f"?{urlencode(asked)}" if asked else ""
    return RedirectResponse(f"/campaigns/{name}/units/{file.fingerprint}{query}", status_code=303)


@router.get("/units/{fingerprint}")
async def check_units(
    request: Request,
    name: Name,
    fingerprint: str,
    visitor: Visiting,
    how: How = "all",
    carry: Annotated[str, Query(alias="with")] = "",
    split: str = "",
) -> Response:
    """Show what assigning the file would do, or its problems."""
    state = request.app.state
    uploads: Uploads = state.uploads
    file = uploads.find(visitor.key, fingerprint)
    now = await standing(request, name)
    shown: dict[str, Any] = {
        "name": name, "now": now, "file": file, "how": how, "full": "", "carry": carry,
        "split": split, "readings": await bounded(request, partial(readings_of, file)),
    }  # fmt: skip
    try:
        step = _checking(file, _options(how, carry, split), watched(state.settings))
        found = await bounded(request, lambda: tried(state.store, name, step))
        return page(request, "units_checked.html", found=found, problems=[], total=0, **shown)
    except InvalidFileError as error:
        shown |= {"problems": error.problems[:LISTED], "total": len(error.problems)}
        shown["readings"] = await bounded(request, partial(readings_of, file, error))
        return page(request, "units_checked.html", found=None, place=error.place, **shown)
    except CampaignStateError as error:
        shown["full"] = problem_of(error, state.store.label).said(on_pages)
        return page(request, "units_checked.html", found=None, problems=[], total=0, **shown)


@router.post("/units/{fingerprint}")
async def assign(request: Request, name: Name, fingerprint: str, visitor: Visiting) -> Response:
    """Assign the units of exactly this file, once."""
    form, state = await read_form(request, visitor), request.app.state
    if not await done_before(request, visitor, form):
        file, call = state.uploads.find(visitor.key, fingerprint), form.call(request, visitor)
        report = watched(state.settings)
        await placed(request, lambda: _assign(state.store, name, visitor, file, form, call, report))
    return done_at(name, form)


def _assign(
    store: SQLStore,
    name: str,
    visitor: Visitor,
    file: Kept,
    form: Form,
    call: IdempotentCall,
    report: Report,
) -> StoredAnswer:
    with own_folder() as folder:
        made = answer_format(file.file_format)
        out = folder / f"assignments.{made}"
        options = _options(form.text("how"), form.text("with"), form.text("split"))

        def change(base: SharedTransaction) -> StoredAnswer:
            campaign = Campaign(base, name, who=visitor.token.name, sight=visitor.sight)
            if (wave := form.whole("wave")) != (now := campaign.situation()).wave:
                raise CampaignStateError(
                    f"the file was checked for wave {wave} of campaign {name}, but the open wave "
                    f"is now {now.wave}. Nothing was assigned. Check the file again.",
                    code="wave-changed",
                )
            source = file.source
            result = campaign.assign(source, out=out, report=report, **options)
            assert base.connection is not None
            kind, ending, mark = answer_type(made, source), made, mark_of(made, source)
            if options["split_by"] is not None:
                kind, ending, mark = MEDIA_TYPES["zip"], "zip", b""
                zipped(folder, "assignments-*").rename(out)
            shown = f"{name}-wave-{wave}-assignments.{ending}"
            headers = {
                "content-type": kind,
                "content-disposition": f'attachment; filename="{shown}"',
            }
            pieces = _content(out, mark)
            table = StoredAnswer(status=200, headers=headers, pieces=pieces)
            answers.keep(base.connection, replace(call, key=call.key + FILE), table)
            return as_json({"did": "assign", "file": file.name, "result": said(result)})

        return changed(store, call, change)


@router.get("/assignments/{once}")
async def assignments(
    request: Request,
    name: Name,  # noqa: ARG001
    once: str,
    visitor: Visiting,
) -> Response:
    """Return the actions of a confirmed file's units, as a file."""
    store = request.app.state.store
    return sent(await run_in_threadpool(lambda: kept(store, visitor, once, part=FILE)))


def said(result: Assigned) -> dict[str, Any]:
    """Return the result of assign without the assignments themselves."""
    return {name: value for name, value in result.plain().items() if name != "table"}


def _checking(file: Kept, options: dict[str, Any], report: Report) -> Any:
    def step(campaign: Campaign) -> dict[str, Any]:
        with own_folder() as folder:
            out = folder / f"assignments.{answer_format(file.file_format)}"
            return said(campaign.assign(file.source, out=out, report=report, **options))

    return step


def _options(how: str, carry: str, split: str) -> dict[str, Any]:
    return {
        "draw": how == "draw", "partial": how == "partial",
        "with_columns": [name.strip() for name in carry.split(",") if name.strip()],
        "split_by": split or None,
    }  # fmt: skip


def _content(path: Path, mark: bytes) -> Iterator[bytes]:
    """Yield the content of a file, which is opened on first use."""
    yield from pieces_of(path.open("rb"), mark=mark)


# ----------------------------------------------------------------------
# Recording outcomes: upload a file, check it, confirm


@router.get("/outcomes")
async def outcomes(request: Request, name: Name, _visitor: Visiting) -> Response:
    """Show the upload form, and the columns that the file needs."""
    now = await standing(request, name)
    return page(request, "outcomes.html", name=name, now=now, columns=wanted_columns(now.spec))


@router.post("/outcomes")
async def upload_outcomes(request: Request, name: Name, visitor: Visiting) -> Response:
    """Keep the file, and redirect to its check."""
    _, file = await read_upload(request, visitor)
    return RedirectResponse(f"/campaigns/{name}/outcomes/{file.fingerprint}", status_code=303)


@router.get("/outcomes/{fingerprint}")
async def check_outcomes(
    request: Request, name: Name, fingerprint: str, visitor: Visiting, correct: bool = False,
    equal_rows: EqualRows | None = None, match_ids: bool = False,
) -> Response:  # fmt: skip
    """Show what would happen to the rows: the counts, and the rows that would be held."""
    state = request.app.state
    uploads: Uploads = state.uploads
    file, campaign = uploads.find(visitor.key, fingerprint), Campaign(state.store, name)
    now = await standing(request, name)
    options: dict[str, Any] = {
        "dry_run": True, "correct": correct, "equal_rows": equal_rows, "match_ids": match_ids,
        "reason": "only tried" if correct else "", "report": watched(state.settings),
    }  # fmt: skip
    shown: dict[str, Any] = {
        "name": name, "now": now, "file": file, "correct": correct, "equal_rows": equal_rows,
        "match_ids": match_ids,
        "readings": await bounded(request, partial(readings_of, file)),
    }  # fmt: skip
    try:
        found = await bounded(request, lambda: campaign.record(file.source, **options))
    except InvalidFileError as error:
        shown |= {"problems": error.problems[:LISTED], "total": len(error.problems)}
        amendments = _amendments(now, error.remedies)
        shown |= {"asks": error.code == "equal-rows", "amendments": amendments}
        shown["advice"] = "" if amendments else told(error.advice, on_pages)
        shown["readings"] = await bounded(request, partial(readings_of, file, error))
        return page(request, "outcomes_checked.html", found=None, place=error.place, **shown)
    remedies = [each for doubt in found.doubts for each in remedies_in(doubt.parts)]
    shown |= {"found": _in_words(found), "amendments": _amendments(now, remedies)}
    shown["matchable"] = any("match_ids" in each.options for each in remedies)
    return page(request, "outcomes_checked.html", **shown)


def _amendments(now: Situation, remedies: Sequence[Remedy]) -> list[tuple[str, dict[str, Any]]]:
    """Return the amendments among remedies: in words, and as fields of the form that amends."""
    places, made = {name: place for place, name in enumerate(now.spec.metrics)}, []
    for remedy in remedies:
        tables = remedy.options.get("metrics", {}) if remedy.action == "amend" else {}
        fields = {
            f"{setting}{places[name]}": value
            for name, own in tables.items()
            for setting, value in own.items()
        }
        said = [
            f"{name}: {SETTINGS.get(setting, setting)} {value}"
            for name, own in tables.items()
            for setting, value in own.items()
        ]
        if fields:
            made.append(("; ".join(said), fields))
    return made


#: Settings of metrics in words, before their value.
SETTINGS = {
    "column": "its column is",
    "format": "numbers are written like",
    "rows": "several rows count as",
}


@router.post("/outcomes/{fingerprint}")
async def record(request: Request, name: Name, fingerprint: str, visitor: Visiting) -> Response:
    """Record exactly this file, once."""
    form, state = await read_form(request, visitor), request.app.state
    if await done_before(request, visitor, form):
        return done_at(name, form)
    file = state.uploads.find(visitor.key, fingerprint)
    options: dict[str, Any] = {
        "correct": form.ticked("correct"), "reason": form.text("reason"),
        "equal_rows": form.text("equal_rows") or None, "match_ids": form.ticked("match_ids"),
        "report": watched(state.settings),
    }  # fmt: skip

    def step(campaign: Campaign) -> dict[str, Any]:
        return _in_words(campaign.record(file.source, **options))

    return await do(request, visitor, name, form, step, did="record", long=True)


def _in_words(result: Recorded) -> dict[str, Any]:
    """Return the result of recording a file, with advice in terms of dashboard pages."""
    return {**recorded(result), "advice": result.advised(on_pages)}


# ----------------------------------------------------------------------
# Closing a wave, after a page that shows the consequences


@router.get("/close")
async def what_will_happen(request: Request, name: Name, _visitor: Visiting) -> Response:
    """Show what closing the open wave would do.

    Closing is tried and rolled back. The page does not show the estimate or the stopping rule's
    verdict: that would be an unrecorded look.
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
    """Return what closing would do, with force if needed, and why it would be refused."""
    try:
        return tried(store, name, lambda campaign: campaign.close()), ""
    except CampaignStateError as error:
        refused = problem_of(error, store.label).said(on_pages)
    try:
        by_force: dict[str, Any] = {"force": True, "reason": "only tried"}
        return tried(store, name, lambda campaign: campaign.close(**by_force)), refused
    except CampaignStateError:
        return None, refused


@router.post("/close")
async def close(request: Request, name: Name, visitor: Visiting) -> Response:
    """Close the wave that the page showed."""
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


# ----------------------------------------------------------------------
# Amending a campaign, continuing despite its stopping rule, or ending it early


@router.get("/change")
async def change(request: Request, name: Name, _visitor: Visiting) -> Response:
    """Show the forms that change a campaign."""
    now = await standing(request, name)
    proposal = None
    if now.proposal is not None:
        proposal = proposal_text(Proposal.of(now.proposal), Measure.of_objective(now.spec))
    return page(request, "change.html", name=name, now=now, proposal=proposal, sensible=SENSIBLE)


@router.post("/amend")
async def amend(request: Request, name: Name, visitor: Visiting) -> Response:
    """Change sizes, actions and the outcome format; units keep their actions."""
    form = await read_form(request, visitor)
    asked = _amendment(form, await standing(request, name))
    done = await do(request, visitor, name, form, lambda c: c.amend(**asked), did="amend")
    if re.fullmatch("[0-9a-f]{64}", file := form.text("file")):
        # The amendment was made to read this file.
        return RedirectResponse(f"/campaigns/{name}/outcomes/{file}", status_code=303)
    return done


def _amendment(form: Form, now: Situation) -> dict[str, Any]:
    # Identify actions by number: a form might not return a name unchanged.
    numbers = {str(number): now.actions[number].name for number in now.active}
    added = [line.strip() for line in form.text("add").splitlines() if line.strip()]
    return {
        "reason": form.text("reason"),
        "sizes": _sizes(form.text("sizes")),
        "add": added or None,
        "retire": [numbers.get(each, each) for each in form.every("retire")] or None,
        "floor": form.number("floor"),
        "metrics": _settings(form, now) or None,
    }


def _settings(form: Form, now: Situation) -> dict[str, dict[str, Any]]:
    """Return the settings of metrics that were filled in, by metric."""
    made: dict[str, dict[str, Any]] = {}
    for place, name in enumerate(now.spec.metrics):
        if text := form.text(f"format{place}"):
            made.setdefault(name, {})["format"] = text
        if (absent := form.number(f"absent{place}")) is not None:
            made.setdefault(name, {})["absent"] = absent
        for setting in ("column", *COMBINING, "date_format"):
            if text := form.text(f"{setting}{place}"):
                made.setdefault(name, {})[setting] = text
    return made


def _sizes(text: str) -> list[int] | None:
    """Parse typed sizes.

    >>> _sizes("400, 1600 3200"), _sizes(" ")
    ([400, 1600, 3200], None)
    """
    words = text.replace(",", " ").replace(";", " ").split()
    if not words:
        return None
    if UNCLEAR.search(text) or not all(re.fullmatch("[0-9]{1,12}", word) for word in words):
        raise ProblemError(
            422, "invalid-argument",
            "sizes must be whole numbers such as 400 1600, without commas and separated by spaces; "
            f"received {text[:100]!r}.",
        )  # fmt: skip
    return [int(word) for word in words]


@router.post("/adopt")
async def adopt(request: Request, name: Name, visitor: Visiting) -> Response:
    """Adopt the proposed sizes."""
    form = await read_form(request, visitor)
    reason = form.text("reason")

    def step(campaign: Campaign) -> Any:
        before = campaign.situation().sequence
        campaign.replan(adopt=True, reason=reason)
        return {"again": campaign.situation().sequence == before}

    return await do(request, visitor, name, form, step, did="adopt")


@router.post("/continue")
async def go_on(request: Request, name: Name, visitor: Visiting) -> Response:
    """Continue the campaign despite its stopping rule."""
    form = await read_form(request, visitor)
    reason = form.text("reason")
    return await do(request, visitor, name, form, lambda c: c.go_on(reason=reason), did="continue")


@router.post("/sign")
async def sign(request: Request, name: Name, visitor: Visiting) -> Response:
    """Sign everything that is recorded so far, with the name of the visitor's token."""
    form = await read_form(request, visitor)
    meaning = form.text("meaning")
    return await do(request, visitor, name, form, lambda c: c.sign(meaning), did="sign")


@router.post("/stop")
async def stop(request: Request, name: Name, visitor: Visiting) -> Response:
    """Confirm the stop of the campaign by its rule."""
    form = await read_form(request, visitor)
    reason = form.text("reason")
    return await do(request, visitor, name, form, lambda c: c.stop(reason=reason), did="stop")


@router.post("/abort")
async def abort(request: Request, name: Name, visitor: Visiting) -> Response:
    """End the campaign early."""
    form = await read_form(request, visitor)
    if not form.ticked("sure"):
        raise ProblemError(
            422, "invalid-argument", "tick the box to confirm that the campaign ends permanently."
        )
    reason = form.text("reason")
    return await do(request, visitor, name, form, lambda c: c.abort(reason=reason), did="abort")
