"""How the dates of a column are spelled: the formats that fit every one of them."""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.date_format import ISO, cell_pattern
from seqbatch.campaign.tables.dates import read_dates
from seqbatch.core.arrays import Floats

#: Values that are looked at first: most columns of text are told from dates by these.
FEW = 500
#: Ways to spell a day; where two differ by the order of day and month, the usual one is first.
DAYS = (
    "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%Y/%m/%d",
    "%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%Y.%m.%d", "%m.%d.%Y", "%d %b %Y",
    "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%d. %B %Y", "%d %b %y",
)  # fmt: skip
#: Ways to spell a time of day behind it.
TIMES = (
    "", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %H:%M:%S", "T%H:%M:%S",
    " %H:%M:%S %z", " %H:%M:%S.%f",
)  # fmt: skip
#: Names of columns in which eight digits are a date.
NAMED = re.compile(r"date|datum|day|since|seit|birth|geb|created|updated|_at$|_on$", re.IGNORECASE)
COMPACT = "%Y%m%d"
#: Years in which eight digits are a date.
YEARS = r"^(19|20)\d{6}$"


@dataclass(frozen=True)
class DateSpelling:
    """A way to read a column as dates.

    Parameters
    ----------
    format
        ``"iso"``, or a format of strptime.
    """

    format: str

    @property
    def day_first(self) -> bool | None:
        """Whether a day stands before its month; None where the format leaves no doubt."""
        if "%m" not in self.format or self.format.startswith("%Y"):
            return None
        return self.format.index("%d") < self.format.index("%m")

    def days(self, values: pa.Array) -> Floats:
        """Return the days of distinct values, counted from 1970."""
        days, _, _ = read_dates(values, form=self.format)
        counted: Floats = days.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.float64)
        return counted


def date_spellings(name: str, texts: pa.Array) -> tuple[DateSpelling, ...]:
    """Return the ways to read distinct texts as dates: two where day and month may be either.

    Examples
    --------
    >>> [way.format for way in date_spellings("seen", pa.array(["31.01.2024", "1.2.2024"]))]
    ['%d.%m.%Y']
    >>> [way.format for way in date_spellings("seen", pa.array(["01/02/2024", "03/04/2024"]))]
    ['%m/%d/%Y', '%d/%m/%Y']
    """
    formats = [ISO, *(day + time for day in DAYS for time in TIMES)]
    if NAMED.search(name) and _all(texts[:FEW], YEARS) and _all(texts, YEARS):
        formats.append(COMPACT)
    formats = [way for way in formats if re.search(cell_pattern(way), texts[0].as_py())]
    ways = [way for way in formats if _fits(texts[:FEW], way) and _fits(texts, way)]
    # May is the short name of a month and its full name.
    short = [way for way in ways if "%B" not in way]
    return tuple(DateSpelling(way) for way in short or ways)


def share_of_dates(texts: pa.Array) -> float:
    """Return the share of the first few distinct texts that look like dates of some format."""
    shapes = [cell_pattern(way) for way in (ISO, *(day + time for day in DAYS for time in TIMES))]
    fits = [any(re.search(shape, text) for shape in shapes) for text in texts[:FEW].to_pylist()]
    return float(np.mean(fits)) if fits else 0.0


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _fits(texts: pa.Array, way: str) -> bool:
    return not read_dates(texts, form=way)[2]
