"""Units of many trials at once, in blocks: the contexts, means and noise that a device works on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import arguments
from seqbatch.core.arrays import Array, Floats, Integers, namespace
from seqbatch.environments import (
    BLOCK,
    Ball,
    CorrelatedGaussian,
    Environment,
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
from seqbatch.simulation.device.assigning import Rules, means, reshaped
from seqbatch.simulation.device.backend import Backend

#: The place of these draws in an instance's seed tree.
DEVICE = 5
#: The laws that draw on any device. A user's own may call NumPy's functions.
LAWS = (Gaussian, CorrelatedGaussian, Sphere, Ball, StudentT, Uniform)
#: About how many numbers a block has in each trial, and how many units at most. Both are part of
#: what a seed means.
NUMBERS, MOST = 2**22, 2**15


class Fused(Protocol):
    """Draws, assigns and sums up units in one kernel, without making them."""

    def serves(self, rules: Rules) -> bool:
        """Say whether it knows this kind of rules."""

    def __call__(self, part: slice, rules: Rules, *, learn: bool) -> tuple[Array, ...]:
        """Return the fields of an :class:`~seqbatch.simulation.device.outcomes.Outcome`."""


@dataclass(frozen=True)
class Units:
    """Consecutive units of all trials.

    Parameters
    ----------
    size
        How many there are.
    make
        Makes contexts, means and noise when they are first asked for.
    make_draws
        Makes one number of [0, 1) a unit, shape (trials, n), where a policy asks for them.
    fused
        What does without making them, where there is such a thing.
    """

    size: int
    make: Callable[[], tuple[Array, Array, Array]]
    make_draws: Callable[[], Array]
    fused: Fused | None = None

    def __len__(self) -> int:
        return self.size

    @cached_property
    def _made(self) -> tuple[Array, Array, Array]:
        return self.make()

    @property
    def contexts(self) -> Array:
        """Vectors (trials, n, 1 or K, dim) that times the source's `shape` are contexts."""
        return self._made[0]

    @property
    def means(self) -> Array:
        """The mean reward of every action, shape (trials, n, K)."""
        return self._made[1]

    @property
    def noise(self) -> Array:
        """What is added to the mean of the action taken, shape (trials, n)."""
        return self._made[2]

    @cached_property
    def draws(self) -> Array:
        """The policy's randomness."""
        return self.make_draws()

    @cached_property
    def best(self) -> Array:
        """The mean reward of each unit's best action."""
        return namespace(self.means).max(self.means, axis=-1)


class Source(Protocol):
    """Where blocks come from.

    Parameters
    ----------
    size
        Units of a block; a shorter one is the last.
    shape
        What a block's vectors are multiplied by to be contexts, shape (trials or 1, dim, dim). It
        is cheaper to change parameters and sums by it than every vector.
    shared
        Whether all runs use the units of a block; else each draws them anew, in a kernel.
    """

    size: int
    shape: Floats
    shared: bool

    def block(self, index: int) -> Units:
        """Return units index * size and following."""


class HostSource:
    """Blocks that the environment makes as ever, one trial after another, moved to the device."""

    size, shared = BLOCK, True

    def __init__(
        self, instances: Sequence[Instance], environment: Environment, backend: Backend
    ) -> None:
        self.instances, self.backend = instances, backend
        self.shape = np.eye(environment.dim)[None]
        rows = () if environment.layout == "block" else (environment.actions,)
        self.shapes = {
            "contexts": (*rows, environment.dim),
            "means": (environment.actions,),
            "noise": (),
            "draws": (),
        }

    def block(self, index: int) -> Units:
        """Make a block of every trial, as long as the shortest."""
        blocks = [instance.block(index) for instance in self.instances]
        if any(block.logged is not None or block.eligible is not None for block in blocks):
            raise InvalidArgumentError(
                "method",
                "'auto' or 'direct' where logged data are replayed or units may not get every "
                "action",
                "'device'",
            )
        size = min(map(len, blocks))

        def moved(name: str) -> Array:
            # A device would compute with anything, and make no error of what is not a number.
            shape = ("n", *self.shapes[name])
            checked = [arguments.floats(name, getattr(block, name), shape) for block in blocks]
            return self.backend.array(np.stack([values[:size] for values in checked]))

        def make() -> tuple[Array, Array, Array]:
            x = moved("contexts")
            return x[:, :, None, :] if x.ndim == 3 else x, moved("means"), moved("noise")

        return Units(size, make, lambda: moved("draws"))


class LinearSource:
    """Linear rewards over contexts that are drawn on the device, by the environment's own law."""

    shared = True

    def __init__(self, instances: Sequence[LinearInstance], backend: Backend) -> None:
        self.environment: LinearEnvironment = instances[0].environment
        self.backend, self.problem = backend, instances[0].problem
        self.keys = trial_keys([instance.seed for instance in instances])
        own, theta = (
            np.stack([getattr(instance, name) for instance in instances])
            for name in ("shape", "theta")
        )
        turns = isinstance(self.environment, Gaussian)
        self.shape = own if turns else np.eye(self.environment.dim)[None]
        self.theta, self.own = backend.array(reshaped(theta, self.shape)), backend.array(own)
        self.size = block_size(self.environment.slots * self.environment.dim)

    def block(self, index: int) -> Units:
        """Draw a block of every trial, from the trial's key and the block's number."""

        def make() -> tuple[Array, Array, Array]:
            random = self._random(2 * index)
            if isinstance(self.environment, Gaussian):
                x = self.environment.normals(random, self.size)
            else:
                x = self.environment.contexts(random, self.size, self.own)
            noise = self.environment.noise * random.standard_normal((self.size,))
            return x, means(x, self.theta, self.problem), noise

        return Units(self.size, make, lambda: self._random(2 * index + 1).random((self.size,)))

    def _random(self, number: int) -> "TrialDraws":
        return TrialDraws(self.backend, counters.bits(self.keys, np.array(number)))


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
