"""Estimates from sums: ridge, least squares, the lasso, and residual noise."""

import warnings
from dataclasses import dataclass

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.statistics import Statistics
from seqbatch.errors import RankDeficiencyWarning

# ----------------------------------------------------------------------
# From statistics to parameters: ridge, least squares, and the noise they leave.


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


# ----------------------------------------------------------------------
# The lasso from the sums alone: by coordinates, checked against its optimality conditions.
#
# A gradient g = moment - gram theta is optimal where |g| <= penalty throughout and g = penalty
# sign(theta) wherever theta is not zero. Every answer is checked against that. Coordinate
# descent gets there in a fraction of a millisecond, except where regressors nearly depend on each
# other and the penalty is small; there the path of least angle regression takes over.


#: Sweeps before the first look at the conditions; each further round has twice as many.
FIRST_SWEEPS = 8
#: Beyond this many in one round the path is quicker.
MOST_SWEEPS = 256
#: For the rest of the way where rounding stopped the path: as many as anyone would wait for.
LAST_SWEEPS = 100_000
#: How far a coordinate's gradient may be off, relative to the penalty and the column's own size:
#: as far as the first, or as rounding goes where parameters are large, but never beyond the second.
STRICT, LOOSE = 1e-10, 1e-6
EPSILON, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


def lasso(statistics: Statistics, penalty: float, *, units: int | Integers) -> Estimate:
    """Minimise |y - X theta|^2 / (2 units) + penalty |theta|_1 in each cell, from the sums alone.

    Parameters
    ----------
    statistics
        What was observed.
    penalty
        The weight of the absolute values, at least 0.
    units
        The n of the loss, for all cells or for each. It is the count of all cells together where
        they are blocks of one long parameter.
    """
    theta = np.zeros_like(statistics.moment)
    told = np.flatnonzero(np.abs(statistics.moment).max(axis=1, initial=0.0))
    gram, moment = statistics.gram[told], statistics.moment[told]
    count = np.broadcast_to(units, (statistics.cells,))[told]
    # At the scale of one, so that no unit of measure overflows or stops the path early.
    width = np.sqrt(np.diagonal(gram, axis1=1, axis2=2).max(axis=1, initial=0.0) / count)
    height = np.abs(moment / np.where(width > 0, width, np.inf)[:, None]).max(axis=1) / count
    # Sums below the smallest number of full precision say nothing: zero is the answer.
    heard = np.flatnonzero(height >= TINY)
    if heard.size:
        wide, high, count = width[heard], height[heard], count[heard]
        scaled = _Lasso(
            gram=gram[heard] / wide[:, None, None] / wide[:, None, None] / count[:, None, None],
            moment=moment[heard] / wide[:, None] / high[:, None] / count[:, None],
            penalty=penalty / wide / high,
        )
        theta[told[heard]] = scaled.solution() * high[:, None] / wide[:, None]
    nonzero = np.count_nonzero(theta, axis=1).astype(np.int64)
    return Estimate(theta, np.zeros((0, 0, 0)), nonzero, np.full(len(theta), np.nan))


@dataclass(frozen=True, eq=False)
class _Lasso:
    """Minimise theta' gram theta / 2 - theta' moment + penalty |theta|_1 in each of some cells."""

    gram: Floats
    moment: Floats
    penalty: Floats

    def solution(self) -> Floats:
        """Return each cell's first of ever dearer answers that is optimal, or the nearest to it."""
        found = _Found(np.zeros_like(self.moment), np.full(len(self.moment), np.inf))
        theta, sweeps = np.zeros_like(self.moment), FIRST_SWEEPS
        while sweeps <= MOST_SWEEPS and (cells := found.open()).size:
            theta[cells] = self._descended(cells, theta[cells], sweeps, found)
            sweeps *= 2
        for cell in found.open():
            end = self.of(cells := np.array([cell]))._end_of_path()
            found.offer(cells, end, self.of(cells)._violation(end))
            # Rounding stops the path early where regressors are combinations of each other.
            if cell in found.open():
                self._descended(cells, end, LAST_SWEEPS, found)
        return found.theta

    def of(self, cells: Integers) -> "_Lasso":
        """Return the problems of some cells."""
        return _Lasso(self.gram[cells], self.moment[cells], self.penalty[cells])

    def _descended(self, cells: Integers, start: Floats, sweeps: int, found: "_Found") -> Floats:
        """Offer what coordinate descent comes to from `start`, sharpened and as it is."""
        part = self.of(cells)
        for cell, theta in enumerate(start):
            kernels.descend(part.gram[cell], part.moment[cell], part.penalty[cell], sweeps, theta)
        for answer in (part._sharpened(start), start):
            found.offer(cells, answer, part._violation(answer))
        return start

    def _sharpened(self, theta: Floats) -> Floats:
        """Return the exact minimum among parameters of these signs; `theta` if that is none.

        The signs settle long before the last digits of coordinate descent do.
        """
        signs = np.sign(theta)
        active = theta != 0
        # A parameter that is zero has an equation of its own, which says so.
        among = active[:, :, None] & active[:, None, :]
        matrix = np.where(among, self.gram, np.eye(theta.shape[1]))
        sides = np.where(active, self.moment - self.penalty[:, None] * signs, 0.0)
        values = _solved(matrix, sides, otherwise=theta)
        # Without a penalty signs do not matter: this is least squares.
        same = (self.penalty == 0) | (np.sign(values) == signs).all(axis=1)
        return np.where(same[:, None], values, theta)

    def _end_of_path(self) -> Floats:
        """Return where the path of least angle regression ends, for one cell."""
        # Imported here, because most problems never come so far.
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import lars_path_gram

        with warnings.catch_warnings():
            # It says when it stops early; what comes of that is checked here anyway.
            warnings.simplefilter("ignore", ConvergenceWarning)
            _, _, path = lars_path_gram(
                Xy=self.moment[0],
                Gram=self.gram[0],
                n_samples=1,
                alpha_min=float(self.penalty[0]),
                max_iter=100 * self.moment.shape[1],
                method="lasso",
            )
        return np.ascontiguousarray(path[:, -1])[None]

    def _violation(self, theta: Floats) -> Floats:
        """Return by how much the conditions are missed in each cell; up to 1 they hold."""
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
        # Against the huge parameters that a nearly singular gram gives, any gradient would pass for
        # rounding: hence the cap.
        allowed = np.minimum(np.maximum(rounding, STRICT * size), LOOSE * size)
        missed: Floats = (off / np.maximum(allowed, TINY)).max(axis=1)
        return missed


@dataclass(frozen=True, eq=False)
class _Found:
    """The best answer of each cell so far, and by how much it misses the conditions."""

    theta: Floats
    violation: Floats

    def open(self) -> Integers:
        """Return the cells that have no optimal answer yet."""
        return np.flatnonzero(self.violation > 1)

    def offer(self, cells: Integers, theta: Floats, violation: Floats) -> None:
        """Take the answers of some cells where they are better, and no other was optimal."""
        better = (self.violation[cells] > 1) & (violation < self.violation[cells])
        self.theta[cells[better]], self.violation[cells[better]] = theta[better], violation[better]


def _solved(matrix: Floats, sides: Floats, *, otherwise: Floats) -> Floats:
    """Solve each cell's equations; where they are singular, return what stood there before."""
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
