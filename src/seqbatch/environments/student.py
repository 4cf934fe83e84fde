"""Heavy-tailed contexts: multivariate Student t (Section 6.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seqbatch.core import arguments
from seqbatch.core.arrays import Array, namespace
from seqbatch.environments.base import Random
from seqbatch.environments.linear import LinearEnvironment


@dataclass(frozen=True, kw_only=True)
class StudentT(LinearEnvironment):
    """Contexts from a multivariate t distribution, scaled to covariance I/d.

    Parameters
    ----------
    freedom
        nu, the degrees of freedom, above 2 (for the covariance to exist); 5 in the paper.
    dim, actions, layout, noise, norm
        See :class:`~seqbatch.environments.linear.LinearEnvironment`.

    Examples
    --------
    >>> from numpy.random import SeedSequence
    >>> StudentT(dim=4, actions=2).instance(SeedSequence(1)).block(0).contexts.shape
    (4096, 2, 4)
    """

    freedom: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("freedom", self.freedom, above=2)

    def contexts(self, random: Random, units: int, shape: Array) -> Array:  # noqa: ARG002
        """Draw normals over the root of a scaled chi-square, one per vector."""
        values = random.standard_normal((units, self.slots, self.dim))
        squares = random.chisquare(self.freedom, (units, self.slots, 1)) / self.freedom
        scale = math.sqrt((self.freedom - 2) / self.freedom / self.dim)
        return scale * values / namespace(squares).sqrt(squares)
