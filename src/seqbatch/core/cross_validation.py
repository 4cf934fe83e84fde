"""The penalty of a joint ridge regression, by cross-validation from the sums of folds alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.core.joint_regression import JointFit, JointSums, joint_fit

#: The penalties to try, in mean squares of a column. None is so large that actions whose outcomes
#: differ little are treated as equal for good: contexts must go on exploring.
TRIED = tuple(10 ** (power / 2) for power in range(-4, 5))
#: The penalty, in mean squares of a column, if outcomes are in fewer than two folds.
USUAL = 10.0
#: A common coefficient's penalty, as a share of that of deviations.
COMMON = 0.25


@dataclass(frozen=True)
class CrossValidated:
    """A joint ridge regression and how its penalty was found.

    Parameters
    ----------
    fit
        The regression on all folds.
    penalty
        Its penalty of deviations.
    penalties, errors
        All penalties that were tried, and the sum of squared errors on each fold of a regression on
        the other folds, shape (folds, penalties).
    """

    fit: JointFit
    penalty: float
    penalties: Floats
    errors: Floats


def cross_validated(folds: Sequence[JointSums], *, constant: int | None = None) -> CrossValidated:
    """Choose the penalty by cross-validation and fit all folds with it.

    Parameters
    ----------
    folds
        The sums of each fold.
    constant
        The column that is 1 for every unit, whose common coefficient has no penalty; None if there
        is none.
    """
    every = reduce(JointSums.plus, folds)
    units = max(float(every.count.sum()), 1.0)
    size = float(np.einsum("app->", every.gram)) / (units * every.dim) or 1.0
    used = [place for place, fold in enumerate(folds) if fold.count.sum() > 0]
    if len(used) < 2:
        fit = _fit(every, USUAL * size, constant)
        return CrossValidated(fit, USUAL * size, np.array([USUAL * size]), np.zeros((0, 1)))
    penalties = size * np.array(TRIED)
    errors = np.empty((len(used), len(penalties)))
    for row, place in enumerate(used):
        rest = reduce(JointSums.plus, [folds[other] for other in used if other != place])
        errors[row] = _errors(rest, folds[place], penalties, constant)
    penalty = float(penalties[errors.sum(axis=0).argmin()])
    return CrossValidated(_fit(every, penalty, constant), penalty, penalties, errors)


def _fit(sums: JointSums, penalty: float, constant: int | None) -> JointFit:
    return joint_fit(
        sums,
        deviations=np.full(sums.dim, penalty),
        common=common_penalties(sums.dim, constant, COMMON * penalty),
    )


def common_penalties(dim: int, constant: int | None, penalty: float) -> Floats:
    """Return the penalty of each common coefficient; the constant has none."""
    common = np.full(dim, penalty)
    if constant is not None:
        common[constant] = 0.0
    return common


def _errors(rest: JointSums, fold: JointSums, penalties: Floats, constant: int | None) -> Floats:
    """Return the squared errors on a fold of the regressions on the rest, for each penalty."""
    path = _Path.of(rest)
    errors = np.empty(len(penalties))
    # If every unit of the rest is in a wave with a level, these levels leave the constant open.
    open_constant = constant is not None and rest.count.sum() <= rest.level_count.sum()
    for place, penalty in enumerate(penalties):
        common = common_penalties(rest.dim, constant, COMMON * float(penalty))
        if open_constant:
            common[constant] = 1.0
        theta, levels = path.solution(float(penalty), common)
        errors[place] = fold.error(theta, levels)
    return errors


@dataclass(frozen=True)
class _Path:
    """Joint regressions on the same sums for many penalties, from one factorisation per action."""

    sums: JointSums
    values: Floats
    vectors: Floats
    moment: Floats
    crossed: Floats

    @classmethod
    def of(cls, sums: JointSums) -> "_Path":
        """Rotate each action's equations such that its Gram matrix is diagonal."""
        values, vectors = np.linalg.eigh(sums.gram)
        moment = np.einsum("apq,ap->aq", vectors, sums.moment)
        return cls(sums, np.maximum(values, 0.0), vectors, moment, sums.crossed @ vectors)

    def solution(self, penalty: float, common: Floats) -> tuple[Floats, Floats]:
        """Return theta and levels; see :func:`~seqbatch.core.joint_regression.joint_fit`."""
        dim, levels = self.sums.dim, self.sums.levels
        shrunken = 1.0 / (self.values + penalty)
        left, alone = penalty * shrunken, self.moment * shrunken
        free = np.zeros((dim + levels, dim + levels))
        weighed = self.vectors * (left * self.values)[:, None, :]
        free[:dim, :dim] = np.einsum("apq,arq->pr", weighed, self.vectors, optimize=True)
        free[:dim, dim:] = np.einsum("apq,aq,alq->pl", self.vectors, left, self.crossed)
        free[dim:, :dim] = free[:dim, dim:].T
        free[dim:, dim:] = self.sums.level_sizes() - np.einsum(
            "alq,aq,amq->lm", self.crossed, shrunken, self.crossed
        )
        free[np.diag_indices(dim)] += common
        side = np.concatenate(
            [
                penalty * np.einsum("apq,aq->p", self.vectors, alone),
                self.sums.level_moment.sum(axis=0) - np.einsum("alq,aq->l", self.crossed, alone),
            ]
        )
        solved = np.linalg.solve(free, side)
        shared = np.einsum("apq,p->aq", self.vectors, solved[:dim])
        within = np.einsum("alq,l->aq", self.crossed, solved[dim:])
        theta = alone + (penalty * shared - within) * shrunken
        return np.einsum("apq,aq->ap", self.vectors, theta), solved[dim:]
