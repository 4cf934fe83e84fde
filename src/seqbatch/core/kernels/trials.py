"""Kernels of planning's trials: choices, regret, Gram matrices, small systems."""

import math

import numpy as np
from numba import njit

from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS

# ----------------------------------------------------------------------
# Points that choose between actions by estimated scores and lose by true ones.


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


# ----------------------------------------------------------------------
# Points that choose between the actions they may get, while there is room for them.


#: The score of an action that a point may not get.
NEVER = -1e300
#: Prices are raised in so many rounds at most, one action after the other.
ROUNDS = 60
#: One in so many points may get an action beyond its room.
SPARE = 256


@njit(**OPTIONS)
def choose_restricted_points(
    points: Floats,
    guess: Floats,
    truth: Floats,
    eligible: Bools,
    room: Floats,
    own_room: Floats,
    weights: Floats,
    used: int,
    regret: Floats,
    best: Floats,
    gram: Floats,
    count: Integers,
) -> None:
    """Let each point take the action of highest guessed score less price, and add up what follows.

    Parameters
    ----------
    points, guess, truth, used
        As for :func:`~seqbatch.core.kernels.choose_points`.
    eligible
        Which actions each point may get, shape (trials, points, K).
    room
        The most points that may get each action, as a share of all; what is lost is against the
        best assignment within it. Shape (K,).
    own_room
        The same for the choice by guessed scores.
    weights
        Where points choose by chance instead: how likely each action is, to be divided by the sum
        over those that the point may get. Shape (K,), or (0,) where they choose by scores.
    regret, best, gram, count
        Filled, as for the other kernel; by chance, neither gram nor count are.
    """
    trials, _, number = points.shape
    actions = truth.shape[1] + 1
    true, score = np.empty((actions, number)), np.empty((actions, number))
    right = np.empty(number, dtype=np.int64)
    chosen = np.empty(number, dtype=np.int64)
    rows = np.empty((gram.shape[2], number))
    for trial in range(trials):
        _scores(truth[trial], points[trial], eligible[trial], true)
        assign_within(true, room, right)
        lost, hits = 0.0, 0.0
        if len(weights):
            for i in range(number):
                value, total = 0.0, 0.0
                for a in range(actions):
                    if eligible[trial, i, a]:
                        value += weights[a] * true[a, i]
                        total += weights[a]
                lost += true[right[i], i] - value / total
                hits += weights[right[i]] / total
        else:
            _scores(guess[trial], points[trial], eligible[trial], score)
            assign_within(score, own_room, chosen)
            for i in range(number):
                lost += true[right[i], i] - true[chosen[i], i]
                hits += right[i] == chosen[i]
            _added_up(points[trial], chosen[:used], rows, gram[trial], count[trial])
        regret[trial], best[trial] = lost / number, hits / number


@njit(**OPTIONS)
def _scores(slopes: Floats, points: Floats, eligible: Bools, score: Floats) -> None:
    """Fill in each action's scores, those above the first action's, where points may get it."""
    score[0] = 0.0
    for a in range(len(slopes)):
        _line(slopes[a], points, score[a + 1])
    for a in range(len(score)):
        for i in range(score.shape[1]):
            if not eligible[i, a]:
                score[a, i] = NEVER


@njit(**OPTIONS)
def assign_within(score: Floats, room: Floats, chosen: Integers) -> None:
    """Give each point its action of highest score less price, at the lowest prices that clear.

    From 0, each price in turn is raised to where the action has as many takers as there is room
    for. Raising one never makes another too high, so that they settle from below; a few takers too
    many are let be.

    Parameters
    ----------
    score
        Shape (K, points); :data:`NEVER` where a point may not get an action.
    room
        The most points that may get each action, as a share of all; shape (K,).
    chosen
        Filled: each point's action.
    """
    actions, number = score.shape
    price, margin = np.zeros(actions), np.empty(number)
    spare = number // SPARE
    for _ in range(ROUNDS):
        moved = False
        for a in range(actions):
            places = int(room[a] * number + 1e-9)
            if places + spare >= number:
                continue
            takers, widest = _margins(score, price, a, margin)
            if takers > places + spare:
                price[a] = _clearing(margin, places, widest)
                moved = True
        if not moved:
            break
    for i in range(number):
        top = 2 * NEVER
        for a in range(actions):
            if score[a, i] > NEVER / 2 and score[a, i] - price[a] > top:
                top, chosen[i] = score[a, i] - price[a], a


@njit(**OPTIONS)
def _margins(score: Floats, price: Floats, action: int, margin: Floats) -> tuple[int, float]:
    """Fill in what each point would pay for an action; return how many pay its price.

    Who may get nothing else pays any price; the most that anybody else pays is returned, too.
    """
    takers, widest = 0, 0.0
    for i in range(len(margin)):
        other = NEVER
        for b in range(len(score)):
            if b != action:
                other = max(other, score[b, i] - price[b])
        margin[i] = score[action, i] - other
        if margin[i] < -NEVER / 2:
            widest = max(widest, margin[i])
        takers += margin[i] > price[action]
    return takers, widest


@njit(**OPTIONS)
def _clearing(margin: Floats, places: int, widest: float) -> float:
    """Return a price that so many points pay: between what the last pays and the next would."""
    number = len(margin)
    ordered = np.partition(margin, number - places - 1)
    next_one = ordered[number - places - 1]
    last = ordered[number - places :].min() if places else next_one + 1.0
    price: float = min((last + next_one) / 2, widest + 1.0)
    return price


# ----------------------------------------------------------------------
# Roots of grams, put together from directions that decide a choice and all others.


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


# ----------------------------------------------------------------------
# Many small systems of equations at once.


#: So many systems are solved side by side: a vector register or two full of numbers.
ABREAST = 8


@njit(**OPTIONS)
def solve_positive(matrices: Floats, ridge: Floats, vectors: Floats, solutions: Floats) -> None:
    """Solve systems with symmetric positive definite matrices, by Cholesky's decomposition.

    For some thousand matrices of ten to fifty rows the calls of a library take longer than this.

    Parameters
    ----------
    matrices, vectors
        Shapes (n, dim, dim) and (n, dim). Of the matrices the lower triangles are read.
    ridge
        Added to each matrix's diagonal, shape (n,).
    solutions
        Filled, shape (n, dim).
    """
    number, dim = vectors.shape
    # The last axis runs over systems, which do not wait for each other.
    left, inverse = np.empty((dim, dim, ABREAST)), np.empty((dim, ABREAST))
    solution, total = np.empty((dim, ABREAST)), np.empty(ABREAST)
    for start in range(0, number, ABREAST):
        for s in range(ABREAST):
            # Where fewer are left, the last one is solved several times.
            n = min(start + s, number - 1)
            for i in range(dim):
                solution[i, s] = vectors[n, i]
                for j in range(i + 1):
                    left[i, j, s] = matrices[n, i, j]
                left[i, i, s] += ridge[n]
        _decompose(left, inverse, total)
        _substitute(left, inverse, solution)
        for s in range(min(ABREAST, number - start)):
            for i in range(dim):
                solutions[start + s, i] = solution[i, s]


@njit(**OPTIONS)
def _decompose(left: Floats, inverse: Floats, total: Floats) -> None:
    """Replace lower triangles by those of their roots, row by row, and invert the diagonals."""
    for i in range(len(left)):
        for j in range(i + 1):
            for s in range(ABREAST):
                total[s] = left[i, j, s]
            for k in range(j):
                for s in range(ABREAST):
                    total[s] -= left[i, k, s] * left[j, k, s]
            for s in range(ABREAST):
                if j < i:
                    left[i, j, s] = total[s] * inverse[j, s]
                else:
                    inverse[i, s] = 1 / math.sqrt(total[s])


@njit(**OPTIONS)
def _substitute(left: Floats, inverse: Floats, solution: Floats) -> None:
    """Solve for the root, then for its transpose."""
    dim = len(left)
    for i in range(dim):
        for k in range(i):
            for s in range(ABREAST):
                solution[i, s] -= left[i, k, s] * solution[k, s]
        for s in range(ABREAST):
            solution[i, s] *= inverse[i, s]
    for k in range(dim - 1, -1, -1):
        for s in range(ABREAST):
            solution[k, s] *= inverse[k, s]
        for i in range(k):
            for s in range(ABREAST):
                solution[i, s] -= left[k, i, s] * solution[k, s]
