"""Choices about a campaign that are made before it has a spec."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from seqbatch.campaign.spec.column_proposal import Became
from seqbatch.campaign.spec.eligibility import Kind
from seqbatch.campaign.spec.metrics import AMOUNT, YES_NO
from seqbatch.campaign.spec.spec import fresh_seed
from seqbatch.campaign.spec.toml import check_spec
from seqbatch.core import arguments
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning.campaign_terms import scale_of_amounts
from seqbatch.planning.outcome_scale import OutcomeScale
from seqbatch.planning.request import most_features

#: What a plan must know about an amount or a count.
AMOUNTS = ("mean", "spread", "zeros")
NAME, ACTIONS, METRIC = "my-campaign", ("nothing", "offer A", "offer B"), "outcome"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Choices about a campaign that are made before it has a spec.

    Parameters
    ----------
    name, question, owner, actions, control
        As in a spec; `control` defaults to the first action.
    metric
        The metric that the campaign is about, and its column.
    seed
        As in a spec; by default a fresh, unpredictable one.
    costs
        The cost of each action that has one.
    direction, range, kind, unit_of_measure, absent, rows
        Of this metric, as in a spec.
    settings
        Further settings of this metric, as in its table.
    metrics
        The tables of further metrics, by name.
    value, less_costs, purpose, currency
        What one unit of it is worth, whether costs are subtracted, and when it counts, as in a
        spec.
    eligible, rule_columns
        Rules of actions, besides those that columns of consent propose, and the type of the columns
        that they read.
    capacity, budget, stopping
        The tables of a spec.
    randomised, floor, required_outcomes
        As in a spec; by default the floor depends on the number of actions.
    waves
        The number of waves; by default 3, or the number that the plan recommends.
    sizes
        The waves' sizes; overrides `units_in_all` and `plan`.
    units_in_all
        The expected number of units; by default the rows of the file.
    plan
        Whether the planner chooses the sizes; otherwise the waves have equal sizes.
    base_rate, smallest_lift, mean, spread, zeros
        What a plan must know about outcomes; see :func:`seqbatch.planning.plan_campaign`. With a
        base rate, outcomes are yes or no; otherwise they are amounts unless `kind` says something
        else, and `spread` alone will do if there are few zeros.
    unit, kinds
        The columns that identify units, and the roles of other columns where they should differ
        from the proposed ones.
    columns
        The columns that may become features; by default all that can.
    max_features
        The largest number of features, counted as numbers of the model; by default as many as a
        plan can have if there is one, otherwise any number.
    today
        The campaign's start, needed if a feature is a date.
    """

    name: str = NAME
    question: str | None = None
    owner: str | None = None
    seed: int = field(default_factory=fresh_seed)
    actions: Sequence[str] = ACTIONS
    control: str | None = None
    metric: str = METRIC
    costs: Mapping[str, float] = field(default_factory=dict)
    direction: str = "max"
    range: tuple[float, float] | None = None
    kind: str | None = None
    unit_of_measure: str | None = None
    absent: float | None = None
    rows: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    value: float | None = None
    less_costs: bool | None = None
    purpose: str | Mapping[str, int] = "earn"
    currency: str | None = None
    eligible: Mapping[str, str] = field(default_factory=dict)
    rule_columns: Mapping[str, Kind] = field(default_factory=dict)
    capacity: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    budget: Mapping[str, float] = field(default_factory=dict)
    stopping: Mapping[str, Any] = field(default_factory=dict)
    randomised: float = 0.1
    floor: float | None = None
    required_outcomes: float = 0.9
    waves: int | None = None
    sizes: Sequence[int] | None = None
    units_in_all: int | None = None
    plan: bool = False
    base_rate: float | str | None = None
    smallest_lift: float | str | None = None
    mean: float | str | None = None
    spread: float | str | None = None
    zeros: float | str | None = None
    unit: Sequence[str] | None = None
    kinds: Mapping[str, Became] = field(default_factory=dict)
    columns: Sequence[str] | None = None
    max_features: int | None = None
    today: date | None = None

    def check(self) -> None:
        """Raise the errors that a spec would raise for these choices, before reading a file."""
        for name, given in (("waves", self.waves), ("units", self.units_in_all),
                            ("max_features", self.max_features)):  # fmt: skip
            if given is not None:
                arguments.integer(name, given, at_least=1)
        for name in ("base_rate", "smallest_lift", *AMOUNTS):
            if getattr(self, name) is not None and not self.plan:
                rule = "given only if the waves are planned"
                raise InvalidArgumentError(name, rule, getattr(self, name))
        if self.base_rate is not None and self.measured != YES_NO:
            rule = f'left out if kind is "{self.kind}": it is how often a yes/no outcome is yes'
            raise InvalidArgumentError("base_rate", rule, self.base_rate)
        if self.plan:
            _ = self.scale
        for name in AMOUNTS if self.measured == YES_NO else ():
            if getattr(self, name) is not None:
                rule = "left out for a yes/no outcome, which a base rate describes"
                raise InvalidArgumentError(name, rule, getattr(self, name))
        if self.metric in (self.unit or ()):
            raise InvalidArgumentError("metric", "another column than the unit's id", self.metric)
        tables = {
            name: getattr(self, name)
            for name in ("question", "owner", "capacity", "budget", "stopping")
            if getattr(self, name)
        }
        check_spec(
            {
                "name": self.name, "seed": self.seed, "actions": self.declared,
                "control": self.controlled, "randomised": self.randomised, "floor": self.least,
                "required_outcomes": self.required_outcomes,
                **self.about, **tables,
                "grid": {"sizes": list(self.sizes or [1] * (self.waves or 1))},
            },
            name="the spec to be written",
        )  # fmt: skip

    @property
    def measured(self) -> str:
        """The kind of the metric."""
        return self.kind or (AMOUNT if self.base_rate is None else YES_NO)

    @property
    def about(self) -> dict[str, Any]:
        """The metric and the objective, as in a spec."""
        metric = {
            "kind": self.measured, "unit": self.unit_of_measure, "range": self.range,
            "absent": self.absent, "rows": self.rows, **self.settings,
        }  # fmt: skip
        verb = "maximise" if self.direction == "max" else "minimise"
        objective = {
            verb: self.metric, "value": self.value, "less_costs": self.less_costs,
            "purpose": self.purpose,
        }  # fmt: skip
        metrics = {self.metric: _given(metric), **self.metrics}
        made = {"metrics": metrics, "objective": _given(objective)}
        return made if self.currency is None else {"currency": self.currency, **made}

    @property
    def scale(self) -> OutcomeScale:
        """What a plan must know about outcomes."""
        less = self.direction == "min"
        if self.base_rate is not None:
            return OutcomeScale.of(
                base_rate=self.base_rate, smallest_lift=self.smallest_lift, less=less
            )
        if self.spread is None:
            raise InvalidArgumentError(
                "base_rate", "given if the waves are planned", "neither a base rate nor a spread",
                "For a yes/no outcome, say how often it is yes without any action, as 4%, and the "
                "smallest lift that matters, as 0.5pp. For an amount or a count, say its spread "
                "(standard deviation); with many zeros, also their share (zeros), and the mean of "
                "the others.",
            )  # fmt: skip
        return scale_of_amounts(
            smallest_lift=self.smallest_lift, mean=self.mean, spread=self.spread, zeros=self.zeros,
            less=less,
        )  # fmt: skip

    @property
    def limit(self) -> int | None:
        """The largest number of features; None for any."""
        if self.max_features is None and self.plan:
            return most_features(len(self.actions))
        return self.max_features

    @property
    def controlled(self) -> str | None:
        """The action that the others are compared with."""
        return self.control or next(iter(self.actions), None)

    @property
    def declared(self) -> list[Any]:
        """The actions as in a spec: by name, with a cost if they have one."""
        return [
            {"name": name, "cost": cost} if (cost := self.costs.get(name)) else name
            for name in self.actions
        ]

    @property
    def least(self) -> float:
        """The least probability of each action."""
        return min(0.01, 0.5 / max(len(self.actions), 1)) if self.floor is None else self.floor


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the settings that have a value."""
    return {name: value for name, value in settings.items() if value is not None}
