"""Kernels of allocation: dependent rounding, and choices at given prices."""

from typing import Any

import numpy as np

from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.core.kernels.compiling import kernel

# ----------------------------------------------------------------------
# Dependent rounding of a table of probabilities, in integer multiples of 2^-52.
#
# The table is a network: each unit sends one unit of flow through the nodes (finest stratum,
# action), (coarser stratum, action), ..., (all units, action) to a single sink. Every node except
# units and sink conserves flow. Edges with integer flow are settled and dropped; the others are
# added to a forest one at a time. When an edge closes a cycle, the flow around the cycle is moved
# up or down until an edge becomes integer. At least one edge is then settled, and the rest is a
# forest again.


#: A probability of 1. Multiples of 2^-52 up to 1 are exact floats.
ONE = 1 << 52

# Constants of splitmix64. Mixing uint64 with a plain integer would make numba convert to float.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_MOST = np.uint64(0xFFFFFFFFFFFFFFFF)
_NEXT = np.uint64(1)


@kernel()
def whole_parts(probabilities: Floats, weights: Integers) -> int:
    """Write each row as integer multiples of 2^-52 that sum to 2^52; zeros stay zeros.

    The largest cell absorbs the rounding error. Returns the first row that has a negative cell or
    does not sum to 1 within 1e-9, and -1 if there is none.
    """
    for row in range(probabilities.shape[0]):
        total, largest = 0, 0
        for a in range(probabilities.shape[1]):
            if not 0 <= probabilities[row, a] <= 1.000000001:
                return row
            weights[row, a] = np.int64(np.rint(probabilities[row, a] * ONE))
            total += weights[row, a]
            if weights[row, a] > weights[row, largest]:
                largest = a
        if abs(total - ONE) > 1e-9 * ONE:
            return row
        weights[row, largest] += ONE - total
    return -1


@kernel()
def _mixed(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))


@kernel()
def _below(bound: Any, key: AnyArray, counter: AnyArray) -> Any:
    """Return a uniformly random integer below `bound`, without bias."""
    bound = np.uint64(bound)
    # Numbers above the last multiple of the bound would favour small remainders: draw again.
    last = _MOST - (_MOST % bound + _NEXT) % bound
    while True:
        counter[0] += _NEXT
        drawn = _mixed(_mixed(key[0] + counter[0] * _GAMMA) ^ key[1])
        if drawn <= last:
            return np.int64(drawn % bound)


@kernel()
def _link(tail: int, head: int, amount: int, heads: Integers, ends: Integers, flow: Integers,
          pool: Integers) -> None:  # fmt: skip
    """Add an edge: half-edge 2e is at its tail, half-edge 2e + 1 at its head."""
    if pool[0] >= 0:
        edge, pool[0] = pool[0], flow[pool[0]]  # free edges are chained through their flows
    else:
        edge = pool[1]
        pool[1] += 1
    flow[edge] = amount
    for half, node in ((2 * edge, tail), (2 * edge + 1, head)):
        following = heads[node]
        ends[half, 0], ends[half, 1], ends[half, 2] = node, following, -1
        if following >= 0:
            ends[following, 2] = half
        heads[node] = half


@kernel()
def _unlink(edge: int, heads: Integers, ends: Integers, flow: Integers, pool: Integers) -> None:
    for half in (2 * edge, 2 * edge + 1):
        node, following, before = ends[half, 0], ends[half, 1], ends[half, 2]
        if before >= 0:
            ends[before, 1] = following
        else:
            heads[node] = following
        if following >= 0:
            ends[following, 2] = before
    flow[edge] = pool[0]
    pool[0] = edge


@kernel()
def _path(start: int, goal: int, heads: Integers, ends: Integers, path: Integers) -> int:
    """Write the half-edges of the forest's path from `start` to `goal`; -1 if there is none."""
    depth, half = 0, heads[start]
    while True:
        while half < 0:
            if depth == 0:
                return -1
            depth -= 1
            half = ends[path[depth], 1]
        if depth > 0 and half == path[depth - 1] ^ 1:  # the way back
            half = ends[half, 1]
            continue
        path[depth] = half
        depth += 1
        node = ends[half ^ 1, 0]
        if node == goal:
            return depth
        half = heads[node]


@kernel()
def _add(tail: int, head: int, amount: int, heads: Integers, ends: Integers, flow: Integers,
         pool: Integers, path: Integers, key: AnyArray, counter: AnyArray, actions: Integers,
         units: int, columns: int) -> None:  # fmt: skip
    """Add an edge to the forest; if it closes a cycle, break the cycle."""
    depth = _path(tail, head, heads, ends, path)
    if depth < 0:
        _link(tail, head, amount, heads, ends, flow, pool)
        return
    # Around the cycle: up this edge, then along the path from its head back to its tail. Odd
    # half-edges are at the heads of their edges, which are traversed in their own direction.
    up, down = ONE - amount, amount
    for place in range(depth):
        carried = flow[path[place] >> 1]
        if path[place] & 1:
            up, down = min(up, ONE - carried), min(down, carried)
        else:
            up, down = min(up, carried), min(down, ONE - carried)
    # The expected step is up * down - down * up = 0, exactly.
    step = up if _below(up + down, key, counter) < down else -down
    for place in range(depth):
        half = path[place]
        edge = half >> 1
        carried = flow[edge] + (step if half & 1 else -step)
        flow[edge] = carried
        if carried == 0 or carried == ONE:
            unit, node = ends[2 * edge, 0], ends[2 * edge + 1, 0]
            if carried == ONE and unit < units:
                actions[unit] = (node - units) % columns
            _unlink(edge, heads, ends, flow, pool)
    amount += step
    if 0 < amount < ONE:
        _link(tail, head, amount, heads, ends, flow, pool)
    elif amount == ONE and tail < units:
        actions[tail] = (head - units) % columns


@kernel()
def round_table(
    weights: Integers, order: AnyArray, changes: Integers, groups: int, depth: int, key: AnyArray
) -> Integers:
    """Round every row of an integer table to one action.

    Units are processed in `order`. For each of them, in that order, `changes` is the coarsest level
    at which its stratum differs from the previous one (`depth`, the number of levels plus one, if
    at none); `groups` is the number of strata at all levels, including that of all units. Returns
    the actions.
    """
    units, columns = weights.shape
    sink = units + groups * columns
    heads = np.full(sink + 1, -1, dtype=np.int64)
    # A forest has fewer edges than nodes. Memory that is never touched costs nothing.
    ends = np.empty((2 * sink + 4, 3), dtype=np.int64)
    flow = np.empty(sink + 2, dtype=np.int64)
    path = np.empty(sink + 2, dtype=np.int64)
    pool = np.array([-1, 0])
    counter = np.zeros(1, dtype=np.uint64)
    actions = np.full(units, -1, dtype=np.int64)  # by place in the order
    group = np.arange(depth)
    opened = depth
    sums = np.zeros((depth, columns), dtype=np.int64)
    for place in range(units + 1):
        change = changes[place] if place < units else 0
        for level in range(depth - 1, change - 1, -1):
            # The stratum is complete: its outflow is known, and only its fraction matters.
            for a in range(columns):
                amount = sums[level, a] & (ONE - 1)
                sums[level, a] = 0
                if level:
                    sums[level - 1, a] = (sums[level - 1, a] + amount) & (ONE - 1)
                if amount:
                    node = units + group[level] * columns + a
                    above = units + group[level - 1] * columns + a if level else sink
                    _add(node, above, amount, heads, ends, flow, pool, path, key, counter,
                         actions, units, columns)  # fmt: skip
            if place < units:
                group[level] = opened
                opened += 1
        if place < units:
            row = order[place]
            for a in range(columns):
                amount = weights[row, a]
                if amount == ONE:
                    actions[place] = a
                elif amount:
                    sums[depth - 1, a] = (sums[depth - 1, a] + amount) & (ONE - 1)
                    node = units + group[depth - 1] * columns + a
                    _add(place, node, amount, heads, ends, flow, pool, path, key, counter,
                         actions, units, columns)  # fmt: skip
    chosen = np.empty(units, dtype=np.int64)
    for place in range(units):
        chosen[order[place]] = actions[place]
    return chosen


# ----------------------------------------------------------------------
# Loops over units for prices: soft or hard choices at given prices, and moves between columns.


@kernel()
def _shares(scores: Floats, prices: Floats, temperature: float, share: Floats) -> None:
    """Write one unit's soft choice; cells of -inf are excluded."""
    best, total = -np.inf, 0.0
    for a in range(scores.shape[0]):
        share[a] = scores[a] - prices[a]
        best = max(best, share[a])
    for a in range(scores.shape[0]):
        share[a] = np.exp((share[a] - best) / temperature)
        total += share[a]
    for a in range(scores.shape[0]):
        share[a] /= total


@kernel()
def tilt(
    scores: Floats,
    weights: Floats,
    prices: Floats,
    temperature: float,
    columns: Floats,
    curvature: Floats,
) -> None:
    """Sum soft choices at prices: exp((score - price) / temperature), normalised to sum 1.

    Adds the column sums to `columns`, and the lower triangle of the sum of diag(q) - q q' to
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


@kernel()
def tilted(
    scores: Floats, weights: Floats, prices: Floats, temperature: float, floor: Floats,
    whole: Integers,
) -> None:  # fmt: skip
    """Write each row's floor plus soft choice as integer multiples of 2^-52 that sum to 2^52."""
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


@kernel()
def near_ties(
    scores: Floats, weights: Floats, prices: Floats, width: float, columns: Floats, kept: Bools
) -> None:
    """Keep the units whose best two actions are within `width`; add the others to `columns`."""
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


@kernel()
def whole_sums(whole: Integers, sums: Integers) -> None:
    """Sum integer columns in two limbs of 26 bits, because a million ones exceed 64 bits."""
    low = ONE // (1 << 26) - 1
    for row in range(whole.shape[0]):
        for a in range(whole.shape[1]):
            sums[0, a] += whole[row, a] >> 26
            sums[1, a] += whole[row, a] & low


@kernel()
def movable(whole: Integers, floor: Floats, open_to: Bools, enough: int, found: Integers) -> None:
    """Sum what could be moved from each action to each other action, up to `enough`."""
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


@kernel()
def move(
    whole: Integers, floor: Floats, open_to: Bools, origin: int, target: int, amount: int, part: int
) -> int:
    """Move an amount from one action to another, at most one `part`-th of each unit's share.

    Units are processed in order until the amount is moved; returns the remainder.
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


@kernel()
def _may_get(row: int, action: int, whole: AnyArray, open_to: Bools) -> bool:
    """Return whether a unit has a share of an action, or may get it if that table is given."""
    return bool(open_to[row, action]) if open_to.shape[0] else bool(whole[row, action] > 0)
