"""Columns that are 0 or 1, several taken together: one code says which of them are 1."""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from seqbatch.core.arrays import Integers
from seqbatch.core.kernels.fixed import join_marks

#: Codes of all cells of some rows that are taken together: their sums stay next to the processor.
ROOM = 1024


@dataclass(frozen=True)
class JoinedMarks:
    """Some rows of marks: a unit's code is its place in a table with an axis for each of them.

    Parameters
    ----------
    firsts, sizes
        The first column of each row, and how many lie between that and its last.
    codes
        Of the units.
    """

    firsts: tuple[int, ...]
    sizes: tuple[int, ...]
    codes: Integers

    @property
    def size(self) -> int:
        """How many codes there are."""
        return math.prod(self.sizes)

    def columns(self, axis: int) -> slice:
        """Return the columns that an axis of the table stands for."""
        return slice(self.firsts[axis], self.firsts[axis] + self.sizes[axis])

    def add_sums(self, table: Integers, columns: Integers, sums: Integers) -> None:
        """Add sums of numbers by code, shape (cells, numbers, codes), to those of columns."""
        apart = table.reshape(*table.shape[:2], *self.sizes)
        for axis in range(len(self.sizes)):
            own = _summed(apart, {0, 1, 2 + axis})
            sums[:, self.columns(axis), columns] += own.swapaxes(1, 2)

    def add_counts(self, cells: Integers, sums: Integers) -> None:
        """Add how many units have both of two columns, each with itself included, in each cell."""
        counts = _counts(cells, self.codes, len(sums), self.size).reshape(-1, *self.sizes)
        for axis, size in enumerate(self.sizes):
            own = np.arange(size) + self.firsts[axis]
            sums[:, own, own] += _summed(counts, {0, 1 + axis})
        for one, two in combinations(range(len(self.sizes)), 2):
            sums[:, self.columns(one), self.columns(two)] += _summed(counts, {0, 1 + one, 1 + two})

    def add_counts_with(self, other: "JoinedMarks", cells: Integers, sums: Integers) -> None:
        """Add how many units have a column of these and a column of others."""
        codes = self.codes * other.size + other.codes
        counts = _counts(cells, codes, len(sums), self.size * other.size)
        apart = counts.reshape(-1, *self.sizes, *other.sizes)
        for one in range(len(self.sizes)):
            for two in range(len(other.sizes)):
                both = _summed(apart, {0, 1 + one, 1 + len(self.sizes) + two})
                sums[:, self.columns(one), other.columns(two)] += both


def joined(marks: Integers, cells: int) -> list[JoinedMarks]:
    """Take rows of marks together, one after another, as long as there is room for their codes."""
    if not marks.size:
        return []
    firsts = marks.min(axis=1).tolist()
    sizes = [last - first + 1 for first, last in zip(firsts, marks.max(axis=1), strict=True)]
    made, begin = [], 0
    for end in range(1, len(marks) + 1):
        if end == len(marks) or math.prod(sizes[begin : end + 1]) * cells > ROOM:
            own = tuple(firsts[begin:end]), tuple(map(int, sizes[begin:end]))
            codes = np.empty(marks.shape[1], dtype=np.int64)
            join_marks(marks[begin:end], np.array(own[0]), np.array(own[1]), codes)
            made.append(JoinedMarks(*own, codes))
            begin = end
    return made


def add_all_counts(parts: list[JoinedMarks], cells: Integers, sums: Integers) -> None:
    """Add how many units have both of two columns to sums of each cell, each pair once."""
    for part in parts:
        part.add_counts(cells, sums)
    for one, two in combinations(parts, 2):
        one.add_counts_with(two, cells, sums)


def _counts(cells: Integers, codes: Integers, count: int, size: int) -> Integers:
    """Return how often each code comes in each cell, those of no cell (-1) left out."""
    found = np.bincount((cells + 1) * size + codes, minlength=(count + 1) * size)
    return found.reshape(count + 1, size)[1:]


def _summed(table: Integers, kept: set[int]) -> Integers:
    """Return the sums over all axes but these."""
    return np.asarray(table.sum(axis=tuple(set(range(table.ndim)) - kept)), dtype=np.int64)
