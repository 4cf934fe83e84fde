"""Bounded, symmetric contexts: uniform in the unit ball (Assumption 4)."""

from __future__ import annotations

from dataclasses import dataclass

from seqbatch.core.arrays import Array
from seqbatch.environments.base import Random
from seqbatch.environments.linear import LinearEnvironment, lengths


@dataclass(frozen=True, kw_only=True)
class Ball(LinearEnvironment):
    """Contexts uniform in the ball of radius 1, with covariance I / (d + 2).

    Bounded, rotationally symmetric, and with variance in every direction conditional on any one
    projection: the conditions of Proposition 3. For independent coordinates see
    :class:`~seqbatch.environments.Uniform`.

    Examples
    --------
    >>> import numpy as np
    >>> from numpy.random import SeedSequence
    >>> block = Ball(dim=4, actions=2).instance(SeedSequence(1)).block(0)
    >>> bool(np.linalg.norm(block.contexts, axis=2).max() <= 1)
    True
    """

    def contexts(self, random: Random, units: int, shape: Array) -> Array:  # noqa: ARG002
        """Draw a direction, and a radius with the right distribution."""
        values = random.standard_normal((units, self.slots, self.dim))
        radius = random.random((units, self.slots, 1)) ** (1 / self.dim)
        return radius * values / lengths(values)
