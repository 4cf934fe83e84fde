"""Where batches should end: a family of grids, and a search in it.

Every grid of the family has ends t_m with

    ln t_m = ln t_1 + (ln T - ln t_1) (1 - r^(m-1)) / (1 - r^(M-1)),

two numbers for any M: the first end and the bend r. r = 1 is the geometric grid of Theorem 3,
r = 1/2 that of Theorem 2, and all two-batch and three-batch grids with t_2 of any size belong to
it. The search is deterministic: the same function gives the same grid.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

from seqbatch.planning.limits import Limits, Sizes

#: A bend to begin the search with.
TYPICAL_BEND = 0.6


def family(first: float, bend: float, *, units: int, batches: int, seen: int = 0) -> list[float]:
    """Return the family's ends, counted from `seen`.

    >>> [round(end) for end in family(1_000, 1.0, units=100_000, batches=3)]
    [1000, 10000, 100000]
    """
    if batches == 1:
        return [float(units)]
    start, stop = math.log(seen + first), math.log(seen + units)
    weights = [bend**m for m in range(batches - 1)]
    total, ends, passed = sum(weights), [first], 0.0
    for weight in weights:
        passed += weight
        ends.append(math.exp(start + (stop - start) * passed / total) - seen)
    return ends


def tune(
    cost: Callable[[Sizes], float],
    limits: Limits,
    batches: int,
    *,
    least: int,
    start: tuple[float, float] | None = None,
) -> tuple[Sizes, tuple[float, float]]:
    """Find the grid of least cost in the family.

    Parameters
    ----------
    cost
        What a grid of these sizes costs.
    limits, batches
        What the grid must keep to.
    least
        The smallest first end worth trying.
    start
        ln t_1 and ln r to search near, as found for another number of batches.

    Returns
    -------
    tuple
        The sizes, and their ln t_1 and ln r.
    """
    known: dict[Sizes, float] = {}

    def sizes(log_first: float, log_bend: float) -> Sizes:
        ends = family(
            math.exp(log_first),
            math.exp(log_bend),
            units=limits.units,
            batches=batches,
            seen=limits.seen,
        )
        return limits.fit(ends)

    def remembered(wanted: Sizes) -> float:
        if wanted not in known:
            known[wanted] = cost(wanted)
        return known[wanted]

    def value(log_first: float, log_bend: float) -> float:
        return remembered(sizes(log_first, log_bend))

    # On logarithms, because the cost changes by ratios of the first end, not by differences.
    low, high = math.log(min(least, limits.units / 2)), math.log(limits.units * 0.9)
    if start is None:
        steps = [low + (high - low) * i / 8 for i in range(9)]
        bend = math.log(TYPICAL_BEND)
        values = [value(step, bend) for step in steps]
        best = values.index(min(values))
        first, width = steps[best], (high - low) / 8
    else:
        (first, bend), width = start, 1.0
        first = min(max(first, low), high)
        value(first, bend)
    # One coordinate after the other, twice: the cost is flat and smooth around its minimum. With
    # two batches the bend has no effect.
    for rounds in range(2 if batches > 2 else 1):
        reach = width / (1 + rounds)
        bounds = max(low, first - reach), min(high, first + reach)
        first = _golden(partial(value, log_bend=bend), *bounds, steps=6 - 2 * rounds)
        if batches > 2:
            # From ends that crowd at the last unit to some beyond the geometric grid's spacing.
            bounds = max(math.log(0.1), bend - 1.0), min(math.log(1.6), bend + 1.0)
            bend = _golden(partial(value, first), *bounds, steps=4)
    # Of all grids that were tried, not of the last ones: rounding makes the cost a staircase.
    best_sizes = min(known, key=lambda wanted: known[wanted])
    if limits.waves is not None:
        best_sizes = _neighbours(remembered, best_sizes, limits)
    return best_sizes, (first, bend)


def _golden(value: Callable[[float], float], low: float, high: float, *, steps: int) -> float:
    """Narrow the place of a minimum by the golden section, one new point per step."""
    if high <= low:
        return low
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(steps - 2):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = value(right)
    return left if at_left < at_right else right


def _neighbours(cost: Callable[[Sizes], float], sizes: Sizes, limits: Limits) -> Sizes:
    """Move one end at a time to the next wave's end, as long as that helps."""
    stops = limits.stops
    places = [stops.index(sum(sizes[: m + 1])) for m in range(len(sizes))]
    improved = True
    while improved:
        improved = False
        for m in range(len(places) - 1):
            for step in (-1, 1):
                moved = places.copy()
                moved[m] += step
                if moved[m] < 0 or sorted(set(moved)) != moved:
                    continue
                ends = [0, *(stops[place] for place in moved)]
                other = tuple(after - before for before, after in pairwise(ends))
                if cost(other) < cost(sizes):
                    sizes, places, improved = other, moved, True
    return sizes
