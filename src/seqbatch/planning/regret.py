"""The regret of grids in the planner's model, with fully online as the benchmark."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from seqbatch import theory
from seqbatch.core.arrays import Floats
from seqbatch.planning.best_grids import TYPICAL_BEND, equal_batches, paper_grids, tuned, weighing
from seqbatch.planning.request import Request, Sizes
from seqbatch.planning.result_rows import Row, Sensitivity
from seqbatch.planning.trials import Trials
from seqbatch.planning.trials.greedy_block_model import BlockEnsemble
from seqbatch.planning.trials.greedy_runs import Totals, least

# ----------------------------------------------------------------------
# The rows of a stochastic plan's table.


#: The ratios of true to assumed effect in the sensitivity table.
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def row(request: Request, sizes: Sizes, online: float) -> Row:
    """Return the costs of a grid."""
    rates = request.judged(sizes)
    totals = rates.totals(sizes)
    regret, error = totals.mean()
    final = equal = math.nan
    choosing = request.model.conduct.purpose == "choose"
    if choosing:
        alike = equal_batches(request.limits, len(sizes))
        equal = request.judged(alike).total(alike)[0]
    elif rates.after:
        final = float((rates.weight * rates.regret[:, -1]).mean())
    cost = math.nan if request.batch_cost is None else regret + request.batch_cost * len(sizes)
    return Row(
        batches=len(sizes),
        sizes=sizes,
        regret=regret,
        error=error,
        median=math.nan if choosing else totals.median(),
        of_online=regret / online if online > 0 else math.nan,
        earned=earned(request, regret),
        best_share=totals.best_units() / request.units_in_all,
        final=final,
        equal=equal,
        # If nothing can be learned, the noise of the simulated regret could let them cross.
        lower_bound=min(_lower_bound(request, sizes), regret),
        rate=rate(request, len(sizes)),
        total_cost=cost,
    )


def sensitivity(request: Request, sizes: Sizes) -> tuple[Sensitivity, ...]:
    """Return the grid's cost for other true effects, next to the best grid for each."""
    noises = sorted({noise for _, noise in request.model.scenarios})
    rows = []
    for factor in FACTORS:
        # The guesses times the factor, without uncertainty.
        truth = tuple((factor * guess, noise) for guess in request.law.guesses for noise in noises)
        other = replace(request, model=replace(request.model, scenarios=truth, weights=()))
        # The same seed, hence the same draws: costs differ only by the effect.
        options = [sizes, *paper_grids(other, len(sizes))]
        costs = [other.judged(one).total(one)[0] for one in options]
        best, paper = min(costs), min(costs[1:], default=math.nan)
        if len(sizes) > 1:
            # The larger the effect, the earlier it shows.
            near = math.log(max(sizes[0] / factor, other.least_first)), math.log(TYPICAL_BEND)
            found, _ = tuned(other, len(sizes), weighing(other, len(sizes), near), near)
            best = min(best, *(other.judged(one).total(one)[0] for one in found))
        rows.append(Sensitivity(factor=factor, regret=costs[0], paper=paper, best=best))
    return tuple(rows)


def _lower_bound(request: Request, sizes: Sizes) -> float:
    """Return a lower bound for every method with these batches, averaged over the parameters.

    Before the first outcomes, and for units assigned at random, every method loses the full effect;
    this part is exact. The rest comes from the proof of Theorem 2 in the shared model. In the block
    model it is the simulated loss of a method that sees the outcomes of all actions. There is no
    bound for an experiment that has already started, or after which the outcomes are used.
    """
    model = request.model
    if model.past is not None or model.conduct.looks_beyond:
        return math.nan
    units = np.array(sizes, dtype=np.float64)
    blind = model.conduct.blind(len(sizes))
    chosen = (1 - blind) * units
    by_chance = request.possible / request.limits.units * float(blind @ units)
    return by_chance + _least_chosen(request, sizes, chosen)


def _least_chosen(request: Request, sizes: Sizes, chosen: Floats) -> float:
    """Return a lower bound on the loss of units that a method decides, `chosen` per batch."""
    model, known = request.model, request.model.conduct.known(sizes)
    informed = chosen > 0
    if not informed.any():
        return 0.0
    seen = [outcomes for outcomes, some in zip(known, informed, strict=True) if some]
    if isinstance(request.judging, BlockEnsemble):
        spreads = request.judging.scale * model.spreads(request.judging.trials)
        rates = request.judging.rates_seeing_all(seen, spreads)
        totals = np.broadcast_to(request.judging.weight, len(rates)) * (rates @ chosen[informed])
        # A simulated value: subtract two standard errors.
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
    """Return the theorem's rate; fully online counts as one batch per unit."""
    model, limits = request.model, request.limits
    if model.past is not None or request.too_short or model.conduct.purpose == "choose":
        return math.nan
    return theory.stochastic_upper_rate(
        units=limits.units,
        dim=model.dim,
        actions=model.actions,
        batches=limits.units if batches is None else batches,
        kappa=model.kappa,
    )


def earned(request: Request, regret: float) -> float:
    """Return the share of the possible gain that is earned; NaN if there is none."""
    return max(1 - regret / request.possible, 0.0) if request.possible > 0 else math.nan


# ----------------------------------------------------------------------
# Fully online, with new estimates after every unit: the benchmark for batches.
#
# A fixed start cannot suit an unknown effect. But with estimates after every unit, the size of the
# effect shows early, and the start can adapt to it: the benchmark uses the best start per effect.


#: Updates "after every unit" are simulated at numbers of units that grow by this factor.
STEP = 1.5
#: Uniform starts to try are at most this factor apart.
APART = 6.0


def online_row(request: Request, found: Iterable[Sizes]) -> Row:
    """Return the cost of new estimates after every unit, with each effect's best start.

    The first batches of the best grids are also tried as starts. Outcomes are known at once. A
    method that may estimate after every unit may also use batches: never worse than the best grid.
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
        median=math.nan if request.model.conduct.purpose == "choose" else totals.median(),
        of_online=1.0,
        earned=earned(request, regret),
        best_share=totals.best_units() / request.units_in_all,
        lower_bound=math.nan,
        rate=rate(request, None),
        total_cost=math.nan,
    )


def _picked(request: Request, options: Sequence[Totals], *, cautious: bool = False) -> list[int]:
    """Return the best option per scenario, or the best overall if a scenario has few trials.

    With `cautious`, two standard errors are added: a start that is too short loses much, but
    rarely.
    """
    parts = np.array([one.by_scenario() for one in options])
    if cautious:
        parts = parts + 2 * np.array([one.errors_by_scenario() for one in options])
    if request.model.past is not None:
        return [int(parts.sum(axis=1).argmin())] * parts.shape[1]
    picked: list[int] = parts.argmin(axis=0).tolist()
    return picked


def _grids(request: Request, firsts: Sequence[int]) -> list[Sizes]:
    """Return uniform starts of several lengths, each followed by batches that grow by a factor."""
    limits, shortest = request.limits, request.least_first
    if limits.seen:
        starts = [max(1, round(limits.seen * (STEP - 1)))]
    else:
        longest = max(shortest, limits.units // 4)
        number = 2 + math.floor(math.log(longest / shortest) / math.log(APART))
        starts = [round(float(first)) for first in np.geomspace(shortest, longest, number)]
        starts += [first for first in set(firsts) if first < limits.units]
        # Of starts with nearly the same length, keep one.
        starts = list({round(4 * math.log(start)): start for start in sorted(starts)}.values())
    found = []
    for first in dict.fromkeys(min(start, limits.units) for start in starts):
        ends = [first]
        while ends[-1] < limits.units:
            grown = math.ceil((limits.seen + ends[-1]) * STEP) - limits.seen
            ends.append(min(grown, limits.units))
        # One more unit, for the cost of the last one.
        found.append(tuple(int(size) for size in np.diff([0, *ends, ends[-1] + 1])))
    return found


def _smooth(request: Request, trials: Trials, sizes: Sizes) -> Totals:
    """Return the totals of batches as if estimates were always up to date.

    A unit's cost is known at the starts of batches and varies smoothly in the logarithm of the
    number of units in between; the trapezoid rule integrates it.
    """
    after = trials.conduct.after
    rates = replace(trials, conduct=replace(trials.conduct, delay=0, after=0)).rates(sizes)
    if trials.conduct.purpose == "choose":
        # Only the choice at the end costs anything.
        return rates.totals(sizes)
    starts = request.limits.seen + np.cumsum([0, *sizes[:-1]])
    # Every unit of the uniform start costs the same; it is left out of the trapezoids.
    uniform = 0 if request.limits.seen else 1
    steps = np.diff(np.log(starts[uniform:]))

    def added(unit: Floats) -> Floats:
        value = unit[:, uniform:] * starts[uniform:]
        after: Floats = ((value[:, 1:] + value[:, :-1]) / 2 * steps).sum(axis=1)
        return after + uniform * unit[:, 0] * sizes[0]

    chance = float(added(rates.blind[None])[0])
    lost, best = added(rates.regret), request.limits.units - added(1 - rates.best)
    if after:
        # The roll-out has no random share.
        share = min(float(rates.blind[-1]), 1 - 1e-9)
        lost = lost + after * (rates.regret[:, -1] - share * rates.uniform) / (1 - share)
        best = best + after * rates.best[:, -1]
    return rates.summed(lost, best, chance=chance)
