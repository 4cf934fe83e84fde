"""Exact sums: the same bits in any order, in any pieces, on any machine."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.kernels.exact import (
    CUT,
    LOWER,
    add_products,
    count_codes,
    count_pairs,
    join_marks,
    round_all,
    spread_sums,
)
from seqbatch.core.statistics import Statistics
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# Columns that are 0 or 1, several taken together: one code says which of them are 1.


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


# ----------------------------------------------------------------------
# Sums that are the same to the bit in any order, in any pieces, on any machine.
#
# Numbers are rounded to multiples of a power of two, each column's own, so that the product of any
# two is a whole number below 2^63. Whole numbers are added without rounding, and databases can do
# it as well: a sum of a billion such products fits into 128 bits.


#: Rounded numbers are at most 2^BITS in size, and products of two at most 2^62.
BITS = 31
LARGEST = 2.0**BITS
#: Units whose numbers are made and added up at once, before others take their place in the caches.
PIECE = 8192


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

    @property
    def powers(self) -> Integers:
        """Of the columns of the model and of rewards, which come last."""
        return np.array([*self.columns, self.reward], dtype=np.int64)

    def rounded(self, rows: Floats, rewards: Floats) -> Integers:
        """Return the whole numbers that rows and rewards are rounded to, rewards last."""
        own, last = arguments.numeric("rows", rows), arguments.numeric("rewards", rewards)
        both = np.column_stack([own, last])
        made = np.empty(both.shape[::-1], dtype=np.int64)
        for place, factor in enumerate(np.ldexp(1.0, self.powers).tolist()):
            values = np.ascontiguousarray(both[:, place])
            fits = round_all(values, factor, LARGEST, made[place])
            if not fits and (problem := self.misfit(place, values)) is not None:
                raise problem
        return np.ascontiguousarray(made.T)

    def misfit(self, column: int, values: Floats) -> InvalidArgumentError | None:
        """Return what to say of numbers of a column that are too large, None where none is."""
        power = int(self.powers[column])
        # What is too large to be a number is too large.
        with np.errstate(over="ignore"):
            wrong = np.flatnonzero(~(np.abs(np.ldexp(values, power)) <= LARGEST))
        if not len(wrong):
            return None
        name = "rewards" if column == len(self.columns) else f"column {column}"
        most = math.ldexp(1.0, BITS - power)
        return InvalidArgumentError(name, f"at most {most:g} in size", values[wrong[0]])


def power(largest: float) -> int:
    """Return a power p for which `largest` times 2^p is at most 2^BITS and at least half of it."""
    return BITS - math.frexp(largest)[1] if largest > 0 else 0


@dataclass(frozen=True)
class Vectors:
    """Vectors of units, as sums take them: those columns apart that are 0 or 1.

    Parameters
    ----------
    numbers, columns
        Returns the numbers of some units, shape (numbers, units), one column of the model after
        another; and which of the model's columns these are.
    marks
        Columns that are 1, one for each unit in every row, shape (marks, n). Rows must have no
        column in common. Columns that are neither here nor there are 0.
    """

    numbers: Callable[[slice], Floats]
    columns: Integers
    marks: Integers

    @classmethod
    def of(cls, rows: Floats) -> "Vectors":
        """Return vectors that may hold any numbers, one row a unit."""
        count, dim = rows.shape
        marks = np.zeros((0, count), dtype=np.int64)
        return cls(lambda some: np.ascontiguousarray(rows[some].T), np.arange(dim), marks)

    def __len__(self) -> int:
        return int(self.marks.shape[1])


@dataclass(frozen=True)
class ExactSums:
    """Sums of products of rounded numbers, kept apart in cells; see :class:`Statistics`.

    Sums are of the products of every two columns, the reward being the last of them. Each is kept
    as two numbers, high times 2^32 and low, for up to 2^32 units.

    Parameters
    ----------
    scale
        What was rounded to.
    high, low
        The sums, shape (cells, dim + 1, dim + 1); low ones are at least 0 and less than 2^32.
    count
        Number of units, shape (cells,).

    Examples
    --------
    >>> scale = Scale.of([1.0], 1.0, whole=[False])
    >>> x, y = np.array([[0.1], [0.2], [0.3]]), np.array([0.7, 0.8, 0.9])
    >>> one = ExactSums.zero(1, scale).added(Vectors.of(x), y, np.zeros(3, dtype=np.int64))
    >>> mirrored = Vectors.of(x[::-1]), y[::-1].copy()
    >>> two = ExactSums.zero(1, scale).added(*mirrored, np.zeros(3, dtype=np.int64))
    >>> one.statistics().moment.tolist() == two.statistics().moment.tolist()
    True
    """

    scale: Scale
    high: Integers
    low: Integers
    count: Integers

    @classmethod
    def zero(cls, cells: int, scale: Scale) -> "ExactSums":
        """Return the sums of no units."""
        wide = len(scale.columns) + 1
        high, low = np.zeros((2, cells, wide, wide), dtype=np.int64)
        return cls(scale, high, low, np.zeros(cells, dtype=np.int64))

    @classmethod
    def of(cls, scale: Scale, products: NDArray[np.object_], count: Integers) -> "ExactSums":
        """Return sums that are Python's own integers, less than 2^94 in size."""
        high, low = products >> CUT, products & LOWER
        return cls(scale, high.astype(np.int64), low.astype(np.int64), count)

    @property
    def products(self) -> NDArray[np.object_]:
        """The sums as Python's own integers: NumPy knows none of more than 64 bits."""
        products: NDArray[np.object_] = self.high.astype(object) * 2**CUT + self.low
        return products

    def added(
        self, vectors: Vectors, rewards: Floats, cells: Integers, *, times: int = 1
    ) -> "ExactSums":
        """Return these sums with units added to their cells, or taken out (times = -1).

        A cell of -1 skips the unit.
        """
        rewards = arguments.numeric("rewards", rewards)
        self._require_alike(vectors, rewards, cells)
        columns = np.append(vectors.columns, len(self.scale.columns))
        more = ExactSums.zero(len(self.count), self.scale)
        factors, fits = np.ldexp(1.0, self.scale.powers[columns]), True
        marks = joined(vectors.marks, len(self.count))
        table = np.zeros((len(self.count), len(columns), marks.size), dtype=np.int64)
        for start in range(0, len(cells), PIECE):
            some = slice(start, min(start + PIECE, len(cells)))
            numbers = arguments.numeric("vectors", vectors.numbers(some))
            fits &= add_products(
                numbers, rewards[some], marks.codes(some), cells[some], factors,
                columns, LARGEST, more.low, more.high, table, more.count,
            )  # fmt: skip
        if not fits and (problem := self._misfit(vectors, rewards, cells)) is not None:
            raise problem
        marks.add_sums(table, columns, more.low)
        marks.add_counts(cells, more.low)
        return self._with(_mirrored(more.high), _mirrored(more.low), more.count, times)

    def _require_alike(self, vectors: Vectors, rewards: Floats, cells: Integers) -> None:
        """Refuse what does not go together: compiled code takes arrays at their word."""
        units = {len(vectors), len(rewards), len(cells)}
        if len(units) > 1:
            rule = "vectors, rewards and cells of the same units"
            raise InvalidArgumentError("cells", rule, f"{sorted(units)} of them")
        least, most = cells.min(initial=-1), cells.max(initial=-1)
        if not (least >= -1 and most < len(self.count)):
            rule = f"between -1 and {len(self.count) - 1}"
            raise InvalidArgumentError("cells", rule, f"{least} to {most}")

    def _misfit(
        self, vectors: Vectors, rewards: Floats, cells: Integers
    ) -> InvalidArgumentError | None:
        """Return what to say of units, but for skipped ones, with too large a number."""
        columns = np.append(vectors.columns, len(self.scale.columns)).tolist()
        pairs = zip(columns, [*vectors.numbers(slice(0, len(cells))), rewards], strict=True)
        found = (self.scale.misfit(column, values[cells >= 0]) for column, values in pairs)
        return next((each for each in found if each is not None), None)

    def merged(self, other: "ExactSums") -> "ExactSums":
        """Return the sums of both sets of units together."""
        if other.scale != self.scale:
            raise InvalidArgumentError("other", f"sums of the scale {self.scale}", other.scale)
        return self._with(other.high, other.low, other.count, 1)

    def _with(self, high: Integers, low: Integers, count: Integers, times: int) -> "ExactSums":
        """Return these sums with others added so many times."""
        low = self.low + times * low
        high = self.high + times * high + (low >> CUT)
        return ExactSums(self.scale, high, low & LOWER, self.count + times * count)

    def statistics(self) -> Statistics:
        """Return the sums as floating point numbers, each rounded once."""
        powers = self.scale.powers
        shift = -(powers[:, None] + powers[None, :])
        sums = np.ldexp(self.products.astype(np.float64), shift)
        gram, moment = np.ascontiguousarray(sums[:, :-1, :-1]), sums[:, :-1, -1].copy()
        return Statistics(gram, moment, sums[:, -1, -1].copy(), self.count.copy())


def _mirrored(sums: Integers) -> Integers:
    """Return the sums of every pair in both its places, of which one is still 0."""
    both: Integers = sums + sums.swapaxes(1, 2)
    diagonal = np.arange(sums.shape[1])
    both[:, diagonal, diagonal] = sums[:, diagonal, diagonal]
    return both


def products_of(whole: Integers) -> NDArray[np.object_]:
    """Return the sums of products of every two columns of whole numbers, as Python's integers.

    Parameters
    ----------
    whole
        Numbers of at most 2^BITS in size, one row a unit.

    >>> products_of(np.array([[2**31, 1], [2**31, -1]])).tolist()
    [[9223372036854775808, 0], [0, 2]]
    """
    numbers = whole.astype(np.float64)
    rows, last = Vectors.of(numbers[:, :-1]), np.ascontiguousarray(numbers[:, -1])
    zero = ExactSums.zero(1, Scale((0,) * len(rows.columns), 0))
    sums = zero.added(rows, last, np.zeros(len(whole), dtype=np.int64))
    return np.asarray(sums.products[0], dtype=object)
