"""Estimates from sufficient statistics: ridge, least squares, the lasso and residual noise."""

import warnings
from dataclasses import dataclass

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.lasso_path import end_of_path
from seqbatch.core.statistics import Statistics
from seqbatch.errors import RankDeficiencyWarning

# ----------------------------------------------------------------------
# Ridge regression, least squares and residual noise.


@dataclass(frozen=True)
class Estimate:
    """Parameters estimated from statistics, one row per cell.

    Parameters
    ----------
    theta
        The parameters, shape (cells, dim).
    root
        Lower triangular R with R' R = A^-1, hence sqrt(x' A^-1 x) = |R x|; shape
        (cells, dim, dim), or (0, 0, 0) if the estimator has no widths. Every estimate computes it
        by a new Cholesky factorisation of the Gram matrix, which avoids drift.
    rank
        Least squares: the number of directions that the data determine. Lasso: the number of
        nonzero parameters. Ridge: dim, as the penalty determines every direction. Shape (cells,).
    condition
        Condition number of the Gram matrix within the determined directions, with all columns
        scaled to the same size, shape (cells,); NaN if not computed.
    """

    theta: Floats
    root: Floats
    rank: Integers
    condition: Floats

    @classmethod
    def zero(cls, cells: int, dim: int) -> "Estimate":
        """Return theta = 0 without widths, the estimate of a greedy policy before any data."""
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
        The sufficient statistics.
    penalty
        lambda > 0.
    stale, previous
        Re-estimate the stale cells and copy the others from `previous`. Pass both or neither.
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

    The kernel is the same as in :func:`ridge`, so both return identical bits on every machine.
    """
    cells, dim = statistics.moment.shape
    theta = np.empty((cells, dim))
    kernels.ridge_means_cells(statistics.gram, statistics.moment, penalty, theta)
    return Estimate(theta, np.zeros((0, 0, 0)), np.full(cells, dim), np.full(cells, np.nan))


def least_squares(statistics: Statistics) -> Estimate:
    """Solve gram theta = moment in each cell, with the minimum-norm solution if it is singular.

    An eigenvalue counts as zero if it is no larger than the rounding error of summing `count`
    outer products.
    """
    gram, moment = statistics.gram, statistics.moment
    rounding = np.finfo(np.float64).eps * (statistics.dim + np.sqrt(statistics.count))
    # The rank is computed with all columns scaled to the same size: a feature's unit of measurement
    # must not decide whether its coefficient counts as determined.
    sizes = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    sizes = np.where(sizes > 0, sizes, 1.0)
    scaled = gram / (sizes[:, :, None] * sizes[:, None, :])
    rank, condition = _determined(np.linalg.eigvalsh(scaled), rounding)
    theta, full = np.empty_like(moment), rank == statistics.dim
    theta[full] = np.linalg.solve(scaled[full], (moment / sizes)[full, :, None])[:, :, 0]
    theta[full] /= sizes[full]
    # In singular cells the minimum norm is taken in the user's units, from the unscaled equations.
    # That needs all eigenvectors and costs several times as much.
    theta[~full] = _shortest(gram[~full], moment[~full], rounding[~full])
    return Estimate(theta, np.zeros((0, 0, 0)), rank, condition)


def _determined(values: Floats, rounding: Floats) -> tuple[Integers, Floats]:
    """Return each cell's rank and its condition number, from eigenvalues in ascending order."""
    kept = values > (values[:, -1] * rounding)[:, None]
    rank = kept.sum(axis=1).astype(np.int64)
    smallest = np.where(kept, values, np.inf).min(axis=1)
    return rank, np.where(rank > 0, values[:, -1] / smallest, np.nan)


def _shortest(gram: Floats, moment: Floats, rounding: Floats) -> Floats:
    """Return the minimum-norm solution of each cell."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > (values[:, -1] * rounding)[:, None]
    # The inner `where` avoids a division by zero, of which NumPy would warn.
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    projected = np.einsum("cji,cj->ci", vectors, moment)
    shortest: Floats = np.einsum("cij,cj->ci", vectors, inverse * projected)
    return shortest


#: The least noise variance, as a share of the outcomes' mean square.
LEAST_NOISE = 1e-9
#: A residual variance needs so many degrees of freedom, as a share of the units.
ENOUGH_FREEDOM = 0.25


def noise_variance(statistics: Statistics, *, spent: int = 0) -> float:
    """Return the residual variance of one least-squares regression in each cell, pooled.

    If coefficients use up most units, return an upper bound: the residual variance of one
    regression for all cells, or the mean square of the outcomes. If all outcomes are 0, return 1.

    Parameters
    ----------
    statistics
        The sufficient statistics.
    spent
        Further numbers that were estimated from the same outcomes.
    """
    total, units = float(statistics.squares.sum()), float(statistics.count.sum())
    if total <= 0:
        return 1.0
    mean = total / units
    together = Statistics(
        *(getattr(statistics, name).sum(axis=0)[None] for name in ("gram", "moment")),
        *(np.array([getattr(statistics, name).sum()]) for name in ("squares", "count")),
    )
    for sums in (statistics, together):
        fitted = least_squares(sums)
        freedom = units - float(fitted.rank.sum()) - spent
        if freedom >= ENOUGH_FREEDOM * units:
            left = total - float(np.sum(fitted.theta * sums.moment))
            return max(left / freedom, LEAST_NOISE * mean)
    return mean


def warn_if_deficient(estimate: Estimate, statistics: Statistics, who: str, models: int) -> bool:
    """Warn if the observed data leave a direction undetermined; return whether they do.

    `models` is the number of models. There are more cells than models if several trials are
    estimated together.
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


# ----------------------------------------------------------------------
# The lasso, from the sums alone.
#
# theta is optimal if its gradient g = moment - gram theta satisfies |g| <= penalty everywhere and
# g = penalty sign(theta) wherever theta is nonzero. Every solution is checked against these
# conditions. Coordinate descent usually meets them within a fraction of a millisecond. If
# regressors are nearly collinear and the penalty is small, it does not, and least angle regression
# takes over.


#: Sweeps of coordinate descent before the first check; each further round has twice as many.
FIRST_SWEEPS = 8
#: Above this many sweeps per round, least angle regression is faster.
MOST_SWEEPS = 256
#: Upper limit for the final descent if rounding stopped least angle regression early.
LAST_SWEEPS = 100_000
#: Tolerance of a coordinate's gradient, relative to the penalty plus the column's size: STRICT, or
#: the rounding error if that is larger, but never more than LOOSE.
STRICT, LOOSE = 1e-10, 1e-6
EPSILON, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


def lasso(statistics: Statistics, penalty: float | Floats, *, units: int | Integers) -> Estimate:
    """Minimise |y - X theta|^2 / (2 units) + penalty |theta|_1 in each cell, from the sums alone.

    Parameters
    ----------
    statistics
        The sufficient statistics.
    penalty
        The weight of the L1 norm, at least 0: one number, or one per cell.
    units
        The n in the loss: one number, or one per cell. If the cells are blocks of one long
        parameter, it is the total count of all cells.
    """
    theta = np.zeros_like(statistics.moment)
    informed = np.flatnonzero(np.abs(statistics.moment).max(axis=1, initial=0.0))
    gram, moment = statistics.gram[informed], statistics.moment[informed]
    count = np.broadcast_to(units, (statistics.cells,))[informed]
    weight = np.broadcast_to(penalty, (statistics.cells,))[informed]
    # Rescale to unit size: no unit of measurement may overflow or stop the path early.
    width = np.sqrt(np.diagonal(gram, axis1=1, axis2=2).max(axis=1, initial=0.0) / count)
    height = np.abs(moment / np.where(width > 0, width, np.inf)[:, None]).max(axis=1) / count
    # Subnormal sums have lost their precision: theta stays 0.
    normal = np.flatnonzero(height >= TINY)
    if normal.size:
        wide, high, count = width[normal], height[normal], count[normal]
        scaled = _Lasso(
            gram=gram[normal] / wide[:, None, None] / wide[:, None, None] / count[:, None, None],
            moment=moment[normal] / wide[:, None] / high[:, None] / count[:, None],
            penalty=weight[normal] / wide / high,
        )
        theta[informed[normal]] = scaled.solution() * high[:, None] / wide[:, None]
    nonzero = np.count_nonzero(theta, axis=1).astype(np.int64)
    return Estimate(theta, np.zeros((0, 0, 0)), nonzero, np.full(len(theta), np.nan))


@dataclass(frozen=True, eq=False)
class _Lasso:
    """Minimise theta' gram theta / 2 - theta' moment + penalty |theta|_1 in each cell."""

    gram: Floats
    moment: Floats
    penalty: Floats

    def solution(self) -> Floats:
        """Try methods in order of cost; return each cell's first optimal answer, or its closest."""
        best = _BestAnswers(np.zeros_like(self.moment), np.full(len(self.moment), np.inf))
        theta, sweeps = np.zeros_like(self.moment), FIRST_SWEEPS
        while sweeps <= MOST_SWEEPS and (cells := best.open()).size:
            theta[cells] = self._descended(cells, theta[cells], sweeps, best)
            sweeps *= 2
        for cell in best.open():
            part = self.of(cells := np.array([cell]))
            end = end_of_path(part.gram[0], part.moment[0], float(part.penalty[0]))[None]
            for answer in (part._polished(end), end):
                best.offer(cells, answer, part._violation(answer))
            # Rounding stops the path early if regressors are linear combinations of each other.
            if cell in best.open():
                self._descended(cells, end, LAST_SWEEPS, best)
        return best.theta

    def of(self, cells: Integers) -> "_Lasso":
        """Return the problems of the given cells."""
        return _Lasso(self.gram[cells], self.moment[cells], self.penalty[cells])

    def _descended(
        self, cells: Integers, start: Floats, sweeps: int, best: "_BestAnswers"
    ) -> Floats:
        """Run coordinate descent from `start`; offer the result, both polished and unpolished."""
        part = self.of(cells)
        for cell, theta in enumerate(start):
            kernels.descend(part.gram[cell], part.moment[cell], part.penalty[cell], sweeps, theta)
        for answer in (part._polished(start), start):
            best.offer(cells, answer, part._violation(answer))
        return start

    def _polished(self, theta: Floats) -> Floats:
        """Return the exact minimum with the signs of `theta`, or `theta` if the signs change.

        In coordinate descent the signs settle long before the last digits do.
        """
        signs = np.sign(theta)
        active = theta != 0
        # A zero parameter gets the trivial equation theta = 0.
        among = active[:, :, None] & active[:, None, :]
        matrix = np.where(among, self.gram, np.eye(theta.shape[1]))
        sides = np.where(active, self.moment - self.penalty[:, None] * signs, 0.0)
        values = _solved(matrix, sides, otherwise=theta)
        # Without a penalty this is least squares, and signs do not matter.
        same = (self.penalty == 0) | (np.sign(values) == signs).all(axis=1)
        return np.where(same[:, None], values, theta)

    def _violation(self, theta: Floats) -> Floats:
        """Return the largest violation of the optimality conditions per cell; at most 1 passes."""
        penalty = self.penalty[:, None]
        gradient = self.moment - (self.gram @ theta[:, :, None])[:, :, 0]
        off = np.where(
            theta != 0,
            np.abs(gradient - penalty * np.sign(theta)),
            np.maximum(np.abs(gradient) - penalty, 0.0),
        )
        size = penalty + np.sqrt(np.diagonal(self.gram, axis1=1, axis2=2))
        pulls = np.abs(self.moment) + (np.abs(self.gram) @ np.abs(theta)[:, :, None])[:, :, 0]
        rounding = 4 * EPSILON * theta.shape[1] * pulls
        # The cap matters for a nearly singular Gram matrix: its parameters are huge, and any
        # gradient would count as rounding.
        allowed = np.minimum(np.maximum(rounding, STRICT * size), LOOSE * size)
        missed: Floats = (off / np.maximum(allowed, TINY)).max(axis=1)
        return missed


@dataclass(frozen=True, eq=False)
class _BestAnswers:
    """The best answer per cell so far, and its violation of the optimality conditions."""

    theta: Floats
    violation: Floats

    def open(self) -> Integers:
        """Return the cells without an optimal answer."""
        return np.flatnonzero(self.violation > 1)

    def offer(self, cells: Integers, theta: Floats, violation: Floats) -> None:
        """Take answers that are better than those of cells still without an optimal one."""
        better = (self.violation[cells] > 1) & (violation < self.violation[cells])
        self.theta[cells[better]], self.violation[cells[better]] = theta[better], violation[better]


def _solved(matrix: Floats, sides: Floats, *, otherwise: Floats) -> Floats:
    """Solve each cell's equations; return `otherwise` in singular cells."""
    try:
        solutions = np.linalg.solve(matrix, sides[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        if len(matrix) == 1:
            return otherwise.copy()
    else:
        return np.asarray(solutions, dtype=np.float64)
    parts = [slice(cell, cell + 1) for cell in range(len(matrix))]
    return np.concatenate(
        [_solved(matrix[part], sides[part], otherwise=otherwise[part]) for part in parts]
    )
