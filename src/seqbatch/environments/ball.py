"""Bounded, symmetric contexts: uniform in the unit ball (Assumption 4)."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from seqbatch.core.arrays import Floats
from seqbatch.environments.linear import LinearEnvironment


@dataclass(frozen=True, kw_only=True)
class Ball(LinearEnvironment):
    """Contexts uniform in the ball of radius 1, with covariance I / (d + 2).

    Bounded, rotationally symmetric and spread over every direction whatever one projection is: the
    conditions of Proposition 3. For independent coordinates see
    :class:`~seqbatch.environments.Uniform`.

    Examples
    --------
    >>> from numpy.random import SeedSequence
    >>> block = Ball(dim=4, actions=2).instance(SeedSequence(1)).block(0)
    >>> bool(np.linalg.norm(block.contexts, axis=2).max() <= 1)
    True
    """

    def contexts(self, random: Generator, units: int, shape: Floats) -> Floats:  # noqa: ARG002
        """Draw a direction, and a radius of the right law."""
        values = random.standard_normal((units, self.slots, self.dim))
        radius = random.random((units, self.slots, 1)) ** (1 / self.dim)
        inside: Floats = radius * values / np.linalg.norm(values, axis=2, keepdims=True)
        return inside
