"""Ways to divide units into segments."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from seqbatch.core.arrays import AnyArray
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.rows import Rows


class Partition(Protocol):
    """Says in which segment a unit is; it must not look at outcomes."""

    @property
    def name(self) -> str:
        """What it divides by."""

    def levels(self, rows: Rows) -> AnyArray:
        """Return the segment of each unit."""


@dataclass(frozen=True)
class Declared:
    """A column of segments that came with the units, fixed before the campaign."""

    name: str

    def levels(self, rows: Rows) -> AnyArray:
        """Return the segment of each unit."""
        if self.name not in rows.groups:
            known = ", ".join(rows.groups) or "none"
            raise InvalidArgumentError("partition", f"one of the rows' groups ({known})", self.name)
        return rows.groups[self.name]


@dataclass(frozen=True)
class Eligible:
    """Units that could have got each of some actions, and the others.

    Parameters
    ----------
    actions
        Their numbers.
    """

    actions: tuple[int, ...]

    @property
    def name(self) -> str:
        """What it divides by."""
        return f"eligible for {' and '.join(f'action {action}' for action in self.actions)}"

    def levels(self, rows: Rows) -> AnyArray:
        """Say for each unit whether it is eligible for all of them."""
        if rows.eligible is None:
            return np.ones(rows.count, dtype=np.bool_)
        among: AnyArray = np.logical_and.reduce(rows.eligible[:, list(self.actions)], axis=1)
        return among


@dataclass(frozen=True)
class Split:
    """Units whose feature lies above a threshold, and the others.

    Parameters
    ----------
    column
        The place of the feature among the model's columns.
    threshold
        A unit at the threshold lies below.
    label
        The feature's name.
    """

    column: int
    threshold: float
    label: str = ""

    @property
    def name(self) -> str:
        """What it divides by."""
        return f"{self.label or f'column {self.column}'} above {self.threshold:.4g}"

    def levels(self, rows: Rows) -> AnyArray:
        """Say for each unit whether it lies above."""
        above: AnyArray = rows.features[:, self.column] > self.threshold
        return above
