"""Which columns tell units apart, and which columns say the same as another."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from seqbatch.campaign.design.limits import LONGEST_ID
from seqbatch.campaign.design.looking import Column
from seqbatch.campaign.design.names import unlikely_id
from seqbatch.campaign.design.spec import RESERVED
from seqbatch.campaign.tables.sizes import text_bytes
from seqbatch.core.arrays import Floats, Integers

#: Columns that are tried as the first of a pair.
FIRSTS = 5


def unit_columns(
    columns: Sequence[Column], numbers: dict[str, Floats], dates: set[str]
) -> list[Column]:
    """Return the column of the ids, or the smallest pair of columns, [] where there is none.

    A column whose name says so comes first, then text, then a pair that such a name begins.
    Numbers under another name are counts or amounts that happen to differ: they are taken for ids
    only where no name says id.

    Parameters
    ----------
    columns
        What the file has.
    numbers
        The distinct values of the columns that are numbers.
    dates
        The names of those that are dates.
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


def _may_tell(column: Column) -> bool:
    """Say whether ids may be in a column: nothing missing, text or whole numbers."""
    kind = column.values.type
    texty = pa.types.is_string(kind) or pa.types.is_integer(kind)
    named = column.name not in RESERVED and 0 < len(column.name) <= 200
    if not texty or not named or column.empty:
        return False
    return int(text_bytes(column.values).max(initial=0)) <= LONGEST_ID


def _pair(usable: list[Column]) -> list[Column]:
    """Return a column whose name is that of ids and the one of fewest values that completes it."""
    firsts = [column for column in usable if unlikely_id(column.name) < 2 and column.distinct > 1]
    firsts.sort(key=lambda column: (unlikely_id(column.name), -column.distinct))
    for first in firsts[:FIRSTS]:
        for second in sorted(usable, key=lambda column: column.distinct):
            if second is not first and _together_unique(first, second):
                return [first, second]
    return []


def _together_unique(one: Column, two: Column) -> bool:
    if one.distinct * two.distinct < one.rows:
        return False
    both = one.codes.astype(np.int64) * two.distinct + two.codes
    return len(np.unique(both)) == one.rows


def numbers_rows(numbers: Floats, codes: Integers) -> bool:
    """Say whether a column counts the rows, one by one from any start."""
    if len(codes) < 3 or (codes < 0).any():
        return False
    return bool((np.diff(numbers[codes]) == 1).all())


def repeated(columns: Sequence[Column], numbers: dict[str, Floats]) -> dict[str, tuple[str, str]]:
    """Return the columns that say the same as an earlier one, with its name and how.

    Numbers are the same where one is a multiple of the other, perhaps moved; other values where
    each value of one goes with one value of the other, in every row.
    """
    seen: dict[bytes, Column] = {}
    found = {}
    for column in columns:
        if column.distinct < 2:
            continue
        mark = _mark(column, numbers.get(column.name))
        first = seen.setdefault(mark, column)
        if first is not column:
            found[column.name] = (first.name, _how(first, column, numbers))
    return found


def _how(one: Column, two: Column, numbers: dict[str, Floats]) -> str:
    if one.name in numbers:
        same = np.array_equal(
            _by_row(one, numbers[one.name]), _by_row(two, numbers[two.name]), equal_nan=True
        )
        return "has the same numbers as" if same else "is a multiple of"
    same = one.texts.take(pa.array(_order(one))).equals(two.texts.take(pa.array(_order(two))))
    return "has the same values as" if same else "has other words for the values of"


def _mark(column: Column, numbers: Floats | None) -> bytes:
    """Return what two columns have in common where they say the same."""
    if numbers is None:
        ranks = np.full(column.distinct + 1, -1, dtype=np.int32)
        ranks[_order(column)] = np.arange(column.distinct, dtype=np.int32)
        return b"values" + blake2b(ranks[column.codes].tobytes()).digest()
    values = _by_row(column, numbers)
    there = values[~np.isnan(values)]
    # The first two values that differ become 0 and 1: a multiple has the same digits then.
    other = there[int(np.argmax(there != there[0]))]
    return b"numbers" + blake2b((np.round((values - there[0]) / (other - there[0]), 6) + 0.0)
                                .tobytes()).digest()  # fmt: skip


def _order(column: Column) -> Integers:
    """Return the places of the values in the order in which they first occur."""
    there = column.codes[column.codes >= 0]
    places, first = np.unique(there, return_index=True)
    return places[np.argsort(first)]


def _by_row(column: Column, numbers: Floats) -> Floats:
    return np.append(numbers, np.nan)[column.codes]
