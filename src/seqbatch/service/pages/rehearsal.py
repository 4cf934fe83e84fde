"""The page that rehearses the spec of a new campaign, a few seconds at a time."""

import tomllib

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seqbatch.campaign import Rehearsal
from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.errors import InvalidArgumentError, SeqbatchError
from seqbatch.service.long_calls import planned
from seqbatch.service.pages.forms import CSRF, ONCE, Form, read_form
from seqbatch.service.pages.rendering import drawn, on_pages, page
from seqbatch.service.pages.session import Visiting, Visitor
from seqbatch.service.pages.uploads import Kept, Uploads
from seqbatch.service.problems import ProblemError, problem_of
from seqbatch.service.rehearsals import RehearsalQuestion, Rehearsals
from seqbatch.service.routes.campaigns import sources_of
from seqbatch.simulation import Progress

router = APIRouter(include_in_schema=False, prefix="/new")

#: The most campaigns under each truth on this page; the command line allows more.
MOST = 10_000


@router.post("/{fingerprint}/rehearsal")
async def rehearsal(request: Request, fingerprint: str, visitor: Visiting) -> Response:
    """Rehearse for a few seconds: show the result, or how far it has come, to go on."""
    form = await read_form(request, visitor)
    uploads: Uploads = request.app.state.uploads
    file = uploads.find(visitor.key, fingerprint)
    said, made = "", None
    try:
        made = await rehearsed(request, visitor, form, file)
    except (SeqbatchError, ProblemError) as error:
        said = problem_of(error, request.app.state.store.label).said(on_pages)
    result = made if isinstance(made, Rehearsal) else None
    return page(
        request, "rehearsal.html", status_code=422 if said else 200, file=file, said=said,
        filled=[pair for pair in form.fields if pair[0] not in (CSRF, ONCE, "rehearsed")],
        progress=made if isinstance(made, Progress) else None, result=result,
        sections=[] if result is None else drawn([result.document().first]),
    )  # fmt: skip


async def rehearsed(
    request: Request, visitor: Visitor, form: Form, file: Kept
) -> Rehearsal | Progress:
    """Go on with the rehearsal that a form asks for."""
    rehearsals: Rehearsals = request.app.state.rehearsals
    asked = RehearsalQuestion(
        visitor.token.name,
        parse_spec(form.text("spec"), name="spec"),
        _truths(form.text("truth")),
        _campaigns(form.text("campaigns")),
        units=(file.source, file.fingerprint),
        sources=sources_of(request.app.state.store, visitor.token),
    )
    return await planned(request, lambda progress: rehearsals.go_on(asked, progress))


def _truths(text: str) -> list[dict[str, object]]:
    if not text.strip():
        return []
    try:
        return [tomllib.loads(text)]
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgumentError("truth", "valid TOML", str(error)) from None


def _campaigns(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= MOST:
        raise InvalidArgumentError("campaigns", f"a whole number from 1 to {MOST:,}", text[:40])
    return int(text)
