"""What grids cost on a model: the rows of a stochastic plan's table."""

import math
from dataclasses import replace

import numpy as np

from seqbatch import theory
from seqbatch.core.arrays import Floats
from seqbatch.planning.best_grids import paper_grids, tuned, weighing
from seqbatch.planning.grid_search import TYPICAL_BEND
from seqbatch.planning.limits import Sizes
from seqbatch.planning.request import Request
from seqbatch.planning.rows import Row, Sensitivity
from seqbatch.planning.trials.block import BlockEnsemble

#: Wrong guesses of the effect that the sensitivity table tries.
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def row(request: Request, sizes: Sizes, online: float) -> Row:
    """Return what a grid costs."""
    totals = request.judged(sizes).totals(sizes)
    regret, error = totals.mean()
    cost = math.nan if request.batch_cost is None else regret + request.batch_cost * len(sizes)
    return Row(
        batches=len(sizes),
        sizes=sizes,
        regret=regret,
        error=error,
        median=totals.median(),
        of_online=regret / online if online > 0 else math.nan,
        earned=earned(request, regret),
        best_share=totals.best_units() / sum(sizes),
        # Where nothing can be learned, the regret's own noise would let them cross.
        lower_bound=min(_lower_bound(request, sizes), regret),
        rate=rate(request, len(sizes)),
        total_cost=cost,
    )


def sensitivity(request: Request, sizes: Sizes) -> tuple[Sensitivity, ...]:
    """Return what the grid costs for other true effects, beside the best grid for each."""
    noises = sorted({noise for _, noise in request.model.scenarios})
    made = []
    for factor in FACTORS:
        # The guesses times the factor, for certain.
        truth = tuple((factor * guess, noise) for guess in request.law.guesses for noise in noises)
        other = replace(request, model=replace(request.model, scenarios=truth, weights=()))
        # The same seed, hence the same draws: costs differ by the effect alone.
        options = [sizes, *paper_grids(other, len(sizes))]
        costs = [other.judged(one).total(one)[0] for one in options]
        best = min(costs)
        if len(sizes) > 1:
            # The larger the effect, the sooner it shows.
            near = math.log(max(sizes[0] / factor, other.least_first)), math.log(TYPICAL_BEND)
            found, _ = tuned(other, len(sizes), weighing(other, len(sizes), near), near)
            best = min(best, other.judged(found).total(found)[0])
        made.append(Sensitivity(factor=factor, regret=costs[0], paper=min(costs[1:]), best=best))
    return tuple(made)


def _lower_bound(request: Request, sizes: Sizes) -> float:
    """Return a lower bound for every method with these batches, on average over the parameters.

    Before the first outcomes, and by chance, every method loses the whole effect: that part is
    exact. For the rest of the shared model it comes from the proof of Theorem 2; for that of the
    block model it is what even a method that saw the outcomes of all actions would lose, simulated.
    Nothing is claimed for an experiment under way.
    """
    model = request.model
    if request.limits.seen:
        return math.nan
    units = np.array(sizes, dtype=np.float64)
    blind = model.conduct.blind(len(sizes))
    chosen = (1 - blind) * units
    by_chance = request.possible / request.limits.units * float(blind @ units)
    return by_chance + _least_chosen(request, sizes, chosen)


def _least_chosen(request: Request, sizes: Sizes, chosen: Floats) -> float:
    """Return the least that units lose for which a method chooses, `chosen` of them a batch."""
    model, known = request.model, request.model.conduct.known(sizes)
    informed = chosen > 0
    if not informed.any():
        return 0.0
    seen = [outcomes for outcomes, some in zip(known, informed, strict=True) if some]
    if isinstance(request.judging, BlockEnsemble):
        spreads = request.judging.scale * model.spreads(request.judging.trials)
        rates = request.judging.rates_seeing_all(seen, spreads)
        totals = np.broadcast_to(request.judging.weight, len(rates)) * (rates @ chosen[informed])
        # Simulated, so that two standard errors are left for chance.
        spread = totals.reshape(-1, len(request.judging.strata)).std(axis=0, ddof=1)
        error = math.sqrt(float((spread**2).mean()) / len(totals))
        return max(float(totals.mean()) - 2 * error, 0.0)
    if model.dim < 2 or model.conduct.restricted:
        return 0.0
    bounds = [
        noise
        * theory.prior_lower_bound_after(
            seen,
            chosen[informed].tolist(),
            dim=model.dim,
            actions=model.actions,
            spread=model.spread(e) * model.dim / noise,
        )
        for e, noise in model.scenarios
    ]
    return model.mean(bounds)


def rate(request: Request, batches: int | None) -> float:
    """Return the theorem's rate; online counts as one batch per unit."""
    model, limits = request.model, request.limits
    if limits.seen:
        return math.nan
    return theory.stochastic_upper_rate(
        units=limits.units,
        dim=model.dim,
        actions=model.actions,
        batches=limits.units if batches is None else batches,
        kappa=model.kappa,
    )


def earned(request: Request, regret: float) -> float:
    """Return the share of the possible gain that is earned; NaN where there is none."""
    return max(1 - regret / request.possible, 0.0) if request.possible > 0 else math.nan
