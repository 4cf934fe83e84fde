"""Greedy trials of the shared model: K independent Gaussian vectors per unit, one parameter.

A batch is drawn as in :mod:`seqbatch.simulation.collapsed`, for all trials together. The sum of
squared maxima is matched in three moments throughout.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from seqbatch import theory
from seqbatch.core.arrays import Floats
from seqbatch.planning.trials.conditions import Conduct, choices
from seqbatch.planning.trials.draws import (
    COUNTS,
    KeptDraws,
    binomials,
    chi_squares,
    shared_start,
    wishart_factors,
)
from seqbatch.planning.trials.greedy_runs import (
    Batch,
    BatchSums,
    KnownPast,
    Rates,
    estimated,
    run,
)
from seqbatch.simulation.collapsed import squared_maximum_moments

#: The purposes of the stored normals, each with its own branch of the seed tree, and the offset for
#: units assigned at random.
BELOW, DIAGONAL, NOISE, LENGTH, CROSS = range(5)
BY_CHANCE = 20


@dataclass(frozen=True, eq=False)
class SharedEnsemble:
    """Trials of the shared model.

    Parameters
    ----------
    theta
        The whitened true parameters, shape (trials, d).
    actions
        K.
    noise
        The standard deviation of each trial's noise, shape (trials,).
    draws
        The stored random numbers.
    past
        The data so far; None before the first batch, which is then uniform.
    conduct
        How the experiment is run besides the policy's own choices.
    gain
        Each stratum's part of the mean regret of a random action, if it is known exactly.
    weight
        The importance weight of each trial's parameters, shape (trials,).
    strata
        The scenario numbers of the trials, repeated cyclically.
    penalty
        The penalty of the estimates, shape (trials,) or a number; 0 for least squares.

    Examples
    --------
    >>> from numpy.random import SeedSequence
    >>> theta = np.random.default_rng(1).standard_normal((200, 5)) / 10
    >>> trials = SharedEnsemble(theta, 4, np.ones(200), KeptDraws(SeedSequence(1)))
    >>> trials.rates([1_000, 9_000]).regret.mean(axis=0).round(4)
    array([0.2155, 0.0117])
    """

    theta: Floats
    actions: int
    noise: Floats
    draws: KeptDraws
    past: KnownPast | None = None
    conduct: Conduct = field(default_factory=Conduct)
    gain: Floats | float | None = None
    weight: Floats | float = 1.0
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
        """Return the sums of no outcomes, for the one model."""
        trials, dim = self.theta.shape
        return BatchSums(np.zeros((trials, 1, dim, dim)), np.zeros((trials, 1, dim)))

    def fitted(self, gram: Floats, moment: Floats) -> Floats:
        """Return the directions of the estimates."""
        theta = estimated(gram[:, 0], moment[:, 0], np.broadcast_to(self.penalty, len(gram)))
        directions: Floats = theta / np.maximum(np.linalg.norm(theta, axis=1), 1e-300)[:, None]
        return directions

    def decided(self, number: int, fit: Floats | None, own: int) -> "_Choice":  # noqa: ARG002
        """Return a batch's choices: along a direction, or at random if there is none."""
        return _Choice(fit, *self._costs(fit))

    def learned(self, batch: Batch, choice: "_Choice") -> BatchSums:
        """Return the sums of a batch's outcomes."""
        sums, apart, v = self.nothing(), 0, choice.direction
        if v is not None and batch.own:
            sums = self._added(sums, batch.number, self._factors(batch.number, batch.own, v))
            apart = BY_CHANCE
        if not batch.blind:
            return sums
        normals = self.draws.normals(COUNTS, batch.number, (self.trials,))
        units = np.full(self.trials, float(batch.size))
        count = binomials(normals, units, batch.blind * self.conduct.returned)
        first = batch.number == 0 and v is None
        root, weight = self._uniform_factors(batch.number, count, apart, first=first)
        return replace(self._added(sums, batch.number, root, apart=apart), weight=weight)

    def _added(self, sums: BatchSums, batch: int, root: Floats, *, apart: int = 0) -> BatchSums:
        """Return the sums plus those of outcomes with the Gram matrix F F'."""
        trials, dim = self.theta.shape
        seen = root @ np.swapaxes(root, 1, 2)
        blur = (root @ self.draws.normals(NOISE + apart, batch, (trials, dim, 1)))[..., 0]
        moment = (seen @ self.theta[..., None])[..., 0] + self.noise[:, None] * blur
        return BatchSums(sums.gram + seen[:, None], sums.moment + moment[:, None])

    def _uniform_factors(
        self, batch: int, count: Floats, apart: int, *, first: bool
    ) -> tuple[Floats, Floats | float]:
        """Return roots of the Gram matrices of randomly assigned units, and trial weights."""
        trials, dim = self.theta.shape
        below = self.draws.below(BELOW + apart, batch, (trials, dim, dim))
        diagonal = self.draws.normals(DIAGONAL + apart, batch, (trials, dim))
        if not first:
            return wishart_factors(below, diagonal, count), 1.0
        last, weight = shared_start(self.draws, diagonal[:, -1], count - dim + 1)
        return wishart_factors(below, diagonal, count, last=last), weight

    @property
    def _choices(self) -> tuple[tuple[int, float], ...]:
        """The possible numbers of eligible actions of a unit, with probabilities."""
        return choices(self.conduct.eligible) if self.conduct.eligible else ((self.actions, 1.0),)

    def _costs(self, v: Floats | None) -> tuple[Floats, Floats]:
        """Return a unit's expected regret, and the probability of its best action."""
        length = np.linalg.norm(self.theta, axis=1)
        height = sum(chance * theory.expected_maximum(k) for k, chance in self._choices)
        if v is None:
            by_luck = sum(chance / number for number, chance in self._choices)
            return height * length, np.full(self.trials, by_luck)
        along = np.einsum("ri,ri->r", self.theta, v)
        angles, _ = agreements(self.actions)
        agreement = sum(chance * agreements(number)[1] for number, chance in self._choices)
        # Rounding may push a cosine just beyond 1; a zero parameter has no angle.
        angle = np.arccos(np.clip(along / np.maximum(length, 1e-300), -1, 1))
        return height * (length - along), np.interp(angle, angles, agreement)

    def _factors(self, batch: int, size: int, v: Floats) -> Floats:
        """Return F with F F' the Gram matrix of `size` vectors chosen along v, (trials, d, d)."""
        trials, dim = self.theta.shape
        below = self.draws.below(BELOW, batch, (trials, dim, dim))
        diagonal = self.draws.normals(DIAGONAL, batch, (trials, dim))
        framed = np.zeros((trials, dim, dim))
        framed[:, 0, 0] = self._lengths(batch, size)
        framed[:, 1:, 0] = self.draws.normals(CROSS, batch, (trials, dim))[:, 1:]
        framed[:, 1:, 1:] = wishart_factors(
            below[:, 1:, 1:], diagonal[:, 1:], np.full(trials, size - 1.0)
        )
        # A reflection maps the first axis to v.
        axis = v - np.eye(dim)[0]
        turned = axis * (2 / np.maximum(np.einsum("ri,ri->r", axis, axis), 1e-300))[:, None]
        mirrored: Floats = framed - turned[:, :, None] * (axis[:, None, :] @ framed)
        return mirrored

    def _lengths(self, batch: int, size: int) -> Floats:
        """Return the square root of the sum of `size` squared maxima."""
        mean, variance, third = _moments(self._choices)
        normals = self.draws.normals(LENGTH, batch, (self.trials,))
        freedom = 8 * size * variance**3 / third**2
        spread = chi_squares(normals, np.array(freedom)) - freedom
        total = size * mean + third / (4 * variance) * spread
        # In very small batches the matched distribution extends below zero; the sum does not.
        return np.sqrt(np.maximum(total, 0.0))


@dataclass(frozen=True, eq=False)
class _Choice:
    """The direction along which a batch chooses (None if at random), and its costs."""

    direction: Floats | None
    regret: Floats
    best: Floats


@cache
def _moments(numbers: tuple[tuple[int, float], ...]) -> tuple[float, float, float]:
    """Return mean, variance and third central moment of a squared maximum of several normals."""
    if len(numbers) == 1:
        return squared_maximum_moments(numbers[0][0])
    second, fourth, sixth = (
        sum(chance * theory.maximum_moment(number, power) for number, chance in numbers)
        for power in (2, 4, 6)
    )
    return second, fourth - second**2, sixth - 3 * second * fourth + 2 * second**3


@cache
def agreements(actions: int) -> tuple[Floats, Floats]:
    """Return angles from 0 to pi, and how often two rankings at that angle agree on the best.

    The first ranking of K vectors is by their first coordinates, the second by coordinates along an
    axis at the angle. Computed from quasi-random points, to about 0.003.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    # A power of two balances the sequence; clipped, because 0 and 1 have no normal quantile.
    points = qmc.Sobol(2 * actions, seed=1).random(2**12)
    first, second = np.split(ndtri(np.clip(points, 1e-12, 1 - 1e-12)), 2, axis=1)
    angles = np.linspace(0, math.pi, 49)
    winners = first.argmax(axis=1)
    agreement = [
        float((winners == (math.cos(a) * first + math.sin(a) * second).argmax(axis=1)).mean())
        for a in angles
    ]
    return angles, np.array(agreement)
