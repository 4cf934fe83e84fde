"""The first batch by leverage: a D-optimal design over units' vectors, one unit at a time."""

import numpy as np


def added(A):
    """A and 0.001 of each column's mean square: 0.001 I/d for unit vectors in all directions."""
    return A + 0.001 * np.diag(np.diag(A))


def widest(x, A):
    """argmax_a x_a'(A + ...)^-1 x_a for one unit's vectors, the lowest action among equals."""
    inverse = np.linalg.inv(added(A))
    widths = [float(vector @ inverse @ vector) for vector in x]
    return widths.index(max(widths))


def design(units):
    """30 steps: A <- A + 2/(it + 3) (mean of x_a* x_a*' - A), from the mean over all vectors."""
    K, d = units.shape[1:]
    A = sum(np.outer(vector, vector) for x in units for vector in x) / (len(units) * K)
    for it in range(30):
        taken = np.zeros((d, d))
        for x in units:
            chosen = x[widest(x, A)]
            taken += np.outer(chosen, chosen) / len(units)
        A = A + 2 / (it + 3) * (taken - A)
    return A
