"""The adversary of the lower bound: a worst-case environment for a given grid (Section 3.4)."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import SeedSequence

from seqbatch import grids
from seqbatch.core import Layout, arguments
from seqbatch.core.arrays import Floats, Integers
from seqbatch.environments.base import (
    BLOCK,
    PARAMETER,
    UNITS,
    Block,
    block_draws,
    branch,
    generator,
    seed_of,
)


@dataclass(frozen=True)
class WorstCase:
    """Two actions on axes that no earlier batch has shown; a coin decides which one pays.

    With d' pairs of axes, each of the d' largest batches gets its own pair: its units show e_{2k-1}
    and e_{2k}, and a fair coin gives one of them the mean 1/sqrt(d') and the other 0. All other
    batches show zeros. For any method, the expected regret is at least half the units of the d'
    batches over sqrt(d'). The number d' <= floor(d/2) is chosen to maximise this bound, which then
    equals ``theory.adversarial_lower_bound_on``.

    Parameters
    ----------
    ends
        The grid's ends: the adversary knows the grid, but not the learner's randomness.
    dim
        d.
    noise
        The standard deviation of the noise.

    Examples
    --------
    >>> block = WorstCase((10, 20), dim=4).instance(SeedSequence(1)).block(0)
    >>> block.contexts[10].tolist()
    [[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    """

    ends: tuple[int, ...]
    _: KW_ONLY
    dim: int
    noise: float = 1.0

    actions: ClassVar[int] = 2
    layout: ClassVar[Layout] = "shared"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", grids.explicit(self.ends).ends)
        arguments.integer("dim", self.dim, at_least=2)
        arguments.number("noise", self.noise, at_least=0)

    @property
    def units(self) -> int:
        """T, the grid's last end."""
        return self.ends[-1]

    @cached_property
    def pairs(self) -> Integers:
        """The number of each batch's pair of axes, from 0; -1 if it has none."""
        sizes = np.diff(np.concatenate([[0], self.ends]))
        order = np.argsort(-sizes, kind="stable")[: self.dim // 2]
        count = np.arange(1, len(order) + 1)
        largest = order[: int((np.cumsum(sizes[order]) / np.sqrt(count)).argmax()) + 1]
        numbers = np.full(len(sizes), -1)
        numbers[largest] = np.arange(len(largest))
        return numbers

    def instance(self, seed: int | SeedSequence) -> "WorstCaseInstance":
        """Flip the coins."""
        seed = seed_of(seed)
        count = int(self.pairs.max()) + 1
        heads = generator(branch(seed, PARAMETER)).integers(0, 2, count)
        theta = np.zeros((1, self.dim))
        theta[0, 2 * np.arange(count) + heads] = 1 / np.sqrt(count)
        return WorstCaseInstance(self, seed, theta)


@dataclass(frozen=True)
class WorstCaseInstance:
    """The adversary's units in blocks."""

    environment: WorstCase
    seed: SeedSequence
    theta: Floats

    def block(self, index: int) -> Block:
        """Show the axes of each unit's batch."""
        kind = self.environment
        units = np.arange(index * BLOCK, min((index + 1) * BLOCK, kind.units))
        numbers = kind.pairs[np.searchsorted(kind.ends, units, side="right")]
        shown = np.flatnonzero(numbers >= 0)
        values = np.zeros((len(units), 2, kind.dim))
        for action in range(2):
            values[shown, action, 2 * numbers[shown] + action] = 1.0
        noise = generator(branch(self.seed, UNITS, index)).standard_normal(BLOCK)
        return Block(
            contexts=values,
            means=values @ self.theta[0],
            noise=kind.noise * noise[: len(units)],
            draws=block_draws(self.seed, index, BLOCK)[: len(units)],
        )
