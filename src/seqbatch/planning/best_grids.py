"""The best grid of each number of batches: tuned, unless the paper's is better.

Where the effect is not certain, a grid is judged by its regret relative to that of the best grid
for each effect, on average over their law. Expected regret itself would be decided by the effects
under which most can be lost, and leave the others to chance.
"""

import math
from collections.abc import Callable

import numpy as np

from seqbatch import grids
from seqbatch.core.arrays import Floats
from seqbatch.planning.grid_search import TYPICAL_BEND, family, tune
from seqbatch.planning.limits import Limits, Sizes
from seqbatch.planning.request import Request

#: A grid that costs more than this times the tuned one's in the trials for tuning is not judged.
CLOSE = 1.1
#: How many grids show what the best one for each effect would cost.
SCANNED = 5

#: What a grid is judged by, given what each scenario adds to its regret.
Weighing = Callable[[Floats], float]


def best_grids(
    request: Request, progress: Callable[[int], None] = lambda _: None
) -> dict[int, Sizes]:
    """Return the grid of each number of batches: tuned, unless the paper's is better.

    `progress` is called with the number of grids found.
    """
    found: dict[int, Sizes] = {}
    start = None
    for number in request.numbers:
        if number > 1 and request.kind == "tuned" and request.all_by_chance(number):
            # No grid loses more or less than another; equal batches are what a person expects.
            found[number] = _equal(request.limits, number)
            continue
        options = paper_grids(request, number)
        weigh: Weighing = _expected
        if request.kind == "tuned" and number > 1:
            weigh = weighing(request, number, start)
            sizes, start = tuned(request, number, weigh, start)
            # Where little can be learned, the search follows chance: equal batches are good there.
            options.append(_equal(request.limits, number))
            # One more batch must never look worse because the search stopped short.
            if number - 1 in found:
                options.append(_split(request.limits, found[number - 1]))
            options = [sizes, *_close(request, sizes, options, weigh)]
        found[number] = _judged_best(request, options, weigh)
        progress(len(found))
    return found


def _judged_best(request: Request, options: list[Sizes], weigh: Weighing) -> Sizes:
    """Return the best grid on other trials than it was tuned on."""
    if len(options) == 1:
        return options[0]
    return min(options, key=lambda sizes: weigh(request.judged(sizes).by_scenario(sizes)))


def _close(request: Request, sizes: Sizes, options: list[Sizes], weigh: Weighing) -> list[Sizes]:
    """Return the options that may turn out better than a tuned grid; the others are not."""
    limit = CLOSE * weigh(request.tried(sizes))
    return [one for one in options if one != sizes and weigh(request.tried(one)) <= limit]


def _expected(regrets: Floats) -> float:
    return float(regrets.sum())


def weighing(request: Request, number: int, start: tuple[float, float] | None) -> Weighing:
    """Return what grids of this number of batches are judged by.

    That is expected regret where the scenario is certain or was learned from outcomes, else the
    mean over the scenarios of regret relative to the least that was found for each.
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


def _equal(limits: Limits, number: int) -> Sizes:
    """Return equal batches, as far as the limits let them be."""
    return limits.fit([limits.units * (place + 1) / number for place in range(number)])


def _split(limits: Limits, sizes: Sizes) -> Sizes:
    """Return the grid with one more end in its last batch, as far as the limits let it."""
    ends = [float(end) for end in np.cumsum(sizes)]
    # In the middle on the logarithmic scale, on which the family spaces its ends.
    before = ends[-2] if len(ends) > 1 else 0.0
    middle = math.sqrt((limits.seen + max(before, 1.0)) * (limits.seen + ends[-1])) - limits.seen
    return limits.fit([*ends[:-1], middle, ends[-1]])


def tuned(
    request: Request, number: int, weigh: Weighing, start: tuple[float, float] | None
) -> tuple[Sizes, tuple[float, float]]:
    """Return the grid that weighs least in the tuning trials, and where the search found it."""
    return tune(
        lambda wanted: weigh(request.tried(wanted)),
        request.limits,
        number,
        least=request.least_first,
        start=start,
    )


def paper_grids(request: Request, batches: int) -> list[Sizes]:
    """Return the grids of Theorems 2 and 3, as far as the limits let them be.

    For an experiment under way the theorems have none; then it is the geometric one from there.
    """
    limits, dim = request.limits, request.model.dim
    if limits.seen:
        growth = (1 + limits.units / limits.seen) ** (1 / batches) - 1
        ends = [
            family(growth * limits.seen, 1.0, units=limits.units, batches=batches, seen=limits.seen)
        ]
    else:
        made = [
            make(units=limits.units, dim=dim, batches=batches)
            for make in (grids.minimax, grids.geometric)
        ]
        ends = [[float(end) for end in one.ends] for one in made]
    return list(dict.fromkeys(limits.fit(one) for one in ends))
