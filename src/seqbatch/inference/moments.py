"""Means and central moments of several columns, which add up over pieces."""

from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import Floats


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean, and sums of the second, third and fourth powers of deviations from it.

    Kept as central sums and merged by Pébay's formulas (2008): sums of plain powers would lose
    every digit where the mean is large.

    Parameters
    ----------
    count
        How many rows.
    mean, second, third, fourth
        One number for each column.

    Examples
    --------
    >>> import numpy as np
    >>> columns = np.array([[1.0], [2.0], [6.0]])
    >>> whole, parts = Moments.of(columns), Moments.of(columns[:1]).merge(Moments.of(columns[1:]))
    >>> float(whole.variance[0]), float(parts.variance[0]), float(parts.kurtosis[0])
    (7.0, 7.0, 1.5)
    """

    count: int
    mean: Floats
    second: Floats
    third: Floats
    fourth: Floats

    @classmethod
    def of(cls, columns: Floats) -> "Moments":
        """Return the moments of an array's columns."""
        if not len(columns):
            return cls(0, *(np.zeros(columns.shape[1]) for _ in range(4)))
        mean = columns.mean(axis=0)
        away = columns - mean
        squares = away * away
        third, fourth = (np.einsum("ij,ij->j", squares, one) for one in (away, squares))
        return cls(len(columns), mean, squares.sum(axis=0), third, fourth)

    def merge(self, other: "Moments") -> "Moments":
        """Return the moments of both sets of rows together."""
        a, b = self.count, other.count
        if not a or not b:
            return self if a else other
        n, gap = a + b, other.mean - self.mean
        second = self.second + other.second + gap**2 * a * b / n
        third = (
            self.third
            + other.third
            + gap**3 * a * b * (a - b) / n**2
            + 3 * gap * (a * other.second - b * self.second) / n
        )
        fourth = (
            self.fourth
            + other.fourth
            + gap**4 * a * b * (a * a - a * b + b * b) / n**3
            + 6 * gap**2 * (a * a * other.second + b * b * self.second) / n**2
            + 4 * gap * (a * other.third - b * self.third) / n
        )
        return Moments(n, self.mean + gap * b / n, second, third, fourth)

    @property
    def variance(self) -> Floats:
        """The variance of a row, unbiased; 0 for a single row."""
        return self.second / max(self.count - 1, 1)

    @property
    def kurtosis(self) -> Floats:
        """Fourth moment over squared second, 3 for a normal; 1, the lowest, where all are equal."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.second > 0, self.count * self.fourth / self.second**2, 1.0)
