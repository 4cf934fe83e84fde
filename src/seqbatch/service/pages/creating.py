"""A new campaign, step by step: a file, what is in it, the spec in words, and then the campaign."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from seqbatch.campaign import Validated, validate
from seqbatch.campaign.design.template import Choices, FirstSpec, first_spec
from seqbatch.campaign.design.toml import parse_spec
from seqbatch.errors import InvalidFileError, SeqbatchError
from seqbatch.service.answering import bounded
from seqbatch.service.bodies import own_folder, watched
from seqbatch.service.models import Name
from seqbatch.service.pages.forms import CSRF, ONCE, Form, read_form
from seqbatch.service.pages.new_words import NewWords, words_of
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.spec_form import (
    SpecForm,
    kinds_of,
    planned,
    problems_of,
    typed,
    units_of,
)
from seqbatch.service.pages.uploads import Kept, Uploads, read_upload
from seqbatch.service.pages.visitors import Visiting, Visitor
from seqbatch.service.problems import LISTED, ProblemError, problem_of
from seqbatch.service.routes.campaigns import created
from seqbatch.storage import open_store
from seqbatch.storage.tokens import Token

router = APIRouter(include_in_schema=False, prefix="/new")

#: What a plan hands on to the form.
PLANNED = ("sizes", "actions", "randomised")
#: The button of the review that leads back to the form.
AGAIN = "again"


@router.get("")
async def begin(request: Request, _visitor: Visiting) -> Response:
    """Ask for a file."""
    form = Form(request.query_params.multi_items())
    return page(request, "new.html", kept=_handed_on(form), problem=None)


@router.post("")
async def upload(request: Request, visitor: Visiting) -> Response:
    """Keep the file and lead to what is in it."""
    form, file = await read_upload(request, visitor)
    query = urlencode(_handed_on(form))
    return RedirectResponse(f"/new/{file.fingerprint}{f'?{query}' if query else ''}", 303)


@router.get("/{fingerprint}")
async def describe(request: Request, fingerprint: str, visitor: Visiting) -> Response:
    """What is in the file, as a form that can be corrected."""
    file = _file(request, visitor, fingerprint)
    form = Form(request.query_params.multi_items())
    try:
        found = await bounded(request, lambda: _looked(file))
    except InvalidFileError as error:
        problem, kept = problem_of(error, request.app.state.store.label), _handed_on(form)
        return page(request, "new.html", status_code=422, kept=kept, problem=problem)
    return _form_page(request, file, found, planned(form), {})


@router.post("/{fingerprint}")
async def propose(request: Request, fingerprint: str, visitor: Visiting) -> Response:
    """Make a spec of what was filled in; show it in words, or the form again."""
    form, file = await read_form(request, visitor), _file(request, visitor, fingerprint)
    filled, store = typed(form), request.app.state.store
    if form.ticked(AGAIN):
        return _form_page(request, file, await bounded(request, lambda: _looked(file)), filled, {})

    def made() -> tuple[str, "Review"]:
        text = _spec(file, filled.choices()).text
        review = _reviewed(request, visitor.token, file, text)
        if review.found.prepared is None:
            raise review.found.problems[0]
        return text, review

    try:
        text, review = await bounded(request, made)
    except SeqbatchError as error:
        found = await bounded(request, lambda: _looked(file))
        told = problem_of(error, store.label).detail
        wrong = problems_of(error) or {"": told}
        return _form_page(request, file, found, filled, wrong)
    return _review_page(request, file, form, text, review)


@router.post("/{fingerprint}/review")
async def review(request: Request, fingerprint: str, visitor: Visiting) -> Response:
    """Check a spec that was edited by hand."""
    form, file = await read_form(request, visitor), _file(request, visitor, fingerprint)
    text, store = form.text("spec"), request.app.state.store
    try:
        found = await bounded(request, lambda: _reviewed(request, visitor.token, file, text))
    except SeqbatchError as error:
        return _review_page(
            request, file, form, text, None, said=problem_of(error, store.label).detail
        )
    return _review_page(request, file, form, text, found)


@router.post("/{fingerprint}/create")
async def create(request: Request, fingerprint: str, visitor: Visiting) -> Response:
    """Create the campaign, once, and lead to what comes next."""
    form, store = await read_form(request, visitor), request.app.state.store
    text, call = form.text("spec"), form.call(request, visitor)
    try:
        spec = parse_spec(text, name="spec")
        await bounded(request, lambda: created(store, visitor.token, call, spec))
    except (SeqbatchError, ProblemError) as error:
        file, said = _file(request, visitor, fingerprint), problem_of(error, store.label).detail
        return _review_page(request, file, form, text, None, said=said)
    return RedirectResponse(f"/new/{fingerprint}/created/{spec.name}", status_code=303)


@router.get("/{fingerprint}/created/{name}")
async def done(request: Request, fingerprint: str, name: Name, visitor: Visiting) -> Response:
    """What was created, and the same file for its first wave while it is kept."""
    try:
        file = _file(request, visitor, fingerprint)
    except ProblemError:
        file = None
    return page(request, "new_created.html", name=name, file=file)


@dataclass(frozen=True)
class Review:
    """What was found out about a spec, and what it means."""

    found: Validated
    words: NewWords | None


def _file(request: Request, visitor: Visitor, fingerprint: str) -> Kept:
    uploads: Uploads = request.app.state.uploads
    return uploads.find(visitor.key, fingerprint)


def _handed_on(form: Form) -> dict[str, str]:
    return {name: form.text(name)[:1_000] for name in PLANNED if form.text(name)}


def _looked(file: Kept) -> FirstSpec:
    return _spec(file, Choices())


def _spec(file: Kept, choices: Choices) -> FirstSpec:
    return first_spec(file.upload, choices, file_format=file.file_format)


def _reviewed(request: Request, token: Token, file: Kept, text: str) -> Review:
    spec, store = parse_spec(text, name="spec"), request.app.state.store
    report = watched(request.app.state.settings)
    with own_folder() as folder:
        scratch = open_store(folder / "scratch.db")
        try:
            existing = store if token.sees(spec.name) else None
            found = validate(spec, file.upload, scratch=scratch, existing=existing, report=report)
        finally:
            scratch.close()
    prepared = found.prepared
    words = None if prepared is None else words_of(prepared, found, file.name, token.name)
    return Review(found, words)


def _form_page(
    request: Request, file: Kept, found: FirstSpec, form: SpecForm, wrong: dict[str, str]
) -> Response:
    return page(
        request, "new_form.html", status_code=422 if wrong else 200, file=file, found=found,
        form=form, wrong=wrong, kinds=kinds_of(found.draft, form),
        units=units_of(found.draft, form),
    )  # fmt: skip


def _review_page(
    request: Request, file: Kept, form: Form, text: str, review: Review | None, *, said: str = ""
) -> Response:
    """Show a spec; the page carries what was typed before, for the way back to the form."""
    filled = [pair for pair in form.fields if pair[0] not in (CSRF, ONCE, "spec")]
    label = request.app.state.store.label
    problems = [] if review is None else [problem_of(e, label) for e in review.found.problems]
    shown: dict[str, Any] = {
        "file": file, "filled": filled, "text": text, "said": said,
        "problems": problems, "listed": LISTED,
        "words": review and review.words, "found": review and review.found,
    }  # fmt: skip
    return page(request, "new_review.html", status_code=422 if said or problems else 200, **shown)
