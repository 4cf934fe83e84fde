"""Means that are not linear in the contexts, by a stated amount."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import arguments
from seqbatch.environments.base import MISFIT, Block, branch, generator
from seqbatch.environments.wrapped import Wrapped, require_common_noise


@dataclass(frozen=True)
class Misspecified(Wrapped):
    """A wave over the contexts is added to every mean, which no linear model can follow.

    The wave of a vector x is size sqrt(2) cos(w'x + b), with w ~ N(0, roughness^2 I) and a uniform
    phase b, both drawn once for an instance: one for all actions in the shared layout, and one for
    each action in the others.

    Parameters
    ----------
    environment
        The environment whose means are changed.
    size
        The standard deviation of what is added, roughly; in units of the reward.
    roughness
        How fast the wave changes with the context.

    Examples
    --------
    >>> from seqbatch.environments import Gaussian
    >>> world = Misspecified(Gaussian(dim=3, actions=2, layout="block"), size=0.5)
    >>> plain = world.environment.instance(1).block(0)
    >>> round(float((world.instance(1).block(0).means - plain.means).std()), 1)
    0.5
    """

    size: float
    roughness: float = 5.0

    keeps_means: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("size", self.size, at_least=0)
        arguments.number("roughness", self.roughness, above=0)

    def changed(self, block: Block, seed: SeedSequence, index: int) -> Block:  # noqa: ARG002
        """Return the block with the wave added to its means."""
        require_common_noise(self, block)
        random = generator(branch(seed, MISFIT))
        waves = 1 if self.layout == "shared" else self.actions
        w = self.roughness * random.standard_normal((waves, self.dim))
        phases = random.uniform(0, 2 * np.pi, waves)
        x = block.contexts
        along = x @ w.T if self.layout == "block" else (x * w).sum(axis=2)
        return replace(block, means=block.means + self.size * np.sqrt(2) * np.cos(along + phases))
