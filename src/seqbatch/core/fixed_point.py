"""Sums that are the same to the bit in any order, in any pieces, on any machine.

Numbers are rounded to multiples of a power of two, each column's own, so that the product of any
two is a whole number below 2^63. Whole numbers are added without rounding, and databases can do it
as well: a sum of a billion such products fits into 128 bits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.kernels.fixed import split
from seqbatch.core.statistics import Statistics
from seqbatch.errors import InvalidArgumentError

#: Rounded numbers are at most 2^BITS in size, and products of two at most 2^62.
BITS = 31
#: Rows that are multiplied at once: products of sums of two 16-bit halves add up to less than 2^53,
#: which floating point does without rounding.
ROWS = 1 << 18
LOW = 16


@dataclass(frozen=True)
class Scale:
    """The power of two of each column: numbers are rounded to multiples of 2^-power.

    Parameters
    ----------
    columns
        Of the columns of the model.
    reward
        Of rewards.
    """

    columns: tuple[int, ...]
    reward: int

    @classmethod
    def of(cls, largest: Sequence[float], reward: float, *, whole: Sequence[bool]) -> "Scale":
        """Return the finest scale for columns of these largest sizes.

        Parameters
        ----------
        largest, reward
            How large numbers of each column, and rewards, can be.
        whole
            Which columns hold whole numbers, and need no fractions.

        >>> Scale.of([1.0, 4.0], 10.0, whole=[True, False])
        Scale(columns=(0, 28), reward=27)
        """
        pairs = zip(largest, whole, strict=True)
        powers = tuple(0 if each else power(most) for most, each in pairs)
        return cls(powers, power(reward))

    def halves(self, rows: Floats, rewards: Floats, order: Integers) -> tuple[Floats, Floats]:
        """Return the whole numbers that rows and rewards are rounded to, rewards last, in halves.

        The high half times 2^LOW and the low one add up to the number.
        """
        powers = np.array([*self.columns, self.reward])
        shape = (len(order), len(powers))
        high, low = np.empty(shape), np.empty(shape)
        wrong = split(
            rows, rewards, np.ldexp(1.0, powers), order, 2.0**BITS, 2.0**LOW, high, low
        )  # fmt: skip
        if wrong >= 0:
            both = np.append(rows[order[wrong]], rewards[order[wrong]])
            column = int(np.argmax(~(np.abs(np.ldexp(both, powers)) <= 2.0**BITS)))
            most = math.ldexp(1.0, BITS - int(powers[column]))
            name = "rewards" if column == len(self.columns) else f"column {column}"
            raise InvalidArgumentError(name, f"at most {most:g} in size", both[column])
        return high, low

    def rounded(self, rows: Floats, rewards: Floats) -> Integers:
        """Return the whole numbers that rows and rewards are rounded to, rewards last."""
        high, low = self.halves(rows, rewards, np.arange(len(rows)))
        return (high * 2.0**LOW + low).astype(np.int64)


def power(largest: float) -> int:
    """Return a power p for which `largest` times 2^p is at most 2^BITS and at least half of it."""
    return BITS - math.frexp(largest)[1] if largest > 0 else 0


@dataclass(frozen=True)
class ExactSums:
    """Sums of products of rounded numbers, kept apart in cells; see :class:`Statistics`.

    Parameters
    ----------
    scale
        What was rounded to.
    products
        Python's own integers, of any size: sums of the products of every two columns, the reward
        being the last of them, shape (cells, dim + 1, dim + 1).
    count
        Number of units, shape (cells,).

    Examples
    --------
    >>> scale = Scale.of([1.0], 1.0, whole=[False])
    >>> x, y = np.array([[0.1], [0.2], [0.3]]), np.array([0.7, 0.8, 0.9])
    >>> one = ExactSums.zero(1, scale).added(x, y, np.zeros(3, dtype=np.int64))
    >>> two = ExactSums.zero(1, scale).added(x[::-1], y[::-1], np.zeros(3, dtype=np.int64))
    >>> one.statistics().moment.tolist() == two.statistics().moment.tolist()
    True
    """

    scale: Scale
    products: NDArray[np.object_]
    count: Integers

    @classmethod
    def zero(cls, cells: int, scale: Scale) -> "ExactSums":
        """Return the sums of no units."""
        wide = len(scale.columns) + 1
        products = np.full((cells, wide, wide), 0, dtype=object)
        return cls(scale, products, np.zeros(cells, dtype=np.int64))

    def added(
        self, rows: Floats, rewards: Floats, cells: Integers, *, times: int = 1
    ) -> "ExactSums":
        """Return these sums with rows added to their cells, or taken out (times = -1).

        A cell of -1 skips the row.
        """
        products, count = self.products.copy(), self.count.copy()
        order = np.argsort(cells, kind="stable")
        ends = np.searchsorted(cells[order], np.arange(len(count) + 1))
        high, low = self.scale.halves(rows, rewards, order[ends[0] :])
        for cell, (first, last) in enumerate(pairwise((ends - ends[0]).tolist())):
            for start in range(first, last, ROWS):
                part = slice(start, min(start + ROWS, last))
                products[cell] += times * _products(high[part], low[part])
            count[cell] += times * (last - first)
        return ExactSums(self.scale, products, count)

    def merged(self, other: "ExactSums") -> "ExactSums":
        """Return the sums of both sets of units together."""
        if other.scale != self.scale:
            raise InvalidArgumentError("other", f"sums of the scale {self.scale}", other.scale)
        return ExactSums(self.scale, self.products + other.products, self.count + other.count)

    def statistics(self) -> Statistics:
        """Return the sums as floating point numbers, each rounded once."""
        powers = np.array([*self.scale.columns, self.scale.reward])
        shift = -(powers[:, None] + powers[None, :])
        sums = np.ldexp(self.products.astype(np.float64), shift)
        gram, moment = np.ascontiguousarray(sums[:, :-1, :-1]), sums[:, :-1, -1].copy()
        return Statistics(gram, moment, sums[:, -1, -1].copy(), self.count.copy())


def products_of(whole: Integers) -> NDArray[np.object_]:
    """Return the sums of products of every two columns of whole numbers, as Python's integers.

    Parameters
    ----------
    whole
        Numbers of at most 2^BITS in size, one row a unit.

    >>> products_of(np.array([[2**31, 1], [2**31, -1]])).tolist()
    [[9223372036854775808, 0], [0, 2]]
    """
    wide = whole.shape[1]
    total = np.full((wide, wide), 0, dtype=object)
    for start in range(0, len(whole), ROWS):
        part = whole[start : start + ROWS]
        high, low = part >> LOW, part & (2**LOW - 1)
        total += _products(high.astype(np.float64), low.astype(np.float64))
    return total


def _products(high: Floats, low: Floats) -> NDArray[np.object_]:
    """Return the sums of products of columns of whole numbers, as Python's integers."""
    # A matrix times itself takes half the work of one times another, and gives the mixed products
    # as well: (h + l)^2 - h^2 - l^2.
    both = high + low
    upper, lower = high.T @ high, low.T @ low
    mixed = both.T @ both - upper - lower
    parts = [(upper, 2 * LOW), (mixed, LOW), (lower, 0)]
    # NumPy knows no sum of 128 bits; Python does.
    total: NDArray[np.object_] = sum(
        part.astype(np.int64).astype(object) * 2**shift for part, shift in parts
    )
    return total
