"""The values of a column: ids, numbers, dates, booleans, categories, and unreadable rows."""

import datetime
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files.reading import RowProblem
from seqbatch.campaign.spec.formats import (
    ISO,
    SAME,
    SIGNS,
    TOKEN,
    NumberFormat,
    cell_pattern,
    date_formats_for,
    number_formats_for,
)
from seqbatch.campaign.spec.size_limits import LARGEST_ENCODED, LARGEST_NUMBER, MOST_PROBLEMS
from seqbatch.campaign.spec.toml import quoted
from seqbatch.core.arrays import AnyArray, Bools, Bytes, Floats
from seqbatch.display import counted

# ----------------------------------------------------------------------
# One column of a file at a time: ids, numbers and categories, with what is wrong with each row.


class Reason(str):
    """Why a cell cannot be used: a text that knows its rule apart from the value and the advice.

    >>> why = Reason("must be a number", "; received 'x'")
    >>> why, why.rule
    ("must be a number; received 'x'", 'must be a number')
    """

    __slots__ = ("code", "more", "rule")
    rule: str
    more: str
    code: str

    def __new__(cls, rule: str, more: str = "", code: str = "") -> "Reason":
        """Return the text of a rule and of what follows it; the code is for programs."""
        made = super().__new__(cls, rule + more)
        made.rule, made.more, made.code = rule, more, code
        return made


def reasoned(reason: str) -> Reason:
    """Return a reason; a text alone is its own rule."""
    return reason if isinstance(reason, Reason) else Reason(reason)


#: What is wrong with a value that is not there, and with numbers that no sum could take.
MISSING = "is missing"
TOO_LARGE = f"must be finite and below {LARGEST_NUMBER:g} in size"
TOO_LARGE_ENCODED = f"must be below {LARGEST_ENCODED:g} in size as the model takes it"
#: The code of a text that is no number.
NO_NUMBER = "no-number"
#: Texts that mean in files of numbers, dates and booleans that there is no value; case is ignored.
NONE = pa.array(["", "na", "n/a", "nan", "null", "none", "-", "#n/a", "?", None])
#: Rows of one piece of a file that are told which setting would accept them.
ADVISED = 20


class Problems:
    """What is wrong with a file, found piece by piece.

    Parameters
    ----------
    most
        How many problems are kept; None for all.
    """

    def __init__(self, *, most: int | None = MOST_PROBLEMS) -> None:
        self.found: list[RowProblem] = []
        self._most = most

    def add(self, start: int, column: str, reasons: dict[int, str]) -> None:
        """Add reasons by row of a piece whose first row of data is number `start` + 1."""
        room = None if self._most is None else max(self._most - len(self.found), 0)
        for row in sorted(reasons)[:room]:
            self.found.append((start + row + 1, column, reasons[row]))

    def whole(self, column: str, reason: str) -> None:
        """Add a problem of a whole column."""
        self.found.append((0, column, reason))


def texts(column: Any) -> tuple[pa.Array, dict[int, str]]:
    """Return a column as text, ids as they stand, and what is wrong with its rows.

    A date is its text, 2026-03-01, as in a file of text and as databases spell it.
    """
    column = undictionaried(column)
    kind = column.type
    if not _texty(kind):
        nothing = pa.array([""] * len(column), type=pa.string())
        return nothing, every(
            column, Reason("must be text, whole numbers or dates", f"; received {kind}")
        )
    values = column.cast(pa.string())
    if values.null_count:
        values = values.fill_null("")
    empty = pc.equal(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    return values, missing_rows(empty)


@dataclass(frozen=True)
class Read:
    """A column as values, 0 where there is none to be used.

    Parameters
    ----------
    values
        The numbers.
    missing
        Which rows have no value: a null, NaN, or text that usually stands for none.
    wrong
        What is wrong with the other rows that have none.
    """

    values: Floats
    missing: Bools
    wrong: dict[int, str]


def numbers(column: Any, *, form: NumberFormat | None = None) -> tuple[Floats, dict[int, str]]:
    """Return a column as finite numbers, and what is wrong with its rows, the missing ones too.

    Parameters
    ----------
    column
        Numbers of any Arrow type, which pass as they are, or text.
    form
        How the text spells numbers; None: as programs do, ``-1234.5`` or ``1e3``.
    """
    read = read_numbers(column, form=form)
    if not read.missing.any():
        return read.values, read.wrong
    return read.values, read.wrong | missing_rows(read.missing)


def missing_rows(missing: Bools, reason: str = MISSING) -> dict[int, str]:
    """Return the rows that are missing, each with the reason."""
    return dict.fromkeys(np.flatnonzero(missing).tolist(), reason)


def read_numbers(column: Any, *, form: NumberFormat | None = None) -> Read:
    """Return a column as finite numbers; see :func:`numbers`."""
    column = undictionaried(column)
    kind = column.type
    if is_text(kind):
        return _spelled(column, form) if form else _parsed_numbers(column)
    if pa.types.is_null(kind):
        return Read(np.zeros(len(column)), np.ones(len(column), dtype=np.bool_), {})
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not holds_numbers(kind):
        nobody = np.zeros(len(column), dtype=np.bool_)
        values = np.full(len(column), np.nan)
        return Read(values, nobody, every(column, Reason("must be numbers", f"; received {kind}")))
    # Nulls become NaN: both are how programs say that there is no number.
    found = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    missing = np.isnan(found)
    values = np.where(missing, 0.0, found) if missing.any() else found
    return Read(values, missing, _unfit(values))


def holds_numbers(kind: Any) -> bool:
    """Say whether values of a type are numbers, or may be read as such."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or is_text(kind)
    )


def categories(column: Any) -> tuple[Any, dict[int, str]]:
    """Return a column as dictionary-encoded text, and which of its rows are missing."""
    kind = column.type
    column = undictionaried(column)
    if not (_texty(column.type) or pa.types.is_boolean(column.type)):
        empty = pa.array([""] * len(column)).dictionary_encode()
        rule = "must be text, whole numbers, dates or booleans"
        return empty, every(column, Reason(rule, f"; received {kind}"))
    encoded = pc.dictionary_encode(column.cast(pa.string()))
    wrong = {}
    if column.null_count:
        wrong = {int(r): MISSING for r in np.flatnonzero(np.asarray(column.is_null()))}
    # A file that was written by hand may spell what is missing in both ways.
    if (place := encoded.dictionary.index("").as_py()) >= 0:
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        wrong |= {int(r): MISSING for r in np.flatnonzero(places == place)}
    return encoded, wrong


def every(column: Any, reason: str) -> dict[int, str]:
    """Say the same of every row: each of them is judged by itself."""
    return dict.fromkeys(range(len(column)), reason)


def _texty(kind: Any) -> bool:
    return is_text(kind) or bool(pa.types.is_integer(kind) or pa.types.is_date(kind))


def is_text(kind: Any) -> bool:
    """Say whether a type is one of text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def undictionaried(column: Any) -> Any:
    """Return a column with each value in its row, and text of the one kind."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = _spread(column), kind.value_type
    return column.cast(pa.string()) if is_text(kind) and column.type != pa.string() else column


def _spread(column: Any) -> Any:
    """Return a dictionary column with each value in its row."""
    if not pa.types.is_string_view(column.type.value_type):
        return column.cast(column.type.value_type)
    # As Polars hands categories over; Arrow neither casts them nor takes rows of such text.
    chunked = isinstance(column, pa.ChunkedArray)
    parts = column.chunks if chunked else [column]
    made = [part.dictionary.cast(pa.string()).take(part.indices) for part in parts]
    return pa.chunked_array(made, pa.string()) if chunked else made[0]


def _parsed_numbers(column: Any) -> Read:
    """Read numbers as programs spell them."""
    import polars as pl

    trimmed = pc.utf8_trim_whitespace(column)
    missing = stands_for_none(trimmed)
    text = pl.from_arrow(trimmed)
    assert isinstance(text, pl.Series)
    parsed = text.cast(pl.Float64, strict=False)
    values = parsed.fill_null(0.0).to_numpy()
    if missing.any():
        values = np.where(missing, 0.0, values)
    unread = parsed.is_null().to_numpy() & ~missing
    wrong = refused(trimmed, unread, "must be a number", _number_remedy, NO_NUMBER)
    return Read(values, missing, {**_unfit(values), **wrong})


def _number_remedy(cell: str) -> str:
    """Say which setting would accept a cell that is no plain number, if one would."""
    formats = " or ".join(f'format = "{example}"' for example in number_formats_for(cell))
    return f"; {formats} would accept it" if formats else ""


def _widening(form: NumberFormat, cell: str) -> str:
    """Say which setting would also accept a negative number, if a cell looks like one."""
    formats = " or ".join(f'format = "{example}"' for example in form.wider_for(cell))
    return f"; it looks like a negative number: {formats} would accept it, too" if formats else ""


def _spelled(column: Any, form: NumberFormat) -> Read:
    """Read numbers as they are spelled in this file; :meth:`NumberFormat.read`, for a column."""
    text = _plain(column)
    missing = stands_for_none(text)
    fits = pc.match_substring_regex(text, form.pattern)
    fit = fits.fill_null(False).to_numpy(zero_copy_only=False) & ~missing
    bare = pc.if_else(pa.array(fit), text, "0")
    for each in form.dropped:
        bare = pc.replace_substring(bare, each, "")
    negative = pc.or_(
        pc.or_(pc.starts_with(bare, "-"), pc.starts_with(bare, "(")), pc.ends_with(bare, "-")
    )
    digits = pc.utf8_trim(bare, characters=SIGNS)
    if form.decimal:
        digits = pc.replace_substring(digits, form.decimal, ".")
    values = digits.cast(pa.float64()).to_numpy(zero_copy_only=False)
    values = values / 100 if form.percent else values
    values = np.where(negative.to_numpy(zero_copy_only=False), -values, values)
    rule = f"must be a number spelled like {form.example}"
    wrong = refused(text, ~fit & ~missing, rule, partial(_widening, form), NO_NUMBER)
    return Read(values, missing, {**_unfit(values), **wrong})


def _plain(column: Any) -> Any:
    """Return texts with one spelling of spaces, signs and marks, and none around them."""
    for spelling, meant in SAME.items():
        column = pc.replace_substring(column, spelling, meant)
    return pc.utf8_trim_whitespace(column)


def stands_for_none(text: Any) -> Bools:
    """Say which trimmed texts, or nulls, usually mean that there is no value."""
    short = pc.utf8_lower(pc.if_else(pc.less(pc.binary_length(text), 8), text, "x"))
    none: Bools = pc.is_in(short, NONE).to_numpy(zero_copy_only=False)
    return none


def refused(
    text: Any, rows: Bools, rule: str, advice: Callable[[str], str] | None = None, code: str = ""
) -> dict[int, str]:
    """Return what is wrong with rows whose text breaks a rule, the first ones with advice."""
    wrong: dict[int, str] = {}
    for place, row in enumerate(np.flatnonzero(rows).tolist()):
        said = text[row].as_py()
        more = advice(said) if advice and place < ADVISED else ""
        wrong[row] = Reason(rule, f"; received {said[:60]!r}{more}", code)
    return wrong


def _unfit(values: Floats) -> dict[int, str]:
    # One pass finds NaN, infinity and overflow to come: a comparison with NaN is false.
    if not len(values) or (values.min() > -LARGEST_NUMBER and values.max() < LARGEST_NUMBER):
        return {}
    return {
        int(row): Reason(TOO_LARGE, f"; received {values[row]}")
        for row in np.flatnonzero(~(np.abs(values) < LARGEST_NUMBER))
    }


def decoded(table: pa.Table) -> pa.Table:
    """Return a table whose dictionary columns are plain, and whose text is of the one kind."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = _spread(column)
        columns.append(column.cast(pa.string()) if pa.types.is_string_view(column.type) else column)
    return pa.table(columns, names=table.column_names)


# ----------------------------------------------------------------------
# A column of yes and no, in the usual spellings.


#: Case and spaces around are ignored. 1.0 and 0.0 are what programs make of 1 and 0.
YES = ("true", "t", "yes", "y", "on", "1", "1.0", "ja", "j", "wahr", "oui", "vrai", "si", "sí",
       "sì", "vero", "verdadero", "sim", "tak")  # fmt: skip
NO = ("false", "f", "no", "n", "off", "0", "0.0", "nein", "falsch", "non", "faux", "falso", "nee",
      "nej", "não", "nao", "nie")  # fmt: skip
RULE = "must be a yes or a no, such as true, yes, 1, false, no, 0"


def read_booleans(column: Any) -> Read:
    """Return a column of text, booleans or the numbers 0 and 1 as numbers 0 and 1."""
    column = undictionaried(column)
    if not is_text(column.type):
        found = read_numbers(column)
        rows = (~found.missing & (found.values != 0) & (found.values != 1)).nonzero()[0].tolist()
        wrong = {row: Reason(RULE, f"; received {found.values[row]:g}") for row in rows}
        return Read(found.values, found.missing, wrong | found.wrong)
    text = pc.utf8_trim_whitespace(column)
    missing = stands_for_none(text)
    folded = pc.utf8_lower(text)
    yes, no = (
        pc.is_in(folded, pa.array(words)).to_numpy(zero_copy_only=False) for words in (YES, NO)
    )
    return Read(yes.astype(np.float64), missing, refused(text, ~(yes | no | missing), RULE))


# ----------------------------------------------------------------------
# A column of dates: text in a declared format, or Arrow's own types.


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
        return _parsed_dates(column, form)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = pc.local_timestamp(column)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # The cast goes back to the day's beginning; floor_temporal would overflow on the earliest.
        days = column.cast(pa.date32())
        return days, np.asarray(days.is_null()), _unlikely(days)
    nothing = pa.nulls(len(column), pa.date32())
    if pa.types.is_null(kind):
        return nothing, np.ones(len(column), dtype=np.bool_), {}
    rule, received = "must be dates, or text", f"; received {kind}"
    wrong = every(column, Reason(rule, received))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Not read as whole numbers are: a float of 32 bits holds no eight digits, as days may have.
        for row, cell in enumerate(column[:ADVISED].to_pylist()):
            wrong[row] = Reason(rule, received + _excel(str(cell)))
    return nothing, np.zeros(len(column), dtype=np.bool_), wrong


def _parsed_dates(column: Any, form: str) -> tuple[Any, Bools, dict[int, str]]:
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
    wrong = refused(text, unread, rule, _date_remedy if form == ISO else _excel)
    return days, missing, wrong | _unlikely(days)


def _begun_with_69(day: Any) -> Any:
    """Return days of 2069 as such of 1969."""
    import polars as pl

    return pl.when(day.dt.year() == 2069).then(day.dt.offset_by("-100y")).otherwise(day)


def _date_remedy(cell: str) -> str:
    """Say which setting would accept a cell that is no ISO date, if one would."""
    formats = " or ".join(f'format = "{form}"' for form in date_formats_for(cell))
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


# ----------------------------------------------------------------------
# Columns of text as Arrow keeps them, for ids by the million.


#: Texts: Python's own, or a column of Arrow.
Texts: TypeAlias = "Sequence[str] | pa.Array"


def as_column(texts: Texts) -> pa.Array:
    """Return texts as one column."""
    if isinstance(texts, pa.ChunkedArray):
        return texts.chunk(0) if texts.num_chunks == 1 else texts.combine_chunks()
    return texts if isinstance(texts, pa.Array) else pa.array(texts, type=pa.string())


def as_list(texts: Texts) -> list[str]:
    """Return texts as Python's own."""
    found: list[str] = texts.to_pylist() if isinstance(texts, pa.Array) else list(texts)
    return found


def buffers(texts: Texts) -> tuple[Bytes, AnyArray]:
    """Return the bytes of texts, and where each starts and ends in them.

    >>> data, places = buffers(["a", "é"])
    >>> bytes(data[:3]).decode(), places.tolist()
    ('aé', [0, 1, 3])
    """
    column = as_column(texts)
    if not len(column):
        return np.zeros(1, dtype=np.uint8), np.zeros(1, dtype=np.int32)
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    # Texts that are all empty may have no bytes at all.
    some = data is not None and data.size > 0
    return np.frombuffer(data, dtype=np.uint8) if some else np.zeros(1, dtype=np.uint8), places


# ----------------------------------------------------------------------
# Values of a category that may be one value, spelled in several ways.


#: So many spellings of one value are shown.
SHOWN = 3


def plainly_spelled(value: str) -> str:
    """Return a text without what people spell in several ways: case, spaces, Unicode form.

    >>> plainly_spelled("Saint Denis ") == plainly_spelled("SAINT  DENIS")
    True
    """
    return "".join(unicodedata.normalize("NFKC", value).casefold().split())


def told_apart(text: str, in_quotes: Callable[[str], str] = repr) -> str:
    r"""Return a text in quotes, written out where it would look like another Unicode form of it.

    >>> print(told_apart("Köln"), told_apart("Ko\u0308ln"), told_apart("Köln\xa0"))
    'Köln' 'Ko\u0308ln' 'Köln\xa0'
    """
    shown = in_quotes(text)
    if unicodedata.is_normalized("NFC", text):
        return shown
    return shown.encode("ascii", "backslashreplace").decode()


def several_spellings(values: Iterable[str]) -> str:
    """Say which values differ only by case, spaces or Unicode form; "" where none do.

    >>> several_spellings(["Urban", "Rural", "URBAN", "Urban "])
    '"Urban", "URBAN", "Urban " differ only by case or spaces, and none counts as another'
    >>> several_spellings(["Urban", "Rural"])
    ''
    """
    spelled: dict[str, list[str]] = {}
    for value in values:
        spelled.setdefault(plainly_spelled(value), []).append(value)
    several = [same for same in spelled.values() if len(same) > 1]
    if not several:
        return ""
    first = ", ".join(told_apart(value, quoted) for value in several[0][:SHOWN])
    more = ", ..." if len(several[0]) > SHOWN else ""
    left = len(several) - 1
    others = f" (and {counted(left, 'more such value')})" if left else ""
    return f"{first}{more} differ only by case or spaces, and none counts as another{others}"
