"""The lasso from the sums alone: by coordinates, checked against its optimality conditions.

A gradient g = moment - gram theta is optimal where |g| <= penalty throughout and g = penalty
sign(theta) wherever theta is not zero. Every answer is checked against that. Coordinate
descent gets there in a fraction of a millisecond, except where regressors nearly depend on each
other and the penalty is small; there the path of least angle regression takes over.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Floats
from seqbatch.core.estimate import Estimate
from seqbatch.core.statistics import Statistics

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


def lasso(statistics: Statistics, penalty: float, *, units: int) -> Estimate:
    """Minimise |y - X theta|^2 / (2 units) + penalty |theta|_1 in each cell, from the sums alone.

    Parameters
    ----------
    statistics
        What was observed.
    penalty
        The weight of the absolute values, at least 0.
    units
        The n of the loss. It is the count of all cells together where they are blocks of one long
        parameter.
    """
    theta = np.zeros_like(statistics.moment)
    for cell in np.flatnonzero(np.abs(statistics.moment).max(axis=1, initial=0.0)):
        gram, moment = statistics.gram[cell], statistics.moment[cell]
        # At the scale of one, so that no unit of measure overflows or stops the path early.
        width = np.sqrt(gram.diagonal().max() / units)
        height = np.abs(moment / width).max() / units if width > 0 else 0.0
        # Sums below the smallest number of full precision say nothing: zero is the answer.
        if height < TINY:
            continue
        problem = _Lasso(
            gram=gram / width / width / units,
            moment=moment / width / height / units,
            penalty=float(penalty / width / height),
        )
        theta[cell] = problem.solution() * height / width
    nonzero = np.count_nonzero(theta, axis=1).astype(np.int64)
    return Estimate(theta, np.zeros((0, 0, 0)), nonzero, np.full(len(theta), np.nan))


@dataclass(frozen=True, eq=False)
class _Lasso:
    """Minimise theta' gram theta / 2 - theta' moment + penalty |theta|_1."""

    gram: Floats
    moment: Floats
    penalty: float

    def solution(self) -> Floats:
        """Return the first of ever dearer answers that is optimal, or else the nearest to it."""
        found = []
        for theta in self._answers():
            if (violation := self._violation(theta)) <= 1:
                return theta
            found.append((violation, theta))
        return min(found, key=lambda pair: pair[0])[1]

    def _answers(self) -> Iterator[Floats]:
        theta, sweeps = np.zeros_like(self.moment), FIRST_SWEEPS
        while sweeps <= MOST_SWEEPS:
            kernels.descend(self.gram, self.moment, self.penalty, sweeps, theta)
            yield from (self._sharpened(theta), theta.copy())
            sweeps *= 2
        theta = self._end_of_path()
        yield theta
        # Rounding stops the path early where regressors are combinations of each other.
        kernels.descend(self.gram, self.moment, self.penalty, LAST_SWEEPS, theta)
        yield from (self._sharpened(theta), theta)

    def _sharpened(self, theta: Floats) -> Floats:
        """Return the exact minimum among parameters of these signs; `theta` if that is none.

        The signs settle long before the last digits of coordinate descent do.
        """
        active = np.flatnonzero(theta)
        signs = np.sign(theta[active])
        try:
            values = np.linalg.solve(
                self.gram[np.ix_(active, active)], self.moment[active] - self.penalty * signs
            )
        except np.linalg.LinAlgError:
            return theta.copy()
        sharp = np.zeros_like(theta)
        sharp[active] = values
        # Without a penalty signs do not matter: this is least squares.
        same = self.penalty == 0 or np.array_equal(np.sign(values), signs)
        return sharp if same else theta.copy()

    def _end_of_path(self) -> Floats:
        # Imported here, because most problems never come so far.
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import lars_path_gram

        with warnings.catch_warnings():
            # It says when it stops early; what comes of that is checked here anyway.
            warnings.simplefilter("ignore", ConvergenceWarning)
            _, _, path = lars_path_gram(
                Xy=self.moment,
                Gram=self.gram,
                n_samples=1,
                alpha_min=self.penalty,
                max_iter=100 * len(self.moment),
                method="lasso",
            )
        return np.ascontiguousarray(path[:, -1])

    def _violation(self, theta: Floats) -> float:
        """Return by how much the conditions are missed; up to 1 they hold."""
        gradient = self.moment - self.gram @ theta
        off = np.where(
            theta != 0,
            np.abs(gradient - self.penalty * np.sign(theta)),
            np.maximum(np.abs(gradient) - self.penalty, 0.0),
        )
        size = self.penalty + np.sqrt(self.gram.diagonal())
        pulls = np.abs(self.moment) + np.abs(self.gram) @ np.abs(theta)
        rounding = 4 * EPSILON * len(theta) * pulls
        # Against the huge parameters that a nearly singular gram gives, any gradient would pass for
        # rounding: hence the cap.
        allowed = np.minimum(np.maximum(rounding, STRICT * size), LOOSE * size)
        return float((off / np.maximum(allowed, TINY)).max())
