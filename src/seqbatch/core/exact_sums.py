"""Exact sums: identical bits in any order, in any pieces and on any machine."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from seqbatch.core import arguments, kernels
from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.statistics import Statistics
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# Indicator columns (0 or 1): several are combined into one code per unit.


#: Largest number of codes times cells of rows that are joined: their sums fit the processor cache.
ROOM = 1024


@dataclass(frozen=True)
class JoinedMarks:
    """Several rows of marks, joined: one code per unit encodes its marks in all of them.

    Parameters
    ----------
    columns
        The column that is 1 in each row, for each code, shape (rows, codes).
    codes
        The code of each unit.
    """

    columns: Integers
    codes: Integers

    @property
    def size(self) -> int:
        """The number of codes."""
        return int(self.columns.shape[1])

    @classmethod
    def of(cls, marks: Integers, firsts: list[int], sizes: list[int]) -> "JoinedMarks":
        """Join rows, given each row's first column and its number of columns."""
        codes = np.empty(marks.shape[1], dtype=np.int64)
        kernels.exact.join_marks(marks, np.array(firsts), np.array(sizes), codes)
        places = np.indices(sizes).reshape(len(sizes), -1)
        return cls(places + np.array(firsts)[:, None], codes)


@dataclass(frozen=True)
class MarkSums:
    """Sums that involve indicator columns, computed by the codes of joined rows."""

    parts: list[JoinedMarks]

    @property
    def size(self) -> int:
        """The number of codes in all parts together."""
        return sum(part.size for part in self.parts)

    def codes(self, some: slice) -> Integers:
        """Return the codes of some units, numbered through all parts, shape (parts, units)."""
        codes, start = np.empty((len(self.parts), some.stop - some.start), dtype=np.int64), 0
        for own, part in zip(codes, self.parts, strict=True):
            np.add(part.codes[some], start, out=own)
            start += part.size
        return codes

    def add_sums(self, table: Integers, columns: Integers, sums: Integers) -> None:
        """Distribute sums by code, shape (cells, numbers, codes), over pairs of columns."""
        start = 0
        for part in self.parts:
            own = table[:, :, start : start + part.size]
            kernels.exact.spread_sums(own, part.columns, columns, sums)
            start += part.size

    def add_counts(self, cells: Integers, sums: Integers) -> None:
        """Add the number of units per cell that have both of two columns, once for each pair."""
        for part in self.parts:
            kernels.exact.count_codes(cells, part.codes, part.columns, sums)
        for one, two in combinations(self.parts, 2):
            kernels.exact.count_pairs(cells, one.codes, two.codes, one.columns, two.columns, sums)


def joined(marks: Integers, cells: int) -> MarkSums:
    """Join consecutive rows of marks as long as their codes fit into `ROOM`."""
    if not marks.size:
        return MarkSums([])
    firsts = marks.min(axis=1).tolist()
    sizes = (marks.max(axis=1) - firsts + 1).tolist()
    parts, begin = [], 0
    for end in range(1, len(marks) + 1):
        if end == len(marks) or math.prod(sizes[begin : end + 1]) * cells > ROOM:
            some = slice(begin, end)
            parts.append(JoinedMarks.of(marks[some], firsts[some], sizes[some]))
            begin = end
    return MarkSums(parts)


# ----------------------------------------------------------------------
# Sums that do not depend on the order of addition.
#
# Every number is rounded to a multiple of a power of two, which is chosen per column such that the
# product of any two numbers is an integer below 2^63. Integers are added without rounding, and a
# database can do it too: a sum of a billion such products fits into 128 bits.


#: Rounded numbers are at most 2^BITS in absolute value, and products of two at most 2^62.
BITS = 31
LARGEST = 2.0**BITS
#: Units processed at once: few enough for their numbers to stay in the cache.
PIECE = 8192


@dataclass(frozen=True)
class Scale:
    """The rounding of each column: numbers become multiples of 2^-power.

    Parameters
    ----------
    columns
        The powers of the model's columns.
    reward
        The power of rewards.
    """

    columns: tuple[int, ...]
    reward: int

    @classmethod
    def of(cls, largest: Sequence[float], reward: float, *, whole: Sequence[bool]) -> "Scale":
        """Return the finest scale for columns of these largest sizes.

        Parameters
        ----------
        largest, reward
            The largest absolute value of each column, and of rewards.
        whole
            Which columns hold whole numbers and need no fractional bits.

        >>> Scale.of([1.0, 4.0], 10.0, whole=[True, False])
        Scale(columns=(0, 28), reward=27)
        """
        pairs = zip(largest, whole, strict=True)
        powers = tuple(0 if each else power(most) for most, each in pairs)
        return cls(powers, power(reward))

    @property
    def powers(self) -> Integers:
        """The powers of the model's columns, then that of rewards."""
        return np.array([*self.columns, self.reward], dtype=np.int64)

    def rounded(self, rows: Floats, rewards: Floats) -> Integers:
        """Return rows and rewards rounded to integers; rewards are the last column."""
        own, last = arguments.numeric("rows", rows), arguments.numeric("rewards", rewards)
        both = np.column_stack([own, last])
        made = np.empty(both.shape[::-1], dtype=np.int64)
        for place, factor in enumerate(np.ldexp(1.0, self.powers).tolist()):
            values = np.ascontiguousarray(both[:, place])
            fits = kernels.exact.round_all(values, factor, LARGEST, made[place])
            if not fits and (problem := self.misfit(place, values)) is not None:
                raise problem
        return np.ascontiguousarray(made.T)

    def misfit(self, column: int, values: Floats) -> InvalidArgumentError | None:
        """Return an error if numbers of a column are too large for the scale, else None."""
        power = int(self.powers[column])
        # Overflow to infinity also means too large.
        with np.errstate(over="ignore"):
            wrong = np.flatnonzero(~(np.abs(np.ldexp(values, power)) <= LARGEST))
        if not len(wrong):
            return None
        name = "rewards" if column == len(self.columns) else f"column {column}"
        most = math.ldexp(1.0, BITS - power)
        return InvalidArgumentError(name, f"at most {most:g} in size", values[wrong[0]])


def power(largest: float) -> int:
    """Return the p with 2^BITS / 2 <= `largest` 2^p <= 2^BITS; 0 if `largest` is 0."""
    return BITS - math.frexp(largest)[1] if largest > 0 else 0


@dataclass(frozen=True)
class Vectors:
    """Context vectors of units, with indicator columns kept apart from numbers.

    Parameters
    ----------
    numbers, columns
        A function that returns the numbers of some units, shape (numbers, units), and the model
        columns of these numbers.
    marks
        Model columns that are 1, one per unit in every row, shape (marks, n). No column may occur
        in two rows. Columns that are in neither `columns` nor `marks` are 0.
    """

    numbers: Callable[[slice], Floats]
    columns: Integers
    marks: Integers

    @classmethod
    def of(cls, rows: Floats) -> "Vectors":
        """Return vectors of arbitrary numbers, one row per unit."""
        count, dim = rows.shape
        marks = np.zeros((0, count), dtype=np.int64)
        return cls(lambda some: np.ascontiguousarray(rows[some].T), np.arange(dim), marks)

    def __len__(self) -> int:
        return int(self.marks.shape[1])


@dataclass(frozen=True)
class ExactSums:
    """Sums of products of rounded numbers, kept apart in cells; see :class:`Statistics`.

    The sums are over the products of every two columns, with the reward as the last column. Each is
    stored as high times 2^32 plus low, for up to 2^32 units.

    Parameters
    ----------
    scale
        The rounding of each column.
    high, low
        The sums, shape (cells, dim + 1, dim + 1), with 0 <= low < 2^32.
    count
        The number of units, shape (cells,).

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
        """Return sums over no units."""
        wide = len(scale.columns) + 1
        high, low = np.zeros((2, cells, wide, wide), dtype=np.int64)
        return cls(scale, high, low, np.zeros(cells, dtype=np.int64))

    @classmethod
    def of(cls, scale: Scale, products: NDArray[np.object_], count: Integers) -> "ExactSums":
        """Return sums from Python integers smaller than 2^94 in absolute value."""
        high, low = products >> kernels.exact.CUT, products & kernels.exact.LOWER
        return cls(scale, high.astype(np.int64), low.astype(np.int64), count)

    @property
    def products(self) -> NDArray[np.object_]:
        """The sums as Python integers, because NumPy's integers end at 64 bits."""
        products: NDArray[np.object_] = self.high.astype(object) * 2**kernels.exact.CUT + self.low
        return products

    def added(
        self, vectors: Vectors, rewards: Floats, cells: Integers, *, times: int = 1
    ) -> "ExactSums":
        """Return these sums with units added to their cells, or removed with times = -1.

        Units in cell -1 are skipped.
        """
        rewards = arguments.numeric("rewards", rewards)
        self._require_same_units(vectors, rewards, cells)
        columns = np.append(vectors.columns, len(self.scale.columns))
        more = ExactSums.zero(len(self.count), self.scale)
        factors, fits = np.ldexp(1.0, self.scale.powers[columns]), True
        marks = joined(vectors.marks, len(self.count))
        table = np.zeros((len(self.count), len(columns), marks.size), dtype=np.int64)
        for start in range(0, len(cells), PIECE):
            some = slice(start, min(start + PIECE, len(cells)))
            numbers = arguments.numeric("vectors", vectors.numbers(some))
            fits &= kernels.exact.add_products(
                numbers, rewards[some], marks.codes(some), cells[some], factors,
                columns, LARGEST, more.low, more.high, table, more.count,
            )  # fmt: skip
        if not fits and (problem := self._misfit(vectors, rewards, cells)) is not None:
            raise problem
        marks.add_sums(table, columns, more.low)
        marks.add_counts(cells, more.low)
        return self._with(_mirrored(more.high), _mirrored(more.low), more.count, times)

    def _require_same_units(self, vectors: Vectors, rewards: Floats, cells: Integers) -> None:
        """Check lengths and cell numbers, because compiled code does not."""
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
        """Return an error for the first number that is too large, skipped units left out."""
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
        """Return these sums plus `times` others."""
        low = self.low + times * low
        high = self.high + times * high + (low >> kernels.exact.CUT)
        return ExactSums(self.scale, high, low & kernels.exact.LOWER, self.count + times * count)

    def statistics(self) -> Statistics:
        """Return the sums as floating-point numbers, each rounded once."""
        powers = self.scale.powers
        shift = -(powers[:, None] + powers[None, :])
        sums = np.ldexp(self.products.astype(np.float64), shift)
        gram, moment = np.ascontiguousarray(sums[:, :-1, :-1]), sums[:, :-1, -1].copy()
        return Statistics(gram, moment, sums[:, -1, -1].copy(), self.count.copy())


def _mirrored(sums: Integers) -> Integers:
    """Copy each pair's sum, so far in one triangle only, to both triangles."""
    both: Integers = sums + sums.swapaxes(1, 2)
    diagonal = np.arange(sums.shape[1])
    both[:, diagonal, diagonal] = sums[:, diagonal, diagonal]
    return both
