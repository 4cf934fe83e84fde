"""Gaussian contexts with action-specific, correlated covariances (Assumption 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from seqbatch.core import arguments
from seqbatch.core.arrays import Array, Floats
from seqbatch.environments.base import Random
from seqbatch.environments.linear import LinearEnvironment, random_rotation, turned
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True)
class CorrelatedGaussian(LinearEnvironment):
    """A unit's K contexts are jointly N(0, Sigma) with Sigma of size dK; units are independent.

    The eigenvalues of Sigma are equally spaced in [kappa/d, 1/d] and its axes are rotated at
    random. Actions thus have different covariances and are correlated: the setting of Proposition
    1.

    Parameters
    ----------
    kappa
        The smallest eigenvalue over the largest.
    dim, actions, layout, noise, norm
        See :class:`~seqbatch.environments.linear.LinearEnvironment`; not for the block layout.

    Examples
    --------
    >>> from numpy.random import SeedSequence
    >>> CorrelatedGaussian(dim=3, actions=2).instance(SeedSequence(1)).block(0).contexts.shape
    (4096, 2, 3)
    """

    kappa: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("kappa", self.kappa, above=0, at_most=1)
        if self.layout == "block":
            raise InvalidArgumentError(
                "layout", "'shared' or 'disjoint', with one vector per action", "'block'"
            )

    def shape(self, random: Generator) -> Floats:
        """Return a root of Sigma."""
        size = self.dim * self.actions
        values = np.linspace(self.kappa, 1.0, size) / self.dim
        return np.sqrt(values)[:, None] * random_rotation(random, size).T

    def contexts(self, random: Random, units: int, shape: Array) -> Array:
        """Draw a unit's contexts jointly."""
        values = turned(random.standard_normal((units, shape.shape[-1])), shape)
        return values.reshape(*values.shape[:-1], self.actions, self.dim)
