"""One column of a file at a time: ids, numbers and categories, with what is wrong with each row."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.limits import LARGEST_NUMBER, MOST_PROBLEMS
from seqbatch.campaign.tables.reading import Problem
from seqbatch.core.arrays import Floats

#: What is wrong with a value that is not there.
MISSING = "is missing"


class Problems:
    """What is wrong with a file, found piece by piece."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, start: int, column: str, reasons: dict[int, str]) -> None:
        """Add reasons by row of a piece whose first row of data is number `start` + 1."""
        room = MOST_PROBLEMS - len(self.found)
        for row in sorted(reasons)[: max(room, 0)]:
            self.found.append((start + row + 1, column, reasons[row]))

    def whole(self, column: str, reason: str) -> None:
        """Add a problem of a whole column."""
        self.found.append((0, column, reason))


def texts(column: Any) -> tuple[list[str], dict[int, str]]:
    """Return a column as text, ids as they stand, and what is wrong with its rows."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if not _texty(kind):
        return [""] * len(column), _every(column, f"must be text or whole numbers; received {kind}")
    values: list[Any] = column.cast(pa.string()).to_pylist()
    wrong = {}
    if column.null_count or "" in values:
        wrong = {row: MISSING for row, value in enumerate(values) if not value}
        values = [value or "" for value in values]
    return values, wrong


def numbers(column: Any) -> tuple[Floats, dict[int, str]]:
    """Return a column as finite numbers, and what is wrong with its rows."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _parsed(column)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not holds_numbers(kind):
        values = np.full(len(column), np.nan)
        return values, _every(column, f"must be numbers; received {kind}")
    if column.null_count:
        missing = np.asarray(column.is_null())
        values = column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
        return values, {**_unfit(values), **{int(r): MISSING for r in np.flatnonzero(missing)}}
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values, _unfit(values)


def holds_numbers(kind: Any) -> bool:
    """Say whether values of a type are numbers, or may be read as such."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
    )


def categories(column: Any) -> tuple[Any, dict[int, str]]:
    """Return a column as dictionary-encoded text, and which of its rows are missing."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if not (_texty(column.type) or pa.types.is_boolean(column.type)):
        empty = pa.array([""] * len(column)).dictionary_encode()
        return empty, {0: f"must be text, whole numbers or booleans; received {kind}"}
    encoded = pc.dictionary_encode(column.cast(pa.string()))
    wrong = {}
    if column.null_count:
        wrong = {int(r): MISSING for r in np.flatnonzero(np.asarray(column.is_null()))}
    # A file that was written by hand may spell what is missing in both ways.
    if (place := encoded.dictionary.index("").as_py()) >= 0:
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        wrong |= {int(r): MISSING for r in np.flatnonzero(places == place)}
    return encoded, wrong


def _every(column: Any, reason: str) -> dict[int, str]:
    """Say the same of every row: each of them is judged by itself."""
    return dict.fromkeys(range(len(column)), reason)


def _texty(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_integer(kind)
    )


def _parsed(column: Any) -> tuple[Floats, dict[int, str]]:
    import polars as pl

    text = pl.from_arrow(column)
    assert isinstance(text, pl.Series)
    text = text.str.strip_chars()
    parsed = text.cast(pl.Float64, strict=False)
    wrong: dict[int, str] = {}
    values = parsed.fill_null(0.0).to_numpy()
    if parsed.null_count():
        for row in np.flatnonzero(parsed.is_null().to_numpy()):
            said = text[int(row)]
            wrong[int(row)] = f"must be a number; received {said[:60]!r}" if said else MISSING
    return values, {**_unfit(values), **wrong}


def _unfit(values: Floats) -> dict[int, str]:
    # One pass finds NaN, infinity and overflow to come: a comparison with NaN is false.
    if not len(values) or (values.min() > -LARGEST_NUMBER and values.max() < LARGEST_NUMBER):
        return {}
    rule = f"must be finite and below {LARGEST_NUMBER:g} in size"
    return {
        int(row): f"{rule}; received {values[row]}"
        for row in np.flatnonzero(~(np.abs(values) < LARGEST_NUMBER))
    }


def decoded(table: pa.Table) -> pa.Table:
    """Return a table whose dictionary columns are plain, and whose text is of the one kind."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        columns.append(column.cast(pa.string()) if pa.types.is_string_view(column.type) else column)
    return pa.table(columns, names=table.column_names)
