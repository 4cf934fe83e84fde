"""Points that choose between actions by estimated scores and lose by true ones."""

import numpy as np
from numba import njit

from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS


@njit(**OPTIONS)
def choose_points(
    points: Floats,
    guess: Floats,
    truth: Floats,
    used: int,
    regret: Floats,
    best: Floats,
    gram: Floats,
    count: Integers,
) -> None:
    """Let each point take the action of highest guessed score, and add up what follows.

    Parameters
    ----------
    points
        Shape (trials, points, directions).
    guess, truth
        Scores above the first action's: constant and slopes, shape (trials, K - 1, 1 +
        directions). The guess may have fewer directions; the first ones.
    used
        How many points of each trial enter the gram.
    regret, best
        Filled: the mean loss and the share of best choices, shape (trials,).
    gram, count
        Filled: for each action, sums of (1, y)(1, y)' over the guess's directions y of the points
        that chose it, and their number, shapes (trials, K, size, size) and (trials, K).
    """
    trials, number, _ = points.shape
    others, size, wide = guess.shape[1], guess.shape[2], truth.shape[2]
    row = np.ones(size)
    gram[:] = 0.0
    count[:] = 0
    for trial in range(trials):
        lost, right = 0.0, 0
        for i in range(number):
            point = points[trial, i]
            # Scores are differences from the first action's, which therefore is 0.
            chosen, highest, got, top = 0, 0.0, 0.0, 0.0
            for a in range(others):
                score = guess[trial, a, 0]
                for j in range(1, size):
                    score += guess[trial, a, j] * point[j - 1]
                true = truth[trial, a, 0]
                for j in range(1, wide):
                    true += truth[trial, a, j] * point[j - 1]
                top = max(top, true)
                if score > highest:
                    chosen, highest, got = a + 1, score, true
            lost += top - got
            # Exact, because both are the same number where the choice is the best one.
            right += top == got
            # All points measure the loss; a batch of fewer units must not learn from more of them.
            if i < used:
                row[1:] = point[: size - 1]
                count[trial, chosen] += 1
                target = gram[trial, chosen]
                for j in range(size):
                    for k in range(j + 1):
                        target[j, k] += row[j] * row[k]
        regret[trial] = lost / number
        best[trial] = right / number
        for a in range(others + 1):
            for j in range(size):
                for k in range(j):
                    gram[trial, a, k, j] = gram[trial, a, j, k]
