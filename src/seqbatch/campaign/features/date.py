"""Date features: days before the campaign's start, weekdays and months."""

import calendar
import datetime
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.features.base import MISSING_LEVEL, Feature
from seqbatch.campaign.features.learned_scales import FrozenNumber
from seqbatch.campaign.features.numeric import ScaledNumber
from seqbatch.campaign.files.column_values import MISSING, Reason, missing_rows
from seqbatch.campaign.files.date_format import read_dates
from seqbatch.campaign.spec.features import DateRules
from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.kernels.texts import mark

#: The levels of parts that are categories, and the Arrow function that counts them, from where.
LEVELS = {"weekday": tuple(calendar.day_name), "month": tuple(calendar.month_name)[1:]}
COUNTED = {"weekday": (pc.day_of_week, 0), "month": (pc.month, 1)}


@dataclass(frozen=True)
class DateFeature(Feature):
    """A column of dates.

    Parameters
    ----------
    name
        The column.
    rules
        What the spec says of it.
    start
        The day from which days are counted back; None where they are not.
    learned
        What the first wave taught of the days; None before.
    """

    rules: DateRules
    start: datetime.date | None
    learned: FrozenNumber | None = None
    kept: ClassVar[pa.DataType] = pa.date32()

    @property
    def days(self) -> ScaledNumber:
        """What the model makes of the days."""
        return ScaledNumber(f"{self.name} days", self.rules, self.learned)

    def names_of(self, part: str) -> tuple[str, ...]:
        """Return the columns of the model that one part becomes."""
        if part == "days":
            return self.days.names
        levels = LEVELS[part] + (() if self.rules.missing == "refuse" else (MISSING_LEVEL,))
        return tuple(f"{self.name} {part}={level}" for level in levels)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        return tuple(name for part in self.rules.parts for name in self.names_of(part))

    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return the days, null where they are missing, and what is wrong with the rows."""
        dates, missing, wrong = read_dates(column, form=self.rules.format)
        if self.rules.missing == "refuse" and missing.any():
            advice = '; missing = "median" would accept it'
            wrong = wrong | missing_rows(missing, Reason(MISSING, advice))
        return dates, wrong

    def values(self, kept: Any) -> Floats:
        """Return the days before the start, NaN where the date is missing."""
        assert self.start is not None
        days = kept.cast(pa.int32()).cast(pa.float64()).to_numpy()
        since: Floats = (self.start - datetime.date(1970, 1, 1)).days - days
        return since

    def encode(self, kept: Any, out: Floats) -> None:
        """Write the model's columns into `out`, which is all 0."""
        place = 0
        for part in self.rules.parts:
            width = len(self.names_of(part))
            block = out[:, place : place + width]
            if part == "days":
                self.days.encode(self.values(kept), block)
            else:
                mark(block, _levels(kept, part))
            place += width

    def sizes(self, kept: Any) -> Floats:
        """Return how large the largest number of each row is to the model."""
        if "days" not in self.rules.parts:
            return np.ones(len(kept))
        return np.maximum(self.days.sizes(self.values(kept)), 1.0)

    def clipped(self, kept: Any) -> int:
        """Return how many days are moved to a bound."""
        return self.days.clipped(self.values(kept)) if "days" in self.rules.parts else 0

    def possible(self, rng: np.random.Generator, count: int) -> Floats:
        """Return random rows of the model's columns, such as units could have."""
        missing = rng.random(count) < 0.5 * (self.rules.missing != "refuse")
        blocks = []
        for part in self.rules.parts:
            if part == "days":
                blocks.append(self.days.possible(rng, missing))
                continue
            block = np.zeros((count, len(self.names_of(part))))
            last = len(LEVELS[part])
            mark(block, np.where(missing, last, rng.integers(0, last, size=count)))
            blocks.append(block)
        return np.concatenate(blocks, axis=1)


def _levels(kept: Any, part: str) -> Integers:
    """Return the place of each date among the levels of a part, the last for a missing one."""
    count, first = COUNTED[part]
    places = count(kept).fill_null(len(LEVELS[part]) + first)
    found: Integers = np.asarray(places).astype(np.int64) - first
    return found
