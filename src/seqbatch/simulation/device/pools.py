"""Pools of rows on a device: units are drawn from them by counters, in blocks of any size."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from seqbatch.core import Statistics, arguments, ridge_means
from seqbatch.core.arrays import Array
from seqbatch.environments.pool import CountedRows, FeaturePool, PoolInstance
from seqbatch.simulation.device import counters
from seqbatch.simulation.device.backend import Backend
from seqbatch.simulation.device.units import Units, trial_keys

#: Means and noise of counted pools are multiples of this, and their contexts whole numbers. Sums
#: over units are then exact: the same bits in whatever order and blocks they are taken.
STEP = 2.0**-26
#: Numbers of a row that fit a record of 64 bytes beside its mean.
MOST_NUMBERS = 56
#: Digits of seven bits that write the steps of a reward; the largest of normal numbers there is.
DIGITS, FARTHEST = 5, 6.7
#: Rows that are moved at a time.
CHUNK = 2**20
#: Eight bytes that are 128 each, as a signed number.
_MIDDLE = -0x7F7F7F7F7F7F7F80


class DevicePool:
    """The rows of a pool and their means, on a device.

    Counted rows take one byte a number there, others eight.
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
        """Return how many bytes a pool takes on a device."""
        width = 1 if isinstance(pool.pool, CountedRows) else 8
        return len(pool.pool) * (width * pool.dim + 8)


def pool_kernel(made: DevicePool, pool: FeaturePool, backend: Backend) -> Any:
    """Return the kernel that draws from this pool and sums up at once, if there can be one.

    It needs Triton and a GPU, or Triton's interpreter, and two actions with rows of small whole
    numbers and rewards that fit a record. Else None: array operations do the same.
    """
    compiles = backend.name == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    fits = made.counted and pool.actions == 2 and pool.dim <= MOST_NUMBERS
    if backend.name == "numpy" or not compiles or not fits or find_spec("triton") is None:
        return None
    reach = float(backend.xp.max(backend.xp.abs(made.means))) + FARTHEST * pool.noise
    if reach >= STEP * 2 ** (7 * DIGITS - 1):
        return None
    from seqbatch.simulation.device.fused import PoolKernel

    return PoolKernel.of(made.rows, made.means, noise=pool.noise)


@contextmanager
def waking(backend: Backend) -> Iterator[None]:
    """Load the compiled code that trials need while a GPU makes their pool."""
    if backend.name != "cuda" or find_spec("triton") is None:
        yield
        return
    aside = ThreadPoolExecutor(2)
    # What fails there fails again, and is said, where it is needed.
    kernel = aside.submit(_wake_kernel)
    aside.submit(ridge_means, Statistics.zero(1, 1), 1.0)
    aside.shutdown(wait=False)
    yield
    # The kernel is needed at once, estimates not before the first batch is closed.
    wait([kernel])


def _wake_kernel() -> None:
    from seqbatch.simulation.device import fused

    fused.wake()


# One pool at a time, because a large one fills a small device; the sweeps that follow use it again.
@lru_cache(maxsize=1)
def device_pool(pool: FeaturePool, backend: Backend) -> DevicePool:
    """Return a pool on a device, moved there once."""
    return DevicePool(pool, backend)


class PoolSource:
    """Units drawn from a pool. Unit t of a trial is the same whatever the size of the blocks."""

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

    def block(self, index: int) -> Units:
        """Draw distinct rows and the noise for each unit."""
        K, start = self.environment.actions, index * self.size
        # K + 2 numbers a unit: its rows, its noise, and the policy's draw.
        first = self.backend.integers(start, start + self.size)[None, :] * (K + 2)
        return Units(
            self.size,
            lambda: self._made(first),
            lambda: counters.uniforms(counters.bits(self.keys, first + K + 1)),
            self.pool.kernel and self.pool.kernel.at(self.keys, start),
        )

    def _made(self, first: Array) -> tuple[Array, Array, Array]:
        xp, K = self.backend.xp, self.environment.actions
        rows = self._rows(first)
        flat = rows.reshape(-1)
        x = xp.take(self.pool.rows, flat, axis=0).reshape(*rows.shape, -1)
        means = xp.take(self.pool.means, flat, axis=0).reshape(rows.shape)
        noise = self.environment.noise * counters.normals(counters.bits(self.keys, first + K))
        return (
            xp.astype(x, xp.float64),
            means,
            stepped(noise, xp) if self.pool.counted else noise,
        )

    def _rows(self, first: Array) -> Array:
        """Return K distinct rows a unit, as :func:`seqbatch.environments.pool.distinct` does."""
        xp, pool = self.backend.xp, self.pool.rows.shape[0]
        chosen: list[Array] = []
        for k in range(self.environment.actions):
            share = counters.uniforms(counters.bits(self.keys, first + k))
            value = xp.astype(share * (pool - k), xp.int64)
            for earlier in _ordered(chosen, xp):
                value = value + xp.astype(value >= earlier, xp.int64)
            chosen.append(value)
        return xp.stack(chosen, axis=-1)


def chunks(rows: int, size: int = CHUNK) -> Iterator[slice]:
    """Cut so many rows into pieces."""
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def stepped(values: Array, xp: Array) -> Array:
    """Round to multiples of STEP."""
    return xp.round(values / STEP) * STEP


def signed_counts(codes: Sequence[Array], dim: int, xp: Array) -> Array:
    """Return the whole numbers of coded rows: how often each place is named, with its sign.

    Eight places share a 64-bit number, a byte each, which never runs over: `codes` are at most 127
    columns, and bytes begin at 128.
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
    """Return the rows chosen so far, each unit's in their order."""
    if len(chosen) < 2:
        return chosen
    ordered = xp.sort(xp.stack(chosen, axis=-1), axis=-1)
    return [ordered[..., place] for place in range(len(chosen))]
