"""A request: what was asked for, and the trials that answer it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core.arrays import Floats
from seqbatch.planning.effects import EffectLaw
from seqbatch.planning.limits import Limits, Sizes
from seqbatch.planning.model import Model
from seqbatch.planning.promises import Promises
from seqbatch.planning.sample import Sample
from seqbatch.planning.trials import Trials
from seqbatch.planning.trials.draws import Draws
from seqbatch.planning.trials.greedy import Rates

GridKind = Literal["tuned", "paper"]

#: Grids are tuned on some trials and judged on others.
TUNING, JUDGING = 1, 2
#: How many trials there are of each: this over the number of parameters, within bounds. With many
#: parameters trials differ less; with few, rare trials that learn nothing must be among them.
TRIALS = {
    (TUNING, "shared"): (640, 30, 130),
    (TUNING, "block"): (1_950, 20, 130),
    (JUDGING, "shared"): (10_240, 120, 2_000),
    (JUDGING, "block"): (12_480, 20, 1_000),
}
#: Where all of a model is one number an action: this over the actions.
SIMPLE = {TUNING: 2_048, JUDGING: 32_768}
#: A quick answer has this part of the trials, and as many as these at least.
QUICK, FEWEST_QUICK = 4, 20


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for, checked, and the trials that answer it.

    Parameters
    ----------
    model, limits
        The world, and what the user allows.
    numbers
        The numbers of batches in the table.
    batches
        The number requested, if any.
    kind
        Tuned grids or the paper's.
    batch_cost, within, seed, sample
        See :func:`seqbatch.planning.plan`.
    law
        What was known of the effect before the experiment.
    detect, power
        The lift to be detected, if any, and with which power.
    quick
        Whether few trials are enough.
    draws
        What was drawn for each purpose: the same for this request and those that replace its model.
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
    law: EffectLaw
    detect: float | None = None
    power: float = 0.8
    quick: bool = False
    draws: dict[int, Draws] = field(default_factory=dict, repr=False)

    @cached_property
    def tuning(self) -> Trials:
        """The trials that grids are tuned on."""
        return self._ensemble(TUNING)

    @cached_property
    def judging(self) -> Trials:
        """The trials that grids are judged on."""
        return self._ensemble(JUDGING)

    @cached_property
    def _judged(self) -> dict[Sizes, Rates]:
        return {}

    def judged(self, sizes: Sizes) -> Rates:
        """Return what a grid costs in the trials for judging; each grid is run once."""
        if sizes not in self._judged:
            self._judged[sizes] = self.judging.rates(sizes)
        return self._judged[sizes]

    @cached_property
    def _tried(self) -> dict[Sizes, Floats]:
        return {}

    def tried(self, sizes: Sizes) -> Floats:
        """Return what a grid costs in the trials for tuning, scenario by scenario."""
        if sizes not in self._tried:
            self._tried[sizes] = self.tuning.rates(sizes).by_scenario(sizes)
        return self._tried[sizes]

    @cached_property
    def possible(self) -> float:
        """What a perfect assignment gains over a random one, in total, given what is known."""
        if self.judging.gain is not None:
            return self.limits.units * float(np.sum(self.judging.gain))
        rates = self.judging.rates([1])
        return self.limits.units * float((rates.weight * rates.uniform).mean())

    def _ensemble(self, purpose: int) -> Trials:
        total, least, most = TRIALS[purpose, self.model.layout]
        models = 1 if self.model.layout == "shared" else self.model.actions
        trials = min(most, max(least, total // (models * self.model.dim)))
        if self.model.dim == 1:
            # They cost next to nothing, and few of them lose anything.
            trials = max(trials, SIMPLE[purpose] // self.model.actions)
        if self.quick:
            trials = max(trials // QUICK, FEWEST_QUICK)
        # As many for all numbers of scenarios that the same draws are to serve.
        trials = 10 * -(-trials // 10)
        # Ten apart, so that one request's trials for judging are never another's for tuning.
        seed = 10 * self.seed + purpose
        draws = self.draws.setdefault(purpose, Draws(SeedSequence(seed)))
        return self.model.ensemble(trials, seed=seed, draws=draws)

    def all_by_chance(self, batches: int) -> bool:
        """Say whether no batch of so many is assigned by what is known."""
        informed = self.model.past is not None
        return bool((self.model.conduct.blind(batches, informed=informed) >= 1).all())

    @property
    def promises(self) -> Promises:
        """What Theorem 1 says where contexts are arbitrary."""
        model = self.model
        return Promises(
            units=self.limits.units,
            actions=model.actions,
            dim=model.dim * (1 if model.layout == "shared" else model.actions),
            noise=max(noise for _, noise in model.scenarios),
        )

    @property
    def least_first(self) -> int:
        """The smallest first batch worth trying: as many outcomes as there are parameters."""
        models = 1 if self.model.layout == "shared" else self.model.actions
        needed = math.ceil(models * self.model.dim / self.model.conduct.returned)
        return max(2, min(needed, self.limits.units // 4))
