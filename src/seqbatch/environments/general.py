"""The base class of your own environments: any contexts, any means, any family of outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch.core import Layout, arguments
from seqbatch.core.arrays import AnyArray, Floats
from seqbatch.environments.base import (
    BLOCK,
    DELAYS,
    OUTCOMES,
    PARAMETER,
    UNITS,
    Block,
    block_draws,
    branch,
    generator,
    seed_of,
)
from seqbatch.environments.outcomes import Family, Noise, noise_of, settled_noise


@dataclass(frozen=True, kw_only=True)
class GeneralEnvironment:
    """An environment of your own: a subclass says how contexts and means come about.

    Parameters
    ----------
    dim
        The length of one context vector.
    actions
        K.
    layout
        See :class:`~seqbatch.core.problem.Problem`.
    family
        ``"gaussian"``: the mean plus noise. ``"bernoulli"``: 0 or 1, with the mean as the
        probability. ``"poisson"``: a count, with the mean as the rate.
    noise
        The standard deviation of Gaussian noise: a number; one for each action; or a function that
        takes the means, (n, K), and returns them. Other families do not use it.

    Examples
    --------
    >>> class Threshold(GeneralEnvironment):
    ...     def contexts(self, random, size):
    ...         return random.random((size, self.dim))
    ...
    ...     def means(self, contexts, times, truth):
    ...         return 0.1 + 0.2 * (contexts[:, : self.actions] > 0.5)
    >>> block = Threshold(dim=4, actions=3, family="bernoulli").instance(1).block(0)
    >>> (block.means + block.noise)[:3]
    array([[1., 1., 1.],
           [1., 1., 1.],
           [0., 0., 0.]])
    """

    dim: int
    actions: int
    layout: Layout = "block"
    family: Family = "gaussian"
    noise: Noise = 1.0

    units: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        arguments.integer("dim", self.dim)
        arguments.integer("actions", self.actions, at_least=2)
        arguments.choice("layout", self.layout, get_args(Layout))
        noise = settled_noise(self.family, self.noise, self.actions)
        object.__setattr__(self, "noise", noise)

    def truth(self, random: Generator) -> Any:  # noqa: ARG002
        """Draw what is fixed within an instance, such as parameters; None by default."""
        return None

    def contexts(self, random: Generator, size: int) -> AnyArray:
        """Return contexts of `size` units, in the layout's shape."""
        raise NotImplementedError

    def means(self, contexts: Floats, times: AnyArray, truth: Any) -> AnyArray:
        """Return the mean reward of every action, shape (n, K).

        `times` are the numbers of the units from 0, by which means may drift; `truth` is what
        :meth:`truth` drew.
        """
        raise NotImplementedError

    def delays(self, random: Generator, contexts: Floats) -> AnyArray | None:  # noqa: ARG002
        """Return how many units later each outcome is known, as :class:`Block` does."""
        return None

    def instance(self, seed: int | SeedSequence) -> GeneralInstance:
        """Draw the truth."""
        place = seed_of(seed)
        return GeneralInstance(self, place, self.truth(generator(branch(place, PARAMETER))))


@dataclass(frozen=True)
class GeneralInstance:
    """One draw of a world, with units in blocks."""

    environment: GeneralEnvironment
    seed: SeedSequence
    truth: Any
    theta: None = None

    def block(self, index: int) -> Block:
        """Draw a block of units from its own seed."""
        world, n, K = self.environment, BLOCK, self.environment.actions
        shape = (n, world.dim) if world.layout == "block" else (n, K, world.dim)
        contexts = arguments.floats(
            "contexts", world.contexts(generator(branch(self.seed, UNITS, index)), n), shape
        )
        times = index * n + np.arange(n)
        means = arguments.floats("means", world.means(contexts, times, self.truth), (n, K))
        delay = world.delays(generator(branch(self.seed, DELAYS, index)), contexts)
        return Block(
            contexts=contexts,
            means=means,
            noise=noise_of(
                world.family, means, generator(branch(self.seed, OUTCOMES, index)), world.noise
            ),
            draws=block_draws(self.seed, index, n),
            delay=None if delay is None else np.asarray(delay, dtype=np.float64),
        )
