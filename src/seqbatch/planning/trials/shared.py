"""Greedy trials of the shared model: K independent Gaussian vectors per unit, one parameter.

A batch is drawn as in :mod:`seqbatch.simulation.collapsed`, for all trials together. The sum of
squared maxima is matched in three moments throughout.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from seqbatch import theory
from seqbatch.core.arrays import Floats
from seqbatch.planning.trials.draws import Draws, chi_squares, wishart_factors
from seqbatch.planning.trials.greedy import Past, Rates, least_squares
from seqbatch.simulation.collapsed import squared_maximum_moments

#: What the kept normals are used for: each purpose has its own place in the seed tree.
BELOW, DIAGONAL, NOISE, LENGTH, CROSS = range(5)


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
        Where the randomness comes from.
    past
        What is known already; None before the first batch, which then is uniform.

    Examples
    --------
    >>> from numpy.random import SeedSequence
    >>> theta = np.random.default_rng(1).standard_normal((200, 5)) / 10
    >>> trials = SharedEnsemble(theta, 4, np.ones(200), Draws(SeedSequence(1)))
    >>> trials.rates([1_000, 9_000]).regret.mean(axis=0).round(4)
    array([0.2155, 0.0117])
    """

    theta: Floats
    actions: int
    noise: Floats
    draws: Draws
    past: Past | None = None

    @property
    def trials(self) -> int:
        """How many."""
        return len(self.theta)

    def rates(self, sizes: Sequence[int]) -> Rates:
        """Run batches of these sizes."""
        trials, dim = self.theta.shape
        gram, moment = np.zeros((trials, dim, dim)), np.zeros((trials, dim))
        v = None
        if self.past is not None:
            gram, moment = gram + self.past.gram[0], moment + self.past.moment[0]
            v = _directions(gram, moment)
        regret, best = np.empty((trials, len(sizes))), np.empty((trials, len(sizes)))
        for batch, size in enumerate(sizes):
            regret[:, batch], best[:, batch] = self._costs(v)
            if batch + 1 < len(sizes):
                factors = self._factors(batch, size, v)
                seen = factors @ np.swapaxes(factors, 1, 2)
                blur = (factors @ self.draws.normals(NOISE, batch, (trials, dim, 1)))[..., 0]
                gram += seen
                moment += (seen @ self.theta[..., None])[..., 0] + self.noise[:, None] * blur
                v = _directions(gram, moment)
        return Rates(regret, best)

    def _costs(self, v: Floats | None) -> tuple[Floats, Floats]:
        """Return a unit's expected regret, and the probability of its best action."""
        height, length = theory.expected_maximum(self.actions), np.linalg.norm(self.theta, axis=1)
        if v is None:
            return height * length, np.full(self.trials, 1 / self.actions)
        along = np.einsum("ri,ri->r", self.theta, v)
        angles, agreement = agreements(self.actions)
        # Rounding may put a cosine just beyond 1; a parameter of zero has no angle at all.
        angle = np.arccos(np.clip(along / np.maximum(length, 1e-300), -1, 1))
        return height * (length - along), np.interp(angle, angles, agreement)

    def _factors(self, batch: int, size: int, v: Floats | None) -> Floats:
        """Return F with F F' the gram of a batch, shape (trials, d, d)."""
        trials, dim = self.theta.shape
        below = self.draws.normals(BELOW, batch, (trials, dim, dim))
        diagonal = self.draws.normals(DIAGONAL, batch, (trials, dim))
        if v is None:
            return wishart_factors(below, diagonal, np.full(trials, float(size)))
        framed = np.zeros((trials, dim, dim))
        framed[:, 0, 0] = self._lengths(batch, size)
        framed[:, 1:, 0] = self.draws.normals(CROSS, batch, (trials, dim))[:, 1:]
        framed[:, 1:, 1:] = wishart_factors(
            below[:, 1:, 1:], diagonal[:, 1:], np.full(trials, size - 1.0)
        )
        # A reflection turns the first axis into v.
        axis = v - np.eye(dim)[0]
        turned = axis * (2 / np.maximum(np.einsum("ri,ri->r", axis, axis), 1e-300))[:, None]
        mirrored: Floats = framed - turned[:, :, None] * (axis[:, None, :] @ framed)
        return mirrored

    def _lengths(self, batch: int, size: int) -> Floats:
        """Return the root of the sum of `size` squared maxima."""
        mean, variance, third = squared_maximum_moments(self.actions)
        normals = self.draws.normals(LENGTH, batch, (self.trials,))
        freedom = 8 * size * variance**3 / third**2
        spread = chi_squares(normals, np.array(freedom)) - freedom
        total = size * mean + third / (4 * variance) * spread
        # In batches of a few units the matched law reaches below zero; the sum does not.
        return np.sqrt(np.maximum(total, 0.0))


def _directions(gram: Floats, moment: Floats) -> Floats:
    theta = least_squares(gram, moment)
    directions: Floats = theta / np.maximum(np.linalg.norm(theta, axis=1), 1e-300)[:, None]
    return directions


@cache
def agreements(actions: int) -> tuple[Floats, Floats]:
    """Return angles from 0 to pi, and how often two rankings that far apart agree on the best.

    The first coordinates of K vectors rank them once, the coordinates along an axis at the angle
    once more; by points spread evenly, to about 0.003.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    # A power of two, as the sequence's balance asks; clipped, as 0 and 1 have no normal quantile.
    points = qmc.Sobol(2 * actions, seed=1).random(2**12)
    first, second = np.split(ndtri(np.clip(points, 1e-12, 1 - 1e-12)), 2, axis=1)
    angles = np.linspace(0, math.pi, 49)
    winners = first.argmax(axis=1)
    agreement = [
        float((winners == (math.cos(a) * first + math.sin(a) * second).argmax(axis=1)).mean())
        for a in angles
    ]
    return angles, np.array(agreement)
