"""Very many small waves, drawn and checked in one compiled loop.

``python -m tests.allocation.waves 1000000`` draws a million waves of pathological probabilities and
counts those in which an action got more or fewer units than its expectation allows, in all or in a
stratum, or a unit got what it had no probability of.
"""

# ruff: noqa: NPY002, numba has one generator of its own inside compiled loops

import sys

import numpy as np
from numba import njit

from seqbatch.core import kernels
from seqbatch.core.kernels.compiling import OPTIONS

ONE = 1 << 52
SPECIAL = np.array([0.0, 1.0, 1e-300, 1e-17, 2.0**-52, 0.5, 1 / 3, 1 - 1e-16, 0.25, 1e-9])
round_table, whole_parts = kernels.round_table, kernels.whole_parts


@njit(**OPTIONS)
def pathological(probabilities, special):
    for row in range(probabilities.shape[0]):
        kind = np.random.randint(4)
        for a in range(probabilities.shape[1]):
            if kind == 0:
                probabilities[row, a] = special[np.random.randint(len(special))]
            elif kind == 1:
                probabilities[row, a] = 1.0
            else:
                probabilities[row, a] = np.random.random() ** 8
        if probabilities[row].sum() == 0:
            probabilities[row, np.random.randint(probabilities.shape[1])] = 1.0
        probabilities[row] /= probabilities[row].sum()


@njit(**OPTIONS)
def outside(weights, actions, members):
    """Count the actions whose number is not their expectation rounded up or down."""
    wrong = 0
    for a in range(weights.shape[1]):
        # Tables are small: the sum has less than 64 bits.
        total, count = 0, 0
        for row in range(weights.shape[0]):
            if members[row]:
                total += weights[row, a]
                count += actions[row] == a
        wrong += count < total // ONE or count > -(-total // ONE)
    return wrong


@njit(**OPTIONS)
def wrong_waves(waves, seed, special):
    np.random.seed(seed)
    wrong = 0
    for wave in range(waves):
        units, actions = 1 + np.random.randint(16), 1 + np.random.randint(5)
        probabilities = np.empty((units, actions))
        pathological(probabilities, special)
        weights = np.empty((units, actions), dtype=np.int64)
        if whole_parts(probabilities, weights) >= 0:
            wrong += 1
            continue
        strata = np.sort(np.random.randint(0, 3, units))
        changes = np.full(units, 2)
        groups = 2
        for row in range(1, units):
            if strata[row] != strata[row - 1]:
                changes[row] = 1
                groups += 1
        key = np.array([wave, seed]).astype(np.uint64)
        chosen = round_table(weights, np.arange(units), changes, groups, 2, key)
        bad = outside(weights, chosen, np.ones(units, dtype=np.bool_))
        for stratum in range(3):
            bad += outside(weights, chosen, strata == stratum)
        for row in range(units):
            bad += chosen[row] < 0 or weights[row, chosen[row]] == 0
        wrong += bad > 0
    return wrong


@njit(**OPTIONS)
def repeated(weights, order, changes, groups, depth, first, times):
    """Count, over keys, who got what, and which pairs of units got the same action."""
    units, actions = weights.shape
    cells = np.zeros((units, actions), dtype=np.int64)
    pairs = np.zeros((units, units, actions), dtype=np.int64)
    for time in range(times):
        key = np.array([first, time]).astype(np.uint64)
        chosen = round_table(weights, order, changes, groups, depth, key)
        for i in range(units):
            cells[i, chosen[i]] += 1
            for j in range(i):
                if chosen[i] == chosen[j]:
                    pairs[i, j, chosen[i]] += 1
    return cells, pairs


if __name__ == "__main__":
    asked = int(sys.argv[1])
    print(f"{asked:,} waves, {wrong_waves(asked, 14, SPECIAL):,} of them wrong")
