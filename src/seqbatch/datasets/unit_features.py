"""Features of the units in a file, for a plan: read as a campaign reads its units."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import polars as pl

from seqbatch.core.arrays import Floats
from seqbatch.datasets.files import one_hot, standardised
from seqbatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    from seqbatch.campaign.files.profile import ColumnProfile, Habits
    from seqbatch.campaign.files.reading import ReadingOptions, Source

# The reader of campaigns needs further packages: it is imported only where it is used.

#: With fewer rows than this, all values of a column may differ by chance.
FEWEST_IDS = 20
#: Text may have at most this many distinct values, or this share of the rows.
FEW_LEVELS, SHARE = 20, 0.1


def features_table(
    path: "str | Path | Source",
    *,
    features: Sequence[str] | None = None,
    **reading: Unpack["ReadingOptions"],
) -> tuple[Floats, tuple[str, ...]]:
    """Load features of units and their column names: numbers standardised, text one-hot.

    Numbers and dates are read in the format that fits the whole column; a missing one becomes the
    median. Dates count as days, yes and no as 1 and 0. A missing text is a level.

    Parameters
    ----------
    path
        A file that a campaign can read, or a table.
    features
        The feature columns, in the desired order; None for all.
    reading
        How to read the file; see :class:`~seqbatch.campaign.files.reading.Source`.
    """
    from seqbatch.campaign.files.profile import habits_of

    columns, semicolons = _profiles(path, reading)
    wanted = list(columns) if features is None else list(features)
    for name in wanted:
        if name not in columns:
            there = f"one of the file's columns ({', '.join(columns)})"
            raise InvalidArgumentError("each of features", there, repr(name))
    if not wanted or len(set(wanted)) < len(wanted):
        rule = "at least one column, without repetition"
        raise InvalidArgumentError("features", rule, f"{wanted}")
    habits = habits_of(columns.values(), semicolons=semicolons)
    encoded = [_encoded(columns[name], habits) for name in wanted]
    names = tuple(name for _, names in encoded for name in names)
    return np.hstack([values for values, _ in encoded]), names


def table_columns(
    path: "str | Path | Source", **reading: Unpack["ReadingOptions"]
) -> dict[str, bool]:
    """Return the file's columns, and whether each looks like an id.

    A column looks like an id if it is text or whole numbers, all distinct in at least 20 rows.
    """
    columns, _ = _profiles(path, reading)
    return {name: _looks_like_id(column) for name, column in columns.items()}


def _profiles(
    path: "str | Path | Source", reading: "ReadingOptions"
) -> tuple[dict[str, "ColumnProfile"], bool]:
    """Return the columns of a file by name, and whether semicolons separate its cells."""
    from seqbatch.campaign.files.profile import profile_of
    from seqbatch.campaign.files.reading import source_of

    with source_of(path, **reading) as opened:
        found = profile_of(opened)
        if opened.ragged:
            raise opened.invalid(sorted(opened.ragged))
        return {column.name: column for column in found.columns}, opened.has_semicolons


def _looks_like_id(column: "ColumnProfile") -> bool:
    numbers = column.numbers[0].numbers if column.numbers else np.zeros(0)
    whole = bool((numbers == np.round(numbers)).all())
    return column.rows >= FEWEST_IDS and column.distinct == column.rows and whole


def _encoded(column: "ColumnProfile", habits: "Habits") -> tuple[Floats, tuple[str, ...]]:
    """Return the values of a column for each row, and their names."""
    from seqbatch.campaign.files.profile import chosen_date, chosen_number

    name = column.name
    if not column.readable or not column.distinct:
        rule, kind = "of numbers, dates, booleans or text", f"type {column.kind}"
        received = kind if not column.readable else "no values"
        raise InvalidArgumentError(f"column {name!r}", rule, received, "Leave it out of features.")
    if (answers := _booleans(column)) is not None:
        return _by_row(column, answers), (name,)
    if column.dates:
        return _by_row(column, chosen_date(column, habits)[0].days(column.values)), (name,)
    if column.numbers:
        return _by_row(column, chosen_number(column, habits)[0].numbers), (name,)
    words = column.distinct + len(column.words)
    if words > max(FEW_LEVELS, SHARE * column.rows):
        raise InvalidArgumentError(
            f"column {name!r}",
            f"text with few distinct values: at most {FEW_LEVELS}, or a tenth of the rows",
            f"{words} in {column.rows} rows",
            "Leave identifiers out of the features, and group rare values.",
        )
    texts: Any = np.append(np.array(column.texts.to_pylist(), dtype=object), "")
    return one_hot(pl.Series(name, texts[column.codes].tolist()))


def _booleans(column: "ColumnProfile") -> Floats | None:
    """Return the distinct values as 1 for yes and 0 for no; None if they mean something else."""
    from seqbatch.campaign.features.boolean import read_booleans

    if column.dates or (column.numbers and not column.is_text):
        return None
    values, wrong = read_booleans(column.values).values_and_wrong()
    return None if wrong else values


def _by_row(column: "ColumnProfile", values: Floats) -> Floats:
    """Return a number for each row, with the median for missing ones, standardised."""
    by_row = np.append(values, np.nan)[column.codes]
    by_row = np.where(np.isnan(by_row), np.nanmedian(by_row), by_row)
    return standardised(by_row[:, None])
