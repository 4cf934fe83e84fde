"""Contexts uniform on a cube (Section 6.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seqbatch.core.arrays import Array
from seqbatch.environments.base import Random
from seqbatch.environments.linear import LinearEnvironment


@dataclass(frozen=True, kw_only=True)
class Uniform(LinearEnvironment):
    """Contexts uniform on [-1, 1)^d / sqrt(d): norm at most 1, with independent coordinates.

    Examples
    --------
    >>> from numpy.random import SeedSequence
    >>> block = Uniform(dim=4, actions=2).instance(SeedSequence(1)).block(0)
    >>> bool(abs(block.contexts).max() <= 0.5)
    True
    """

    def contexts(self, random: Random, units: int, shape: Array) -> Array:  # noqa: ARG002
        """Draw from the cube."""
        return random.uniform(-1.0, 1.0, (units, self.slots, self.dim)) / math.sqrt(self.dim)
