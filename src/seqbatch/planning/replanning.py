"""Planning anew: what the outcomes so far say of effect and noise, and the sizes that follow."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import Statistics, arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError, InvalidGridError
from seqbatch.planning.asked import limits_of
from seqbatch.planning.effects import EffectLaw
from seqbatch.planning.evidence import centred, common_spread, learned
from seqbatch.planning.grid_search import tune
from seqbatch.planning.limits import Limits, Sizes
from seqbatch.planning.model import Model
from seqbatch.planning.request import JUDGING, TUNING, Request
from seqbatch.planning.result import Plan
from seqbatch.planning.trials import Trials
from seqbatch.planning.trials.greedy import Past, Rates
from seqbatch.planning.whitening import whitened

#: New sizes are worth it from this share of the expected regret on, and from so many of its errors.
WORTH, SURE = 0.03, 3.0
#: Shares of the next batch that may be assigned at random, to learn more from it.
EXPLORED = (0.0, 0.2, 0.5, 1.0)
#: How many trials sizes are tuned and judged on, and points in each.
TUNED, JUDGED = (128, 64), (512, 128)
#: The ends of the interval of what is believed.
LOW, HIGH = 0.05, 0.95


@dataclass(frozen=True, kw_only=True)
class Believed:
    """A quantity given the outcomes so far: its mean, and an interval of 90%."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> "Believed":
        """Return what equally plausible values say."""
        low, high = np.quantile(values, (LOW, HIGH))
        return cls(mean=float(values.mean()), low=float(low), high=float(high))


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Sizes for the batches to come, beside those that were planned.

    Parameters
    ----------
    seen
        Units assigned so far.
    planned, sizes
        The batches to come, as planned so far and as proposed.
    explored
        The share of the next batch that is proposed to get a random action, 0 where no more do than
        was declared: where the first batch taught too little, choices made by it would teach little
        more.
    regret, error
        The expected regret of the units to come with the planned sizes, and its standard error.
    saving, saving_error
        How much less of it is expected with the proposed sizes.
    stated_effect
        What was assumed of the effect before; None where nobody stated it.
    effect, noise
        What is believed now.
    """

    seen: int
    planned: Sizes
    sizes: Sizes
    explored: float
    regret: float
    error: float
    saving: float
    saving_error: float
    stated_effect: float | None
    effect: Believed
    noise: Believed

    @property
    def changes(self) -> bool:
        """Whether anything else than what was planned is proposed."""
        return self.sizes != self.planned or self.explored > 0

    def plain(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "planned": list(self.planned), "sizes": list(self.sizes)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Proposal":
        """Return the proposal of plain values."""
        return cls(
            **{
                **plain,
                "planned": tuple(plain["planned"]),
                "sizes": tuple(plain["sizes"]),
                "effect": Believed(**plain["effect"]),
                "noise": Believed(**plain["noise"]),
            }
        )


def propose(
    model: Model,
    law: EffectLaw,
    *,
    seen: int,
    statistics: Statistics,
    sizes: Sequence[int],
    covariance: ArrayLike | None = None,
    min_batch: int = 1,
    max_batch: int | None = None,
    seed: int = 0,
) -> Proposal:
    """Propose sizes for the batches to come: as many as planned, for as many units.

    Parameters
    ----------
    model, law
        What was assumed before the first outcome: a plan's `model`, and what was known of the
        effect.
    seen, statistics, covariance
        As for :func:`~seqbatch.planning.replan`.
    sizes
        Of the batches to come, as planned so far. They stay unless others are clearly better.
    min_batch, max_batch
        The least and the most units of a batch; left aside where `sizes` do not keep to them.
    seed
        The same seed gives the same proposal.
    """
    planned = tuple(arguments.integer("sizes", size) for size in sizes)
    if not planned:
        raise InvalidGridError("sizes", "those of at least one batch to come", "none")
    number, units = len(planned), sum(planned)
    limits = limits_of(units, min(min_batch, *planned), max_batch, None, None)
    if not limits.allows(number):
        limits = replace(limits, largest=None)
    after = model_given(model, law, statistics, covariance)
    trials = Tried(
        tuning=after.ensemble(TUNED[0], seed=10 * seed + TUNING, points=TUNED[1]),
        judging=after.ensemble(JUDGED[0], seed=10 * seed + JUDGING, points=JUDGED[1]),
        limits=replace(limits, seen=seen),
        least=max(2, min(statistics.cells * statistics.dim, units // 4)),
    )
    now = Option(trials.judging, planned, 0.0)
    options = [now, *(trials.best(number, _shares(after)) if number > 1 else [])]
    best = min(options, key=lambda option: option.regret)
    saving, saving_error = best.saving(now)
    if saving < max(WORTH * now.regret, SURE * saving_error):
        best, saving, saving_error = now, 0.0, 0.0
    return Proposal(
        seen=seen,
        planned=planned,
        sizes=best.sizes,
        explored=best.explored,
        regret=now.regret,
        error=now.rates.total(planned)[1],
        saving=saving,
        saving_error=saving_error,
        stated_effect=float(np.exp(np.log(law.guesses).mean())) if law.stated else None,
        effect=Believed.of(now.rates.uniform),
        noise=Believed.of(np.array([noise for _, noise in after.scenarios])),
    )


@dataclass(frozen=True, eq=False)
class Option:
    """One way to go on: sizes, and how much of the next batch is assigned at random."""

    judging: Trials
    sizes: Sizes
    explored: float

    @cached_property
    def rates(self) -> Rates:
        """What a unit of each batch costs, in the trials for judging."""
        return self.judging.rates(self.sizes)

    @property
    def lost(self) -> Floats:
        """What is lost in each of the trials."""
        lost: Floats = self.rates.weight * (self.rates.regret @ np.array(self.sizes, float))
        return lost

    @property
    def regret(self) -> float:
        """What is lost on average."""
        return float(self.lost.mean())

    def saving(self, other: "Option") -> tuple[float, float]:
        """Return how much less is lost than by another, and its standard error."""
        less = other.lost - self.lost
        return float(less.mean()), float(less.std(ddof=1)) / math.sqrt(len(less))


def _shares(model: Model) -> list[float]:
    """Return the shares of the next batch to try: all that is at random now, and more."""
    return [share for share in EXPLORED if not share or share > model.conduct.chance]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tried:
    """Trials to find the best sizes by: those for tuning, and others for judging.

    Parameters
    ----------
    tuning, judging
        The trials.
    limits
        On the batches to come.
    least
        The smallest next batch worth trying.
    """

    tuning: Trials
    judging: Trials
    limits: Limits
    least: int

    def best(self, number: int, shares: Sequence[float]) -> list[Option]:
        """Return the best sizes of so many batches: as things are, and with more at random.

        The share at random is the one that suits the first sizes best.
        """
        first = self._tuned(number, 0.0)
        share = min(shares, key=lambda share: self._cost(first, share))
        options = [self._option(first, 0.0)]
        if share:
            options.append(self._option(self._tuned(number, share), share))
        return options

    def _tuned(self, number: int, share: float) -> Sizes:
        def cost(sizes: Sizes) -> float:
            return self._cost(sizes, share)

        return tune(cost, self.limits, number, least=self.least)[0]

    def _cost(self, sizes: Sizes, share: float) -> float:
        """Return what sizes cost in the trials for tuning, whose draws are always the same."""
        trials = replace(self.tuning, conduct=replace(self.tuning.conduct, explored=share))
        return trials.rates(sizes).total(sizes)[0]

    def _option(self, sizes: Sizes, share: float) -> Option:
        conduct = replace(self.judging.conduct, explored=share)
        return Option(replace(self.judging, conduct=conduct), sizes, share)


def model_given(
    model: Model, law: EffectLaw, statistics: Statistics, covariance: ArrayLike | None
) -> Model:
    """Return the model after the outcomes so far: effect, noise and parameters learned."""
    if not isinstance(statistics, Statistics):
        raise InvalidArgumentError("statistics", "Statistics of the outcomes", repr(statistics))
    models = 1 if model.layout == "shared" else model.actions
    if (statistics.cells, statistics.dim) != (models, model.dim):
        raise InvalidArgumentError(
            "statistics",
            f"of {models} cells and dimension {model.dim}, as the plan's model",
            f"{statistics.cells} cells and dimension {statistics.dim}",
        )
    known = whitened(statistics, covariance, model)
    if model.layout == "block":
        known = centred(known)
    past = Past(known.gram, known.moment, common_spread(known, model))
    # The data's own coordinates are not the sample's, whose rows cannot be used in them.
    return replace(model, scenarios=learned(known, model, law), weights=(), past=past, rows=None)


def request_given(
    before: Plan, model: Model, limits: Limits, numbers: Sequence[int], batches: int | None
) -> Request:
    """Return the request for what is left of an experiment, all else as in the earlier plan."""
    return Request(
        model=model,
        limits=limits,
        numbers=numbers,
        batches=batches,
        kind="tuned",
        batch_cost=before.batch_cost,
        within=before.within,
        seed=before.seed,
        sample=before.sample,
        law=before.request.law,
    )
