"""Keep at most so many features: those that tell most about units, before outcomes exist.

A column tells as much as the share of rows whose value you would guess wrong, knowing one of the
columns kept so far. That share is 0 for a constant, small for a rare flag and for a copy of a kept
column, and 0.9 for an independent number, which is guessed by tenths; a missing value is a value of
its own. Columns are kept in the order of that share for each number that they add to the model.
"""

import tomllib
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.files.profile import ColumnProfile
from seqbatch.campaign.spec.column_proposal import (
    FEATURES,
    MOST_LEVELS,
    ColumnProposal,
    left_out,
)
from seqbatch.campaign.spec.features import Features
from seqbatch.core.arrays import Floats, Integers
from seqbatch.display import counted

#: The rows that are looked at, the columns that are compared, and the parts of a number's values.
ROWS, COMPARED, TENTHS = 2_000, 400, 10


def limited(
    made: Sequence[ColumnProposal],
    columns: Mapping[str, ColumnProfile],
    measures: Mapping[str, Floats],
    most: int,
    *,
    because: str = "",
    said: Collection[str] = (),
) -> list[ColumnProposal]:
    """Leave out the features that tell least, so that the model has at most `most` of them.

    Parameters
    ----------
    made
        The roles of the columns.
    columns, measures
        The columns by name, and the distinct values of numbers and dates as numbers.
    most
        The largest number of features of a unit: numbers of the model besides the constant.
    because
        Why there is this limit, if you did not set it.
    said
        Columns that stay in any case, because you chose their role.
    """
    widths = {each.column: width(each) for each in made if each.became in FEATURES}
    if sum(widths.values()) <= most:
        return list(made)
    groups = {
        each.column: _groups(columns[each.column], _measured(each, measures))
        for each in made
        if each.became in FEATURES
    }
    room = most - sum(widths[name] for name in widths if name in said)
    free = [name for name in widths if name not in said]
    kept, guessed = _kept(groups, {name: widths[name] for name in free}, room)
    return [
        _beyond(each, f"{counted(most, 'feature')}{because}", widths, guessed)
        if each.column in guessed and each.column not in kept
        else each
        for each in made
    ]


def width(feature: ColumnProposal) -> int:
    """Return how many numbers of the model a feature becomes."""
    return len(model_columns(feature))


def model_columns(feature: ColumnProposal) -> tuple[str, ...]:
    """Return the names of the model's columns that a feature becomes.

    >>> model_columns(ColumnProposal("zip", "categorical", '["Urban", "Rural"]'))
    ('zip=Urban', 'zip=Rural', 'zip=other')
    """
    setting = tomllib.loads(f"it = {feature.setting}")["it"]
    features = Features.model_validate({feature.became: {feature.column: setting}})
    encoder = Encoder(unit="", features=features, start=None, other=True, learned=None)
    return encoder.parts[feature.column].names


def _kept(
    groups: Mapping[str, Integers], widths: Mapping[str, int], room: int
) -> tuple[set[str], dict[str, float]]:
    """Return the columns to keep, and the share of rows in which each one's value is guessed."""
    guessed = {name: guess(groups[name], np.zeros_like(groups[name])) for name in widths}
    left = sorted(widths, key=lambda name: (guessed[name] - 1) / widths[name])[:COMPARED]
    kept: set[str] = set()
    while fitting := [name for name in left if widths[name] <= room]:
        best = max(fitting, key=lambda name: (1 - guessed[name]) / widths[name])
        left.remove(best)
        kept.add(best)
        room -= widths[best]
        for name in left:
            guessed[name] = max(guessed[name], guess(groups[name], groups[best]))
    return kept, guessed


def guess(own: Integers, other: Integers) -> float:
    """Return the share of rows whose value is guessed right from that of another column.

    The guess is the most frequent value among rows with the same value there; if they differ, one
    row fewer is right, because nobody knows a row's own value before guessing it.

    >>> sex, title, ones = np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]), np.zeros(4, dtype=int)
    >>> guess(sex, title), guess(sex, ones)
    (1.0, 0.25)
    """
    size = int(own.max(initial=0)) + 1
    table = np.bincount(other * size + own, minlength=(int(other.max(initial=0)) + 1) * size)
    most = table.reshape(-1, size).max(axis=1)
    several = table.reshape(-1, size).sum(axis=1) > most
    right = np.where(several | (most == 1), np.maximum(most - 1, 0), most)
    return float(right.sum() / max(len(own), 1))


def _measured(feature: ColumnProposal, measures: Mapping[str, Floats]) -> Floats | None:
    """Return the distinct values of a number or a date; None for a category or a flag."""
    return measures[feature.column] if feature.became in ("numeric", "date") else None


def _groups(column: ColumnProfile, numbers: Floats | None) -> Integers:
    """Return the value of some rows as small whole numbers: tenths of numbers, levels of texts."""
    rows = np.linspace(0, column.rows - 1, min(ROWS, column.rows)).astype(np.int64)
    codes = column.codes[rows].astype(np.int64)
    if numbers is None:
        rank = np.full(column.distinct + 1, MOST_LEVELS, dtype=np.int64)
        frequent = column.by_count[:MOST_LEVELS]
        rank[frequent] = np.arange(len(frequent))
        rank[-1] = MOST_LEVELS + 1
        return rank[codes]
    values = np.append(numbers, np.nan)[codes]
    there = values[~np.isnan(values)]
    ends = np.unique(np.quantile(there, np.arange(1, TENTHS) / TENTHS)) if len(there) else there
    return np.where(np.isnan(values), TENTHS, np.searchsorted(ends, values, side="left"))


def _beyond(
    feature: ColumnProposal, most: str, widths: Mapping[str, int], guessed: Mapping[str, float]
) -> ColumnProposal:
    why = (
        f"beyond {most}: it adds {widths[feature.column]:,}, and its value can be guessed in "
        f"{guessed[feature.column]:.0%} of rows"
    )
    return left_out(feature.column, "limit", why)
