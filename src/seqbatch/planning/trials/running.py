"""Batch after batch: decide by what is known, lose, learn what has come back by then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.planning.trials.conduct import Conduct
from seqbatch.planning.trials.greedy import Past, Rates


@dataclass(frozen=True, eq=False)
class Learned:
    """The sums of a batch's outcomes, and how much each trial counts by the way they were drawn."""

    gram: Floats
    moment: Floats
    weight: Floats | float = 1.0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch to learn from.

    Parameters
    ----------
    number
        From 0.
    size
        How many units it holds.
    blind
        The share of them that is assigned uniformly at random.
    own
        How many outcomes come from the others.
    later
        How many units come after it.
    """

    number: int
    size: int
    blind: float
    own: int
    later: int


class Greedy(Protocol):
    """Trials of a model: what :func:`run` needs of them."""

    @property
    def past(self) -> Past | None:
        """What is known already."""

    @property
    def conduct(self) -> Conduct:
        """What happens beside the policy's own choices."""

    @property
    def gain(self) -> Floats | float | None:
        """What each stratum adds to the mean regret of a random action, where that is known."""

    @property
    def weight(self) -> Floats | float:
        """How much each trial counts by the way its parameters were drawn."""

    @property
    def strata(self) -> tuple[int, ...]:
        """The scenarios that the trials are of, one trial after the other, over and over."""

    def nothing(self) -> Learned:
        """Return the sums of no outcomes."""

    def fitted(self, gram: Floats, moment: Floats) -> Floats:
        """Return what choices are made by."""

    def decided(self, number: int, fit: Floats | None, own: int) -> Any:
        """Return how a batch chooses, with arrays `regret` and `best`, one entry a trial.

        Without a fit it is by chance; `own` outcomes are to be learned from.
        """

    def learned(self, batch: Batch, choice: Any) -> Learned:
        """Return the sums of a batch's outcomes."""


def run(trials: Greedy, sizes: Sequence[int]) -> Rates:
    """Run batches of these sizes."""
    conduct, informed = trials.conduct, trials.past is not None
    known, late, fit = trials.nothing(), list[Learned](), None
    if trials.past is not None:
        known = Learned(known.gram + trials.past.gram, known.moment + trials.past.moment)
        fit = trials.fitted(known.gram, known.moment)
    blind = conduct.blind(len(sizes), informed=informed)
    by_chance = trials.decided(0, None, 0)
    regret, best = [], []
    luck = np.ones_like(by_chance.regret)
    for number, (size, share) in enumerate(zip(sizes, blind, strict=True)):
        own = round(size * (1 - share) * conduct.returned)
        choice = by_chance if fit is None else trials.decided(number, fit, own)
        regret.append(share * by_chance.regret + (1 - share) * choice.regret)
        best.append(share * by_chance.best + (1 - share) * choice.best)
        # Nothing is decided by the outcomes of the last batches.
        if number + 1 + conduct.delay < len(sizes):
            left = sum(sizes[number + 1 :])
            batch = Batch(number=number, size=size, blind=share, own=own, later=left)
            late.append(trials.learned(batch, choice))
            luck = luck * late[-1].weight
        if conduct.delay <= number < len(sizes) - 1:
            come = late.pop(0)
            known = Learned(known.gram + come.gram, known.moment + come.moment)
            fit = trials.fitted(known.gram, known.moment)
    # Its mean is known to be 1: a mean that chance moved would move every loss with it.
    luck = luck / luck.mean()
    return Rates(
        regret=np.stack(regret, axis=1),
        best=np.stack(best, axis=1),
        weight=trials.weight * luck,
        luck=luck,
        uniform=by_chance.regret,
        blind=blind,
        gain=trials.gain,
        strata=trials.strata,
    )
