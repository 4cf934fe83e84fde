"""The best of several estimates, literally: by densities, and action by action."""

import numpy as np
from scipy import optimize, stats


def spread(estimates, covariance):
    """Return tau: differences to the first estimate do not depend on the common part."""
    K = len(estimates)
    differences = np.column_stack([-np.ones(K - 1), np.eye(K - 1)])
    seen = differences @ estimates

    def minus_log(tau):
        whole = differences @ (covariance + tau**2 * np.eye(K)) @ differences.T
        return -stats.multivariate_normal.logpdf(seen, np.zeros(K - 1), whole)

    most = 5 * np.ptp(estimates) + 5 * np.sqrt(np.diag(covariance).max())
    ends = np.linspace(0, most, 400)
    best = min(ends, key=minus_log)
    near = (max(best - most / 200, 0), best + most / 200)
    found = optimize.minimize_scalar(minus_log, bounds=near, method="bounded",
                                     options={"xatol": 1e-10 * most}).x  # fmt: skip
    return min([0.0, found], key=minus_log)


def shrunken(estimates, covariance, tau):
    """Return the posterior means of true values with a flat common part, by one linear system."""
    K = len(estimates)
    if tau < 1e-6:
        weights = np.linalg.solve(covariance, np.ones(K))
        return np.full(K, weights @ estimates / weights.sum())
    # Unknowns are the true values and the common part.
    inverse, ones = np.linalg.inv(covariance), np.ones(K) / tau**2
    system = np.block([[inverse + np.eye(K) / tau**2, -ones[:, None]],
                       [-ones[None, :], np.array([[K / tau**2]])]])  # fmt: skip
    return np.linalg.solve(system, np.append(inverse @ estimates, 0.0))[:K]


def limits(estimates, errors, dfs, place, joint, *, less=False, tail=0.025):
    """Return the interval: the joint limit, and what any selection leaves on the better side."""
    sign = -1 if less else 1
    reach = [
        sign * one + stats.t.isf(0.8 * tail, df) * error
        for one, error, df in zip(estimates, errors, dfs, strict=True)
    ]
    own = sign * estimates[place] + (
        stats.t.isf(0.2 * tail / len(estimates), dfs[place]) * errors[place]
    )
    better = min(max(reach), own)
    return (-better, joint) if less else (joint, better)
