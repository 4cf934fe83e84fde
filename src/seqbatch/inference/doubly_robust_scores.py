"""Outcome models and doubly robust scores: each unit's outcome under each action."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from seqbatch.core import Statistics
from seqbatch.core.arrays import AnyArray, Floats
from seqbatch.inference.evidence import Evidence, penalty
from seqbatch.inference.logged_units import Rows, Wave, pieces
from seqbatch.inference.return_model import own_chances
from seqbatch.inference.score_sums import ClusterSums

# ----------------------------------------------------------------------
# The outcome model: a ridge regression per action, from sums over waves 1 to m.


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
        inverse: Floats = np.linalg.inv(
            evidence.statistics.gram + penalty(evidence.statistics.dim)
        ).astype(np.float64)
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
# The common shift of a wave: how much all its outcomes differ from the model of all waves.


@dataclass(frozen=True)
class CommonShift:
    """The residuals of a wave, all actions together.

    Parameters
    ----------
    total
        E_m, the sum of the residuals of the wave's outcomes.
    outcomes
        N_m, their number.
    """

    total: float = 0.0
    outcomes: int = 0

    @classmethod
    def of(cls, wave: Statistics, model: "OutcomeModel") -> "CommonShift":
        """Compute the shift from the wave's own sums."""
        # The constant's row of a Gram matrix holds the sums of all columns.
        fitted = np.einsum("kp,kp->", wave.gram[:, 0, :], model.coefficients)
        return cls(float(wave.moment[:, 0].sum() - fitted), int(wave.count.sum()))

    def without(self, residuals: Floats, returned: AnyArray) -> Floats:
        """Return the shift for each unit without its own residual, shrunk by one outcome."""
        own = np.where(returned, residuals, 0.0)
        shift: Floats = (self.total - own) / (self.outcomes - returned + 1)
        return shift


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


def score(
    rows: Rows, model: OutcomeModel, returned: Floats, shift: CommonShift | None = None
) -> Scores:
    """Return G_i(a) = mu_a(x_i) + 1{A_i = a} R_i e_i / (p_i(a) q_a(x_i)).

    The model may have been fitted to these units. A unit's residual, and the prediction for its
    action, are therefore those of the regression without that unit, computed from its leverage.

    Parameters
    ----------
    rows
        The units.
    model
        The model fitted to all waves up to theirs.
    returned
        The probability that their outcomes come back, shape (n, K) or (1, K).
    shift
        The common shift of their wave, which is added to all predictions; None for no shift.
    """
    values = model.predictions(rows)
    own, back = (np.arange(rows.count), rows.actions), rows.returned
    plain = rows.outcomes - values[own]
    residuals = plain / (1 - model.leverages(rows))
    # The prediction of a unit's own action is that of the model without it.
    values[back, rows.actions[back]] = (rows.outcomes - residuals)[back]
    if shift is not None:
        moved = shift.without(plain, back)
        values += moved[:, None]
        residuals = residuals - moved
    corrected = residuals / own_chances(rows, returned)
    values[back, rows.actions[back]] += corrected[back]
    return Scores(values, residuals)


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
