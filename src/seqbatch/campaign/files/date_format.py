"""Date formats: declare one as for strptime, read columns with it, or detect it."""

import datetime
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from seqbatch.campaign.files.column_values import (
    ADVISED,
    Reason,
    day_numbers,
    every,
    is_text,
    means_missing,
    missing_rows,
    python_value,
    refused,
    undictionaried,
)
from seqbatch.core.arrays import Bools, Floats, Integers

# ----------------------------------------------------------------------
# The format of dates in a file: ``"iso"``, or a strptime format.
#
# A cell means the day written in it. A time of day or a timezone is checked and dropped; it never
# moves a date to another day.


ISO = "iso"
#: The pattern of an ISO date: a day, optionally with a time and a timezone.
ISO_PATTERN = (
    r"^\d{4}-\d{2}-\d{2}(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?"
    r" ?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?$"
)
#: The pattern of each part of a format.
PARTS = {
    "%Y": r"\d{4}", "%y": r"\d{2}", "%m": r"\d{1,2}", "%d": r"\d{1,2}", "%j": r"\d{3}",
    "%b": r"[A-Za-z]{3}", "%B": r"[A-Za-z]{3,9}", "%a": r"[A-Za-z]{3}", "%A": r"[A-Za-z]{6,9}",
    "%H": r"\d{1,2}", "%I": r"\d{1,2}", "%M": r"\d{1,2}", "%S": r"\d{1,2}", "%f": r"\d{1,9}",
    "%p": r"[AaPp][Mm]", "%z": r"(?:Z|[+-]\d{2}:?\d{2})", "%%": "%",
}  # fmt: skip
#: A part of a format, or a literal character.
TOKEN = re.compile(r"%.|[^%]", re.DOTALL)


def cell_pattern(form: str) -> str:
    r"""Return the regular expression for cells of a format, for RE2 and for Python.

    >>> print(cell_pattern("%d.%m.%Y"))
    ^\d{1,2}\.\d{1,2}\.\d{4}$
    """
    if form == ISO:
        return ISO_PATTERN
    tokens = TOKEN.findall(form)
    made = []
    for place, token in enumerate(tokens):
        pattern = PARTS.get(token, re.escape(token))
        # Adjacent numbers without a separator need a fixed width.
        beside = (*tokens[max(place - 1, 0) : place], *tokens[place + 1 : place + 2])
        if any(each in PARTS and each != "%%" for each in beside):
            pattern = pattern.replace(r"\d{1,2}", r"\d{2}")
        made.append(pattern)
    return f"^{''.join(made)}$"


def _readable(form: str) -> str:
    if form == ISO:
        return form
    used = {token for token in TOKEN.findall(form) if token.startswith("%")}
    if strange := sorted(used - PARTS.keys()):
        known = " ".join(PARTS)
        raise ValueError(f"a format may have {known}; received {', '.join(strange)} in {form!r}")
    day = used & {"%m", "%b", "%B"} and "%d" in used
    if not (used & {"%Y", "%y"} and (day or "%j" in used)):
        raise ValueError(
            f'a format must be "iso", or name year, month and day, as in %d.%m.%Y; received '
            f"{form!r}"
        )
    if "%z" in form[:-2]:
        raise ValueError(f"a timezone (%z) must be at the end of a format; received {form!r}")
    return form


#: A date format in a spec.
DateFormat = Annotated[str, Field(min_length=1, max_length=60), AfterValidator(_readable)]


# ----------------------------------------------------------------------
# Read a column of dates, with the reason for each row that cannot be read.


#: The days from 1970 to the first day of the year 1000, and to the last day of 9999.
FIRST, LAST = -354_285, 2_932_896
#: The reason for days outside this range.
UNLIKELY = "must be a date between the years 1000 and 9999"
#: Excel's day 0, and the day numbers that are plausible: 1954 to 2064. Digits after a point or a
#: comma are the time of day.
EXCEL = datetime.date(1899, 12, 30)
EXCEL_DAY = re.compile(r"([2-5][0-9]{4}|60000)(?:[.,][0-9]+)?")


def read_dates(column: Any, *, form: str) -> tuple[Any, Bools, dict[int, str]]:
    """Return the days (null if missing), which rows are missing, and the problems of other rows.

    The day is the one that is written, or shown in the timezone of the column's type: times and
    timezones are dropped, and never move a date to another day.
    """
    column = undictionaried(column)
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    kind = column.type
    if is_text(kind):
        return _parsed_dates(column, form)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = pc.local_timestamp(column)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        missing, numbers = np.asarray(column.is_null()), day_numbers(column)
        days = pa.array(np.clip(numbers, FIRST, LAST).astype(np.int32), mask=missing)
        return days.view(pa.date32()), missing, _unlikely(numbers)
    nothing = pa.nulls(len(column), pa.date32())
    if pa.types.is_null(kind):
        return nothing, np.ones(len(column), dtype=np.bool_), {}
    rule, received = "must be dates, or text", f"; received {kind}"
    wrong = every(column, Reason(rule, received, "wrong-type"))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Not read as whole numbers: a 32-bit float cannot represent the eight digits of a date.
        for row, cell in enumerate(column[:ADVISED]):
            advice = _excel(str(python_value(cell)))
            wrong[row] = Reason(rule, received + advice, "wrong-type")
    return nothing, np.zeros(len(column), dtype=np.bool_), wrong


def _parsed_dates(column: Any, form: str) -> tuple[Any, Bools, dict[int, str]]:
    import polars as pl

    text = pc.utf8_trim_whitespace(column)
    missing = means_missing(text)
    fits = pc.match_substring_regex(text, cell_pattern(form))
    bare = pc.if_else(fits, text, None)
    rule = "must be a date such as 2026-03-01"
    if form == ISO:
        bare, chrono = pc.utf8_slice_codeunits(bare, 0, 10), "%Y-%m-%d"
    else:
        rule = f"must be a date in the format {form}"
        # Drop the timezone before it can move the day; fractions of seconds use another code.
        if form.endswith("%z"):
            bare = pc.replace_substring_regex(bare, r" *(?:Z|[+-]\d{2}:?\d{2})$", "")
        chrono = form.removesuffix("%z").rstrip().replace(".%f", "%.f").replace("%f", "%9f")
    parsed = pl.from_arrow(bare)
    assert isinstance(parsed, pl.Series)
    read = parsed.str.to_date(chrono, strict=False)
    if "%y" in TOKEN.findall(form):
        # 69 means 1969, as in other programs: two-digit years start there.
        read = read.to_frame("day").select(_begun_with_69(pl.col("day"))).to_series()
    days = read.to_arrow()
    unread = np.asarray(days.is_null()) & ~missing
    wrong = refused(text, unread, rule, _date_remedy if form == ISO else _excel, "not-a-date")
    return days, missing, wrong | _unlikely(day_numbers(days))


def _begun_with_69(day: Any) -> Any:
    """Move days in 2069 to 1969."""
    import polars as pl

    return pl.when(day.dt.year() == 2069).then(day.dt.offset_by("-100y")).otherwise(day)


def _date_remedy(cell: str) -> str:
    """Suggest a setting that would accept a cell that is not an ISO date, if there is one."""
    formats = " or ".join(f'format = "{form}"' for form in date_formats_for(cell))
    return f"; {formats} would accept it" if formats else _excel(cell)


def _excel(cell: str) -> str:
    """Suggest what to do about a cell that may be an Excel day number.

    >>> _excel("43466.75")[:53]
    "; it looks like Excel's number for the day 2019-01-01"
    >>> _excel("20190101")
    ''
    """
    found = EXCEL_DAY.fullmatch(cell)
    if found is None:
        return ""
    day = EXCEL + datetime.timedelta(days=int(found[1]))
    return (
        f"; it looks like Excel's number for the day {day}: format the column as dates in "
        "Excel, and save the file again"
    )


def _unlikely(days: Integers) -> dict[int, str]:
    """Refuse dates that other programs cannot represent, or that are probably mistakes."""
    rows = np.flatnonzero((days < FIRST) | (days > LAST)).tolist()
    return dict.fromkeys(rows, UNLIKELY)


# ----------------------------------------------------------------------
# Read a column of times, to compare them with other times.


TIMES_RULE = "must be dates, times or text"
UNLIKELY_TIME = "must be a date between the years 1900 and 2200"
#: The microseconds of a day, and those from 1970 to the years 1900 and 2200: within them, a
#: floating-point number represents every microsecond.
DAY = 86_400_000_000
EARLIEST, LATEST = -25_567 * DAY, 84_006 * DAY
TIME_RULE = "must be a date or a time such as 2026-03-01 or 2026-03-01T14:30:00+01:00"
_PARTS = (
    r"^(?P<day>\d{4}-\d{2}-\d{2})(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})"
    r"(?::(?P<second>\d{2})(?:[.,](?P<part>\d{1,9}))?)?"
    r" ?(?:Z|(?P<sign>[+-])(?P<hours>\d{2})(?::?(?P<minutes>\d{2}))?)?)?$"
)


def read_times(column: Any) -> tuple[Floats, Bools, dict[int, str]]:
    """Return times in microseconds since 1970, which are whole days, and the problems of rows.

    A time without a zone is UTC. A row that is missing or cannot be read has the time NaN.

    >>> times, days, wrong = read_times(pa.array(["1970-01-02", "1970-01-01T01:00:00+01:00", "x"]))
    >>> times.tolist(), days.tolist(), list(wrong)
    ([86400000000.0, 0.0, nan], [True, False, False], [2])
    """
    column = undictionaried(column)
    kind, count = column.type, len(column)
    if is_text(kind):
        times, days, wrong = _parsed_times(column)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        numbers = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
        none = np.asarray(numbers.is_null())
        units = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            units = units // 1_000
        # A floating-point number cannot overflow: times beyond the calendar are refused below.
        times = np.where(none, np.nan, units.astype(np.float64) * _microseconds(kind))
        wrong = missing_rows(none)
        days = np.full(count, pa.types.is_date(kind))
    else:
        none = np.full(count, pa.types.is_null(kind))
        wrong = every(column, Reason(TIMES_RULE, f"; received {kind}", "wrong-type"))
        return np.full(count, np.nan), none, missing_rows(none) if none.all() else wrong
    beyond = np.flatnonzero((times < EARLIEST) | (times > LATEST)).tolist()
    times[beyond] = np.nan
    return times, days, wrong | dict.fromkeys(beyond, Reason(UNLIKELY_TIME, "", "out-of-range"))


def _microseconds(kind: Any) -> float:
    """Return the microseconds in one unit of a type of dates or times."""
    if pa.types.is_date(kind):
        return DAY if pa.types.is_date32(kind) else 1e3
    return {"s": 1e6, "ms": 1e3}.get(kind.unit, 1.0)


def _parsed_times(column: Any) -> tuple[Floats, Bools, dict[int, str]]:
    import polars as pl

    text = pc.utf8_trim_whitespace(column)
    missing = means_missing(text)
    fits = pc.if_else(pc.match_substring_regex(text, ISO_PATTERN), text, None)
    parts = pl.DataFrame({"": pl.from_arrow(pc.extract_regex(fits, _PARTS))}).unnest("")

    def whole(name: str) -> Any:
        return pl.col(name).cast(pl.Int64, strict=False).fill_null(0)

    zone = (3_600 * whole("hours") + 60 * whole("minutes")) * pl.when(pl.col("sign") == "-").then(
        -1
    ).otherwise(1)
    seconds = 3_600 * whole("hour") + 60 * whole("minute") + whole("second") - zone
    fraction = pl.col("part").str.pad_end(9, "0").str.head(6).cast(pl.Int64, strict=False)
    day = pl.col("day").str.to_date("%Y-%m-%d", strict=False)
    found = parts.select(
        time=(day.cast(pl.Int64) * DAY + seconds * 1_000_000 + fraction.fill_null(0))
        .cast(pl.Float64)
        .fill_null(float("nan")),
        whole=day.is_not_null() & (pl.col("hour").fill_null("") == ""),
    )
    times, days = found["time"].to_numpy().copy(), found["whole"].to_numpy()
    wrong = refused(text, np.isnan(times) & ~missing, TIME_RULE, _excel, "not-a-date")
    return times, days, wrong | missing_rows(missing)


# ----------------------------------------------------------------------
# Suggest formats that accept a cell.


#: Formats suggested for a cell that is not ISO, each alone and with a time of day.
USUAL = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d", "%d.%m.%y", "%m/%d/%y",
    "%d/%m/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%Y-%m-%d",
)  # fmt: skip
USUAL_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")


@lru_cache(maxsize=1024)
def date_formats_for(cell: str) -> tuple[str, ...]:
    """Return the usual formats that accept a cell; several if the cell is ambiguous.

    >>> date_formats_for("31.12.2025"), date_formats_for("3/4/2025 9:30"), date_formats_for("soon")
    (('%d.%m.%Y',), ('%d/%m/%Y %H:%M', '%m/%d/%Y %H:%M'), ())
    """
    forms = [day + time for day in USUAL for time in USUAL_TIMES]
    return tuple(form for form in forms if _spells_a_day(cell.strip()[:60], form))


def _spells_a_day(cell: str, form: str) -> bool:
    if not re.fullmatch(cell_pattern(form), cell):
        return False
    try:
        datetime.datetime.strptime(cell, form)
    except ValueError:
        return False
    return True


# ----------------------------------------------------------------------
# Detect the formats that fit every value of a column.


#: The number of values checked first; they rule out most columns of text.
FEW_DATES = 500
#: Formats of a day; if two differ in the order of day and month, the usual one comes first.
DAYS = (
    "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%Y/%m/%d",
    "%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%Y.%m.%d", "%m.%d.%Y", "%d %b %Y",
    "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%d. %B %Y", "%d %b %y",
)  # fmt: skip
#: Formats of a time of day after it.
TIMES = (
    "", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %H:%M:%S", "T%H:%M:%S",
    " %H:%M:%S %z", " %H:%M:%S.%f",
)  # fmt: skip
COMPACT = "%Y%m%d"
#: Eight digits that are a date: the years 1900 to 2099, and the last day that many programs know.
YEARS = r"^((19|20)\d{6}|99991231)$"
#: So many different numbers of eight digits are all dates by chance in no file.
MANY_DAYS = 30


@dataclass(frozen=True)
class DateSpelling:
    """A way to read a column as dates.

    Parameters
    ----------
    format
        ``"iso"``, or a strptime format.
    """

    format: str

    @property
    def day_first(self) -> bool | None:
        """Whether the day comes before the month; None if the format is unambiguous."""
        if "%m" not in self.format or self.format.startswith("%Y"):
            return None
        return self.format.index("%d") < self.format.index("%m")

    def days(self, values: pa.Array) -> Floats:
        """Return the days of distinct values, counted from 1970.

        Days that assign would refuse count as the first or the last day that it accepts.
        """
        days, _, _ = read_dates(values, form=self.format)
        counted: Floats = days.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.float64)
        return np.clip(counted, FIRST, LAST)


def date_spellings(texts: pa.Array, *, compact: bool = False) -> tuple[DateSpelling, ...]:
    """Return the formats that read distinct texts as dates: two if day and month are unclear.

    Examples
    --------
    >>> [way.format for way in date_spellings(pa.array(["31.01.2024", "1.2.2024"]))]
    ['%d.%m.%Y']
    >>> [way.format for way in date_spellings(pa.array(["01/02/2024", "03/04/2024"]))]
    ['%m/%d/%Y', '%d/%m/%Y']
    """
    formats = [ISO, *(day + time for day in DAYS for time in TIMES)]
    if compact and _all(texts[:FEW_DATES], YEARS) and _all(texts, YEARS):
        formats.append(COMPACT)
    formats = [way for way in formats if re.search(cell_pattern(way), texts[0].as_py())]
    ways = [way for way in formats if _fits(texts[:FEW_DATES], way) and _fits(texts, way)]
    # May is both the short and the full name of its month.
    short = [way for way in ways if "%B" not in way]
    return tuple(DateSpelling(way) for way in short or ways)


def share_of_dates(texts: pa.Array) -> float:
    """Return the share of the first few distinct texts that look like dates of some format."""
    shapes = [cell_pattern(way) for way in (ISO, *(day + time for day in DAYS for time in TIMES))]
    fits = [
        any(re.search(shape, text) for shape in shapes) for text in texts[:FEW_DATES].to_pylist()
    ]
    return float(np.mean(fits)) if fits else 0.0


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _fits(texts: pa.Array, way: str) -> bool:
    return not read_dates(texts, form=way)[2]
