"""Independent Gaussian contexts with a well-conditioned covariance (Section 4, Assumption 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from seqbatch.core import arguments
from seqbatch.core.arrays import Array, Floats
from seqbatch.environments.base import Random
from seqbatch.environments.linear import LinearEnvironment, random_rotation, turned


@dataclass(frozen=True, kw_only=True)
class Gaussian(LinearEnvironment):
    """Contexts N(0, Sigma), independent over actions and units.

    The eigenvalues of Sigma are equally spaced in [kappa/d, 1/d], and its axes are rotated at
    random: the setting of Theorem 2, and the first environment of Section 6.2.

    Parameters
    ----------
    kappa
        The smallest eigenvalue over the largest; 0.2 in the paper.
    dim, actions, layout, noise, norm
        See :class:`~seqbatch.environments.linear.LinearEnvironment`.

    Examples
    --------
    >>> from numpy.random import SeedSequence
    >>> Gaussian(dim=3, actions=2).instance(SeedSequence(1)).block(0).contexts.shape
    (4096, 2, 3)
    """

    kappa: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("kappa", self.kappa, above=0, at_most=1)

    def shape(self, random: Generator) -> Floats:
        """Return a root of Sigma: a diagonal matrix, rotated."""
        values = np.linspace(self.kappa, 1.0, self.dim) / self.dim
        if self.dim == 1:
            values = np.ones(1)
        return np.sqrt(values)[:, None] * random_rotation(random, self.dim).T

    def contexts(self, random: Random, units: int, shape: Array) -> Array:
        """Draw standard normals and transform them to the covariance Sigma."""
        return turned(self.normals(random, units), shape)

    def normals(self, random: Random, units: int) -> Array:
        """Draw the contexts before they are transformed to their covariance."""
        return random.standard_normal((units, self.slots, self.dim))
