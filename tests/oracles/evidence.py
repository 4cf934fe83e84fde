"""How likely rewards are under an effect and a noise, by the dense normal density of them all."""

import numpy as np
from scipy.stats import multivariate_normal


def log_density(rows, actions, rewards, *, spread, noise, common):
    """Return the log density of rewards whose parameters are integrated out.

    Parameters
    ----------
    rows, actions, rewards
        One unit each: its vector, its model's number and its reward.
    spread, noise, common
        The standard deviations of parameters around their common part, of rewards, and of the
        common part.
    """
    units = len(rows)
    covariance = np.zeros((units, units))
    for i in range(units):
        for j in range(units):
            product = float(rows[i] @ rows[j])
            covariance[i, j] = common**2 * product
            if actions[i] == actions[j]:
                covariance[i, j] += spread**2 * product
            if i == j:
                covariance[i, j] += noise**2
    return multivariate_normal(np.zeros(units), covariance).logpdf(rewards)


def posterior(rows, actions, rewards, *, models, spread, noise, common):
    """Return mean and covariance of all parameters, one model after the other, dense."""
    dim = rows.shape[1]
    design = np.zeros((len(rows), models * dim))
    for unit, (row, action) in enumerate(zip(rows, actions, strict=True)):
        design[unit, action * dim : (action + 1) * dim] = row
    between = spread**2 * np.eye(models) + common**2 * np.ones((models, models))
    prior = np.linalg.inv(np.kron(between, np.eye(dim)))
    covariance = np.linalg.inv(design.T @ design / noise**2 + prior)
    return covariance @ design.T @ rewards / noise**2, covariance
