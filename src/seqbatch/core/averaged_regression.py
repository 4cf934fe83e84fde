"""Joint ridge regressions, averaged over penalties by how likely these make the outcomes.

The coefficients of an action are a common part plus a deviation. In units of the noise, deviations
of the constant are N(0, s0^2), those of the features N(0, s1^2) and the common part of the features
is N(0, s2^2); the constant's common part and the levels of waves are free, and the noise has the
prior 1 / variance. The estimate is the posterior mean over a grid of scales, from the sums alone.
s0 and s1 have their own prior: they are unlikely to differ by orders of magnitude. Where the
outcomes say that they do, nearly all units get the same action.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.core.joint_regression import JointSums, joint_fits
from seqbatch.core.pooled_regression import LOG_VARIANCE, LONG, MIDDLE_CONSTANT, MIDDLE_FEATURES

#: Scales of the constant's deviations, the features' deviations, and the features' common part.
CONSTANT = (0.01, 0.03, 0.1, 0.3, 1.0)
FEATURES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
COMMON = (0.01, 0.1, 1.0)
#: The variance of ln(s1 / s0), beside weak priors of both.
RATIO_VARIANCE = 0.5
#: The least share of the squares that stays unexplained: it makes every logarithm finite.
LEAST = 1e-9


@dataclass(frozen=True)
class AveragedRegression:
    """An average of joint ridge regressions.

    Parameters
    ----------
    theta
        The average coefficients of each action, shape (actions, dim).
    scales
        The scales s0, s1 and s2 of each regression, shape (regressions, 3).
    weights
        The posterior probability of each, shape (regressions,).
    """

    theta: Floats
    scales: Floats
    weights: Floats


def averaged_regression(sums: JointSums, *, constant: int | None = None) -> AveragedRegression:
    """Average joint ridge regressions over all scales of the grid.

    Parameters
    ----------
    sums
        The sums.
    constant
        The column that is 1 for every unit; None if there is none, and s0 is s1.
    """
    features = np.arange(sums.dim) != (-1 if constant is None else constant)
    units = max(float(sums.count.sum()), 1.0)
    squares = np.einsum("app->p", sums.gram)[features]
    # Penalties are relative to a feature's mean square.
    size = float(squares.sum()) / (units * max(len(squares), 1)) or 1.0
    free = sums.levels + (constant is not None)
    freedom = max(float(sums.count.sum()) - free, 0.0)
    total = float(sums.squares.sum())
    scales = np.array(list(_grid(constant, step=2 if sums.dim > LONG else 1)))
    s0, s1, s2 = (scales[:, [place]] for place in range(3))
    deviations = np.where(features, size / s1**2, 1.0 / s0**2)
    common = np.where(features, size / s2**2, 0.0)
    logs, thetas = np.empty(len(scales)), np.empty((len(scales), *sums.moment.shape))
    for place, fit in enumerate(joint_fits(sums, deviations=deviations, common=common)):
        left = max(total - fit.explained, LEAST * total) or 1.0
        determinant = fit.log_determinant + np.log(common[place, features]).sum()
        logs[place] = 0.5 * (determinant - freedom * np.log(left))
        logs[place] += _log_prior(*scales[place, :2])
        thetas[place] = fit.theta
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    return AveragedRegression(np.einsum("g,gap->ap", weights, thetas), scales, weights)


def _grid(constant: int | None, *, step: int) -> Iterator[tuple[float, float, float]]:
    for s1 in FEATURES[::step]:
        for s0 in (s1,) if constant is None else CONSTANT[::step]:
            for s2 in COMMON[::step]:
                yield s0, s1, s2


def _log_prior(s0: float, s1: float) -> float:
    far = np.log(s0 / MIDDLE_CONSTANT) ** 2 + np.log(s1 / MIDDLE_FEATURES) ** 2
    return float(-far / (2 * LOG_VARIANCE) - np.log(s1 / s0) ** 2 / (2 * RATIO_VARIANCE))
