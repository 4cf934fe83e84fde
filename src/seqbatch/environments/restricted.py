"""An environment with eligibility: each unit may get only some of the actions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import arguments
from seqbatch.core.arrays import Bools, Floats
from seqbatch.environments.base import ELIGIBLE, Block, branch, generator
from seqbatch.environments.wrapped import Wrapped
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True)
class Restricted(Wrapped):
    """Each unit may get each action with that action's probability, independently of all else.

    A unit left without any action may get the one with the highest share. Contexts, rewards and
    draws are those of the wrapped environment; regret is relative to the best eligible action.

    Parameters
    ----------
    environment
        The environment whose actions are restricted.
    shares
        For each action, the probability that a unit may get it, between 0 and 1; not all 0.

    Examples
    --------
    >>> from seqbatch import grids
    >>> from seqbatch.environments import Gaussian
    >>> from seqbatch.policies import SBPE
    >>> from seqbatch.simulation import simulate
    >>> phones = Restricted(Gaussian(dim=2, actions=3), shares=[1.0, 0.6, 0.2])
    >>> phones.instance(1).block(0).eligible.mean(axis=0).round(2)
    array([1.  , 0.6 , 0.21])
    >>> simulate(SBPE(), phones, grids.explicit([500, 2_000]), seed=1).counts.sum(axis=0)
    array([1450,  424,  126])
    """

    shares: Sequence[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.shares, str) or np.ndim(np.asarray(self.shares, dtype=object)) != 1:
            raise InvalidArgumentError("shares", "a list of numbers", repr(self.shares))
        shares = tuple(
            arguments.number("shares", share, at_least=0, at_most=1) for share in self.shares
        )
        if len(shares) != self.environment.actions or not any(shares):
            raise InvalidArgumentError(
                "shares",
                f"{self.environment.actions} numbers between 0 and 1, one per action, not all 0",
                shares,
            )
        object.__setattr__(self, "shares", shares)

    def changed(self, block: Block, seed: SeedSequence, index: int) -> Block:
        """Return the block with the eligible actions of each unit."""
        random = generator(branch(seed, ELIGIBLE, index))
        within = block.eligible
        if within is None:
            within = np.ones_like(block.means, dtype=np.bool_)
        return replace(block, eligible=drawn(random, within, np.array(self.shares)))


def drawn(random: np.random.Generator, within: Bools, shares: Floats) -> Bools:
    """Draw eligibility within `within`, (n, K): each action by its share, at least one per unit."""
    eligible = within & (random.random(within.shape) < shares)
    nothing = np.flatnonzero(~eligible.any(axis=1))
    eligible[nothing, np.where(within[nothing], shares, -1.0).argmax(axis=1)] = True
    return eligible
