"""What every environment is: contexts and rewards with known truth, in blocks.

An environment is a frozen description. :meth:`Environment.instance` makes one instance of it, with
its true parameter, from a seed; an instance hands out its units in blocks of :data:`BLOCK`, each
from a seed of its own. Unit t is therefore the same whatever was drawn before it, in whatever
chunks, by whichever process, and memory does not grow with the number of units.

Within an instance every policy sees the same contexts, noise and draws: comparisons are paired.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch.core import Layout
from seqbatch.core.arrays import Bools, Floats, Integers

#: Units in a block. Part of what a seed means: another number would give other units.
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
        What is added to the mean of the action taken, shape (n,).
    draws
        One uniform number in [0, 1) a unit, for the policy's randomness, shape (n,).
    logged
        The action that was taken when the data were logged, shape (n,), where the outcomes of
        other actions are not known; None where all are.
    eligible
        Which actions each unit may get, shape (n, K), at least one for each; None for all.
    """

    contexts: Floats
    means: Floats
    noise: Floats
    draws: Floats
    logged: Integers | None = None
    eligible: Bools | None = None

    def __len__(self) -> int:
        return len(self.draws)

    @cached_property
    def best(self) -> Floats:
        """The mean reward of each unit's best eligible action, shape (n,); NaN if not known."""
        if self.logged is not None:
            return np.full(len(self), np.nan)
        means = self.means
        if self.eligible is not None:
            means = np.where(self.eligible, means, -np.inf)
        best: Floats = means.max(axis=1)
        return best


class Random(Protocol):
    """What the laws of contexts draw from: NumPy's generator, or many trials' at once.

    Draws for many trials have an axis of trials before the shape that was asked for.
    """

    def standard_normal(self, size: tuple[int, ...], /) -> Any:
        """Draw from N(0, 1)."""

    def random(self, size: tuple[int, ...], /) -> Any:
        """Draw uniformly from [0, 1)."""

    def uniform(self, low: float, high: float, size: tuple[int, ...], /) -> Any:
        """Draw uniformly from [low, high)."""

    def chisquare(self, df: float, size: tuple[int, ...], /) -> Any:
        """Draw from the chi-square law."""


@runtime_checkable
class Instance(Protocol):
    """One draw of an environment: a true parameter, and units in blocks."""

    @property
    def theta(self) -> Floats | None:
        """The true parameter, shape (models, dim), or None where there is none."""

    def block(self, index: int) -> Block:
        """Return units index * BLOCK and following; fewer than BLOCK only at the end."""


@runtime_checkable
class Environment(Protocol):
    """Where contexts and rewards come from."""

    @property
    def actions(self) -> int:
        """K."""

    @property
    def dim(self) -> int:
        """The length of one context vector."""

    @property
    def layout(self) -> Layout:
        """How contexts are laid out."""

    @property
    def units(self) -> int | None:
        """How many units there are, or None for as many as wanted."""

    def instance(self, seed: SeedSequence) -> Instance:
        """Draw an instance; the same seed gives the same one."""


def branch(seed: SeedSequence, *key: int) -> SeedSequence:
    """Return the seed at a place of the tree below `seed`.

    The tag keeps these places apart from the children that ``seed.spawn`` gives.
    """
    return SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, TAG, *key))


def generator(seed: SeedSequence) -> Generator:
    """Return the generator of a seed."""
    return Generator(np.random.SFC64(seed))


#: What comes before every place of an instance's seed tree, and the places.
TAG = 0x5EB0
PARAMETER, UNITS, DRAWS, ELIGIBLE = 0, 1, 2, 4


def block_draws(seed: SeedSequence, index: int, units: int) -> Floats:
    """Return the policy's draws for a block, from a branch that no environment uses."""
    return generator(branch(seed, DRAWS, index)).random(units)
