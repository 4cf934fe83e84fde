"""The pages that create a campaign step by step: upload a file, fill in a form, review the spec."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from seqbatch.campaign import Rehearsal, Validated, validate
from seqbatch.campaign.decide.stopping import stopping_said, unlooked
from seqbatch.campaign.record.earlier_campaign import history_said
from seqbatch.campaign.record.rehearsal_file import RehearsalFile
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.rehearsal.example_truth import example
from seqbatch.campaign.rehearsal.rehearsal import refusals, rehearsable
from seqbatch.campaign.spec.choices import Choices
from seqbatch.campaign.spec.constraints_text import constraints_said
from seqbatch.campaign.spec.measure import objective_said
from seqbatch.campaign.spec.metrics import COMBINATIONS
from seqbatch.campaign.spec.template import FirstSpec, first_spec
from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.campaign.steps.create import Prepared
from seqbatch.campaign.views.protocol import protocol
from seqbatch.display import counted
from seqbatch.errors import InvalidFileError, InvalidSpecError, SeqbatchError
from seqbatch.policies.registry import plainly
from seqbatch.service.api_models import Name
from seqbatch.service.bodies import own_folder, watched
from seqbatch.service.long_calls import bounded
from seqbatch.service.pages.column_list import (
    beyond,
    fitting,
    groups_of,
    names_of,
    units_of,
)
from seqbatch.service.pages.forms import CSRF, ONCE, Form, read_form
from seqbatch.service.pages.readings import readings_of
from seqbatch.service.pages.rehearsal import rehearsed
from seqbatch.service.pages.rendering import drawn, on_pages, page
from seqbatch.service.pages.session import Visiting, Visitor
from seqbatch.service.pages.spec_form import (
    CONDITIONS,
    PLANNED,
    SpecForm,
    planned,
    problems_of,
    typed,
)
from seqbatch.service.pages.uploads import READING, Kept, Uploads, read_upload
from seqbatch.service.problems import LISTED, ProblemError, problem_of
from seqbatch.service.routes.campaigns import created, sources_of
from seqbatch.storage import open_store
from seqbatch.storage.tokens import Token

# ----------------------------------------------------------------------
# The description of a spec, as in the command line and the protocol


#: Protocol sections that matter before the campaign exists; the others describe its record.
SECTIONS = ("question", "units", "waves", "assignment", "outcomes", "analysis")


@dataclass(frozen=True)
class NewWords:
    """The description of a campaign before it is created.

    Parameters
    ----------
    name
        The campaign's name.
    summary, first_wave
        A summary, and what happens in the first wave.
    sections
        The sections of its protocol, for a template.
    """

    name: str
    summary: Sequence[str]
    first_wave: Sequence[str]
    sections: Sequence[dict[str, object]]


def words_of(prepared: Prepared, found: Validated, file: str, who: str) -> NewWords:
    """Describe a spec that was checked with a file of units."""
    now = prepared.now
    sizes = ", ".join(f"{size:,}" for size in now.sizes)
    kind = "expected wave" if now.spec.grid.calendar else "wave"
    names = ", ".join(action.name for action in now.actions)
    summary = [
        f"{counted(len(now.actions), 'action')}: {names}.",
        f"Compared with: {now.spec.control or now.actions[0].name}.",
        *objective_said(now.spec),
        f"{counted(len(now.sizes), kind)} of {sizes} units.",
        f"{plainly(now.policy).capitalize()}.",
        *history_said(now.history, now.spec),
        *constraints_said(now.spec, over_waves=bool(now.balanced_since)),
        *stopping_said(now),
        *(f"Note: {line}." for line in unlooked(now)),
    ]
    at = datetime.now(UTC).isoformat()
    declared = Event(
        sequence=1, kind="create", at=at, who=who, why="", counts={}, payload=prepared.payload,
        rows_hash="", previous="", hash="",
    )  # fmt: skip
    told = {section.key: section for section in protocol([declared]).sections}
    sections = drawn(told[key] for key in SECTIONS)
    return NewWords(now.name, summary, _first_wave(prepared, found, file), sections)


def _first_wave(prepared: Prepared, found: Validated, file: str) -> list[str]:
    now = prepared.now
    said = []
    if found.units is not None:
        said.append(f"{file}: {counted(found.units, 'unit')} can be assigned.")
    if not now.spec.grid.calendar:
        said.append(f"The first wave has room for {counted(now.sizes[0], 'unit')}.")
    if found.left_over:
        said.append(
            f"It has no room for {found.left_over:,} units of the file: you can draw as many as "
            "fit at random, and leave the others for later waves."
        )
    if now.policy.get("first") == "uniform":
        share = f"probability 1 in {len(now.actions)}"
        if now.spec.eligible or now.spec.limited:
            share = "equal probability, as far as rules, limits and the budget allow"
        said.append(f"Nothing is known yet, so each action is drawn with {share}.")
    return said


# ----------------------------------------------------------------------
# The pages: upload, form, review, create


router = APIRouter(include_in_schema=False, prefix="/new")

#: Fields of the review's rehearsal.
REHEARSED = ("truth", "campaigns", "rehearsed")
#: The button of the review that leads back to the form.
AGAIN = "again"


@router.get("")
async def begin(request: Request, _visitor: Visiting) -> Response:
    """Ask for a file."""
    form = Form(request.query_params.multi_items())
    return page(request, "new.html", kept=_handed_on(form))


@router.post("")
async def upload(request: Request, visitor: Visiting) -> Response:
    """Keep the file, and redirect to the form that describes it."""
    form, file = await read_upload(request, visitor)
    query = urlencode(_handed_on(form))
    return RedirectResponse(f"/new/{file.fingerprint}{f'?{query}' if query else ''}", 303)


@router.get("/{fingerprint}")
async def describe(request: Request, fingerprint: str, visitor: Visiting) -> Response:
    """Show what was found in the file, as a form to correct."""
    file = _file(request, visitor, fingerprint)
    form = Form(request.query_params.multi_items())
    return await _form_page(request, file, form, planned(form))


@router.post("/{fingerprint}")
async def propose(request: Request, fingerprint: str, visitor: Visiting) -> Response:
    """Make a spec from the form, and show it in words; if invalid, show the form again."""
    form, file = await read_form(request, visitor), _file(request, visitor, fingerprint)
    filled, store = typed(form), request.app.state.store
    if form.ticked(AGAIN) or request.query_params.get(AGAIN):
        return await _form_page(request, file, form, filled)

    def made() -> tuple[str, "Review"]:
        text = _spec(file, filled.choices()).text
        review = _reviewed(request, visitor.token, file, text)
        if review.found.prepared is None:
            raise review.found.problems[0]
        return text, review

    try:
        text, review = await bounded(request, made)
    except SeqbatchError as error:
        told = problem_of(error, store.label).said(on_pages)
        return await _form_page(
            request, file, form, filled, problems_of(error, filled) or {"": told}, error
        )
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
            request, file, form, text, None, said=problem_of(error, store.label).said(on_pages)
        )
    return _review_page(request, file, form, text, found)


@router.post("/{fingerprint}/create")
async def create(request: Request, fingerprint: str, visitor: Visiting) -> Response:
    """Create the campaign once, and redirect to the next step."""
    form, store = await read_form(request, visitor), request.app.state.store
    text, call = form.text("spec"), form.call(request, visitor)
    try:
        spec = parse_spec(text, name="spec")
        kept = await _rehearsal(request, visitor, form, fingerprint)
        await bounded(request, lambda: created(store, visitor.token, call, spec, kept))
    except (SeqbatchError, ProblemError) as error:
        file = _file(request, visitor, fingerprint)
        said = problem_of(error, store.label).said(on_pages)
        return _review_page(request, file, form, text, None, said=said)
    return RedirectResponse(f"/new/{fingerprint}/created/{spec.name}", status_code=303)


async def _rehearsal(
    request: Request, visitor: Visitor, form: Form, fingerprint: str
) -> RehearsalFile | None:
    """Return the rehearsal with which a campaign is created; None without one."""
    if not form.ticked("rehearsed"):
        return None
    made = await rehearsed(request, visitor, form, _file(request, visitor, fingerprint))
    if isinstance(made, Rehearsal):
        return made.file
    raise ProblemError(409, "wrong-state", "the rehearsal was not kept. Rehearse again.")


@router.get("/{fingerprint}/created/{name}")
async def done(request: Request, fingerprint: str, name: Name, visitor: Visiting) -> Response:
    """Show the new campaign, and offer its file for the first wave while it is kept."""
    try:
        file = _file(request, visitor, fingerprint)
    except ProblemError:
        file = None
    return page(request, "new_created.html", name=name, file=file)


@dataclass(frozen=True)
class Review:
    """The result of checking a spec, and its description."""

    found: Validated
    words: NewWords | None


def _file(request: Request, visitor: Visitor, fingerprint: str) -> Kept:
    uploads: Uploads = request.app.state.uploads
    return uploads.find(visitor.key, fingerprint)


def _handed_on(form: Form) -> dict[str, str]:
    return {name: form.text(name)[:1_000] for name in PLANNED if form.text(name)}


def _looked(file: Kept, form: SpecForm) -> FirstSpec:
    """Return what is proposed for a file; rules of consent depend on the names of actions."""
    names = [action.name for action in form.actions if action.name]
    try:
        return _spec(
            file, Choices(actions=names) if len(set(names)) == len(names) > 1 else Choices()
        )
    except InvalidSpecError:
        return _spec(file, Choices())


def _spec(file: Kept, choices: Choices) -> FirstSpec:
    return first_spec(file.source, choices)


def _reviewed(request: Request, token: Token, file: Kept, text: str) -> Review:
    spec, store = parse_spec(text, name="spec"), request.app.state.store
    report = watched(request.app.state.settings)
    with own_folder() as folder:
        scratch = open_store(folder / "scratch.db")
        try:
            existing = store if token.sees(spec.name) else None
            found = validate(
                spec, file.source, scratch=scratch, existing=existing, report=report,
                sources=sources_of(store, token),
            )  # fmt: skip
        finally:
            scratch.close()
    prepared = found.prepared
    words = None if prepared is None else words_of(prepared, found, file.name, token.name)
    return Review(found, words)


async def _form_page(
    request: Request,
    file: Kept,
    form: Form,
    filled: SpecForm,
    wrong: Mapping[str, str] | None = None,
    error: SeqbatchError | None = None,
) -> Response:
    """Show the form, or what must be decided before the file can be read."""
    unread = error if isinstance(error, InvalidFileError) else None
    try:
        found = await bounded(request, partial(_looked, file, filled))
        readings = await bounded(request, partial(readings_of, file, unread))
    except InvalidFileError as problem:
        readings = await bounded(request, partial(readings_of, file, problem))
        return page(
            request, "new_decide.html", status_code=422, file=file, readings=readings,
            kept=[pair for pair in form.fields if pair[0] not in (CSRF, ONCE, *READING)],
            again="yes" if request.method == "POST" else "",
            problems=problem.problems[:LISTED], total=len(problem.problems), place=problem.place,
        )  # fmt: skip
    shown = fitting(filled, found.draft)
    return page(
        request, "new_form.html", status_code=422 if wrong else 200, file=file, found=found,
        form=shown, wrong=wrong or {}, groups=groups_of(found.draft, shown),
        units=units_of(found.draft, shown), combinations=COMBINATIONS, conditions=CONDITIONS,
        names=names_of(found.draft), beyond=beyond(found.draft), readings=readings,
    )  # fmt: skip


def _truth(text: str, prepared: Prepared) -> str:
    """Return a truth for a spec, with the names of its actions; "" if it cannot be rehearsed."""
    spec = parse_spec(text, name="spec")
    if refusals(spec):
        return ""
    return example(rehearsable(spec).now if spec.masked else prepared.now)


def _review_page(
    request: Request, file: Kept, form: Form, text: str, review: Review | None, *, said: str = ""
) -> Response:
    """Show a spec; the page keeps the typed values, to return to the form."""
    filled = [pair for pair in form.fields if pair[0] not in (CSRF, ONCE, "spec", *REHEARSED)]
    prepared = review and review.found.prepared
    label = request.app.state.store.label
    problems = [] if review is None else [problem_of(e, label) for e in review.found.problems]
    shown: dict[str, Any] = {
        "file": file, "filled": filled, "text": text, "said": said,
        "problems": problems, "listed": LISTED,
        "words": review and review.words, "found": review and review.found,
        "truth": form.text("truth") or (prepared and _truth(text, prepared)),
        "campaigns": form.text("campaigns", "200"),
    }  # fmt: skip
    return page(request, "new_review.html", status_code=422 if said or problems else 200, **shown)
