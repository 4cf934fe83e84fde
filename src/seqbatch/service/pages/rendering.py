"""Pages from templates: charts, errors, next steps, cached views."""

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
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.findings_text import around, says
from seqbatch.campaign.views.report_pictures import Bar
from seqbatch.campaign.views.report_results import Material, gathered
from seqbatch.campaign.views.status import Status, or_close, step_from
from seqbatch.display import alike, cell, counted, number, percent, visible
from seqbatch.document import Heading, Items, Part, Picture, Section, Table, image
from seqbatch.errors import Remedy
from seqbatch.service.problems import TITLES, ProblemError, amendment, document
from seqbatch.storage.stores import SQLStore

# ----------------------------------------------------------------------
# Remedies in the words of pages: buttons and boxes instead of options.


def on_pages(remedy: Remedy) -> str:
    """Return what follows the text before a remedy, for those who look at pages.

    >>> on_pages(Remedy("close", force=True, reason=...)), on_pages(Remedy("draw"))
    (', below.', '')
    """
    match remedy.action:
        case "close" | "record-sums":
            return ", below."
        case "delete" | "overwrite":
            return "."
        case "amend":
            if spelled := remedy.options.get("reward_format"):
                return f' a change of how outcomes are spelled to "{spelled}" and a reason'
            # No page has a field for the others.
            return f" a call of amend over HTTP with {amendment(remedy)}"
        case _:
            return ""


# ----------------------------------------------------------------------
# What takes long to find out is found out once for each event, and remembered for a while.


T = TypeVar("T")


class ViewCache:
    """The newest answers, by what they are about.

    Events are never changed, and a hash stands for all up to its own: an answer of an event stays
    right.

    Parameters
    ----------
    most
        How many are remembered.
    """

    def __init__(self, most: int = 12) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def get(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return what is remembered, or make it."""
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
    """Return where a campaign stands."""
    return await run_in_threadpool(Campaign(request.app.state.store, name).situation)


def material(memory: ViewCache, store: SQLStore, now: Situation) -> Material:
    """Return all that there is to say of a campaign as it stands."""
    return memory.get(("now", now.name, now.hash), lambda: gathered(store, now.name))


def learned(memory: ViewCache, store: SQLStore, now: Situation) -> Material | None:
    """Return what was learned when the last wave was closed; None before that."""
    if not now.closes:
        return None
    at = now.closes[-1]
    # Actions that got their names back are shown by their names.
    if at == now.sequence or now.unmasked:
        return material(memory, store, now)
    with store.read(now.name) as reader:
        key = ("closed", now.name, reader.event(at).hash)
    return memory.get(key, lambda: gathered(store, now.name, at_event=at))


# ----------------------------------------------------------------------
# What comes next, in words, and the page on which it is done.


@dataclass(frozen=True)
class Next:
    """What comes next.

    Parameters
    ----------
    words
        What is to be done.
    button, page
        What its button says, and the page of the campaign that it leads to.
    """

    words: str
    button: str
    page: str


def next_of(now: Situation) -> Next:
    """Return what comes next in a situation."""
    if now.stop and now.condition == "open":
        said = f"The rule that was fixed beforehand says: {now.stop}."
        return Next(said, "Read the findings", "findings")
    step = step_from(now)
    if step == "assign":
        return Next(_assign(now), "Upload units", "units")
    if step == "record":
        return Next(_record(now), "Upload outcomes", "outcomes")
    if step == "close":
        return Next(_close(now), f"Close wave {now.wave}", "close")
    if step == "report":
        return Next(f"The campaign is {now.condition}.", "Read the report", "report")
    return Next(
        "Its rows are kept elsewhere: the statement of seqbatch campaign sql is run there.",
        "See what is on record", "history",
    )  # fmt: skip


def _assign(now: Situation) -> str:
    if now.left is None:
        return f"Give the units of wave {now.wave} their actions."
    return f"Give {counted(now.left, 'more unit')} of wave {now.wave} their actions."


def _record(now: Situation) -> str:
    units = now.units[now.wave - 1]
    said = f"Record the outcomes of wave {now.wave}: {now.observed:,} of {units:,} are in"
    if now.absent is None:
        needed = percent(now.spec.required_outcomes)
        return f"{said}, and at least {needed} are needed to close it."
    if closing := or_close(now):
        return f"{said}. {closing}"
    when = f", at the earliest {now.wait} after its assignment" if now.wait else ""
    return f"{said}. At the closing a unit without one counts as {now.absent:g}{when}."


def _close(now: Situation) -> str:
    units = now.units[now.wave - 1]
    return f"Close wave {now.wave}: {now.observed:,} of its {units:,} outcomes are in."


# ----------------------------------------------------------------------
# Where things stand in a page's pictures, in percent of their width. The templates draw them.


#: Colours there are; further actions take them again, and their numbers tell them apart.
SERIES = 8
#: Narrower parts of a bar have no number in them, in percent.
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
        """What stands in it."""
        return f"{self.width:.0f}%" if self.width >= NARROW else ""


@dataclass(frozen=True)
class Shares:
    """A wave's units, shared out among the actions."""

    wave: int
    parts: Sequence[BarPart]

    @property
    def words(self) -> str:
        """The same for those who do not see it."""
        told = ", ".join(f"{part.action} {part.width:.0f}%" for part in self.parts)
        return f"Wave {self.wave}: {told}"


def shares(status: Status) -> list[Shares]:
    """Return how the units of each wave were shared out."""
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
    """An interval: its words, what it says, and where it stands."""

    action: str
    told: str
    says: str
    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Lifts:
    """Intervals below one another.

    Parameters
    ----------
    lines
        From top to bottom.
    zero
        Where no difference stands.
    ends
        What the left and the right edge stand for.
    title, words
        What the numbers are, and all of it for those who do not see it.
    """

    lines: Sequence[IntervalLine]
    zero: float
    ends: tuple[str, str]
    title: str
    words: str


def lifts(found: Findings) -> Lifts | None:
    """Return what actions bring over the control, the best on top; None where nothing is known."""
    measure = found.measure
    sign = 1 if measure.direction == "min" else -1
    known = sorted(
        (lift for lift in found.lifts if lift.interval.known),
        key=lambda lift: sign * lift.interval.estimate,
    )
    if not known:
        return None
    bars = [
        Bar.of(measure, lift.action, around(lift), says=says(found, around(lift))) for lift in known
    ]
    low = min(0.0, *(bar.interval[1] for bar in bars))
    high = max(0.0, *(bar.interval[2] for bar in bars))

    def place(value: float) -> float:
        return MARGIN + (100 - 2 * MARGIN) * (value - low) / ((high - low) or 1.0)

    lines = [
        IntervalLine(bar.action, bar.told, bar.says, *map(place, bar.interval)) for bar in bars
    ]
    title = f"{measure.head}, compared with {found.control}"
    words = f"{title}: {'; '.join(bar.words for bar in bars)}."
    return Lifts(lines, place(0.0), (number(low, 3), number(high, 3)), title, words)


# ----------------------------------------------------------------------
# Sections of a document, for a template.


def drawn(sections: Iterable[Section]) -> list[dict[str, object]]:
    """Return sections with their pictures drawn."""
    return [
        {"key": one.key, "title": one.title, "parts": [_part(part) for part in one.parts]}
        for one in sections
    ]


def _part(part: Part) -> dict[str, object]:
    if isinstance(part, Heading):
        return {"kind": "heading", "text": part.text}
    if isinstance(part, Items):
        return {"kind": "items", "items": part.items}
    if isinstance(part, Table):
        return {"kind": "table", "table": part}
    if isinstance(part, Picture):
        source = image(part.draw)
        return {"kind": "picture", "source": source, "words": part.words, "caption": part.caption}
    return {"kind": "text", "text": part}


# ----------------------------------------------------------------------
# Pages from templates: everything escaped, nothing hidden, nothing fetched from elsewhere.


#: What a page may load and where its forms may go: its own server, and pictures within the page.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    # Without its own address a browser would not say where a form comes from.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
STATIC = {"style.css": "text/css; charset=utf-8", "script.js": "text/javascript; charset=utf-8"}


def shown(value: Any) -> Any:
    """Return what a template shows of a value: what cannot be seen is written out."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def lines(text: str) -> Markup:
    """Return text of several lines, to be shown as such."""
    return Markup("\n").join(visible(line) for line in text.split("\n"))


@cache
def static(file: str) -> bytes:
    """Return a file that pages load."""
    return files(__package__).joinpath("static", file).read_bytes()


@cache
def address(file: str) -> str:
    """Return where a page finds a file; another content has another address."""
    return f"/static/{file}?v={hashlib.sha256(static(file)).hexdigest()[:12]}"


def once() -> str:
    """Return what names one sending of a form, however often it is sent."""
    return secrets.token_urlsafe(18)


@cache
def environment() -> Environment:
    """Return what makes pages of templates."""
    made = Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=shown,
    )  # fmt: skip
    made.globals.update(address=address, once=once, counted=counted, on_pages=on_pages)
    made.filters.update(cell=cell, number=number, alike=alike, lines=lines)
    return made


def page(request: Request, template: str, *, status_code: int = 200, **values: Any) -> HTMLResponse:
    """Return a page.

    Parameters
    ----------
    request
        The call; who is signed in comes with it.
    template
        The template's name.
    status_code
        The answer's status.
    values
        What the template shows.
    """
    visitor = getattr(request.state, "visitor", None)
    text = (
        environment()
        .get_template(template)
        .render({"visitor": visitor, "here": request.url.path, **values})
    )
    return HTMLResponse(text, status_code=status_code, headers=HEADERS)


# ----------------------------------------------------------------------
# Errors as pages, for those who look at pages; all others get a problem document.


#: Addresses that programs call, whatever they say they accept.
PROGRAMS = ("/v1", "/health", "/ready", "/metrics")


def answered(request: Request, problem: ProblemError) -> Response:
    """Answer with a problem: a page to a browser, a document to a program."""
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
    """Ask for a token; first see whether a link from elsewhere hid that there is a session."""
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        # Browsers keep strict cookies back on links from elsewhere, and send them on the next step.
        return page(request, "arriving.html")
    query = f"?{request.url.query}" if request.url.query else ""
    wanted = urlencode({"next": f"{request.url.path}{query}"})
    return RedirectResponse(f"/sign-in?{wanted}" if wanted != "next=%2F" else "/sign-in", 303)


def _campaign(request: Request) -> str:
    """Return the campaign that a page was about and may be seen, "" where there is none."""
    name = request.path_params.get("name", "")
    visitor = getattr(request.state, "visitor", None)
    return name if visitor is not None and visitor.token.sees(name) else ""
