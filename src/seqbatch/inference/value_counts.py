"""How often each value of a column occurs, in limited memory: for quantiles of a whole wave."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from seqbatch.core.arrays import AnyArray, Floats, Integers

#: The most different values that are counted one by one.
MOST = 1 << 16
#: How many new values are gathered before they are counted.
GATHERED = 1 << 18
SIGN = np.uint64(1 << 63)


@dataclass(eq=False)
class ValueCounts:
    """The values of a column with their counts, or ranges of values if there are too many.

    A range is all numbers with the same leading bits; it counts as the largest value that was seen
    in it. The number of bits follows from all values together: neither their order nor the pieces
    in which they come change the result.

    Parameters
    ----------
    most
        The most different values, or ranges, that are kept.

    Examples
    --------
    >>> counts = ValueCounts()
    >>> counts.add(np.array([3.0, 1.0, 1.0, -2.0]))
    >>> counts.quantile(0.5), counts.share_above(1.0)
    (1.0, 0.25)
    """

    most: int = MOST
    _shift: int = 0
    _keys: AnyArray = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _counts: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _largest: Floats = field(default_factory=lambda: np.empty(0))
    _new: list[Floats] = field(default_factory=list)

    @classmethod
    def of_columns(cls, pieces: Iterable[Floats]) -> list["ValueCounts"]:
        """Return the counts of each column of a table that comes in pieces."""
        made: list[ValueCounts] = []
        for table in pieces:
            made = made or [cls() for _ in range(table.shape[1])]
            for column, one in zip(table.T, made, strict=True):
                one.add(column)
        return made

    def add(self, values: Floats) -> None:
        """Count some values; none of them may be NaN."""
        self._new.append(np.array(values, dtype=np.float64))
        if sum(map(len, self._new)) >= GATHERED:
            self._settle()

    def quantile(self, share: float) -> float:
        """Return the value below or at which at least this share of the values is."""
        self._settle()
        place = int(np.floor(share * (self._counts.sum() - 1)))
        return float(self._largest[np.searchsorted(np.cumsum(self._counts), place, side="right")])

    def share_above(self, value: float) -> float:
        """Return the share of values above one that :meth:`quantile` returned."""
        self._settle()
        return float(self._counts[self._largest > value].sum() / self._counts.sum())

    def _settle(self) -> None:
        """Count the new values, and widen the ranges as long as there are too many."""
        if not self._new:
            return
        # A negative zero is a zero.
        values = np.concatenate(self._new) + 0.0
        self._new = []
        one = np.ones(len(values), dtype=np.int64)
        self._merge(_in_order(values) >> np.uint64(self._shift), one, values)
        while len(self._keys) > self.most:
            self._shift += 1
            keys, counts, largest = self._keys >> np.uint64(1), self._counts, self._largest
            self._keys = np.empty(0, dtype=np.uint64)
            self._counts, self._largest = np.empty(0, dtype=np.int64), np.empty(0)
            self._merge(keys, counts, largest)

    def _merge(self, keys: AnyArray, counts: Integers, largest: Floats) -> None:
        """Add counted values to those of before."""
        keys = np.concatenate([self._keys, keys])
        counts = np.concatenate([self._counts, counts])
        largest = np.concatenate([self._largest, largest])
        order = np.argsort(keys)
        self._keys, first = np.unique(keys[order], return_index=True)
        self._counts = np.add.reduceat(counts[order], first)
        self._largest = np.maximum.reduceat(largest[order], first)


def _in_order(values: Floats) -> AnyArray:
    """Return whole numbers in the order of the values; the leading bits are those of the values."""
    bits = values.view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)
