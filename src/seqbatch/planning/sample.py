"""A sample of units, and what it says about the population: dimension, condition, diversity."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

#: A direction with less than this share of the largest variance is treated as constant.
NOTHING = 1e-8
#: Below this condition, some direction is hardly ever seen, and pure exploitation may not learn it.
POOR = 0.01
#: Fewer units than this share in a column or direction are too rare to learn from.
RARE = 0.05
#: With fewer rows per direction a sample says too little about the rare ones.
ROWS_A_DIRECTION = 10


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of features of some units.

    Parameters
    ----------
    values
        The features as numbers, shape (n, p), without a constant column.
    columns
        Their names; numbered where None.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> visits = rng.poisson(3.0, 500)
    >>> sample = Sample(np.column_stack([visits, 2 * visits, rng.random(500)]))
    >>> sample.dim, sample.dropped
    (2, 1)
    """

    values: ArrayLike
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        values = arguments.floats("values", self.values, ("n", "p"))
        if len(values) < 2 or values.shape[1] < 1:
            raise InvalidArgumentError(
                "values", "at least two rows of at least one feature", f"shape {values.shape}"
            )
        names = self.columns or [f"x{j + 1}" for j in range(values.shape[1])]
        if len(names) != values.shape[1]:
            raise InvalidArgumentError(
                "columns", f"one name for each of {values.shape[1]} columns", f"{len(names)} names"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "columns", tuple(names))

    @cached_property
    def _axes(self) -> tuple[Floats, Floats, Floats]:
        """Return standardised rows, and the eigenvalues and axes of their correlation."""
        values = np.asarray(self.values, dtype=np.float64)
        spread = values.std(axis=0)
        # A constant column's standard deviation is rounding, relative to the column's size.
        live = spread > 1e-12 * np.maximum(np.abs(values).max(axis=0), 1e-300)
        if not live.any():
            raise InvalidArgumentError(
                "values", "features that differ between units", "constant columns only"
            )
        if len(values) <= live.sum():
            raise InvalidArgumentError(
                "values",
                f"more rows than the {int(live.sum())} columns that vary",
                f"{len(values)} rows",
                "Take a larger sample, or fewer columns.",
            )
        rows = (values[:, live] - values[:, live].mean(axis=0)) / spread[live]
        eigenvalues, axes = np.linalg.eigh(rows.T @ rows / len(rows))
        kept = eigenvalues > NOTHING * eigenvalues.max()
        return rows, eigenvalues[kept], axes[:, kept]

    @property
    def dim(self) -> int:
        """How many directions the features vary in."""
        return len(self._axes[1])

    @property
    def dropped(self) -> int:
        """How many columns add nothing: constant, or a combination of others."""
        return int(np.asarray(self.values).shape[1]) - self.dim

    @property
    def kappa(self) -> float:
        """The smallest eigenvalue of the correlation matrix over its largest."""
        return float(self._axes[1].min() / self._axes[1].max())

    @property
    def whitened(self) -> Floats:
        """The rows in coordinates of unit variance without correlation, shape (n, dim)."""
        rows, eigenvalues, axes = self._axes
        whitened: Floats = rows @ axes / np.sqrt(eigenvalues)
        return whitened

    def evidence(self) -> dict[str, Any]:
        """Return the evidence for and against diversity, on which pure exploitation depends.

        Diversity means that units differ in every direction (Assumptions 2 and 4): no eigenvalue is
        small beside the largest, and no direction is constant for nearly all units.
        """
        whitened = self.whitened
        tails = (whitened**4).mean(axis=0)
        # A column or direction that lives on rare units has few beyond half a deviation.
        both = np.hstack([self._axes[0], whitened])
        active = (np.abs(both) > 0.5).mean(axis=0)
        enough = len(whitened) >= ROWS_A_DIRECTION * self.dim
        plausible = enough and self.kappa >= POOR and bool(active.min() > RARE)
        return {
            "rows": len(whitened),
            "columns": np.asarray(self.values).shape[1],
            "directions": self.dim,
            "dropped": self.dropped,
            "kappa": self.kappa,
            "largest_kurtosis": float(tails.max()),
            "rarest_direction": float(active.min()),
            "diverse": plausible,
        }

    def verdict(self) -> str:
        """Say in words whether units differ as pure exploitation needs them to, and why."""
        facts = self.evidence()
        text = (
            f"The sample: {facts['rows']:,} units, whose {facts['columns']} columns vary in "
            f"{facts['directions']} directions"
        )
        if facts["dropped"]:
            text += f" ({facts['dropped']} redundant: constant, or a combination of others)"
        text += (
            ". Pure exploitation explores by the differences between units alone, so that units "
            "must differ in every direction. "
        )
        doubts = self._doubts(facts)
        if not doubts:
            return text + "Here they do, as far as a sample can tell."
        return text + f"Here that is doubtful: {'; '.join(doubts)}."

    def _doubts(self, facts: dict[str, Any]) -> list[str]:
        """Return what speaks against diversity, in words."""
        doubts = []
        if facts["rows"] < ROWS_A_DIRECTION * self.dim:
            doubts.append(
                f"{facts['rows']:,} rows are few for {self.dim} directions "
                f"({ROWS_A_DIRECTION * self.dim:,} would do)"
            )
        if facts["kappa"] < POOR:
            doubts.append(
                "some columns nearly repeat others (the least varied direction has "
                f"{facts['kappa']:.2g} of the variance of the most varied one; below {POOR:g} is "
                "poor)"
            )
        if facts["rarest_direction"] <= RARE:
            doubts.append(
                f"only {facts['rarest_direction']:.1%} of units differ noticeably from the rest in "
                "some direction, as with a category that hardly anybody is in"
            )
        return doubts
