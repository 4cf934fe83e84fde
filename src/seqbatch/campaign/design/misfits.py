"""Rows of a file that are no units: totals, headers, units of measure below the header."""

import re
from collections.abc import Collection

import numpy as np
import pyarrow.compute as pc

from seqbatch.campaign.design.limits import MOST_PROBLEMS
from seqbatch.campaign.design.looking import Column
from seqbatch.campaign.design.names import unlikely_id
from seqbatch.campaign.tables.reading import Problem, Source
from seqbatch.campaign.tables.totals import HEADER, refusal, subtotals, worded

#: So many ids may be missing, or this share of them, before a column is taken for something else.
FEW, SHARE = 2, 0.01
#: A column of ids has so many of them for each that it repeats; one of fewer is one of a panel.
TIMES = 20
#: Columns of numbers that must begin with a word before a row is taken for a second header.
LEAST = 2
#: A number, an amount, a date or a time: digits, marks, and three letters at most.
NUMBER = r"^[^\pL]*\pN[^\pL]*(\pL{1,3}[^\pL]*)?$"


def misfits(opened: Source, columns: list[Column], sums: Collection[str]) -> list[Problem]:
    """Return what is wrong with rows that cannot be units, by the places they have in the file.

    Parameters
    ----------
    opened, columns
        The file.
    sums
        The columns whose last number is the sum of all others.
    """
    repeated = _repeated_headers(columns)
    rows = repeated or [
        *_second_header(columns),
        *_totals(columns, sums),
        *_without_ids(columns),
        *_repeated_ids(opened, columns),
    ]
    rows += doubted_rows(columns) if rows else []
    places = opened.lines(np.array([row + 1 for row, _, _ in rows], dtype=np.int64)).tolist()
    return sorted((place, *rest) for place, (_, *rest) in zip(places, rows, strict=True))


def cell(column: Column, row: int) -> str:
    """Return a cell as text, "" where it is missing."""
    code = int(column.codes[row])
    return "" if code < 0 else str(column.values[code].as_py())


def _repeated_headers(columns: list[Column]) -> list[Problem]:
    """Return the rows that repeat the header, as in files that were put one below another."""
    rows = np.arange(columns[0].rows)
    for column in columns:
        if not column.is_text:
            return []
        same = pc.equal(column.texts, column.name).to_numpy(zero_copy_only=False)
        rows = rows[np.append(same, False)[column.codes[rows]]]
        if not len(rows):
            return []
    return [(row, "", HEADER) for row in rows.tolist()]


def _second_header(columns: list[Column]) -> list[Problem]:
    """Return the first row where it has words in every column that has numbers below."""
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
        f"seems to be a second header, or units of measure: {said} in columns that are numbers "
        "below. Keep one header; or where it is a unit, leave the cells of missing numbers empty"
    )
    return [(0, "", reason)]


def _is_number_below(column: Column) -> bool:
    """Say whether all values of a column but the first row's are numbers, and there are some."""
    first = int(column.codes[0])
    others = np.arange(column.distinct) != (first if first >= 0 else -1)
    texts = column.texts.filter(others)
    # The first ones tell of most columns: all of a long one are looked at where they are numbers.
    return bool(len(texts)) and all(
        pc.all(pc.match_substring_regex(part, NUMBER)).as_py() for part in (texts[:100], texts)
    )


def _totals(columns: list[Column], sums: Collection[str]) -> list[Problem]:
    """Return the last row where an id of it says that it holds totals."""
    last = columns[0].rows - 1
    for column in columns:
        unit = cell(column, last)
        named = column is columns[0] or unlikely_id(column.name) < 2
        others = (cell(other, last) for other in columns if other is not column)
        if named and last > 0 and (reason := refusal(unit, others, sums)):
            return [(last, column.name, reason)]
    return []


def doubted_rows(columns: list[Column]) -> list[Problem]:
    """Return the rows but the last that may hold totals, by the first column that says so."""
    for column in columns:
        if column is columns[0] or unlikely_id(column.name) < 2:
            said = np.isin(column.codes[:-1], worded(column.texts))
            found = [(int(row), column.name, _doubt(columns, column, row))
                     for row in np.flatnonzero(said)[:MOST_PROBLEMS]]  # fmt: skip
            if any(reason for *_, reason in found):
                return [each for each in found if each[2]]
    return []


def _doubt(columns: list[Column], column: Column, row: int) -> str:
    others = [cell(other, row) for other in columns if other is not column]
    return subtotals(cell(column, row), others)


def _without_ids(columns: list[Column]) -> list[Problem]:
    """Return rows without an id where all others have one of their own, in a column named so."""
    named = [column for column in columns if unlikely_id(column.name) < 2]
    if any(column.distinct == column.rows for column in named):
        return []
    for column in named:
        few = column.empty <= max(FEW, SHARE * column.rows) and column.empty < column.rows / 2
        if few and column.empty == column.missing and column.distinct == column.present > 1:
            gone = np.flatnonzero(column.codes < 0).tolist()
            reason = "the id is missing; give the unit one, or delete the row if it is none"
            return [(row, column.name, reason) for row in gone]
    return []


def _repeated_ids(opened: Source, columns: list[Column]) -> list[Problem]:
    """Return rows that repeat an id where nearly all have one of their own, in a column named so.

    Where another column of text tells rows apart, it may be the ids: then nothing is returned.
    """
    if any(c.is_text and c.distinct == c.rows and not is_number(c) for c in columns):
        return []
    for column in (column for column in columns if unlikely_id(column.name) < 2):
        again = repeats(column)
        few = 0 < len(again) <= max(FEW, SHARE * column.rows)
        if few and column.distinct >= TIMES * len(again):
            return [(row, column.name, repeated_id(opened, column, row)) for row in again]
    return []


def is_number(column: Column) -> bool:
    """Say whether all values of a column of text look like numbers that have no leading zeros."""
    texts = column.texts
    return all(
        pc.all(pc.match_substring_regex(part, r"^([1-9][\d.,]*|0)$")).as_py()
        for part in (texts[:100], texts)
    )


def repeats(column: Column) -> list[int]:
    """Return the rows whose value stands in an earlier row."""
    there = np.flatnonzero(column.codes >= 0)
    _, firsts = np.unique(column.codes[there], return_index=True)
    again = np.ones(len(there), dtype=np.bool_)
    again[firsts] = False
    rows: list[int] = there[again].tolist()
    return rows


def repeated_id(opened: Source, column: Column, row: int) -> str:
    """Return what is wrong with a row that repeats an id."""
    first = int(np.flatnonzero(column.codes == column.codes[row])[0])
    [line] = opened.lines(np.array([first + 1])).tolist()
    again = f"repeats the id {cell(column, row)!r} of {opened.place} {line:,}"
    return f"{again}; keep one row of each unit"
