"""Runs of greedy trials, batch by batch, and their total regret."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Floats
from seqbatch.planning.trials.conditions import Conduct

# ----------------------------------------------------------------------
# Totals over all batches: mean, standard error, median, and each scenario's part.


#: A standard error below this share of the value is rounding: the value is exact.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Totals:
    """The loss of each trial over all its batches.

    Parameters
    ----------
    lost, best
        The regret, and the number of units that get their best action; shape (trials,).
    weight, luck, uniform
        See :class:`~seqbatch.planning.trials.greedy_runs.Rates`.
    chance
        The number of units assigned at random, in each stratum; shape (strata,).
    gain
        Each stratum's part of the mean of `uniform`, if it is known exactly.
    strata
        The scenario numbers of the trials, repeated cyclically.
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
        """Return the mean loss over trials, and its standard error.

        The loss of randomly assigned units is known exactly and has no error.
        """
        weighted, known = self._beside_chance()
        mean = float(known.sum()) + float(weighted.mean())
        # Scenarios have fixed numbers of trials: differences between them are not random.
        spread = self._apart_from_luck(weighted, weighted.mean()).std(axis=0, ddof=1)
        error = math.sqrt(float((spread**2).mean()) / weighted.size)
        return mean, error if error > ROUNDING * abs(mean) else 0.0

    def by_scenario(self) -> Floats:
        """Return each scenario's part of the mean: its regret times its probability."""
        weighted, known = self._beside_chance()
        means = weighted.mean(axis=0) / len(self.strata)
        return np.asarray(np.bincount(self.strata, weights=means + known), dtype=np.float64)

    def errors_by_scenario(self) -> Floats:
        """Return the standard errors of the scenarios' parts."""
        weighted, _ = self._beside_chance()
        spread = self._apart_from_luck(weighted, weighted.mean(axis=0)).std(axis=0, ddof=1)
        squares = (spread / len(self.strata)) ** 2 / len(weighted)
        return np.sqrt(np.bincount(self.strata, weights=squares))

    def _apart_from_luck(self, weighted: Floats, mean: Floats | float) -> Floats:
        """Return the deviations of trials for the standard error of a mean.

        The mean of the luck is normalised to 1: a trial with a larger weight reduces all others.
        """
        return weighted - mean * self.luck.reshape(weighted.shape)

    def _beside_chance(self) -> tuple[Floats, Floats]:
        """Return the loss of non-random units by trial and stratum, and that of random units."""
        number = len(self.strata)
        if self.gain is None:
            return (self.weight * self.lost).reshape(-1, number), np.zeros(number)
        beside = self.lost.reshape(-1, number) - self.chance * self.uniform.reshape(-1, number)
        return self.weight.reshape(-1, number) * beside, self.chance * self.gain

    def median(self) -> float:
        """Return the median loss."""
        order = np.argsort(self.lost)
        passed = np.cumsum(self.weight[order])
        return float(self.lost[order[np.searchsorted(passed, passed[-1] / 2)]])

    def best_units(self) -> float:
        """Return the mean number of units that get their best action."""
        return float(self.weight @ self.best / self.weight.sum())


def least(options: Sequence[Totals], picked: Sequence[int]) -> Totals:
    """Return totals in which each trial follows the option picked for its scenario.

    Parameters
    ----------
    options
        Totals of the same trials.
    picked
        The index of an option for each scenario.
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
# Data so far, rates per unit, and least squares.


@dataclass(frozen=True, eq=False)
class KnownPast:
    """The data so far when a running campaign is replanned, in whitened coordinates.

    Parameters
    ----------
    gram
        Sum of x x' for each model, shape (models, dim, dim).
    moment
        Sum of reward times x for each model, shape (models, dim).
    common
        The standard deviation of the part common to the parameters of all models, which affects no
        choice; 0 if there is none.
    outstanding
        The last batches whose outcomes are not known yet, oldest first: number of units, and the
        share of them that was assigned at random. The others count as assigned by what is known.
    """

    gram: Floats
    moment: Floats
    common: float = 0.0
    outstanding: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Rates:
    """The cost of a unit of each batch, in each trial.

    Parameters
    ----------
    regret
        The expected regret of one unit, shape (trials, batches).
    best
        The probability that a unit gets its best action, shape (trials, batches).
    weight
        The importance weight of each trial, 1 on average: rare failures that dominate the mean are
        drawn more often than they occur, with a lower weight. Shape (trials,).
    luck
        The part of the weight due to first batches, with mean 1 over all trials; shape (trials,).
    uniform
        The regret of a unit whose action is drawn uniformly at random, shape (trials,).
    blind
        The share of each batch that is assigned at random, shape (batches,).
    after
        The number of units of a roll-out, which is then the last batch; 0 for none.
    gain
        Each stratum's part of the mean of `uniform`, if it is known exactly; shape (strata,), or
        one number.
    strata
        The scenario numbers of the trials, repeated cyclically.
    """

    regret: Floats
    best: Floats
    weight: Floats
    luck: Floats
    uniform: Floats
    blind: Floats
    gain: Floats | float | None
    strata: tuple[int, ...] = (0,)
    after: int = 0

    def totals(self, sizes: Sequence[int]) -> Totals:
        """Return the loss of each trial in batches of these sizes, and in the roll-out."""
        units = np.array([*sizes, self.after] if self.after else sizes, dtype=np.float64)
        return self.summed(self.regret @ units, self.best @ units, chance=float(self.blind @ units))

    def summed(self, lost: Floats, best: Floats, *, chance: float) -> Totals:
        """Return totals of these trials from sums computed elsewhere."""
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
        """Return each scenario's part of the regret of batches of these sizes."""
        return self.totals(sizes).by_scenario()


def estimated(gram: Floats, moment: Floats, penalty: Floats | float = 0.0) -> Floats:
    """Return ridge regressions, shape (..., dim); a penalty of 0 is for least squares.

    Least squares are nearly of minimum norm if rank-deficient.
    """
    # A ridge far below any sampling error avoids a decomposition per trial; the constant keeps even
    # a zero matrix solvable.
    least = 1e-10 * (np.trace(gram, axis1=-2, axis2=-1) + 1e-300)
    return solve(gram, moment, ridge=np.maximum(least, penalty))


def jointly(gram: Floats, moment: Floats, penalty: Floats, common: Floats) -> Floats:
    """Return ridge regressions of all actions of each trial, with a common part.

    Parameters
    ----------
    gram, moment
        Shapes (trials, actions, dim, dim) and (trials, actions, dim).
    penalty, common
        The penalties of deviations and of the common part, shape (trials,).
    """
    actions, dim = moment.shape[1:]
    least = 1e-10 * (np.trace(gram, axis1=-2, axis2=-1).max(axis=1) + 1e-300)
    weight = np.maximum(penalty, least)[:, None, None]
    inner = np.linalg.inv(gram + weight[:, None] * np.eye(dim))
    alone = (inner @ moment[..., None])[..., 0]
    # The common part's equations, once the deviations are eliminated; see core.joint_regression.
    free = (actions * weight + common[:, None, None]) * np.eye(dim) - weight**2 * inner.sum(axis=1)
    shared = np.linalg.solve(free, (weight[:, 0] * alone.sum(axis=1))[..., None])
    theta: Floats = alone + weight * (inner @ shared[:, None])[..., 0]
    return theta


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
# Batch by batch: decide by the known outcomes, lose, learn the outcomes that have arrived.


@dataclass(frozen=True, eq=False)
class BatchSums:
    """The sums of a batch's outcomes, and the importance weight of each trial."""

    gram: Floats
    moment: Floats
    weight: Floats | float = 1.0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch to learn from.

    Parameters
    ----------
    number
        Its number, from 0.
    size
        The number of units.
    blind
        The share of units assigned at random.
    own
        The number of outcomes from the other units.
    later
        The number of units after this batch.
    """

    number: int
    size: int
    blind: float
    own: int
    later: int


class Greedy(Protocol):
    """The interface of trials that :func:`run` needs."""

    @property
    def past(self) -> KnownPast | None:
        """The data so far."""

    @property
    def conduct(self) -> Conduct:
        """How the experiment is run besides the policy's own choices."""

    @property
    def gain(self) -> Floats | float | None:
        """Each stratum's part of the mean regret of a random action, if known."""

    @property
    def weight(self) -> Floats | float:
        """The importance weight of each trial's parameters."""

    @property
    def strata(self) -> tuple[int, ...]:
        """The scenario numbers of the trials, repeated cyclically."""

    def nothing(self) -> BatchSums:
        """Return the sums of no outcomes."""

    def fitted(self, gram: Floats, moment: Floats) -> Floats:
        """Return the estimates by which choices are made."""

    def decided(self, number: int, fit: Floats | None, own: int) -> Any:
        """Return a batch's choices, with arrays `regret` and `best` of one entry per trial.

        Without a fit they are random; `own` outcomes will be learned from.
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
        late = _outstanding(trials, trials.past, fit, later=sum(sizes))
    # The number of earlier batches whose outcomes are late.
    before = len(late)
    for _ in range(before - conduct.delay):
        come = late.pop(0)
        known = BatchSums(known.gram + come.gram, known.moment + come.moment)
        fit = trials.fitted(known.gram, known.moment)
    blind = conduct.blind(len(sizes), informed=informed)
    by_chance = trials.decided(0, None, 0)
    regret, best = [], []
    luck = np.ones_like(by_chance.regret)
    # Batches have separate draws, and so have those before them.
    start = 1 + before if before else 0
    for number, (size, share) in enumerate(zip(sizes, blind, strict=True)):
        own = round(size * (1 - share) * conduct.returned)
        choice = by_chance if fit is None else trials.decided(start + number, fit, own)
        regret.append(share * by_chance.regret + (1 - share) * choice.regret)
        best.append(share * by_chance.best + (1 - share) * choice.best)
        # No decision uses the outcomes of the last batches, unless there is a roll-out.
        if conduct.after or number + 1 + conduct.delay < len(sizes):
            left = sum(sizes[number + 1 :]) + conduct.after
            batch = Batch(number=start + number, size=size, blind=share, own=own, later=left)
            late.append(trials.learned(batch, choice))
            luck = luck * late[-1].weight
        if conduct.delay - before <= number < len(sizes) - 1:
            come = late.pop(0)
            known = BatchSums(known.gram + come.gram, known.moment + come.moment)
            fit = trials.fitted(known.gram, known.moment)
    if conduct.after:
        for come in late:
            known = BatchSums(known.gram + come.gram, known.moment + come.moment)
        fit = trials.fitted(known.gram, known.moment)
        final = trials.decided(start + len(sizes), fit, 0)
        regret.append(final.regret)
        best.append(final.best)
        blind = np.append(blind, 0.0)
    # Its mean is known to be 1; otherwise a random deviation would shift every loss.
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
        after=conduct.after,
    )


def _outstanding(trials: Greedy, past: KnownPast, fit: Floats, *, later: int) -> list[BatchSums]:
    """Draw the sums of earlier batches whose outcomes are still to come, oldest first."""
    drawn = []
    # The draws of number 0 are for a first batch that nothing is known before.
    for number, (size, blind) in enumerate(past.outstanding, start=1):
        own = round(size * (1 - blind) * trials.conduct.returned)
        choice = trials.decided(number, fit if own else None, own)
        batch = Batch(number=number, size=size, blind=blind, own=own, later=later)
        drawn.append(trials.learned(batch, choice))
    return drawn
