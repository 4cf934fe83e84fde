"""Joint regressions of all actions, row by row: dense designs and covariances, refitted folds."""

import numpy as np


def design(vectors, actions, K, levels=()):
    """Return columns for the common part, each level, and each action's deviations."""
    n, p = vectors.shape
    own = np.zeros((n, K * p))
    for row, action in enumerate(actions):
        own[row, action * p : (action + 1) * p] = vectors[row]
    shared = [vectors, *([np.asarray(levels)] if len(levels) else [])]
    return np.hstack([*shared, own])


def dummies(waves):
    """Return one column for each wave but the first."""
    return np.column_stack([waves == wave for wave in np.unique(waves)[1:]]).astype(float)


def joint_ridge(vectors, actions, outcomes, K, *, common, deviations, levels=()):
    """Minimise squares plus penalties by one dense system; return theta (K, p) and the levels."""
    p = vectors.shape[1]
    X = design(vectors, actions, K, levels)
    count = np.shape(levels)[1] if len(levels) else 0
    penalty = np.concatenate([common, np.zeros(count), np.tile(deviations, K)])
    solved = np.linalg.solve(X.T @ X + np.diag(penalty), X.T @ outcomes)
    shared, own = solved[:p], solved[p + count :].reshape(K, p)
    return shared + own, solved[p : p + count]


def log_density(vectors, actions, outcomes, K, *, variance, deviations, open_sd):
    """Return the log density of the outcomes: a normal of covariance X D X' + variance I."""
    p = vectors.shape[1]
    X = design(vectors, actions, K)
    prior = np.concatenate([np.full(p, open_sd**2), np.tile(deviations, K)])
    covariance = (X * prior) @ X.T + variance * np.eye(len(X))
    _, logdet = np.linalg.slogdet(covariance)
    return -0.5 * (logdet + outcomes @ np.linalg.solve(covariance, outcomes))


def restricted_log_likelihood(vectors, actions, outcomes, K, *, variance, deviations):
    """Return the REML criterion of a mixed model, which mixed-model programs maximise.

    Fixed effects are the common part, random ones each action's deviations, independent.
    """
    Z = design(vectors, actions, K)[:, vectors.shape[1] :]
    V = (Z * np.tile(deviations, K)) @ Z.T + variance * np.eye(len(Z))
    inverse = np.linalg.inv(V)
    crossed = vectors.T @ inverse @ vectors
    left = outcomes - vectors @ np.linalg.solve(crossed, vectors.T @ inverse @ outcomes)
    terms = np.linalg.slogdet(V)[1], np.linalg.slogdet(crossed)[1], left @ inverse @ left
    return -0.5 * sum(terms)


def posterior(vectors, actions, K, *, variance, deviations, open_sd):
    """Return the posterior covariance of all actions' theta, jointly, shape (K p, K p)."""
    p = vectors.shape[1]
    X = design(vectors, actions, K)
    prior = np.concatenate([np.full(p, open_sd**2), np.tile(deviations, K)])
    covariance = np.linalg.inv(X.T @ X / variance + np.diag(1 / prior))
    to_theta = np.hstack([np.tile(np.eye(p), (K, 1)), np.eye(K * p)])
    return to_theta @ covariance @ to_theta.T


def pooled(vectors, actions, outcomes, K, *, constant, pairs, steps=15, nu=2.0):
    """Return theta and scales: the likeliest pair of scales, then EM steps for each feature.

    The noise is the residual variance of one regression per action.
    """
    p = vectors.shape[1]
    left, freedom = 0.0, 0
    for action in range(K):
        rows = actions == action
        solved, _, rank, _ = np.linalg.lstsq(vectors[rows], outcomes[rows], rcond=None)
        left += float(np.sum((outcomes[rows] - vectors[rows] @ solved) ** 2))
        freedom += rows.sum() - rank
    variance = left / freedom
    noise = np.sqrt(variance)

    def scales(pair):
        values = np.full(p, pair[1] * noise)
        values[constant] = pair[0] * noise
        return values

    def score(pair):
        prior = (np.log(pair[0] / 0.1) ** 2 + np.log(pair[1] / 0.03) ** 2) / 16
        return (
            log_density(
                vectors, actions, outcomes, K,
                variance=variance, deviations=scales(pair) ** 2, open_sd=100 * noise,
            )
            - prior
        )  # fmt: skip

    start = scales(max(pairs, key=score))
    current = start
    for _ in range(steps):
        X = design(vectors, actions, K)
        prior = np.concatenate([np.full(p, (100 * noise) ** 2), np.tile(current**2, K)])
        covariance = np.linalg.inv(X.T @ X / variance + np.diag(1 / prior))
        mean = covariance @ X.T @ outcomes / variance
        own = mean[p:].reshape(K, p)
        spread = np.diag(covariance)[p:].reshape(K, p)
        current = np.sqrt((nu * start**2 + (own**2 + spread).sum(axis=0)) / (nu + K))
    common = np.full(p, variance / (100 * noise) ** 2)
    theta, _ = joint_ridge(
        vectors, actions, outcomes, K, common=common, deviations=variance / current**2
    )
    return theta, current


def cross_validated(vectors, actions, outcomes, folds, K, *, constant, penalties):
    """Return the penalty with the least error on folds, and theta with it, by refitting."""
    p = vectors.shape[1]

    def fit(rows, penalty):
        common = np.full(p, penalty / 4)
        common[constant] = 0.0
        return joint_ridge(
            vectors[rows], actions[rows], outcomes[rows], K,
            common=common, deviations=np.full(p, penalty),
        )[0]  # fmt: skip

    errors = np.zeros((len(np.unique(folds)), len(penalties)))
    for row, fold in enumerate(np.unique(folds)):
        for column, penalty in enumerate(penalties):
            theta = fit(folds != fold, penalty)
            kept = folds == fold
            fitted = np.sum(vectors[kept] * theta[actions[kept]], axis=1)
            errors[row, column] = np.sum((outcomes[kept] - fitted) ** 2)
    best = penalties[errors.sum(axis=0).argmin()]
    return best, fit(np.ones(len(outcomes), bool), best)


def averaged(vectors, actions, outcomes, K, *, constant, grid, levels=()):
    """Return theta averaged over a grid of scales, and the weights, by dense normal densities.

    The noise's variance v has the prior 1 / v; the constant's common part and levels are flat. Then
    the outcomes have the density |V|^-1/2 |Z' V^-1 Z|^-1/2 (squares left)^-(n - f)/2, where V is
    their covariance in units of v without the f flat columns Z.
    """
    n, p = vectors.shape
    X = design(vectors, actions, K)
    flat = np.column_stack([vectors[:, [constant]], *([levels] if len(levels) else [])])
    features = np.arange(p) != constant
    size = np.mean(vectors[:, features] ** 2)
    logs, thetas = [], []
    for s0, s1, s2 in grid:
        own = np.where(features, s1**2 / size, s0**2)
        common = np.where(features, s2**2 / size, 0.0)
        V = np.eye(n) + (X * np.concatenate([common, np.tile(own, K)])) @ X.T
        inner = np.linalg.inv(V)
        crossed = flat.T @ inner @ flat
        kept = inner - inner @ flat @ np.linalg.solve(crossed, flat.T @ inner)
        logs.append(
            -0.5 * np.linalg.slogdet(V)[1]
            - 0.5 * np.linalg.slogdet(crossed)[1]
            - 0.5 * (n - flat.shape[1]) * np.log(outcomes @ kept @ outcomes)
            - (np.log(s0 / 0.1) ** 2 + np.log(s1 / 0.03) ** 2) / 16
            - np.log(s1 / s0) ** 2
        )
        penalty = np.array([0.0 if value == 0 else 1 / value for value in common])
        theta, _ = joint_ridge(
            vectors, actions, outcomes, K, common=penalty, deviations=1 / own, levels=levels
        )
        thetas.append(theta)
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    return np.einsum("g,gap->ap", weights, np.array(thetas)), weights
