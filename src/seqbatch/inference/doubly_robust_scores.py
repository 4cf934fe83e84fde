"""Outcome models, models of missing outcomes, and doubly robust scores."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

import numpy as np

from seqbatch.core import Statistics
from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.inference.logged_units import ClusterSums, Rows, Wave, pieces

# ----------------------------------------------------------------------
# The outcome model: a ridge regression per action, from sums over waves 1 to m.


#: Penalties of the ridge regressions: tiny on the constant, 1 on standardised columns.
ON_CONSTANT, ON_COLUMNS = 0.001, 1.0


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over units for fitting models; they can be added over pieces and waves in any order.

    Parameters
    ----------
    statistics
        Gram matrix and moment of the units with outcomes, one cell per action.
    assigned
        The number of units of each action, with or without an outcome.
    lowest, highest
        The smallest and the largest outcome.
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
        """Return the evidence without units that are part of it; the extremes are unchanged."""
        return replace(
            self,
            statistics=self.statistics.subtract(other.statistics),
            assigned=self.assigned - other.assigned,
        )

    @property
    def all_equal(self) -> bool:
        """Whether all outcomes so far are equal, in which case there is nothing to analyse."""
        return not self.lowest < self.highest

    @property
    def share_returned(self) -> float:
        """The share of units with an outcome."""
        return float(self.statistics.count.sum() / max(self.assigned.sum(), 1))


@dataclass(frozen=True, eq=False)
class OutcomeModel:
    """A ridge regression per action.

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
    def fitted(cls, evidence: Evidence) -> "OutcomeModel":
        """Fit each action's regression to all outcomes of that action."""
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
        """Return x'G_a x for the action of each unit."""
        leverage = np.empty(rows.count)
        for action, inverse in enumerate(self.inverse):
            here = np.flatnonzero(rows.actions == action)
            x = rows.features[here]
            leverage[here] = np.einsum("np,np->n", x @ inverse, x)
        return leverage


# ----------------------------------------------------------------------
# The probability that an outcome comes back: by action, or by action and features.


#: Newton's method converges in a few steps on this strictly convex function; these are plenty.
STEPS, SETTLED = 50, 1e-10


class Returned(Protocol):
    """A model of the probability that a unit's outcome comes back, given its action."""

    def of(self, rows: Rows) -> Floats:
        """Return q for each unit."""


@dataclass(frozen=True, eq=False)
class ReturnedByAction:
    """q_a: the share of units of an action with an outcome.

    One prior observation at the overall share keeps it positive.
    """

    shares: Floats

    @classmethod
    def fitted(cls, evidence: Evidence) -> "ReturnedByAction":
        """Compute the shares over all waves so far."""
        # If no outcome came back, nothing is weighted: any positive share will do.
        back, prior = evidence.statistics.count, evidence.share_returned or 1.0
        return cls((back + prior) / (evidence.assigned + 1))

    def of(self, rows: Rows) -> Floats:
        """Return q for each unit."""
        return self.shares[rows.actions]


@dataclass(frozen=True, eq=False)
class ReturnedByFeatures:
    """q_a(x): a ridge logistic regression per action.

    Use it if missingness may depend on features. Sums do not suffice here: every Newton step makes
    another pass over all waves so far.
    """

    coefficients: Floats

    @classmethod
    def fitted(cls, rows: Iterable[Rows], evidence: Evidence) -> "ReturnedByFeatures":
        """Fit the regressions to all waves so far."""
        actions, columns = len(evidence.assigned), evidence.statistics.dim
        penalty = np.full(columns, ON_COLUMNS)
        penalty[0] = ON_CONSTANT
        b = np.zeros((actions, columns))
        for _ in range(STEPS):
            slope, curvature = -penalty * b, np.tile(np.diag(penalty), (actions, 1, 1))
            for piece in rows:
                for action in range(actions):
                    here = piece.actions == action
                    x = piece.features[here]
                    q = _logistic(x @ b[action])
                    slope[action] += x.T @ (piece.returned[here] - q)
                    curvature[action] += (x * (q * (1 - q))[:, None]).T @ x
            step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
            # If all or no outcomes came back, the constant diverges; a bounded step keeps it
            # finite.
            step *= np.minimum(1, 5 / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
            b = b + step
            if np.abs(step).max() < SETTLED:
                break
        return cls(b)

    def of(self, rows: Rows) -> Floats:
        """Return q for each unit."""
        return _logistic(np.einsum("np,np->n", rows.features, self.coefficients[rows.actions]))


def _logistic(z: Floats) -> Floats:
    from scipy.special import expit

    q: Floats = expit(z)
    return q


# ----------------------------------------------------------------------
# Doubly robust scores: the outcome of each unit under each action, free of the policy's bias.


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of some units.

    Parameters
    ----------
    values
        G_i(a), shape (n, K): the model's prediction, corrected by the unit's outcome for the action
        that it got.
    residuals
        e_i, the outcome minus its leave-one-out prediction; NaN without an outcome.
    """

    values: Floats
    residuals: Floats


def score(rows: Rows, model: OutcomeModel, returned: Returned) -> Scores:
    """Return G_i(a) = mu_a(x_i) + 1{A_i = a} R_i e_i / (p_i(a) q_a).

    The model may have been fitted to these units. A unit's residual, and the prediction for its
    action, are therefore those of the regression without that unit, computed from its leverage.

    Parameters
    ----------
    rows
        The units.
    model
        The model fitted to all waves up to theirs.
    returned
        The probability that their outcomes come back.
    """
    values = model.predictions(rows)
    own = np.arange(rows.count), rows.actions
    residuals = (rows.outcomes - values[own]) / (1 - model.leverages(rows))
    back = rows.returned
    known = residuals[back]
    weights = inverse_weights(rows, returned)[back]
    values[back, rows.actions[back]] = rows.outcomes[back] - known + known * weights
    return Scores(values, residuals)


def inverse_weights(rows: Rows, returned: Returned) -> Floats:
    """Return 1 / (p q) of each unit for its action."""
    return 1 / (rows.taken * returned.of(rows))


# ----------------------------------------------------------------------
# Least squares for one action in one wave.


#: A wave is used if an action has at least this many outcomes more than columns.
SPARE = 4


@dataclass(frozen=True, eq=False)
class ActionFit:
    """Least squares for one action in one wave.

    Parameters
    ----------
    coefficients
        b, shape (P,).
    covariance
        By HC3, over clusters where there are some, shape (P, P).
    count
        The number of outcomes.
    """

    coefficients: Floats
    covariance: Floats
    count: int


def fit_action(wave: Wave, action: int) -> ActionFit | None:
    """Fit one action's outcomes in one wave, weighted by 1/p; None where there are too few.

    This takes two passes over the wave, because the sandwich estimator needs residuals.
    """
    gram = moment = None
    count = 0
    for x, y, w, _ in _outcomes(wave, action):
        gram = (x * w[:, None]).T @ x + (0 if gram is None else gram)
        moment = x.T @ (w * y) + (0 if moment is None else moment)
        count += len(y)
    if gram is None or moment is None or count < len(moment) + SPARE:
        return None
    inverse = np.linalg.pinv(gram, hermitian=True).astype(np.float64)
    b = inverse @ moment
    meat, clusters = np.zeros_like(gram), None
    for x, y, w, names in _outcomes(wave, action):
        residuals = y - x @ b
        leverage = w * np.einsum("np,np->n", x @ inverse, x)
        # A unit that alone determines a coefficient has leverage 1 and residual 0.
        scaled = w * residuals / np.maximum(1 - leverage, 1e-9)
        if names is None:
            meat += (x * scaled[:, None] ** 2).T @ x
        else:
            part = ClusterSums.of(names, x * scaled[:, None])
            clusters = part if clusters is None else clusters.merge(part)
    if clusters is not None:
        meat = clusters.sums.T @ clusters.sums
    return ActionFit(b, inverse @ meat @ inverse, count)


def _outcomes(wave: Wave, action: int) -> Iterator[tuple[Floats, Floats, Floats, AnyArray | None]]:
    """Yield features, outcomes, weights and clusters of units that got an action and answered."""
    for rows in pieces(wave):
        here = rows.returned & (rows.actions == action)
        names = None if rows.clusters is None else rows.clusters[here]
        yield rows.features[here], rows.outcomes[here], 1 / rows.taken[here], names
