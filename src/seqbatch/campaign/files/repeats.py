"""Keep one row of each unit that a file repeats: the first, the last, or the newest by a column."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files.column_values import is_text, means_missing, undictionaried
from seqbatch.campaign.files.date_format import (
    ISO,
    ISO_PATTERN,
    date_formats_for,
    date_spellings,
    read_dates,
)
from seqbatch.campaign.files.ids import prints_of, read_ids, repeated_prints
from seqbatch.campaign.files.number_format import (
    NumberFormat,
    number_formats_for,
    read_numbers,
    spellings,
)
from seqbatch.core.arrays import AnyArray, Bools, Integers
from seqbatch.display import counted
from seqbatch.errors import InvalidArgumentError, RowProblem

# ----------------------------------------------------------------------
# The rule, and what came of it.


#: The rules without a column, and the rule with one.
RULES, NEWEST = ("first", "last"), "newest-by"


@dataclass(frozen=True)
class Dedupe:
    """Which row of a repeated unit counts.

    Parameters
    ----------
    rule
        "first", "last" or "newest-by".
    column
        The column of dates or numbers for "newest-by"; otherwise "".
    """

    rule: str
    column: str = ""

    @classmethod
    def of(cls, text: str) -> "Dedupe":
        """Read a rule as it is typed.

        >>> Dedupe.of("last"), Dedupe.of("newest-by changed at")
        (Dedupe(rule='last', column=''), Dedupe(rule='newest-by', column='changed at'))
        """
        rule, _, column = text.strip().partition(" ")
        if (rule in RULES) != bool(column.strip()) and rule in (*RULES, NEWEST):
            return cls(rule, column.strip())
        expected = "first, last, or newest-by followed by the name of a column"
        raise InvalidArgumentError("dedupe", expected, repr(text))

    def __str__(self) -> str:
        return f"{self.rule} {self.column}".strip()


@dataclass(frozen=True, eq=False)
class Repeats:
    """The rows that count, and how many others there are.

    Parameters
    ----------
    kept
        The indices of the rows that count, in order.
    rows, units
        How many rows are left out, and how many units they repeat.
    rule, ids
        The rule, and the columns of the ids.
    """

    kept: Integers
    rows: int
    units: int
    rule: Dedupe
    ids: tuple[str, ...]

    def __str__(self) -> str:
        by = ", ".join(self.ids)
        if not self.rows:
            return f"no unit ({by}) is repeated"
        which = f"newest of each by {self.rule.column}"
        which = which if self.rule.column else f"{self.rule.rule} of each"
        were = "was a repeat" if self.rows == 1 else "were repeats"
        units = f"{counted(self.units, 'unit')} ({by})"
        return f"{counted(self.rows, 'row')} of {units} {were}; kept the {which}"


class RepeatedRowsError(ValueError):
    """Rows among which the newest cannot be found.

    Parameters
    ----------
    problems
        The problems; rows are counted from 1.
    """

    def __init__(self, problems: list[RowProblem]) -> None:
        super().__init__()
        self.problems = problems


def kept_rows(
    rule: Dedupe,
    batches: Callable[[], Iterable[Any]],
    ids: Sequence[str],
    where: Callable[[int], str],
) -> Repeats:
    """Return which rows of a file count; a row without an id counts, and is refused elsewhere.

    Parameters
    ----------
    rule
        The rule.
    batches
        Each call reads the columns of the ids, and of the rule, in pieces.
    ids
        The columns of the ids.
    where
        Returns the position of a row in the file, such as `line 7`; rows are counted from 1.
    """
    key = np.frombuffer(os.urandom(16), dtype=np.uint64)
    prints, named = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.bool_)]
    for batch in batches():
        units, wrong = read_ids(batch, ids)
        there = np.ones(len(units), dtype=np.bool_)
        there[list(wrong)] = False
        prints.append(prints_of(units, key))
        named.append(there)
    every, fit = np.concatenate(prints), np.concatenate(named)
    suspects = np.isin(every, repeated_prints(every[fit])) & fit
    left_out, count = np.zeros(0, dtype=np.int64), 0
    if suspects.any():
        codes, values = _cells(batches(), ids, rule.column, suspects)
        rows = np.flatnonzero(suspects)
        order = _order(rule, rows, codes, values, where)
        # The last row of each unit in this order counts.
        last = np.append(codes[order][1:] != codes[order][:-1], True)
        left_out, count = rows[order[~last]], len(np.unique(codes[order[~last]]))
    kept = np.ones(len(every), dtype=np.bool_)
    kept[left_out] = False
    return Repeats(np.flatnonzero(kept), len(left_out), count, rule, tuple(ids))


def _cells(
    batches: Iterable[Any], ids: Sequence[str], column: str, chosen: Bools
) -> tuple[Integers, Any]:
    """Return a number for the unit of each chosen row, and the cells of a column in all rows."""
    units, cells, start = [], [], 0
    for batch in batches:
        rows = np.flatnonzero(chosen[start : start + batch.num_rows])
        units.append(read_ids(batch, ids)[0].take(rows))
        cells += [undictionaried(batch.column(column))] if column else []
        start += batch.num_rows
    codes = pa.concat_arrays(units).dictionary_encode().indices.to_numpy()
    return codes.astype(np.int64), pa.concat_arrays(cells) if column else None


def _order(
    rule: Dedupe, rows: Integers, codes: Integers, values: Any, where: Callable[[int], str]
) -> Integers:
    """Return an order of rows by unit in which the row that counts comes last."""
    if not rule.column:
        ages: AnyArray = rows if rule.rule == "last" else -rows
        return np.lexsort((ages, codes))
    ages, unread = _ages(rule.column, values, rows)
    wrong = [
        RowProblem(int(rows[place]) + 1, rule.column, reason, "not-comparable")
        for place, reason in unread.items()
    ]
    order = np.lexsort((ages, codes))
    alike = (codes[order][1:] == codes[order][:-1]) & (ages[order][1:] == ages[order][:-1])
    # Only the newest rows of a unit must differ.
    newest = np.append(codes[order][1:] != codes[order][:-1], True)[1:]
    for place in [] if wrong else np.flatnonzero(alike & newest).tolist():
        one, other = sorted(rows[order[place : place + 2]].tolist())
        reason = (
            f"is as new as {where(one + 1)} of the same unit, with {str(values[one])[:40]!r}; "
            "delete one of them, or keep the first or the last row"
        )
        wrong.append(RowProblem(other + 1, rule.column, reason, "tied"))
    if wrong:
        raise RepeatedRowsError(sorted(wrong))
    return order


# ----------------------------------------------------------------------
# Compare cells by age: dates with their times of day, or numbers.


#: Why a cell has no age.
RULE = "must be a date or a number, to show which row of a repeated unit is the newest"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ages(column: str, every: Any, rows: Integers) -> tuple[AnyArray, dict[int, str]]:
    """Return an increasing number for each chosen row, and the reasons for cells without one."""
    cells = every.take(rows)
    kind = cells.type
    if is_text(kind):
        return _text_ages(column, pc.utf8_trim_whitespace(every), rows)
    missing = np.asarray(cells.is_null(nan_is_null=True))
    reasons = dict.fromkeys(np.flatnonzero(missing).tolist(), f"{RULE}; it is missing")
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        moments = cells.cast(pa.timestamp("us", kind.tz if pa.types.is_timestamp(kind) else None))
        return moments.cast(pa.int64()).fill_null(0).to_numpy(), reasons
    values, wrong = read_numbers(cells).values_and_wrong()
    return values, {**{row: f"{RULE}; {why}" for row, why in wrong.items()}, **reasons}


def _text_ages(column: str, every: Any, rows: Integers) -> tuple[AnyArray, dict[int, str]]:
    cells = every.take(rows)
    missing = means_missing(cells)
    reasons = dict.fromkeys(np.flatnonzero(missing).tolist(), f"{RULE}; it is missing")
    there = pc.unique(cells.filter(pa.array(~missing)))
    if not len(there):
        return np.zeros(len(cells)), reasons
    ways = _ways(there)
    if len(ways) > 1:
        # The other rows may show which of the formats is meant.
        others = pc.unique(every.filter(pa.array(~means_missing(every))))
        misfits = [_misfits(others, way) for way in ways]
        ways = [way for way, count in zip(ways, misfits, strict=True) if count == min(misfits)]
    if len(ways) == 1:
        ages = dict(zip(there.to_pylist(), _read(there, ways[0]), strict=True))
        return np.array([ages.get(cell, 0) for cell in cells.to_pylist()]), reasons
    for place, cell in enumerate(cells.to_pylist()):
        if not missing[place] and not _has_age(cell):
            reasons[place] = f"{RULE}; received {cell[:60]!r}"
    if not reasons:
        some = " and ".join(repr(cell[:40]) for cell in there[:2].to_pylist())
        said = f"must have dates or numbers that can be read in one way; received {some}"
        raise RepeatedRowsError([RowProblem(0, column, said, "not-comparable")])
    return np.zeros(len(cells)), reasons


@dataclass(frozen=True)
class _Way:
    """A way to read cells: a format of dates, or else a format of numbers ("" for plain ones)."""

    date: str = ""
    number: str = ""

    @property
    def form(self) -> NumberFormat | None:
        """The format of numbers; None for plain ones."""
        return NumberFormat.of(self.number) if self.number else None


def _ways(texts: pa.Array) -> list[_Way]:
    """Return the ways that read all texts."""
    dates = [_Way(date=way.format) for way in date_spellings(texts)]
    return dates or [_Way(number=way.example) for way in spellings(texts)]


def _misfits(texts: pa.Array, way: _Way) -> int:
    """Return how many texts a way cannot read."""
    if way.date:
        return len(read_dates(texts, form=way.date)[2])
    return len(read_numbers(texts, form=way.form).wrong)


def _read(texts: pa.Array, way: _Way) -> list[Any]:
    if way.date:
        return [_moment(text, way.date) for text in texts.to_pylist()]
    values: list[float] = read_numbers(texts, form=way.form).values_and_wrong()[0].tolist()
    return values


def _moment(text: str, form: str) -> int:
    """Return the microseconds from 1970 to a date and time; UTC is assumed without a timezone.

    >>> _moment("1970-01-01 00:00:01", "iso"), _moment("02.01.1970 01:00", "%d.%m.%Y %H:%M")
    (1000000, 90000000000)
    """
    if form == ISO:
        found = datetime.fromisoformat(re.sub(r" (?=Z$|[+-]\d)", "", text))
    else:
        found = datetime.strptime(text, form)
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (found - EPOCH) // timedelta(microseconds=1)


def _has_age(cell: str) -> bool:
    """Return whether a cell alone can be read as a date or a number."""
    dated = re.search(ISO_PATTERN, cell) or date_formats_for(cell)
    return bool(dated or number_formats_for(cell))
