"""Columns that are 0 or 1, several taken together: one code says which of them are 1."""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from seqbatch.core.arrays import Integers
from seqbatch.core.kernels.marks import count_codes, count_pairs, join_marks, spread_sums

#: Codes of all cells of rows that are taken together: their sums stay next to the processor.
ROOM = 1024


@dataclass(frozen=True)
class JoinedMarks:
    """Some rows of marks, and a code of each unit that stands for what all of them say.

    Parameters
    ----------
    columns
        What each row says of the units of a code: their column that is 1, shape (rows, codes).
    codes
        Of the units.
    """

    columns: Integers
    codes: Integers

    @property
    def size(self) -> int:
        """How many codes there are."""
        return int(self.columns.shape[1])

    @classmethod
    def of(cls, marks: Integers, firsts: list[int], sizes: list[int]) -> "JoinedMarks":
        """Join rows, each with its first column and how many there are up to its last."""
        codes = np.empty(marks.shape[1], dtype=np.int64)
        join_marks(marks, np.array(firsts), np.array(sizes), codes)
        places = np.indices(sizes).reshape(len(sizes), -1)
        return cls(places + np.array(firsts)[:, None], codes)


@dataclass(frozen=True)
class MarkSums:
    """Sums that columns of 0 and 1 have a part in, by the codes of rows that are joined."""

    parts: list[JoinedMarks]

    @property
    def size(self) -> int:
        """How many codes there are, of all parts together."""
        return sum(part.size for part in self.parts)

    def codes(self, some: slice) -> Integers:
        """Return the codes of some units, one part after another, shape (parts, units)."""
        made, start = np.empty((len(self.parts), some.stop - some.start), dtype=np.int64), 0
        for own, part in zip(made, self.parts, strict=True):
            np.add(part.codes[some], start, out=own)
            start += part.size
        return made

    def add_sums(self, table: Integers, columns: Integers, sums: Integers) -> None:
        """Add sums of numbers by code, shape (cells, numbers, codes), to those of two columns."""
        start = 0
        for part in self.parts:
            own = table[:, :, start : start + part.size]
            spread_sums(own, part.columns, columns, sums)
            start += part.size

    def add_counts(self, cells: Integers, sums: Integers) -> None:
        """Add how many units of each cell have both of two columns, each pair once."""
        for part in self.parts:
            count_codes(cells, part.codes, part.columns, sums)
        for one, two in combinations(self.parts, 2):
            count_pairs(cells, one.codes, two.codes, one.columns, two.columns, sums)


def joined(marks: Integers, cells: int) -> MarkSums:
    """Join rows of marks, one after another, as long as there is room for their codes."""
    if not marks.size:
        return MarkSums([])
    firsts = marks.min(axis=1).tolist()
    sizes = (marks.max(axis=1) - firsts + 1).tolist()
    made, begin = [], 0
    for end in range(1, len(marks) + 1):
        if end == len(marks) or math.prod(sizes[begin : end + 1]) * cells > ROOM:
            some = slice(begin, end)
            made.append(JoinedMarks.of(marks[some], firsts[some], sizes[some]))
            begin = end
    return MarkSums(made)
