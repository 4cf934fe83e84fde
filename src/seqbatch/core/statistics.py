"""Sufficient statistics of linear regression: sums whose size does not grow with the data."""

from dataclasses import dataclass

import numpy as np

from seqbatch.core import arguments, kernels
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True)
class Statistics:
    """Sums over observed units, kept apart in numbered cells, one cell per model.

    Statistics form a monoid with the identity :meth:`zero` and the operation :meth:`merge`. You
    may add rows and merge in any order: counts agree exactly, sums up to rounding. Adding the same
    rows in the same order gives identical bits, however the calls are split.

    Parameters
    ----------
    gram
        Sum of x x', shape (cells, dim, dim).
    moment
        Sum of reward times x, shape (cells, dim).
    squares
        Sum of squared rewards, shape (cells,).
    count
        The number of units, shape (cells,).
    """

    gram: Floats
    moment: Floats
    squares: Floats
    count: Integers

    @classmethod
    def zero(cls, cells: int, dim: int) -> "Statistics":
        """Return the statistics of no units."""
        return cls(
            gram=np.zeros((cells, dim, dim)),
            moment=np.zeros((cells, dim)),
            squares=np.zeros(cells),
            count=np.zeros(cells, dtype=np.int64),
        )

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.count)

    @property
    def dim(self) -> int:
        """The length of a context vector."""
        return int(self.moment.shape[1])

    def add(
        self,
        rows: Floats,
        rewards: Floats,
        cells: Integers,
    ) -> "Statistics":
        """Return these statistics with each row added to its cell; rows in cell -1 are skipped."""
        rows = arguments.floats("rows", rows, ("n", self.dim))
        rewards = arguments.floats("rewards", rewards, (len(rows),))
        cells = np.ascontiguousarray(cells, dtype=np.int64)
        if cells.shape != (len(rows),):
            raise InvalidArgumentError(
                "cells", f"one number for each of {len(rows)} rows", f"shape {cells.shape}"
            )
        if len(cells) and not (cells.min() >= -1 and cells.max() < self.cells):
            raise InvalidArgumentError(
                "cells", f"between -1 and {self.cells - 1}", f"{cells.min()} to {cells.max()}"
            )
        # The kernel adds in place, but a state must never change once it has been handed out.
        result = self.copy()
        kernels.accumulate(
            rows, rewards, cells, result.gram, result.moment, result.squares, result.count
        )
        return result

    def merge(self, other: "Statistics") -> "Statistics":
        """Return the statistics of both sets of units together."""
        self._check_same_shape(other)
        return Statistics(
            self.gram + other.gram,
            self.moment + other.moment,
            self.squares + other.squares,
            self.count + other.count,
        )

    def subtract(self, other: "Statistics") -> "Statistics":
        """Return the statistics without the units of `other`, which must be among these."""
        self._check_same_shape(other)
        if (other.count > self.count).any():
            raise InvalidArgumentError(
                "other",
                f"statistics of units counted here, at most {self.count.tolist()} per cell",
                f"counts {other.count.tolist()}",
            )
        return Statistics(
            self.gram - other.gram,
            self.moment - other.moment,
            self.squares - other.squares,
            self.count - other.count,
        )

    def copy(self) -> "Statistics":
        """Return the same statistics in new arrays."""
        return Statistics(
            self.gram.copy(), self.moment.copy(), self.squares.copy(), self.count.copy()
        )

    def _check_same_shape(self, other: "Statistics") -> None:
        if self.moment.shape != other.moment.shape:
            raise InvalidArgumentError(
                "other",
                f"statistics of {self.cells} cells and dimension {self.dim}",
                f"{other.cells} cells and dimension {other.dim}",
            )
