"""What grids cost on a model: the rows of a plan's table."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from seqbatch import grids, theory
from seqbatch.planning.model import Floats, Model
from seqbatch.planning.result import Row, Sensitivity
from seqbatch.planning.sample import Sample
from seqbatch.planning.trials.block import BlockEnsemble
from seqbatch.planning.trials.shared import SharedEnsemble
from seqbatch.planning.tuning import TYPICAL_BEND, Limits, Sizes, family, tune

GridKind = Literal["tuned", "paper"]

#: Wrong guesses of the effect that the sensitivity table tries.
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Between the updates that stand for "after every unit", units grow by this factor.
ONLINE_STEP = 1.5
#: Grids are tuned on some trials and judged on others.
TUNING, JUDGING = 1, 2
#: How many trials there are of each: this over the dimension, within bounds. In many dimensions
#: trials differ less; in few, rare trials that learn nothing more must be among them.
TRIALS = {
    (TUNING, "shared"): (640, 32, 128),
    (TUNING, "block"): (640, 32, 128),
    (JUDGING, "shared"): (10_240, 128, 2_048),
    (JUDGING, "block"): (3_840, 128, 512),
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for, checked; and what it costs.

    Parameters
    ----------
    model, limits
        The world, and what the user allows.
    numbers
        The numbers of batches in the table.
    batches
        The number asked for, if any.
    kind
        Tuned grids or the paper's.
    batch_cost, within, seed, sample
        See :func:`seqbatch.planning.plan`.
    """

    model: Model
    limits: Limits
    numbers: Sequence[int]
    batches: int | None
    kind: GridKind
    batch_cost: float | None
    within: float
    seed: int
    sample: Sample | None

    @cached_property
    def tuning(self) -> SharedEnsemble | BlockEnsemble:
        """The trials that grids are tuned on."""
        return self._ensemble(TUNING)

    @cached_property
    def judging(self) -> SharedEnsemble | BlockEnsemble:
        """The trials that grids are judged on."""
        return self._ensemble(JUDGING)

    @cached_property
    def possible(self) -> float:
        """What a perfect assignment gains over a random one, in all, by what is known."""
        if self.model.past is None:
            return self.limits.units * self.model.effect
        ignorant = replace(self.judging, past=None)
        return self.limits.units * float(ignorant.rates([1]).regret.mean())

    def _ensemble(self, purpose: int) -> SharedEnsemble | BlockEnsemble:
        total, least, most = TRIALS[purpose, self.model.layout]
        trials = min(most, max(least, total // self.model.dim))
        return self.model.ensemble(trials, seed=10 * self.seed + purpose)

    @property
    def least_first(self) -> int:
        """The smallest first batch worth a look: as many units as there are parameters."""
        models = 1 if self.model.layout == "shared" else self.model.actions
        return max(2, min(models * self.model.dim, self.limits.units // 4))


def mean_regret(trials: SharedEnsemble | BlockEnsemble, sizes: Sizes) -> float:
    """Return the regret of a grid, on average over trials."""
    return float(trials.rates(sizes).regret.mean(axis=0) @ np.array(sizes, dtype=np.float64))


def best_grids(request: Request) -> dict[int, Sizes]:
    """Return the grid of each number of batches: tuned, unless the paper's is better."""
    found: dict[int, Sizes] = {}
    start = None
    for number in request.numbers:
        options = paper_grids(request, number)
        if request.kind == "tuned" and number > 1:
            sizes, start = _tuned(request, number, start)
            options = [sizes, *options]
            if number - 1 in found:
                options.append(_split(request.limits, found[number - 1]))
        # Judged on other trials than it was tuned on; there the paper's must not be better.
        found[number] = min(options, key=lambda sizes: mean_regret(request.judging, sizes))
    return found


def _split(limits: Limits, sizes: Sizes) -> Sizes:
    """Return the grid with one more end in its last batch, as far as the limits let it."""
    ends = [float(end) for end in np.cumsum(sizes)]
    before = ends[-2] if len(ends) > 1 else 0.0
    middle = math.sqrt((limits.seen + max(before, 1.0)) * (limits.seen + ends[-1])) - limits.seen
    return limits.fit([*ends[:-1], middle, ends[-1]])


def _tuned(
    request: Request, number: int, start: tuple[float, float] | None
) -> tuple[Sizes, tuple[float, float]]:
    return tune(
        lambda wanted: mean_regret(request.tuning, wanted),
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


def row(request: Request, sizes: Sizes, online: float) -> Row:
    """Return what a grid costs."""
    rates = request.judging.rates(sizes)
    weights = np.array(sizes, dtype=np.float64)
    totals = rates.regret @ weights
    regret = float(totals.mean())
    cost = math.nan if request.batch_cost is None else regret + request.batch_cost * len(sizes)
    return Row(
        batches=len(sizes),
        sizes=sizes,
        regret=regret,
        error=_standard_error(totals),
        of_online=regret / online if online > 0 else math.nan,
        earned=_earned(request, regret),
        best_share=float(rates.best.mean(axis=0) @ weights / weights.sum()),
        # Where nothing can be learned, the regret's own noise would let them cross.
        lower_bound=min(_lower_bound(request, sizes), regret),
        rate=_rate(request, len(sizes)),
        total_cost=cost,
    )


def online_row(request: Request, found: Iterable[Sizes]) -> Row:
    """Return what new estimates after every unit would cost, behind the best uniform start.

    The first batches of the grids that were found are tried as starts, too.
    """
    sizes = min(
        _online_grids(request, [sizes[0] for sizes in found]),
        key=lambda one: float(_smooth(request, request.tuning, one)[0].mean()),
    )
    regret, best = _smooth(request, request.judging, sizes)
    return Row(
        batches=None,
        sizes=(),
        regret=float(regret.mean()),
        error=_standard_error(regret),
        of_online=1.0,
        earned=_earned(request, float(regret.mean())),
        best_share=float(best.mean()) / request.limits.units,
        lower_bound=math.nan,
        rate=_rate(request, None),
        total_cost=math.nan,
    )


def _online_grids(request: Request, firsts: Sequence[int]) -> list[Sizes]:
    """Return uniform starts of several lengths, each with batches that grow by one factor."""
    limits, least = request.limits, request.least_first
    if limits.seen:
        starts = [max(1, round(limits.seen * (ONLINE_STEP - 1)))]
    else:
        longest = max(least, limits.units // 4)
        starts = [round(float(first)) for first in np.geomspace(least, longest, 4)]
        starts += [first for first in set(firsts) if first < limits.units]
    made = []
    for first in dict.fromkeys(min(start, limits.units) for start in starts):
        ends = [first]
        while ends[-1] < limits.units:
            grown = math.ceil((limits.seen + ends[-1]) * ONLINE_STEP) - limits.seen
            ends.append(min(grown, limits.units))
        # One unit more, for the cost of the last one.
        made.append(tuple(int(size) for size in np.diff([0, *ends, ends[-1] + 1])))
    return made


def _smooth(
    request: Request, trials: SharedEnsemble | BlockEnsemble, sizes: Sizes
) -> tuple[Floats, Floats]:
    """Return regret and number of best actions, with estimates that are never out of date.

    The cost of a unit is known where batches start, and changes smoothly in the logarithm of the
    units in between; the trapezoid rule adds it up.
    """
    rates = trials.rates(sizes)
    starts = request.limits.seen + np.cumsum([0, *sizes[:-1]])
    uniform = 0 if request.limits.seen else 1
    steps = np.diff(np.log(starts[uniform:]))
    totals = []
    for unit in (rates.regret, 1 - rates.best):
        value = unit[:, uniform:] * starts[uniform:]
        after: Floats = ((value[:, 1:] + value[:, :-1]) / 2 * steps).sum(axis=1)
        totals.append(after + uniform * unit[:, 0] * sizes[0])
    return totals[0], request.limits.units - totals[1]


def sensitivity(request: Request, sizes: Sizes) -> tuple[Sensitivity, ...]:
    """Return what the grid costs where the effect is another, beside the best grid for that."""
    made = []
    for factor in FACTORS:
        scenarios = tuple((factor * effect, noise) for effect, noise in request.model.scenarios)
        other = replace(request, model=replace(request.model, scenarios=scenarios))
        options = [sizes, *paper_grids(other, len(sizes))]
        costs = [mean_regret(other.judging, one) for one in options]
        best = min(costs)
        if len(sizes) > 1 and factor != 1:
            # The larger the effect, the sooner it shows.
            near = math.log(max(sizes[0] / factor, other.least_first)), math.log(TYPICAL_BEND)
            tuned, _ = _tuned(other, len(sizes), near)
            best = min(best, mean_regret(other.judging, tuned))
        made.append(Sensitivity(factor=factor, regret=costs[0], paper=min(costs[1:]), best=best))
    return tuple(made)


def _lower_bound(request: Request, sizes: Sizes) -> float:
    """Return what no method with these batches can beat, on average over the parameters.

    With the shared model by the proof of Theorem 2. In the block layout by what even a method would
    lose that saw the outcomes of all actions, by simulation. Nothing is claimed for an experiment
    under way.
    """
    model = request.model
    if request.limits.seen:
        return math.nan
    if isinstance(request.judging, BlockEnsemble):
        spreads = model.spreads(request.judging.trials)
        rates = request.judging.rates_seeing_all([0, *np.cumsum(sizes[:-1]).tolist()], spreads)
        totals = rates @ np.array(sizes, dtype=np.float64)
        # Simulated, so that two standard errors are left for chance.
        return max(float(totals.mean()) - 2 * _standard_error(totals), 0.0)
    if model.dim < 2:
        return 0.0
    ends = np.cumsum(sizes).tolist()
    bounds = [
        noise
        * theory.prior_lower_bound_on(
            ends, dim=model.dim, actions=model.actions, spread=model.spread(e) * model.dim / noise
        )
        for e, noise in model.scenarios
    ]
    return float(np.mean(bounds))


def _rate(request: Request, batches: int | None) -> float:
    """Return the theorem's rate; with so many batches that more change nothing, if online."""
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


def _earned(request: Request, regret: float) -> float:
    """Return the share of the possible gain that is earned; none where there is none."""
    return max(1 - regret / request.possible, 0.0) if request.possible > 0 else math.nan


def _standard_error(values: Floats) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))
