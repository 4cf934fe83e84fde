"""Contexts uniform on the unit sphere (Section 6.2)."""

from __future__ import annotations

from dataclasses import dataclass

from seqbatch.core.arrays import Array
from seqbatch.environments.base import Random
from seqbatch.environments.linear import LinearEnvironment, lengths


@dataclass(frozen=True, kw_only=True)
class Sphere(LinearEnvironment):
    """Contexts of length 1 in a uniform direction.

    Examples
    --------
    >>> import numpy as np
    >>> from numpy.random import SeedSequence
    >>> block = Sphere(dim=4, actions=2).instance(SeedSequence(1)).block(0)
    >>> bool(np.allclose(np.linalg.norm(block.contexts, axis=2), 1))
    True
    """

    def contexts(self, random: Random, units: int, shape: Array) -> Array:  # noqa: ARG002
        """Draw standard normals and project them onto the sphere."""
        values = random.standard_normal((units, self.slots, self.dim))
        return values / lengths(values)
