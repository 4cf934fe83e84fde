"""Units of many trials at once, in blocks: the contexts, means and noise that a device works on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core.arrays import Array, Integers, namespace
from seqbatch.environments import (
    BLOCK,
    Ball,
    CorrelatedGaussian,
    Gaussian,
    Instance,
    Sphere,
    StudentT,
    Uniform,
)
from seqbatch.environments.base import branch
from seqbatch.environments.linear import LinearEnvironment, LinearInstance
from seqbatch.errors import InvalidArgumentError
from seqbatch.simulation.device import counters
from seqbatch.simulation.device.assigning import means
from seqbatch.simulation.device.backend import Backend

#: The place of these draws in an instance's seed tree.
DEVICE = 4
#: The laws that draw on any device. A user's own may call NumPy's functions.
LAWS = (Gaussian, CorrelatedGaussian, Sphere, Ball, StudentT, Uniform)
#: About how many numbers a block has in each trial, and how many units at most. Both are part of
#: what a seed means.
NUMBERS, MOST = 2**22, 2**15


@dataclass(frozen=True)
class Units:
    """Consecutive units of all trials.

    Parameters
    ----------
    contexts
        Shape (trials, n, 1 or K, dim), to be multiplied by the source's `scale`.
    means
        The mean reward of every action, shape (trials, n, K).
    noise
        What is added to the mean of the action taken, shape (trials, n).
    make_draws
        Makes one number of [0, 1) a unit, shape (trials, n), where a policy asks for them.
    """

    contexts: Array
    means: Array
    noise: Array
    make_draws: Callable[[], Array]

    def __len__(self) -> int:
        return int(self.means.shape[1])

    @cached_property
    def draws(self) -> Array:
        """The policy's randomness."""
        return self.make_draws()

    @cached_property
    def best(self) -> Array:
        """The mean reward of each unit's best action."""
        return namespace(self.means).max(self.means, axis=-1)


class Source(Protocol):
    """Where blocks come from. A block shorter than `size` is the last."""

    size: int
    scale: float

    def block(self, index: int) -> Units:
        """Return units index * size and following."""


class HostSource:
    """Blocks that the environment makes as ever, one trial after another, moved to the device."""

    size, scale = BLOCK, 1.0

    def __init__(self, instances: Sequence[Instance], backend: Backend) -> None:
        self.instances, self.backend = instances, backend

    def block(self, index: int) -> Units:
        """Make a block of every trial."""
        blocks = [instance.block(index) for instance in self.instances]
        if blocks[0].logged is not None:
            raise InvalidArgumentError(
                "method", "'auto' or 'direct' where logged data are replayed", "'device'"
            )

        def moved(name: str) -> Array:
            return self.backend.array(np.stack([getattr(block, name) for block in blocks]))

        contexts = moved("contexts")
        return Units(
            contexts=contexts[:, :, None, :] if contexts.ndim == 3 else contexts,
            means=moved("means"),
            noise=moved("noise"),
            make_draws=lambda: moved("draws"),
        )


class LinearSource:
    """Linear rewards over contexts that are drawn on the device, by the environment's own law."""

    scale = 1.0

    def __init__(self, instances: Sequence[LinearInstance], backend: Backend) -> None:
        self.environment: LinearEnvironment = instances[0].environment
        self.backend, self.problem = backend, instances[0].problem
        self.keys = trial_keys([instance.seed for instance in instances])
        self.theta = backend.array(np.stack([instance.theta for instance in instances]))
        self.shape = backend.array(np.stack([instance.shape for instance in instances]))
        self.size = block_size(self.environment.slots * self.environment.dim)

    def block(self, index: int) -> Units:
        """Draw a block of every trial, from the trial's key and the block's number."""
        random = TrialDraws(self.backend, counters.bits(self.keys, np.array(2 * index)))
        contexts = self.environment.contexts(random, self.size, self.shape)
        return Units(
            contexts=contexts,
            means=means(contexts, self.theta, self.problem),
            noise=self.environment.noise * random.standard_normal((self.size,)),
            make_draws=lambda: self._draws(index),
        )

    def _draws(self, index: int) -> Array:
        random = TrialDraws(self.backend, counters.bits(self.keys, np.array(2 * index + 1)))
        return random.random((self.size,))


class TrialDraws:
    """Random numbers for many trials, each from a generator of its own.

    So a trial's units do not depend on the trials that run beside it.
    """

    #: How often a gamma variate is proposed. Each proposal is taken in 95 of 100 cases or more.
    ROUNDS = 8

    def __init__(self, backend: Backend, keys: Integers) -> None:
        self.backend = backend
        self.generators = [backend.generator(int(key)) for key in keys]

    def standard_normal(self, size: tuple[int, ...]) -> Array:
        """Draw from N(0, 1)."""
        return self._filled(self.backend.fill_normal, size)

    def random(self, size: tuple[int, ...]) -> Array:
        """Draw uniformly from [0, 1)."""
        return self._filled(self.backend.fill_uniform, size)

    def uniform(self, low: float, high: float, size: tuple[int, ...]) -> Array:
        """Draw uniformly from [low, high)."""
        return low + (high - low) * self.random(size)

    def chisquare(self, df: float, size: tuple[int, ...]) -> Array:
        """Draw from the chi-square law, of at least 2 degrees of freedom (Marsaglia and Tsang).

        The rounds are fixed, because a look at who is still waiting would stop the device.
        """
        xp, d = self.backend.xp, df / 2 - 1 / 3
        result = self.backend.zeros((len(self.generators), *size))
        for _ in range(self.ROUNDS):
            normal, uniform = self.standard_normal(size), self.random(size)
            root = 1 + normal / (9 * d) ** 0.5
            cube = xp.where(root > 0, root, 1.0) ** 3
            bound = normal * normal / 2 + d * (1 - cube + xp.log(cube))
            taken = (root > 0) & (xp.log(1 - uniform) < bound) & (result == 0)
            result = xp.where(taken, 2 * d * cube, result)
        # Whoever was refused each time, one of billions, gets the mean.
        return xp.where(result > 0, result, df)

    def _filled(self, fill: Callable[[object, Array], None], size: tuple[int, ...]) -> Array:
        out = self.backend.empty((len(self.generators), *size))
        for trial, generator in enumerate(self.generators):
            fill(generator, out[trial])
        return out


def trial_keys(seeds: Sequence[SeedSequence]) -> Integers:
    """Return a 64-bit key for each trial."""
    states = [branch(seed, DEVICE).generate_state(1, np.uint64)[0] for seed in seeds]
    return np.array(states, dtype=np.uint64).view(np.int64)


def block_size(numbers: int) -> int:
    """Return how many units a block has where each has so many numbers: a power of two."""
    fitting = max(NUMBERS // numbers, 1)
    return min(1 << (fitting.bit_length() - 1), MOST)
