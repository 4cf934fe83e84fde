"""Partial pooling across actions: how similar they are is estimated from the sums themselves.

The coefficients of an action are a common part plus deviations N(0, scale_j^2), with a scale for
each feature j. The scales are those under which the outcomes are most likely (empirical Bayes):
first one for the constant and one for all features, over a grid, then one for each feature by a few
steps of expectation-maximisation with a weak prior around these.
"""

from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.core.joint_regression import (
    JointFit,
    JointSums,
    free_levels,
    joint_fit,
    joint_fits,
    open_penalty,
    pseudo_inverse,
)
from seqbatch.core.regression import noise_variance

#: Scales of the constant's deviations and of the features', in units of the noise.
CONSTANT = (0.003, 0.01, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0)
FEATURES = (0.0005, 0.003, 0.01, 0.02, 0.04, 0.08, 0.16, 0.35)
#: Features differ at most so much more than the constant does.
MOST_RATIO = 3.0
#: The prior of the two scales is log-normal around these, with log-variance 8. It breaks ties.
MIDDLE_CONSTANT, MIDDLE_FEATURES, LOG_VARIANCE = 0.1, 0.03, 8.0
#: The weight of the prior of each feature's scale, in observations, and the number of EM steps.
PRIOR_OBSERVATIONS, STEPS = 2.0, 15
#: With vectors of this length or more, every second scale is tried.
LONG = 500


@dataclass(frozen=True)
class Scales:
    """Standard deviations of deviations by coefficient, in units of the noise, and their weight.

    Parameters
    ----------
    values
        The standard deviations, shape (dim,).
    weight
        The posterior probability of these scales among those of the grid.
    fit
        The regression under these scales.
    """

    values: Floats
    weight: float
    fit: JointFit


@dataclass(frozen=True)
class PooledRegression:
    """A partially pooled regression.

    Parameters
    ----------
    variance
        The noise variance.
    scales
        The standard deviation of each coefficient's deviations, in units of the outcome.
    fit
        The regression under these scales.
    grid
        All pairs of scales that were tried, most likely first.
    """

    variance: float
    scales: Floats
    fit: JointFit
    grid: tuple[Scales, ...]


def pooled_regression(sums: JointSums, *, constant: int | None = None) -> PooledRegression:
    """Estimate scales and coefficients from sums.

    Parameters
    ----------
    sums
        The sums.
    constant
        The column that is 1 for every unit and has its own scale; None if there is none.
    """
    variance = residual_variance(sums)
    grid = scale_grid(sums, variance, constant)
    fit, values, common = grid[0].fit, grid[0].values, open_penalty(sums.dim, constant)
    weight = PRIOR_OBSERVATIONS + len(sums.count)
    start = PRIOR_OBSERVATIONS * values**2
    for _ in range(STEPS):
        deviations = fit.theta - fit.common
        moments = deviations**2 / variance + fit.deviation_variances()
        values = np.sqrt((start + moments.sum(axis=0)) / weight)
        fit = joint_fit(sums, deviations=values**-2, common=common)
    return PooledRegression(variance, values * np.sqrt(variance), fit, grid)


def scale_grid(sums: JointSums, variance: float, constant: int | None) -> tuple[Scales, ...]:
    """Return the regressions under all pairs of scales, most likely first."""
    step = 2 if sums.dim >= LONG else 1
    pairs = [
        (tau0, tau1) for tau0 in CONSTANT[::step] for tau1 in FEATURES[::step]
        if tau1 <= MOST_RATIO * tau0
    ]  # fmt: skip
    if constant is None:
        pairs = [(tau, tau) for tau in FEATURES[::step]]
    every = np.repeat([[tau1] for _, tau1 in pairs], sums.dim, axis=1)
    if constant is not None:
        every[:, constant] = [tau0 for tau0, _ in pairs]
    common = np.tile(open_penalty(sums.dim, constant), (len(pairs), 1))
    fits = joint_fits(sums, deviations=every**-2, common=common)
    tried: list[tuple[float, Floats, JointFit]] = []
    for (tau0, tau1), values, fit in zip(pairs, every, fits, strict=True):
        far = np.log(tau0 / MIDDLE_CONSTANT) ** 2 + np.log(tau1 / MIDDLE_FEATURES) ** 2
        tried.append((fit.log_evidence(variance) - far / (2 * LOG_VARIANCE), values, fit))
    best = max(log for log, _, _ in tried)
    total = sum(np.exp(log - best) for log, _, _ in tried)
    made = [Scales(values, float(np.exp(log - best) / total), fit) for log, values, fit in tried]
    return tuple(sorted(made, key=lambda one: -one.weight))


def residual_variance(sums: JointSums) -> float:
    """Return the residual variance of one least-squares regression per action, with the levels."""
    levels = np.zeros(sums.levels)
    if sums.levels:
        levels, _ = free_levels(sums, pseudo_inverse(sums.gram))
    return noise_variance(sums.without_levels(levels), spent=sums.levels)
