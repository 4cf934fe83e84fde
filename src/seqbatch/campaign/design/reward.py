"""What comes back of a unit: the reward that is learned from, and metrics that are looked at."""

import re
from datetime import timedelta
from typing import Literal

from pydantic import Field, model_validator

from seqbatch.campaign.design.number_format import NumberExample
from seqbatch.campaign.design.parts import Name, Number, Part

#: What the reward is called where it is a sum of columns.
REWARD = "reward"
#: Units of time that a wait may be told in.
SPANS = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
#: Longer waits are mistakes, and times so far away could not be added up.
LONGEST_WAIT = timedelta(days=3_650)


class Measured(Part):
    """A number of the outcome file: what is better, what it may be, and how it is told."""

    direction: Literal["max", "min"] = "max"
    range: tuple[Number, Number] | None = None
    unit: Name | None = None
    format: NumberExample | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "Measured":
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError(f"range must be [low, high] with low below high, not {self.range}")
        return self


class Reward(Measured):
    """What is learned from: one column of the outcome file, or a weighted sum of several.

    Parameters
    ----------
    column, sum
        The column; or several, each with its weight.
    absent, after
        What a unit without a row counts as once its wave is closed, and how long after its
        assignment at the earliest.
    """

    column: Name | None = None
    sum: dict[Name, Number] | None = Field(default=None, min_length=1)
    absent: Number | None = None
    after: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "Reward":
        if (self.column is None) == (self.sum is None):
            raise ValueError(
                'exactly one of column = "..." and sum = {column = weight, ...} is needed'
            )
        if self.after is not None:
            if self.absent is None:
                raise ValueError("after says when absent = ... counts; declare that too")
            waiting(self.after)
        check_absent(self.absent, self.range)
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the outcome file that it is made of."""
        return tuple(self.sum) if self.sum is not None else (self.label,)

    @property
    def label(self) -> str:
        """What it is called in front of people."""
        return self.column if self.column is not None else REWARD

    @property
    def sign(self) -> float:
        """What an outcome is multiplied by, so that more is better."""
        return 1.0 if self.direction == "max" else -1.0


class Metric(Measured):
    """A column that is recorded, reported and checked, and never learned from.

    Parameters
    ----------
    column
        The column of the outcome file.
    guardrail
        The worst mean that an action may have: more is a violation where less is better, and less
        is one where more is.
    """

    column: Name
    guardrail: Number | None = None


def check_absent(absent: float | None, allowed: tuple[float, float] | None) -> None:
    """Refuse a value for absent units that a recorded one could not have."""
    if absent is not None and allowed is not None and not allowed[0] <= absent <= allowed[1]:
        raise ValueError(
            f"absent must be within range, {allowed[0]:g} to {allowed[1]:g}; received {absent:g}"
        )


def waiting(text: str) -> timedelta:
    """Return how long a wait is that is told in words.

    >>> waiting("14 days")
    datetime.timedelta(days=14)
    """
    found = re.fullmatch(r"(\d{1,6}) (minute|hour|day|week)s?", text.strip())
    wait = timedelta(seconds=int(found[1]) * SPANS[found[2]]) if found else LONGEST_WAIT * 2
    if wait > LONGEST_WAIT:
        raise ValueError(
            'after must be a time such as "36 hours", "14 days" or "2 weeks", at most '
            f"{LONGEST_WAIT.days:,} days; received {text!r}"
        )
    return wait
