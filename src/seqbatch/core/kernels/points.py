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
        Shape (trials, directions, points).
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
    trials, _, number = points.shape
    actions, size = guess.shape[1] + 1, guess.shape[2]
    score, true = np.empty(number), np.empty(number)
    highest, got, top = np.empty(number), np.empty(number), np.empty(number)
    chosen = np.empty(number, dtype=np.int64)
    rows = np.empty((size, number))
    for trial in range(trials):
        # Scores are differences from the first action's, which therefore is 0.
        highest[:], got[:], top[:], chosen[:] = 0.0, 0.0, 0.0, 0
        for a in range(actions - 1):
            _line(guess[trial, a], points[trial], score)
            _line(truth[trial, a], points[trial], true)
            for i in range(number):
                top[i] = true[i] if true[i] > top[i] else top[i]
                better = score[i] > highest[i]
                highest[i] = score[i] if better else highest[i]
                got[i] = true[i] if better else got[i]
                chosen[i] = a + 1 if better else chosen[i]
        right = 0
        for i in range(number):
            # Exact, because both are the same number where the choice is the best one.
            right += top[i] == got[i]
            top[i] -= got[i]
            got[i] = 1.0
        regret[trial] = _dot(top, got, number) / number
        best[trial] = right / number
        # All points measure the loss; a batch of fewer units must not learn from more of them.
        _added_up(points[trial], chosen[:used], rows, gram[trial], count[trial])


@njit(**OPTIONS)
def _line(slopes: Floats, points: Floats, value: Floats) -> None:
    """Fill in a constant and slopes at every point; points side by side, for vector registers."""
    value[:] = slopes[0]
    for j in range(1, len(slopes)):
        slope, place = slopes[j], points[j - 1]
        for i in range(len(value)):
            value[i] += slope * place[i]


@njit(**OPTIONS)
def _added_up(
    points: Floats, chosen: Integers, rows: Floats, gram: Floats, count: Integers
) -> None:
    """Fill in how many points chose each action, and the sums of their squares and products."""
    count[:] = 0
    for action in chosen:
        count[action] += 1
    # The points of one action side by side, each at its action's next place.
    place = np.zeros(len(count), dtype=np.int64)
    for a in range(1, len(count)):
        place[a] = place[a - 1] + count[a - 1]
    for i in range(len(chosen)):
        rows[0, place[chosen[i]]] = 1.0
        for j in range(1, len(rows)):
            rows[j, place[chosen[i]]] = points[j - 1, i]
        place[chosen[i]] += 1
    for a in range(len(count)):
        mine = rows[:, place[a] - count[a] : place[a]]
        for j in range(len(rows)):
            for k in range(j + 1):
                gram[a, j, k] = gram[a, k, j] = _dot(mine[j], mine[k], count[a])


@njit(**OPTIONS)
def _dot(one: Floats, other: Floats, number: int) -> float:
    """Add up products, in eight sums that registers of any width work on alike."""
    a = b = c = d = e = f = g = h = 0.0
    whole = number - number % 8
    for i in range(0, whole, 8):
        a += one[i] * other[i]
        b += one[i + 1] * other[i + 1]
        c += one[i + 2] * other[i + 2]
        d += one[i + 3] * other[i + 3]
        e += one[i + 4] * other[i + 4]
        f += one[i + 5] * other[i + 5]
        g += one[i + 6] * other[i + 6]
        h += one[i + 7] * other[i + 7]
    total = ((a + e) + (c + g)) + ((b + f) + (d + h))
    for i in range(whole, number):
        total += one[i] * other[i]
    return total
