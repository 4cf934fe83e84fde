"""Kernels of the planner's trials: choices, regret, Gram matrices, small linear systems."""

import math

import numpy as np

from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.kernels.compiling import kernel

# ----------------------------------------------------------------------
# Points that choose by estimated scores and lose by true scores.


@kernel()
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
    """Let each point choose the action with the highest estimated score, and sum the results.

    Parameters
    ----------
    points
        Shape (trials, directions, points).
    guess, truth
        Scores relative to the first action's: constant and slopes, shape (trials, K - 1, 1 +
        directions). The guess may use only the first directions.
    used
        The number of points of each trial that enter the Gram matrix.
    regret, best
        Output: the mean loss and the share of best choices, shape (trials,).
    gram, count
        Output: for each action, the sums of (1, y)(1, y)' over the guess's directions y of the
        points that chose it, and their number, shapes (trials, K, size, size) and (trials, K).
    """
    trials, _, number = points.shape
    actions, size = guess.shape[1] + 1, guess.shape[2]
    score, true = np.empty(number), np.empty(number)
    highest, got, top = np.empty(number), np.empty(number), np.empty(number)
    chosen = np.empty(number, dtype=np.int64)
    rows = np.empty((size, number))
    for trial in range(trials):
        # Scores are relative to the first action's, which is therefore 0.
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
            # Exact: if the choice is the best one, both are the same number.
            right += top[i] == got[i]
            top[i] -= got[i]
            got[i] = 1.0
        regret[trial] = _dot(top, got, number) / number
        best[trial] = right / number
        # All points measure the loss; a batch with fewer units must not learn from more points.
        _added_up(points[trial], chosen[:used], rows, gram[trial], count[trial])


@kernel()
def _line(slopes: Floats, points: Floats, value: Floats) -> None:
    """Fill a constant and slopes at every point, with points adjacent for vectorisation."""
    value[:] = slopes[0]
    for j in range(1, len(slopes)):
        slope, place = slopes[j], points[j - 1]
        for i in range(len(value)):
            value[i] += slope * place[i]


@kernel()
def _added_up(
    points: Floats, chosen: Integers, rows: Floats, gram: Floats, count: Integers
) -> None:
    """Fill the number of points per action, and the sums of their squares and products."""
    count[:] = 0
    for action in chosen:
        count[action] += 1
    # Sort the points by action, each at its action's next position.
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


@kernel()
def _dot(one: Floats, other: Floats, number: int) -> float:
    """Sum products in eight partial sums: the same bits with registers of any width."""
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
# Points that choose among their eligible actions, within capacities.


#: The score of an ineligible action.
NEVER = -1e300
#: The maximum number of rounds in which prices are raised, one action after the other.
ROUNDS = 60
#: One in this many points may exceed an action's capacity.
SPARE = 256


@kernel()
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
    """Let each point choose the highest estimated score minus price, and sum the results.

    Parameters
    ----------
    points, guess, truth, used
        As for :func:`~seqbatch.core.kernels.choose_points`.
    eligible
        Which actions each point may get, shape (trials, points, K).
    room
        The maximum share of points that may get each action; the loss is relative to the best
        assignment within it. Shape (K,).
    own_room
        The same for the choice by estimated scores.
    weights
        For random choices: the relative probability of each action among a point's eligible ones.
        Shape (K,), or (0,) for choices by score.
    regret, best, gram, count
        Output, as for the other kernel; for random choices, gram and count are not filled.
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


@kernel()
def _scores(slopes: Floats, points: Floats, eligible: Bools, score: Floats) -> None:
    """Fill the scores relative to the first action's, for eligible actions."""
    score[0] = 0.0
    for a in range(len(slopes)):
        _line(slopes[a], points, score[a + 1])
    for a in range(len(score)):
        for i in range(score.shape[1]):
            if not eligible[i, a]:
                score[a, i] = NEVER


@kernel()
def assign_within(score: Floats, room: Floats, chosen: Integers) -> None:
    """Give each point its action with the highest score minus price, at the lowest clearing prices.

    Starting from 0, each price in turn is raised until the action has no more takers than capacity.
    Raising one never makes another too high, so they converge from below; a few excess takers are
    tolerated.

    Parameters
    ----------
    score
        Shape (K, points); :data:`NEVER` for ineligible actions.
    room
        The maximum share of points that may get each action; shape (K,).
    chosen
        Output: each point's action.
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


@kernel()
def _margins(score: Floats, price: Floats, action: int, margin: Floats) -> tuple[int, float]:
    """Fill the price that each point would pay for an action; return how many pay its price.

    A point without an alternative pays any price; the highest price of the others is also returned.
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


@kernel()
def _clearing(margin: Floats, places: int, widest: float) -> float:
    """Return a price that this many points pay: between those of the last one and the next."""
    number = len(margin)
    ordered = np.partition(margin, number - places - 1)
    next_one = ordered[number - places - 1]
    last = ordered[number - places :].min() if places else next_one + 1.0
    price: float = min((last + next_one) / 2, widest + 1.0)
    return price


# ----------------------------------------------------------------------
# Roots of Gram matrices, assembled from decisive directions and all others.


@kernel()
def complete_roots(
    frame: Floats,
    root: Floats,
    rank: Integers,
    cross: Floats,
    below: Floats,
    diagonal: Floats,
    factors: Floats,
) -> None:
    """Complete roots in some directions by random draws in all others.

    With Q the directions, C a root there below the constant's row c, N and L a Gaussian matrix and
    a root of a Wishart matrix, the result is [[c, 0], [Q C + P N, P L]], where P projects onto the
    complement of Q.

    Parameters
    ----------
    frame
        Q in its first columns, shape (trials, p, any number of columns).
    root
        The constant's row and C, lower triangular, shape (trials, K, size, size).
    rank
        The number of columns of the root and of N that count, shape (trials, K).
    cross
        N in its first columns, shape (trials, K, p, any number of columns).
    below, diagonal
        L below its diagonal and on it, shapes (trials, K, p, p) and (trials, K, p). If rank is
        missing, the last numbers on the diagonal are zeros, and their columns do not count.
    factors
        Output, shape (trials, K, 1 + p, size + p).
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
            # Q (C - Q'X) + X for the draws X: their component along Q is replaced by the root's.
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


@kernel()
def _draw(
    cross: Floats, below: Floats, diagonal: Floats, kept: int, columns: int, made: Floats
) -> None:
    """Fill the draws, which are isotropic."""
    size = made.shape[1] - len(diagonal)
    for i in range(len(diagonal)):
        for j in range(kept):
            made[1 + i, j] = cross[i, j]
        for j in range(min(i, columns)):
            made[1 + i, size + j] = below[i, j]
        if i < columns:
            made[1 + i, size + i] = diagonal[i]


# ----------------------------------------------------------------------
# Many small linear systems at once.


#: The number of systems that are solved in parallel: a vector register or two.
ABREAST = 8


@kernel()
def solve_positive(matrices: Floats, ridge: Floats, vectors: Floats, solutions: Floats) -> None:
    """Solve systems with symmetric positive definite matrices, by Cholesky decomposition.

    For thousands of matrices with ten to fifty rows, this is faster than calling a library.

    Parameters
    ----------
    matrices, vectors
        Shapes (n, dim, dim) and (n, dim). Only the lower triangles of the matrices are read.
    ridge
        Added to each matrix's diagonal, shape (n,).
    solutions
        Output, shape (n, dim).
    """
    number, dim = vectors.shape
    # The last axis runs over systems, which are independent.
    left, inverse = np.empty((dim, dim, ABREAST)), np.empty((dim, ABREAST))
    solution, total = np.empty((dim, ABREAST)), np.empty(ABREAST)
    for start in range(0, number, ABREAST):
        for s in range(ABREAST):
            # If fewer systems are left, the last one is solved several times.
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


@kernel()
def _decompose(left: Floats, inverse: Floats, total: Floats) -> None:
    """Replace lower triangles by Cholesky factors, row by row, with inverted diagonals."""
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


@kernel()
def _substitute(left: Floats, inverse: Floats, solution: Floats) -> None:
    """Solve with the Cholesky factor, then with its transpose."""
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
