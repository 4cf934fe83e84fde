"""Read unit ids: join id columns, find repeated ids, and ids that differ only in spelling."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files.column_values import (
    Texts,
    as_column,
    as_list,
    buffers,
    texts,
    told_apart,
)
from seqbatch.campaign.files.parallel_pieces import over
from seqbatch.core import kernels
from seqbatch.core.arrays import AnyArray, Bools
from seqbatch.errors import Doubt, RowProblem

# ----------------------------------------------------------------------
# The ids of units: the text of one column, or of several columns joined.
#
# Joined ids can always be split again: a backslash escapes a bar or a backslash within a column.
#
# >>> joined([["7", "a|b"], ["w1", ""]])
# ['7|w1', 'a\\|b|']
# >>> parted(["7|w1", "a\\|b|", ""], 2)
# [['7', 'a|b', ''], ['w1', '', '']]


BAR = "|"
_PART = re.compile(r"((?:[^\\|]|\\.)*)(?:\||$)", re.DOTALL)


def joined(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return one id for each row; two ids are equal only if all columns are equal."""
    if len(columns) == 1:
        return list(columns[0])
    return [BAR.join(map(_marked, parts)) for parts in zip(*columns, strict=True)]


def parted(ids: Sequence[str], columns: int) -> list[list[str]]:
    """Split ids into the columns that they were joined from."""
    if columns == 1:
        return [list(ids)]
    rows = [_parts(each, columns) for each in ids]
    return [[row[place] for row in rows] for place in range(columns)]


def _marked(text: str) -> str:
    if BAR in text or "\\" in text:
        return text.replace("\\", "\\\\").replace(BAR, "\\" + BAR)
    return text


def _parts(text: str, columns: int) -> list[str]:
    parts = text.split(BAR)
    if "\\" in text:
        parts = [re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in _PART.findall(text)]
    # An id that could not be read is empty.
    return (parts + [""] * columns)[:columns]


def read_ids(batch: Any, columns: Sequence[str]) -> tuple[pa.Array, dict[int, tuple[str, str]]]:
    """Return the ids of a piece of a file, and the column and reason of each row's problem."""
    read: list[pa.Array] = []
    wrong: dict[int, tuple[str, str]] = {}
    for column in reversed(columns):
        values, reasons = texts(batch.column(column))
        read.insert(0, values)
        wrong |= {row: (column, reason) for row, reason in reasons.items()}
    if len(read) == 1:
        return read[0], wrong
    return pa.array(joined([each.to_pylist() for each in read]), type=pa.string()), wrong


def with_nul(ids: pa.Array) -> list[int]:
    """Return the rows whose text contains a NUL character, which some databases cannot store."""
    data, places = buffers(ids)
    if not (data[places[0] : places[-1]] == 0).any():
        return []
    return [row for row, each in enumerate(ids.to_pylist()) if "\0" in each]


def id_columns(ids: Texts, columns: Sequence[str]) -> dict[str, pa.Array]:
    """Return ids as their original columns."""
    if len(columns) == 1:
        return {columns[0]: as_column(ids)}
    parts = parted(as_list(ids), len(columns))
    return {
        name: pa.array(part, type=pa.string()) for name, part in zip(columns, parts, strict=True)
    }


# ----------------------------------------------------------------------
# Normalize ids, and hash them to find those that may be the same.


#: The number of leading bits by which hashes are split into parts for sorting.
PART_BITS = 3


def prints_of(ids: pa.Array, key: AnyArray) -> AnyArray:
    """Return a keyed hash of each id, to find candidates for equal ids."""
    data, places = buffers(ids)
    made = np.empty((len(ids), 2), dtype=np.uint64)
    kernels.texts.hash_texts(data, places, key, made)
    return np.ascontiguousarray(made[:, 0])


def repeated_prints(prints: AnyArray) -> AnyArray:
    """Return the hashes that occur more than once, sorted.

    >>> repeated_prints(np.array([3, 1, 3, 2**63], dtype=np.uint64)).tolist()
    [3]
    """
    # Sort in parallel, one part for each value of the leading bits.
    return np.concatenate(list(over(partial(_repeated_among, prints), range(1 << PART_BITS))))


def _repeated_among(prints: AnyArray, part: int) -> AnyArray:
    ordered = np.sort(prints[prints >> np.uint64(64 - PART_BITS) == part])
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def plain_forms(ids: Texts) -> pa.Array:
    """Return ids without differences that arise easily: case, outer spaces, leading zeros.

    >>> plain_forms(["007", "Ann ", "0"]).to_pylist()
    ['7', 'ann', '']
    """
    text = as_column(ids)
    if pc.all(pc.string_is_ascii(text), min_count=0).as_py():
        return pc.ascii_ltrim(pc.ascii_trim_whitespace(pc.ascii_lower(text)), characters="0")
    text = pc.utf8_normalize(text, form="NFC")
    return pc.utf8_ltrim(pc.utf8_trim_whitespace(pc.utf8_lower(text)), characters="0")


def plain_ids(ids: pa.Array, columns: int) -> pa.Array:
    """Return the normalized forms of ids, with each of their columns normalized separately."""
    if columns == 1:
        return plain_forms(ids)
    parts = parted(as_list(ids), columns)
    return pa.array(joined([plain_forms(part).to_pylist() for part in parts]), type=pa.string())


# ----------------------------------------------------------------------
# Find ids that occur twice in a file, and ids that may mean the same unit.


#: The number of pairs of similar ids named in a doubt.
NAMED = 5
#: The number of rows with a repeated id that are listed; the others are only counted.
LISTED = 1_000


class _Ids(Protocol):
    """Ids that can be read in pieces repeatedly."""

    def pieces(self) -> Iterator[Any]:
        """Yield pieces, each with its `ids`."""

    def places(self, rows: Sequence[int]) -> list[str]:
        """Return the positions of rows in the file."""


def similar_ids(units: _Ids, alike: list[AnyArray], columns: int) -> tuple[Doubt, ...]:
    """Return a doubt if different ids of a file may mean the same unit.

    Parameters
    ----------
    units
        The ids.
    alike
        The hashes of their normalized forms, piece by piece.
    columns
        The number of columns that ids consist of.
    """
    every = np.concatenate(alike)
    twins = repeated_prints(every)
    if not len(twins):
        return ()
    suspects = np.isin(every, twins)
    first: dict[str, str] = {}
    pairs, start = [], 0
    for ids in (piece.ids for piece in units.pieces()):
        rows = np.flatnonzero(suspects[start : start + len(ids)])
        chosen = ids.take(rows)
        forms = plain_ids(chosen, columns).to_pylist()
        for each, plain in zip(chosen.to_pylist(), forms, strict=True):
            if first.setdefault(plain, each) != each:
                pairs.append((first[plain], each))
        start += len(ids)
        if len(pairs) >= NAMED:
            break
    if not pairs:
        return ()
    named = [f"{told_apart(one)} and {told_apart(other)}" for one, other in pairs[:NAMED]]
    said = (
        "some ids differ only by case, spaces around them, leading zeros or Unicode form, but "
        f"count as different units: {'; '.join(named)}{'; ...' if len(pairs) > NAMED else ''}"
    )
    return (Doubt("similar-ids", (said,), examples=pairs[0]),)


def repeats_id(unit: str, earlier: str) -> str:
    """Return the reason for a row that has the id of an earlier row.

    >>> repeats_id("A7", "line 3")
    "repeats the id 'A7' of line 3"
    """
    return f"repeats the id {unit!r} of {earlier}"


def more_repeats(count: int) -> str:
    """Return the reason for the first of the rows that are only counted.

    >>> more_repeats(4_500)
    'is the first of 4,500 more rows that repeat an id'
    """
    return f"is the first of {count:,} more rows that repeat an id"


def repeated_ids(units: _Ids, prints: list[AnyArray], unit: str) -> list[RowProblem]:
    """Return the rows whose id occurs in an earlier row, found by hash and then by text.

    The first `LISTED` are returned; the next one has the number of all others, by hash.

    Parameters
    ----------
    units
        The ids.
    prints
        Their hashes, piece by piece.
    unit
        The name of the ids.
    """
    every = np.concatenate(prints) if prints else np.zeros(0, dtype=np.uint64)
    twins = repeated_prints(every)
    if not len(twins):
        return []
    suspects = np.isin(every, twins)
    found = list(islice(_repeats(units, suspects), LISTED + 1))
    earlier = units.places([first for _, _, first in found[:LISTED]])
    problems = [
        RowProblem(row, unit, repeats_id(text, place), "repeated")
        for (row, text, _), place in zip(found, earlier, strict=False)
    ]
    if len(found) > LISTED:
        more = int(suspects.sum()) - len(twins) - LISTED
        problems.append(RowProblem(found[LISTED][0], unit, more_repeats(more), "repeated"))
    return problems


def _repeats(units: _Ids, suspects: Bools) -> Iterator[tuple[int, str, int]]:
    """Yield each row that repeats an id, the id, and the first row that has it."""
    seen: dict[str, int] = {}
    start = 0
    for ids in (piece.ids for piece in units.pieces()):
        rows = np.flatnonzero(suspects[start : start + len(ids)])
        for row, text in zip((rows + start + 1).tolist(), ids.take(rows).to_pylist(), strict=True):
            if (first := seen.setdefault(text, row)) != row:
                yield row, text, first
        start += len(ids)
