"""The page that plans a campaign in customers, percent and money; its address contains the plan."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seqbatch import planning
from seqbatch.document import Table
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning import CampaignPlan
from seqbatch.planning.campaign_terms import costs_of
from seqbatch.service.long_calls import Progress
from seqbatch.service.pages.forms import Form, ungrouped
from seqbatch.service.pages.plan import MOST_WAVES, Plans
from seqbatch.service.pages.rendering import drawn, page
from seqbatch.service.pages.session import Visiting

router = APIRouter(include_in_schema=False)

#: The largest number of customers that this page plans for.
MOST_CUSTOMERS = 100_000_000


@dataclass(frozen=True, kw_only=True)
class Field:
    """A text field: its name and words, and the unit that a number alone has."""

    name: str
    label: str
    help: str = ""
    unit: str = ""
    value: str = ""


#: What is always asked, what describes an amount instead of a yes/no outcome, and the rest.
ASKED = (
    Field(name="customers", label="Customers", value="50,000"),
    Field(name="base_rate", label="Buy without any action", unit="%", value="4"),
    Field(name="smallest_lift", label="Smallest lift that matters", value="0.5pp",
          help="Percentage points, or money."),
    Field(name="value", label="A purchase is worth", value="12 EUR"),
    Field(name="actions", label="Actions, the control first", value="none, mail"),
    Field(name="costs", label="Cost for each customer", value="mail=0.01"),
    Field(name="waves", label="Waves", value="3", help="Empty: recommended."),
)  # fmt: skip
AMOUNT = (
    Field(name="mean", label="Mean of those who spend"),
    Field(name="spread", label="Their standard deviation"),
    Field(name="zeros", label="Spend nothing", unit="%"),
)
MORE = (
    Field(name="randomised", label="Always random", unit="%", value="10"),
    Field(name="power", label="Power to reach", unit="%"),
    Field(name="after", label="Customers of a roll-out afterwards"),
)


@router.get("/plan")
async def plan(request: Request, visitor: Visiting) -> Response:
    """Show the form, and the plan if the address has one."""
    form = Form(request.query_params.multi_items())
    made, refused = None, {}
    if form.fields:
        plans: Plans = request.app.state.plans
        try:
            asked = asked_of(form)
            key = ("campaign", tuple(form.fields))
            made = await plans.kept(
                request, visitor.key, [key], lambda progress: _made(asked, progress)
            )
        except InvalidArgumentError as error:
            # A cost is called by one action's name.
            refused = {"costs" if error.name == "cost" else error.name: str(error)}
    return page(
        request, "campaign_plan.html", status_code=422 if refused else 200, made=made,
        refused=refused, groups=(ASKED, AMOUNT, MORE), values=_typed(form),
        amount_open=any(form.text(one.name) for one in AMOUNT),
        more_open=any(form.text(one.name, one.value) != one.value for one in MORE),
    )  # fmt: skip


def _typed(form: Form) -> Mapping[str, str]:
    """Return the texts of the fields, as typed or as proposed."""
    asked = bool(form.fields)
    return {
        one.name: form.text(one.name, "" if asked else one.value)[:60]
        for one in (*ASKED, *AMOUNT, *MORE)
    }


def asked_of(form: Form) -> dict[str, Any]:
    """Return a form as arguments of :func:`seqbatch.planning.plan_campaign`."""
    named = re.split(r"\s*[,;]\s*", form.text("actions"))
    given = {name: text for name in QUESTION if (text := _with_unit(form, name))}
    waves = _whole(form, "waves", most=MOST_WAVES)
    return {
        "customers": _whole(form, "customers", most=MOST_CUSTOMERS) or 0,
        "actions": (int(named[0]) if named[0].isdecimal() else named) if named[0] else None,
        "costs": costs_of(re.split(r"\s*;\s*|,\s+", text))
        if (text := form.text("costs"))
        else None,
        "waves": waves,
        "after": _whole(form, "after", most=MOST_CUSTOMERS) or 0,
        **given,
        **_shares(form),
    }


#: The fields that are passed on as typed.
QUESTION = ("base_rate", "smallest_lift", "value", "mean", "spread", "zeros", "power")


def _shares(form: Form) -> dict[str, float]:
    text = form.text("randomised").removesuffix("%").strip()
    if not text:
        return {}
    try:
        return {"randomised": float(text) / 100}
    except ValueError:
        raise InvalidArgumentError("randomised", "a share in percent, such as 10", text) from None


def _with_unit(form: Form, name: str) -> str:
    """Return what was typed, with the field's unit after a number alone."""
    text = form.text(name)[:60]
    unit = next(one.unit for one in (*ASKED, *AMOUNT, *MORE) if one.name == name)
    return f"{text}{unit}" if re.fullmatch(r"[\d.,]+", text) else text


def _whole(form: Form, name: str, *, most: int) -> int | None:
    text = ungrouped(form.text(name)[:60])
    if not text:
        return None
    if not text.isdecimal() or int(text) > most:
        raise InvalidArgumentError(name, f"a whole number of at most {most:,}", text)
    return int(text)


# ----------------------------------------------------------------------
# The plan as the page shows it.


@dataclass(frozen=True)
class MadePlan:
    """A plan as the page shows it: the decision and its chart, and tables for those who ask."""

    said: dict[str, object]
    tables: tuple[Table, ...]
    create: str


def _made(asked: Mapping[str, Any], progress: Progress) -> MadePlan:
    return shown_plan(planning.plan_campaign(**asked, progress=progress))


def shown_plan(made: CampaignPlan) -> MadePlan:
    """Divide a plan's page."""
    section = made.document().first
    said = [part for part in section.parts if not isinstance(part, Table)]
    tables = tuple(part for part in section.parts if isinstance(part, Table))
    terms = made.terms
    told = {
        "sizes": ",".join(str(size) for size in made.sizes),
        "actions": ",".join(terms.actions),
        "costs": ",".join(f"{cost:g}" for cost in terms.costs) if any(terms.costs) else "",
        "kind": "yes/no" if terms.yes_no else "amount",
        "value": f"{terms.value:g}" if terms.yes_no and terms.value is not None else "",
        "currency": terms.currency,
        "randomised": round(100 * made.randomised, 4),
    }
    given = {name: text for name, text in told.items() if text != ""}
    create = f"/new?{urlencode(given, safe=',')}"
    [drawn_section] = drawn([type(section)(section.key, section.title, said)])
    return MadePlan(drawn_section, tables, create)
