"""Kernels for scoring and choosing: means, widths, shares, one action per unit."""

import numpy as np

from seqbatch.core.arrays import Bools, Bytes, Floats, Integers
from seqbatch.core.kernels.compiling import kernel

# ----------------------------------------------------------------------
# Means, widths and shares of being best.
#
# Scoring works on tiles of units, transposed: neighbouring lanes of a vector register hold
# neighbouring units. Every lane runs the same operations in the same order. A unit's scores
# therefore do not depend on its position in the batch, on the number of units, or on the number of
# BLAS threads. A triangular root needs half the products of a full matrix, which pays for this.


# Units per tile: with 64 features a tile takes 32 kB, about the size of the L1 cache.
TILE = 64
# Lanes come in whole steps of the compiled loop, which avoids its scalar remainder.
STEP = 16


@kernel()
def _load(rows: Floats, start: int, stop: int, slot: int, lanes: int, tile: Floats) -> None:
    for lane in range(lanes):
        # Lanes past the end repeat the last unit; their results are not read.
        unit = min(start + lane, stop - 1)
        for j in range(tile.shape[0]):
            tile[j, lane] = rows[unit, slot, j]


@kernel()
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


@kernel()
def _square(tile: Floats, root: Floats, lanes: int, s0: Floats, s1: Floats, out: Floats) -> None:
    # |root x|^2, two rows of the lower triangle at a time (the upper part is zero), four columns at
    # a time: eight products per four loads.
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


@kernel()
def means_and_widths(
    rows: Floats, theta: Floats, root: Floats, means: Floats, widths: Floats
) -> None:
    """Fill <x, theta> and |root x| for rows (n, 1 or K, p).

    With one row per unit, column a is model a; with K rows, column a is row a under model a, or
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
            # One vector per unit: score it under every model. Else: under its own or the only one.
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


@kernel()
def means(rows: Floats, theta: Floats, out: Floats) -> None:
    """Fill <x, theta> only, with the same bits as :func:`means_and_widths`."""
    units, slots, dim = rows.shape
    models, columns = theta.shape[0], out.shape[1]
    # Each sum is computed term by term, for identical bits everywhere. Four sums at a time,
    # adjacent in memory, keep the processor busy while each waits for its last term.
    whole = columns - columns % 4
    for t in range(units):
        for a in range(0, whole, 4):
            x0, w0 = rows[t, min(a, slots - 1)], theta[min(a, models - 1)]
            x1, w1 = rows[t, min(a + 1, slots - 1)], theta[min(a + 1, models - 1)]
            x2, w2 = rows[t, min(a + 2, slots - 1)], theta[min(a + 2, models - 1)]
            x3, w3 = rows[t, min(a + 3, slots - 1)], theta[min(a + 3, models - 1)]
            s0 = s1 = s2 = s3 = 0.0
            for j in range(dim):
                s0 += x0[j] * w0[j]
                s1 += x1[j] * w1[j]
                s2 += x2[j] * w2[j]
                s3 += x3[j] * w3[j]
            out[t, a], out[t, a + 1], out[t, a + 2], out[t, a + 3] = s0, s1, s2, s3
        for a in range(whole, columns):
            x0, w0 = rows[t, min(a, slots - 1)], theta[min(a, models - 1)]
            s0 = 0.0
            for j in range(dim):
                s0 += x0[j] * w0[j]
            out[t, a] = s0


@kernel()
def best_shares(
    rows: Floats, thetas: Floats, split_ties: bool, eligible: Bools | None, shares: Floats
) -> None:
    """Fill, for each unit and action, the share of parameters under which the action is best.

    thetas is (samples, models, dim). Only eligible actions compete, or all if eligible is None. A
    tie counts for the lowest action, or in equal parts for each.
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
                _forbid(eligible, start, stop, a, means[a])
            _count_best(means, 1.0, split_ties, lanes, top, left, counts)
        for a in range(columns):
            for lane in range(stop - start):
                shares[start + lane, a] = counts[a, lane] / samples


@kernel()
def _forbid(eligible: Bools | None, start: int, stop: int, a: int, scores: Floats) -> None:
    if eligible is not None:
        for lane in range(stop - start):
            if not eligible[start + lane, a]:
                scores[lane] = -np.inf


@kernel()
def _count_best(
    scores: Floats,
    weight: float,
    split_ties: bool,
    lanes: int,
    top: Floats,
    left: Floats,
    counts: Floats,
) -> None:
    # Add the weight to the action of highest score, for each lane.
    columns = scores.shape[0]
    for lane in range(lanes):
        top[lane] = scores[0, lane]
        left[lane] = 0.0 if split_ties else 1.0
    for a in range(1, columns):
        for lane in range(lanes):
            top[lane] = max(top[lane], scores[a, lane])
    if split_ties:
        for a in range(columns):
            for lane in range(lanes):
                left[lane] += 1.0 if scores[a, lane] == top[lane] else 0.0
    for a in range(columns):
        for lane in range(lanes):
            won = 1.0 if scores[a, lane] == top[lane] else 0.0
            if split_ties:
                counts[a, lane] += weight * (won / left[lane])
            else:
                # `left` is 1 until the first winner takes it: the lowest, without a branch.
                counts[a, lane] += weight * (won * left[lane])
                left[lane] -= won * left[lane]


@kernel()
def mixture_shares(
    rows: Floats,
    theta: Floats,
    quadratic: Floats,
    weights: Floats,
    split_ties: bool,
    eligible: Bools | None,
    shares: Floats,
) -> None:
    """Fill, for each unit and action, the weight of the rules under which the action is best.

    Rule r scores <x, theta_a> + x' Q_ra x, with quadratic (rules, models, dim, dim). Eligibility
    and ties are as in :func:`best_shares`.
    """
    units, slots, dim = rows.shape
    models, columns = theta.shape[0], shares.shape[1]
    tiles, means = np.empty((slots, dim, TILE)), np.empty((columns, TILE))
    scores, counts, inner = np.empty((columns, TILE)), np.empty((columns, TILE)), np.empty(TILE)
    top, left = np.empty(TILE), np.empty(TILE)
    for start in range(0, units, TILE):
        stop = min(start + TILE, units)
        lanes = -(-(stop - start) // STEP) * STEP
        for slot in range(slots):
            _load(rows, start, stop, slot, lanes, tiles[slot])
        for a in range(columns):
            _mean(tiles[min(a, slots - 1)], theta[min(a, models - 1)], lanes, means[a])
            _forbid(eligible, start, stop, a, means[a])
        counts[:] = 0.0
        for r in range(len(weights)):
            if weights[r] == 0.0:
                continue
            for a in range(columns):
                tile, form = tiles[min(a, slots - 1)], quadratic[r, min(a, models - 1)]
                for lane in range(lanes):
                    scores[a, lane] = means[a, lane]
                for i in range(dim):
                    _mean(tile, form[i], lanes, inner)
                    for lane in range(lanes):
                        scores[a, lane] += inner[lane] * tile[i, lane]
            _count_best(scores, weights[r], split_ties, lanes, top, left, counts)
        for a in range(columns):
            for lane in range(stop - start):
                shares[start + lane, a] = counts[a, lane]


@kernel()
def signed_counts(codes: Bytes, out: Floats) -> None:
    """Add to each row of out, at the position in a code's low bits, its sign (high bit: -1)."""
    for t in range(codes.shape[0]):
        for c in range(codes.shape[1]):
            place = codes[t, c] & 127
            if place < out.shape[1]:
                out[t, place] += 1.0 - 2.0 * (codes[t, c] >> 7)


# ----------------------------------------------------------------------
# One action per unit: among ties, or by shares of a draw, for few actions and millions of units.
#
# The results do not depend on which other units are present.


@kernel()
def mark_highest(criterion: Floats, out: Bools) -> None:
    """Mark the actions with the highest criterion of their unit, shape (n, K).

    No action is marked if a criterion is NaN, because the highest is then unknown.
    """
    for unit in range(criterion.shape[0]):
        top = criterion[unit, 0]
        for action in range(1, criterion.shape[1]):
            value = criterion[unit, action]
            if value > top or np.isnan(value):
                top = value
        for action in range(criterion.shape[1]):
            out[unit, action] = criterion[unit, action] == top


@kernel()
def choose_among(allowed: Bools, draws: Floats, chosen: Integers, probabilities: Floats) -> None:
    """Choose one of the allowed actions, each with the same probability."""
    for unit in range(allowed.shape[0]):
        equals = 0
        for action in range(allowed.shape[1]):
            equals += allowed[unit, action]
        wanted = min(int(draws[unit] * equals), equals - 1)
        chosen[unit], passed = 0, 0
        for action in range(allowed.shape[1]):
            # The action at which the wanted number of allowed actions has been passed.
            if allowed[unit, action] and passed == wanted:
                chosen[unit] = action
            passed += allowed[unit, action]
            probabilities[unit, action] = allowed[unit, action] / equals


@kernel()
def choose_by_shares(probabilities: Floats, draws: Floats, chosen: Integers) -> None:
    """Choose the action in whose share of [0, 1) the draw falls.

    Shares may sum to slightly less than 1: the draw is scaled, and the last possible action absorbs
    the rounding.
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
