"""The states of many trials as one: every trial's models are further cells of the same sums.

Policies estimate cell by cell, so that one call of their own code closes a batch of all trials.
Cells are ordered by trial, then by model.
"""

from dataclasses import replace

import numpy as np

from seqbatch.core import Estimate, Statistics
from seqbatch.core.arrays import AnyArray, Floats
from seqbatch.policies.base import BasePolicy, State


def gathered(state: State, trials: int) -> State:
    """Return the state of so many trials that are all in this one."""
    models = state.problem.models

    def repeated(values: AnyArray) -> AnyArray:
        # Estimates may hold several draws, each with all models: trials come between the two.
        shape = (len(values) // models, 1, models, *values.shape[1:])
        copies = np.repeat(values.reshape(shape), trials, axis=1)
        return copies.reshape(len(values) * trials, *values.shape[1:])

    return replace(
        state,
        evidence=tuple(
            Statistics(*map(repeated, (part.gram, part.moment, part.squares, part.count)))
            for part in state.evidence
        ),
        stale=tuple(map(repeated, state.stale)),
        estimates=tuple(
            Estimate(*map(repeated, (part.theta, part.root, part.rank, part.condition)))
            for part in state.estimates
        ),
    )


def errors(state: State, policy: BasePolicy, thetas: Floats) -> Floats:
    """Return every trial's |theta_hat - theta| over all models, given (trials, models, dim)."""
    off = policy.summary(state).theta.reshape(thetas.shape) - thetas
    lengths: Floats = np.sqrt((off**2).sum(axis=(1, 2)))
    return lengths


def least_eigenvalues(gram: Floats, models: int) -> Floats:
    """Return the smallest eigenvalue of every trial's design, over all models."""
    least: Floats = np.linalg.eigvalsh(gram).min(axis=1).reshape(-1, models).min(axis=1)
    return least
