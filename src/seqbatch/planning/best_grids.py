"""The best grid of each number of batches: tuned, unless the paper's is better."""

import math

import numpy as np

from seqbatch import grids
from seqbatch.planning.grid_search import family, tune
from seqbatch.planning.limits import Limits, Sizes
from seqbatch.planning.request import Request


def best_grids(request: Request) -> dict[int, Sizes]:
    """Return the grid of each number of batches: tuned, unless the paper's is better."""
    found: dict[int, Sizes] = {}
    start = None
    for number in request.numbers:
        options = paper_grids(request, number)
        if request.kind == "tuned" and number > 1:
            sizes, start = tuned(request, number, start)
            options = [sizes, *options]
            # One more batch must never look worse because the search stopped short.
            if number - 1 in found:
                options.append(_split(request.limits, found[number - 1]))
        # Judged on other trials than it was tuned on; there the paper's must not be better.
        found[number] = min(options, key=lambda sizes: request.judged(sizes).total(sizes)[0])
    return found


def _split(limits: Limits, sizes: Sizes) -> Sizes:
    """Return the grid with one more end in its last batch, as far as the limits let it."""
    ends = [float(end) for end in np.cumsum(sizes)]
    # In the middle on the logarithmic scale, on which the family spaces its ends.
    before = ends[-2] if len(ends) > 1 else 0.0
    middle = math.sqrt((limits.seen + max(before, 1.0)) * (limits.seen + ends[-1])) - limits.seen
    return limits.fit([*ends[:-1], middle, ends[-1]])


def tuned(
    request: Request, number: int, start: tuple[float, float] | None
) -> tuple[Sizes, tuple[float, float]]:
    """Return the grid of least regret in the tuning trials, and where the search found it."""
    return tune(
        lambda wanted: request.tuning.rates(wanted).total(wanted)[0],
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
