"""Regression that starts from an earlier experiment, whose coefficients have drifted since.

The coefficients of an action are those of the earlier experiment plus a drift N(0, w^2) for each
coefficient and action, with w in units of the noise. The posterior of the earlier experiment's
joint ridge regression is then a prior, N(m_a, V_a + w^2), in which actions are tied together by the
common part as they were there. With w = 0 the result is the regression on the sums of both.

How large w is, is learned: a few drifts and "no history" are weighed by how likely they make the
new outcomes, all equally likely at first. Estimates are averages with these weights, so that the
log density of the outcomes is at most ln 6 below that of the best of them, such as "no history".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.core.cross_validation import COMMON, TRIED, common_penalties
from seqbatch.core.joint_regression import (
    OPEN,
    JointFit,
    JointSums,
    free_levels,
    inverse,
    joint_fit,
    pseudo_inverse,
)
from seqbatch.core.pooled_regression import (
    PooledRegression,
    Scales,
    residual_variance,
    scale_grid,
)
from seqbatch.core.regression import noise_variance
from seqbatch.core.statistics import Statistics

#: The drifts that are weighed, in units of the noise, and the one assumed before any outcome.
DRIFTS = (0.01, 0.03, 0.07, 0.15, 0.3)
GUESS = 0.15
#: Without history, the prior standard deviation of a common coefficient is one of the noise.
UNIT = 1.0


def likeliest_ridge(sums: JointSums, *, constant: int | None = None) -> tuple[JointFit, float]:
    """Return the joint ridge regression under which outcomes are most likely, and its penalty.

    The penalties are those that :func:`~seqbatch.core.cross_validation.cross_validated` tries. None
    is so large that actions are treated as equal: a prior that is too narrow costs more than one
    that is too wide.
    """
    variance = residual_variance(sums)
    size = float(np.einsum("app->", sums.gram)) / (float(sums.count.sum()) * sums.dim) or 1.0
    found: list[tuple[float, JointFit, float]] = []
    for penalty in (size * tried for tried in TRIED):
        common = common_penalties(sums.dim, constant, COMMON * penalty)
        fit = joint_fit(sums, deviations=np.full(sums.dim, penalty), common=common)
        log = fit.log_evidence(variance) + 0.5 * float(np.log(common[common > 0]).sum())
        found.append((log, fit, penalty))
    _, fit, penalty = max(found, key=lambda each: each[0])
    return fit, penalty


def drifted_fit(
    earlier: JointFit, places: Sequence[int], sums: JointSums, drift: float
) -> JointFit:
    """Return the regression on new sums whose prior is an earlier one, drifted.

    Parameters
    ----------
    earlier
        The regression on the earlier experiment.
    places
        The earlier experiment's row of each action.
    sums
        The sums of the new experiment. Waves with their own level are compared with the first
        wave of the earlier experiment.
    drift
        The standard deviation of the drift, in units of the noise.

    The free part is that of the earlier regression, in deviations from its solution, and then the
    levels. Given the free part, actions are independent: theta_a = m_a + R_a free + N(0, S_a).
    """
    rows = list(places)
    mean, carried = earlier.theta[rows], earlier.carried[rows]
    dim, tied = sums.dim, carried.shape[2]
    precision = inverse(earlier.inner[rows] + drift**2 * np.eye(dim))
    inner = inverse(precision + sums.gram)
    # What is left of the outcomes' moments after the prior means.
    moment = sums.moment - np.einsum("apq,aq->ap", sums.gram, mean)
    level_moment = sums.level_moment - np.einsum("alp,ap->al", sums.crossed, mean)
    alone = np.einsum("apq,aq->ap", inner, moment)
    crossing = inner @ sums.crossed.transpose(0, 2, 1)
    # gram - gram inner gram = precision inner gram, in which nothing cancels.
    kept = inner @ precision @ carried
    size = tied + sums.levels
    free = np.zeros((size, size))
    weighed = precision @ inner @ sums.gram @ carried
    within = np.einsum("apf,apg->fg", carried, weighed)
    free[:tied, :tied] = inverse(earlier.outer) + (within + within.T) / 2
    free[:tied, tied:] = np.einsum("apf,alp->fl", kept, sums.crossed)
    free[tied:, :tied] = free[:tied, tied:].T
    free[tied:, tied:] = sums.level_sizes() - (sums.crossed @ crossing).sum(axis=0)
    side = np.concatenate(
        [
            np.einsum("apf,ap->f", kept, moment),
            level_moment.sum(axis=0) - np.einsum("alp,ap->l", sums.crossed, alone),
        ]
    )
    outer = inverse(free)
    solution = outer @ side
    both = np.concatenate([kept, -crossing], axis=2)
    determinants = [np.linalg.slogdet(matrix)[1] for matrix in (precision, inner, earlier.outer)]
    return JointFit(
        theta=mean + alone + both @ solution,
        common=earlier.common + solution[:dim],
        levels=solution[tied:],
        inner=inner,
        carried=both,
        outer=outer,
        log_determinant=float(
            determinants[0].sum()
            + determinants[1].sum()
            - determinants[2]
            - np.linalg.slogdet(free)[1]
        ),
        explained=float(
            np.sum(moment * alone) + side @ solution + np.sum(mean * (sums.moment + moment))
        ),
    )


def levelled(fit: JointFit, constant: int) -> JointFit:
    """Return a regression whose constants are those of the first wave that has a level."""
    if not len(fit.levels):
        return fit
    theta, carried = fit.theta.copy(), fit.carried.copy()
    theta[:, constant] += fit.levels[0]
    carried[:, constant, -len(fit.levels)] += 1.0
    return replace(fit, theta=theta, carried=carried)


def evidence_alone(
    sums: JointSums, variance: float, constant: int | None, *, leveled: bool
) -> float:
    """Return the log density of outcomes without history, to compare with that of a drift.

    Parameters
    ----------
    sums
        The sums; if waves have levels, the first one has none.
    variance
        The noise variance.
    constant
        The column that is 1 for every unit.
    leveled
        Whether waves have levels. The constant's common part is then the level of the first wave,
        which is free with history, too.
    """
    common = np.full(sums.dim, UNIT)
    if constant is not None:
        common[constant] = 0.0 if leveled else OPEN
    scales = scale_grid(sums, variance, constant)[0].values
    fit = joint_fit(sums, deviations=scales**-2, common=common)
    return fit.log_evidence(variance) + 0.5 * float(np.log(common[common > 0]).sum())


def joint_noise(parts: Sequence[JointSums]) -> float:
    """Return the residual variance of one least-squares regression per experiment and action."""
    outcomes = []
    for sums in parts:
        levels = np.zeros(sums.levels)
        if sums.levels:
            levels, _ = free_levels(sums, pseudo_inverse(sums.gram))
        outcomes.append(sums.without_levels(levels))
    names = ("gram", "moment", "squares", "count")
    every = (np.concatenate([getattr(each, name) for each in outcomes]) for name in names)
    return noise_variance(Statistics(*every), spent=sum(sums.levels for sums in parts))


def weights_of(logs: Sequence[float]) -> Floats:
    """Return posterior probabilities from log densities; all are equally likely before."""
    likely = np.exp(np.array(logs) - max(logs))
    return np.asarray(likely / likely.sum())


@dataclass(frozen=True)
class WeighedFit:
    """A regression and its weight in an average.

    Parameters
    ----------
    weight
        The weight.
    fit
        The regression.
    grid
        What draws are made from; the regression itself if None.
    """

    weight: float
    fit: JointFit
    grid: tuple[Scales, ...] | None = None


def averaged(parts: Sequence[WeighedFit], variance: float) -> PooledRegression:
    """Return the average of regressions: its mean and covariance, and all of them for draws."""
    kept = [part for part in parts if part.weight > 0]
    if len(kept) == 1:
        [only] = kept
        grid = only.grid or (Scales(np.zeros(0), 1.0, only.fit),)
        return PooledRegression(variance, np.zeros(0), only.fit, grid)
    theta = np.asarray(sum(part.weight * part.fit.theta for part in kept))
    covariance = np.zeros((*theta.shape, theta.shape[1]))
    for part in kept:
        apart = (part.fit.theta - theta) / np.sqrt(variance)
        spread = part.fit.covariances() + apart[:, :, None] * apart[:, None, :]
        covariance += part.weight * spread
    first = kept[0].fit
    whole = JointFit(
        theta, first.common, np.zeros(0), covariance, np.zeros((*theta.shape, 1)), np.eye(1),
        np.nan, np.nan,
    )  # fmt: skip
    grid = tuple(
        replace(each, weight=part.weight * each.weight)
        for part in kept
        for each in part.grid or (Scales(np.zeros(0), 1.0, part.fit),)
    )
    return PooledRegression(variance, np.zeros(0), whole, grid)
