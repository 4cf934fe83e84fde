"""The pages that create a campaign step by step: upload a file, fill in a form, review the spec."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, get_args
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
from seqbatch.campaign.spec.column_proposal import FEATURES, Became
from seqbatch.campaign.spec.constraints_text import constraints_said
from seqbatch.campaign.spec.draft import ACTIONS, Choices, Draft
from seqbatch.campaign.spec.measure import objective_said
from seqbatch.campaign.spec.metrics import COMBINATIONS, SENSIBLE, YES_NO
from seqbatch.campaign.spec.template import FirstSpec, first_spec
from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.campaign.steps.create import Prepared
from seqbatch.campaign.views.protocol import protocol
from seqbatch.display import counted
from seqbatch.errors import (
    InvalidArgumentError,
    InvalidFileError,
    InvalidSpecError,
    Place,
    SeqbatchError,
)
from seqbatch.policies.registry import plainly
from seqbatch.service.api_models import Name
from seqbatch.service.bodies import own_folder, watched
from seqbatch.service.long_calls import bounded
from seqbatch.service.pages.forms import (
    CSRF,
    ONCE,
    UNCLEAR,
    Form,
    in_percent,
    read_form,
    ungrouped,
)
from seqbatch.service.pages.rehearsal import rehearsed
from seqbatch.service.pages.rendering import drawn, on_pages, page
from seqbatch.service.pages.session import Visiting, Visitor
from seqbatch.service.pages.uploads import Kept, Uploads, read_upload
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
        *constraints_said(now.spec),
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
        share = f"1 in {len(now.actions)}"
        said.append(f"Nothing is known yet, so each action is drawn with probability {share}.")
    return said


# ----------------------------------------------------------------------
# The form of a spec: typed values, the resulting choices, and errors by field


#: Number of empty rows for further actions.
SPARE = 2
#: Maximum number of columns whose kind can be chosen; further columns keep the proposed kind.
MOST_COLUMNS = 200
#: Fields that are entered in percent.
SHARES = ("randomised", "floor", "required")
#: Name of an unnamed column in a draft; it cannot be chosen.
NAMELESS = "(no name)"
#: The fields of the form, by the spec settings that they determine.
FIELDS = {
    "name": "name", "unit": "unit", "actions": "actions", "control": "actions",
    "metric": "metric", "metrics": "metric", "maximise": "metric", "minimise": "metric",
    "objective": "money", "currency": "money",
    "grid": "waves", "waves": "waves", "units": "waves", "sizes": "waves",
    "randomised": "randomised", "floor": "floor", "required_outcomes": "required",
    "required": "required", "base_rate": "waves", "smallest_lift": "waves", "noise": "waves",
    "features": "features", "max_features": "features",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SpecForm:
    """The values of the form, as typed.

    Parameters
    ----------
    unit
        The columns that identify units; () for the proposed ones.
    kinds
        The chosen kinds of columns that differ from the proposed ones.
    actions
        Names and costs.
    control
        The position of the control among the actions.
    metric, kind, measured, low, high, absent, rows
        The metric that the campaign is about: its column, kind, unit of measure, range, whether a
        unit without a row counts as 0, and what several rows mean.
    currency, value, less_costs
        The currency, what one unit of the metric is worth, and whether costs are subtracted: "yes",
        "no" or "".
    how
        The source of the waves' sizes: "equal", "sizes" or "plan".
    base_rate, smallest_lift, noise
        What a plan must know about outcomes.
    max_features
        The largest number of features.
    """

    name: str = ""
    unit: tuple[str, ...] = ()
    kinds: Mapping[str, Became] = field(default_factory=dict)
    actions: Sequence[tuple[str, str]] = tuple((name, "") for name in ACTIONS)
    control: int = 0
    metric: str = ""
    kind: str = YES_NO
    measured: str = ""
    absent: bool = False
    rows: str = ""
    currency: str = ""
    value: str = ""
    less_costs: str = ""
    low: str = ""
    high: str = ""
    direction: str = "max"
    how: str = "equal"
    waves: str = "3"
    sizes: str = ""
    units: str = ""
    base_rate: str = ""
    smallest_lift: str = ""
    noise: str = ""
    max_features: str = ""
    randomised: str = "10"
    floor: str = "1"
    required: str = "90"

    @property
    def action_rows(self) -> list[tuple[str, str]]:
        """The rows for actions, followed by some empty ones."""
        return [*self.actions, *[("", "")] * SPARE]

    def choices(self) -> Choices:
        """Return the form's choices; refuse invalid numbers, with the field's name."""
        named = [(name, cost) for name, cost in self.actions if name]
        control = self.actions[self.control][0] if self.control < len(self.actions) else ""
        if not control:
            raise InvalidArgumentError("control", "one of the actions", "a row without a name")
        return Choices(
            name=self.name,
            actions=[name for name, _ in named],
            control=control,
            costs={
                name: _number(f"actions: the cost of {name!r}", cost, field="actions")
                for name, cost in named
                if cost
            },
            metric=self.metric,
            kind=self.kind,
            unit_of_measure=self.measured or None,
            range=self._range(),
            direction=self.direction,
            absent=0 if self.absent else None,
            rows=self.rows or None,
            currency=self.currency or None,
            value=_number("value", self.value, field="money") if self.value else None,
            less_costs={"yes": True, "no": False}.get(self.less_costs),
            randomised=_number("randomised", self.randomised) / 100,
            floor=_number("floor", self.floor) / 100,
            required_outcomes=_number("required", self.required) / 100,
            waves=_whole("waves", self.waves) if self.how != "sizes" and self.waves else None,
            sizes=_sizes(self.sizes) if self.how == "sizes" else None,
            units_in_all=_whole("units", self.units) if self.units else None,
            plan=self.how == "plan",
            **(self._scale() if self.how == "plan" else {}),
            unit=self.unit or None,
            kinds=self.kinds,
            max_features=(_whole("max_features", self.max_features) if self.max_features else None),
        )

    def _scale(self) -> dict[str, Any]:
        """Return what the form says about outcomes for a plan."""
        return {
            "base_rate": self.base_rate or None,
            "smallest_lift": self.smallest_lift or None,
            "noise": _number("noise", self.noise) if self.noise else None,
        }

    def _range(self) -> tuple[float, float] | None:
        if self.kind == YES_NO or not (self.low or self.high):
            return None
        low = _number("range: the smallest number (from)", self.low, field="metric")
        return low, _number("range: the largest number (to)", self.high, field="metric")


def typed(form: Form) -> SpecForm:
    """Return the typed values of a submitted form."""
    every = zip(form.every("action"), form.every("cost"), strict=False)
    kinds = [_pair(text) for text in form.every("kind-of")]
    control = form.text("control", "0")
    return SpecForm(
        name=form.text("name"),
        unit=_names(form.text("unit")),
        kinds={column: kind for column, kind in kinds if kind in get_args(Became)},
        actions=[(name.strip(), cost.strip()) for name, cost in every if (name + cost).strip()],
        control=int(control) if control.isdigit() and len(control) < 4 else 0,
        kind=kind if (kind := form.text("kind")) in SENSIBLE else YES_NO,
        absent=form.ticked("absent"),
        direction="min" if form.text("direction") == "min" else "max",
        how=how if (how := form.text("how")) in ("sizes", "plan") else "equal",
        **{name: form.text(name) for name in _PLAIN},
    )


_PLAIN = (
    "metric", "measured", "low", "high", "rows", "currency", "value", "less_costs",
    "waves", "sizes", "units", "base_rate", "smallest_lift", "noise", "max_features", "randomised",
    "floor", "required",
)  # fmt: skip


def planned(form: Form) -> SpecForm:
    """Return the initial form, with the numbers of a plan if the URL contains them."""
    made = SpecForm()
    if sizes := form.text("sizes")[:1_000]:
        made = replace(made, how="sizes", sizes=sizes.replace(",", ", "))
    if share := form.text("randomised")[:20]:
        made = replace(made, randomised=share.removesuffix(".0"))
    if (count := form.text("actions")).isdigit() and 2 <= int(count[:3]) <= 50:
        names = ["nothing", *(f"offer {chr(65 + place % 26)}" for place in range(int(count) - 1))]
        made = replace(made, actions=[(name, "") for name in dict.fromkeys(names)])
    return made


def kinds_of(draft: Draft, form: SpecForm) -> list[dict[str, Any]]:
    """Return the proposed kind and the alternatives for each column."""
    shown = []
    for each in draft.columns[:MOST_COLUMNS]:
        if each.became == "unit" or each.column == NAMELESS:
            continue
        usual = each.became
        if each.became == "question":
            # A rule needs an action whose name matches, and the actions are known only later.
            usual = "eligibility" if each.among == "eligibility" else "left out"
        rules = ("eligibility",) if each.rule else ()
        options = [
            (json.dumps([each.column, None if kind == usual else kind]), kind)
            for kind in (*FEATURES, *rules, "left out")
        ]
        chosen = form.kinds.get(each.column, usual)
        shown.append({"proposal": each, "options": options, "chosen": chosen, "usual": usual})
    return shown


def units_of(draft: Draft, form: SpecForm) -> list[tuple[str, str, bool]]:
    """Return the columns that can identify units: value, label, and whether it is chosen."""
    chosen = form.unit or draft.unit
    named = [each.column for each in draft.columns if each.column != NAMELESS]
    options: list[tuple[str, ...]] = [(name,) for name in named]
    if len(chosen) > 1 or len(draft.unit) > 1:
        options.insert(0, chosen if len(chosen) > 1 else draft.unit)
    return [
        (json.dumps(names), " and ".join(names), tuple(names) == tuple(chosen)) for names in options
    ]


def problems_of(error: SeqbatchError) -> dict[str, str]:
    """Return the errors by field; the key "" is for errors without a field."""
    if isinstance(error, InvalidSpecError) and error.places:
        return dict(_at_field(place, said) for place, said in error.places)
    # Errors about a file name its columns, not fields of the form.
    field = "" if isinstance(error, InvalidFileError) else FIELDS.get(error.field, "")
    return {field: error.refusal.text(on_pages)}


def _at_field(place: Place, said: str) -> tuple[str, str]:
    # The form asks for the metric that is maximised, and elsewhere for its value.
    named = place[1:2] if place[1:2] in (("maximise",), ("minimise",)) else place[:1]
    field = FIELDS.get(named[0], "") if named else ""
    return field, in_percent(said) if field in SHARES else said


def _names(text: str) -> tuple[str, ...]:
    found = _read(text)
    strings = isinstance(found, list) and all(isinstance(name, str) for name in found)
    return tuple(found) if strings else ()


def _pair(text: str) -> tuple[str, Any]:
    found = _read(text)
    good = isinstance(found, list) and len(found) == 2 and isinstance(found[0], str)
    return (found[0], found[1]) if good and isinstance(found[1], str) else ("", None)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _number(name: str, text: str, *, field: str = "") -> float:
    try:
        return float(text)
    except ValueError:
        rule = "a plain number such as 0.5"
        raise InvalidArgumentError(name, rule, repr(text[:40]), field=field) from None


def _whole(name: str, text: str) -> int:
    try:
        return int(ungrouped(text)[:20])
    except ValueError:
        raise InvalidArgumentError(name, "a whole number", repr(text[:40])) from None


def _sizes(text: str) -> list[int]:
    if unclear := UNCLEAR.search(text):
        rule = "numbers such as 1500, without commas and separated by spaces"
        raise InvalidArgumentError("sizes", rule, repr(unclear[0][:40]))
    parts: Iterable[str] = re.split(r"[;,\s]+", text.strip(" ,;"))
    return [_whole("sizes", part) for part in parts]


# ----------------------------------------------------------------------
# The pages: upload, form, review, create


router = APIRouter(include_in_schema=False, prefix="/new")

#: Fields that the planner page passes to the form.
PLANNED = ("sizes", "actions", "randomised")
#: Fields of the review's rehearsal.
REHEARSED = ("truth", "campaigns", "rehearsed")
#: The button of the review that leads back to the form.
AGAIN = "again"


@router.get("")
async def begin(request: Request, _visitor: Visiting) -> Response:
    """Ask for a file."""
    form = Form(request.query_params.multi_items())
    return page(request, "new.html", kept=_handed_on(form), problem=None)


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
    try:
        found = await bounded(request, lambda: _looked(file))
    except InvalidFileError as error:
        problem, kept = problem_of(error, request.app.state.store.label), _handed_on(form)
        return page(request, "new.html", status_code=422, kept=kept, problem=problem)
    return _form_page(request, file, found, planned(form), {})


@router.post("/{fingerprint}")
async def propose(request: Request, fingerprint: str, visitor: Visiting) -> Response:
    """Make a spec from the form, and show it in words; if invalid, show the form again."""
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
        told = problem_of(error, store.label).said(on_pages)
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


def _looked(file: Kept) -> FirstSpec:
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


def _form_page(
    request: Request, file: Kept, found: FirstSpec, form: SpecForm, wrong: dict[str, str]
) -> Response:
    return page(
        request, "new_form.html", status_code=422 if wrong else 200, file=file, found=found,
        form=form, wrong=wrong, kinds=kinds_of(found.draft, form),
        units=units_of(found.draft, form), combinations=COMBINATIONS,
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
