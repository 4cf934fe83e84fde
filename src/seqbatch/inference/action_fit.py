"""Least squares of one action in one wave, by its own outcomes alone."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import AnyArray, Floats
from seqbatch.inference.clusters import ClusterSums
from seqbatch.inference.rows import Wave, pieces

#: A wave is used where an action has this many outcomes more than there are columns.
SPARE = 4


@dataclass(frozen=True, eq=False)
class ActionFit:
    """Least squares of one action in one wave.

    Parameters
    ----------
    coefficients
        b, shape (P,).
    covariance
        By HC3, over clusters where there are some, shape (P, P).
    inverse
        (sum w x x')^-1.
    residual_squares
        The sum of squared residuals.
    count
        How many outcomes.
    """

    coefficients: Floats
    covariance: Floats
    inverse: Floats
    residual_squares: float
    count: int


def fit_action(wave: Wave, action: int, *, weighted: bool) -> ActionFit | None:
    """Fit one action's outcomes in one wave, weighted by 1/p or not; None where there are too few.

    Two passes over the wave: the sandwich needs residuals.
    """
    gram = moment = None
    count = 0
    for x, y, w, _ in _outcomes(wave, action, weighted):
        gram = (x * w[:, None]).T @ x + (0 if gram is None else gram)
        moment = x.T @ (w * y) + (0 if moment is None else moment)
        count += len(y)
    if gram is None or moment is None or count < len(moment) + SPARE:
        return None
    inverse = np.linalg.pinv(gram, hermitian=True).astype(np.float64)
    b = inverse @ moment
    meat, squares, clusters = np.zeros_like(gram), 0.0, None
    for x, y, w, names in _outcomes(wave, action, weighted):
        residuals = y - x @ b
        leverage = w * np.einsum("np,np->n", x @ inverse, x)
        # A unit that alone determines a coefficient has leverage 1, and no residual of its own.
        scaled = w * residuals / np.maximum(1 - leverage, 1e-9)
        squares += float(residuals @ residuals)
        if names is None:
            meat += (x * scaled[:, None] ** 2).T @ x
        else:
            part = ClusterSums.of(names, x * scaled[:, None])
            clusters = part if clusters is None else clusters.merge(part)
    if clusters is not None:
        meat = clusters.sums.T @ clusters.sums
    return ActionFit(b, inverse @ meat @ inverse, inverse, squares, count)


def _outcomes(
    wave: Wave, action: int, weighted: bool
) -> Iterator[tuple[Floats, Floats, Floats, AnyArray | None]]:
    """Yield features, outcomes, weights and clusters of units that got an action and answered."""
    for rows in pieces(wave):
        here = rows.returned & (rows.actions == action)
        w = 1 / rows.taken[here] if weighted else np.ones(int(here.sum()))
        names = None if rows.clusters is None else rows.clusters[here]
        yield rows.features[here], rows.outcomes[here], w, names
