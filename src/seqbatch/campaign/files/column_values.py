"""Convert Arrow columns: texts and categories, missing values, and reasons for bad rows."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.spec.input_limits import MOST_PROBLEMS
from seqbatch.core.arrays import AnyArray, Bools, Bytes, Floats, Integers
from seqbatch.errors import RowProblem

# ----------------------------------------------------------------------
# Read one column of a file: texts and categories, with the reason for each unreadable row.


#: The default code of a reason.
INVALID = "invalid"


class Reason(str):
    """Why a cell cannot be used: a text whose rule is kept apart from the value and the advice.

    >>> why = Reason("must be a number", "; received 'x'")
    >>> why, why.rule
    ("must be a number; received 'x'", 'must be a number')
    """

    __slots__ = ("code", "more", "rule")
    rule: str
    more: str
    code: str

    def __new__(cls, rule: str, more: str = "", code: str = INVALID) -> "Reason":
        """Return the rule followed by `more` as text; the code is for programs."""
        made = super().__new__(cls, rule + more)
        made.rule, made.more, made.code = rule, more, code
        return made


def reasoned(reason: str) -> Reason:
    """Return a reason; a plain text becomes its own rule."""
    return reason if isinstance(reason, Reason) else Reason(reason)


#: The reason for a missing value.
MISSING = Reason("is missing", code="missing")
#: Texts that mark a missing value, in lower case, without surrounding spaces.
NO_VALUE = ("", "na", "n/a", "nan", "null", "none", "-", "#n/a", "?")
_NO_VALUE = pa.array([*NO_VALUE, None])
#: The number of rows in a piece whose reasons suggest a setting that would accept them.
ADVISED = 20


class Problems:
    """The problems of a file, collected piece by piece.

    Parameters
    ----------
    most
        The number of problems to keep; None for all.
    """

    def __init__(self, *, most: int | None = MOST_PROBLEMS) -> None:
        self.found: list[RowProblem] = []
        self._most = most

    def add(self, start: int, column: str, reasons: dict[int, str]) -> None:
        """Add reasons by row, for a piece whose first row of data is number `start` + 1."""
        room = None if self._most is None else max(self._most - len(self.found), 0)
        for row in sorted(reasons)[:room]:
            reason = reasoned(reasons[row])
            self.found.append(RowProblem(start + row + 1, column, reason, reason.code))


def texts(column: Any) -> tuple[pa.Array, dict[int, str]]:
    """Return a column as text, with ids unchanged, and the problems of its rows.

    A date becomes text such as 2026-03-01, as in text files and databases.
    """
    column = undictionaried(column)
    kind = column.type
    if not _texty(kind):
        nothing = pa.array([""] * len(column), type=pa.string())
        return nothing, every(
            column,
            Reason("must be text, whole numbers or dates", f"; received {kind}", "wrong-type"),
        )
    beyond = _beyond_the_calendar(column)
    values = column.cast(pa.string())
    if values.null_count:
        values = values.fill_null("")
    empty = pc.equal(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    return values, missing_rows(empty) | beyond


#: The days from 1970 to the first day of the year 1, and to the last day of 9999.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
#: The number of each unit of time in a day.
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def day_numbers(column: Any) -> Integers:
    """Return the days from 1970 to each date or time, 0 if it is missing.

    Arrow's own conversion to days takes the number modulo 2**32.

    >>> day_numbers(pa.array([-1, 2**62, None]).view(pa.timestamp("s"))).tolist()
    [-1, 53375995583650, 0]
    """
    kind = column.type
    days = pa.types.is_date32(kind)
    numbers = column.cast(pa.int32() if days else pa.int64()).fill_null(0)
    made: Integers = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
    return made if days else made // PER_DAY[kind.unit if pa.types.is_timestamp(kind) else "ms"]


def _beyond_the_calendar(column: Any) -> dict[int, str]:
    """Return the reasons for dates that have no year of four digits, and no text in Arrow."""
    if not pa.types.is_date(column.type):
        return {}
    days = day_numbers(column)
    rule = "must be a date between the years 1 and 9999"
    return {
        row: Reason(rule, f"; received day {days[row]:,} after 1970-01-01", "out-of-range")
        for row in np.flatnonzero((days < FIRST_DAY) | (days > LAST_DAY)).tolist()
    }


@dataclass(frozen=True)
class Read:
    """A column as values, which come only together with the rows that are wrong.

    Parameters
    ----------
    _values
        The numbers, with 0 in rows without a usable value.
    missing
        Which rows have no value: a null, NaN, or text that usually marks a missing value.
    wrong
        The reasons for the other rows without a usable value.
    """

    _values: Floats
    missing: Bools
    wrong: dict[int, str]

    def values_and_wrong(self) -> tuple[Floats, dict[int, str]]:
        """Return the numbers, and the reason of each row whose number must not be used."""
        return self._values, self.wrong


def missing_rows(missing: Bools, reason: str = MISSING) -> dict[int, str]:
    """Return the missing rows, each with the reason."""
    return dict.fromkeys(np.flatnonzero(missing).tolist(), reason)


def categories(column: Any) -> tuple[Any, dict[int, str]]:
    """Return a column as dictionary-encoded text, and which of its rows are missing."""
    kind = column.type
    column = undictionaried(column)
    if not (_texty(column.type) or pa.types.is_boolean(column.type)):
        empty = pa.array([""] * len(column)).dictionary_encode()
        rule = "must be text, whole numbers, dates or booleans"
        return empty, every(column, Reason(rule, f"; received {kind}", "wrong-type"))
    encoded = pc.dictionary_encode(column.cast(pa.string()))
    wrong = _beyond_the_calendar(column)
    if column.null_count:
        wrong |= {int(r): MISSING for r in np.flatnonzero(np.asarray(column.is_null()))}
    # A file written by hand may mark missing values both as null and as empty text.
    if (place := encoded.dictionary.index("").as_py()) >= 0:
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        wrong |= {int(r): MISSING for r in np.flatnonzero(places == place)}
    return encoded, wrong


def every(column: Any, reason: str) -> dict[int, str]:
    """Return the same reason for every row, since each row is checked separately."""
    return dict.fromkeys(range(len(column)), reason)


def _texty(kind: Any) -> bool:
    return is_text(kind) or bool(pa.types.is_integer(kind) or pa.types.is_date(kind))


def is_text(kind: Any) -> bool:
    """Return whether a type is text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def undictionaried(column: Any) -> Any:
    """Return a column without dictionary encoding, with text as plain strings."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = _spread(column), kind.value_type
    return column.cast(pa.string()) if is_text(kind) and column.type != pa.string() else column


def _spread(column: Any) -> Any:
    """Decode a dictionary column."""
    if not pa.types.is_string_view(column.type.value_type):
        return column.cast(column.type.value_type)
    # Polars exports categories like this; Arrow can neither cast them nor take rows of such text.
    chunked = isinstance(column, pa.ChunkedArray)
    parts = column.chunks if chunked else [column]
    made = [part.dictionary.cast(pa.string()).take(part.indices) for part in parts]
    return pa.chunked_array(made, pa.string()) if chunked else made[0]


def means_missing(text: Any) -> Bools:
    """Return which trimmed texts, or nulls, mark a missing value.

    >>> means_missing(pa.array(["N/A", "", None, "0"])).tolist()
    [True, True, True, False]
    """
    short = pc.utf8_lower(pc.if_else(pc.less(pc.binary_length(text), 8), text, "x"))
    missing: Bools = pc.is_in(short, _NO_VALUE).to_numpy(zero_copy_only=False)
    return missing


def refused(
    text: Any, rows: Bools, rule: str, advice: Callable[[str], str] | None, code: str
) -> dict[int, str]:
    """Return the reasons for rows whose text breaks a rule; the first few include advice."""
    wrong: dict[int, str] = {}
    for place, row in enumerate(np.flatnonzero(rows).tolist()):
        said = text[row].as_py()
        more = advice(said) if advice and place < ADVISED else ""
        wrong[row] = Reason(rule, f"; received {said[:60]!r}{more}", code)
    return wrong


def python_value(cell: Any) -> Any:
    """Return a cell as a Python value, or as text if Python has no such value.

    >>> python_value(pa.scalar(7)), python_value(pa.scalar(1, pa.time64("ns")))
    (7, '00:00:00.000000001')
    """
    try:
        return cell.as_py()
    except (ValueError, ArithmeticError):
        # Nanoseconds, years after 9999, and decimals with a very large scale.
        try:
            return cell.cast(pa.string()).as_py()
        except pa.ArrowException:
            return str(cell.type)


def decoded(table: pa.Table) -> pa.Table:
    """Return a table without dictionary columns, with text as plain strings."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = _spread(column)
        columns.append(column.cast(pa.string()) if pa.types.is_string_view(column.type) else column)
    return pa.table(columns, names=table.column_names)


# ----------------------------------------------------------------------
# Text columns as Arrow arrays, for millions of ids.


#: Texts, as Python strings or as an Arrow array.
Texts: TypeAlias = "Sequence[str] | pa.Array"


def as_column(texts: Texts) -> pa.Array:
    """Return texts as an Arrow array."""
    if isinstance(texts, pa.ChunkedArray):
        return texts.chunk(0) if texts.num_chunks == 1 else texts.combine_chunks()
    return texts if isinstance(texts, pa.Array) else pa.array(texts, type=pa.string())


def as_list(texts: Texts) -> list[str]:
    """Return texts as Python strings."""
    found: list[str] = texts.to_pylist() if isinstance(texts, pa.Array) else list(texts)
    return found


def buffers(texts: Texts) -> tuple[Bytes, AnyArray]:
    """Return the bytes of texts, and the offset at which each one starts and ends.

    >>> data, places = buffers(["a", "é"])
    >>> bytes(data[:3]).decode(), places.tolist()
    ('aé', [0, 1, 3])
    """
    column = as_column(texts)
    if not len(column):
        return np.zeros(1, dtype=np.uint8), np.zeros(1, dtype=np.int32)
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    # If all texts are empty there may be no bytes at all.
    some = data is not None and data.size > 0
    return np.frombuffer(data, dtype=np.uint8) if some else np.zeros(1, dtype=np.uint8), places


# ----------------------------------------------------------------------
# Distinguish texts that look the same.


def told_apart(text: str, in_quotes: Callable[[str], str] = repr) -> str:
    r"""Quote a text, and escape it if it would look like another Unicode form of itself.

    >>> print(told_apart("Köln"), told_apart("Ko\u0308ln"), told_apart("Köln\xa0"))
    'Köln' 'Ko\u0308ln' 'Köln\xa0'
    """
    shown = in_quotes(text)
    if unicodedata.is_normalized("NFC", text):
        return shown
    return shown.encode("ascii", "backslashreplace").decode()
