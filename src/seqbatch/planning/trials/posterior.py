"""Parameters drawn from what is known: the actions' common part first, then each around it."""

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.planning.trials.greedy import Past


def parameters_given(
    past: Past, spreads: Floats, noises: Floats, normals: Floats, shared: Floats
) -> Floats:
    """Draw parameters given what is known, shape (trials, models, dim).

    Parameters
    ----------
    past
        The sums of what is known, and how wide the law of the actions' common part is.
    spreads, noises
        The standard deviations of parameters around their common part, and of rewards, in each
        trial.
    normals, shared
        Standard normals, for the actions and for their common part: shapes (trials, models, dim)
        and (trials, dim).
    """
    result = np.empty_like(normals)
    # Trials of one scenario share their matrices.
    pairs, places = np.unique(np.column_stack([spreads, noises]), axis=0, return_inverse=True)
    for place, (spread, noise) in enumerate(pairs):
        own = np.flatnonzero(places == place)
        result[own] = _of_one(past, spread, noise, normals[own], shared[own])
    return result


def _of_one(past: Past, spread: float, noise: float, normals: Floats, shared: Floats) -> Floats:
    """Draw for trials of one scenario."""
    precision = past.gram / noise**2 + np.eye(past.gram.shape[-1]) / spread**2
    # With R R' the precision, the solution of R' x = z has covariance (R R')^-1.
    root = np.linalg.cholesky(precision)
    middle = _common(past, spread, noise, shared)
    pull = past.moment / noise**2 + middle[:, None] / spread**2
    mean = _solved(precision, pull)
    return mean + _solved(np.swapaxes(root, -1, -2), normals)


def _common(past: Past, spread: float, noise: float, shared: Floats) -> Floats:
    """Draw the actions' common part, shape (trials, dim); 0 where there is none."""
    if not past.common:
        return np.zeros_like(shared)
    dim = shared.shape[1]
    system = past.gram + (noise / spread) ** 2 * np.eye(dim)
    precision = np.linalg.solve(system, past.gram).sum(axis=0) / spread**2
    precision = precision + np.eye(dim) / past.common**2
    # Rounding leaves it a little unsymmetric.
    root = np.linalg.cholesky((precision + precision.T) / 2)
    pull = np.linalg.solve(system, past.moment[..., None])[..., 0].sum(axis=0) / spread**2
    drawn: Floats = np.linalg.solve(precision, pull) + np.linalg.solve(root.T, shared.T).T
    return drawn


def _solved(matrices: Floats, vectors: Floats) -> Floats:
    """Solve one system a model for the vectors of all trials, shape (trials, models, dim)."""
    solved = np.linalg.solve(matrices, np.moveaxis(vectors, 0, -1))
    return np.asarray(np.moveaxis(solved, -1, 0), dtype=np.float64)
