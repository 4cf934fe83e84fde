"""LinUCB against a table of rewards: one unit per batch, by rank-one updates."""

import numpy as np
from numba import njit

from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.kernels.batches import any_action, winner
from seqbatch.core.kernels.compiling import OPTIONS
from seqbatch.core.kernels.regression import factorise, solve

#: Rank-one updates of a root before it is rebuilt from the gram: far fewer than drift needs.
REFRESH = 256


@njit(**OPTIONS)
def _nonzeros(x: Floats, places: Integers) -> int:
    # Written every time and kept only if nonzero: a branch would often be mispredicted.
    found = 0
    for j in range(x.shape[0]):
        places[found] = j
        found += x[j] != 0.0
    return found


@njit(**OPTIONS)
def _image(columns: Floats, x: Floats, places: Integers, found: int, out: Floats) -> None:
    # root x from the root's columns, four at a time, passing over the zeros of x. Loops start at 0,
    # through known zeros: a start that the compiler cannot bound keeps it from using vectors.
    dim, whole = x.shape[0], found - found % 4
    for j in range(dim):
        out[j] = 0.0
    for k in range(0, whole, 4):
        j0, j1, j2, j3 = places[k], places[k + 1], places[k + 2], places[k + 3]
        x0, x1, x2, x3 = x[j0], x[j1], x[j2], x[j3]
        for i in range(dim):
            total = (out[i] + x0 * columns[j0, i]) + x1 * columns[j1, i]
            out[i] = (total + x2 * columns[j2, i]) + x3 * columns[j3, i]
    for k in range(whole, found):
        j0 = places[k]
        x0 = x[j0]
        for i in range(dim):
            out[i] += x0 * columns[j0, i]


@njit(**OPTIONS)
def _update_root(root: Floats, z: Floats, passed: Floats, gain: Floats) -> float:
    """Update root for A + x x', where z = root x; fill gain with A^-1 x; return 1 + x' A^-1 x.

    The new root is C^-1 root with C C' = I + z z'. C has a closed form, so that each new row needs
    only the old one and a running sum of those above; four rows go at a time.
    """
    dim = z.shape[0]
    whole = dim - dim % 4
    for j in range(dim):
        passed[j] = gain[j] = 0.0
    t0 = 1.0
    for i in range(0, whole, 4):
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        t1 = t0 + z0 * z0
        t2 = t1 + z1 * z1
        t3 = t2 + z2 * z2
        t4 = t3 + z3 * z3
        # Roots and reciprocals once per row: all the rest is products.
        g0, g1, g2 = 1.0 / np.sqrt(t0), 1.0 / np.sqrt(t1), 1.0 / np.sqrt(t2)
        g3, g4 = 1.0 / np.sqrt(t3), 1.0 / np.sqrt(t4)
        c0, c1, c2, c3 = t0 * g0 * g1, t1 * g1 * g2, t2 * g2 * g3, t3 * g3 * g4
        w0, w1, w2, w3 = z0 * g0 * g1, z1 * g1 * g2, z2 * g2 * g3, z3 * g3 * g4
        for j in range(i + 4):
            p, a, b, c, d = passed[j], root[i, j], root[i + 1, j], root[i + 2, j], root[i + 3, j]
            gain[j] = (((gain[j] + z0 * a) + z1 * b) + z2 * c) + z3 * d
            a = (a - z0 * p) * c0
            p = p + w0 * a
            b = (b - z1 * p) * c1
            p = p + w1 * b
            c = (c - z2 * p) * c2
            p = p + w2 * c
            d = (d - z3 * p) * c3
            root[i, j], root[i + 1, j], root[i + 2, j], root[i + 3, j] = a, b, c, d
            passed[j] = p + w3 * d
        t0 = t4
    for i in range(whole, dim):
        t1 = t0 + z[i] * z[i]
        g0, g1 = 1.0 / np.sqrt(t0), 1.0 / np.sqrt(t1)
        z0, c0, w0 = z[i], t0 * g0 * g1, z[i] * g0 * g1
        for j in range(i + 1):
            gain[j] += z0 * root[i, j]
            root[i, j] = (root[i, j] - z0 * passed[j]) * c0
            passed[j] += w0 * root[i, j]
        t0 = t1
    return t0


@njit(**OPTIONS)
def _flip(root: Floats, columns: Floats) -> None:
    # Four rows at a time, so that what is written lies together.
    dim = root.shape[0]
    whole = dim - dim % 4
    for i in range(0, whole, 4):
        for j in range(i + 4):
            columns[j, i] = root[i, j]
            columns[j, i + 1] = root[i + 1, j]
            columns[j, i + 2] = root[i + 2, j]
            columns[j, i + 3] = root[i + 3, j]
    for i in range(whole, dim):
        for j in range(i + 1):
            columns[j, i] = root[i, j]


@njit(**OPTIONS)
def replay_online_ucb(
    rows: Floats,
    table: Floats,
    gamma: float,
    penalty: float,
    draws: Floats,
    random_ties: bool,
    random_first: bool,
    eligible: Bools | None,
    gram: Floats,
    moment: Floats,
    squares: Floats,
    count: Integers,
    theta: Floats,
    root: Floats,
    actions: Integers,
) -> None:
    """Play LinUCB against a table of rewards, one unit per batch; all in place.

    The root of the chosen model is updated for x x' by the Cholesky factor of I + z z', z = root x,
    and rebuilt from the gram every REFRESH updates, so that rounding cannot build up.
    """
    models, columns, dim = theta.shape[0], table.shape[1], rows.shape[2]
    images, scores, predicted = np.empty((columns, dim)), np.empty(columns), np.empty(columns)
    passed, gain, upper = np.empty(dim), np.empty(dim), np.empty((dim, dim))
    updates, places = np.zeros(models, dtype=np.int64), np.empty(dim + 1, dtype=np.int64)
    found = 0
    # The roots by columns as well: products with a unit's vector need no sums across lanes.
    flipped = np.empty_like(root)
    for model in range(models):
        flipped[model] = 0.0
        _flip(root[model], flipped[model])
    for t in range(rows.shape[0]):
        for a in range(columns):
            slot, model, image = min(a, rows.shape[1] - 1), min(a, models - 1), images[a]
            x = rows[t, slot]
            # In the block layout all actions share one row, whose zeros are looked for once.
            if a == slot:
                found = _nonzeros(x, places)
            _image(flipped[model], x, places, found, image)
            beta, square, mean = theta[model], 0.0, 0.0
            for i in range(dim):
                square += image[i] * image[i]
                mean += beta[i] * x[i]
            predicted[a] = mean
            scores[a] = mean + gamma * np.sqrt(square)
        action = winner(scores, draws[t], random_ties, eligible, t)
        if random_first and t == 0:
            action = any_action(columns, draws[t], eligible, t)
        actions[t] = action
        model, reward = min(action, models - 1), table[t, action]
        x, z, matrix = rows[t, min(action, rows.shape[1] - 1)], images[action], root[model]
        # Rows of encoded categories are mostly zeros.
        for i in range(dim):
            if x[i] != 0.0:
                for j in range(dim):
                    gram[model, i, j] += x[i] * x[j]
                moment[model, i] += reward * x[i]
        squares[model] += reward * reward
        count[model] += 1
        # Sherman and Morrison: theta moves along A^-1 x by the surprise over 1 + x' A^-1 x.
        step = (reward - predicted[action]) / _update_root(matrix, z, passed, gain)
        for j in range(dim):
            theta[model, j] += step * gain[j]
        updates[model] += 1
        if updates[model] == REFRESH:
            updates[model] = 0
            factorise(gram[model], penalty, upper, matrix)
            solve(matrix, moment[model], theta[model])
        _flip(matrix, flipped[model])
