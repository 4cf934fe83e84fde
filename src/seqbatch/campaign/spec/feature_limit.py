"""Keep at most so many features: those that tell most about units, before outcomes exist.

A column tells as much as two rows differ in it that agree in a column kept so far. That is 0 for a
constant and for what a kept column determines, little for a rare flag, and 1 for a number that is
independent of the kept ones; a missing value counts as a value. Columns are kept in the order
of what they tell for each number that they add to the model.
"""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

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
    seen = {
        each.column: SeenColumn.of(columns[each.column], _measured(each, measures))
        for each in made
        if each.became in FEATURES
    }
    room = most - sum(widths[name] for name in widths if name in said)
    free = {name: width for name, width in widths.items() if name not in said}
    kept, tells = _kept(seen, free, room)
    return [
        _beyond(each, f"{counted(most, 'feature')}{because}", widths, tells)
        if each.column in tells and each.column not in kept
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
    seen: Mapping[str, "SeenColumn"], widths: Mapping[str, int], room: int
) -> tuple[set[str], dict[str, float]]:
    """Return the columns to keep, and what each one tells beside them."""
    tells = {name: seen[name].differences() for name in widths}
    left = sorted(widths, key=lambda name: -tells[name] / widths[name])[:COMPARED]
    kept: set[str] = set()
    while fitting := [name for name in left if widths[name] <= room]:
        best = max(fitting, key=lambda name: tells[name] / widths[name])
        left.remove(best)
        kept.add(best)
        room -= widths[best]
        for name in left:
            tells[name] = min(tells[name], seen[name].differences(seen[best].groups))
    return kept, tells


@dataclass(frozen=True, eq=False)
class SeenColumn:
    """The values of a column in some rows.

    Parameters
    ----------
    groups
        Each row's value as a small whole number: tenths of numbers, levels of texts.
    ranks
        For numbers, each row's rank from 0 to 1.
    """

    groups: Integers
    ranks: Floats | None = None

    @classmethod
    def of(cls, column: ColumnProfile, numbers: Floats | None) -> "SeenColumn":
        """Look at some rows of a column; `numbers` are its distinct values if it has numbers."""
        rows = np.linspace(0, column.rows - 1, min(ROWS, column.rows)).astype(np.int64)
        codes = column.codes[rows].astype(np.int64)
        if numbers is None:
            # The most frequent levels, all others together, and missing values.
            rank = np.full(column.distinct + 1, MOST_LEVELS, dtype=np.int64)
            frequent = column.by_count[:MOST_LEVELS]
            rank[frequent] = np.arange(len(frequent))
            rank[-1] = MOST_LEVELS + 1
            return cls(rank[codes])
        # A missing value ranks below all others.
        values = np.append(numbers, -np.inf)[codes]
        _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks = ((np.cumsum(counts) - counts / 2) / len(values))[places]
        tenths = np.minimum((ranks * TENTHS).astype(np.int64), TENTHS - 1)
        return cls(np.where(codes < 0, TENTHS, tenths), ranks)

    def differences(self, same: Integers | None = None) -> float:
        """Return how much two rows differ that are in the same group of another column.

        That is the chance of different values, or the mean squared difference of ranks times 6,
        which is 1 for numbers that are all different; 0 if no two rows are in the same group.

        >>> flag = SeenColumn(np.array([0, 0, 1, 1]))
        >>> round(flag.differences(), 3), flag.differences(flag.groups)
        (0.667, 0.0)
        """
        same = np.zeros_like(self.groups) if same is None else same
        sizes = np.bincount(same).astype(np.float64)
        pairs = float((sizes * (sizes - 1)).sum())
        if not pairs:
            return 0.0
        if self.ranks is not None:
            sums, squares = (np.bincount(same, weights=self.ranks**power) for power in (1, 2))
            return 12 * float((sizes * squares - sums**2).sum()) / pairs
        cells = np.bincount(same * (int(self.groups.max()) + 1) + self.groups).astype(np.float64)
        return float((sizes**2).sum() - (cells**2).sum()) / pairs


def _measured(feature: ColumnProposal, measures: Mapping[str, Floats]) -> Floats | None:
    """Return the distinct values of a number or a date; None for a category or a flag."""
    return measures[feature.column] if feature.became in ("numeric", "date") else None


def _beyond(
    feature: ColumnProposal, most: str, widths: Mapping[str, int], tells: Mapping[str, float]
) -> ColumnProposal:
    name = feature.column
    added = counted(widths[name], "feature")
    why = (
        f"beyond {most}: tells {tells[name]:.2f} in addition to the kept columns, and adds {added}"
    )
    return left_out(name, "limit", why)
