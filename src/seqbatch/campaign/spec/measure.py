"""Measures: what a number is, in words: a metric or the objective, its unit and its direction."""

import re
from dataclasses import dataclass, replace
from math import floor, isfinite, log10
from typing import TYPE_CHECKING

from seqbatch.campaign.spec.metrics import AMOUNT, COUNT, YES_NO, Guardrail, Kind, Metric
from seqbatch.campaign.spec.objective import Reward
from seqbatch.campaign.spec.spec import Spec
from seqbatch.display import cell, percent
from seqbatch.display import number as short

if TYPE_CHECKING:
    from seqbatch.inference import Interval

#: Plurals of words for units. For any other word, such as "Kunden-Nr" or "company", the plural is
#: unknown, and the word may not be English.
NOUNS = (
    "account", "client", "customer", "device", "donor", "employee", "guest", "hospital",
    "household", "lead", "member", "merchant", "order", "participant", "patient", "person",
    "player", "pupil", "reader", "respondent", "school", "shop", "store", "student", "subject",
    "subscriber", "teacher", "user", "viewer", "village", "visitor", "voter", "worker",
)  # fmt: skip
#: The same for words for what is counted: any other name is shown as it is.
EVENTS = (
    "accident", "answer", "appointment", "booking", "bounce", "call", "cancellation", "claim",
    "click", "complaint", "contact", "contract", "conversion", "death", "donation", "download",
    "enrolment", "error", "event", "fall", "infection", "install", "item", "lead", "login", "open",
    "order", "payment", "purchase", "readmission", "redemption", "referral", "refund",
    "registration", "relapse", "renewal", "repurchase", "reservation", "response", "return", "sale",
    "session", "sign-up", "signup", "stroke", "subscription", "ticket", "transaction",
    "unsubscribe", "unsubscription", "upgrade", "view", "visit", "vote",
)  # fmt: skip
#: The names of an objective in money: after costs, if less is better, and before costs.
PROFIT, COST, VALUE = "profit", "cost", "value"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What a number is: a metric or the objective, its unit and direction, and the unit's word.

    Every text that shows a number takes its name from here.

    Parameters
    ----------
    name
        The metric's name; the objective's is "profit", "cost" or "value" if it is money that is
        computed.
    kind
        "yes/no", "count" or "amount"; a yes/no metric is shown per 100 units.
    unit
        Its unit of measure, or the noun of what is counted; None if not declared.
    direction
        "max" if more is better, "min" if less is better.
    of
        The word for one unit, such as "customer".
    details
        What it is computed from, and what limits it: "12.50 per purchase", "less costs".
    costs
        Whether the numbers include the costs of actions.
    cap
        The largest amount that counts; None if all count in full.

    Examples
    --------
    >>> made = {"direction": "max", "of": "customer"}
    >>> Measure(name="purchase", kind="yes/no", **made).head
    'purchases per 100 customers'
    >>> worth = ("12.50 per purchase", "less costs")
    >>> Measure(name="profit", kind="amount", unit="EUR", details=worth, costs=True, **made).head
    'profit in EUR per customer (12.50 per purchase, less costs)'
    """

    name: str
    kind: Kind
    direction: str
    of: str
    unit: str | None = None
    details: tuple[str, ...] = ()
    costs: bool = False
    cap: float | None = None

    @classmethod
    def of_metric(cls, spec: Spec, metric: Metric) -> "Measure":
        """Return the measure of a metric, before any costs."""
        return cls(
            name=metric.name,
            kind=metric.kind,
            unit=metric.unit,
            direction=metric.direction,
            of=unit_word(spec.unit),
            details=_capped(metric.cap),
            cap=metric.cap,
        )

    @classmethod
    def of_objective(cls, spec: Spec) -> "Measure":
        """Return the measure of the objective."""
        reward = spec.reward
        return cls(
            name=_objective(reward),
            kind=reward.terms[0].kind if reward.plain else AMOUNT,
            unit=reward.unit,
            direction=reward.direction,
            of=unit_word(spec.unit),
            details=(*_terms(reward), *_costs(reward), *_capped(reward.cap)),
            costs=reward.less_costs,
            cap=reward.cap,
        )

    @property
    def scale(self) -> float:
        """The factor by which numbers are multiplied for display."""
        return 100.0 if self.kind == YES_NO else 1.0

    @property
    def per(self) -> str:
        """The denominator of displayed numbers: "100 customers", or "customer"."""
        return f"100 {self.of}s" if self.kind == YES_NO else self.of

    @property
    def noun(self) -> str:
        """What is measured: "purchases", "revenue", "profit"."""
        if self.kind == AMOUNT:
            return self.name
        return self.unit or (f"{self.name}s" if self.name.lower() in EVENTS else self.name)

    @property
    def column(self) -> str:
        """The heading of a column of numbers."""
        unit = f" in {self.unit}" if self.kind == AMOUNT and self.unit else ""
        return f"{self.noun}{unit} per {self.per}"

    @property
    def head(self) -> str:
        """The full name of the numbers: the heading of a column, with what it is computed from."""
        return f"{self.column} ({', '.join(self.details)})" if self.details else self.column

    @property
    def wanted(self) -> str:
        """Which direction is better."""
        return "more is better" if self.direction == "max" else "less is better"

    def number(self, value: float, error: float, *, digits: int | None = None) -> str:
        """Return a number as text; see :func:`rounded`."""
        return rounded(value * self.scale, error * self.scale, digits=digits)

    def amount(self, value: float, error: float) -> str:
        """Return a difference in words: "6.8 more visits per 100 customers"; 0 only if it is 0."""
        return f"{self.end(abs(value), error)} {self._much(self.way(value))}"

    def _much(self, more: str) -> str:
        """Return the words after a number: "EUR more profit per customer"."""
        return f"{self._unit}{more} {self.noun} per {self.per}"

    @property
    def _unit(self) -> str:
        """The unit of measure of an amount, to stand between its number and its noun."""
        return f"{self.unit} " if self.kind == AMOUNT and self.unit else ""

    @property
    def each(self) -> str:
        """The words after a number whose noun is known: "per 100 customers", "EUR per customer"."""
        return f"{self._unit}per {self.per}"

    def between(self, interval: "Interval") -> str:
        """Return an interval in words, to follow an amount: "95% interval 5.1 to 8.5".

        The ends have no sign, like the amount before them. If 0 lies between them, words give the
        direction: "95% interval 1.2 fewer to 8.1 more".
        """
        side = -1 if interval.estimate < 0 else 1
        ends = sorted((side * interval.low, side * interval.high))
        if ends[0] >= 0:
            low, high = (self.end(abs(end), interval.error) for end in ends)
            return f"{percent(interval.level)} interval {low} to {high}"
        ends = [interval.low, interval.high]
        low, high = (f"{self.end(abs(end), interval.error)} {self.way(end)}" for end in ends)
        return f"{percent(interval.level)} interval {low} to {high}"

    def end(self, value: float, error: float) -> str:
        """Return an amount, or an end of an interval, as text; it is never rounded to 0."""
        texts = [self.number(value, error, digits=digits) for digits in (None, 2, 3, 4)]
        return next((text for text in texts if float(text.replace(",", ""))), texts[0])

    def signed(self, interval: "Interval", *, plus: bool = False, over: str = "") -> str:
        """Return a number and its interval with signs: "-1.6 (95% interval -3.0 to -0.1)".

        With `plus`, a positive number has its sign, too: it is a difference, `over` something.
        """
        one = self.number(interval.estimate, interval.error)
        low, high = (self.end(end, interval.error) for end in (interval.low, interval.high))
        sign = "+" if plus and interval.estimate > 0 else ""
        beside = f" over {over}" if over else ""
        return f"{sign}{one}{beside} ({percent(interval.level)} interval {low} to {high})"

    @property
    def in_all(self) -> "Measure":
        """The measure of a sum over units, which is never shown per 100 of them."""
        return replace(self, kind=COUNT) if self.kind == YES_NO else self

    def total(self, value: float, error: float) -> str:
        """Return a difference over several units: "12 EUR more profit", "30 fewer purchases"."""
        return f"{self.number(abs(value), error)} {self._unit}{self.way(value)} {self.noun}"

    def quantity(self, text: str) -> str:
        """Return an amount over several units: "12 EUR profit", "30 purchases"."""
        return f"{text} {self._unit}{self.noun}"

    def counted_as(self, value: float) -> str:
        """Return the outcome that a unit without a row counts as: "0 purchases", "0 EUR"."""
        if self.costs:
            return f"{cell(value)} {self._unit}before costs"
        return f"{cell(value)} {self.name}" if value == 1 else self.quantity(cell(value))

    def level_of(self, interval: "Interval") -> str:
        """Return a mean and its interval in words: "4.8 visits per 100 customers (95% ...)"."""
        one, _, around = self.signed(interval).partition(" ")
        return f"{one} {self._unit}{self.noun} per {self.per} {around}"

    def way(self, value: float) -> str:
        """Return the word for a difference of this sign: more, fewer or less."""
        return "more" if value >= 0 else "less" if self.kind == AMOUNT else "fewer"

    def cells(self, interval: "Interval") -> tuple[str, str, str]:
        """Return estimate, low and high for a table, with two digits of the error."""
        if not interval.known:
            return "", "", ""
        return tuple(  # type: ignore[return-value]
            self.number(value, interval.error, digits=2)
            for value in (interval.estimate, interval.low, interval.high)
        )

    def better(self, value: float) -> bool:
        """Whether a difference of this sign is an improvement."""
        return value > 0 if self.direction == "max" else value < 0

    def allowed(self, rail: Guardrail, control: str, *, brief: bool = False) -> str:
        """Return what a guardrail allows: "at most 0.5 more visits per 100 customers than none".

        With `brief`, leave out what is measured: it is to follow the heading.

        >>> left = Measure(name="left", kind="yes/no", direction="min", of="customer")
        >>> left.allowed(Guardrail(at_most=0.02), "none")
        'at most 2 left per 100 customers'
        >>> left.allowed(Guardrail(at_most_control_plus=0.005), "none")
        'at most 0.5 more left per 100 customers than none'
        >>> left.allowed(Guardrail(at_most_control_plus=0.005), "none", brief=True)
        'at most 0.5 more than none'
        """
        size = short(abs(rail.bound) * self.scale)
        what = "" if brief else f" {self.noun} per {self.per}"
        if not rail.relative:
            minus = "-" if rail.bound < 0 else ""
            side = "at most" if rail.upper else "at least"
            return f"{side} {minus}{size} {self._unit}".rstrip() + what
        if not rail.bound:
            return f"no {'more' if rail.upper else self.way(-1)}{what} than {control}"
        side = "at most" if (rail.bound > 0) == rail.upper else "at least"
        return f"{side} {size} {self._unit}{self.way(rail.bound)}{what} than {control}"


def objective_said(spec: Spec) -> list[str]:
    """Describe what a campaign maximises or minimises, and its guardrails."""
    measure, control = Measure.of_objective(spec), control_name(spec)
    return [
        f"Objective: {measure.head}; {measure.wanted}.",
        *(
            f"Guardrail: {Measure.of_metric(spec, metric).allowed(metric.guardrail, control)}."
            for metric in spec.metrics.values()
            if metric.guardrail is not None
        ),
    ]


def control_name(spec: Spec) -> str:
    """Return the control, or what actions are compared with if none was declared."""
    return spec.control or ("the control" if spec.masked else spec.actions[0].name)


def _objective(reward: Reward) -> str:
    """Return the objective's name: its metric's, or that of computed money."""
    if reward.less_costs:
        return PROFIT if reward.direction == "max" else COST
    return reward.label if reward.plain or reward.value is None else VALUE


def _terms(reward: Reward) -> tuple[str, ...]:
    """Say what an objective is computed from; nothing if it is one of the metrics."""
    if len(reward.terms) == 1 and reward.terms[0].kind != AMOUNT:
        [metric], [weight] = reward.terms, reward.weights
        return () if reward.plain and not reward.less_costs else (
            f"{_money(weight) if reward.money else f'{weight:g}'} per {metric.name}",
        )  # fmt: skip
    if reward.plain:
        return (reward.label,) if reward.less_costs else ()
    said = ""
    for metric, weight in zip(reward.terms, reward.weights, strict=True):
        sign = ("-" if weight < 0 else "") if not said else " - " if weight < 0 else " + "
        size = "" if abs(weight) == 1 else f"{abs(weight):g} x "
        said += f"{sign}{size}{metric.name}"
    return (said,)


def _costs(reward: Reward) -> tuple[str, ...]:
    if not reward.less_costs:
        return ()
    return ("less costs",) if reward.direction == "max" else ("plus costs of actions",)


def _capped(cap: float | None) -> tuple[str, ...]:
    return () if cap is None else (f"capped at {short(cap, 6)}",)


def _money(value: float) -> str:
    """Return an amount of money, with two decimals if it needs no more.

    >>> _money(12.5), _money(1_000.0), _money(0.125)
    ('12.50', '1,000.00', '0.125')
    """
    return f"{value:,.2f}" if round(value, 2) == value else f"{value:,.6g}"


def rounded(value: float, error: float, *, digits: int | None = None) -> str:
    """Return a number, rounded to the precision that its standard error supports.

    It keeps two significant digits of the error. With `digits=None` it keeps two if the error
    begins with 1, 2 or 3, and one otherwise.

    >>> rounded(6.8347, 0.87), rounded(6.8347, 0.87, digits=2), rounded(1234.5, 210)
    ('6.8', '6.83', '1,230')
    >>> rounded(-0.0001, 0.5), rounded(3.0, 0.0)
    ('0.0', '3')
    """
    if not isfinite(error) or error <= 0:
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    power = floor(log10(error))
    if digits is None:
        digits = 2 if error / 10**power < 3.55 else 1
    decimals = digits - 1 - power
    # Adding 0 turns -0.0 into 0.0.
    near = round(value, decimals) + 0.0
    return f"{near:,.{max(decimals, 0)}f}"


def unit_word(columns: tuple[str, ...]) -> str:
    """Return the word for one unit, derived from the name of its id column.

    >>> [unit_word((column,)) for column in ("customer", "Customer_ID", "id", "Kunden-Nr")]
    ['customer', 'customer', 'unit', 'unit']
    """
    word = re.sub(r"[\s_-]*(id|nr|no|number|key)$", "", columns[0].strip().lower())
    return word if len(columns) == 1 and word in NOUNS else "unit"
