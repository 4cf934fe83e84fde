"""The objective: what the campaign maximises, and the reward that follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import fsum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from seqbatch.campaign.spec.base import Name, Number, SettingError, SpecPart, Whole, waiting
from seqbatch.campaign.spec.input_limits import MOST_UNITS
from seqbatch.campaign.spec.metrics import AMOUNT, Metric

#: The name of a reward that is computed from metrics, not one of them.
REWARD = "reward"


def _weights(given: Any) -> Any:
    if isinstance(given, str) and given:
        return {given: 1.0}
    if given is not None and (not isinstance(given, Mapping) or not given or "" in given):
        raise ValueError(
            'must name a metric, as in "revenue", or several with their weights, as in '
            "{purchase = 12.50, revenue = 1}"
        )
    return given


#: `maximise = "revenue"` is the short form of `maximise = {revenue = 1}`.
Weights = Annotated[dict[Name, Number], BeforeValidator(_weights)]


class RollOut(SpecPart):
    """How many units will get the final rule after the last wave."""

    after: Annotated[Whole, Field(ge=1, le=MOST_UNITS)]


def _purpose(given: Any) -> Any:
    if given in ("earn", "choose") or isinstance(given, RollOut):
        return given
    if isinstance(given, Mapping):
        return RollOut.model_validate(given)
    raise ValueError(
        'must be "earn", "choose" or, with the number of units that get the final rule, '
        "{after = 100000}"
    )


Purpose = Annotated[Literal["earn", "choose"] | RollOut, BeforeValidator(_purpose)]


class Objective(SpecPart):
    """What the campaign maximises or minimises, and whether it counts now or afterwards.

    Parameters
    ----------
    maximise, minimise
        A metric, or several with the weight of each.
    purpose
        ``"earn"``: what the campaign's own units bring. ``"choose"``: only which one action is
        chosen for all units afterwards. ``{after = 100000}``: both, if so many units will get the
        final rule afterwards.
    value
        What one unit of the metric is worth, in the campaign's currency.
    less_costs
        Whether the actions' costs are subtracted: profit. The objective must be money then.
    """

    maximise: Weights | None = None
    minimise: Weights | None = None
    value: Annotated[Number, Field(gt=0)] | None = None
    less_costs: bool | None = None
    purpose: Purpose = "earn"

    @model_validator(mode="after")
    def _one(self) -> "Objective":
        if (self.maximise is None) == (self.minimise is None):
            raise SettingError(
                'must have either maximise = "NAME" or minimise = "NAME", where NAME is a metric',
                "maximise",
                "minimise",
            )
        if self.value is not None and len(self.weights) > 1:
            raise SettingError(
                "value says what one metric is worth; with several metrics, give each its "
                "weight, as in maximise = {purchase = 12.50, revenue = 1}",
                "value",
            )
        return self

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each metric."""
        weights = self.maximise if self.maximise is not None else self.minimise
        assert weights is not None
        return weights

    @property
    def roll_out(self) -> int:
        """The number of units that get the final rule afterwards, as far as they count."""
        return self.purpose.after if isinstance(self.purpose, RollOut) else 0

    @property
    def setting(self) -> str:
        """The name of the setting that names the metrics."""
        return "maximise" if self.maximise is not None else "minimise"

    @property
    def direction(self) -> str:
        """Return "max" or "min"."""
        return "max" if self.maximise is not None else "min"


@dataclass(frozen=True)
class Reward:
    """The number that the policy learns from: the objective, computed from metrics.

    Parameters
    ----------
    terms
        The metrics that it consists of.
    weights
        The weight of each, in the same order.
    direction
        "max" if more is better, "min" if less is better.
    unit
        Its unit of measure; None if not declared.
    money
        Whether it is an amount in the campaign's currency.
    value
        What one unit of its only metric is worth; None if that was not declared.
    less_costs
        Whether the actions' costs are subtracted.
    """

    terms: tuple[Metric, ...]
    weights: tuple[float, ...]
    direction: str
    unit: str | None
    money: bool
    value: float | None
    less_costs: bool

    @property
    def plain(self) -> bool:
        """Whether it is one of the metrics, as recorded."""
        return self.weights == (1.0,) and self.value is None

    @property
    def label(self) -> str:
        """Its name: its metric's, if it is one of them."""
        return self.terms[0].name if self.plain else REWARD

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the outcome file that it consists of."""
        return tuple(metric.column for metric in self.terms)

    @property
    def scale(self) -> float:
        """What one unit of its only metric is worth; 1 if it has several, or a negative weight.

        A purchase is a yes or no, whatever it is worth: inference counts it as such.
        """
        [*_, weight] = self.weights
        return weight if len(self.weights) == 1 and weight > 0 else 1.0

    @property
    def sign(self) -> float:
        """The factor for outcomes that makes more better: 1 or -1."""
        return 1.0 if self.direction == "max" else -1.0

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest number that it can be; None if a metric has no range."""
        ends = [metric.limits for metric in self.terms]
        if any(end is None for end in ends):
            return None
        pairs = [
            sorted((weight * end[0], weight * end[1]))
            for weight, end in zip(self.weights, ends, strict=True)
            if end is not None
        ]
        return fsum(low for low, _ in pairs), fsum(high for _, high in pairs)

    @property
    def cap(self) -> float | None:
        """The largest amount that counts; None if all count in full."""
        [*_, metric], weight = self.terms, self.weights[0]
        return None if len(self.terms) > 1 or metric.cap is None else weight * metric.cap

    @property
    def absent(self) -> float | None:
        """The value of a unit without a row; None unless every metric has one."""
        values = [metric.absent for metric in self.terms]
        if any(value is None for value in values):
            return None
        return fsum(w * v for w, v in zip(self.weights, values, strict=True) if v is not None)

    @property
    def after(self) -> str | None:
        """How long after its assignment a unit without a row counts as absent, as declared."""
        waits = [one for one in self.terms if one.absent is not None and one.wait is not None]
        longest = max(waits, key=lambda one: one.wait or timedelta(), default=None)
        return None if longest is None else longest.after or longest.within

    @property
    def wait(self) -> timedelta | None:
        """The same as a span of time."""
        return None if self.after is None else waiting(self.after)


def reward_of(objective: Objective, metrics: Mapping[str, Metric], currency: str | None) -> Reward:
    """Return the reward of an objective."""
    terms = tuple(metrics[name] for name in objective.weights)
    weights = tuple(objective.weights.values())
    units = {metric.unit for metric in terms}
    unit = units.pop() if len(units) == 1 else None
    amounts = all(metric.kind == AMOUNT for metric in terms)
    if objective.value is not None:
        weights, unit = (objective.value * weights[0],), currency
    money = currency is not None and unit == currency and (objective.value is not None or amounts)
    return Reward(
        terms=terms,
        weights=weights,
        direction=objective.direction,
        unit=unit,
        money=money,
        value=objective.value,
        less_costs=bool(objective.less_costs),
    )
