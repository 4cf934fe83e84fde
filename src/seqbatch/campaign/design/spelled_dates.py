"""How the dates of a column are spelled: the formats that fit every one of them."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

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
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", "T%H:%M:%S")
#: What the parts of a format look like in a cell.
PARTS = {
    "%d": r"\d{1,2}", "%m": r"\d{1,2}", "%Y": r"\d{4}", "%y": r"\d{2}", "%b": "[A-Za-z]{3}",
    "%B": "[A-Za-z]{3,9}", "%H": r"\d{1,2}", "%I": r"\d{1,2}", "%M": r"\d{2}", "%S": r"\d{2}",
    "%p": "[AaPp][Mm]",
}  # fmt: skip
ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$"
#: Names of columns in which eight digits are a date.
NAMED = re.compile(r"date|datum|day|since|seit|birth|geb|created|updated|_at$|_on$", re.IGNORECASE)
COMPACT = "%Y%m%d"


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
        """Whether a day stands before its month; None where the format has month names or ISO."""
        if "%m" not in self.format or self.format.startswith("%Y"):
            return None
        return self.format.index("%d") < self.format.index("%m")

    def days(self, values: pa.Array) -> Floats:
        """Return the days of distinct values, counted from 1970."""
        if pa.types.is_string(values.type):
            text = pl.Series(pc.utf8_trim_whitespace(values))
            if self.format == "iso":
                found = text.str.slice(0, 10).str.to_date("%Y-%m-%d")
            else:
                found = _parsed(text, self.format).cast(pl.Date)
        else:
            found = pl.Series(values).cast(pl.Date)
        return found.cast(pl.Int32).to_numpy().astype(np.float64)


def date_spellings(name: str, texts: pa.Array) -> tuple[DateSpelling, ...]:
    """Return the ways to read distinct texts as dates: two where day and month may be either.

    Examples
    --------
    >>> [way.format for way in date_spellings("seen", pa.array(["31.01.2024", "1.2.2024"]))]
    ['%d.%m.%Y']
    >>> [way.format for way in date_spellings("seen", pa.array(["01/02/2024", "03/04/2024"]))]
    ['%m/%d/%Y', '%d/%m/%Y']
    """
    text = pl.Series(texts)
    few = text.head(FEW)
    if few.str.contains(ISO).all():
        return (DateSpelling("iso"),) if _is_iso(text) else ()
    formats = [day + time for day in DAYS for time in TIMES]
    if NAMED.search(name):
        formats.append(COMPACT)
    formats = [way for way in formats if re.match(_shape(way), text[0])]
    ways = [way for way in formats if _fits(few, way) and _fits(text, way)]
    # Three letters are a short name of a month and, in May, its full name too.
    return tuple(DateSpelling(way) for way in ways if way.replace("%B", "%b") not in ways or
                 "%B" not in way)  # fmt: skip


def share_of_dates(texts: pa.Array) -> float:
    """Return the share of the first few distinct texts that some format of a date fits."""
    few = pl.Series(texts).head(FEW)
    fits = few.str.contains(ISO)
    for day in DAYS:
        fits = fits | few.str.contains(_shape(day)[:-1])
    return float(fits.mean() or 0.0)  # type: ignore[arg-type]


def _is_iso(text: pl.Series) -> bool:
    """Say whether days and times are such as there are."""
    if not text.str.contains(ISO).all():
        return False
    days = text.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False)
    times = text.str.slice(11, 5).replace("", "00:00").str.to_time("%H:%M", strict=False)
    return not (days.null_count() or times.null_count())


def _shape(way: str) -> str:
    """Return the regular expression of cells in a format."""
    return (
        "^" + re.sub(r"%\w|[^%]", lambda part: PARTS.get(part[0]) or re.escape(part[0]), way) + "$"
    )


def _fits(text: pl.Series, way: str) -> bool:
    return bool(text.str.contains(_shape(way)).all()) and not _parsed(text, way).null_count()


def _parsed(text: pl.Series, way: str) -> Any:
    if "%H" in way or "%I" in way:
        return text.str.to_datetime(way, strict=False)
    return text.str.to_date(way, strict=False)
