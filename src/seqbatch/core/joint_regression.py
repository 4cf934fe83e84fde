"""Joint regression of all actions from sums: a common part, deviations, a level for each wave.

The outcome of a unit with vector x that got action a in wave m has the mean
<x, common + deviation_a> + level_m. Coefficients are penalised by squares. In the units of the
noise, a penalty is the precision of a normal prior: the same solution is a posterior mean, and the
inverses are posterior covariances.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.core.statistics import Statistics
from seqbatch.errors import InvalidArgumentError

#: The penalty of common coefficients that are otherwise free: a prior standard deviation of 100
#: times the noise. It makes every system solvable.
OPEN = 1e-4
#: The least penalty of a deviation, as a share of its column's sum of squares.
ROUNDING = 1e-12
#: The most numbers in the matrices that are inverted together.
AT_ONCE = 1 << 17


@dataclass(frozen=True)
class JointSums:
    """Sums over units, by action and by wave; sums over other units may be added or subtracted.

    Parameters
    ----------
    gram, moment, squares, count
        By action, as in :class:`~seqbatch.core.Statistics`.
    crossed
        Sum of x by action and by wave with its own level, shape (actions, levels, dim).
    level_moment, level_count
        Sum of the outcomes and number of units by action and such wave, shape (actions, levels).
    """

    gram: Floats
    moment: Floats
    squares: Floats
    count: Floats
    crossed: Floats
    level_moment: Floats
    level_count: Floats

    @classmethod
    def of(
        cls, waves: Sequence[Statistics], *, constant: int | None = None, levels: Sequence[int] = ()
    ) -> "JointSums":
        """Return the sums over all waves.

        Parameters
        ----------
        waves
            The statistics of each wave, one cell per action.
        constant
            The column that is 1 for every unit; it holds the sums that levels need.
        levels
            The waves with their own level, as places in `waves`; the others share a level
            that is part of the common coefficients.
        """
        every = reduce(Statistics.merge, waves)
        cells, dim = every.moment.shape
        crossed = np.zeros((cells, len(levels), dim))
        level_moment, level_count = np.zeros((2, cells, len(levels)))
        for place, wave in enumerate(levels):
            crossed[:, place] = waves[wave].gram[:, constant]
            level_moment[:, place] = waves[wave].moment[:, constant]
            level_count[:, place] = waves[wave].count
        return cls(
            every.gram, every.moment, every.squares, every.count.astype(np.float64), crossed,
            level_moment, level_count,
        )  # fmt: skip

    def plus(self, other: "JointSums") -> "JointSums":
        """Return the sums over the units of both."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return JointSums(*(mine + theirs for mine, theirs in pairs))

    def part(self, actions: slice) -> "JointSums":
        """Return the sums of some actions."""
        return JointSums(*(values[actions] for values in vars(self).values()))

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return int(self.moment.shape[1])

    @property
    def levels(self) -> int:
        """The number of waves with their own level."""
        return int(self.level_count.shape[1])

    def level_sizes(self) -> Floats:
        """Return the number of units of each wave on a diagonal; 1 for none (its level is 0)."""
        units = self.level_count.sum(axis=0)
        return np.diag(np.where(units > 0, units, 1.0))

    def error(self, theta: Floats, levels: Floats) -> float:
        """Return the sum of squared errors of these coefficients and levels."""
        fitted = np.einsum("ap,apq,aq->", theta, self.gram, theta)
        within = np.einsum("alp,ap,l->", self.crossed, theta, levels)
        return float(
            self.squares.sum()
            - 2 * np.sum(theta * self.moment)
            + fitted
            - 2 * np.sum(self.level_moment @ levels)
            + 2 * within
            + np.sum(self.level_count @ levels**2)
        )

    def without_levels(self, levels: Floats) -> Statistics:
        """Return the statistics of outcomes from which each wave's level is subtracted."""
        moment = self.moment - np.einsum("alp,l->ap", self.crossed, levels)
        squares = self.squares - 2 * self.level_moment @ levels + self.level_count @ levels**2
        return Statistics(self.gram, moment, squares, self.count.astype(np.int64))


@dataclass(frozen=True)
class JointFit:
    """The solution of a joint regression.

    Parameters
    ----------
    theta
        The coefficients of each action, common part and deviation together, shape (actions, dim).
    common
        The common coefficients, shape (dim,).
    levels
        The level of each wave that has its own one.
    inner
        (gram + penalty)^-1 of each action, shape (actions, dim, dim).
    carried
        How the free part, common coefficients and levels, enters theta: (actions, dim, free).
    outer
        The covariance of the free part in units of the squared noise, (free, free).
    log_determinant
        Sum over actions of ln |penalty| - ln |gram + penalty|, minus ln |outer^-1|.
    explained
        What the fit explains of the squares, in the units of the squared outcomes.
    """

    theta: Floats
    common: Floats
    levels: Floats
    inner: Floats
    carried: Floats
    outer: Floats
    log_determinant: float
    explained: float

    def log_evidence(self, variance: float) -> float:
        """Return the log density of the outcomes up to a constant, if the noise is known."""
        return 0.5 * (self.log_determinant + self.explained / variance)

    def covariances(self) -> Floats:
        """Return the covariance of each action's theta in units of the squared noise."""
        spread: Floats = self.inner + self.carried @ self.outer @ self.carried.transpose(0, 2, 1)
        return spread

    def deviation_variances(self) -> Floats:
        """Return the variances of the deviations in units of the squared noise, (actions, dim)."""
        dim = self.theta.shape[1]
        carried = self.carried.copy()
        carried[:, :, :dim] -= np.eye(dim)
        spread = np.einsum("apf,fg,apg->ap", carried, self.outer, carried)
        variances: Floats = np.diagonal(self.inner, axis1=1, axis2=2) + spread
        # Rounding may make the smallest ones negative.
        return np.maximum(variances, 0.0)


def open_penalty(dim: int, constant: int | None) -> Floats:
    """Return the penalty of common coefficients that are free; the constant has none at all."""
    penalty = np.full(dim, OPEN)
    if constant is not None:
        penalty[constant] = 0.0
    return penalty


def joint_fit(sums: JointSums, *, deviations: Floats, common: Floats) -> JointFit:
    """Solve the joint regression with a penalty for each coefficient; levels have none.

    Parameters
    ----------
    sums
        The sums.
    deviations
        The penalty of each coefficient's deviations, above 0, shape (dim,).
    common
        The penalty of each common coefficient, shape (dim,).
    """
    [fit] = joint_fits(sums, deviations=deviations[None], common=common[None])
    return fit


def joint_fits(sums: JointSums, *, deviations: Floats, common: Floats) -> Iterator[JointFit]:
    """Yield the solution of the joint regression for each pair of rows of penalties.

    The solutions are those of :func:`joint_fit`, to the last bit; many at once are faster.
    """
    some = max(1, AT_ONCE // sums.gram.size)
    for first in range(0, len(deviations), some):
        rows = slice(first, first + some)
        yield from _joint_fits(sums, deviations[rows], common[rows])


def _joint_fits(sums: JointSums, deviations: Floats, common: Floats) -> Iterator[JointFit]:
    """Yield solutions that are found together: all arrays have a first axis for the penalties.

    Eliminating the deviations leaves equations of the common part alone. They are written such that
    nothing cancels if the penalty is small: gram - gram inner gram = penalty - penalty inner
    penalty.
    """
    fits, dim, levels, actions = len(deviations), sums.dim, sums.levels, len(sums.count)
    if not sums.count.any():
        common = np.ones((fits, dim))
    # Redundant columns need a penalty that is not lost in rounding.
    sizes = np.diagonal(sums.gram, axis1=1, axis2=2).max(axis=0, initial=0.0)
    penalty = np.maximum(deviations, ROUNDING * sizes)
    column = np.arange(dim)
    diagonal = np.zeros((fits, dim, dim))
    diagonal[:, column, column] = penalty
    matrix = sums.gram + diagonal[:, None]
    inner = inverse(matrix)
    alone = np.einsum("gapq,aq->gap", inner, sums.moment)
    crossing = inner @ sums.crossed.transpose(0, 2, 1)
    # theta_a = alone_a + carried_a (common, levels).
    carried = np.concatenate([inner * penalty[:, None, None], -crossing], axis=3)
    free = np.zeros((fits, dim + levels, dim + levels))
    free[:, :dim, :dim] = actions * diagonal - penalty[:, :, None] * inner.sum(1) * penalty[:, None]
    free[:, :dim, dim:] = (penalty[:, None, :, None] * crossing).sum(axis=1)
    free[:, dim:, :dim] = free[:, :dim, dim:].transpose(0, 2, 1)
    free[:, dim:, dim:] = sums.level_sizes() - (sums.crossed @ crossing).sum(axis=1)
    free[:, column, column] += common
    side = np.concatenate(
        [
            penalty * alone.sum(axis=1),
            sums.level_moment.sum(axis=0) - np.einsum("alp,gap->gl", sums.crossed, alone),
        ],
        axis=1,
    )
    outer = inverse(free)
    solution = (outer @ side[:, :, None])[:, :, 0]
    theta = alone + (carried @ solution[:, None, :, None])[:, :, :, 0]
    determinants = (
        actions * np.log(penalty).sum(axis=1)
        - np.linalg.slogdet(matrix)[1].sum(axis=1)
        - np.linalg.slogdet(free)[1]
    )
    explained = (sums.moment * alone).reshape(fits, -1).sum(axis=1)
    explained = explained + (side[:, None] @ solution[:, :, None])[:, 0, 0]
    for place in range(fits):
        yield JointFit(
            theta=theta[place],
            common=solution[place, :dim],
            levels=solution[place, dim:],
            inner=inner[place],
            carried=carried[place],
            outer=outer[place],
            log_determinant=float(determinants[place]),
            explained=float(explained[place]),
        )


def inverse(matrix: Floats) -> Floats:
    """Return the inverse of symmetric matrices, symmetric to the last bit."""
    found = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    return np.asarray(0.5 * (found + np.swapaxes(found, -1, -2)), dtype=np.float64)


def pseudo_inverse(matrix: Floats) -> Floats:
    """Return the pseudo-inverse of symmetric matrices."""
    return np.asarray(np.linalg.pinv(matrix, hermitian=True), dtype=np.float64)


def free_levels(sums: JointSums, inner: Floats) -> tuple[Floats, Floats]:
    """Return the levels of waves if each action has its own regression, and their covariance.

    Parameters
    ----------
    sums
        The sums.
    inner
        The inverse, or pseudo-inverse, of each action's equations, shape (actions, dim, dim).
    """
    crossing = inner @ sums.crossed.transpose(0, 2, 1)
    alone = np.einsum("apq,aq->ap", inner, sums.moment)
    free = sums.level_sizes() - (sums.crossed @ crossing).sum(axis=0)
    side = sums.level_moment.sum(axis=0) - np.einsum("alp,ap->l", sums.crossed, alone)
    outer = np.linalg.pinv(free, rcond=1e-10, hermitian=True)
    return outer @ side, outer


def require_constant(waves: Sequence[Statistics], constant: int) -> None:
    """Refuse a column that is not 1 for every unit: the sum of its squares is not their number."""
    for statistics in waves:
        found, count = statistics.gram[:, constant, constant], statistics.count
        # Simulators weight units, so that counts may be rounded.
        if not np.allclose(found, count, rtol=0.01, atol=2.0):
            raise InvalidArgumentError(
                "constant",
                "the number of a column that is 1 for every unit",
                constant,
                f"The squares of column {constant} sum to {found.max():g} over {count.max()} "
                "units. Add a column of ones, or leave constant and waves out.",
            )
