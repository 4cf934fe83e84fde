"""Profile a file: the contents of its columns, its id columns, and rows that are not units."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files.column_name import is_date, unlikely_id
from seqbatch.campaign.files.column_values import (
    is_text,
    means_missing,
    python_value,
    undictionaried,
)
from seqbatch.campaign.files.date_format import MANY_DAYS, DateSpelling, date_spellings
from seqbatch.campaign.files.doubts import header_rows, refusal, repeated_header, subtotal_rows
from seqbatch.campaign.files.ids import LISTED, more_repeats, repeats_id
from seqbatch.campaign.files.number_format import Spelling, spellings
from seqbatch.campaign.files.reading import NO_ROWS, Source
from seqbatch.campaign.files.unpacked_size import text_bytes
from seqbatch.campaign.spec.input_limits import INFERRED, LONGEST_ID, MOST_PROBLEMS
from seqbatch.campaign.spec.spec import RESERVED
from seqbatch.campaign.spec.toml import quoted
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import InvalidFileError, RowProblem

# ----------------------------------------------------------------------
# Column profiles: the distinct values of each column, their counts and their rows.
#
# Every row is read. A file of a million rows fits into memory because each column is stored as
# its distinct values plus, for each row, an index into them.


#: The end of the message for a file that cannot be profiled.
NOTHING = "nothing was made"


@dataclass(frozen=True, eq=False)
class ColumnProfile:
    """A column of a file of units: its values, and the formats that fit them.

    Parameters
    ----------
    name
        The column's name.
    kind
        The Arrow type of its values; always text in a CSV file.
    values
        The distinct values, without missing-value markers; text is unchanged.
    codes
        The index of each row's value in `values`; -1 where it is missing.
    words
        The count of each text that often marks a missing value, such as NA.
    readable
        Whether values of this type can be profiled; lists and other nested types cannot.
    """

    name: str
    kind: pa.DataType
    values: pa.Array
    codes: Integers
    words: Mapping[str, int]
    readable: bool = True

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.codes)

    @cached_property
    def counts(self) -> Integers:
        """The number of rows with each value."""
        return np.bincount(self.codes + 1, minlength=len(self.values) + 1)[1:]

    @property
    def present(self) -> int:
        """The number of rows with a value."""
        return int(self.counts.sum())

    @property
    def missing(self) -> int:
        """The number of rows without a value."""
        return self.rows - self.present

    @property
    def empty(self) -> int:
        """The number of empty rows; words such as NA, which may be ids or levels, do not count."""
        return self.missing - sum(self.words.values())

    @property
    def distinct(self) -> int:
        """The number of distinct values."""
        return len(self.values)

    @property
    def is_text(self) -> bool:
        """Whether the values are text."""
        return bool(pa.types.is_string(self.values.type))

    @cached_property
    def texts(self) -> pa.Array:
        """The distinct values as text, without surrounding spaces."""
        spelled = self.values.cast(pa.string())
        trimmed = pc.utf8_trim_whitespace(spelled)
        # If there was nothing to trim, keep only one copy.
        return spelled if trimmed.equals(spelled) else trimmed

    @cached_property
    def by_count(self) -> Integers:
        """The indices of the values, most frequent first; ties keep their order."""
        return np.argsort(-self.counts, kind="stable")

    @property
    def example(self) -> str:
        """The most frequent value, as text."""
        return str(python_value(self.values[int(self.by_count[0])]))

    def any(self, pattern: str) -> bool:
        """Return whether any value, as text, contains a match of a regular expression."""
        return bool(pc.any(pc.match_substring_regex(self.texts, pattern)).as_py())

    @property
    def has_leading_zeros(self) -> bool:
        """Whether whole numbers have leading zeros, which reading them as numbers would lose."""
        return self.is_text and self.any(r"^0\d+$")

    @cached_property
    def dates(self) -> tuple[DateSpelling, ...]:
        """The formats in which all values can be read as dates; often empty."""
        kind = self.values.type
        if not self.distinct:
            return ()
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return (DateSpelling("iso"),)
        if not (self.is_text or pa.types.is_integer(kind)):
            return ()
        return date_spellings(self.texts, compact=is_date(self.name) or self.distinct >= MANY_DAYS)

    @cached_property
    def numbers(self) -> tuple[Spelling, ...]:
        """The formats in which all values can be read as numbers; empty if they are dates."""
        kind = self.values.type
        texty = self.is_text or pa.types.is_integer(kind)
        if not self.distinct or self.dates or not (texty or pa.types.is_floating(kind)):
            return ()
        if self.has_leading_zeros:
            return ()
        return spellings(self.texts if self.is_text else self.values)


@dataclass(frozen=True)
class OddRows:
    """Rows of a file that may not be units: repeated headers and totals.

    One is made for each piece of a file, and `then` joins them; rows are counted from 1.

    Parameters
    ----------
    rows
        The number of rows checked.
    names, ids
        The columns checked, and those among them whose text may contain "total".
    headers
        Rows that repeat the header.
    subtotals
        Rows that may hold totals, by the column that suggests it.
    last
        The last row, as a batch of one row.
    """

    rows: int
    names: tuple[str, ...]
    ids: tuple[str, ...]
    headers: list[int]
    subtotals: dict[str, list[RowProblem]]
    last: Any

    @classmethod
    def of(cls, batch: Any, start: int, *, names: Iterable[str], ids: Iterable[str]) -> "OddRows":
        """Check a piece of a file whose first row is number `start` + 1."""
        names, ids = tuple(dict.fromkeys(names)), tuple(ids)
        said = {
            unit: subtotal_rows(batch, (unit, *(name for name in names if name != unit)))
            for unit in ids
        }
        return cls(
            batch.num_rows,
            names,
            ids,
            [start + row + 1 for row in header_rows(batch, names)],
            {
                unit: [_totals_row(start + row + 1, unit, reason) for row, reason in found.items()]
                for unit, found in said.items()
            },
            batch.slice(batch.num_rows - 1),
        )

    def then(self, later: "OddRows") -> "OddRows":
        """Return the odd rows of this piece joined with those of the next piece."""
        subtotals = {
            unit: (found + later.subtotals[unit])[:MOST_PROBLEMS]
            for unit, found in self.subtotals.items()
        }
        headers = (self.headers + later.headers)[:MOST_PROBLEMS]
        return replace(later, rows=self.rows + later.rows, headers=headers, subtotals=subtotals)

    def totals(self, sums: Collection[str]) -> list[RowProblem]:
        """Return the last row if one of its ids marks it as a row of totals.

        Parameters
        ----------
        sums
            The columns whose last number is the sum of all the others.
        """
        for unit in self.ids if self.rows > 1 else ():
            cells = (python_value(self.last.column(name)[0]) for name in self.names if name != unit)
            if reason := refusal(str(python_value(self.last.column(unit)[0])), cells, sums):
                return [_totals_row(self.rows, unit, reason)]
        return []

    def doubts(self) -> list[RowProblem]:
        """Return rows before the last that may hold totals, by the first column suggesting it."""
        for found in self.subtotals.values():
            if doubted := [each for each in found if each.row < self.rows]:
                return doubted
        return []


def _totals_row(row: int, column: str, reason: str) -> RowProblem:
    return RowProblem(row, column, reason, "totals-row")


@dataclass(frozen=True, eq=False)
class FileProfile:
    """The profiles of a file's columns, and the rows that may not be units.

    Parameters
    ----------
    columns, odd
        The columns, and the odd rows.
    ids
        The columns of the ids, if only one row of each unit counts; otherwise empty.
    """

    columns: list[ColumnProfile]
    odd: OddRows
    ids: tuple[str, ...] = ()


def profile_of(opened: Source, unit: Sequence[str] = ()) -> FileProfile:
    """Profile every column of a file; refuse a file that has no rows or is too large.

    Parameters
    ----------
    opened
        The file.
    unit
        The columns that identify units, if they are known.
    """
    found = _profiled(opened)
    if opened.dedupe is None:
        return found
    ids = tuple(unit) or repeated_unit(found.columns)
    if not ids:
        return found
    opened.keep_one(ids)
    return replace(_profiled(opened), ids=ids)


def _profiled(opened: Source) -> FileProfile:
    names = opened.columns()
    pieces: list[list[pa.DictionaryArray]] = [[] for _ in names]
    kinds: list[pa.DataType] = []
    odd: OddRows | None = None
    held = rows = 0
    for batch in opened.batches(names, longest=None):
        kinds = [column.type for column in batch.columns]
        for column, own in zip(batch.columns, pieces, strict=True):
            own.append(opened.reading(partial(_encoded, column)))
            held += _bytes(own[-1])
        found = opened.reading(partial(_odd_rows, batch, rows))
        odd = found if odd is None else odd.then(found)
        rows += batch.num_rows
        if held > INFERRED:
            opened.refuse(
                f"a spec is inferred from at most {INFERRED:,} bytes of cells; received more; "
                "give fewer rows or columns",
                "too-large",
            )
    if odd is None:
        raise InvalidFileError(opened.name, [NO_ROWS], NOTHING)
    return FileProfile([_whole(*each) for each in _emptied(names, kinds, pieces)], odd)


def _odd_rows(batch: Any, start: int) -> OddRows:
    """Check a piece before the ids are known: use the first column and columns named like ids."""
    names = batch.schema.names
    ids = [name for name in names if name == names[0] or unlikely_id(name) < 2]
    return OddRows.of(batch, start, names=names, ids=ids)


def _emptied(
    names: list[str], kinds: list[pa.DataType], pieces: list[list[pa.DictionaryArray]]
) -> Iterator[tuple[str, pa.DataType, list[pa.DictionaryArray]]]:
    """Yield the pieces of each column, and free them to make room for the next."""
    for place, name in enumerate(names):
        own, pieces[place] = pieces[place], []
        yield name, kinds[place], own


def _encoded(column: Any) -> pa.DictionaryArray:
    """Return a piece of a column as distinct values and indices."""
    if not _readable(column.type):
        return pa.nulls(len(column), pa.string()).dictionary_encode()
    column = undictionaried(column)
    if pa.types.is_decimal(column.type) or pa.types.is_float16(column.type):
        column = column.cast(pa.float64(), safe=False)
    return column.dictionary_encode()


def _readable(kind: pa.DataType) -> bool:
    """Return whether values of a type can be profiled."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    known = (
        is_text, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating,
        pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp,
    )  # fmt: skip
    return any(is_it(kind) for is_it in known)


def _bytes(piece: pa.DictionaryArray) -> int:
    return int(text_bytes(piece.dictionary).sum()) + 8 * len(piece.dictionary) + 4 * len(piece)


def _whole(name: str, kind: pa.DataType, pieces: list[pa.DictionaryArray]) -> ColumnProfile:
    """Join the pieces of a column."""
    every = pa.concat_arrays([piece.dictionary for piece in pieces]).dictionary_encode()
    values = every.dictionary
    places = every.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    kept = ~np.append(_means_missing(values), True)
    # Renumber the distinct values, leaving out missing-value markers.
    anew = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    start, codes, counts = 0, [], np.zeros(len(kept), dtype=np.int64)
    for piece in pieces:
        end = start + len(piece.dictionary)
        table = np.append(places[start:end], np.int32(-1))
        own = table[piece.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        counts += np.bincount(own + 1, minlength=len(kept))
        codes.append(anew[own])
        start = end
    words = {
        str(values[place]): int(counts[place + 1])
        for place in np.flatnonzero(~kept[:-1]).tolist()
        if pa.types.is_string(values.type) and str(values[place]).strip()
    }
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return ColumnProfile(
        name,
        kind,
        values.filter(pa.array(kept[:-1])),
        np.concatenate(codes),
        words,
        readable=_readable(kind) or pa.types.is_null(kind),
    )


def _means_missing(values: pa.Array) -> Any:
    """Return which distinct values mark a missing value."""
    if pa.types.is_string(values.type):
        return means_missing(pc.utf8_trim_whitespace(values))
    # NaN also marks a missing number.
    return values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)


# ----------------------------------------------------------------------
# Choose how to read a column that can be read in two ways.
#
# A cell such as 1,234 or 03/04/2024 is ambiguous. The file's other columns decide; if they do not
# settle it, the more usual reading is used, and the spec says so.


#: The start of a remark about a column that can be read in two ways.
CHECK = "CHECK:"


@dataclass(frozen=True)
class Habits:
    """The conventions that a file's unambiguous columns follow; None where unknown.

    Parameters
    ----------
    decimal_comma
        Whether the decimal mark is a comma.
    day_first
        Whether the day comes before the month.
    semicolons
        Whether semicolons separate cells, which is usual where the decimal mark is a comma.
    """

    decimal_comma: bool | None = None
    day_first: bool | None = None
    semicolons: bool = False


def habits_of(columns: Iterable[ColumnProfile], *, semicolons: bool = False) -> Habits:
    """Return the conventions found in the file itself and in its unambiguous columns."""
    commas, orders = set(), set()
    for column in columns:
        if len(column.numbers) == 1 and column.is_text and column.any(r"\d[.,]\d"):
            commas.add(column.numbers[0].decimal_comma)
        if len(column.dates) == 1:
            orders.add(column.dates[0].day_first)
    orders.discard(None)
    return Habits(
        decimal_comma=commas.pop() if len(commas) == 1 else None,
        day_first=orders.pop() if len(orders) == 1 else None,
        semicolons=semicolons,
    )


def chosen_number(column: ColumnProfile, habits: Habits) -> tuple[Spelling, str]:
    """Return how to read a column of numbers, and a remark about the choice."""
    if len(column.numbers) == 1:
        return column.numbers[0], ""
    # Without other evidence, a dot before three digits is a decimal mark and a comma separates
    # thousands, as most programs write them.
    comma = habits.semicolons if habits.decimal_comma is None else habits.decimal_comma
    chosen = next((way for way in column.numbers if way.decimal_comma is comma), column.numbers[0])
    marked = next(text for text in column.texts.to_pylist() if "," in text or "." in text)
    place = next(n for n, text in enumerate(column.texts.to_pylist()) if text == marked)
    reason = "as in the file's other columns"
    if habits.decimal_comma is None and habits.semicolons:
        reason = "as usual in files with semicolons"
    elif habits.decimal_comma is None:
        reason = "the usual meaning; no other column shows it"
    return chosen, f"{CHECK} {quoted(marked)} is read as {chosen.numbers[place]:g} ({reason})"


def chosen_date(column: ColumnProfile, habits: Habits) -> tuple[DateSpelling, str]:
    """Return how to read a column of dates, and a remark about the choice."""
    if len(column.dates) == 1:
        return column.dates[0], ""
    order, reason = habits.day_first, "as in the file's other dates"
    if order is None and (habits.decimal_comma or habits.semicolons):
        order, reason = True, "as usual with decimal commas"
    chosen = next((way for way in column.dates if way.day_first is order), None)
    if chosen is None:
        chosen, reason = column.dates[0], "the usual order; no other column shows it"
    first = "day" if chosen.day_first else "month"
    return chosen, (
        f"{CHECK} no day is above 12, so the order of day and month is not clear; read with the "
        f"{first} first ({reason})"
    )


# ----------------------------------------------------------------------
# Find the columns that identify units, and columns that duplicate another.


#: The number of columns tried as the first of a pair.
FIRSTS = 5


def unit_columns(
    columns: Sequence[ColumnProfile], numbers: dict[str, Floats], dates: set[str]
) -> list[ColumnProfile]:
    """Return the column that identifies units, or the smallest such pair; [] if there is none.

    Columns named like ids are preferred, then text columns, then pairs that start with a column
    named like an id. Numeric columns with other names are usually counts or amounts that happen
    to be distinct; they are used only if no column is named like an id.

    Parameters
    ----------
    columns
        The columns of the file.
    numbers
        The distinct values of the numeric columns.
    dates
        The names of the date columns.
    """
    usable = [column for column in columns if _may_tell(column)]
    whole = [
        column
        for column in usable
        if column.distinct + len(column.words) == column.rows
        and column.name not in dates
        and bool(np.all((own := numbers.get(column.name, np.zeros(0))) == np.round(own)))
    ]
    certain = [c for c in whole if unlikely_id(c.name) < 2 or c.name not in numbers]
    if certain:
        return [min(certain, key=lambda column: (unlikely_id(column.name), column.name in numbers))]
    pair = _pair([column for column in usable if not column.missing and column not in whole])
    if pair or any(unlikely_id(column.name) < 2 for column in columns):
        return pair
    return whole[:1]


def repeated_unit(columns: Sequence[ColumnProfile]) -> tuple[str, ...]:
    """Return the column that most likely identifies units that a file repeats; () if none does."""
    usable = [column for column in columns if _may_tell(column)]
    likely = [column for column in usable if unlikely_id(column.name) < 2] or usable
    # A column without repeats, such as the number of an order, is not the one that is meant.
    likely.sort(key=lambda c: (c.distinct == c.rows, unlikely_id(c.name), -c.distinct))
    return tuple(column.name for column in likely[:1])


def _may_tell(column: ColumnProfile) -> bool:
    """Return whether a column can hold ids: no missing values, and text or whole numbers."""
    kind = column.values.type
    texty = pa.types.is_string(kind) or pa.types.is_integer(kind)
    named = column.name not in RESERVED and 0 < len(column.name) <= 200
    if not texty or not named or column.empty:
        return False
    return int(text_bytes(column.values).max(initial=0)) <= LONGEST_ID


def _pair(usable: list[ColumnProfile]) -> list[ColumnProfile]:
    """Return a column named like an id, plus the column with fewest values that completes it."""
    firsts = [column for column in usable if unlikely_id(column.name) < 2 and column.distinct > 1]
    firsts.sort(key=lambda column: (unlikely_id(column.name), -column.distinct))
    for first in firsts[:FIRSTS]:
        for second in sorted(usable, key=lambda column: column.distinct):
            if second is not first and _together_unique(first, second):
                return [first, second]
    return []


def _together_unique(one: ColumnProfile, two: ColumnProfile) -> bool:
    if one.distinct * two.distinct < one.rows:
        return False
    both = one.codes.astype(np.int64) * two.distinct + two.codes
    return len(np.unique(both)) == one.rows


def numbers_rows(numbers: Floats, codes: Integers) -> bool:
    """Return whether a column numbers the rows consecutively, from any start."""
    if len(codes) < 3 or (codes < 0).any():
        return False
    return bool((np.diff(numbers[codes]) == 1).all())


def repeated(
    columns: Sequence[ColumnProfile], numbers: dict[str, Floats]
) -> dict[str, tuple[str, str]]:
    """Return the columns that duplicate an earlier one, with its name and how they are related.

    Numeric columns are duplicates if one is a linear function of the other. Other columns are
    duplicates if their values correspond one to one in every row.
    """
    seen: dict[bytes, ColumnProfile] = {}
    found = {}
    for column in columns:
        if column.distinct < 2:
            continue
        mark = _mark(column, numbers.get(column.name))
        first = seen.setdefault(mark, column)
        if first is not column:
            found[column.name] = (first.name, _how(first, column, numbers))
    return found


def _how(one: ColumnProfile, two: ColumnProfile, numbers: dict[str, Floats]) -> str:
    if one.name in numbers:
        same = np.array_equal(
            _by_row(one, numbers[one.name]), _by_row(two, numbers[two.name]), equal_nan=True
        )
        return "has the same numbers as" if same else "is a multiple of"
    same = one.texts.take(pa.array(_order(one))).equals(two.texts.take(pa.array(_order(two))))
    return "has the same values as" if same else "has other words for the values of"


def _mark(column: ColumnProfile, numbers: Floats | None) -> bytes:
    """Return a hash that two columns share if one duplicates the other."""
    if numbers is None:
        ranks = np.full(column.distinct + 1, -1, dtype=np.int32)
        ranks[_order(column)] = np.arange(column.distinct, dtype=np.int32)
        return b"values" + blake2b(ranks[column.codes].tobytes()).digest()
    values = _by_row(column, numbers)
    there = values[~np.isnan(values)]
    # The first two distinct values become 0 and 1, which gives all multiples the same digits.
    other = there[int(np.argmax(there != there[0]))]
    return b"numbers" + blake2b((np.round((values - there[0]) / (other - there[0]), 6) + 0.0)
                                .tobytes()).digest()  # fmt: skip


def _order(column: ColumnProfile) -> Integers:
    """Return the indices of the values in order of first occurrence."""
    there = column.codes[column.codes >= 0]
    places, first = np.unique(there, return_index=True)
    return places[np.argsort(first)]


def _by_row(column: ColumnProfile, numbers: Floats) -> Floats:
    return np.append(numbers, np.nan)[column.codes]


# ----------------------------------------------------------------------
# Find rows that are not units: totals, repeated headers, units of measure below the header.


#: A column may still be an id column with this many ids missing, or this share of them.
FEW_MISFITS, SHARE = 2, 0.01
#: An id column has at least this many ids per repeated one; with fewer it is part of a panel.
TIMES = 20
#: A row is a second header only if at least this many numeric columns start with a word.
LEAST = 2
#: A number, an amount, a date or a time: digits, punctuation, and at most three letters.
NUMBER = r"^[^\pL]*\pN[^\pL]*(\pL{1,3}[^\pL]*)?$"


def misfits(opened: Source, profile: FileProfile, sums: Collection[str]) -> list[RowProblem]:
    """Return the problems of rows that cannot be units, by their position in the file.

    Parameters
    ----------
    opened, profile
        The file.
    sums
        The columns whose last number is the sum of all the others.
    """
    columns, odd = profile.columns, profile.odd
    rows = [repeated_header(row, "") for row in odd.headers] or [
        *_second_header(columns),
        *odd.totals(sums),
        *_without_ids(columns),
        *_repeated_ids(opened, columns),
    ]
    rows += odd.doubts() if rows else []
    return sorted(opened.placed(rows))


def cell(column: ColumnProfile, row: int) -> str:
    """Return a cell as text, or "" if it is missing."""
    code = int(column.codes[row])
    return "" if code < 0 else str(python_value(column.values[code]))


def _second_header(columns: list[ColumnProfile]) -> list[RowProblem]:
    """Return the first row if it has words in every column that has numbers below."""
    words = []
    for column in columns:
        if column.is_text and column.rows > 2 and _is_number_below(column):
            first = cell(column, 0)
            if not first or re.search(r"\d", first):
                return []
            words.append(first)
    if len(words) < LEAST:
        return []
    said = ", ".join(repr(word[:40]) for word in words[:3])
    reason = (
        f"seems to be a second header, or units of measure: {said} in columns that hold numbers "
        "below. Keep one header; or, if the row is one of the units, leave the cells of "
        "missing numbers empty"
    )
    return [RowProblem(1, "", reason, "second-header")]


def _is_number_below(column: ColumnProfile) -> bool:
    """Return whether all values except the first row's are numbers, with at least one of them."""
    first = int(column.codes[0])
    others = np.arange(column.distinct) != (first if first >= 0 else -1)
    texts = column.texts.filter(others)
    # The first few values settle most columns; read all of them only if those are numbers.
    return bool(len(texts)) and all(
        pc.all(pc.match_substring_regex(part, NUMBER)).as_py() for part in (texts[:100], texts)
    )


def _without_ids(columns: list[ColumnProfile]) -> list[RowProblem]:
    """Return rows without an id, if all other ids in a column named like ids are unique."""
    named = [column for column in columns if unlikely_id(column.name) < 2]
    if any(column.distinct == column.rows for column in named):
        return []
    for column in named:
        few = (
            column.empty <= max(FEW_MISFITS, SHARE * column.rows) and column.empty < column.rows / 2
        )
        if few and column.empty == column.missing and column.distinct == column.present > 1:
            gone = np.flatnonzero(column.codes < 0).tolist()
            reason = "the id is missing; add it, or delete the row if it is not a unit"
            return [RowProblem(row + 1, column.name, reason, "missing") for row in gone]
    return []


def _repeated_ids(opened: Source, columns: list[ColumnProfile]) -> list[RowProblem]:
    """Return rows that repeat an id, if nearly all ids in a column named like ids are unique.

    Return nothing if another text column is unique in every row, since that may hold the ids.
    """
    if any(c.is_text and c.distinct == c.rows and not is_number(c) for c in columns):
        return []
    for column in (column for column in columns if unlikely_id(column.name) < 2):
        again = repeats(column)
        few = 0 < len(again) <= max(FEW_MISFITS, SHARE * column.rows)
        if few and column.distinct >= TIMES * len(again):
            reasons = [repeated_id(opened, column, row) for row in again[:LISTED]]
            reasons += [more_repeats(len(again) - LISTED)] if len(again) > LISTED else []
            return [
                RowProblem(row + 1, column.name, reason, "repeated")
                for row, reason in zip(again, reasons, strict=False)
            ]
    return []


def is_number(column: ColumnProfile) -> bool:
    """Return whether all values of a text column look like numbers without leading zeros."""
    texts = column.texts
    return all(
        pc.all(pc.match_substring_regex(part, r"^([1-9][\d.,]*|0)$")).as_py()
        for part in (texts[:100], texts)
    )


def repeats(column: ColumnProfile) -> list[int]:
    """Return the rows whose value occurs in an earlier row."""
    there = np.flatnonzero(column.codes >= 0)
    _, firsts = np.unique(column.codes[there], return_index=True)
    again = np.ones(len(there), dtype=np.bool_)
    again[firsts] = False
    rows: list[int] = there[again].tolist()
    return rows


def repeated_id(opened: Source, column: ColumnProfile, row: int) -> str:
    """Return the message for a row that repeats an id."""
    first = int(np.flatnonzero(column.codes == column.codes[row])[0])
    [line] = opened.lines(np.array([first + 1])).tolist()
    again = repeats_id(cell(column, row), f"{opened.place} {line:,}")
    return f"{again}; keep one row for each unit"


# ----------------------------------------------------------------------
# Explain why no column identifies the units: the problems of the columns named like ids.


#: The number of columns that the message names.
FEW_IDS = 3
#: The message for a first column without a name.
NAMELESS = (
    "the first column has no name and may be a data frame's index; to use it as the id, give it "
    "a name"
)
REASON = (
    "no column of text or whole numbers has a different value in every row, nor does an id "
    "together with another column. Add a column that identifies units"
)


def no_ids(opened: Source, columns: list[ColumnProfile]) -> list[RowProblem]:
    """Return the problems of a file in which no column identifies the units."""
    found = [RowProblem(0, "", REASON, "no-ids")]
    if opened.has_index:
        found.append(RowProblem(0, "", NAMELESS, "unnamed-column"))
    for column in [each for each in columns if unlikely_id(each.name) < 2][:FEW_IDS]:
        found.extend(opened.changed_ids([column.name]) or _faults(opened, column))
    return found


def _faults(opened: Source, column: ColumnProfile) -> list[RowProblem]:
    """Return the first missing and the first repeated value of a column, with their counts."""
    faults: list[RowProblem] = []
    gone, again = np.flatnonzero(column.codes < 0).tolist(), repeats(column)
    if gone:
        reason = f"the id is missing (the first of {len(gone):,} rows without one)"
        faults.append(RowProblem(gone[0] + 1, column.name, reason, "missing"))
    if again:
        reason = repeated_id(opened, column, again[0])
        reason = f"{reason} (the first of {len(again):,} repeats)"
        faults.append(RowProblem(again[0] + 1, column.name, reason, "repeated"))
    return opened.placed(faults)
