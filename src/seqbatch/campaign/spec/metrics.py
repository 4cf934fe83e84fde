"""Metrics: what is measured on a unit, how rows of a file become one number, and guardrails."""

from datetime import timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from seqbatch.campaign.files.date_format import DateFormat
from seqbatch.campaign.files.number_format import NumberExample
from seqbatch.campaign.spec.base import Name, Number, SettingError, SpecPart, waiting

Kind = Literal["yes/no", "count", "amount"]
YES_NO, COUNT, AMOUNT = get_args(Kind)
#: What several rows of one unit mean.
Combination = Literal["sum", "count", "any", "first", "last", "max"]
COMBINATIONS: tuple[Combination, ...] = get_args(Combination)
#: Which of them make sense for a kind of metric.
SENSIBLE: dict[str, tuple[Combination, ...]] = {
    YES_NO: ("any", "first", "last"),
    COUNT: ("sum", "count", "first", "last", "max"),
    AMOUNT: ("sum", "first", "last", "max"),
}


class Guardrail(SpecPart):
    """A bound on a metric's mean under every action, fixed or relative to the control's mean."""

    at_most: Number | None = None
    at_least: Number | None = None
    at_most_control_plus: Number | None = None
    at_least_control_minus: Number | None = None

    @model_validator(mode="before")
    @classmethod
    def _bounds(cls, given: Any) -> Any:
        if isinstance(given, int | float):
            raise ValueError(
                "must be a bound with its name, as in {at_most = 0.02} or {at_most_control_plus = "
                "0.005}"
            )
        return given

    @model_validator(mode="after")
    def _one(self) -> "Guardrail":
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise SettingError(
                "must have exactly one of at_most, at_least, at_most_control_plus and "
                f"at_least_control_minus; received {' and '.join(given) or 'none of them'}",
                *given,
            )
        return self

    @model_serializer(mode="wrap")
    def _declared(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        made: dict[str, Any] = write(self)
        return {name: value for name, value in made.items() if value is not None}

    @property
    def relative(self) -> bool:
        """Whether the bound is on the difference from the control's mean."""
        return self.at_most is None and self.at_least is None

    @property
    def upper(self) -> bool:
        """Whether the mean must not be above the bound."""
        return self.at_most is not None or self.at_most_control_plus is not None

    @property
    def bound(self) -> float:
        """The bound of the mean, or of the difference from the control's mean."""
        if self.at_least_control_minus is not None:
            return -self.at_least_control_minus
        fixed = self.at_most if self.at_most is not None else self.at_least
        given = fixed if fixed is not None else self.at_most_control_plus
        assert given is not None
        return given


class Metric(SpecPart):
    """A number that is measured on every unit.

    Parameters
    ----------
    name
        Its name, the key of its table.
    column
        Its column of the outcome file; by default its name.
    kind
        "yes/no", "count" or "amount".
    unit
        Its unit of measure, such as "EUR", or the noun of what is counted, such as "visits".
    direction
        "max" if more is better; by default "min" if a guardrail limits it from above.
    range
        The lowest and the highest number that is accepted.
    format
        A number as the file writes it, such as "1.234,56".
    absent, after
        The value of a unit without a row when its wave closes, and the minimum wait after its
        assignment, by default `within`.
    cap
        The largest amount that counts: larger ones count as this. A few huge amounts otherwise
        decide the result, and nothing shows how large the next one is.
    rows
        What several rows of one unit mean; None refuses them.
    row_id
        The column that identifies a row: a row delivered twice counts once.
    date, within
        The column with a row's date, and how long after the unit's assignment rows count.
    date_format
        How the file writes these dates, such as "%d.%m.%Y"; by default ISO, such as 2026-03-01.
    guardrail
        A bound that no action may exceed.
    """

    name: Name
    column: Name
    kind: Kind = "amount"
    unit: Name | None = None
    direction: Literal["max", "min"]
    range: tuple[Number, Number] | None = None
    format: NumberExample | None = None
    absent: Number | None = None
    after: str | None = None
    cap: Annotated[Number, Field(gt=0)] | None = None
    rows: Combination | None = None
    row_id: Name | None = None
    date: Name | None = None
    date_format: DateFormat | None = None
    within: str | None = None
    guardrail: Guardrail | None = None

    @model_validator(mode="before")
    @classmethod
    def _by_default(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        rail = given.get("guardrail")
        upper = isinstance(rail, dict) and ("at_most" in rail or "at_most_control_plus" in rail)
        return {"column": given.get("name"), "direction": "min" if upper else "max", **given}

    @model_serializer(mode="wrap")
    def _declared(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what was not declared: most metrics have few settings."""
        made: dict[str, Any] = write(self)
        return {name: value for name, value in made.items() if value is not None}

    @model_validator(mode="after")
    def _consistent(self) -> "Metric":
        self._check_numbers()
        self._check_rows()
        for name in ("after", "within"):
            if (text := getattr(self, name)) is not None:
                waiting(text, name)
        if self.after is not None and self.absent is None:
            raise SettingError(
                "after is how long to wait for a row until absent counts: declare absent too, as "
                "in absent = 0",
                "after",
            )
        if self.wait is not None and self.within is not None and self.wait < self.window:
            raise SettingError(
                f'after = "{self.after}" is shorter than within = "{self.within}": a unit would '
                "count as absent while a row of it may still come. Leave after out, or make it at "
                "least as long",
                "after",
            )
        return self

    def _check_numbers(self) -> None:
        if self.range is not None and not self.range[0] < self.range[1]:
            low, high = self.range
            raise SettingError(
                f"range must be [low, high] with low below high; received [{low:g}, {high:g}]",
                "range",
            )
        if self.kind == YES_NO:
            for name in ("range", "format", "cap"):
                if getattr(self, name) is not None:
                    raise SettingError(
                        f"{name} cannot be declared for a yes/no metric: leave it out, or declare "
                        'kind = "count" or "amount"',
                        name,
                    )
        check_absent(self.absent, self.limits, yes_no=self.kind == YES_NO)
        self._check_guardrail()
        if self.cap is not None and self.range is not None and not self.range[0] < self.cap:
            raise SettingError(
                f"cap must be above the lowest value of range, {self.range[0]:g}; received "
                f"{self.cap:g}",
                "cap",
                "range",
            )

    def _check_guardrail(self) -> None:
        """Refuse a bound on a share that every share keeps or breaks: 2 is meant as 2%."""
        if self.guardrail is None or self.kind != YES_NO:
            return
        (name, bound), *_ = self.guardrail.model_dump().items()
        least = -1 if self.guardrail.relative else 0
        if not least <= bound <= 1:
            raise SettingError(
                f"{name} is a share of units if the metric is yes/no, and must be between {least} "
                f"and 1; received {bound:g}. For 2%, write 0.02",
                ("guardrail", name),
            )

    def _check_rows(self) -> None:
        if self.rows is not None and self.rows not in SENSIBLE[self.kind]:
            *most, last = (f'"{one}"' for one in SENSIBLE[self.kind])
            known = f"{', '.join(most)} or {last}"
            raise SettingError(
                f'rows must be {known} if kind is "{self.kind}"; received "{self.rows}"',
                "rows",
            )
        if self.within is not None and self.date is None:
            raise SettingError(
                'within needs the column with the date of each row, as in date = "ordered_at"',
                "within",
            )
        if self.date_format is not None and self.date is None:
            raise SettingError(
                'date_format needs the column with the date of each row, as in date = "ordered_at"',
                "date_format",
            )
        if self.row_id == self.column and self.rows not in ("count", "any"):
            raise SettingError(
                f'column and row_id are both "{self.column}": the id of a row is not a number. '
                'Declare rows = "count" to count rows (or "any" for a yes/no metric), or another '
                "column",
                "row_id",
            )

    @property
    def limits(self) -> tuple[float, float] | None:
        """The lowest and the highest number that is accepted; None if every number is."""
        return (0.0, 1.0) if self.kind == YES_NO else self.range

    @property
    def window(self) -> timedelta:
        """How long after the unit's assignment rows count."""
        assert self.within is not None
        return waiting(self.within, "within")

    @property
    def wait(self) -> timedelta | None:
        """How long after its assignment a unit without a row counts as absent."""
        if self.after is not None:
            return waiting(self.after)
        return None if self.within is None else self.window

    @property
    def counts_rows(self) -> bool:
        """Whether a row counts by being there, whatever its cells hold."""
        return self.row_id == self.column or self.rows == "count"

    @property
    def logged(self) -> bool:
        """Whether the rows of files are logged, and its value combined from them."""
        return any((self.rows, self.row_id, self.date))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the outcome file that it is read from."""
        return tuple(dict.fromkeys(c for c in (self.column, self.row_id, self.date) if c))


def check_absent(
    absent: float | None, allowed: tuple[float, float] | None, *, yes_no: bool = False
) -> None:
    """Refuse a value for units without an outcome that lies outside the allowed range."""
    if absent is not None and allowed is not None and not allowed[0] <= absent <= allowed[1]:
        raise SettingError(
            f"absent must be between {allowed[0]:g} and {allowed[1]:g}; received {absent:g}",
            "absent",
        )
    if yes_no and absent not in (None, 0, 1):
        raise SettingError(
            f"absent must be 0 (no) or 1 (yes) for a yes/no metric; received {absent:g}", "absent"
        )
