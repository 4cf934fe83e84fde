"""The interface of every environment: contexts and rewards with a known truth, in blocks.

An environment is a frozen description. :meth:`Environment.instance` draws one instance with its
true parameter from a seed. An instance returns its units in blocks of :data:`BLOCK`, each drawn
from its own seed. Unit t is therefore the same whatever was drawn before it, in any chunks and by
any process, and memory does not grow with the number of units.

Within an instance every policy sees the same contexts, noise and draws: comparisons are paired.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch.core import Layout, arguments
from seqbatch.core.arrays import Bools, Floats, Integers

#: Units per block. Seeds depend on it: another number would give other units.
BLOCK = 4_096


@dataclass(frozen=True)
class Block:
    """Consecutive units of an instance.

    Parameters
    ----------
    contexts
        In the environment's layout: (n, K, d), (n, K, p) or (n, p).
    means
        The mean reward of every action, shape (n, K).
    noise
        What is added to the mean: one number per unit, shape (n,), or one per unit and action,
        shape (n, K), where noise depends on the action, as that of yes/no outcomes does.
    draws
        One uniform number in [0, 1) per unit, for the policy's randomness, shape (n,).
    logged
        The action taken when the data were logged, shape (n,), if the outcomes of other actions
        are unknown; None if all are known.
    eligible
        Which actions each unit may get, shape (n, K), at least one per unit; None for all.
    delay
        How many units after its own the outcome is known, shape (n,) or (n, K): 0 at the end of its
        batch, infinity never. None if no outcome is late or missing.
    """

    contexts: Floats
    means: Floats
    noise: Floats
    draws: Floats
    logged: Integers | None = None
    eligible: Bools | None = None
    delay: Floats | None = None

    def __len__(self) -> int:
        return len(self.draws)

    @cached_property
    def best(self) -> Floats:
        """The mean reward of each unit's best eligible action, shape (n,); NaN if unknown."""
        if self.logged is not None:
            return np.full(len(self), np.nan)
        means = self.means
        if self.eligible is not None:
            means = np.where(self.eligible, means, -np.inf)
        best: Floats = means.max(axis=1)
        return best


class Random(Protocol):
    """The random number generator of contexts: NumPy's, or one that draws for many trials at once.

    Draws for many trials have an axis of trials before the requested shape.
    """

    def standard_normal(self, size: tuple[int, ...], /) -> Any:
        """Draw from N(0, 1)."""

    def random(self, size: tuple[int, ...], /) -> Any:
        """Draw uniformly from [0, 1)."""

    def uniform(self, low: float, high: float, size: tuple[int, ...], /) -> Any:
        """Draw uniformly from [low, high)."""

    def chisquare(self, df: float, size: tuple[int, ...], /) -> Any:
        """Draw from the chi-square distribution."""


@runtime_checkable
class Instance(Protocol):
    """One draw of an environment: a true parameter, and units in blocks."""

    @property
    def theta(self) -> Floats | None:
        """The true parameter, shape (models, dim), or None if there is no true parameter."""

    def block(self, index: int) -> Block:
        """Return units index * BLOCK and following; fewer than BLOCK only at the end."""


@runtime_checkable
class Environment(Protocol):
    """A source of contexts and rewards with a known truth."""

    @property
    def actions(self) -> int:
        """K."""

    @property
    def dim(self) -> int:
        """The length of one context vector."""

    @property
    def layout(self) -> Layout:
        """The layout of the contexts."""

    @property
    def units(self) -> int | None:
        """The number of units, or None if unlimited."""

    def instance(self, seed: SeedSequence) -> Instance:
        """Draw an instance; the same seed gives the same one.

        Those of this package also take a whole number.
        """


def of_actions(values: Floats, actions: Integers) -> Floats:
    """Return each unit's number: its own, or the one of its action where there is one for each."""
    return values if values.ndim == 1 else values[np.arange(len(actions)), actions]


def seed_of(seed: int | SeedSequence) -> SeedSequence:
    """Return a seed sequence; a whole number is its entropy."""
    if isinstance(seed, SeedSequence):
        return seed
    return SeedSequence(arguments.integer("seed", seed, at_least=0))


def branch(seed: SeedSequence, *key: int) -> SeedSequence:
    """Return the seed at a position of the tree below `seed`.

    The tag keeps these seeds apart from the children of ``seed.spawn``.
    """
    return SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, TAG, *key))


def generator(seed: SeedSequence) -> Generator:
    """Return the random number generator of a seed."""
    return Generator(np.random.SFC64(seed))


#: The prefix of all positions in an instance's seed tree, and the positions.
TAG = 0x5EB0
PARAMETER, UNITS, DRAWS, ELIGIBLE = 0, 1, 2, 4
OUTCOMES, MISFIT, CHANGES, DELAYS = 6, 7, 8, 9


def block_draws(seed: SeedSequence, index: int, units: int) -> Floats:
    """Return the policy's draws for a block, from a branch reserved for them."""
    return generator(branch(seed, DRAWS, index)).random(units)
