"""The best grid for each number of batches: the search, compared with the paper's grids."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from seqbatch import grids
from seqbatch.core.arrays import Floats
from seqbatch.planning.request import BatchLimits, Request, Sizes

# ----------------------------------------------------------------------
# A family of grids, and a search in it.
#
# The grids of the family have ends t_m with
#
#     ln t_m = ln t_1 + (ln T - ln t_1) (1 - r^(m-1)) / (1 - r^(M-1)).
#
# They have two parameters for any M: the first end and the bend r. r = 1 is the geometric grid of
# Theorem 3, r = 1/2 that of Theorem 2, and all grids of two or three batches belong to the family.
# The search is deterministic: the same function gives the same grid.


#: The bend at which the search starts.
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
    limits: BatchLimits,
    batches: int,
    *,
    least: int,
    start: tuple[float, float] | None = None,
) -> tuple[Sizes, tuple[float, float]]:
    """Find the grid with the least cost in the family.

    Parameters
    ----------
    cost
        The cost of a grid with these sizes.
    limits, batches
        The limits and the number of batches.
    least
        The smallest first end worth trying.
    start
        ln t_1 and ln r near which to search, as found for another number of batches.

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

    # In logarithms, because the cost depends on ratios of the first end, not on differences.
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
    # Coordinate descent, two rounds: the cost is flat and smooth around its minimum. With two
    # batches the bend has no effect.
    for rounds in range(2 if batches > 2 else 1):
        reach = width / (1 + rounds)
        bounds = max(low, first - reach), min(high, first + reach)
        first = _golden(partial(value, log_bend=bend), *bounds, steps=6 - 2 * rounds)
        if batches > 2:
            # From ends that crowd at the last unit to spacing slightly beyond the geometric grid's.
            bounds = max(math.log(0.1), bend - 1.0), min(math.log(1.6), bend + 1.0)
            bend = _golden(partial(value, first), *bounds, steps=4)
    # The best of all tried grids, not the last one: rounding makes the cost a step function.
    best_sizes = min(known, key=lambda wanted: known[wanted])
    if limits.waves is not None:
        best_sizes = _neighbours(remembered, best_sizes, limits)
    return best_sizes, (first, bend)


def _golden(value: Callable[[float], float], low: float, high: float, *, steps: int) -> float:
    """Narrow down a minimum by golden-section search, one new point per step."""
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


def _neighbours(cost: Callable[[Sizes], float], sizes: Sizes, limits: BatchLimits) -> Sizes:
    """Move one end at a time to an adjacent wave's end, as long as that helps."""
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


# ----------------------------------------------------------------------
# The best grid for each number of batches: the tuned one, unless the paper's is better.
#
# If the effect is uncertain, a grid is judged by its regret relative to the best grid for each
# effect, averaged over the prior. Expected regret would be dominated by the effects with the most
# to lose, and ignore the others.


#: A grid whose tuning cost exceeds the tuned grid's by more than this factor is not judged.
CLOSE = 1.1
#: The number of grids that are scanned for the least cost per effect.
SCANNED = 5

#: The criterion of a grid, given the contribution of each scenario to its regret.
Weighing = Callable[[Floats], float]


def best_grids(
    request: Request, progress: Callable[[int], None] = lambda _: None
) -> dict[int, Sizes]:
    """Return the grid for each number of batches: the tuned one, unless the paper's is better.

    `progress` is called with the number of grids found.
    """
    found: dict[int, Sizes] = {}
    start = None
    for number in request.numbers:
        if number > 1 and request.kind == "tuned" and request.all_by_chance(number):
            # All grids lose the same; equal batches are the natural choice.
            found[number] = _equal(request.limits, number)
            continue
        options = paper_grids(request, number)
        weigh: Weighing = _expected
        if request.kind == "tuned" and number > 1:
            weigh = weighing(request, number, start)
            sizes, start = tuned(request, number, weigh, start)
            # If little can be learned, the search follows noise; equal batches do well there.
            options.append(_equal(request.limits, number))
            # An additional batch must not look worse because the search stopped short.
            if number - 1 in found:
                options.append(_split(request.limits, found[number - 1]))
            options = [sizes, *_close(request, sizes, options, weigh)]
        found[number] = _judged_best(request, options, weigh)
        progress(len(found))
    return found


def _judged_best(request: Request, options: list[Sizes], weigh: Weighing) -> Sizes:
    """Return the best grid, judged on other trials than it was tuned on."""
    if len(options) == 1:
        return options[0]
    return min(options, key=lambda sizes: weigh(request.judged(sizes).by_scenario(sizes)))


def _close(request: Request, sizes: Sizes, options: list[Sizes], weigh: Weighing) -> list[Sizes]:
    """Return the options that may turn out better than the tuned grid."""
    limit = CLOSE * weigh(request.tried(sizes))
    return [one for one in options if one != sizes and weigh(request.tried(one)) <= limit]


def _expected(regrets: Floats) -> float:
    return float(regrets.sum())


def weighing(request: Request, number: int, start: tuple[float, float] | None) -> Weighing:
    """Return the criterion for grids with this number of batches.

    It is expected regret if the scenario is certain or was learned from outcomes. Otherwise it is
    the mean over scenarios of regret relative to the least that was found for each.
    """
    limits, weights = request.limits, np.array(request.model.weights)
    if len(weights) == 1 or request.model.past is not None:
        return _expected
    bend = TYPICAL_BEND if start is None else math.exp(start[1])
    firsts = np.geomspace(min(request.least_first, limits.units / 2), limits.units / 2, SCANNED)
    scanned = [
        limits.fit(family(first, bend, units=limits.units, batches=number, seen=limits.seen))
        for first in firsts.tolist()
    ]
    least = np.min([request.tried(sizes) for sizes in scanned], axis=0)
    least = np.maximum(least, 1e-12 * least.max())
    return lambda regrets: float(weights @ (regrets / least))


def _equal(limits: BatchLimits, number: int) -> Sizes:
    """Return equal batches, as far as the limits allow."""
    return limits.fit([limits.units * (place + 1) / number for place in range(number)])


def _split(limits: BatchLimits, sizes: Sizes) -> Sizes:
    """Return the grid with one more end in its last batch, as far as the limits allow."""
    ends = [float(end) for end in np.cumsum(sizes)]
    # In the middle on the logarithmic scale, on which the family spaces its ends.
    before = ends[-2] if len(ends) > 1 else 0.0
    middle = math.sqrt((limits.seen + max(before, 1.0)) * (limits.seen + ends[-1])) - limits.seen
    return limits.fit([*ends[:-1], middle, ends[-1]])


def tuned(
    request: Request, number: int, weigh: Weighing, start: tuple[float, float] | None
) -> tuple[Sizes, tuple[float, float]]:
    """Return the grid with the least criterion in the tuning trials, and its parameters."""
    return tune(
        lambda wanted: weigh(request.tried(wanted)),
        request.limits,
        number,
        least=request.least_first,
        start=start,
    )


def paper_grids(request: Request, batches: int) -> list[Sizes]:
    """Return the grids of Theorems 2 and 3, as far as the limits allow.

    For an experiment that has already started, return the geometric grid from the current unit.
    """
    limits, dim = request.limits, request.model.dim
    if limits.seen:
        growth = (1 + limits.units / limits.seen) ** (1 / batches) - 1
        ends = [
            family(growth * limits.seen, 1.0, units=limits.units, batches=batches, seen=limits.seen)
        ]
    else:
        paper = [
            make(units=limits.units, dim=dim, batches=batches)
            for make in (grids.minimax, grids.geometric)
        ]
        ends = [[float(end) for end in one.ends] for one in paper]
    return list(dict.fromkeys(limits.fit(one) for one in ends))
