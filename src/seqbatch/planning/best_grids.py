"""The best grid for each number of batches: the search, compared with the paper's grids."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product

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
#
# With a delay, a grid of the family has fewer batches, and batches as small as allowed follow each
# of them but the last: they pass while its outcomes arrive. The delay counts batches, not units.
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


def shaped(
    first: float, bend: float, limits: BatchLimits, batches: int, delay: int, *, after: int = 0
) -> Sizes:
    """Return the grid of the family with this first end and bend, as far as the limits allow.

    Batches that remain after a wait of `delay` batches for each of the others are added to the wait
    number `after`.

    >>> shaped(100, 1.0, BatchLimits(units=10_000), 5, 1)
    (100, 1, 899, 1, 8999)
    """
    stages = _stages(batches, delay)
    ends = family(first, bend, units=limits.units, batches=stages, seen=limits.seen)
    if stages == batches:
        return limits.fit(ends)
    spare = (batches - 1) % (1 + delay)
    waited = []
    for number, end in enumerate(ends[:-1]):
        passing = delay + (spare if number == after else 0)
        waited += [end + place * limits.smallest for place in range(1 + passing)]
    return limits.fit([*waited, ends[-1]])


def _stages(batches: int, delay: int) -> int:
    """Return how many batches can each wait for the outcomes of the one before."""
    stages = 1 + (batches - 1) // (1 + delay)
    # If there is no time to wait for any outcomes, no grid is better than another.
    return stages if stages > 1 else batches


def tune(
    cost: Callable[[Sizes], float],
    limits: BatchLimits,
    batches: int,
    *,
    least: int,
    delay: int = 0,
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
    delay
        By how many batches outcomes are late.
    start
        ln t_1 and ln r near which to search, as found for another number of batches.

    Returns
    -------
    tuple
        The sizes, and their ln t_1 and ln r.
    """
    known: dict[Sizes, float] = {}
    stages = _stages(batches, delay)

    def sizes(log_first: float, log_bend: float) -> Sizes:
        return shaped(math.exp(log_first), math.exp(log_bend), limits, batches, delay)

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
    for rounds in range(2 if stages > 2 else 1):
        reach = width / (1 + rounds)
        bounds = max(low, first - reach), min(high, first + reach)
        first = _golden(partial(value, log_bend=bend), *bounds, steps=6 - 2 * rounds)
        if stages > 2:
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
# A search over all sizes, for grids that the family does not contain.
#
# Where limits bind or outcomes are late, the best grid need not belong to the family. The search
# starts from the family's best grid and changes the size of one batch at a time.


#: The factors by which sizes are changed, one after the other.
FACTORS = (3.0, 1.7, 1.3)
#: A change must reduce the cost by this share: smaller ones are noise of the tuning trials.
LEAST_GAIN = 1e-3
#: The number of grids that the search tries.
MOST_TRIED = 48


def search(
    cost: Callable[[Sizes], float],
    limits: BatchLimits,
    batches: int,
    *,
    least: int,
    delay: int = 0,
    start: tuple[float, float] | None = None,
) -> tuple[list[Sizes], tuple[float, float]]:
    """Find the grid with the least cost: in the family, or of all sizes if those may be better.

    The parameters are those of :func:`tune`.

    Returns
    -------
    tuple
        The best grid, followed by the family's if that is another; and ln t_1 and ln r.
    """
    sizes, near = tune(cost, limits, batches, least=least, delay=delay, start=start)
    if not delay and not limits.bind(sizes):
        return [sizes], near
    first, bend = (math.exp(value) for value in near)
    waits = range(1, _stages(batches, delay) - 1)
    others = [shaped(first, bend, limits, batches, delay, after=wait) for wait in waits]
    best = min([sizes, *others], key=cost)
    return list(dict.fromkeys([free(cost, best, limits), best])), near


def free(cost: Callable[[Sizes], float], sizes: Sizes, limits: BatchLimits) -> Sizes:
    """Change the size of one batch at a time, as long as that reduces the cost."""
    tried = {sizes}
    for factor in FACTORS:
        improved = True
        while improved:
            improved = False
            for place, change in product(range(len(sizes) - 1), (factor, 1 / factor)):
                for other in _resized(sizes, place, change, limits):
                    if other in tried:
                        continue
                    if len(tried) > MOST_TRIED:
                        return sizes
                    tried.add(other)
                    if cost(other) < (1 - LEAST_GAIN) * cost(sizes):
                        sizes, improved = other, True
                        break
    return sizes


def _resized(sizes: Sizes, place: int, change: float, limits: BatchLimits) -> list[Sizes]:
    """Return grids with another size of one batch; the largest or the next makes up for it."""
    size = round(sizes[place] * change)
    more = max(size - sizes[place], 1) if change > 1 else min(size - sizes[place], -1)
    largest = max(range(len(sizes)), key=lambda other: (sizes[other], other))
    found = []
    for other in dict.fromkeys((largest, place + 1)):
        moved = list(sizes)
        moved[place] += more
        moved[other] -= more
        if min(moved) > 0 and other != place:
            found.append(limits.fit([float(end) for end in np.cumsum(moved)]))
    return found


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
            found[number] = equal_batches(request.limits, number)
            continue
        options = paper_grids(request, number) or [equal_batches(request.limits, number)]
        weigh: Weighing = _expected
        if request.kind == "tuned" and number > 1:
            weigh = weighing(request, number, start)
            [sizes, *others], start = tuned(request, number, weigh, start)
            # If little can be learned, the search follows noise; equal batches do well there.
            options = [*others, *options, equal_batches(request.limits, number)]
            # An additional batch must not look worse because the search stopped short.
            if number - 1 in found:
                options.append(_split(request.limits, found[number - 1]))
            options = [sizes, *_close(request, sizes, options, weigh)]
            if request.model.conduct.purpose == "choose":
                # Sizes matter little then, and tuning follows noise: the table shows equal batches.
                options.append(equal_batches(request.limits, number))
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

    It is expected regret if the scenario is certain or was learned from outcomes, or if one action
    is chosen at the end: a large effect is then found by any grid. Otherwise it is the mean over
    scenarios of regret relative to the least that was found for each.
    """
    limits, weights = request.limits, np.array(request.model.weights)
    choosing = request.model.conduct.purpose == "choose"
    if len(weights) == 1 or choosing or request.model.past is not None:
        return _expected
    bend = TYPICAL_BEND if start is None else math.exp(start[1])
    firsts = np.geomspace(min(request.least_first, limits.units / 2), limits.units / 2, SCANNED)
    delay = request.model.conduct.delay
    scanned = [shaped(first, bend, limits, number, delay) for first in firsts.tolist()]
    least = np.min([request.tried(sizes) for sizes in scanned], axis=0)
    least = np.maximum(least, 1e-12 * least.max())
    return lambda regrets: float(weights @ (regrets / least))


def equal_batches(limits: BatchLimits, number: int) -> Sizes:
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
) -> tuple[list[Sizes], tuple[float, float]]:
    """Return grids with the least criterion in the tuning trials, best first, and parameters."""
    return search(
        lambda wanted: weigh(request.tried(wanted)),
        request.limits,
        number,
        least=request.least_first,
        delay=request.model.conduct.delay,
        start=start,
    )


def paper_grids(request: Request, batches: int) -> list[Sizes]:
    """Return the grids of Theorems 2 and 3, as far as the limits allow.

    For an experiment that has already started, return the geometric grid from the current unit; for
    fewer units than the theorems assume, none unless they were requested.
    """
    limits, dim = request.limits, request.model.dim
    if request.too_short and request.kind == "tuned":
        return []
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
