"""The form of a new campaign: typed values, the choices that they make, and errors by field."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, get_args

from seqbatch.campaign.spec.choices import ACTIONS, Choices
from seqbatch.campaign.spec.column_proposal import Became
from seqbatch.campaign.spec.consent import column_in_rule
from seqbatch.campaign.spec.eligibility import Kind
from seqbatch.campaign.spec.metrics import SENSIBLE, YES_NO, Guardrail
from seqbatch.errors import (
    InvalidArgumentError,
    InvalidFileError,
    InvalidSpecError,
    Place,
    SeqbatchError,
)
from seqbatch.service.pages.forms import UNCLEAR, Form, in_percent, ungrouped
from seqbatch.service.pages.rendering import on_pages

#: Most rows of further metrics, and of rules.
MOST_ROWS = 50
#: Fields that are entered in percent.
SHARES = ("randomised", "floor", "required", "alpha")
#: The fields of the form, by the spec settings that they determine.
FIELDS = {
    "name": "name", "question": "question", "owner": "owner", "unit": "unit",
    "actions": "actions", "control": "actions", "capacity": "actions",
    "metric": "metric", "metrics": "metric", "maximise": "metric", "minimise": "metric",
    "objective": "money", "currency": "money", "budget": "money", "value": "money",
    "grid": "waves", "waves": "waves", "units": "waves", "sizes": "waves",
    "randomised": "randomised", "floor": "floor", "required_outcomes": "required",
    "required": "required", "base_rate": "waves", "smallest_lift": "waves", "mean": "waves",
    "spread": "waves", "zeros": "waves",
    "features": "features", "max_features": "features", "columns": "features",
    "eligible": "rules", "stopping": "stopping",
}  # fmt: skip


# ----------------------------------------------------------------------
# The rows of actions, metrics and rules


@dataclass(frozen=True)
class TypedAction:
    """An action: its name, its cost, and how many units may get it in each wave and in all."""

    name: str = ""
    cost: str = ""
    each_wave: str = ""
    total: str = ""

    @property
    def filled(self) -> bool:
        """Whether anything was typed."""
        return bool(self.name + self.cost + self.each_wave + self.total)

    @property
    def capacity(self) -> dict[str, int]:
        """Its limits, as in a spec."""
        typed = {"each_wave": self.each_wave, "total": self.total}
        what = f"actions: the limit of {self.name!r}"
        return {name: _whole(what, text, field="actions") for name, text in typed.items() if text}


@dataclass(frozen=True, kw_only=True)
class TypedMetric:
    """The settings of a metric, as typed.

    Parameters
    ----------
    place
        The end of its fields' names: "" for the metric that the campaign is about, else "-1", ...
    metric
        Its name.
    column, kind, measured, rows, row_id, date, date_format, within, absent, low, high, cap
        As in a spec.
    guardrail, bound
        The kind of its guardrail, and the bound.
    """

    place: str = ""
    metric: str = ""
    column: str = ""
    kind: str = YES_NO
    measured: str = ""
    absent: str = ""
    rows: str = ""
    row_id: str = ""
    date: str = ""
    date_format: str = ""
    within: str = ""
    low: str = ""
    high: str = ""
    cap: str = ""
    guardrail: str = ""
    bound: str = ""

    @property
    def at(self) -> str:
        """The field at which its errors are shown."""
        return f"metric{self.place}"

    @property
    def recorded(self) -> bool:
        """Whether a setting of how it is recorded was typed."""
        return any(
            getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("place", "metric", "kind")
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Its settings besides kind, unit, absent, rows and range."""
        plain = {
            name: getattr(self, name)
            for name in ("column", "row_id", "date", "date_format", "within")
            if getattr(self, name)
        }
        if self.cap:
            plain["cap"] = _number(f"{self.metric}: cap", self.cap, field=self.at)
        if self.guardrail in Guardrail.model_fields:
            plain["guardrail"] = {self.guardrail: self._bound()}
        return plain

    @property
    def table(self) -> dict[str, Any]:
        """Its table in a spec."""
        made = {
            "kind": self.kind, "unit": self.measured or None, "absent": self.missing,
            "rows": self.rows or None, "range": self.range,
        }  # fmt: skip
        return {name: given for name, given in made.items() if given is not None} | self.settings

    @property
    def missing(self) -> float | None:
        """What a unit without a row counts as."""
        return (
            _number(f"{self.metric}: absent", self.absent, field=self.at) if self.absent else None
        )

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest number that is accepted."""
        if self.kind == YES_NO or not (self.low or self.high):
            return None
        low = _number("range: the smallest number (from)", self.low, field=self.at)
        return low, _number("range: the largest number (to)", self.high, field=self.at)

    def _bound(self) -> float:
        text = self.bound.removesuffix("pp").removesuffix("%").strip()
        bound = _number(f"{self.metric}: the bound of its guardrail", text, field=self.at)
        return bound / 100 if text != self.bound.strip() else bound


#: The conditions of rules, in words, with the type of the column.
CONDITIONS: dict[str, tuple[str, Kind]] = {
    "yes": ("is yes", "yes or no"), "no": ("is no", "yes or no"),
    "=": ("is", "text"), "!=": ("is not", "text"), "in": ("is one of", "text"),
    ">=": ("is at least", "number"), "<=": ("is at most", "number"),
    "missing": ("is missing", "text"), "there": ("is not missing", "text"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TypedRule:
    """Who may get an action: `who` is its position, or "" for every action but the control."""

    place: str = ""
    who: str = ""
    column: str = ""
    condition: str = "yes"
    value: str = ""

    @property
    def text(self) -> str:
        """The rule, in the language of eligibility."""
        name = column_in_rule(self.column)
        if name is None:
            rule = "a column whose name has no backtick"
            raise InvalidArgumentError("the column of a rule", rule, self.column, field="rules")
        match self.condition:
            case "yes":
                return name
            case "no":
                return f"not {name}"
            case "missing":
                return f"{name} is missing"
            case "there":
                return f"{name} is not missing"
            case "in":
                return f"{name} in [{', '.join(_text(one) for one in self.value.split(','))}]"
            case "=" | "!=":
                return f"{name} {self.condition} {_text(self.value)}"
            case _:
                what = f"the value of the rule about {self.column}"
                return f"{name} {self.condition} {_number(what, self.value, field='rules'):g}"


def _text(value: str) -> str:
    value = value.strip()
    mark = '"' if "'" in value else "'"
    if mark in value or not value:
        rule = "a text without one of the two kinds of quotes"
        raise InvalidArgumentError("the value of a rule", rule, repr(value), field="rules")
    return f"{mark}{value}{mark}"


# ----------------------------------------------------------------------
# The form as a whole


@dataclass(frozen=True, kw_only=True)
class SpecForm:
    """The values of the form, as typed.

    Parameters
    ----------
    unit
        The columns that identify units; () for the proposed ones.
    columns
        The ticked columns; None for the proposed ones.
    kinds
        The chosen kinds of columns that differ from the proposed ones.
    control
        The position of the control among the actions.
    about, metrics
        The metric that the campaign is about, and further ones.
    value, less_costs, purpose, afterwards
        What one unit of the metric is worth, whether costs are subtracted, and when it counts.
    how
        The source of the waves' sizes: "equal", "sizes" or "plan".
    base_rate, smallest_lift, mean, spread, zeros
        What a plan must know about outcomes.
    """

    name: str = ""
    question: str = ""
    owner: str = ""
    unit: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    kinds: Mapping[str, Became] = field(default_factory=dict)
    actions: Sequence[TypedAction] = tuple(TypedAction(name) for name in ACTIONS)
    control: int = 0
    about: TypedMetric = TypedMetric()
    metrics: Sequence[TypedMetric] = ()
    rules: Sequence[TypedRule] = ()
    direction: str = "max"
    currency: str = ""
    value: str = ""
    less_costs: str = ""
    purpose: str = ""
    afterwards: str = ""
    budget: str = ""
    budget_wave: str = ""
    stopping: str = ""
    alpha: str = "5"
    futility: bool = False
    how: str = "equal"
    waves: str = "3"
    sizes: str = ""
    units: str = ""
    base_rate: str = ""
    smallest_lift: str = ""
    mean: str = ""
    spread: str = ""
    zeros: str = ""
    max_features: str = ""
    randomised: str = "10"
    floor: str = "1"
    required: str = "90"

    @property
    def action_rows(self) -> list[TypedAction]:
        """The rows of actions, and an empty one."""
        return [*self.actions, TypedAction()]

    @property
    def metric_rows(self) -> list[TypedMetric]:
        """The rows of further metrics, and an empty one."""
        rows = [*self.metrics, TypedMetric()]
        return [replace(row, place=f"-{number}") for number, row in enumerate(rows, start=1)]

    @property
    def rule_rows(self) -> list[TypedRule]:
        """The rows of rules, and an empty one."""
        rows = [*self.rules, TypedRule()]
        return [replace(row, place=f"-{number}") for number, row in enumerate(rows, start=1)]

    def choices(self) -> Choices:
        """Return the form's choices; refuse invalid numbers, with the field's name."""
        named = [action for action in self.actions if action.name]
        control = self.actions[self.control].name if self.control < len(self.actions) else ""
        if not control:
            raise InvalidArgumentError("control", "one of the actions", "a row without a name")
        about, sized = self.about, self.how == "sizes"
        return Choices(
            name=self.name,
            question=self.question or None,
            owner=self.owner or None,
            actions=[action.name for action in named],
            control=control,
            costs={
                action.name: _number(
                    f"actions: the cost of {action.name!r}", action.cost, field="actions"
                )
                for action in named
                if action.cost
            },
            capacity={action.name: limit for action in named if (limit := action.capacity)},
            metric=about.metric,
            kind=about.kind,
            unit_of_measure=about.measured or None,
            range=about.range,
            absent=about.missing,
            rows=about.rows or None,
            settings=about.settings,
            metrics={row.metric: row.table for row in self.metrics if row.metric},
            direction=self.direction,
            **self._money(),
            **self._rules([action.name for action in self.actions], control),
            stopping=self._stopping(),
            randomised=_number("randomised", self.randomised) / 100,
            floor=_number("floor", self.floor) / 100,
            required_outcomes=_number("required", self.required) / 100,
            waves=_whole("waves", self.waves) if not sized and self.waves else None,
            sizes=_sizes(self.sizes) if sized else None,
            units_in_all=_whole("units", self.units) if self.units else None,
            plan=self.how == "plan",
            **(self._scale() if self.how == "plan" else {}),
            unit=self.unit or None,
            columns=self.columns,
            kinds=self.kinds,
            max_features=_whole("max_features", self.max_features) if self.max_features else None,
        )

    def _scale(self) -> dict[str, Any]:
        """Return what the form says about outcomes for a plan."""
        known = ("base_rate", "smallest_lift", "mean", "spread", "zeros")
        said = {name: getattr(self, name) or None for name in known}
        # The form asks for zeros in percent.
        if self.zeros and not self.zeros.endswith("%"):
            said["zeros"] = f"{self.zeros}%"
        return said

    def _money(self) -> dict[str, Any]:
        """Return what the form says about money, and when the objective counts."""
        typed = {"total": self.budget, "each_wave": self.budget_wave}
        purpose: Any = self.purpose or "earn"
        if purpose == "both":
            purpose = {"after": _whole("units afterwards", self.afterwards, field="money")}
        return {
            "currency": self.currency or None,
            "value": _number("value", self.value) if self.value else None,
            "less_costs": {"yes": True, "no": False}.get(self.less_costs),
            "purpose": purpose,
            "budget": {name: _number("budget", text) for name, text in typed.items() if text},
        }

    def _rules(self, names: Sequence[str], control: str) -> dict[str, Any]:
        """Return the rules of actions, and the types of their columns."""
        rules: dict[str, list[str]] = {}
        kinds: dict[str, Kind] = {}
        for row in self.rules:
            if not row.column:
                continue
            whom = [names[int(row.who)]] if row.who else [one for one in names if one != control]
            for action in filter(None, whom):
                rules.setdefault(action, []).append(row.text)
            if row.condition not in ("missing", "there"):
                kinds.setdefault(row.column, CONDITIONS[row.condition][1])
        eligible = {action: " and ".join(every) for action, every in rules.items()}
        return {"eligible": eligible, "rule_columns": kinds}

    def _stopping(self) -> dict[str, Any]:
        if not self.stopping:
            return {}
        made: dict[str, Any] = {"rule": self.stopping, "alpha": _number("alpha", self.alpha) / 100}
        return made | ({"futility": True} if self.futility else {})


# ----------------------------------------------------------------------
# From a submitted form


def typed(form: Form) -> SpecForm:
    """Return the typed values of a submitted form."""
    cells = [form.every(name) for name in ("action", "cost", "each_wave", "total")]
    rows = zip_longest(*cells, fillvalue="")
    actions = [TypedAction(*(cell.strip() for cell in row)) for row in rows]
    control, who = form.text("control", "0"), [str(place) for place in range(len(actions))]
    used, kinds = _used(form)
    return SpecForm(
        unit=_names(form.text("unit")),
        columns=used,
        kinds=kinds,
        actions=_without_end(actions),
        control=int(control) if control.isdecimal() and len(control) < 4 else 0,
        about=_metric(form, ""),
        metrics=[row for row in _rows(form, "metric", _metric) if row.metric or row.recorded],
        rules=[row for row in _rows(form, "rule", lambda f, p: _rule(f, p, who)) if row.column],
        direction="min" if form.text("direction") == "min" else "max",
        futility=form.ticked("futility"),
        how=how if (how := form.text("how")) in ("sizes", "plan") else "equal",
        **{name: form.text(name) for name in _PLAIN},
    )


_PLAIN = (
    "name", "question", "owner", "currency", "value", "less_costs", "purpose", "afterwards",
    "budget", "budget_wave", "stopping", "alpha", "waves", "sizes", "units", "base_rate",
    "smallest_lift", "mean", "spread", "zeros", "max_features", "randomised", "floor", "required",
)  # fmt: skip


def _without_end(rows: list[TypedAction]) -> list[TypedAction]:
    """Return rows without the empty ones at the end; positions before it do not change."""
    while rows and not rows[-1].filled:
        rows.pop()
    return rows


def _rows(form: Form, name: str, row: Any) -> list[Any]:
    there = {key for key, _ in form.fields}
    places = [f"-{number}" for number in range(1, MOST_ROWS + 1)]
    return [row(form, place) for place in places if f"{name}{place}" in there]


def _metric(form: Form, place: str) -> TypedMetric:
    own = [name for name in TypedMetric.__dataclass_fields__ if name != "place"]
    made = {name: form.text(f"{name}{place}") for name in own}
    kind = made["kind"] if made["kind"] in SENSIBLE else YES_NO
    return TypedMetric(place=place, **{**made, "kind": kind})


def _rule(form: Form, place: str, actions: Sequence[str]) -> TypedRule:
    who, condition = form.text(f"who{place}"), form.text(f"condition{place}")
    names = _names(form.text(f"rule{place}"))
    return TypedRule(
        place=place,
        who=who if who in actions else "",
        column=names[0] if names else "",
        condition=condition if condition in CONDITIONS else "yes",
        value=form.text(f"value{place}"),
    )


def _used(form: Form) -> tuple[tuple[str, ...], dict[str, Became]]:
    """Return the ticked columns, and the kinds of those that have another than the proposed."""
    ticked = [_pair(text) for text in form.every("use")]
    used = {column for column, _ in ticked} | set(_names(form.text("beyond")))
    kinds = {column: kind for column, kind in ticked if kind}
    kinds |= {column: kind for column, kind in map(_pair, form.every("kind-of")) if kind}
    kinds = {c: kind for c, kind in kinds.items() if c in used and kind in get_args(Became)}
    off = [name for text in form.every("rule-column") for name in _names(text)]
    kinds |= {column: "left out" for column in off if column not in used}
    return tuple(sorted(used - {""})), kinds


#: What the address of the form may contain: the numbers of a plan.
PLANNED = ("sizes", "actions", "costs", "kind", "value", "currency", "randomised")


def planned(form: Form) -> SpecForm:
    """Return the initial form, with the numbers of a plan if the URL contains them."""
    made = SpecForm()
    if sizes := form.text("sizes")[:1_000]:
        made = replace(made, how="sizes", sizes=sizes.replace(",", ", "))
    if share := form.text("randomised")[:20]:
        made = replace(made, randomised=share.removesuffix(".0"))
    asked = form.text("actions")[:1_000]
    if asked.isdecimal() and len(asked) < 3 and 2 <= int(asked) <= 50:
        names = ["nothing", *(f"offer {chr(65 + place % 26)}" for place in range(int(asked) - 1))]
        made = replace(made, actions=[TypedAction(name) for name in dict.fromkeys(names)])
    elif len(names := asked.split(",")) > 1:
        costs = [cost if cost != "0" else "" for cost in form.text("costs")[:1_000].split(",")]
        rows = zip_longest(names[:MOST_ROWS], costs[: len(names)][:MOST_ROWS], fillvalue="")
        made = replace(made, actions=[TypedAction(*row) for row in rows])
        made = replace(made, less_costs="yes" if any(costs) else "")
    if (kind := form.text("kind")) in SENSIBLE:
        # A plan counts every customer: without a row, nothing was bought.
        made = replace(made, about=TypedMetric(kind=kind, absent="0"))
    return replace(made, value=form.text("value")[:20], currency=form.text("currency")[:20])


# ----------------------------------------------------------------------
# Errors by field


def problems_of(error: SeqbatchError, form: SpecForm) -> dict[str, str]:
    """Return the errors by field; the key "" is for errors without a field."""
    if isinstance(error, InvalidSpecError) and error.places:
        return dict(_at_field(place, said, form) for place, said in error.places)
    # Errors about a file name its columns, not fields of the form.
    name = "" if isinstance(error, InvalidFileError) else error.field
    known = (
        name if name.startswith(("metric-", "rules")) else FIELDS.get(name.partition(".")[0], "")
    )
    return {known: error.refusal.text(on_pages)}


def _at_field(place: Place, said: str, form: SpecForm) -> tuple[str, str]:
    if place[:1] == ("metrics",):
        further = {row.metric: row.at for row in form.metrics if row.metric != form.about.metric}
        return further.get(place[1] if len(place) > 1 else "", "metric"), said
    # The form asks for the metric that is maximised, and elsewhere for its value.
    named = place[:1]
    if place[1:2] in (("maximise",), ("minimise",)) and not form.about.metric:
        named = place[1:2]
    field = FIELDS.get(named[0], "") if named else ""
    return field, in_percent(said) if field in SHARES else said


# ----------------------------------------------------------------------
# Typed texts


def _names(text: str) -> tuple[str, ...]:
    found = _read(text)
    strings = isinstance(found, list) and all(isinstance(name, str) for name in found)
    return tuple(found) if strings else ()


def _pair(text: str) -> tuple[str, Any]:
    found = _read(text)
    good = isinstance(found, list) and len(found) == 2 and isinstance(found[0], str)
    return (found[0], found[1]) if good and isinstance(found[1], str | None) else ("", None)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _number(name: str, text: str, *, field: str = "") -> float:
    """Return a number; a decimal comma is one, but a comma before three digits is unclear.

    >>> _number("cost", "0,08"), _number("cost", "12.5")
    (0.08, 12.5)
    """
    try:
        return float(text if UNCLEAR.search(text) else text.replace(",", "."))
    except ValueError:
        rule = "a plain number such as 0.5"
        raise InvalidArgumentError(name, rule, repr(text[:40]), field=field) from None


def _whole(name: str, text: str, *, field: str = "") -> int:
    try:
        return int(ungrouped(text)[:20])
    except ValueError:
        rule = "a whole number"
        raise InvalidArgumentError(name, rule, repr(text[:40]), field=field) from None


def _sizes(text: str) -> list[int]:
    if unclear := UNCLEAR.search(text):
        rule = "numbers such as 1500, without commas and separated by spaces"
        raise InvalidArgumentError("sizes", rule, repr(unclear[0][:40]))
    parts: Iterable[str] = re.split(r"[;,\s]+", text.strip(" ,;"))
    return [_whole("sizes", part) for part in parts]
