"""Kernels of ridge regression and the lasso: sums over rows, and solutions from them."""

import numpy as np

from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.kernels.compiling import kernel

EPSILON = float(np.finfo(np.float64).eps)


@kernel()
def _add_eight(target: Floats, rows: Floats, order: Integers) -> None:
    # Outer products of eight rows into the lower triangle, two lines at a time. A pair of lines may
    # spill one place over the diagonal; the mirroring in `accumulate` overwrites that.
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


@kernel()
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

    Rows are added one after another: any split of them into pieces gives the same bits. A cell
    below zero skips the row.
    """
    dim = rows.shape[1]
    # Group the rows by cell, in order. Several rows per pass give the same sums in the same order
    # as one by one, with a fraction of the memory traffic.
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


@kernel()
def factorise(gram: Floats, penalty: float, upper: Floats, root: Floats) -> None:
    """Fill root with the inverse of the Cholesky factor of gram + penalty I; upper is scratch.

    A pivot lost to rounding, because a column depends on others and the penalty is too small to
    matter, is set to that rounding, relative to the column's size.
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
    # Row i of the inverse of the lower factor, from the rows above it; zero beyond the diagonal.
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


@kernel()
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


@kernel()
def ridge_cells(
    gram: Floats,
    moment: Floats,
    penalty: float,
    stale: Bools,
    theta: Floats,
    root: Floats,
) -> None:
    """Re-estimate every stale cell in place."""
    upper = np.empty(gram.shape[1:])
    for cell in range(gram.shape[0]):
        if stale[cell]:
            factorise(gram[cell], penalty, upper, root[cell])
            solve(root[cell], moment[cell], theta[cell])


@kernel()
def ridge_means_cells(gram: Floats, moment: Floats, penalty: float, theta: Floats) -> None:
    """Estimate every cell as :func:`ridge_cells` does, without keeping the root."""
    upper, root = np.empty(gram.shape[1:]), np.empty(gram.shape[1:])
    for cell in range(gram.shape[0]):
        factorise(gram[cell], penalty, upper, root)
        solve(root, moment[cell], theta[cell])


@kernel()
def descend(gram: Floats, moment: Floats, penalty: float, sweeps: int, theta: Floats) -> None:
    """Minimise theta' gram theta / 2 - theta' moment + penalty |theta|_1, one coordinate at a time.

    `theta` is the start and, modified in place, the result after `sweeps` sweeps, or when a sweep
    changes the gradient by no more than rounding. The caller must check whether that is the
    minimum: small steps alone do not imply it.
    """
    dim = len(theta)
    largest = 0.0
    for j in range(dim):
        largest = max(largest, abs(moment[j]))
    # Updated with every step instead of recomputed: one row instead of a matrix product.
    gradient = moment - gram @ theta
    for _ in range(sweeps):
        moved = 0.0
        for j in range(dim):
            curvature = gram[j, j]
            if curvature <= 0.0:
                continue
            pull = gradient[j] + curvature * theta[j]
            size = abs(pull) - penalty
            wanted = 0.0
            if size > 0.0:
                wanted = size / curvature if pull > 0.0 else -size / curvature
            change = wanted - theta[j]
            if change != 0.0:
                theta[j] = wanted
                for i in range(dim):
                    gradient[i] -= gram[i, j] * change
                moved = max(moved, abs(change) * curvature)
        if moved <= EPSILON * largest:
            return
