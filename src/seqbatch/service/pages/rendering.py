"""Rendering of dashboard pages: templates, charts, errors, next steps, cached views."""

import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import urlencode

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.current_situation import Situation, condition_text
from seqbatch.campaign.record.events import utc_now
from seqbatch.campaign.record.held_rows import held_so_far_text, outside_text
from seqbatch.campaign.spec.spec import rule_name
from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.findings_text import says
from seqbatch.campaign.views.lift_pictures import lift_pictures
from seqbatch.campaign.views.report_pictures import SHAPE_WORDS, Bar
from seqbatch.campaign.views.report_results import Material, gathered
from seqbatch.campaign.views.status import Status, or_close, step_from
from seqbatch.display import alike, cell, counted, number, percent, visible
from seqbatch.document import Facts, Heading, Items, Part, Picture, Section, Table, image
from seqbatch.errors import Remedy
from seqbatch.service.problems import TITLES, ProblemError, amendment, document
from seqbatch.storage.stores import SQLStore

# ----------------------------------------------------------------------
# Remedies in terms of the dashboard's buttons and boxes


def on_pages(remedy: Remedy) -> str:
    """Return the text of a remedy in terms of dashboard pages, to append to a message.

    >>> on_pages(Remedy("close", force=True, reason=...)), on_pages(Remedy("draw"))
    (', below.', '')
    """
    match remedy.action:
        case "record-sums" if "force" not in remedy.options:
            return ""
        case "close" | "record-sums" | "dedupe" | "skip-rows":
            return ", below."
        case "delete" | "overwrite":
            return "."
        case "record":
            return " (below)"
        case "amend":
            if settings := remedy.options.get("metrics"):
                said = [
                    f'the {setting} of {name} to "{value}"'
                    for name, own in settings.items()
                    for setting, value in own.items()
                ]
                return f" a change of {', '.join(said)} (with a reason)"
            # Pages have no fields for the other remedies.
            return f" an amendment over HTTP with {amendment(remedy)}"
        case _:
            return ""


# ----------------------------------------------------------------------
# Cache of slow views, by event


T = TypeVar("T")


class ViewCache:
    """A cache of the most recent results.

    The keys contain an event's hash. Events never change, and the hash covers all events up to its
    own, so a cached result never becomes outdated, except as :func:`hour_of` says.

    Parameters
    ----------
    most
        How many results are cached.
    """

    def __init__(self, most: int = 12) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def known(self, key: tuple[Any, ...]) -> Any:
        """Return the cached result; None if there is none."""
        with self._lock:
            return self._known.get(key)

    def get(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return the cached result, or compute it."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                found: T = self._known[key]
                return found
        made = make()
        with self._lock:
            self._known[key] = made
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return made


async def standing(request: Request, name: str) -> Situation:
    """Return the current situation of a campaign."""
    return await run_in_threadpool(Campaign(request.app.state.store, name).situation)


def material(memory: ViewCache, store: SQLStore, now: Situation) -> Material:
    """Return the report material of a campaign in its current state."""
    key = ("now", now.name, now.hash, hour_of(now))
    return memory.get(key, lambda: gathered(store, now.name))


def hour_of(now: Situation) -> str:
    """Return the current hour if findings depend on time, for the key of a cached result.

    They do if units without a value of a metric count as absent only after a wait.
    """
    waits = any(now.spec.metrics[name].wait is not None for name in now.spec.parts)
    return utc_now().isoformat()[:13] if waits else ""


def learned(memory: ViewCache, store: SQLStore, now: Situation) -> Material | None:
    """Return the material as of the last closed wave; None before the first is closed."""
    if not now.closes:
        return None
    at = now.closes[-1]
    # After unmasking, actions are shown by their names.
    if at == now.sequence or now.unmasked:
        return material(memory, store, now)
    with store.read(now.name) as reader:
        key = ("closed", now.name, reader.event(at).hash)
    return memory.get(key, lambda: gathered(store, now.name, at_event=at))


# ----------------------------------------------------------------------
# The next step of a campaign


@dataclass(frozen=True)
class Next:
    """The next step of a campaign.

    Parameters
    ----------
    words
        The description of the step.
    button, page
        The label of its button, and the campaign page that the button opens.
    other
        Label and page of a second button, if there are two ways to go on.
    """

    words: str
    button: str
    page: str
    other: tuple[str, str] | None = None


def next_of(now: Situation) -> Next:
    """Return the next step in a situation."""
    if now.condition == "stopped" and not now.aborted:
        said = f"The campaign was stopped by its rule: {now.stop}."
        if now.withheld:
            return Next(f"{said} Confirm it to end the campaign.", "Confirm the stop", "change")
        return Next(said, "Read the findings", "findings")
    step = step_from(now)
    if step == "look":
        said = f"A look is due after wave {now.wave - 1}: the committee takes it with the key."
        return Next(said, "See the events", "history")
    if step == "assign":
        return Next(_assign(now), "Upload units", "units")
    if step == "record":
        other = (f"Close wave {now.wave}", "close") if or_close(now) else None
        return Next(_record(now), "Upload outcomes", "outcomes", other)
    if step == "close":
        return Next(_close(now), f"Close wave {now.wave}", "close")
    if step == "report":
        said = f"The campaign is {condition_text(now.condition)}."
        return Next(said, "Read the report", "report")
    return Next(
        "Its rows are kept elsewhere: run the statement from seqbatch campaign sql there.",
        "See the events", "history",
    )  # fmt: skip


def _assign(now: Situation) -> str:
    if now.left is None:
        return f"Assign the units of wave {now.wave}."
    return f"Assign {counted(now.left, 'more unit')} to wave {now.wave}."


def _record(now: Situation) -> str:
    units = now.units[now.wave - 1]
    said = f"Record the outcomes of wave {now.wave}: {now.observed:,} of {units:,} have arrived"
    if now.absent is None:
        needed = percent(now.spec.required_outcomes)
        return f"{said}, and closing it takes at least {needed}."
    if closing := or_close(now):
        return f"{said}. {closing}"
    after = now.spec.reward.after
    when = f", but not before {after} after its assignment" if after else ""
    return f"{said}. When you close the wave, a unit without one counts as {now.absent:g}{when}."


def _close(now: Situation) -> str:
    units = now.units[now.wave - 1]
    return f"Close wave {now.wave}: {now.observed:,} of its {units:,} outcomes have arrived."


# ----------------------------------------------------------------------
# Chart geometry, in percent of the width; the templates draw the charts


#: Number of colours; further actions reuse them and are distinguished by their numbers.
SERIES = 8
#: Minimum width, in percent, of a bar part that shows its number.
NARROW = 9.0
MARGIN = 4.0


@dataclass(frozen=True)
class BarPart:
    """A part of a bar: an action's share of a wave."""

    place: int
    action: str
    units: int
    start: float
    width: float

    @property
    def series(self) -> int:
        """Its colour."""
        return self.place % SERIES + 1

    @property
    def label(self) -> str:
        """The text in it."""
        return f"{self.width:.0f}%" if self.width >= NARROW else ""


@dataclass(frozen=True)
class Shares:
    """The shares of the actions in a wave's units."""

    wave: int
    parts: Sequence[BarPart]

    @property
    def words(self) -> str:
        """The same as text, for screen readers."""
        told = ", ".join(f"{part.action} {part.width:.0f}%" for part in self.parts)
        return f"Wave {self.wave}: {told}"


def shares(status: Status) -> list[Shares]:
    """Return the shares of the actions in each wave."""
    names = list(dict.fromkeys(row.action for row in status.actions))
    drawn = []
    for wave in dict.fromkeys(row.wave for row in status.actions):
        rows = [row for row in status.actions if row.wave == wave]
        total, start, parts = sum(row.units for row in rows), 0.0, []
        for row in rows:
            width = 100 * row.units / total if total else 0.0
            parts.append(BarPart(names.index(row.action), row.action, row.units, start, width))
            start += width
        if total:
            drawn.append(Shares(wave, parts))
    return drawn


@dataclass(frozen=True)
class IntervalLine:
    """An interval: its label, its text and its position."""

    action: str
    told: str
    says: str
    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Lifts:
    """A chart of intervals, one per line.

    Parameters
    ----------
    lines
        From top to bottom.
    zero
        The position of zero difference.
    ends
        The values at the left and the right edge.
    title, words
        The title of the numbers, and the chart as text for screen readers.
    shapes
        The meaning of each shape in the chart.
    """

    lines: Sequence[IntervalLine]
    zero: float
    ends: tuple[str, str]
    title: str
    words: str
    shapes: Sequence[str]


def lifts(found: Findings) -> Lifts | None:
    """Return the actions' lifts over the control, best first; None if there are no estimates."""
    measure = found.measure
    sign = 1 if measure.direction == "min" else -1
    known = sorted(
        (lift for lift in found.lifts if lift.interval.known),
        key=lambda lift: sign * lift.interval.estimate,
    )
    if not known:
        return None
    bars = [
        Bar.of(measure, lift.action, lift.around, says=says(found, lift.around)) for lift in known
    ]
    low = min(0.0, *(bar.interval[1] for bar in bars))
    high = max(0.0, *(bar.interval[2] for bar in bars))

    def place(value: float) -> float:
        return MARGIN + (100 - 2 * MARGIN) * (value - low) / ((high - low) or 1.0)

    lines = [
        IntervalLine(bar.action, bar.told, bar.says, *map(place, bar.interval)) for bar in bars
    ]
    title = f"{measure.head}; {measure.wanted}; compared with {found.control}"
    words = f"{title}: {'; '.join(bar.words for bar in bars)}."
    used = {bar.says for bar in bars}
    shapes = [said[0].upper() + said[1:] for kind, said in SHAPE_WORDS.items() if kind in used]
    return Lifts(lines, place(0.0), (number(low, 3), number(high, 3)), title, words, shapes)


def by_wave(found: Findings) -> dict[str, object] | None:
    """Return the chart of lifts wave by wave; None if there is a single wave."""
    pictures = lift_pictures(found)
    return _part(pictures[1]) if len(pictures) > 1 else None


# ----------------------------------------------------------------------
# Sections of a document, for a template


def drawn(sections: Iterable[Section]) -> list[dict[str, object]]:
    """Return sections with rendered pictures."""
    return [
        {"key": one.key, "title": one.title, "parts": [_part(part) for part in one.parts]}
        for one in sections
    ]


def _part(part: Part) -> dict[str, object]:
    if isinstance(part, Heading):
        return {"kind": "heading", "text": part.text}
    if isinstance(part, Items):
        return {"kind": "items", "items": part.items}
    if isinstance(part, Facts):
        return {"kind": "facts", "items": part.items}
    if isinstance(part, Table):
        return {"kind": "table", "table": part}
    if isinstance(part, Picture):
        source = image(part.draw)
        return {"kind": "picture", "source": source, "words": part.words, "caption": part.caption}
    return {"kind": "text", "text": part}


# ----------------------------------------------------------------------
# Pages from templates: all values are escaped, and nothing is loaded from other servers


#: Content security policy: pages use only their own server; pictures may be inline.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    # With a stricter policy, browsers would not send the origin of a form.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
STATIC = {"style.css": "text/css; charset=utf-8", "script.js": "text/javascript; charset=utf-8"}


def shown(value: Any) -> Any:
    """Return a value for a template, with invisible characters written out."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def lines(text: str) -> Markup:
    """Return HTML that shows the line breaks of a text."""
    return Markup("\n").join(visible(line) for line in text.split("\n"))


@cache
def static(file: str) -> bytes:
    """Return the content of a static file."""
    return files(__package__).joinpath("static", file).read_bytes()


@cache
def address(file: str) -> str:
    """Return the URL of a static file; the URL changes with the content."""
    return f"/static/{file}?v={hashlib.sha256(static(file)).hexdigest()[:12]}"


def once() -> str:
    """Return a new form id, so a form that is sent twice is applied once."""
    return secrets.token_urlsafe(18)


@cache
def environment() -> Environment:
    """Return the Jinja environment of the templates."""
    made = Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=shown,
    )  # fmt: skip
    made.globals.update(
        condition_text=condition_text,
        address=address,
        once=once,
        counted=counted,
        on_pages=on_pages,
    )
    made.globals.update(held_so_far_text=held_so_far_text, outside_text=outside_text)
    made.globals.update(rule_name=rule_name)
    made.filters.update(cell=cell, number=number, alike=alike, lines=lines)
    return made


def page(request: Request, template: str, *, status_code: int = 200, **values: Any) -> HTMLResponse:
    """Return a page.

    Parameters
    ----------
    request
        The request, which also holds the signed-in visitor.
    template
        The template's name.
    status_code
        The HTTP status.
    values
        The values for the template.
    """
    visitor = getattr(request.state, "visitor", None)
    text = (
        environment()
        .get_template(template)
        .render({"visitor": visitor, "here": request.url.path, **values})
    )
    return HTMLResponse(text, status_code=status_code, headers=HEADERS)


# ----------------------------------------------------------------------
# Error pages for browsers; other clients get a problem document


#: Path prefixes of the API, which get problem documents whatever the Accept header.
PROGRAMS = ("/v1", "/health", "/ready", "/metrics")


def answered(request: Request, problem: ProblemError) -> Response:
    """Answer a problem: with a page for browsers, with a document for programs."""
    path = request.url.path
    if path.startswith(PROGRAMS) or "text/html" not in request.headers.get("accept", ""):
        return document(problem)
    if problem.status == 401 and request.method == "GET":
        return _sign_in(request)
    return page(
        request,
        "failed.html",
        status_code=problem.status,
        title=TITLES[problem.kind],
        problem=problem,
        said=problem.said(on_pages),
        name=_campaign(request),
    )


def _sign_in(request: Request) -> Response:
    """Lead to the sign-in page; after a link from another site, look for a session first."""
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        # Browsers hold back strict cookies on links from other sites, but send them on a reload.
        return page(request, "arriving.html")
    query = f"?{request.url.query}" if request.url.query else ""
    wanted = urlencode({"next": f"{request.url.path}{query}"})
    return RedirectResponse(f"/sign-in?{wanted}" if wanted != "next=%2F" else "/sign-in", 303)


def _campaign(request: Request) -> str:
    """Return the campaign of a page if the visitor may see it; otherwise ""."""
    name = request.path_params.get("name", "")
    visitor = getattr(request.state, "visitor", None)
    return name if visitor is not None and visitor.token.sees(name) else ""
