"""A sample of units: its feature columns, dimension, condition number and diversity."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# Feature columns: what is known of a unit before it is assigned.


#: Words in a column's name that suggest an outcome or a treatment.
AFTERWARDS = frozenset([
    "action", "actions", "arm", "arms", "assigned", "assignment", "assignments", "bought",
    "churn", "churned", "clicked", "clicks", "conversion", "conversions", "converted",
    "experiment", "group", "label", "outcome", "outcomes", "policy", "probability", "propensity",
    "purchased", "response", "reward", "rewards", "segment", "target", "treated", "treatment",
    "treatments", "unsubscribed", "variant", "y",
])  # fmt: skip
#: Words in a column's name that suggest an identifier.
IDENTITY = frozenset(["email", "guid", "id", "ids", "key", "phone", "uuid"])


def feature_columns(
    ids: Mapping[str, bool], wanted: Sequence[str] | None, outcomes: Sequence[str]
) -> list[str]:
    """Return the feature columns; raise an error if they are unclear.

    Parameters
    ----------
    ids
        The file's columns, and whether the values of each look like ids.
    wanted
        The columns that the user named as features, if any.
    outcomes
        The columns that the user named as outcomes or treatments, which are never features.

    Examples
    --------
    >>> feature_columns({"age": False, "spend": False}, None, ["spend"])
    ['age']
    """
    unknown = [name for name in outcomes if name not in ids]
    if unknown:
        there = f"among the file's columns ({', '.join(ids)})"
        raise InvalidArgumentError("outcomes", there, ", ".join(unknown))
    if wanted is not None:
        both = [name for name in wanted if name in outcomes]
        if both:
            raise InvalidArgumentError(
                "columns",
                "without outcomes and treatments, which are unknown when a unit is assigned",
                ", ".join(both),
            )
        return list(wanted)
    left = [name for name in ids if name not in outcomes]
    doubts = [
        f"{name} ({doubt})" for name in left if (doubt := _doubt(name, looks_like_id=ids[name]))
    ]
    if doubts:
        raise InvalidArgumentError(
            "columns",
            "given, because some of the file's columns may not be features",
            ", ".join(doubts),
            "Name the features (columns), or the others (outcomes).",
        )
    return left


def _doubt(name: str, *, looks_like_id: bool) -> str:
    """Return why a column may not be a feature; empty if nothing suggests that.

    >>> [_doubt(name, looks_like_id=False) for name in ("customer_id", "isTreated", "age")]
    ['an id by its name', 'an outcome or a treatment by its name', '']
    """
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    if words & AFTERWARDS:
        return "an outcome or a treatment by its name"
    if words & IDENTITY:
        return "an id by its name"
    return "different in every row, as ids are" if looks_like_id else ""


# ----------------------------------------------------------------------
# The sample, and its evidence on the population.


#: A direction with less than this share of the largest variance is treated as constant.
NOTHING = 1e-8
#: Below this ratio of eigenvalues, some direction hardly varies, and pure exploitation may fail.
POOR = 0.01
#: A column or direction in which fewer units than this share differ is too rare to learn from.
RARE = 0.05
#: With fewer rows per direction, a sample is too small to judge rare directions.
ROWS_A_DIRECTION = 10


@dataclass(frozen=True, eq=False)
class Sample:
    """Feature rows of some units.

    Parameters
    ----------
    values
        The features as numbers, shape (n, p), without a constant column.
    columns
        Their names; numbered if None.

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
        # The standard deviation of a constant column is rounding, relative to its size.
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
        """The number of directions in which the features vary."""
        return len(self._axes[1])

    @property
    def dropped(self) -> int:
        """The number of redundant columns: constant, or a combination of others."""
        return int(np.asarray(self.values).shape[1]) - self.dim

    @property
    def kappa(self) -> float:
        """The smallest eigenvalue of the correlation matrix over its largest."""
        return float(self._axes[1].min() / self._axes[1].max())

    @property
    def whitened(self) -> Floats:
        """The rows in uncorrelated coordinates of unit variance, shape (n, dim)."""
        rows, eigenvalues, axes = self._axes
        whitened: Floats = rows @ axes / np.sqrt(eigenvalues)
        return whitened

    def evidence(self) -> dict[str, Any]:
        """Return the evidence on diversity, on which pure exploitation depends.

        Diversity means that units differ in every direction (Assumptions 2 and 4): no eigenvalue is
        small compared with the largest, and no direction is constant for nearly all units.
        """
        whitened = self.whitened
        tails = (whitened**4).mean(axis=0)
        # If a column or direction varies only in rare units, few lie beyond half a deviation.
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
        """Return in words whether units differ as pure exploitation requires, and why."""
        facts = self.evidence()
        text = (
            f"The sample: {facts['rows']:,} units, whose {facts['columns']} columns vary in "
            f"{facts['directions']} directions"
        )
        if facts["dropped"]:
            text += f" ({facts['dropped']} redundant: constant, or a combination of others)"
        text += (
            ". Pure exploitation explores only through the differences between units: they "
            "must differ in every direction. "
        )
        doubts = self._doubts(facts)
        if not doubts:
            return text + "Here they do, as far as a sample can tell."
        return text + f"Here that is doubtful: {'; '.join(doubts)}."

    def _doubts(self, facts: dict[str, Any]) -> list[str]:
        """Return the reasons against diversity, in words."""
        doubts = []
        if facts["rows"] < ROWS_A_DIRECTION * self.dim:
            doubts.append(
                f"{facts['rows']:,} rows are few for {self.dim} directions "
                f"({ROWS_A_DIRECTION * self.dim:,} would suffice)"
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
                "some direction, for example in a rare category"
            )
        return doubts
