"""Units get their actions: upload a file, see what is right and wrong with it, then confirm."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from seqbatch.campaign import Assigned, Campaign
from seqbatch.errors import CampaignStateError, InvalidFileError
from seqbatch.service.answering import as_json, bounded, changed, placed, sent
from seqbatch.service.bodies import MEDIA_TYPES, mark_of, own_folder, pieces_of, watched
from seqbatch.service.models import Name
from seqbatch.service.pages.doing import FILE, done_at, done_before, kept
from seqbatch.service.pages.forms import Form, read_form
from seqbatch.service.pages.gathering import standing
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.trying import tried
from seqbatch.service.pages.uploads import Kept, Uploads, read_upload
from seqbatch.service.pages.visitors import Visiting, Visitor
from seqbatch.service.pages.wording import for_people
from seqbatch.service.problems import problem_of
from seqbatch.storage import answers
from seqbatch.storage.answers import Answer, Call
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.together import Together

router = APIRouter(include_in_schema=False, prefix="/campaigns/{name}")

How = Literal["all", "draw", "partial"]
#: What is called for each piece of a file.
Report = Callable[[str, int], None]
#: Problems of a file that are listed.
LISTED = 500


@router.get("/units")
async def units(request: Request, name: Name, _visitor: Visiting) -> Response:
    """The form, and what the file must hold."""
    now = await standing(request, name)
    columns = list(dict.fromkeys(now.encoder(wave=now.wave).columns))
    return page(request, "units.html", name=name, now=now, columns=columns)


@router.post("/units")
async def upload(request: Request, name: Name, visitor: Visiting) -> Response:
    """Keep the file and lead to what is found in it."""
    form, file = await read_upload(request, visitor)
    how = form.text("how", "all")
    query = f"?how={how}" if how in ("draw", "partial") else ""
    return RedirectResponse(f"/campaigns/{name}/units/{file.fingerprint}{query}", status_code=303)


@router.get("/units/{fingerprint}")
async def check(
    request: Request, name: Name, fingerprint: str, visitor: Visiting, how: How = "all"
) -> Response:
    """What assigning the file would do, or every row that speaks against it."""
    state = request.app.state
    uploads: Uploads = state.uploads
    file = uploads.find(visitor.key, fingerprint)
    now = await standing(request, name)
    shown: dict[str, Any] = {"name": name, "now": now, "file": file, "how": how, "full": ""}
    try:
        step = _checking(file, how, watched(state.settings))
        found = await bounded(request, lambda: tried(state.store, name, step))
        return page(request, "units_checked.html", found=found, problems=[], total=0, **shown)
    except InvalidFileError as error:
        shown |= {"problems": error.problems[:LISTED], "total": len(error.problems)}
        return page(request, "units_checked.html", found=None, place=error.place, **shown)
    except CampaignStateError as error:
        shown["full"] = for_people(problem_of(error, state.store.label).detail)
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
    call: Call,
    report: Report,
) -> Answer:
    with own_folder() as folder:
        out = folder / f"assignments.{file.file_format}"

        def change(base: Together) -> Answer:
            campaign = Campaign(base, name, who=visitor.token.name)
            if (wave := form.whole("wave")) != (now := campaign.situation()).wave:
                raise CampaignStateError(
                    f"the file was checked for wave {wave} of campaign {name}, and the open one is "
                    f"{now.wave} now. Nothing was assigned. Check the file again."
                )
            result = campaign.assign(
                file.upload,
                file_format=file.file_format,
                out=out,
                report=report,
                **_options(form.text("how")),
            )
            assert base.connection is not None
            shown = f"{name}-wave-{wave}-assignments.{file.file_format}"
            headers = {
                "content-type": MEDIA_TYPES[file.file_format],
                "content-disposition": f'attachment; filename="{shown}"',
            }
            pieces = _content(out, mark_of(file.file_format))
            table = Answer(status=200, headers=headers, pieces=pieces)
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
    """The actions of the units of a file that was confirmed, as a file."""
    store = request.app.state.store
    return sent(await run_in_threadpool(lambda: kept(store, visitor, once, part=FILE)))


def said(result: Assigned) -> dict[str, Any]:
    """Return what a call of assign did, but for the answers themselves."""
    return {name: value for name, value in vars(result).items() if name != "table"}


def _checking(file: Kept, how: str, report: Report) -> Any:
    def step(campaign: Campaign) -> dict[str, Any]:
        with own_folder() as folder:
            out = folder / f"assignments.{file.file_format}"
            options = {"out": out, "report": report, **_options(how)}
            return said(campaign.assign(file.upload, file_format=file.file_format, **options))

    return step


def _options(how: str) -> dict[str, Any]:
    return {"draw": how == "draw", "partial": how == "partial"}


def _content(path: Path, mark: bytes) -> Iterator[bytes]:
    """Yield what is in a file, which is opened when it is asked for."""
    yield from pieces_of(path.open("rb"), mark=mark)
