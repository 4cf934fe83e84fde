"""The units of many trials at once, in blocks that fit a device's memory: drawn or from pools."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import Statistics, arguments, ridge_means
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
from seqbatch.environments.pool import CountedRows, FeaturePool, PoolInstance
from seqbatch.errors import DeviceMemoryWarning, InvalidArgumentError
from seqbatch.simulation.device import random_numbers
from seqbatch.simulation.device.assignment import Rules, means, reshaped
from seqbatch.simulation.device.backend import Backend

# ----------------------------------------------------------------------
# Blocks of units: the contexts, means and noise that a device works on.


#: The branch of these draws in an instance's seed tree.
DEVICE = 5
#: The environments that can draw on any device. Your own may call NumPy functions.
LAWS = (Gaussian, CorrelatedGaussian, Sphere, Ball, StudentT, Uniform)
#: Approximate numbers per block and trial, and the maximum number of units. Seeds depend on both.
NUMBERS, MOST_UNITS = 2**22, 2**15


class Fused(Protocol):
    """A kernel that draws, assigns and sums units without storing them."""

    def serves(self, rules: Rules) -> bool:
        """Return whether it supports these rules."""

    def __call__(self, part: slice, rules: Rules, *, learn: bool) -> tuple[Array, ...]:
        """Return the fields of :class:`~seqbatch.simulation.device.trials.TrialSums`."""


@dataclass(frozen=True)
class UnitBlock:
    """Consecutive units of all trials.

    Parameters
    ----------
    size
        The number of units.
    make
        Computes contexts, means and noise on first use.
    make_draws
        Computes one number in [0, 1) per unit, shape (trials, n), if a policy needs them.
    fused
        A fused kernel that does not need the units, if there is one.
    """

    size: int
    make: Callable[[], tuple[Array, Array, Array]]
    make_draws: Callable[[], Array]
    fused: Fused | None = None

    def __len__(self) -> int:
        return self.size

    @cached_property
    def _arrays(self) -> tuple[Array, Array, Array]:
        return self.make()

    @property
    def contexts(self) -> Array:
        """Vectors (trials, n, 1 or K, dim); times the source's `shape` they are contexts."""
        return self._arrays[0]

    @property
    def means(self) -> Array:
        """The mean reward of every action, shape (trials, n, K)."""
        return self._arrays[1]

    @property
    def noise(self) -> Array:
        """What is added to the mean, shape (trials, n), or (trials, n, K) if actions differ."""
        return self._arrays[2]

    @cached_property
    def draws(self) -> Array:
        """The policy's random draws."""
        return self.make_draws()

    @cached_property
    def best(self) -> Array:
        """The mean reward of each unit's best action."""
        return namespace(self.means).max(self.means, axis=-1)


class BlockSource(Protocol):
    """A source of blocks.

    Parameters
    ----------
    size
        Units per block; a shorter block is the last one.
    shape
        The matrix that turns a block's vectors into contexts, shape (trials or 1, dim, dim). It is
        cheaper to apply it to parameters and sums than to every vector.
    shared
        Whether all runs use the units of a block; otherwise each draws them anew, in a kernel.
    """

    size: int
    shape: Floats
    shared: bool

    def block(self, index: int) -> UnitBlock:
        """Return units index * size and following."""


class HostSource:
    """Blocks drawn by the environment on the host, trial by trial, and moved to the device."""

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
            "draws": (),
        }

    def block(self, index: int) -> UnitBlock:
        """Draw a block for every trial; the shortest determines its length."""
        blocks = [instance.block(index) for instance in self.instances]
        beyond = ("logged", "eligible", "delay")
        if any(getattr(block, name) is not None for block in blocks for name in beyond):
            raise InvalidArgumentError(
                "method",
                "'auto' or 'direct' for logged data, late outcomes, and units that may get only "
                "some actions",
                "'device'",
            )
        size = min(map(len, blocks))

        def moved(name: str) -> Array:
            # Check here: a device would compute with NaN without an error.
            if name == "noise":
                own = all(np.ndim(block.noise) == 2 for block in blocks)
                shape: tuple[int | str, ...] = ("n", *(self.shapes["means"] if own else ()))
            else:
                shape = ("n", *self.shapes[name])
            checked = [arguments.floats(name, getattr(block, name), shape) for block in blocks]
            return self.backend.array(np.stack([values[:size] for values in checked]))

        def make() -> tuple[Array, Array, Array]:
            x = moved("contexts")
            return x[:, :, None, :] if x.ndim == 3 else x, moved("means"), moved("noise")

        return UnitBlock(size, make, lambda: moved("draws"))


class LinearSource:
    """Linear rewards over contexts drawn on the device by the environment's own code."""

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

    def block(self, index: int) -> UnitBlock:
        """Draw a block for every trial from the trial's key and the block's number."""

        def make() -> tuple[Array, Array, Array]:
            random = self._random(2 * index)
            if isinstance(self.environment, Gaussian):
                x = self.environment.normals(random, self.size)
            else:
                x = self.environment.contexts(random, self.size, self.own)
            noise = self.environment.noise * random.standard_normal((self.size,))
            return x, means(x, self.theta, self.problem), noise

        return UnitBlock(self.size, make, lambda: self._random(2 * index + 1).random((self.size,)))

    def _random(self, number: int) -> "TrialDraws":
        return TrialDraws(self.backend, random_numbers.bits(self.keys, np.array(number)))


class TrialDraws:
    """Random numbers for many trials, each from its own generator.

    A trial's units therefore do not depend on the trials that run in parallel.
    """

    #: How often a gamma variate is proposed. Each proposal is accepted with probability 95% or
    #: more.
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
        """Draw from the chi-square distribution with 2 or more degrees of freedom.

        The method is that of Marsaglia and Tsang. The number of rounds is fixed, because checking
        which draws are still open would stop the device.
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
        # A draw that was rejected every time, one in billions, gets the mean.
        return xp.where(result > 0, result, df)

    def _filled(self, fill: Callable[[object, Array], None], size: tuple[int, ...]) -> Array:
        out = self.backend.empty((len(self.generators), *size))
        for trial, generator in enumerate(self.generators):
            fill(generator, out[trial])
        return out


def trial_keys(seeds: Sequence[SeedSequence]) -> Integers:
    """Return a 64-bit key per trial."""
    states = [branch(seed, DEVICE).generate_state(1, np.uint64)[0] for seed in seeds]
    return np.array(states, dtype=np.uint64).view(np.int64)


def block_size(numbers: int) -> int:
    """Return the number of units per block, a power of two, given the numbers per unit."""
    fitting = max(NUMBERS // numbers, 1)
    return min(1 << (fitting.bit_length() - 1), MOST_UNITS)


# ----------------------------------------------------------------------
# Pools of rows on a device: units are drawn by counters, in blocks of any size.


#: Means and noise of counted pools are multiples of this, and their contexts are integers. Sums
#: over units are then exact: the same bits in any order and any blocks.
STEP = 2.0**-26
#: Numbers of a row that fit into a record of 64 bytes beside its mean.
MOST_NUMBERS = 56
#: Seven-bit digits of a reward in steps, and the largest possible standard normal draw.
DIGITS, FARTHEST = 5, 6.7
#: Rows moved at a time.
CHUNK = 2**20
#: Eight bytes of 128 each, as a signed integer.
_MIDDLE = -0x7F7F7F7F7F7F7F80


class DevicePool:
    """The rows of a pool and their means, on a device.

    Counted rows take one byte per number, others eight.
    """

    def __init__(self, pool: FeaturePool, backend: Backend) -> None:
        xp, rows = backend.xp, pool.pool
        self.counted, self.scale = isinstance(rows, CountedRows), 1.0
        if isinstance(rows, CountedRows):
            self.rows, self.scale = rows.counts(backend), rows.scale
        else:
            self.rows = backend.empty((len(rows), rows.dim))
            for part in chunks(len(rows)):
                dense = rows.dense(np.arange(part.start, part.stop))
                self.rows[part] = backend.array(arguments.floats("rows", dense, ("n", rows.dim)))
        weights = backend.array(np.asarray(pool.theta, dtype=np.float64) * self.scale)
        self.means = backend.empty((len(rows),))
        for part in chunks(len(rows)):
            means = xp.astype(self.rows[part], xp.float64) @ weights
            self.means[part] = stepped(means, xp) if self.counted else means
        self.kernel = pool_kernel(self, pool, backend)

    @staticmethod
    def nbytes(pool: FeaturePool) -> int:
        """Return the memory of a pool on a device, in bytes."""
        width = 1 if isinstance(pool.pool, CountedRows) else 8
        return len(pool.pool) * (width * pool.dim + 8)


def pool_kernel(rows: DevicePool, pool: FeaturePool, backend: Backend) -> Any:
    """Return the fused kernel of this pool, or None if there is none.

    It requires Triton and a GPU (or Triton's interpreter), two actions, rows of small integers, and
    rewards that fit into a record. Otherwise array operations do the same.
    """
    compiles = backend.name == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    fits = rows.counted and pool.actions == 2 and pool.dim <= MOST_NUMBERS
    if backend.name == "numpy" or not compiles or not fits or find_spec("triton") is None:
        return None
    reach = float(backend.xp.max(backend.xp.abs(rows.means))) + FARTHEST * pool.noise
    if reach >= STEP * 2 ** (7 * DIGITS - 1):
        return None
    from seqbatch.simulation.device.triton_kernels import PoolKernel

    return PoolKernel.of(rows.rows, rows.means, noise=pool.noise)


@contextmanager
def waking(backend: Backend) -> Iterator[None]:
    """Load the compiled code of the trials while a GPU builds their pool."""
    if backend.name != "cuda" or find_spec("triton") is None:
        yield
        return
    background = ThreadPoolExecutor(2)
    # An error here occurs again, and is reported, where the code is used.
    kernel = background.submit(_wake_kernel)
    background.submit(ridge_means, Statistics.zero(1, 1), 1.0)
    background.shutdown(wait=False)
    yield
    # The kernel is needed at once, estimates only when the first batch closes.
    wait([kernel])


def _wake_kernel() -> None:
    from seqbatch.simulation.device import triton_kernels

    triton_kernels.wake()


# One pool at a time, because a large one fills a small device; later sweeps reuse it.
@lru_cache(maxsize=1)
def device_pool(pool: FeaturePool, backend: Backend) -> DevicePool:
    """Return a pool on a device, moved there only once."""
    return DevicePool(pool, backend)


class PoolSource:
    """Units drawn from a pool. Unit t of a trial does not depend on the size of the blocks."""

    def __init__(
        self,
        instances: Sequence[PoolInstance],
        pool: DevicePool,
        backend: Backend,
        size: int,
        *,
        shared: bool = True,
    ) -> None:
        self.environment, self.backend = instances[0].environment, backend
        self.size, self.shared = size, shared
        self.pool, self.shape = pool, pool.scale * np.eye(self.environment.dim)[None]
        keys = trial_keys([instance.seed for instance in instances])
        self.keys = backend.array(keys)[:, None]

    def block(self, index: int) -> UnitBlock:
        """Draw distinct rows and the noise for each unit."""
        K, start = self.environment.actions, index * self.size
        # K + 2 numbers per unit: its rows, its noise, and the policy's draw.
        first = self.backend.integers(start, start + self.size)[None, :] * (K + 2)
        return UnitBlock(
            self.size,
            lambda: self._drawn(first),
            lambda: random_numbers.uniforms(random_numbers.bits(self.keys, first + K + 1)),
            self.pool.kernel and self.pool.kernel.at(self.keys, start),
        )

    def _drawn(self, first: Array) -> tuple[Array, Array, Array]:
        xp, K = self.backend.xp, self.environment.actions
        rows = self._rows(first)
        flat = rows.reshape(-1)
        x = xp.take(self.pool.rows, flat, axis=0).reshape(*rows.shape, -1)
        means = xp.take(self.pool.means, flat, axis=0).reshape(rows.shape)
        noise = self.environment.noise * random_numbers.normals(
            random_numbers.bits(self.keys, first + K)
        )
        return (
            xp.astype(x, xp.float64),
            means,
            stepped(noise, xp) if self.pool.counted else noise,
        )

    def _rows(self, first: Array) -> Array:
        """Return K distinct rows per unit, as :func:`seqbatch.environments.pool.distinct` does."""
        xp, pool = self.backend.xp, self.pool.rows.shape[0]
        chosen: list[Array] = []
        for k in range(self.environment.actions):
            share = random_numbers.uniforms(random_numbers.bits(self.keys, first + k))
            value = xp.astype(share * (pool - k), xp.int64)
            for earlier in _ordered(chosen, xp):
                value = value + xp.astype(value >= earlier, xp.int64)
            chosen.append(value)
        return xp.stack(chosen, axis=-1)


def chunks(rows: int, size: int = CHUNK) -> Iterator[slice]:
    """Split rows into slices."""
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def stepped(values: Array, xp: Array) -> Array:
    """Round to multiples of STEP."""
    return xp.round(values / STEP) * STEP


def signed_counts(codes: Sequence[Array], dim: int, xp: Array) -> Array:
    """Return the integer vectors of coded rows: the signed count of each position.

    Eight positions share a 64-bit integer, one byte each. No byte overflows: there are at most 127
    columns in `codes`, and bytes start at 128.
    """
    nothing = xp.zeros_like(codes[0], dtype=xp.int64)
    words = [nothing + _MIDDLE for _ in range(0, dim, 8)]
    for column in codes:
        code = xp.astype(column, xp.int64)
        sign, eighth = 1 - 2 * (code >> 7), (code & 127) >> 3
        named = sign << ((code & 7) << 3)
        words = [
            word + xp.where(eighth == number, named, nothing) for number, word in enumerate(words)
        ]
    return (xp.stack(words, axis=1) ^ _MIDDLE).view(xp.int8)[:, :dim]


def _ordered(chosen: list[Array], xp: Array) -> list[Array]:
    """Return the rows chosen so far, sorted within each unit."""
    if len(chosen) < 2:
        return chosen
    ordered = xp.sort(xp.stack(chosen, axis=-1), axis=-1)
    return [ordered[..., place] for place in range(len(chosen))]


# ----------------------------------------------------------------------
# How many trials and units fit into a device's memory.


#: Copies of a block's contexts held at the same time, and further numbers per action of a unit.
COPIES, BESIDE = 4, 24
#: The share of a GPU's memory to plan with, and the maximum share of free memory: up to three
#: processes may use the GPU.
SHARE, OF_FREE = 0.3, 0.9
#: Memory of blocks on the host; more would not fit the processor's caches.
ON_HOST = 2**28
#: Units per block of a pool: at most enough to keep a large device busy, at least worth a call.
MOST_TRIALS, FEWEST = 2**16, 2**12
#: Units per block of a fused kernel: few enough for sums of squares up to 127^2 to fit into 32
#: bits.
KERNEL = 2**22

#: A function that makes the source of some trials.
Maker = Callable[[Sequence[Any]], BlockSource]
T = TypeVar("T")


def sources(
    instances: Sequence[Instance],
    environment: Environment,
    backend: Backend,
    *,
    greedy: bool = False,
) -> Iterator[tuple[Maker, Sequence[Instance]]]:
    """Yield as many instances at a time as fit into the device's memory, with their source's maker.

    If all runs are greedy, a pool's kernel stores no units, and memory does not matter.
    """
    pool = _pool(instances, backend)
    if greedy and pool and pool.kernel:
        yield lambda part: PoolSource(part, pool, backend, KERNEL, shared=False), instances
        return
    slots = 1 if environment.layout == "block" else environment.actions
    unit = 8 * (COPIES * slots * environment.dim + BESIDE * environment.actions)
    make, size = _maker(instances, environment, pool, unit, backend)
    fitting = max(usable(backend) // (size * unit), 1)
    if fitting < len(instances):
        _warn(f"{len(instances)} trials at once", backend, f"{fitting} trials run at a time")
    for start in range(0, len(instances), fitting):
        yield make, instances[start : start + fitting]


def in_halves(
    work: Callable[[Sequence[Instance]], list[T]], part: Sequence[Instance], backend: Backend
) -> list[T]:
    """Return the result of the work for each instance, in halves if memory runs out.

    The planned memory may no longer be available, because other programs use it too.
    """
    try:
        return work(part)
    except backend.exhausted:
        if len(part) == 1:
            raise
    # Only here: while the error is handled, it keeps the memory alive.
    backend.release()
    half = (len(part) + 1) // 2
    warnings.warn(
        f"{backend.name} ran out of memory with {len(part)} trials at once; running them again, "
        f"{half} at a time.",
        DeviceMemoryWarning,
        stacklevel=2,
    )
    return [one for some in (part[:half], part[half:]) for one in in_halves(work, some, backend)]


def usable(backend: Backend) -> int:
    """Return the memory available for blocks, in bytes."""
    memory = backend.memory()
    return ON_HOST if memory is None else int(min(memory.all * SHARE, memory.free * OF_FREE))


def _maker(
    instances: Sequence[Instance],
    environment: Environment,
    pool: DevicePool | None,
    unit: int,
    backend: Backend,
) -> tuple[Maker, int]:
    """Return the maker of sources, and the number of units per block."""
    if pool:
        size = pool_block(usable(backend) // (unit * len(instances)))
        return lambda part: PoolSource(part, pool, backend, size), size
    if law := _law(instances):
        return lambda part: LinearSource(part, backend), block_size(law.slots * law.dim)
    return lambda part: HostSource(part, environment, backend), BLOCK


def _pool(instances: Sequence[Instance], backend: Backend) -> DevicePool | None:
    """Return the pool that all instances draw from, on the device, or None if it does not fit."""
    if not _same_environment(instances, PoolInstance, FeaturePool):
        return None
    drawn = cast(Sequence[PoolInstance], instances)
    pool = drawn[0].environment
    # Your own environment may give each trial its own parameter over the same rows.
    if not all(np.array_equal(one.theta, np.atleast_2d(pool.theta)) for one in drawn):
        return None
    needed = DevicePool.nbytes(pool)
    if backend.memory() is None or needed <= usable(backend):
        return device_pool(pool, backend)
    _warn(f"a pool of {needed / 2**30:.2f} GiB", backend, "rows are drawn on the host")
    return None


def _law(instances: Sequence[Instance]) -> LinearEnvironment | None:
    """Return the environment of all instances if the device can draw from it, else None."""
    known = _same_environment(instances, LinearInstance, *LAWS)
    return cast(LinearInstance, instances[0]).environment if known else None


def _same_environment(instances: Sequence[Instance], kind: type, *environments: type) -> bool:
    """Return whether all instances have this type and one environment of the given types.

    Your own environment may return an instance of another one for each seed, and your own subclass
    may draw other units: their units are drawn on the host.
    """
    first = instances[0]
    return type(getattr(first, "environment", None)) in environments and all(
        type(one) is kind and cast(Any, one).environment == cast(Any, first).environment
        for one in instances
    )


def pool_block(units: int) -> int:
    """Return the size of a pool's blocks, a power of two, if this many units fit."""
    return min(max(1 << max(units.bit_length() - 1, 0), FEWEST), MOST_TRIALS)


def _warn(what: str, backend: Backend, instead: str) -> None:
    memory = backend.memory()
    if memory is not None:
        free = f"{memory.free / 2**30:.2f} GiB free"
        warnings.warn(
            f"{backend.name} has {free}, too little for {what}: {instead}.",
            DeviceMemoryWarning,
            stacklevel=2,
        )
