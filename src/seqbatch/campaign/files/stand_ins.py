"""Values that stand for a missing one: 999, -1, 1900-01-01.

Programs and people write such a value where they must write something. As a number it would pull
the mean of its column; it is one if it is conventional, frequent, and unlike the other values.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from seqbatch.campaign.features.base import Feature
from seqbatch.campaign.features.date import DateFeature
from seqbatch.campaign.features.numeric import NumericFeature
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.display import percent
from seqbatch.errors import Doubt

#: More than this share of rows, at least this many rows, and this many other values.
OFTEN, FEWEST, OTHERS = 0.05, 3, 3
#: A value is unlike the others if it is this many times as frequent as any of them, ...
SPIKE = 5
#: ... or a number this many times as large, or a day this many days away.
TIMES, AWAY = 2, 3_650
NINES = [float("9" * digits) for digits in range(2, 11)]
NEGATIVE = [-1.0, -9.0, *(-nines for nines in NINES)]
EPOCH = date(1970, 1, 1)
DAYS = [
    float((day - EPOCH).days)
    for day in (
        date(1111, 11, 11), date(1753, 1, 1), date(1800, 1, 1), date(1899, 12, 30),
        date(1899, 12, 31), date(1900, 1, 1), date(1901, 1, 1), date(1970, 1, 1), date(1980, 1, 1),
        date(2000, 1, 1), date(2099, 12, 31), date(2999, 12, 31), date(9999, 12, 31),
    )
]  # fmt: skip


def numbers_for_missing(numbers: Floats, counts: Integers, rows: int) -> list[float]:
    """Return the numbers that probably stand for a missing value.

    Parameters
    ----------
    numbers, counts
        The values of a column, and the number of rows with each.
    rows
        The number of rows, including those without a value.

    Examples
    --------
    >>> numbers_for_missing(np.array([31.0, 45.0, 60.0, 999.0]), np.array([30, 30, 30, 10]), 100)
    [999.0]
    """
    values, counts = _distinct(numbers, counts)
    found = [
        place
        for place in _often(values, counts, rows, NINES + NEGATIVE)
        if not np.isin(values[place], NINES) or place == len(values) - 1
    ]
    others = np.delete(values, found)
    if len(others) < OTHERS:
        return []
    usual, most = np.delete(counts, found).max(), float(others.max())
    return [
        value
        for value, count in ((float(values[place]), int(counts[place])) for place in found)
        if (value < 0 <= others.min())
        or (value > most and (value >= TIMES * most or count >= SPIKE * usual))
    ]


def days_for_missing(days: Floats, counts: Integers, rows: int) -> list[date]:
    """Return the dates that probably stand for a missing value; days are counted from 1970.

    >>> days = np.array([-25567.0, 19000.0, 19100.0, 19200.0])
    >>> days_for_missing(days, np.array([10, 30, 30, 30]), 100)
    [datetime.date(1900, 1, 1)]
    """
    values, counts = _distinct(days, counts)
    found = _often(values, counts, rows, DAYS)
    others = np.delete(values, found)
    if len(others) < OTHERS:
        return []
    usual = np.delete(counts, found).max()
    return [
        EPOCH + timedelta(int(values[place]))
        for place in found
        if counts[place] >= SPIKE * usual or np.abs(others - values[place]).min() >= AWAY
    ]


def _distinct(values: Floats, counts: Integers) -> tuple[Floats, Integers]:
    """Return the distinct values in order: 999 and 999.0 may be two texts of one number."""
    unique, places = np.unique(values, return_inverse=True)
    return unique, np.bincount(places, weights=counts, minlength=len(unique)).astype(np.int64)


def _often(values: Floats, counts: Integers, rows: int, wanted: list[float]) -> list[int]:
    """Return the positions of conventional values in many rows."""
    often: Bools = np.isin(values, wanted) & (counts >= FEWEST) & (counts > OFTEN * rows)
    places: list[int] = np.flatnonzero(often).tolist()
    return places


# ----------------------------------------------------------------------
# The same for the features of a file of units, piece by piece.


Numbered = NumericFeature | DateFeature


def stand_ins(
    tables: Callable[[], Iterable[pa.Table]], features: Mapping[str, Feature]
) -> tuple[Doubt, ...]:
    """Return a doubt for each feature with a value that probably stands for a missing one.

    Parameters
    ----------
    tables
        Each call starts a new pass over the units.
    features
        The features, by the column that each is made from.
    """
    parts = {name: part for name, part in features.items() if isinstance(part, Numbered)}
    rows, counts = 0, dict.fromkeys(parts, 0)
    for table in tables() if parts else ():
        rows += table.num_rows
        for name, part in parts.items():
            counts[name] += int(np.isin(_values(part, table), _wanted(part)).sum())
    # Few columns have a conventional value at all; only of those are all values held and sorted.
    often = [name for name, count in counts.items() if count > OFTEN * rows]
    found = []
    for name in often:
        values = np.concatenate([_values(parts[name], table) for table in tables()])
        found += [] if (said := _doubt(parts[name], values)) is None else [said]
    return tuple(found)


def _wanted(part: Numbered) -> list[float]:
    return NINES + NEGATIVE if isinstance(part, NumericFeature) else DAYS


def _values(part: Numbered, table: pa.Table) -> Floats:
    """Return the numbers, or the days from 1970, of a feature; NaN if missing."""
    column = table.column(part.name)
    if isinstance(part, NumericFeature):
        return part.values(column)
    days: Floats = column.cast(pa.int32()).cast(pa.float64()).to_numpy()
    return days


def _doubt(part: Numbered, values: Floats) -> Doubt | None:
    unique, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if isinstance(part, NumericFeature):
        found = [f"{one:.0f}" for one in numbers_for_missing(unique, counts, len(values))]
    else:
        found = [day.isoformat() for day in days_for_missing(unique, counts, len(values))]
    if not found:
        return None
    several = ", ".join(found)
    said = (
        f"{part.name} is {several} in more than {percent(OFTEN)} of rows, which may stand for a "
        f"missing value; if so, declare missing_values = [{several}] before you create the campaign"
    )
    return Doubt("stand-in", (said,), column=part.name, examples=tuple(found))
