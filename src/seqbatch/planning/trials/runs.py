"""Runs of greedy trials, batch after batch, and their total regret."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Floats
from seqbatch.planning.trials.conduct import Conduct

# ----------------------------------------------------------------------
# What trials lose in all their batches: the mean, its error, the median, each scenario's part.


#: An error below this share of the value is rounding: the value is exact.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Totals:
    """What each trial loses in all its batches.

    Parameters
    ----------
    lost, best
        The regret, and how many units get their best action; shape (trials,).
    weight, luck, uniform
        See :class:`~seqbatch.planning.trials.runs.Rates`.
    chance
        How many units chance alone assigns, in each stratum; shape (strata,).
    gain
        What each stratum adds to the mean of `uniform`, where it is known exactly.
    strata
        The scenarios that the trials are of, by number, one trial after the other, over and over.
    """

    lost: Floats
    best: Floats
    weight: Floats
    luck: Floats
    uniform: Floats
    chance: Floats
    gain: Floats | None
    strata: tuple[int, ...]

    def mean(self) -> tuple[float, float]:
        """Return the mean over trials of what is lost, and its standard error.

        What is lost by chance alone is known exactly and has no error.
        """
        weighted, known = self._beside_chance()
        mean = float(known.sum()) + float(weighted.mean())
        # Each scenario has its share of the trials, so that the differences between are no chance.
        spread = self._apart_from_luck(weighted, weighted.mean()).std(axis=0, ddof=1)
        error = math.sqrt(float((spread**2).mean()) / weighted.size)
        return mean, error if error > ROUNDING * abs(mean) else 0.0

    def by_scenario(self) -> Floats:
        """Return what each scenario adds to the mean: its regret times its probability."""
        weighted, known = self._beside_chance()
        means = weighted.mean(axis=0) / len(self.strata)
        return np.asarray(np.bincount(self.strata, weights=means + known), dtype=np.float64)

    def errors_by_scenario(self) -> Floats:
        """Return the standard errors of what each scenario adds."""
        weighted, _ = self._beside_chance()
        spread = self._apart_from_luck(weighted, weighted.mean(axis=0)).std(axis=0, ddof=1)
        squares = (spread / len(self.strata)) ** 2 / len(weighted)
        return np.sqrt(np.bincount(self.strata, weights=squares))

    def _apart_from_luck(self, weighted: Floats, mean: Floats | float) -> Floats:
        """Return what the trials add to the error of a mean.

        A trial that counts more takes from what all others count, as the mean of the luck is 1.
        """
        return weighted - mean * self.luck.reshape(weighted.shape)

    def _beside_chance(self) -> tuple[Floats, Floats]:
        """Return what is lost beside chance, by trial and stratum, and what chance alone loses."""
        number = len(self.strata)
        if self.gain is None:
            return (self.weight * self.lost).reshape(-1, number), np.zeros(number)
        beside = self.lost.reshape(-1, number) - self.chance * self.uniform.reshape(-1, number)
        return self.weight.reshape(-1, number) * beside, self.chance * self.gain

    def median(self) -> float:
        """Return what half of the cases lose less than."""
        order = np.argsort(self.lost)
        passed = np.cumsum(self.weight[order])
        return float(self.lost[order[np.searchsorted(passed, passed[-1] / 2)]])

    def best_units(self) -> float:
        """Return how many units get their best action, on average."""
        return float(self.weight @ self.best / self.weight.sum())


def least(options: Sequence[Totals], picked: Sequence[int]) -> Totals:
    """Return the totals of trials each of which follows the option picked for its scenario.

    Parameters
    ----------
    options
        Totals of the same trials.
    picked
        The place of one of them, for each scenario.
    """
    first = options[0]
    own = np.array([picked[scenario] for scenario in first.strata])
    trial = np.resize(own, len(first.lost)), np.arange(len(first.lost))
    return replace(
        first,
        lost=np.stack([one.lost for one in options])[trial],
        best=np.stack([one.best for one in options])[trial],
        weight=np.stack([one.weight for one in options])[trial],
        luck=np.stack([one.luck for one in options])[trial],
        chance=np.stack([one.chance for one in options])[own, np.arange(len(own))],
    )


# ----------------------------------------------------------------------
# What greedy trials start from, estimate by and answer: the past, least squares, rates.


@dataclass(frozen=True, eq=False)
class KnownPast:
    """What is known when a campaign under way is planned anew, in whitened coordinates.

    Parameters
    ----------
    gram
        Sum of x x' for each model, shape (models, dim, dim).
    moment
        Sum of reward times x for each model, shape (models, dim).
    common
        The standard deviation of what the parameters of all models have in common, which moves no
        choice; 0 where there is no such part.
    """

    gram: Floats
    moment: Floats
    common: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Rates:
    """What a unit of each batch costs, in each trial.

    Parameters
    ----------
    regret
        The expected regret of one unit, shape (trials, batches).
    best
        The probability that a unit gets its best action, shape (trials, batches).
    weight
        How much each trial counts, 1 on average: rare failures that carry the mean are drawn more
        often than they happen, and count less in return. Shape (trials,).
    luck
        The part of it that first batches have, of mean 1 over all trials; shape (trials,).
    uniform
        The regret of a unit whose action is drawn uniformly at random, shape (trials,).
    blind
        The share of each batch that is assigned so, shape (batches,).
    gain
        What each stratum adds to the mean of `uniform`, where it is known exactly; shape
        (strata,), or one number.
    strata
        The scenarios that the trials are of, by number, one trial after the other, over and over.
    """

    regret: Floats
    best: Floats
    weight: Floats
    luck: Floats
    uniform: Floats
    blind: Floats
    gain: Floats | float | None
    strata: tuple[int, ...] = (0,)

    def totals(self, sizes: Sequence[int]) -> Totals:
        """Return what each trial loses in batches of these sizes."""
        units = np.array(sizes, dtype=np.float64)
        return self.summed(self.regret @ units, self.best @ units, chance=float(self.blind @ units))

    def summed(self, lost: Floats, best: Floats, *, chance: float) -> Totals:
        """Return totals of these trials that were added up elsewhere."""
        number = len(self.strata)
        return Totals(
            lost=lost,
            best=best,
            weight=self.weight,
            luck=self.luck,
            uniform=self.uniform,
            chance=np.full(number, chance),
            gain=None if self.gain is None else np.broadcast_to(self.gain, number),
            strata=self.strata,
        )

    def total(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Return the regret of batches of these sizes, and its standard error."""
        return self.totals(sizes).mean()

    def by_scenario(self, sizes: Sequence[int]) -> Floats:
        """Return what each scenario adds to the regret of batches of these sizes."""
        return self.totals(sizes).by_scenario()


def least_squares(gram: Floats, moment: Floats) -> Floats:
    """Return the solutions, shape (..., dim); nearly those of least norm where rank is missing."""
    # A ridge far below any sampling error, instead of a decomposition for every trial; the constant
    # keeps even a gram of zeros solvable.
    return solve(gram, moment, ridge=1e-10 * (np.trace(gram, axis1=-2, axis2=-1) + 1e-300))


def solve(matrices: Floats, vectors: Floats, *, ridge: Floats | float = 0.0) -> Floats:
    """Return the solutions of many systems with positive definite matrices.

    Shapes (..., dim, dim) and (..., dim); `ridge`, one number or shape (...), is added to the
    matrices' diagonals.
    """
    solutions, dim = np.empty(vectors.shape), vectors.shape[-1]
    flat = np.ascontiguousarray(matrices).reshape(-1, dim, dim)
    wanted = np.ascontiguousarray(vectors).reshape(-1, dim)
    added = np.broadcast_to(ridge, vectors.shape[:-1]).reshape(-1)
    kernels.solve_positive(flat, added, wanted, solutions.reshape(-1, dim))
    return solutions


# ----------------------------------------------------------------------
# Batch after batch: decide by what is known, lose, learn what has come back by then.


@dataclass(frozen=True, eq=False)
class BatchSums:
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
    def past(self) -> KnownPast | None:
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

    def nothing(self) -> BatchSums:
        """Return the sums of no outcomes."""

    def fitted(self, gram: Floats, moment: Floats) -> Floats:
        """Return what choices are made by."""

    def decided(self, number: int, fit: Floats | None, own: int) -> Any:
        """Return how a batch chooses, with arrays `regret` and `best`, one entry a trial.

        Without a fit it is by chance; `own` outcomes are to be learned from.
        """

    def learned(self, batch: Batch, choice: Any) -> BatchSums:
        """Return the sums of a batch's outcomes."""


def run(trials: Greedy, sizes: Sequence[int]) -> Rates:
    """Run batches of these sizes."""
    conduct, informed = trials.conduct, trials.past is not None
    known, late, fit = trials.nothing(), list[BatchSums](), None
    if trials.past is not None:
        known = BatchSums(known.gram + trials.past.gram, known.moment + trials.past.moment)
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
            known = BatchSums(known.gram + come.gram, known.moment + come.moment)
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
