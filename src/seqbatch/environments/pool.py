"""Contexts drawn from a pool of rows, with one shared parameter (Section 6.3)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from seqbatch.core import Layout, arguments
from seqbatch.core.arrays import Array, Floats, Integers
from seqbatch.environments.base import BLOCK, UNITS, Block, block_draws, branch, generator, seed_of


@runtime_checkable
class DenseRows(Protocol):
    """Rows that are converted to dense vectors on request."""

    @property
    def dim(self) -> int:
        """The length of a row."""

    def __len__(self) -> int: ...

    def dense(self, indices: Integers) -> Floats:
        """Return the rows at `indices`, of any shape, with their length as the last axis."""


@runtime_checkable
class CountedRows(DenseRows, Protocol):
    """Rows of small integers times one scale: a device stores them in one byte each."""

    @property
    def scale(self) -> float:
        """The factor of the integers."""

    def counts(self, place: Any) -> Array:
        """Return the integers of all rows as int8 on the device `place`, shape (n, d)."""


@dataclass(frozen=True)
class ArrayRows:
    """Rows of an array."""

    array: Floats

    @property
    def dim(self) -> int:
        """The length of a row."""
        return int(self.array.shape[1])

    def __len__(self) -> int:
        return len(self.array)

    def dense(self, indices: Integers) -> Floats:
        """Return the rows at `indices`."""
        return self.array[indices]


@dataclass(frozen=True, eq=False)
class FeaturePool:
    """Each unit shows K distinct rows of a pool; rewards are <row, theta> plus Gaussian noise.

    Parameters
    ----------
    rows
        The pool, shape (n, d), or an object that stores its rows differently (:class:`DenseRows`).
    theta
        The shared parameter, d numbers.
    actions
        K, at most the pool's size; 2 in the paper.
    noise
        The standard deviation of the noise; 0.1 in the paper.

    Examples
    --------
    >>> pool = FeaturePool(np.eye(3), theta=[1.0, 2.0, 3.0], actions=2)
    >>> pool.instance(1).block(0).contexts.shape
    (4096, 2, 3)
    """

    rows: ArrayLike | DenseRows
    _: KW_ONLY
    theta: ArrayLike
    actions: int = 2
    noise: float = 0.1
    _parts: tuple[DenseRows, Floats] = field(init=False, repr=False)

    layout: ClassVar[Layout] = "shared"
    units: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        rows = self.rows
        if not isinstance(rows, DenseRows):
            rows = ArrayRows(arguments.floats("rows", rows, ("n", "d")))
        theta = arguments.floats("theta", self.theta, (rows.dim,))
        arguments.integer("actions", self.actions, at_least=2)
        arguments.integer("rows", len(rows), at_least=self.actions)
        arguments.number("noise", self.noise, at_least=0)
        object.__setattr__(self, "_parts", (rows, theta[None, :]))

    @property
    def dim(self) -> int:
        """The length of a row."""
        return self._parts[0].dim

    @property
    def pool(self) -> DenseRows:
        """The rows in their stored form."""
        return self._parts[0]

    def instance(self, seed: int | SeedSequence) -> PoolInstance:
        """Return an instance that draws from the pool."""
        return PoolInstance(self, seed_of(seed), self._parts[1])


@dataclass(frozen=True)
class PoolInstance:
    """Draws from a pool, in blocks."""

    environment: FeaturePool
    seed: SeedSequence
    theta: Floats

    def block(self, index: int) -> Block:
        """Draw distinct rows for each unit of a block."""
        random = generator(branch(self.seed, UNITS, index))
        rows, _ = self.environment._parts
        values = rows.dense(distinct(random, len(rows), (BLOCK, self.environment.actions)))
        return Block(
            contexts=values,
            means=values @ self.theta[0],
            noise=self.environment.noise * random.standard_normal(BLOCK),
            draws=block_draws(self.seed, index, BLOCK),
        )


def distinct(
    random: np.random.Generator, pool: int, shape: tuple[int, int]
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return rows of `shape[1]` distinct numbers below `pool`, every set equally likely.

    Column k is drawn from the numbers that earlier columns left: a number below pool - k,
    incremented once for each earlier number, in ascending order, that it reaches.
    """
    chosen = np.empty(shape, dtype=np.int64)
    for k in range(shape[1]):
        value = random.integers(0, pool - k, shape[0])
        for earlier in np.sort(chosen[:, :k], axis=1).T:
            value += value >= earlier
        chosen[:, k] = value
    return chosen
