"""Means that change while the experiment runs: drift and seasons."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import arguments
from seqbatch.environments.base import BLOCK, CHANGES, Block, branch, generator
from seqbatch.environments.wrapped import Wrapped, require_common_noise


@dataclass(frozen=True)
class Drifting(Wrapped):
    """Every action's mean moves in a straight line, and in a wave, with the number of the unit.

    Unit t's mean under action a gains drift s_a t/period + season sin(2 pi (t/period + b_a)),
    with s_a ~ N(0, 1) and a phase b_a drawn once for an instance. Regret is relative to the action
    that is best for the unit at its time.

    Parameters
    ----------
    environment
        The environment whose means change.
    period
        The units of one season.
    drift
        The standard deviation of how far an action moves in one period.
    season
        The height of the wave.

    Examples
    --------
    >>> from seqbatch.environments import Gaussian
    >>> world = Drifting(Gaussian(dim=2, actions=2), period=1_000, season=0.5)
    >>> plain = world.environment.instance(1).block(0)
    >>> (world.instance(1).block(0).means - plain.means)[[0, 250, 500, 1_000], 0].round(2)
    array([-0.23,  0.44,  0.23, -0.23])
    """

    period: int
    drift: float = 0.0
    season: float = 0.0

    keeps_means: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.integer("period", self.period)
        arguments.number("drift", self.drift, at_least=0)
        arguments.number("season", self.season, at_least=0)

    def changed(self, block: Block, seed: SeedSequence, index: int) -> Block:
        """Return the block with the means of its time."""
        require_common_noise(self, block)
        random = generator(branch(seed, CHANGES))
        speeds, phases = random.standard_normal(self.actions), random.random(self.actions)
        times = (index * BLOCK + np.arange(len(block)))[:, None] / self.period
        moved = self.drift * speeds * times + self.season * np.sin(2 * np.pi * (times + phases))
        return replace(block, means=block.means + moved)
