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
from seqbatch.core import kernels
from seqbatch.core.arrays import Floats, Integers

#: The levels of the parts that are categories; then Arrow's functions for them, with first values.
LEVELS = {"weekday": tuple(calendar.day_name), "month": tuple(calendar.month_name)[1:]}
COUNTED = {"weekday": (pc.day_of_week, 0), "month": (pc.month, 1)}


@dataclass(frozen=True)
class DateFeature(Feature):
    """A column of dates.

    Parameters
    ----------
    name
        The column's name.
    rules
        The date's rules in the spec.
    start
        The day from which days are counted back; None if days are not used.
    learned
        What was learned about the days from the first wave; None before that.
    """

    rules: DateRules
    start: datetime.date | None
    learned: FrozenNumber | None = None
    kept: ClassVar[pa.DataType] = pa.date32()

    @property
    def days(self) -> ScaledNumber:
        """The days before the start as a scaled number."""
        return ScaledNumber(f"{self.name} days", self.rules, self.learned)

    def names_of(self, part: str) -> tuple[str, ...]:
        """Return the model's columns for one part."""
        if part == "days":
            return self.days.names
        levels = LEVELS[part] + (() if self.rules.missing == "refuse" else (MISSING_LEVEL,))
        return tuple(f"{self.name} {part}={level}" for level in levels)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        return tuple(name for part in self.rules.parts for name in self.names_of(part))

    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return the days, null if missing, and the problems of the rows."""
        dates, missing, wrong = read_dates(column, form=self.rules.format)
        if self.rules.missing_values:
            gone = pc.is_in(dates, pa.array(self.rules.missing_values, type=pa.date32()))
            dates = pc.if_else(gone, None, dates)
            missing = missing | np.asarray(gone)
        if self.rules.missing == "refuse" and missing.any():
            advice = '; missing = "median" would accept it'
            wrong = wrong | missing_rows(missing, Reason(MISSING, advice, MISSING.code))
        return dates, wrong

    def values(self, kept: Any) -> Floats:
        """Return the days before the start, NaN if the date is missing."""
        assert self.start is not None
        days = kept.cast(pa.int32()).cast(pa.float64()).to_numpy()
        since: Floats = (self.start - datetime.date(1970, 1, 1)).days - days
        return since

    def encode(self, kept: Any, out: Floats) -> None:
        """Write the model's columns into `out`, which contains only zeros."""
        place = 0
        for part in self.rules.parts:
            width = len(self.names_of(part))
            block = out[:, place : place + width]
            if part == "days":
                self.days.encode(self.values(kept), block)
            else:
                kernels.texts.mark(block, _levels(kept, part))
            place += width

    def sizes(self, kept: Any) -> Floats:
        """Return the largest absolute number of each row, as the model sees it."""
        if "days" not in self.rules.parts:
            return np.ones(len(kept))
        return np.maximum(self.days.sizes(self.values(kept)), 1.0)

    def clipped(self, kept: Any) -> int:
        """Return the number of days that are clipped to a bound."""
        return self.days.clipped(self.values(kept)) if "days" in self.rules.parts else 0

    def possible(self, rng: np.random.Generator, count: int) -> Floats:
        """Return random rows of the model's columns that units could have."""
        missing = rng.random(count) < 0.5 * (self.rules.missing != "refuse")
        blocks = []
        for part in self.rules.parts:
            if part == "days":
                blocks.append(self.days.possible(rng, missing))
                continue
            block = np.zeros((count, len(self.names_of(part))))
            last = len(LEVELS[part])
            kernels.texts.mark(block, np.where(missing, last, rng.integers(0, last, size=count)))
            blocks.append(block)
        return np.concatenate(blocks, axis=1)


def _levels(kept: Any, part: str) -> Integers:
    """Return the index of each date among the levels of a part; the last one means missing."""
    count, first = COUNTED[part]
    places = count(kept).fill_null(len(LEVELS[part]) + first)
    found: Integers = np.asarray(places).astype(np.int64) - first
    return found
