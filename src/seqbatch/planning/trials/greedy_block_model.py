"""Greedy trials of the block model: one row of features per unit, one parameter per action."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Floats, Integers
from seqbatch.planning.trials.conditions import Conduct
from seqbatch.planning.trials.draws import (
    COUNTS,
    KeptDraws,
    Start,
    block_start,
    square_start,
    uniform_counts,
    wishart_diagonal,
    wishart_factors,
)
from seqbatch.planning.trials.greedy_runs import (
    Batch,
    BatchSums,
    KnownPast,
    Rates,
    estimated,
    jointly,
    run,
    solve,
)

# ----------------------------------------------------------------------
# Gram matrices of a batch's units, as roots: of units that the policy decides, and of random ones.


#: The purposes of the stored normals.
BELOW, DIAGONAL, CROSS, ROWS = 6, 7, 8, 15


@dataclass(frozen=True, eq=False)
class Grams:
    """Draws Gram matrices.

    Parameters
    ----------
    draws
        The stored random numbers.
    shape
        The shape of the parameters, (trials, K, dim).
    points
        The number of points that represent the units of a batch.
    rows
        Whitened rows of features from which units are drawn, shape (n, p); None for normals.
    """

    draws: KeptDraws
    shape: tuple[int, ...]
    points: int
    rows: Floats | None

    def chosen(self, batch: int, size: int, gram: Floats, count: Integers, frame: Floats) -> Floats:
        """Return F with F F' the Gram matrix per action of `size` units that the policy decides.

        Parameters
        ----------
        batch, size
            The number of the batch, and its units.
        gram, count, frame
            The choices of the points: sums in the decisive directions, the number of points per
            action, and the directions; see :func:`seqbatch.core.kernels.choose_points`.
        """
        weight = size / min(size, self.points)
        if self.rows is not None:
            return _root(weight * gram)
        # The other directions depend on the number of units of an action, not of points.
        units = np.rint(weight * count)
        return self._assembled(batch, weight * gram, count, units, frame)

    def uniform(
        self, batch: int, count: Floats, *, apart: int = 0, last: Floats | None = None
    ) -> Floats:
        """Return F with F F' the Gram matrix per action of `count` units assigned at random.

        Parameters
        ----------
        batch
            The number of the batch.
        count
            Shape (trials, K), or (trials, 1) if one matrix serves all actions.
        apart
            The offset of the purposes of the stored normals from those of choices.
        last
            The last squared diagonals of the roots, if they are drawn elsewhere.
        """
        if self.rows is not None:
            return _root(self._gram_of_rows(batch, count, apart))
        trials, actions, dim = self.shape
        cells = count.shape[1]
        # The constant's column, then the features' columns in their own coordinates.
        factors = np.zeros((trials, cells, dim, dim))
        factors[..., 0, 0] = np.sqrt(count)
        if dim > 1:
            cross = self.draws.normals(CROSS + apart, batch, (trials, actions, dim - 1, dim - 1))
            factors[..., 1:, 0] = cross[:, :cells, :, 0] * (count > 0)[..., None]
            below, diagonal = self._wishart_normals(batch, cells, apart)
            factors[..., 1:, 1:] = wishart_factors(below, diagonal, count - 1, last=last)
        return factors

    def _gram_of_rows(self, batch: int, count: Floats, apart: int) -> Floats:
        """Return the Gram matrix per action of randomly drawn rows.

        If there are more units than points, each point represents several units.
        """
        points = self.draws.taken(
            self._given_rows, ROWS + apart, batch, (self.shape[0], self.points)
        )
        vectors = np.concatenate([np.ones((*points.shape[:2], 1)), points], axis=2)
        total = np.maximum(count.sum(axis=1, keepdims=True), self.points)
        ends = np.rint(np.cumsum(count, axis=1) * (self.points / total))
        used = np.diff(ends, axis=1, prepend=0.0)
        place = np.arange(self.points)
        grams = [
            np.swapaxes(vectors * ((place >= end - size) & (place < end))[..., None], 1, 2)
            @ vectors
            for end, size in zip(
                np.moveaxis(ends, 1, 0)[..., None], np.moveaxis(used, 1, 0)[..., None], strict=True
            )
        ]
        stands_for = count / np.maximum(used, 1.0)
        gram: Floats = stands_for[..., None, None] * np.stack(grams, axis=1)
        return gram

    @property
    def _given_rows(self) -> Floats:
        assert self.rows is not None
        return self.rows

    def _assembled(
        self, batch: int, inner: Floats, rank: Integers, count: Floats, frame: Floats
    ) -> Floats:
        """Complete Gram matrices of the decisive directions by the irrelevant directions.

        With G = C C' the decisive part, Q its directions, P the projection onto all others, and N,
        L a Gaussian matrix and a root of a Wishart matrix, the Gram matrix is F F' for F = [[c, 0],
        [Q C + P N, P L]], where c is the constant's row of C. If G is rank-deficient, so is C, and
        N has correspondingly fewer columns.
        """
        trials, actions, dim = self.shape
        size = inner.shape[2]
        # With fewer points than directions the decisive matrix is singular, which Cholesky refuses;
        # columns beyond its rank are ignored.
        jitter = 1e-13 * (1 + np.trace(inner, axis1=-2, axis2=-1))[..., None, None]
        root = np.linalg.cholesky(inner + jitter * np.eye(size))
        if dim == size:
            present = (np.arange(size) < rank[..., None])[..., None, :]
            return self._along(frame[..., : size - 1], root * present)
        cross = self.draws.normals(CROSS, batch, (trials, actions, dim - 1, dim - 1))
        below, normals = self._wishart_normals(batch, actions)
        diagonal = wishart_diagonal(normals, count - size)
        factors = np.empty((trials, actions, dim, size + dim - 1))
        kernels.complete_roots(frame, root, rank, cross, below, diagonal, factors)
        return factors

    def _along(self, axes: Floats, root: Floats) -> Floats:
        """Return a root of the decisive Gram matrix in the coordinates of all features."""
        features = axes[:, None] @ root[..., 1:, :]
        return np.concatenate([root[..., :1, :], features], axis=2)

    def _wishart_normals(self, batch: int, cells: int, apart: int = 0) -> tuple[Floats, Floats]:
        """Return normals for roots of Wishart matrices: below the diagonal, and for it."""
        trials, actions, dim = self.shape
        below = self.draws.below(BELOW + apart, batch, (trials, actions, dim - 1, dim - 1))
        diagonal = self.draws.normals(DIAGONAL + apart, batch, (trials, actions, dim))
        return below[:, :cells], diagonal[:, :cells, 1:]


def _root(gram: Floats) -> Floats:
    """Return F with F F' = G and the rank of G; repeated rows leave directions undetermined."""
    values, axes = np.linalg.eigh(gram)
    # Rounding in a direction without data must not count as evidence.
    values = np.where(values > 1e-9 * values[..., -1:], values, 0.0)
    root: Floats = axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return root


# ----------------------------------------------------------------------
# The trials.
#
# A unit is v = (1, z) with z ~ N(0, I). Its action depends on z only through the differences of K
# estimated scores, and its loss only through these and the differences of the K true scores: at
# most 2 (K - 1) directions. Points are drawn in these directions. All other directions are
# independent of the choice and enter an action's Gram matrix as a Gaussian and a Wishart matrix of
# that action's count. The one approximation: in a batch with more units than points, each point
# represents several units.
#
# If rows of features are given, units are drawn from them, all directions are decisive, and the
# same approximation applies to all of them.


#: The purposes of the stored normals, and the offset for units assigned at random.
POINTS, NOISE, BY_CHANCE, ELIGIBLE = 5, 9, 20, 40
#: The number of first batches whose sums are cached.
FIRSTS_KEPT = 8


@dataclass(frozen=True, eq=False)
class BlockEnsemble:
    """Trials of the block model.

    Parameters
    ----------
    theta
        The whitened true parameters, the constant's first, shape (trials, K, 1 + p).
    noise
        The standard deviation of each trial's noise, shape (trials,).
    draws
        The stored random numbers.
    points
        The number of points that represent the units of a batch.
    past
        The data so far; None before the first batch, which is then uniform.
    conduct
        How the experiment is run besides the policy's own choices.
    gain
        Each stratum's part of the mean regret of a random action, if it is known exactly.
    weight
        The importance weight of each trial's parameters, shape (trials,).
    rows
        Whitened rows of features from which units are drawn, shape (n, p); None for normals.
    scale
        The factor by which the parameters were scaled after drawing, shape (trials,) or a number.
    strata
        The scenario numbers of the trials, repeated cyclically.
    penalty
        The penalty of the estimates, shape (trials,) or a number; 0 for least squares.

    Examples
    --------
    >>> from numpy.random import SeedSequence
    >>> theta = np.random.default_rng(1).standard_normal((100, 3, 5)) / 10
    >>> trials = BlockEnsemble(theta, np.ones(100), KeptDraws(SeedSequence(1)))
    >>> trials.rates([1_000, 9_000]).regret.mean(axis=0).round(4)
    array([0.1857, 0.0222])
    """

    theta: Floats
    noise: Floats
    draws: KeptDraws
    points: int = 512
    past: KnownPast | None = None
    conduct: Conduct = field(default_factory=Conduct)
    gain: Floats | float | None = None
    weight: Floats | float = 1.0
    rows: Floats | None = None
    scale: Floats | float = 1.0
    strata: tuple[int, ...] = (0,)
    penalty: Floats | float = 0.0

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self.theta)

    def rates(self, sizes: Sequence[int]) -> Rates:
        """Run batches of these sizes."""
        return run(self, sizes)

    def nothing(self) -> BatchSums:
        """Return the sums of no outcomes."""
        return BatchSums(
            np.zeros((*self.theta.shape, self.theta.shape[2])), np.zeros_like(self.theta)
        )

    def fitted(self, gram: Floats, moment: Floats) -> Floats:
        """Return the estimates: a ridge regression of each action, or of all with a common part."""
        penalty = np.broadcast_to(self.penalty, len(gram))
        if self.past is None or not self.past.common:
            return estimated(gram, moment, penalty[:, None])
        return jointly(gram, moment, penalty, (self.noise / self.past.common) ** 2)

    @cached_property
    def _by_chance(self) -> "_Choice":
        return self._choose(0, None)

    def decided(self, number: int, fit: Floats | None, own: int) -> "_Choice":
        """Return a batch's choices: by estimates, or at random if there are none."""
        return self._by_chance if fit is None else self._choose(number, fit, min(own, self.points))

    @cached_property
    def _grams(self) -> Grams:
        return Grams(self.draws, self.theta.shape, self.points, self.rows)

    @cached_property
    def _firsts(self) -> dict[Batch, BatchSums]:
        return {}

    def learned(self, batch: Batch, choice: "_Choice") -> BatchSums:
        """Return the sums of a batch's outcomes.

        Those of recent uniform first batches are cached, because a search tries many grids with
        each.
        """
        if batch.number or not choice.uniform:
            return self._learned(batch, choice)
        if batch not in self._firsts:
            if len(self._firsts) == FIRSTS_KEPT:
                del self._firsts[next(iter(self._firsts))]
            self._firsts[batch] = self._learned(batch, choice)
        return self._firsts[batch]

    def _learned(self, batch: Batch, choice: "_Choice") -> BatchSums:
        """Compute the sums of a batch's outcomes."""
        start = self._start(batch, choice)
        parts, apart = [], 0
        if batch.own:
            factors = self._chosen_factors(batch, choice)
            parts.append(self._sums(batch.number, factors))
            apart = BY_CHANCE
        weight, last = start.weight, None
        if batch.number == 0 and choice.uniform and self.rows is None and self.theta.shape[2] > 1:
            last, singular = self._square(start.count)
            weight = weight * singular
        if start.count.any():
            factors = self._grams.uniform(batch.number, start.count, apart=apart, last=last)
            parts.append(self._sums(batch.number, factors, apart=apart))
        first, *more = parts or [self.nothing()]
        gram = sum((part.gram for part in more), first.gram)
        moment = sum((part.moment for part in more), first.moment)
        return BatchSums(gram, moment, weight)

    def _chosen_factors(self, batch: Batch, choice: "_Choice") -> Floats:
        """Return roots of the Gram matrices of the units that the policy decides."""
        return self._grams.chosen(batch.number, batch.own, choice.gram, choice.count, choice.frame)

    def _square(self, count: Floats) -> tuple[Floats, Floats]:
        """Return the last squared diagonals of a first batch's roots, and importance weights."""
        diagonal = self.draws.normals(DIAGONAL, 0, self.theta.shape)[..., -1]
        return square_start(self.draws, diagonal, count - self.theta.shape[2] + 1)

    def _start(self, batch: Batch, choice: "_Choice") -> Start:
        """Return each action's number of outcomes from units assigned at random."""
        trials, actions, dim = self.theta.shape
        shares = np.full(actions, 1 / actions)
        if self.conduct.restricted:
            shares = self.conduct.uniform.shares
        shares = self.conduct.returned * shares
        if batch.number == 0 and choice.uniform:
            return block_start(
                self.draws, trials, size=batch.size, later=batch.later, shares=shares, dim=dim
            )
        if not batch.blind:
            return Start(np.zeros((trials, actions)), np.ones(trials))
        normals = self.draws.normals(COUNTS, batch.number, (trials, actions))
        return Start(uniform_counts(normals, batch.size, batch.blind * shares), np.ones(trials))

    def _sums(self, batch: int, factors: Floats, *, apart: int = 0) -> BatchSums:
        """Return the sums of outcomes with the Gram matrix F F'."""
        seen = factors @ np.swapaxes(factors, -1, -2)
        wide = (*self.theta.shape[:2], 2 * self.theta.shape[2], 1)
        normals = self.draws.normals(NOISE + apart, batch, wide)[..., : factors.shape[-1], :]
        moment = (seen @ self.theta[..., None])[..., 0]
        moment = moment + self.noise[:, None, None] * (factors @ normals)[..., 0]
        return BatchSums(seen, moment)

    def rates_seeing_all(self, seen: Sequence[float], spreads: Floats) -> Floats:
        """Return a unit's regret under the best use of every action's outcomes of `seen` units.

        The estimate is the posterior mean if a trial's parameters have the prior N(0, s^2 I), with
        the trial's s from `spreads`. With this prior, no policy that saw one action's outcome of
        each of `seen` units can lose less on average. Shape (trials, len(seen)).
        """
        trials, actions, dim = self.theta.shape
        ratio = (self.noise / spreads) ** 2
        regret = np.empty((trials, len(seen)))
        for batch, units in enumerate(seen):
            count = np.full((trials, 1), float(units))
            factors = self._grams.uniform(batch, count)
            normals = self.draws.normals(NOISE, batch, (*self.theta.shape, 1))
            gram = factors @ np.swapaxes(factors, -1, -2)
            moment = (gram @ self.theta[..., None])[..., 0]
            moment += self.noise[:, None, None] * (factors @ normals)[..., 0]
            system = np.broadcast_to(gram, (trials, actions, dim, dim))
            estimate = solve(system, moment, ridge=ratio[:, None])
            regret[:, batch] = self._choose(batch, estimate if units else None).regret
        return regret

    def _choose(self, batch: int, estimate: Floats | None, used: int = 0) -> "_Choice":
        """Let the points choose by the estimate, or uniformly if there is none."""
        trials, actions, dim = self.theta.shape
        truth = self.theta[:, 1:] - self.theta[:, :1]
        guess = np.zeros_like(truth) if estimate is None else estimate[:, 1:] - estimate[:, :1]
        decisive, wanted = min(actions - 1, dim - 1), min(2 * (actions - 1), dim - 1)
        if self.rows is None:
            # The first columns of the frame span the estimate's directions, the next the truth's.
            both = np.concatenate([guess[..., 1:], truth[..., 1:]], axis=1)
            frame = np.linalg.qr(np.swapaxes(both, 1, 2))[0]
            points = self.draws.normals(POINTS, batch, (trials, wanted, self.points))
        else:
            # Directions of given rows are dependent: all of them are decisive.
            decisive = wanted = dim - 1
            frame = self._axes
            points = self.draws.taken(self.rows, POINTS, batch, (trials, self.points), across=True)
        result = _Choice(
            uniform=estimate is None,
            frame=frame,
            regret=np.empty(trials),
            best=np.empty(trials),
            gram=np.empty((trials, actions, 1 + decisive, 1 + decisive)),
            count=np.empty((trials, actions), dtype=np.int64),
        )
        slopes = np.concatenate([truth[..., :1], truth[..., 1:] @ frame[..., :wanted]], axis=2)
        guessed = np.concatenate([guess[..., :1], guess[..., 1:] @ frame[..., :decisive]], axis=2)
        filled = result.regret, result.best, result.gram, result.count
        if self.conduct.restricted:
            self._choose_restricted(batch, points, guessed, slopes, used, filled, estimate is None)
            return result
        kernels.choose_points(points, guessed, slopes, used, *filled)
        if estimate is None:
            # All points took the first action; a random one gains the mean of all actions.
            result.regret[:] -= slopes[..., 0].sum(axis=1) / actions
            result.best[:] = 1 / actions
        return result

    def _choose_restricted(
        self,
        batch: int,
        points: Floats,
        guess: Floats,
        truth: Floats,
        used: int,
        filled: tuple[Floats, Floats, Floats, Integers],
        by_chance: bool,
    ) -> None:
        """Let the points choose among their eligible actions within capacities."""
        conduct, shape = self.conduct, (self.trials, points.shape[2])
        kernels.choose_restricted_points(
            points,
            guess,
            truth,
            self.draws.masks(ELIGIBLE, batch, shape, conduct.eligibility),
            conduct.room,
            conduct.own_room,
            conduct.uniform.weights if by_chance else np.empty(0),
            used,
            *filled,
        )

    @property
    def _axes(self) -> Floats:
        dim = self.theta.shape[2]
        return np.broadcast_to(np.eye(dim - 1), (self.trials, dim - 1, dim - 1))


@dataclass(frozen=True, eq=False)
class _Choice:
    """The points' choices and their costs; see :func:`seqbatch.core.kernels.choose_points`."""

    uniform: bool
    frame: Floats
    regret: Floats
    best: Floats
    gram: Floats
    count: Integers
