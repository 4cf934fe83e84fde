"""Roots of grams, put together from directions that decide a choice and all others."""

import numpy as np
from numba import njit

from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS


@njit(**OPTIONS)
def complete_roots(
    frame: Floats,
    root: Floats,
    rank: Integers,
    cross: Floats,
    below: Floats,
    diagonal: Floats,
    factors: Floats,
) -> None:
    """Complete roots in some directions by draws in all others.

    With Q the directions, C a root there behind the constant's row c, N and L a Gaussian and a root
    of a Wishart, the answer is [[c, 0], [Q C + P N, P L]], where P projects on all but Q.

    Parameters
    ----------
    frame
        Q in its first columns, shape (trials, p, any number of columns).
    root
        The constant's row and C, lower triangular, shape (trials, K, size, size).
    rank
        How many columns of the root and of N count, shape (trials, K).
    cross
        N in its first columns, shape (trials, K, p, any number of columns).
    below, diagonal
        L below its diagonal and on it, shapes (trials, K, p, p) and (trials, K, p). Where rank is
        missing, the last numbers on the diagonal are zeros, and their columns do not count.
    factors
        Filled, shape (trials, K, 1 + p, size + p).
    """
    trials, actions, size, _ = root.shape
    p = frame.shape[1]
    along = np.empty((size - 1, size + p))
    for trial in range(trials):
        axes = frame[trial]
        for a in range(actions):
            made = factors[trial, a]
            columns = p
            while columns and not diagonal[trial, a, columns - 1]:
                columns -= 1
            kept = min(rank[trial, a], size)
            made[:], along[:] = 0.0, 0.0
            for j in range(kept):
                for i in range(j, size):
                    if i:
                        along[i - 1, j] = root[trial, a, i, j]
                    else:
                        made[0, j] = root[trial, a, i, j]
            _draw(cross[trial, a], below[trial, a], diagonal[trial, a], kept, columns, made)
            # Q (C - Q'X) + X for the draws X: their part along Q is replaced by the root's.
            for i in range(p):
                # Beyond its diagonal the draws' row is zero.
                filled = size + min(i + 1, columns)
                for q in range(size - 1):
                    for j in range(filled):
                        along[q, j] -= axes[i, q] * made[1 + i, j]
            for i in range(p):
                for q in range(size - 1):
                    for j in range(size + columns):
                        made[1 + i, j] += axes[i, q] * along[q, j]


@njit(**OPTIONS)
def _draw(
    cross: Floats, below: Floats, diagonal: Floats, kept: int, columns: int, made: Floats
) -> None:
    """Fill in what is drawn in all directions alike."""
    size = made.shape[1] - len(diagonal)
    for i in range(len(diagonal)):
        for j in range(kept):
            made[1 + i, j] = cross[i, j]
        for j in range(min(i, columns)):
            made[1 + i, size + j] = below[i, j]
        if i < columns:
            made[1 + i, size + i] = diagonal[i]
