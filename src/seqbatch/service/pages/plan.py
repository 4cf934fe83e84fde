"""The researcher's planner page: a form with sliders, and plans computed in the background."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seqbatch import planning
from seqbatch.display import counted, number, percent_cut
from seqbatch.document import Table
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning import Plan
from seqbatch.planning.result_rows import Row
from seqbatch.planning.result_text import (
    answer,
    assigned_by,
    assumptions,
    chosen,
    costs_table,
    reasons,
    tables,
)
from seqbatch.service.long_calls import Progress, planned
from seqbatch.service.pages.forms import Form, in_percent, ungrouped
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.session import Visiting, Visitor
from seqbatch.service.problems import ProblemError

# ----------------------------------------------------------------------
# A plan as the dashboard shows it: texts, tables and a chart


#: The chart's height and its margins above and below the points, in pixels.
HEIGHT, ABOVE, BELOW = 260, 40, 52


@dataclass(frozen=True)
class Point:
    """A number of waves in the chart; x is in percent from the left, y in pixels."""

    waves: str
    label: str
    chosen: bool
    x: float
    y: float
    low: float
    high: float
    bound: float | None


@dataclass(frozen=True)
class RegretPicture:
    """Regret against the number of waves, on a logarithmic scale.

    Parameters
    ----------
    points
        From left to right.
    online, online_label
        The position of the line for the fully online policy, and its value.
    words
        The chart as text, for screen readers.
    """

    points: Sequence[Point]
    online: float
    online_label: str
    words: str
    height: int = HEIGHT


@dataclass(frozen=True)
class WaveBar:
    """A wave of the plan: how it is assigned, and its range in percent of all units."""

    number: int
    units: int
    start: float
    width: float
    how: str


@dataclass(frozen=True)
class PlanAnswer:
    """A plan, prepared for display.

    Parameters
    ----------
    heading, short
        The plan in one line, and a shorter version for screen readers.
    whole
        Whether it is the full plan, not a first answer.
    facts
        The most important numbers, each with its label.
    words, assumed
        The rest in sentences, and the assumptions.
    waves, measure, picture, tables
        The waves, what the chart shows, the chart and the tables.
    sizes, actions, randomised
        The settings of a campaign that follows this plan.
    """

    heading: str
    short: str
    whole: bool
    facts: Sequence[tuple[str, str]]
    words: Sequence[str]
    assumed: str
    waves: Sequence[WaveBar]
    measure: str
    picture: RegretPicture
    tables: Sequence[Table]
    sizes: tuple[int, ...]
    actions: int
    randomised: float


def answer_of(plan: Plan) -> PlanAnswer:
    """Prepare a plan for display; a quick plan has no table of wrong guesses."""
    whole = not plan.request.quick
    sizes = ", ".join(f"{size:,}" for size in plan.grid.sizes)
    return PlanAnswer(
        heading=answer(plan, noun="wave"),
        short=f"{counted(plan.batches, 'wave')} of {sizes} units",
        whole=whole,
        facts=_facts(plan),
        words=reasons(plan, noun="wave"),
        assumed=" ".join(assumptions(plan, noun="wave")),
        waves=_waves(plan),
        measure=_measure(plan),
        picture=_picture(plan),
        tables=tables(plan, noun="wave") if whole else [costs_table(plan, noun="wave")],
        sizes=tuple(plan.grid.sizes),
        actions=plan.model.actions,
        randomised=plan.model.conduct.randomised,
    )


def _facts(plan: Plan) -> list[tuple[str, str]]:
    found, row = plan.detection, plan.row
    facts = [
        ("waves", str(plan.batches)),
        ("first wave", counted(plan.grid.sizes[0], "unit")),
        ("right choice at the end", f"{row.best_share:.0%}")
        if plan.choosing
        else ("share of the possible gain", f"{row.earned:.0%}"),
        ("randomised", percent_cut(plan.model.conduct.randomised)),
    ]
    return (
        facts
        if found is None
        else [*facts, ("detectable lift, 80% power", number(found.lift_80, 3))]
    )


def _waves(plan: Plan) -> list[WaveBar]:
    """Return the waves, and how each is assigned."""
    made, start = [], 0
    hows = assigned_by(plan)
    for place, (size, how) in enumerate(zip(plan.grid.sizes, hows, strict=True), start=1):
        share = 100 / plan.units
        made.append(WaveBar(place, size, start * share, size * share, how))
        start += size
    return made


def _picture(plan: Plan) -> RegretPicture:
    rows = plan.rows
    known = [value for row in (*rows, plan.online) for value in (*_ends(row), row.lower_bound)]
    shown = [math.log(value) for value in known if value > 0]
    low, high = min(shown), max(shown)
    room = HEIGHT - ABOVE - BELOW

    def at(value: float) -> float:
        return round(ABOVE + room * (high - math.log(value)) / ((high - low) or 1.0), 1)

    points = []
    for place, row in enumerate(rows):
        below, above = _ends(row)
        x = round(100 * (place + 0.5) / len(rows), 2)
        bound = at(row.lower_bound) if row.lower_bound > 0 else None
        here, label = row.batches == plan.batches, number(row.regret, 3)
        points.append(
            Point(str(row.batches), label, here, x, at(row.regret), at(below), at(above), bound)
        )
    told = "; ".join(f"{counted(int(p.waves), 'wave')}: {p.label}" for p in points)
    online = number(plan.online.regret, 3)
    words = (
        f"{_measure(plan)} by number of waves: {told}; fully online: {online}. "
        f"{counted(plan.batches, 'wave').capitalize()}: {chosen(plan)}."
    )
    return RegretPicture(points, at(plan.online.regret), online, words)


def _measure(plan: Plan) -> str:
    """Return the name of what the picture shows."""
    return "Simple regret" if plan.choosing else "Expected regret"


def _ends(row: Row) -> tuple[float, float]:
    """Return the bounds two standard errors below and above, kept positive for the log scale."""
    least = max(row.regret, 1e-9)
    return max(row.regret - 2 * row.error, least / 2), least + 2 * row.error


# ----------------------------------------------------------------------
# Computing plans: cached, one at a time per session, cancelled when the client has gone


#: How many requests of a session may wait while another one is running.
WAITING = 4


@dataclass(frozen=True, kw_only=True)
class Question:
    """The inputs of a plan; see :func:`seqbatch.planning.plan`."""

    units: int
    actions: int
    features: int
    waves: int | None = None
    effect: float | None = None
    noise: float | None = None
    base_rate: float | None = None
    randomised: float = 0.0
    missing: float = 0.0
    after: int = 0
    purpose: Literal["earn", "choose"] = "earn"
    detect: float | None = None


@dataclass
class Turn:
    """A session's lock for planning, and how many requests wait for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asking: int = 0


T = TypeVar("T")


class Plans:
    """The plans of all sessions, on both pages.

    Parameters
    ----------
    most
        How many plans are cached.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, Any] = OrderedDict()
        self._turns: dict[str, Turn] = {}

    async def answer(
        self, request: Request, session: str, question: Question, *, quick: bool
    ) -> PlanAnswer:
        """Return a researcher's plan; a full one also answers a quick question."""
        keys = [(question, False), (question, True)][: 2 if quick else 1]
        return await self.kept(request, session, keys, lambda on: _made(question, quick, on))

    async def kept(
        self,
        request: Request,
        session: str,
        keys: Sequence[Hashable],
        make: Callable[[Progress], T],
    ) -> T:
        """Return a plan cached under one of the keys, or compute one and cache it under the last.

        A session's plans are computed one after the other.
        """
        found: T | None = self._find(keys)
        if found is not None:
            return found
        async with self._turn(session):
            if (found := self._find(keys)) is None:
                found = await planned(request, make)
                self._keep(keys[-1], found)
        return found

    def _find(self, keys: Sequence[Hashable]) -> Any:
        for key in keys:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        return None

    def _keep(self, key: Hashable, found: object) -> None:
        self._known[key] = found
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    @asynccontextmanager
    async def _turn(self, session: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(session, Turn())
        if turn.asking > WAITING:
            raise ProblemError(
                429, "busy", "too many plans of this session are waiting; try again later.",
                headers={"Retry-After": "2"},
            )  # fmt: skip
        turn.asking += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.asking -= 1
            if not turn.asking:
                self._turns.pop(session, None)


def _made(question: Question, quick: bool, progress: Progress) -> PlanAnswer:
    plan = planning.plan(
        units=question.units, actions=question.actions, features=question.features,
        batches=question.waves, effect=question.effect, noise=question.noise,
        base_rate=question.base_rate,
        randomised=question.randomised, missing=question.missing, detect=question.detect,
        after=question.after, purpose=question.purpose,
        quick=quick, progress=progress,
    )  # fmt: skip
    return answer_of(plan)


# ----------------------------------------------------------------------
# The page; the URL contains the inputs, so a plan can be saved as a link


router = APIRouter(include_in_schema=False)

#: Maximum number of waves on this page; the command line allows more.
MOST_WAVES = 20
#: Fields that are entered in percent.
SHARES = ("base_rate", "randomised", "missing")
#: The URL parameter that requests a part of the page.
PART = "part"


@dataclass(frozen=True, kw_only=True)
class Control:
    """A number field of the form, with its slider.

    Parameters
    ----------
    name, label, help, suffix
        Its name and texts, and its unit of measurement.
    low, high, step
        The range and the step of the slider; typed numbers may be outside the range.
    log
        Whether the slider is logarithmic.
    value
        The initial value.
    more
        Whether it is among the advanced fields.
    instead
        The label of a checkbox that replaces the number; "" for no checkbox.
    """

    name: str
    label: str
    help: str = ""
    suffix: str = ""
    low: float = 0
    high: float = 100
    step: float = 1
    log: bool = False
    value: str = ""
    instead: str = ""
    more: bool = False


CONTROLS = (
    Control(name="units", label="Total units", low=100, high=1_000_000, log=True, value="20000",
            help="Customers, patients or visits: each gets one action.", suffix="units"),
    Control(name="actions", label="Actions", low=2, high=20, value="3",
            help="Including the control, such as doing nothing."),
    Control(name="features", label="Features per unit", high=60, value="5",
            help="Numbers known before assignment: age, past orders, an indicator per region."),
    Control(name="base_rate", label="Yes without any action", low=0.1, high=99, step=0.1, value="4",
            suffix="%", help="If the outcome is yes or no: how often it is yes today.",
            instead="The outcome is not yes or no"),
    Control(name="effect", label="Effect", low=0.01, high=2, log=True, value="0.2", step=0.001,
            help="Gain per unit of a perfect assignment over a random one.",
            suffix="of reward", instead="Unknown: plan for many usual effects"),
    Control(name="waves", label="Waves", low=1, high=8, value="3",
            help="Each wave uses the outcomes of earlier waves.", instead="Recommend a number"),
    Control(name="randomised", label="Randomised share", value="10", suffix="%",
            help="Units that get a random action whatever was learned, for unbiased estimates."),
    Control(name="missing", label="Missing outcomes", high=90, value="0", suffix="%", more=True,
            help="Share of outcomes that will never arrive."),
    Control(name="noise", label="Noise", low=0.05, high=20, log=True, value="1", step=0.001,
            more=True, suffix="of reward",
            help="Standard deviation of an outcome that is not yes or no."),
    Control(name="after", label="Roll-out afterwards", low=1_000, high=10_000_000, log=True,
            value="100000", suffix="units", more=True, help="Units that will get the final rule: "
            "what is learned then counts as well.", instead="None"),
    Control(name="detect", label="Lift to detect", low=0.01, high=2, log=True, value="0.1",
            step=0.001, more=True, help="The planner raises the randomised share "
            "until this lift is detected with 80% power.", suffix="of reward",
            instead="No particular lift"),
)  # fmt: skip


@router.get("/plan/research")
async def planner(request: Request, visitor: Visiting, part: str = "") -> Response:
    """Show the planner's form, with an answer if the URL has inputs.

    The page's script requests parts: "quick" for a first answer, "whole" for the full one.
    """
    form = Form([(name, text) for name, text in request.query_params.multi_items() if name != PART])
    template = "plan_answer.html" if part else "planner.html"
    found: PlanAnswer | None = None
    refused: Mapping[str, str] = {}
    if form.fields or part:
        try:
            found = await _answered(request, visitor, form, quick=part == "quick")
        except InvalidArgumentError as error:
            refused = _refusal(error)
    return page(
        request, template, status_code=422 if refused else 200, answer=found, refused=refused,
        **_shown(form),
    )  # fmt: skip


async def _answered(request: Request, visitor: Visitor, form: Form, *, quick: bool) -> PlanAnswer:
    plans: Plans = request.app.state.plans
    return await plans.answer(request, visitor.key, question_of(form), quick=quick)


def question_of(form: Form) -> Question:
    """Return the inputs of a form; refuse invalid numbers, with the field's name."""
    waves = _whole(form, "waves")
    if waves is not None and waves > MOST_WAVES:
        advice = "To plan more waves, use the command line."
        raise InvalidArgumentError("waves", f"at most {MOST_WAVES}", waves, advice)
    rate = _number(form, "base_rate")
    return Question(
        units=_whole(form, "units") or 0, actions=_whole(form, "actions") or 0,
        features=_whole(form, "features") or 0, waves=waves, effect=_number(form, "effect"),
        noise=None if rate is not None else _number(form, "noise") or 1.0,
        base_rate=None if rate is None else rate / 100,
        randomised=(_number(form, "randomised") or 0.0) / 100,
        missing=(_number(form, "missing") or 0.0) / 100, detect=_number(form, "detect"),
        after=_whole(form, "after") or 0,
        purpose="choose" if form.ticked("choose") else "earn",
    )  # fmt: skip


def _shown(form: Form) -> dict[str, Any]:
    """Return the numbers as typed, and whether a checkbox replaces each."""
    asked = bool(form.fields)
    values = {
        control.name: {
            "text": form.text(control.name, control.value)[:40],
            "instead": form.ticked(f"no-{control.name}") if asked else bool(control.instead),
        }
        for control in CONTROLS
    }
    opened = any(_changed(control, values) for control in CONTROLS if control.more)
    choosing = form.ticked("choose")
    return {"controls": CONTROLS, "values": values, "choosing": choosing, "more_open": opened}


def _changed(control: Control, values: Mapping[str, Any]) -> bool:
    value = values[control.name]
    if control.instead:
        return not value["instead"]
    return bool(value["text"] != control.value)


def _whole(form: Form, name: str) -> int | None:
    value = _number(form, name)
    if value is not None and not value.is_integer():
        raise InvalidArgumentError(name, "a whole number", form.text(name)[:40])
    return None if value is None else int(value)


def _number(form: Form, name: str) -> float | None:
    text = ungrouped(form.text(name))
    if not text or form.ticked(f"no-{name}"):
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e15:
        raise InvalidArgumentError(name, "a number", form.text(name)[:40])
    return value


def _refusal(error: InvalidArgumentError) -> Mapping[str, str]:
    """Return the error by field name; shares are given in percent."""
    if error.name == "batches":
        error = InvalidArgumentError("waves", error.rule, error.received, error.advice)
    return {error.name: in_percent(str(error)) if error.name in SHARES else str(error)}
