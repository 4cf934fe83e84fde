"""Declare features in a spec: how a unit's columns become the numbers of the model.

Rules that need data (a scaling, a quantile, which levels are rare) learn it from the first wave and
keep it. Until that wave closes such a feature is 0: the first wave is assigned at random, and
nothing depends on it.
"""

import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    field_validator,
    model_serializer,
    model_validator,
)

from seqbatch.campaign.files.date_format import DateFormat
from seqbatch.campaign.files.number_format import NumberExample
from seqbatch.campaign.spec.base import (
    Name,
    Number,
    SettingError,
    Share,
    SpecPart,
    Whole,
    distinct,
)
from seqbatch.campaign.spec.input_limits import LARGEST_NUMBER, LONGEST_CELL, MOST_LEVELS

#: How many values of a column may stand for a missing one.
MOST_STAND_INS = 20
#: The first-wave quantiles to which numbers are clipped by default.
QUANTILES = (0.001, 0.999)
Pair = tuple[Number, Number]


class Scaling(SpecPart):
    """Subtract `mean` and divide by `sd`, fixed at creation."""

    mean: Number
    sd: Number = Field(gt=0)


def _scale(value: Any) -> Any:
    if isinstance(value, dict | Scaling) or value in ("learn", "raw"):
        return value
    raise ValueError(
        "must be 'learn' or 'raw' or {mean = ..., sd = ...}; or several rules as {scale = "
        f"..., missing = ..., clip = ..., format = ...}}; received {value!r}"
    )


def _missing(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value in ("refuse", "mean", "median") or (number and abs(value) < LARGEST_NUMBER):
        return value
    raise ValueError(
        "must be 'refuse', 'mean', 'median' or a number to use for missing values; received "
        f"{value!r}"
    )


def _clip(value: Any) -> Any:
    if value is None or value is False or isinstance(value, list | tuple):
        return value
    raise ValueError(
        "must be two quantiles of the first wave, such as [0.001, 0.999], or false; "
        f"received {value!r}"
    )


class NumberRules(SpecPart):
    """Rules for missing values and outliers, shared by numbers and dates.

    Parameters
    ----------
    missing
        Refuse rows without a value, or fill in the first wave's mean or median, or a number.
    indicator
        If more than this share of the first wave is missing, a column indicates missing rows.
    clip
        First-wave quantiles to which later values are clipped; None: the default quantiles if the
        scaling is learned; False: no clipping.
    range
        Bounds to which values are clipped, instead of quantiles.
    """

    missing: Annotated[str | float, BeforeValidator(_missing)] = "refuse"
    indicator: Share = 0.05
    clip: Annotated[Literal[False] | tuple[Share, Share] | None, BeforeValidator(_clip)] = None
    range: Pair | None = None

    @model_serializer(mode="wrap")
    def _recorded(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out missing values that are not declared: earlier versions had no such setting."""
        made: dict[str, Any] = write(self)
        return {name: value for name, value in made.items() if name != "missing_values" or value}

    @model_validator(mode="after")
    def _ordered(self) -> "NumberRules":
        for name, pair in (("clip", self.clip), ("range", self.range)):
            if pair and not pair[0] < pair[1]:
                raise SettingError(
                    f"{name} must be [low, high] with low below high, not {pair}", name
                )
        if self.clip and self.range:
            raise SettingError(
                "clip and range are two ways to bound a number; declare one of them",
                "clip",
                "range",
            )
        return self

    @property
    def learned_scale(self) -> bool:
        """Whether the scaling is learned; that of days always is."""
        return True

    @property
    def quantiles(self) -> Pair | None:
        """The first-wave quantiles that bound the number, or None."""
        if self.clip is None:
            return QUANTILES if self.learned_scale and self.range is None else None
        return self.clip or None

    @property
    def indicates(self) -> bool:
        """Whether the first wave may add an indicator column for missing values."""
        return self.missing != "refuse" and self.indicator < 1

    @property
    def learns(self) -> bool:
        """Whether anything is learned from the first wave."""
        fills = self.missing in ("mean", "median")
        return self.learned_scale or fills or self.indicates or self.quantiles is not None


class NumericRules(NumberRules):
    """The rules of a number.

    Parameters
    ----------
    scale
        ``"learn"``: by the first wave's mean and standard deviation. ``"raw"``: unscaled.
    format
        An example of its format in text; None for plain numbers.
    missing_values
        Numbers that stand for a missing value, such as 999.
    missing, indicator, clip, range
        See :class:`NumberRules`.
    """

    scale: Annotated[
        Annotated[Literal["learn", "raw"], Tag("form: word")]
        | Annotated[Scaling, Tag("form: scaling")],
        Discriminator(lambda v: "form: word" if isinstance(v, str) else "form: scaling"),
        BeforeValidator(_scale),
    ] = "learn"
    format: NumberExample | None = None
    missing_values: tuple[Number, ...] = Field(default=(), max_length=MOST_STAND_INS)

    @property
    def learned_scale(self) -> bool:
        """Whether the scaling is learned."""
        return self.scale == "learn"


class DateRules(NumberRules):
    """The rules of a date.

    Parameters
    ----------
    format
        Its format in text: ``"iso"``, or a strptime format.
    parts
        What the model uses: the days before the campaign's start, a number whose scaling is
        learned; the weekday; the month.
    missing_values
        Dates that stand for a missing value, such as 1900-01-01.
    missing, indicator, clip, range
        See :class:`NumberRules`, for the days.
    """

    format: DateFormat = "iso"
    parts: tuple[Literal["days", "weekday", "month"], ...] = Field(default=("days",), min_length=1)
    missing_values: tuple[datetime.date, ...] = Field(default=(), max_length=MOST_STAND_INS)

    @field_validator("parts")
    @classmethod
    def _each_once(cls, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return distinct(parts, "parts")

    @property
    def learns(self) -> bool:
        """Whether anything is learned from the first wave."""
        return "days" in self.parts


class Levels(SpecPart):
    """A category, with an indicator for each level.

    Parameters
    ----------
    levels
        The level texts.
    least
        A level with fewer units in the first wave counts as `other`.
    other
        Whether an undeclared level counts as `other` instead of being refused; None: as in
        `on_unseen_category`.
    missing
        Whether a missing value is refused or counts as a separate level.
    """

    levels: tuple[Annotated[str, Field(max_length=LONGEST_CELL)], ...] = Field(
        min_length=1, max_length=MOST_LEVELS
    )
    least: Whole = Field(default=0, ge=0)
    other: bool | None = None
    missing: Literal["refuse", "level"] = "refuse"

    @field_validator("levels")
    @classmethod
    def _each_once(cls, levels: tuple[str, ...]) -> tuple[str, ...]:
        return distinct(levels, "levels")

    @property
    def learns(self) -> bool:
        """Whether anything is learned from the first wave."""
        return self.least > 0


class Hashed(SpecPart):
    """A category with many levels, which are hashed into `hash` cells."""

    hash: Whole = Field(ge=1, le=4096)
    by: Literal["blake2", "md5"] = "blake2"
    missing: Literal["refuse", "level"] = "refuse"

    @property
    def learns(self) -> bool:
        """Whether anything is learned from the first wave: never."""
        return False


def _numeric(value: Any) -> Any:
    if isinstance(value, NumericRules):
        return value
    if isinstance(value, dict) and not {"mean", "sd"} & value.keys():
        return value
    return {"scale": _scale(value)}


def _date(value: Any) -> Any:
    if isinstance(value, str):
        return {"format": value}
    if isinstance(value, dict | DateRules):
        return value
    raise ValueError(
        'must be a format such as "iso" or "%d.%m.%Y", or {format = ..., parts = '
        f'["days", "weekday", "month"], missing = ...}}; received {value!r}'
    )


def _boolean(value: Any) -> Any:
    if isinstance(value, bool) or value in ("refuse", "level"):
        return value
    raise ValueError(
        "must say what to do with a missing value: 'refuse', 'level', true or false; "
        f"received {value!r}"
    )


def _levels(value: Any) -> Any:
    return {"levels": value} if isinstance(value, list | tuple) else value


def _categorical_form(value: Any) -> str | None:
    if isinstance(value, Hashed) or (isinstance(value, dict) and "hash" in value):
        return "form: hashed"
    return "form: levels" if isinstance(value, dict | list | tuple | Levels) else None


Numeric = Annotated[NumericRules, BeforeValidator(_numeric)]
Date = Annotated[DateRules, BeforeValidator(_date)]
#: How to treat a missing boolean: refuse it, give it a separate column, or read it as yes or no.
Boolean = Annotated[bool | Literal["refuse", "level"], BeforeValidator(_boolean)]
Categorical = Annotated[
    Annotated[Levels, BeforeValidator(_levels), Tag("form: levels")]
    | Annotated[Hashed, Tag("form: hashed")],
    Discriminator(
        _categorical_form,
        custom_error_type="form",
        custom_error_message="must be a list of levels, or {hash = 16}",
    ),
]


class Features(SpecPart):
    """How a unit's columns become the numbers of the model."""

    intercept: bool = True
    numeric: dict[Name, Numeric] = Field(default={})
    date: dict[Name, Date] = Field(default={})
    boolean: dict[Name, Boolean] = Field(default={})
    categorical: dict[Name, Categorical] = Field(default={})
    interactions: tuple[tuple[Name, Name], ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "Features":
        known = self.columns
        kinds = ("numeric", "date", "boolean", "categorical")
        distinct(known, "columns of features.numeric, date, boolean and categorical", *kinds)
        for pair in self.interactions:
            for name in pair:
                if name not in known:
                    raise SettingError(
                        f"interactions must be between declared features; received {name!r}",
                        "interactions",
                    )
        if not (self.intercept or known):
            raise ValueError("at least an intercept or one feature is needed")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read from a file of units."""
        return (*self.numeric, *self.date, *self.boolean, *self.categorical)

    @property
    def learning(self) -> tuple[str, ...]:
        """The columns whose features learn from the first wave."""
        rules = {**self.numeric, **self.date, **self.categorical}
        return tuple(name for name, rule in rules.items() if rule.learns)
