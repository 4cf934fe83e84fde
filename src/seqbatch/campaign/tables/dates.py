"""A column of dates: text in a declared format, or Arrow's own types."""

import datetime
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.date_format import ISO, TOKEN, cell_pattern, formats_for
from seqbatch.campaign.tables.columns import (
    ADVISED,
    every,
    is_text,
    refused,
    stands_for_none,
    undictionaried,
)
from seqbatch.core.arrays import Bools

#: Days from 1970 to the first day of the year 1000, and to the last of 9999.
FIRST, LAST = -354_285, 2_932_896
#: What is wrong with other days.
UNLIKELY = "must be a date between the years 1000 and 9999"
#: The day that Excel numbers 0, and numbers of days that people meet: 1954 to 2064. What stands
#: behind a point or a comma is the time of day.
EXCEL = datetime.date(1899, 12, 30)
EXCEL_DAY = re.compile(r"([2-5][0-9]{4}|60000)(?:[.,][0-9]+)?")


def read_dates(column: Any, *, form: str) -> tuple[Any, Bools, dict[int, str]]:
    """Return days, null where there is none, which are missing, and what is wrong with others.

    The day is the one that is written, or shown in the timezone of the column's type: times and
    timezones are dropped, and move nothing to another day.
    """
    column = undictionaried(column)
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    kind = column.type
    if is_text(kind):
        return _parsed(column, form)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = pc.local_timestamp(column)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # The cast goes back to the day's beginning; floor_temporal would overflow on the earliest.
        days = column.cast(pa.date32())
        return days, np.asarray(days.is_null()), _unlikely(days)
    nothing = pa.nulls(len(column), pa.date32())
    if pa.types.is_null(kind):
        return nothing, np.ones(len(column), dtype=np.bool_), {}
    wrong = every(column, f"must be dates, or text; received {kind}")
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Not read as whole numbers are: a float of 32 bits holds no eight digits, as days may have.
        for row, cell in enumerate(column[:ADVISED].to_pylist()):
            wrong[row] += _excel(str(cell))
    return nothing, np.zeros(len(column), dtype=np.bool_), wrong


def _parsed(column: Any, form: str) -> tuple[Any, Bools, dict[int, str]]:
    import polars as pl

    text = pc.utf8_trim_whitespace(column)
    missing = stands_for_none(text)
    fits = pc.match_substring_regex(text, cell_pattern(form))
    bare = pc.if_else(fits, text, None)
    rule = "must be a date such as 2026-03-01"
    if form == ISO:
        bare, chrono = pc.utf8_slice_codeunits(bare, 0, 10), "%Y-%m-%d"
    else:
        rule = f"must be a date in the format {form}"
        # A timezone is dropped before it could move the day; fractions are spelled otherwise.
        if form.endswith("%z"):
            bare = pc.replace_substring_regex(bare, r" *(?:Z|[+-]\d{2}:?\d{2})$", "")
        chrono = form.removesuffix("%z").rstrip().replace(".%f", "%.f").replace("%f", "%9f")
    parsed = pl.from_arrow(bare)
    assert isinstance(parsed, pl.Series)
    read = parsed.str.to_date(chrono, strict=False)
    if "%y" in TOKEN.findall(form):
        # 69 is 1969, as everywhere else: years of two digits begin with it.
        read = read.to_frame("day").select(_begun_with_69(pl.col("day"))).to_series()
    days = read.to_arrow()
    unread = np.asarray(days.is_null()) & ~missing
    wrong = refused(text, unread, rule, _accepting if form == ISO else _excel)
    return days, missing, wrong | _unlikely(days)


def _begun_with_69(day: Any) -> Any:
    """Return days of 2069 as such of 1969."""
    import polars as pl

    return pl.when(day.dt.year() == 2069).then(day.dt.offset_by("-100y")).otherwise(day)


def _accepting(cell: str) -> str:
    """Say which setting would accept a cell that is no ISO date, if one would."""
    formats = " or ".join(f'format = "{form}"' for form in formats_for(cell))
    return f"; {formats} would accept it" if formats else _excel(cell)


def _excel(cell: str) -> str:
    """Say what to do about a cell that may be Excel's number of a day.

    >>> _excel("43466.75")[:52]
    "; it looks like Excel's number of the day 2019-01-01"
    >>> _excel("20190101")
    ''
    """
    found = EXCEL_DAY.fullmatch(cell)
    if found is None:
        return ""
    day = EXCEL + datetime.timedelta(days=int(found[1]))
    return (
        f"; it looks like Excel's number of the day {day}: format the column as dates there, and "
        "save the file again"
    )


def _unlikely(days: Any) -> dict[int, str]:
    """Refuse dates that other programs could not take, or that were meant otherwise."""
    numbers = days.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero((numbers < FIRST) | (numbers > LAST)).tolist()
    return dict.fromkeys(rows, UNLIKELY)
