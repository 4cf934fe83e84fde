"""Outcomes come in: upload a file, see what would become of each row, then confirm."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from seqbatch.campaign import Campaign, Recorded
from seqbatch.campaign.steps.recording import number_columns
from seqbatch.errors import InvalidFileError
from seqbatch.service.answering import bounded
from seqbatch.service.bodies import watched
from seqbatch.service.models import Name
from seqbatch.service.pages.doing import do, done_at, done_before
from seqbatch.service.pages.forms import read_form
from seqbatch.service.pages.gathering import standing
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.units import LISTED
from seqbatch.service.pages.uploads import Uploads, read_upload
from seqbatch.service.pages.visitors import Visiting
from seqbatch.service.pages.wording import for_people
from seqbatch.service.routes.units import recorded

router = APIRouter(include_in_schema=False, prefix="/campaigns/{name}")


@router.get("/outcomes")
async def outcomes(request: Request, name: Name, _visitor: Visiting) -> Response:
    """The form, and what the file must hold."""
    now = await standing(request, name)
    spec = now.spec
    columns = [*spec.unit, *number_columns(spec), *([spec.outcome] if spec.outcome else [])]
    return page(request, "outcomes.html", name=name, now=now, columns=columns)


@router.post("/outcomes")
async def upload(request: Request, name: Name, visitor: Visiting) -> Response:
    """Keep the file and lead to what is found in it."""
    _, file = await read_upload(request, visitor)
    return RedirectResponse(f"/campaigns/{name}/outcomes/{file.fingerprint}", status_code=303)


@router.get("/outcomes/{fingerprint}")
async def check(
    request: Request, name: Name, fingerprint: str, visitor: Visiting, correct: bool = False
) -> Response:
    """What would become of each row: the four counts, and those that would be held."""
    state = request.app.state
    uploads: Uploads = state.uploads
    file, campaign = uploads.find(visitor.key, fingerprint), Campaign(state.store, name)
    now = await standing(request, name)
    options: dict[str, Any] = {
        "file_format": file.file_format, "dry_run": True, "correct": correct,
        "reason": "only tried" if correct else "", "report": watched(state.settings),
    }  # fmt: skip
    shown: dict[str, Any] = {"name": name, "now": now, "file": file, "correct": correct}
    try:
        found = await bounded(request, lambda: campaign.record(file.upload, **options))
    except InvalidFileError as error:
        problems = [(*at, for_people(reason)) for *at, reason in error.problems[:LISTED]]
        shown |= {"problems": problems, "total": len(error.problems)}
        return page(request, "outcomes_checked.html", found=None, place=error.place, **shown)
    # Of metrics the page Change knows no format.
    respelled = any(column in found.formats for column in now.spec.reward.columns)
    shown |= {"found": _in_words(found), "respelled": respelled}
    return page(request, "outcomes_checked.html", **shown)


@router.post("/outcomes/{fingerprint}")
async def record(request: Request, name: Name, fingerprint: str, visitor: Visiting) -> Response:
    """Record exactly this file, once."""
    form, state = await read_form(request, visitor), request.app.state
    if await done_before(request, visitor, form):
        return done_at(name, form)
    file = state.uploads.find(visitor.key, fingerprint)
    options: dict[str, Any] = {
        "correct": form.ticked("correct"), "reason": form.text("reason"),
        "report": watched(state.settings),
    }  # fmt: skip

    def step(campaign: Campaign) -> dict[str, Any]:
        return _in_words(campaign.record(file.upload, file_format=file.file_format, **options))

    return await do(request, visitor, name, form, step, did="record", long=True)


def _in_words(result: Recorded) -> dict[str, Any]:
    """Return what became of a file, with advice that can be followed on pages."""
    return {**recorded(result), "advice": [for_people(each) for each in result.advice]}
