"""Parts of a spec: reward, metrics, capacities and budget."""

import re
from collections import Counter
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from seqbatch.campaign.files.number_format import NumberExample
from seqbatch.campaign.spec.input_limits import LARGEST_NUMBER, MOST_UNITS
from seqbatch.errors import Place

# ----------------------------------------------------------------------
# The base of all parts of a spec.


Name = Annotated[str, Field(min_length=1, max_length=200)]


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


#: Python treats True as a number, but in place of a number it is a mistake.
Whole = Annotated[int, BeforeValidator(_no_boolean)]
Number = Annotated[
    float, BeforeValidator(_no_boolean), Field(gt=-LARGEST_NUMBER, lt=LARGEST_NUMBER)
]
Share = Annotated[Number, Field(ge=0, le=1)]


class SpecPart(BaseModel):
    """The base of all parts of a spec: unknown keys are refused, and values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SettingError(ValueError):
    """Settings of a spec that break a rule only in combination.

    Parameters
    ----------
    said
        The rule, and how it is broken.
    settings
        The settings within the checked part, most relevant first; those of another table by
        their full path.
    """

    def __init__(self, said: str, *settings: str | Place) -> None:
        super().__init__(said)
        self.places: tuple[Place, ...] = tuple(
            (each,) if isinstance(each, str) else each for each in settings
        )


def distinct(values: tuple[str, ...], what: str, *settings: str | Place) -> tuple[str, ...]:
    """Return values that must be distinct; refuse duplicates.

    Parameters
    ----------
    values, what
        The values, and their name in messages.
    settings
        The settings that hold them, if the checked part has several.
    """
    repeated = sorted(value for value, count in Counter(values).items() if count > 1)
    if repeated:
        said = f"{what} must all be different; repeated: {', '.join(repeated[:20])}"
        raise SettingError(said, *settings)
    return values


# ----------------------------------------------------------------------
# Outcomes of a unit: the reward, which is learned from, and metrics, which are only reported.


#: The name of a reward that is a sum of columns.
REWARD = "reward"
#: Units of time for a wait, in seconds.
SPANS = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
#: Longer waits are mistakes, and adding them to a time could overflow.
LONGEST_WAIT = timedelta(days=3_650)


class Measured(SpecPart):
    """A number in the outcome file: its better direction, its range and its format."""

    direction: Literal["max", "min"] = "max"
    range: tuple[Number, Number] | None = None
    unit: Name | None = None
    format: NumberExample | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "Measured":
        if self.range is not None and not self.range[0] < self.range[1]:
            raise SettingError(
                f"range must be [low, high] with low below high, not {self.range}", "range"
            )
        return self


class Reward(Measured):
    """The reward: one column of the outcome file, or a weighted sum of several.

    Parameters
    ----------
    column, sum
        The column; or several columns, each with its weight.
    absent, after
        The value for a unit without an outcome when its wave closes, and the minimum wait after
        its assignment.
    cap
        The largest amount that counts: larger ones count as this. A few huge amounts otherwise
        decide the result, and nothing shows how large the next one is.
    """

    column: Name | None = None
    sum: dict[Name, Number] | None = Field(default=None, min_length=1)
    absent: Number | None = None
    after: str | None = None
    cap: Annotated[Number, Field(gt=0)] | None = None

    @model_serializer(mode="wrap")
    def _recorded(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a cap that is not declared: earlier versions had no such setting."""
        made: dict[str, Any] = write(self)
        return {name: value for name, value in made.items() if name != "cap" or value is not None}

    @model_validator(mode="after")
    def _consistent(self) -> "Reward":
        if (self.column is None) == (self.sum is None):
            raise SettingError(
                'exactly one of column = "..." and sum = {column = weight, ...} is needed',
                "column",
                "sum",
            )
        if self.after is not None:
            if self.absent is None:
                raise SettingError(
                    "after is the time until absent = ... counts; declare absent too", "after"
                )
            waiting(self.after)
        check_absent(self.absent, self.range)
        if self.cap is not None and self.range is not None and not self.range[0] < self.cap:
            raise SettingError(
                f"cap must be above the lowest value of range, {self.range[0]:g}, not {self.cap:g}",
                "cap",
                "range",
            )
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the outcome file that the reward consists of."""
        return tuple(self.sum) if self.sum is not None else (self.label,)

    @property
    def label(self) -> str:
        """The name of the reward for people."""
        return self.column if self.column is not None else REWARD

    @property
    def sign(self) -> float:
        """The factor for outcomes that makes more better: 1 or -1."""
        return 1.0 if self.direction == "max" else -1.0


class Metric(Measured):
    """A column that is recorded, reported and checked, but never learned from.

    Parameters
    ----------
    column
        The column of the outcome file.
    guardrail
        The worst mean that an action may have. If less is better, a higher mean is a violation;
        if more is better, a lower mean is one.
    """

    column: Name
    guardrail: Number | None = None


def check_absent(absent: float | None, allowed: tuple[float, float] | None) -> None:
    """Refuse a value for units without an outcome that lies outside the allowed range."""
    if absent is not None and allowed is not None and not allowed[0] <= absent <= allowed[1]:
        raise SettingError(
            f"absent must be within range, {allowed[0]:g} to {allowed[1]:g}; received {absent:g}",
            "absent",
        )


def waiting(text: str) -> timedelta:
    """Parse a wait.

    >>> waiting("14 days")
    datetime.timedelta(days=14)
    """
    found = re.fullmatch(r"(\d{1,6}) (minute|hour|day|week)s?", text.strip())
    wait = timedelta(seconds=int(found[1]) * SPANS[found[2]]) if found else LONGEST_WAIT * 2
    if wait > LONGEST_WAIT:
        raise SettingError(
            'after must be a time such as "36 hours", "14 days" or "2 weeks", at most '
            f"{LONGEST_WAIT.days:,} days; received {text!r}",
            "after",
        )
    return wait


# ----------------------------------------------------------------------
# Capacities and the budget: how many units may or must get an action, and the total cost.


Count = Annotated[Whole, Field(ge=0, le=MOST_UNITS)]


class Capacity(SpecPart):
    """The most units that may get an action, per wave and in total, and the fewest per wave."""

    each_wave: Count | None = None
    total: Count | None = None
    at_least: Count = 0

    @model_validator(mode="after")
    def _meaningful(self) -> "Capacity":
        if self.each_wave is None and self.total is None and not self.at_least:
            raise ValueError("at least one of each_wave, total and at_least is needed")
        for name in ("each_wave", "total"):
            most = getattr(self, name)
            if most is not None and self.at_least > most:
                raise SettingError(
                    f"at_least = {self.at_least:,} is more than {name} = {most:,}", "at_least"
                )
        return self


class Budget(SpecPart):
    """The limit on the sum of the actions' declared costs, per wave and in total."""

    each_wave: Number | None = Field(default=None, ge=0)
    total: Number | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _meaningful(self) -> "Budget":
        if self.each_wave is None and self.total is None:
            raise ValueError("each_wave or total is needed")
        return self


def _short(value: Any) -> Any:
    return {"each_wave": value} if isinstance(value, int) and not isinstance(value, bool) else value


#: `call = 500` is the short form of `call = {each_wave = 500}`.
AnyCapacity = Annotated[Capacity, BeforeValidator(_short)]
