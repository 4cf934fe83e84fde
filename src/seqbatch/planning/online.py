"""What new estimates after every unit would cost: what batches are compared with.

Nobody starts for an effect that is not known. But who estimates after every unit sees early how
large it is, so that the start may fit it: what is compared with is the best for each effect.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.planning.costs import earned, rate
from seqbatch.planning.limits import Sizes
from seqbatch.planning.request import Request
from seqbatch.planning.rows import Row
from seqbatch.planning.trials import Trials
from seqbatch.planning.trials.totals import Totals, least

#: Between the updates that stand for "after every unit", units grow by this factor.
STEP = 1.5
#: Uniform starts that are tried are at most this factor apart.
APART = 6.0


def online_row(request: Request, found: Iterable[Sizes]) -> Row:
    """Return what new estimates after every unit would cost, after each effect's best start.

    The first batches of the best grids are tried as starts, too. Outcomes are known at once. Who
    may estimate after every unit may also do so in batches: never worse than the best of them.
    """
    batched = list(found)
    starts = _grids(request, [sizes[0] for sizes in batched])
    tried = [_smooth(request, request.tuning, sizes) for sizes in starts]
    useful = sorted(set(_picked(request, tried, cautious=True)))
    options = [_smooth(request, request.judging, starts[place]) for place in useful]
    options += [request.judged(sizes).totals(sizes) for sizes in batched]
    totals = least(options, _picked(request, options))
    regret, error = totals.mean()
    return Row(
        batches=None,
        sizes=(),
        regret=regret,
        error=error,
        median=totals.median(),
        of_online=1.0,
        earned=earned(request, regret),
        best_share=totals.best_units() / request.limits.units,
        lower_bound=math.nan,
        rate=rate(request, None),
        total_cost=math.nan,
    )


def _picked(request: Request, options: Sequence[Totals], *, cautious: bool = False) -> list[int]:
    """Return the best option for each scenario, or the best for all where few trials are of one.

    Who is cautious adds two standard errors: a start that is too short loses much, but rarely.
    """
    parts = np.array([one.by_scenario() for one in options])
    if cautious:
        parts = parts + 2 * np.array([one.errors_by_scenario() for one in options])
    if request.model.past is not None:
        return [int(parts.sum(axis=1).argmin())] * parts.shape[1]
    picked: list[int] = parts.argmin(axis=0).tolist()
    return picked


def _grids(request: Request, firsts: Sequence[int]) -> list[Sizes]:
    """Return uniform starts of several lengths, each with batches that grow by one factor."""
    limits, shortest = request.limits, request.least_first
    if limits.seen:
        starts = [max(1, round(limits.seen * (STEP - 1)))]
    else:
        longest = max(shortest, limits.units // 4)
        number = 2 + math.floor(math.log(longest / shortest) / math.log(APART))
        starts = [round(float(first)) for first in np.geomspace(shortest, longest, number)]
        starts += [first for first in set(firsts) if first < limits.units]
        # Of starts that are nearly as long, one is enough.
        starts = list({round(4 * math.log(start)): start for start in sorted(starts)}.values())
    made = []
    for first in dict.fromkeys(min(start, limits.units) for start in starts):
        ends = [first]
        while ends[-1] < limits.units:
            grown = math.ceil((limits.seen + ends[-1]) * STEP) - limits.seen
            ends.append(min(grown, limits.units))
        # One unit more, for the cost of the last one.
        made.append(tuple(int(size) for size in np.diff([0, *ends, ends[-1] + 1])))
    return made


def _smooth(request: Request, trials: Trials, sizes: Sizes) -> Totals:
    """Return the totals of batches as if estimates were always up to date.

    The cost of a unit is known where batches start, and changes smoothly in the logarithm of the
    units in between; the trapezoid rule adds it up.
    """
    rates = replace(trials, conduct=replace(trials.conduct, delay=0)).rates(sizes)
    starts = request.limits.seen + np.cumsum([0, *sizes[:-1]])
    # The uniform start costs the same for every unit and stays out of the trapezoids.
    uniform = 0 if request.limits.seen else 1
    steps = np.diff(np.log(starts[uniform:]))

    def added(unit: Floats) -> Floats:
        value = unit[:, uniform:] * starts[uniform:]
        after: Floats = ((value[:, 1:] + value[:, :-1]) / 2 * steps).sum(axis=1)
        return after + uniform * unit[:, 0] * sizes[0]

    chance = float(added(rates.blind[None])[0])
    best = request.limits.units - added(1 - rates.best)
    return rates.summed(added(rates.regret), best, chance=chance)
