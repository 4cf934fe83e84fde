"""Loops over units for prices: choices at given prices, soft or hard, and moves between columns."""

import numpy as np
from numba import njit

from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS
from seqbatch.core.kernels.rounding import ONE


@njit(**OPTIONS)
def _shares(scores: Floats, prices: Floats, temperature: float, share: Floats) -> None:
    """Write one unit's soft choice; cells of -inf have no part in it."""
    best, total = -np.inf, 0.0
    for a in range(scores.shape[0]):
        share[a] = scores[a] - prices[a]
        best = max(best, share[a])
    for a in range(scores.shape[0]):
        share[a] = np.exp((share[a] - best) / temperature)
        total += share[a]
    for a in range(scores.shape[0]):
        share[a] /= total


@njit(**OPTIONS)
def tilt(
    scores: Floats,
    weights: Floats,
    prices: Floats,
    temperature: float,
    columns: Floats,
    curvature: Floats,
) -> None:
    """Sum soft choices at prices: exp((score - price) / temperature), made to sum to 1.

    Adds the column sums to `columns`, and the lower half of the sum of diag(q) - q q' to
    `curvature`.
    """
    share = np.empty(scores.shape[1])
    for row in range(scores.shape[0]):
        _shares(scores[row], prices, temperature, share)
        for a in range(scores.shape[1]):
            part = weights[row] * share[a]
            if part > 0:
                columns[a] += part
                curvature[a, a] += part
                for b in range(a + 1):
                    curvature[a, b] -= part * share[b]


@njit(**OPTIONS)
def tilted(
    scores: Floats, weights: Floats, prices: Floats, temperature: float, floor: Floats,
    whole: Integers,
) -> None:  # fmt: skip
    """Write each row's floor plus its soft choice as whole numbers of 2^-52 that sum to 2^52."""
    units, actions = scores.shape
    share = np.empty(actions)
    for row in range(units):
        _shares(scores[row], prices, temperature, share)
        left, largest = ONE, 0
        for a in range(actions):
            least = floor[row, a] if floor.shape[0] else 0.0
            whole[row, a] = np.int64(np.rint((least + weights[row] * share[a]) * ONE))
            left -= whole[row, a]
            if whole[row, a] > whole[row, largest]:
                largest = a
        whole[row, largest] += left


@njit(**OPTIONS)
def near_ties(
    scores: Floats, weights: Floats, prices: Floats, width: float, columns: Floats, kept: Bools
) -> None:
    """Keep the units whose best two actions lie within `width`; add the others to `columns`."""
    units, actions = scores.shape
    for row in range(units):
        best, second, chosen = -np.inf, -np.inf, 0
        for a in range(actions):
            net = scores[row, a] - prices[a]
            if net > best:
                best, second, chosen = net, best, a
            elif net > second:
                second = net
        kept[row] = best - second <= width
        if not kept[row]:
            columns[chosen] += weights[row]


@njit(**OPTIONS)
def whole_sums(whole: Integers, sums: Integers) -> None:
    """Sum columns of whole parts in two limbs of 26 bits, since a million ones exceed 64 bits."""
    low = ONE // (1 << 26) - 1
    for row in range(whole.shape[0]):
        for a in range(whole.shape[1]):
            sums[0, a] += whole[row, a] >> 26
            sums[1, a] += whole[row, a] & low


@njit(**OPTIONS)
def movable(whole: Integers, floor: Floats, open_to: Bools, enough: int, found: Integers) -> None:
    """Sum what could be moved from each action to each other one, up to `enough`."""
    units, actions = whole.shape
    for row in range(units):
        for a in range(actions):
            spare = whole[row, a]
            if spare and floor.shape[0]:
                spare -= np.int64(floor[row, a] * ONE) + 1
            if spare <= 0:
                continue
            for b in range(actions):
                if b != a and found[a, b] < enough and _may_get(row, b, whole, open_to):
                    found[a, b] += min(spare, enough)


@njit(**OPTIONS)
def move(
    whole: Integers, floor: Floats, open_to: Bools, origin: int, target: int, amount: int, part: int
) -> int:
    """Move an amount from one action to another, a `part`-th of each unit's at most.

    Units come in order until the amount is moved; returns what is left of it.
    """
    for row in range(whole.shape[0]):
        if amount == 0:
            break
        spare = whole[row, origin]
        if spare and floor.shape[0]:
            spare -= np.int64(floor[row, origin] * ONE) + 1
        if spare > 0 and _may_get(row, target, whole, open_to):
            step = min(amount, -(-spare // part))
            whole[row, origin] -= step
            whole[row, target] += step
            amount -= step
    return amount


@njit(**OPTIONS)
def _may_get(row: int, action: int, whole: AnyArray, open_to: Bools) -> bool:
    """Say whether a unit has a share of an action, or is open to it where that table is given."""
    return bool(open_to[row, action]) if open_to.shape[0] else bool(whole[row, action] > 0)
