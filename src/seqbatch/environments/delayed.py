"""Outcomes that come late, or never."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import arguments
from seqbatch.environments.base import DELAYS, Block, branch, generator
from seqbatch.environments.wrapped import Wrapped


@dataclass(frozen=True)
class Delayed(Wrapped):
    """Each outcome is missing with a probability, or late by an exponential number of units.

    A policy learns an outcome at the end of the first batch by which it is known. Regret is that of
    all units.

    Parameters
    ----------
    environment
        The environment whose outcomes are delayed.
    mean
        How many units later an outcome is known, on average; 0 at the end of its batch.
    missing
        The probability that an outcome is never known.

    Examples
    --------
    >>> from seqbatch.environments import Gaussian
    >>> world = Delayed(Gaussian(dim=2, actions=2), mean=300.0, missing=0.1)
    >>> delay = world.instance(1).block(0).delay
    >>> round(float(np.isinf(delay).mean()), 1), round(float(np.median(delay)), -2)
    (0.1, 200.0)
    """

    mean: float = 0.0
    missing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("mean", self.mean, at_least=0)
        arguments.number("missing", self.missing, at_least=0, at_most=1)

    def changed(self, block: Block, seed: SeedSequence, index: int) -> Block:
        """Return the block with the delay of each unit's outcome."""
        random = generator(branch(seed, DELAYS, index))
        delay = self.mean * random.standard_exponential(len(block))
        delay[random.random(len(block)) < self.missing] = np.inf
        return replace(block, delay=delay)
