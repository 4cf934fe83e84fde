"""From statistics to parameters: ridge, least squares, and the noise they leave."""

import warnings
from dataclasses import dataclass

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.statistics import Statistics
from seqbatch.errors import RankDeficiencyWarning


@dataclass(frozen=True)
class Estimate:
    """Parameters estimated from statistics, one row for each cell.

    Parameters
    ----------
    theta
        The parameters, shape (cells, dim).
    root
        Lower triangular R with R' R = A^-1, so that sqrt(x' A^-1 x) = |R x|; shape
        (cells, dim, dim), or (0, 0, 0) where the estimator has no widths. It is rebuilt from the
        gram by a fresh Cholesky factorisation at every estimate, so that it cannot drift.
    rank
        Least squares: how many directions the data determine. Lasso: how many parameters are not
        zero. Ridge: all, as the penalty determines the rest. Shape (cells,).
    condition
        Largest over smallest eigenvalue of the gram within those directions, with every column at
        the same scale, shape (cells,); NaN where it was not computed.
    """

    theta: Floats
    root: Floats
    rank: Integers
    condition: Floats

    @classmethod
    def zero(cls, cells: int, dim: int) -> "Estimate":
        """Return theta = 0 without widths: what a greedy policy knows before any data."""
        return cls(
            theta=np.zeros((cells, dim)),
            root=np.zeros((0, 0, 0)),
            rank=np.zeros(cells, dtype=np.int64),
            condition=np.full(cells, np.nan),
        )


def ridge(
    statistics: Statistics,
    penalty: float,
    *,
    stale: Bools | None = None,
    previous: Estimate | None = None,
) -> Estimate:
    """Solve (gram + penalty I) theta = moment in each cell, with widths.

    Parameters
    ----------
    statistics
        What was observed.
    penalty
        lambda > 0.
    stale, previous
        Re-estimate only the stale cells and keep the rest of `previous`. Both or neither.
    """
    cells, dim = statistics.moment.shape
    if stale is None or previous is None:
        theta, root = np.empty((cells, dim)), np.empty((cells, dim, dim))
        stale = np.ones(cells, dtype=np.bool_)
    else:
        theta, root = previous.theta.copy(), previous.root.copy()
    kernels.ridge_cells(statistics.gram, statistics.moment, penalty, stale, theta, root)
    return Estimate(theta, root, np.full(cells, dim, dtype=np.int64), np.full(cells, np.nan))


def ridge_means(statistics: Statistics, penalty: float) -> Estimate:
    """Solve (gram + penalty I) theta = moment in each cell, without widths.

    By the same kernel as :func:`ridge`, to the same bits on every machine.
    """
    cells, dim = statistics.moment.shape
    theta = np.empty((cells, dim))
    kernels.ridge_means_cells(statistics.gram, statistics.moment, penalty, theta)
    return Estimate(theta, np.zeros((0, 0, 0)), np.full(cells, dim), np.full(cells, np.nan))


def least_squares(statistics: Statistics) -> Estimate:
    """Solve gram theta = moment in each cell; the minimum-norm solution where it is singular.

    An eigenvalue counts as zero when it is no larger than the rounding that summing this many
    outer products leaves in the gram.
    """
    gram, moment = statistics.gram, statistics.moment
    rounding = np.finfo(np.float64).eps * (statistics.dim + np.sqrt(statistics.count))
    # Rank is judged with every column at the same scale: a feature in small units is no less
    # determined than one in large units.
    sizes = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    sizes = np.where(sizes > 0, sizes, 1.0)
    scaled = gram / (sizes[:, :, None] * sizes[:, None, :])
    rank, condition = _determined(np.linalg.eigvalsh(scaled), rounding)
    theta, full = np.empty_like(moment), rank == statistics.dim
    theta[full] = np.linalg.solve(scaled[full], (moment / sizes)[full, :, None])[:, :, 0]
    theta[full] /= sizes[full]
    # Where directions are open, only the unscaled equations give the least norm in the user's own
    # units. They take all eigenvectors, at several times the cost.
    theta[~full] = _shortest(gram[~full], moment[~full], rounding[~full])
    return Estimate(theta, np.zeros((0, 0, 0)), rank, condition)


def _determined(values: Floats, rounding: Floats) -> tuple[Integers, Floats]:
    """Return each cell's rank, and its condition within it, from eigenvalues in rising order."""
    kept = values > (values[:, -1] * rounding)[:, None]
    rank = kept.sum(axis=1).astype(np.int64)
    smallest = np.where(kept, values, np.inf).min(axis=1)
    return rank, np.where(rank > 0, values[:, -1] / smallest, np.nan)


def _shortest(gram: Floats, moment: Floats, rounding: Floats) -> Floats:
    """Return the minimum-norm solution of each cell."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > (values[:, -1] * rounding)[:, None]
    # The inner `where` keeps zeros out of the division: NumPy would warn of them first.
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    projected = np.einsum("cji,cj->ci", vectors, moment)
    shortest: Floats = np.einsum("cij,cj->ci", vectors, inverse * projected)
    return shortest


def warn_if_deficient(estimate: Estimate, statistics: Statistics, who: str, models: int) -> bool:
    """Warn where observed data leave a direction undetermined; return whether they did.

    `models` is how many there are; where several trials are estimated together, cells outnumber
    them.
    """
    dim = statistics.dim
    lacking = np.flatnonzero(estimate.rank < dim)
    if not lacking.size:
        return False
    cell = int(lacking[0])
    others = f" (and {lacking.size - 1} more)" if lacking.size > 1 else ""
    warnings.warn(
        f"{who}: model {cell % models}{others} has rank {estimate.rank[cell]} of {dim} after "
        f"{statistics.count[cell]} units; its minimum-norm least-squares estimate is used. "
        'A larger first batch, first="uniform", or a ridge policy (RBGL, SBUCB) avoids this.',
        RankDeficiencyWarning,
        stacklevel=2,
    )
    return True


def noise_variance(statistics: Statistics, estimate: Estimate) -> float:
    """Return the residual variance, pooled over cells: residual squares over n - rank.

    It is NaN while there are no more units than parameters.
    """
    theta = estimate.theta
    fitted = np.einsum("ci,cij,cj->c", theta, statistics.gram, theta)
    residual = statistics.squares - 2 * np.einsum("ci,ci->c", theta, statistics.moment) + fitted
    freedom = int(statistics.count.sum() - np.minimum(estimate.rank, statistics.count).sum())
    # Where the fit is perfect, the difference of large sums may come out below zero.
    return float(max(residual.sum(), 0.0) / freedom) if freedom > 0 else float("nan")
