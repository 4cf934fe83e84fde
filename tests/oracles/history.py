"""Regression with a drifted history, row by row: one dense normal law of both experiments."""

import numpy as np

from tests.oracles.pooling import design


def posterior(old, new, K, *, drift, deviations, open_sd, variance=1.0):
    """Return the mean and covariance of the new coefficients of each action.

    `old` and `new` are (vectors, actions, outcomes, levels), where levels has a column of 0 and 1
    for each batch with a level of its own, flat before. The new coefficients are the old ones plus
    a drift with standard deviation `drift`, in units of the noise.
    """
    law = _Law(old, new, K, drift=drift, deviations=deviations, open_sd=open_sd, variance=variance)
    X, y = law.rows, np.concatenate([old[2], new[2]])
    precision = X.T @ X / variance + law.precision
    covariance = np.linalg.inv(precision)
    mean = covariance @ X.T @ y / variance
    theta = law.theta @ mean
    p = old[0].shape[1]
    spread = law.theta @ covariance @ law.theta.T
    blocks = [spread[a * p : (a + 1) * p, a * p : (a + 1) * p] for a in range(K)]
    return theta.reshape(K, p), np.array(blocks)


def log_density(old, new, K, *, drift, deviations, open_sd, variance=1.0, wide=1e4):
    """Return the log density of the new outcomes given the old ones; levels are almost flat."""
    law = _Law(old, new, K, drift=drift, deviations=deviations, open_sd=open_sd, variance=variance)
    prior = np.linalg.inv(law.precision + np.diag(np.where(law.level, 1 / wide**2, 0.0)))
    every = law.rows @ prior @ law.rows.T + variance * np.eye(len(law.rows))
    n = len(old[2])
    y = np.concatenate([old[2], new[2]])
    return _normal(y, every) - _normal(y[:n], every[:n, :n])


def _normal(y, covariance):
    return -0.5 * (np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y))


class _Law:
    """The columns: common part, old levels, old deviations, drifts, new levels."""

    def __init__(self, old, new, K, *, drift, deviations, open_sd, variance):
        p, m, last = old[0].shape[1], old[3].shape[1], new[3].shape[1]
        first, second = (design(x, actions, K) for x, actions, _, _ in (old, new))
        n1, n2 = len(first), len(second)
        self.rows = np.block([
            [first[:, :p], old[3], first[:, p:], np.zeros((n1, K * p)), np.zeros((n1, last))],
            [second[:, :p], np.zeros((n2, m)), second[:, p:], second[:, p:], new[3]],
        ])  # fmt: skip
        sds = [
            np.full(p, open_sd), np.full(m, np.inf), np.tile(deviations, K),
            np.full(K * p, drift * np.sqrt(variance)), np.full(last, np.inf),
        ]  # fmt: skip
        self.precision = np.diag(1 / np.concatenate(sds) ** 2)
        self.level = np.isinf(np.concatenate(sds))
        each = np.eye(K * p)
        self.theta = np.hstack(
            [np.tile(np.eye(p), (K, 1)), np.zeros((K * p, m)), each, each, np.zeros((K * p, last))]
        )
