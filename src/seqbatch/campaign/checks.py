"""Is the wave what it should be? Outcomes missing alike, and actions given as often as logged."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: Below this a test says that chance alone is not a likely reason.
SMALL = 0.001


@dataclass(frozen=True)
class Test:
    """A chi-square test: its statistic, degrees of freedom, and p-value (None without freedom)."""

    statistic: float
    freedom: int
    p: float | None

    @property
    def suspicious(self) -> bool:
        """Whether chance alone is not a likely reason."""
        return self.p is not None and self.p < SMALL

    def plain(self) -> dict[str, float | int | None]:
        """Return it as plain values."""
        return {"statistic": self.statistic, "freedom": self.freedom, "p": self.p}


def missingness(assigned: Integers, observed: Integers) -> Test:
    """Test whether outcomes are missing as often under every action.

    >>> missingness(np.array([1000, 1000]), np.array([900, 899])).suspicious
    False
    >>> missingness(np.array([1000, 1000]), np.array([900, 700])).suspicious
    True
    """
    given = assigned > 0
    table = np.array([observed[given], (assigned - observed)[given]], dtype=np.float64)
    table = table[table.sum(axis=1) > 0]
    if len(table) < 2 or table.shape[1] < 2:
        return Test(0.0, 0, None)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return _tested(statistic, table.shape[1] - 1)


class Allocation:
    """How often each action was given, against the logged probabilities; units come in pieces.

    The expected counts are the sums of the units' probabilities. Their covariance is the sum of
    diag(p) - p p', so that the test is right also where every unit has probabilities of its own.
    """

    def __init__(self, actions: int) -> None:
        self.counts = np.zeros(actions, dtype=np.int64)
        self.expected = np.zeros(actions)
        self._products = np.zeros((actions, actions))

    def add(self, actions: Integers, probabilities: Floats) -> None:
        """Take in some units."""
        self.counts += np.bincount(actions, minlength=len(self.counts))
        self.expected += probabilities.sum(axis=0)
        self._products += np.einsum("na,nb->ab", probabilities, probabilities)

    def test(self) -> Test:
        """Test the counts against what was expected of them."""
        covariance = np.diag(self.expected) - self._products
        values, vectors = np.linalg.eigh(covariance)
        kept = values > max(values.max(), 1.0) * 1e-9 * len(values)
        gap = vectors.T @ (self.counts - self.expected)
        statistic = float((gap[kept] ** 2 / values[kept]).sum())
        return _tested(statistic, int(kept.sum()))


def _tested(statistic: float, freedom: int) -> Test:
    if freedom == 0:
        return Test(statistic, 0, None)
    from scipy.stats import chi2

    p = float(chi2.sf(statistic, freedom))
    return Test(statistic, freedom, p if math.isfinite(p) else None)
