"""The few loops that BLAS cannot express, compiled on first use and cached.

Scoring works on tiles of units, transposed so that neighbouring lanes of a vector register hold
neighbouring units. Every lane runs the same operations in the same order, so a unit's numbers do
not depend on where it stands in the batch, on how many units stand beside it, or on the number of
BLAS threads. A triangular root needs half the products of a full matrix, which pays for that.

The kernels are tested against plain twins in ``tests/core/test_kernels.py``; those that replay a
whole policy, against the oracles and against the policy step by step. None of them checks bounds:
callers do.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Fusing a product and a sum is allowed, reordering sums is not: results must not depend on tiling.
OPTIONS: dict[str, Any] = {
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"contract"},
    "nogil": True,
}
TILE = 64
# Lanes come in whole steps of the compiled loop, so that no lane falls to its scalar remainder.
STEP = 16
EPSILON = float(np.finfo(np.float64).eps)


@njit(**OPTIONS)
def _load(rows: Floats, start: int, stop: int, slot: int, lanes: int, tile: Floats) -> None:
    for lane in range(lanes):
        unit = min(start + lane, stop - 1)
        for j in range(tile.shape[0]):
            tile[j, lane] = rows[unit, slot, j]


@njit(**OPTIONS)
def _mean(tile: Floats, theta: Floats, lanes: int, out: Floats) -> None:
    dim = tile.shape[0]
    for lane in range(lanes):
        out[lane] = 0.0
    whole = dim - dim % 4
    for j in range(0, whole, 4):
        t0, t1, t2, t3 = theta[j], theta[j + 1], theta[j + 2], theta[j + 3]
        x0, x1, x2, x3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        for lane in range(lanes):
            total = out[lane] + t0 * x0[lane]
            total = total + t1 * x1[lane]
            total = total + t2 * x2[lane]
            out[lane] = total + t3 * x3[lane]
    for j in range(whole, dim):
        t0, x0 = theta[j], tile[j]
        for lane in range(lanes):
            out[lane] += t0 * x0[lane]


@njit(**OPTIONS)
def _square(tile: Floats, root: Floats, lanes: int, s0: Floats, s1: Floats, out: Floats) -> None:
    # |root x|^2, two rows of the lower triangle at a time (the upper part holds zeros), four
    # columns at a time: eight products for every four loads.
    dim = tile.shape[0]
    for lane in range(lanes):
        out[lane] = 0.0
    for i in range(0, dim - dim % 2, 2):
        for lane in range(lanes):
            s0[lane] = s1[lane] = 0.0
        r0, r1 = root[i], root[i + 1]
        whole = i + 2 - (i + 2) % 8
        for j in range(0, whole, 8):
            a0, a1, a2, a3 = r0[j], r0[j + 1], r0[j + 2], r0[j + 3]
            a4, a5, a6, a7 = r0[j + 4], r0[j + 5], r0[j + 6], r0[j + 7]
            b0, b1, b2, b3 = r1[j], r1[j + 1], r1[j + 2], r1[j + 3]
            b4, b5, b6, b7 = r1[j + 4], r1[j + 5], r1[j + 6], r1[j + 7]
            x0, x1, x2, x3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
            x4, x5, x6, x7 = tile[j + 4], tile[j + 5], tile[j + 6], tile[j + 7]
            for lane in range(lanes):
                y0, y1, y2, y3 = x0[lane], x1[lane], x2[lane], x3[lane]
                y4, y5, y6, y7 = x4[lane], x5[lane], x6[lane], x7[lane]
                p = (((s0[lane] + a0 * y0) + a1 * y1) + a2 * y2) + a3 * y3
                q = (((s1[lane] + b0 * y0) + b1 * y1) + b2 * y2) + b3 * y3
                s0[lane] = (((p + a4 * y4) + a5 * y5) + a6 * y6) + a7 * y7
                s1[lane] = (((q + b4 * y4) + b5 * y5) + b6 * y6) + b7 * y7
        for j in range(whole, i + 2, 2):
            a0, a1, b0, b1, x0, x1 = r0[j], r0[j + 1], r1[j], r1[j + 1], tile[j], tile[j + 1]
            for lane in range(lanes):
                s0[lane] = (s0[lane] + a0 * x0[lane]) + a1 * x1[lane]
                s1[lane] = (s1[lane] + b0 * x0[lane]) + b1 * x1[lane]
        for lane in range(lanes):
            out[lane] = (out[lane] + s0[lane] * s0[lane]) + s1[lane] * s1[lane]
    if dim % 2:
        for lane in range(lanes):
            s0[lane] = 0.0
        for j in range(dim):
            a0, x0 = root[dim - 1, j], tile[j]
            for lane in range(lanes):
                s0[lane] += a0 * x0[lane]
        for lane in range(lanes):
            out[lane] += s0[lane] * s0[lane]


@njit(**OPTIONS)
def means_and_widths(
    rows: Floats, theta: Floats, root: Floats, means: Floats, widths: Floats
) -> None:
    """Fill <x, theta> and |root x| for rows (n, 1 or K, p).

    With one row a unit, column a is model a; with K rows, column a is row a under model a, or
    under the only model.
    """
    units, slots, dim = rows.shape
    models, columns = theta.shape[0], means.shape[1]
    tile = np.empty((dim, TILE))
    s0, s1, out = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for start in range(0, units, TILE):
        stop = min(start + TILE, units)
        lanes = -(-(stop - start) // STEP) * STEP
        for slot in range(slots):
            _load(rows, start, stop, slot, lanes, tile)
            # One vector a unit: score it under every model. Else: its own model, or the one.
            low, high = 0, models
            if slots == columns:
                low = min(slot, models - 1)
                high = low + 1
            for model in range(low, high):
                column = slot if slots == columns else model
                _mean(tile, theta[model], lanes, out)
                for lane in range(stop - start):
                    means[start + lane, column] = out[lane]
                _square(tile, root[model], lanes, s0, s1, out)
                for lane in range(stop - start):
                    widths[start + lane, column] = np.sqrt(out[lane])


# Reordering is allowed here: a row's sum depends on its length alone, not on its neighbours.
@njit(**{**OPTIONS, "fastmath": {"contract", "reassoc"}})
def means(rows: Floats, theta: Floats, out: Floats) -> None:
    """Fill <x, theta> alone, row by row; see :func:`means_and_widths`."""
    units, slots, dim = rows.shape
    models, columns = theta.shape[0], out.shape[1]
    for t in range(units):
        for a in range(columns):
            slot, model = min(a, slots - 1), min(a, models - 1)
            total = 0.0
            for j in range(dim):
                total += rows[t, slot, j] * theta[model, j]
            out[t, a] = total


@njit(**OPTIONS)
def signed_counts(codes: NDArray[np.uint8], out: Floats) -> None:
    """Add to each row of out, at the place that a code's low bits name, its sign (high bit: -1)."""
    for t in range(codes.shape[0]):
        for c in range(codes.shape[1]):
            place = codes[t, c] & 127
            if place < out.shape[1]:
                out[t, place] += 1.0 - 2.0 * (codes[t, c] >> 7)


@njit(**OPTIONS)
def best_shares(rows: Floats, thetas: Floats, split_ties: bool, shares: Floats) -> None:
    """Fill, for each unit and action, the share of parameters under which the action is best.

    thetas is (samples, models, dim). Among equal actions the lowest counts, or each in part.
    """
    units, slots, dim = rows.shape
    samples, models = thetas.shape[0], thetas.shape[1]
    columns = shares.shape[1]
    tiles, means = np.empty((slots, dim, TILE)), np.empty((columns, TILE))
    counts, top, left = np.empty((columns, TILE)), np.empty(TILE), np.empty(TILE)
    for start in range(0, units, TILE):
        stop = min(start + TILE, units)
        lanes = -(-(stop - start) // STEP) * STEP
        for slot in range(slots):
            _load(rows, start, stop, slot, lanes, tiles[slot])
        counts[:] = 0.0
        for sample in range(samples):
            for a in range(columns):
                tile, theta = tiles[min(a, slots - 1)], thetas[sample, min(a, models - 1)]
                _mean(tile, theta, lanes, means[a])
            for lane in range(lanes):
                top[lane] = means[0, lane]
                left[lane] = 0.0 if split_ties else 1.0
            for a in range(1, columns):
                for lane in range(lanes):
                    top[lane] = max(top[lane], means[a, lane])
            if split_ties:
                for a in range(columns):
                    for lane in range(lanes):
                        left[lane] += 1.0 if means[a, lane] == top[lane] else 0.0
            for a in range(columns):
                for lane in range(lanes):
                    won = 1.0 if means[a, lane] == top[lane] else 0.0
                    if split_ties:
                        counts[a, lane] += won / left[lane]
                    else:
                        counts[a, lane] += won * left[lane]
                        left[lane] -= won * left[lane]
        for a in range(columns):
            for lane in range(stop - start):
                shares[start + lane, a] = counts[a, lane] / samples


@njit(**OPTIONS)
def _add_eight(target: Floats, rows: Floats, order: Integers) -> None:
    # Eight rows' outer products into the lower triangle, two lines of it at a time. A pair of lines
    # may spill one place over the diagonal; the mirror in `accumulate` overwrites that.
    dim = target.shape[0]
    r0, r1, r2, r3 = rows[order[0]], rows[order[1]], rows[order[2]], rows[order[3]]
    r4, r5, r6, r7 = rows[order[4]], rows[order[5]], rows[order[6]], rows[order[7]]
    for i in range(0, dim, 2):
        k = min(i + 1, dim - 1)
        a0, a1, a2, a3, a4, a5, a6, a7 = r0[i], r1[i], r2[i], r3[i], r4[i], r5[i], r6[i], r7[i]
        b0, b1, b2, b3, b4, b5, b6, b7 = r0[k], r1[k], r2[k], r3[k], r4[k], r5[k], r6[k], r7[k]
        size = abs(a0) + abs(a1) + abs(a2) + abs(a3) + abs(a4) + abs(a5) + abs(a6) + abs(a7)
        size += abs(b0) + abs(b1) + abs(b2) + abs(b3) + abs(b4) + abs(b5) + abs(b6) + abs(b7)
        if size == 0.0:
            continue
        first, second = target[i], target[k]
        if k == i:
            for j in range(i + 1):
                p = (((first[j] + a0 * r0[j]) + a1 * r1[j]) + a2 * r2[j]) + a3 * r3[j]
                first[j] = (((p + a4 * r4[j]) + a5 * r5[j]) + a6 * r6[j]) + a7 * r7[j]
            continue
        for j in range(k + 1):
            y0, y1, y2, y3, y4, y5, y6, y7 = r0[j], r1[j], r2[j], r3[j], r4[j], r5[j], r6[j], r7[j]
            p = (((first[j] + a0 * y0) + a1 * y1) + a2 * y2) + a3 * y3
            q = (((second[j] + b0 * y0) + b1 * y1) + b2 * y2) + b3 * y3
            first[j] = (((p + a4 * y4) + a5 * y5) + a6 * y6) + a7 * y7
            second[j] = (((q + b4 * y4) + b5 * y5) + b6 * y6) + b7 * y7


@njit(**OPTIONS)
def accumulate(
    rows: Floats,
    rewards: Floats,
    cells: Integers,
    gram: Floats,
    moment: Floats,
    squares: Floats,
    count: Integers,
) -> None:
    """Add each row's outer product, reward product, squared reward and one to its cell, in place.

    Rows are added one after another, so any cut of them into pieces gives the same bits. A cell
    below zero skips the row.
    """
    dim = rows.shape[1]
    # Group the rows by cell, in order. Several rows in one pass make the same sums in the same
    # order as one by one, with a fraction of the traffic.
    starts = np.zeros(gram.shape[0] + 1, dtype=np.int64)
    for t in range(rows.shape[0]):
        if cells[t] >= 0:
            starts[cells[t] + 1] += 1
    for cell in range(gram.shape[0]):
        starts[cell + 1] += starts[cell]
    order = np.empty(starts[-1], dtype=np.int64)
    place = starts.copy()
    for t in range(rows.shape[0]):
        if cells[t] >= 0:
            order[place[cells[t]]] = t
            place[cells[t]] += 1
    for cell in range(gram.shape[0]):
        start, stop = starts[cell], starts[cell + 1]
        if start == stop:
            continue
        target = gram[cell]
        eights = stop - (stop - start) % 8
        for t in range(start, eights, 8):
            _add_eight(target, rows, order[t : t + 8])
        whole = stop - (stop - start) % 4
        for t in range(eights, whole, 4):
            r0, r1 = rows[order[t]], rows[order[t + 1]]
            r2, r3 = rows[order[t + 2]], rows[order[t + 3]]
            for i in range(dim):
                x0, x1, x2, x3, line = r0[i], r1[i], r2[i], r3[i], target[i]
                if x0 != 0.0 or x1 != 0.0 or x2 != 0.0 or x3 != 0.0:
                    for j in range(i + 1):
                        total = (line[j] + x0 * r0[j]) + x1 * r1[j]
                        line[j] = (total + x2 * r2[j]) + x3 * r3[j]
        for t in range(whole, stop):
            r0 = rows[order[t]]
            for i in range(dim):
                x0, line = r0[i], target[i]
                if x0 != 0.0:
                    for j in range(i + 1):
                        line[j] = line[j] + x0 * r0[j]
        for t in range(start, stop):
            row, reward = rows[order[t]], rewards[order[t]]
            for i in range(dim):
                moment[cell, i] += reward * row[i]
            squares[cell] += reward * reward
        count[cell] += stop - start
        for i in range(dim):
            for j in range(i):
                target[j, i] = target[i, j]


@njit(**OPTIONS)
def factorise(gram: Floats, penalty: float, upper: Floats, root: Floats) -> None:
    """Fill root with the inverse of the Cholesky factor of gram + penalty I; upper is scratch.

    A pivot lost to rounding, where a column depends on others and the penalty is too small to
    show, is set to that rounding, measured against the column's own size.
    """
    dim = gram.shape[0]
    for i in range(dim):
        upper[i, i:] = gram[i, i:]
        upper[i, i] += penalty
    # By rows, four finished rows at a time: upper' upper = gram + penalty I.
    for i in range(dim):
        target, whole = upper[i], i - i % 4
        for k in range(0, whole, 4):
            u0, u1, u2, u3 = upper[k], upper[k + 1], upper[k + 2], upper[k + 3]
            f0, f1, f2, f3 = u0[i], u1[i], u2[i], u3[i]
            for j in range(i, dim):
                total = (target[j] - f0 * u0[j]) - f1 * u1[j]
                target[j] = (total - f2 * u2[j]) - f3 * u3[j]
        for k in range(whole, i):
            u0 = upper[k]
            f0 = u0[i]
            for j in range(i, dim):
                target[j] -= f0 * u0[j]
        target[i] = max(target[i], dim * EPSILON * (gram[i, i] + penalty))
        scale = 1.0 / np.sqrt(target[i])
        for j in range(i, dim):
            target[j] *= scale
    # Row i of the inverse of the lower factor, from the rows above it, zero beyond the diagonal.
    for i in range(dim):
        target, whole = root[i], i - i % 4
        for j in range(dim):
            target[j] = 0.0
        for k in range(0, whole, 4):
            f0, f1, f2, f3 = upper[k, i], upper[k + 1, i], upper[k + 2, i], upper[k + 3, i]
            u0, u1, u2, u3 = root[k], root[k + 1], root[k + 2], root[k + 3]
            for j in range(k + 4):
                total = (target[j] - f0 * u0[j]) - f1 * u1[j]
                target[j] = (total - f2 * u2[j]) - f3 * u3[j]
        for k in range(whole, i):
            f0, u0 = upper[k, i], root[k]
            for j in range(k + 1):
                target[j] -= f0 * u0[j]
        target[i] = 1.0
        scale = 1.0 / upper[i, i]
        for j in range(i + 1):
            target[j] *= scale


@njit(**OPTIONS)
def solve(root: Floats, moment: Floats, theta: Floats) -> None:
    """Fill theta with root' root moment, the ridge estimate."""
    dim = moment.shape[0]
    for j in range(dim):
        theta[j] = 0.0
    for i in range(dim):
        line, inner = root[i], 0.0
        for j in range(i + 1):
            inner += line[j] * moment[j]
        for j in range(i + 1):
            theta[j] += inner * line[j]


@njit(**OPTIONS)
def ridge_cells(
    gram: Floats,
    moment: Floats,
    penalty: float,
    stale: NDArray[np.bool_],
    theta: Floats,
    root: Floats,
) -> None:
    """Re-estimate every stale cell in place."""
    upper = np.empty(gram.shape[1:])
    for cell in range(gram.shape[0]):
        if stale[cell]:
            factorise(gram[cell], penalty, upper, root[cell])
            solve(root[cell], moment[cell], theta[cell])


@njit(**OPTIONS)
def _winner(scores: Floats, draw: float, random_ties: bool) -> int:
    # The lowest of the highest scores, or the one on which the draw falls.
    best, tied = 0, 1
    for action in range(1, scores.shape[0]):
        if scores[action] > scores[best]:
            best, tied = action, 1
        elif scores[action] == scores[best]:
            tied += 1
    if not random_ties or tied == 1:
        return best
    skip = min(int(draw * tied), tied - 1)
    for action in range(best, scores.shape[0]):
        if scores[action] == scores[best]:
            if skip == 0:
                return action
            skip -= 1
    return best


@njit(**OPTIONS)
def replay_ucb(
    rows: Floats,
    table: Floats,
    ends: Integers,
    gamma: float,
    penalty: float,
    draws: Floats,
    random_ties: bool,
    random_first: bool,
    gram: Floats,
    moment: Floats,
    squares: Floats,
    count: Integers,
    theta: Floats,
    root: Floats,
    actions: Integers,
) -> None:
    """Play whole batches of SBUCB against a table of rewards; statistics and estimates in place.

    It makes the same calls in the same order as batch by batch from outside, to the same bits.
    """
    models, columns = theta.shape[0], table.shape[1]
    longest, start = 0, 0
    for stop in ends:
        longest, start = max(longest, stop - start), stop
    means, widths = np.empty((longest, columns)), np.empty((longest, columns))
    chosen, rewards = np.empty((longest, rows.shape[2])), np.empty(longest)
    cells, scores = np.zeros(longest, dtype=np.int64), np.empty(columns)
    stale = np.empty(models, dtype=np.bool_)
    start = 0
    for stop in ends:
        size = stop - start
        means_and_widths(rows[start:stop], theta, root, means[:size], widths[:size])
        stale[:] = False
        for i in range(size):
            for a in range(columns):
                scores[a] = means[i, a] + gamma * widths[i, a]
            action = _winner(scores, draws[start + i], random_ties)
            if random_first and start == 0:
                action = min(int(draws[i] * columns), columns - 1)
            actions[start + i] = action
            rewards[i] = table[start + i, action]
            chosen[i] = rows[start + i, min(action, rows.shape[1] - 1)]
            cells[i] = min(action, models - 1)
            stale[cells[i]] = True
        accumulate(chosen[:size], rewards[:size], cells[:size], gram, moment, squares, count)
        ridge_cells(gram, moment, penalty, stale, theta, root)
        start = stop


#: Rank-one updates of a root before it is rebuilt from the gram: far fewer than drift needs.
REFRESH = 256


@njit(**OPTIONS)
def _nonzeros(x: Floats, places: Integers) -> int:
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
    gram: Floats,
    moment: Floats,
    squares: Floats,
    count: Integers,
    theta: Floats,
    root: Floats,
    actions: Integers,
) -> None:
    """Play LinUCB against a table of rewards, one unit a batch; all in place.

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
            if a == slot:
                found = _nonzeros(x, places)
            _image(flipped[model], x, places, found, image)
            beta, square, mean = theta[model], 0.0, 0.0
            for i in range(dim):
                square += image[i] * image[i]
                mean += beta[i] * x[i]
            predicted[a] = mean
            scores[a] = mean + gamma * np.sqrt(square)
        action = _winner(scores, draws[t], random_ties)
        if random_first and t == 0:
            action = min(int(draws[t] * columns), columns - 1)
        actions[t] = action
        model, reward = min(action, models - 1), table[t, action]
        x, z, matrix = rows[t, min(action, rows.shape[1] - 1)], images[action], root[model]
        for i in range(dim):
            if x[i] != 0.0:
                for j in range(dim):
                    gram[model, i, j] += x[i] * x[j]
                moment[model, i] += reward * x[i]
        squares[model] += reward * reward
        count[model] += 1
        step = (reward - predicted[action]) / _update_root(matrix, z, passed, gain)
        for j in range(dim):
            theta[model, j] += step * gain[j]
        updates[model] += 1
        if updates[model] == REFRESH:
            updates[model] = 0
            factorise(gram[model], penalty, upper, matrix)
            solve(matrix, moment[model], theta[model])
        _flip(matrix, flipped[model])


@njit(**OPTIONS)
def pass_stage(
    means: Floats,
    widths: Floats,
    gamma: float,
    stage: int,
    enough: float,
    explore: int,
    candidates: NDArray[np.bool_],
    units: Integers,
    criterion: Floats,
    stages: Integers,
    explored: NDArray[np.bool_],
) -> Integers:
    """Apply rules (a), (b), (c) of SupSBUCB to the units still waiting; return who waits on.

    Row i of means, widths and candidates belongs to units[i]; candidates that rule (b) drops are
    dropped in place. What is returned are rows, not units. explore: 0 highest, 1 widest, 2 first.
    """
    level, slack = 2.0**-stage, 2.0 ** (1 - stage)
    waiting = np.empty(units.shape[0], dtype=np.int64)
    left = 0
    for i in range(units.shape[0]):
        widest, highest = 0.0, -np.inf
        for a in range(means.shape[1]):
            if candidates[i, a]:
                widest = max(widest, gamma * widths[i, a])
                highest = max(highest, means[i, a] + gamma * widths[i, a])
        exploring = widest > level and widest > enough
        if widest <= enough or exploring:
            stages[units[i]] = stage
            explored[units[i]] = exploring
            for a in range(means.shape[1]):
                width = gamma * widths[i, a]
                value = -np.inf
                if candidates[i, a] and (not exploring or width > level):
                    value = means[i, a] + width
                    if exploring and explore == 1:
                        value = width
                    elif exploring and explore == 2:
                        value = -float(a)
                criterion[units[i], a] = value
        else:
            for a in range(means.shape[1]):
                if means[i, a] + gamma * widths[i, a] < highest - slack:
                    candidates[i, a] = False
            waiting[left] = i
            left += 1
    return waiting[:left]


@njit(**OPTIONS)
def replay_stages(
    rows: Floats,
    table: Floats,
    ends: Integers,
    gamma: float,
    penalty: float,
    enough: float,
    explore: int,
    models: int,
    draws: Floats,
    random_ties: bool,
    random_first: bool,
    gram: Floats,
    moment: Floats,
    squares: Floats,
    count: Integers,
    theta: Floats,
    root: Floats,
    actions: Integers,
) -> None:
    """Play whole batches of SupSBUCB against a table of rewards; all in place.

    Statistics and estimates are those of all stages, one stage's models after another's. As in
    :func:`replay_ucb`, the calls are those made from outside, to the same bits.
    """
    columns, dim = table.shape[1], rows.shape[2]
    number = theta.shape[0] // models
    longest, start = 0, 0
    for stop in ends:
        longest, start = max(longest, stop - start), stop
    means, widths = np.empty((longest, columns)), np.empty((longest, columns))
    criterion, candidates = np.empty((longest, columns)), np.empty((longest, columns), np.bool_)
    stages, explored = np.empty(longest, np.int64), np.empty(longest, np.bool_)
    units, waiting = np.empty(longest, np.int64), np.empty((longest, rows.shape[1], dim))
    chosen, rewards, cells = (
        np.empty((longest, dim)),
        np.empty(longest),
        np.empty(longest, np.int64),
    )
    stale = np.empty(theta.shape[0], np.bool_)
    start = 0
    for stop in ends:
        size = left = stop - start
        for i in range(size):
            units[i] = i
            waiting[i] = rows[start + i]
            candidates[i] = True
        for stage in range(number):
            first, last = stage * models, (stage + 1) * models
            means_and_widths(
                waiting[:left], theta[first:last], root[first:last], means[:left], widths[:left]
            )
            again = pass_stage(
                means[:left],
                widths[:left],
                gamma,
                stage + 1,
                enough,
                explore,
                candidates[:left],
                units[:left],
                criterion,
                stages,
                explored,
            )
            left = again.shape[0]
            if left == 0:
                break
            for i in range(left):
                units[i] = units[again[i]]
                waiting[i] = waiting[again[i]]
                candidates[i] = candidates[again[i]]
        stale[:] = False
        for i in range(size):
            action = _winner(criterion[i], draws[start + i], random_ties)
            if random_first and start == 0:
                action = min(int(draws[i] * columns), columns - 1)
            actions[start + i] = action
            rewards[i] = table[start + i, action]
            chosen[i] = rows[start + i, min(action, rows.shape[1] - 1)]
            cells[i] = -1
            if explored[i]:
                cells[i] = (stages[i] - 1) * models + min(action, models - 1)
                stale[cells[i]] = True
        accumulate(chosen[:size], rewards[:size], cells[:size], gram, moment, squares, count)
        ridge_cells(gram, moment, penalty, stale, theta, root)
        start = stop
