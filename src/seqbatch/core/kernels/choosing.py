"""One action a unit: among equals, or by shares of a draw; a few actions, and units by the million.

What is computed is what it would be unit by unit, whoever stands beside it.
"""

import numpy as np
from numba import njit

from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS


@njit(**OPTIONS)
def mark_highest(criterion: Floats, out: Bools) -> None:
    """Say which actions have the highest criterion of their unit, shape (n, K).

    None has where a criterion is not a number: it is not known which would be the highest.
    """
    for unit in range(criterion.shape[0]):
        top = criterion[unit, 0]
        for action in range(1, criterion.shape[1]):
            value = criterion[unit, action]
            if value > top or np.isnan(value):
                top = value
        for action in range(criterion.shape[1]):
            out[unit, action] = criterion[unit, action] == top


@njit(**OPTIONS)
def choose_among(allowed: Bools, draws: Floats, chosen: Integers, probabilities: Floats) -> None:
    """Choose one of the allowed actions, each with the same probability."""
    for unit in range(allowed.shape[0]):
        equals = 0
        for action in range(allowed.shape[1]):
            equals += allowed[unit, action]
        wanted = min(int(draws[unit] * equals), equals - 1)
        chosen[unit], passed = 0, 0
        for action in range(allowed.shape[1]):
            # The action by which as many equals as wanted, and this one, have been passed.
            if allowed[unit, action] and passed == wanted:
                chosen[unit] = action
            passed += allowed[unit, action]
            probabilities[unit, action] = allowed[unit, action] / equals


@njit(**OPTIONS)
def choose_by_shares(probabilities: Floats, draws: Floats, chosen: Integers) -> None:
    """Choose the action in whose share of [0, 1) the draw falls.

    Shares may sum to a little less than 1: the draw is scaled, and the last possible action takes
    what rounding leaves.
    """
    actions = probabilities.shape[1]
    for unit in range(probabilities.shape[0]):
        total, possible = 0.0, actions - 1
        for action in range(actions):
            total += probabilities[unit, action]
            if probabilities[unit, action] > 0:
                possible = action
        drawn, share, passed = draws[unit] * total, 0.0, 0
        for action in range(actions):
            share += probabilities[unit, action]
            passed += drawn >= share
        chosen[unit] = min(passed, possible)
