"""What outcomes of waves 1 to m say about each action: ridge regressions from kept sums."""

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from seqbatch.core import Statistics
from seqbatch.core.arrays import Floats, Integers
from seqbatch.inference.rows import Rows

#: Penalties of the ridge regressions: hardly any on the constant, one on standardised columns.
ON_CONSTANT, ON_COLUMNS = 0.001, 1.0


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over units that a model needs; they add up over pieces and waves in any order.

    Parameters
    ----------
    statistics
        Gram and moment of the units with outcomes, one cell for each action.
    assigned
        How many units got each action, with or without an outcome.
    lowest, highest
        The extreme outcomes.
    """

    statistics: Statistics
    assigned: Integers
    lowest: float = inf
    highest: float = -inf

    @classmethod
    def zero(cls, actions: int, columns: int) -> "Evidence":
        """Return the evidence of no units."""
        return cls(Statistics.zero(actions, columns), np.zeros(actions, dtype=np.int64))

    def with_rows(self, rows: Rows) -> "Evidence":
        """Return the evidence with these units added."""
        cells = np.where(rows.returned, rows.actions, -1)
        outcomes = np.where(rows.returned, rows.outcomes, 0.0)
        own = rows.outcomes if rows.before_costs is None else rows.before_costs
        known = own[rows.returned]
        return Evidence(
            self.statistics.add(rows.features, outcomes, cells),
            self.assigned + np.bincount(rows.actions, minlength=len(self.assigned)),
            min(self.lowest, float(known.min(initial=inf))),
            max(self.highest, float(known.max(initial=-inf))),
        )

    def without(self, other: "Evidence") -> "Evidence":
        """Return the evidence without units that are part of it; the extremes stay."""
        return replace(
            self,
            statistics=self.statistics.subtract(other.statistics),
            assigned=self.assigned - other.assigned,
        )

    @property
    def all_equal(self) -> bool:
        """Whether no two outcomes differ, so that there is nothing to look at yet."""
        return not self.lowest < self.highest

    @property
    def share_returned(self) -> float:
        """The share of all units whose outcome came back."""
        return float(self.statistics.count.sum() / max(self.assigned.sum(), 1))


@dataclass(frozen=True, eq=False)
class Model:
    """A ridge regression for each action.

    Parameters
    ----------
    coefficients
        b_a, shape (K, P).
    inverse
        G_a = (X_a'X_a + penalty)^-1, shape (K, P, P).
    """

    coefficients: Floats
    inverse: Floats

    @classmethod
    def fitted(cls, evidence: Evidence) -> "Model":
        """Fit every action's regression to all outcomes of that action."""
        penalty = np.full(evidence.statistics.dim, ON_COLUMNS)
        penalty[0] = ON_CONSTANT
        inverse: Floats = np.linalg.inv(evidence.statistics.gram + np.diag(penalty)).astype(
            np.float64
        )
        return cls(np.einsum("kpq,kq->kp", inverse, evidence.statistics.moment), inverse)

    def predictions(self, rows: Rows) -> Floats:
        """Return mu_a(x) = x'b_a of every action, shape (n, K)."""
        return rows.features @ self.coefficients.T

    def leverages(self, rows: Rows) -> Floats:
        """Return x'G_a x at the action that each unit got."""
        leverage = np.empty(rows.count)
        for action, inverse in enumerate(self.inverse):
            here = np.flatnonzero(rows.actions == action)
            x = rows.features[here]
            leverage[here] = np.einsum("np,np->n", x @ inverse, x)
        return leverage
