"""The planner: sliders, and what they lead to. A plan has an address, and can be kept as a link."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seqbatch.errors import InvalidArgumentError
from seqbatch.service.pages.forms import Form, in_percent
from seqbatch.service.pages.plan_answer import PlanAnswer, in_waves
from seqbatch.service.pages.plans import Plans, Question
from seqbatch.service.pages.rendering import page
from seqbatch.service.pages.visitors import Visiting, Visitor

router = APIRouter(include_in_schema=False)

#: More waves than these are asked for at the command line.
MOST_WAVES = 20
#: What is asked in percent.
SHARES = ("randomised", "missing")
#: The parameter that asks for a part of the page.
PART = "part"


@dataclass(frozen=True, kw_only=True)
class Control:
    """A number of the form, and the slider beside it.

    Parameters
    ----------
    name, label, help, suffix
        What it is called, and in what it is measured.
    low, high, step
        The ends of the slider, and its steps; numbers may go further.
    log
        Whether its steps are proportional.
    value
        What stands there at first.
    more
        Whether it stands with those that most people leave alone.
    instead
        What a box says that takes the number's place; "" where there is none.
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
    Control(name="units", label="Units in all", low=100, high=1_000_000, log=True, value="20000",
            help="Customers, patients, visits: whoever gets one action each.", suffix="units"),
    Control(name="actions", label="Actions", low=2, high=20, value="3",
            help="With the control, such as doing nothing."),
    Control(name="features", label="Features of a unit", high=60, value="5",
            help="Numbers known before: age, past orders, an indicator for each region."),
    Control(name="effect", label="Effect", low=0.01, high=2, log=True, value="0.2", step=0.001,
            help="What a perfect assignment gains per unit over a random one.",
            suffix="of reward", instead="Not known: plan for many effects around a fifth of the "
            "noise"),
    Control(name="waves", label="Waves", low=1, high=8, value="3",
            help="Outcomes are used between two waves.", instead="Recommend a number"),
    Control(name="randomised", label="Randomised share", value="10", suffix="%",
            help="Units that get a random action whatever was learned, for honest measurement."),
    Control(name="missing", label="Missing outcomes", high=90, value="0", suffix="%", more=True,
            help="Outcomes that will never come."),
    Control(name="noise", label="Noise", low=0.05, high=20, log=True, value="1", step=0.001,
            more=True, suffix="of reward",
            help="Standard deviation of an outcome; 0.3 for yes or no with one yes in ten."),
    Control(name="detect", label="Lift to detect", low=0.01, high=2, log=True, value="0.1",
            step=0.001, more=True, help="The randomised share is then raised until this "
            "is found with 80% power.", suffix="of reward", instead="None in particular"),
)  # fmt: skip


@router.get("/plan")
async def planner(request: Request, visitor: Visiting, part: str = "") -> Response:
    """The form, with an answer where the address asks a question.

    A part alone is for the script of the page: "quick" for a first answer, "whole" for all of it.
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
    """Return what is asked; numbers that are no numbers are refused under their name."""
    waves = _whole(form, "waves")
    if waves is not None and waves > MOST_WAVES:
        advice = "Plan more of them at the command line."
        raise InvalidArgumentError("waves", f"at most {MOST_WAVES}", waves, advice)
    return Question(
        units=_whole(form, "units") or 0, actions=_whole(form, "actions") or 0,
        features=_whole(form, "features") or 0, waves=waves, effect=_number(form, "effect"),
        noise=_number(form, "noise") or 1.0, randomised=(_number(form, "randomised") or 0.0) / 100,
        missing=(_number(form, "missing") or 0.0) / 100, detect=_number(form, "detect"),
    )  # fmt: skip


def _shown(form: Form) -> dict[str, Any]:
    """Return the form's numbers as they were typed, and whether a box takes a number's place."""
    asked = bool(form.fields)
    values = {
        control.name: {
            "text": form.text(control.name, control.value)[:40],
            "instead": form.ticked(f"no-{control.name}") if asked else bool(control.instead),
        }
        for control in CONTROLS
    }
    opened = any(_changed(control, values) for control in CONTROLS if control.more)
    return {"controls": CONTROLS, "values": values, "more_open": opened}


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
    text = form.text(name).replace(",", "").replace(" ", "")
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
    """Return what is wrong under the name of its field; shares are in percent there."""
    name = "waves" if error.name == "batches" else error.name
    return {name: in_percent(in_waves(str(error))) if name in SHARES else in_waves(str(error))}
