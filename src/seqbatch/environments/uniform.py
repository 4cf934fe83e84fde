"""Contexts uniform on a cube (Section 6.2)."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from seqbatch.core.arrays import Floats
from seqbatch.environments.linear import LinearEnvironment


@dataclass(frozen=True, kw_only=True)
class Uniform(LinearEnvironment):
    """Contexts uniform on [-1, 1)^d, over sqrt(d): bounded by 1, with independent coordinates.

    Examples
    --------
    >>> from numpy.random import SeedSequence
    >>> block = Uniform(dim=4, actions=2).instance(SeedSequence(1)).block(0)
    >>> bool(abs(block.contexts).max() <= 0.5)
    True
    """

    def contexts(self, random: Generator, units: int, shape: Floats) -> Floats:  # noqa: ARG002
        """Draw from the cube."""
        size = (units, self.slots, self.dim)
        values: Floats = random.uniform(-1.0, 1.0, size) / np.sqrt(self.dim)
        return values
