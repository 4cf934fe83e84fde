"""The base class of synthetic environments: linear rewards, contexts independent over time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch.core import Contexts, Layout, Problem, arguments
from seqbatch.core.arrays import Array, Floats, namespace
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


@dataclass(frozen=True, kw_only=True)
class LinearEnvironment:
    """Rewards <x, theta> plus Gaussian noise; subclasses define how contexts are drawn.

    Parameters
    ----------
    dim
        The length of one context vector.
    actions
        K.
    layout
        See :class:`~seqbatch.core.problem.Problem`. theta has one row per model.
    noise
        The standard deviation of the reward's noise.
    norm
        The norm of each row of theta, whose direction is uniform on the sphere.
    """

    dim: int
    actions: int
    layout: Layout = "shared"
    noise: float = 1.0
    norm: float = 1.0

    units: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        arguments.integer("dim", self.dim)
        arguments.integer("actions", self.actions, at_least=2)
        arguments.choice("layout", self.layout, get_args(Layout))
        arguments.number("noise", self.noise, at_least=0)
        arguments.number("norm", self.norm, at_least=0)

    @property
    def slots(self) -> int:
        """The number of vectors per unit."""
        return 1 if self.layout == "block" else self.actions

    def instance(self, seed: int | SeedSequence) -> LinearInstance:
        """Draw theta and everything else that is fixed within an instance."""
        seed = seed_of(seed)
        random = generator(branch(seed, PARAMETER))
        theta = random.standard_normal((1 if self.layout == "shared" else self.actions, self.dim))
        theta *= self.norm / np.linalg.norm(theta, axis=1, keepdims=True)
        return LinearInstance(self, seed, theta, self.shape(random))

    def shape(self, random: Generator) -> Floats:  # noqa: ARG002
        """Return the matrix that shapes an instance's contexts; the identity by default."""
        return np.eye(self.dim)

    def contexts(self, random: Any, units: int, shape: Array) -> Array:
        """Return contexts (n, slots, dim).

        `random` is NumPy's generator. The environments of this package also accept a generator that
        draws for many trials (:class:`~seqbatch.environments.base.Random`): contexts and shape then
        have a leading axis of trials.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class LinearInstance:
    """One theta and one shape of the contexts, with units in blocks."""

    environment: LinearEnvironment
    seed: SeedSequence
    theta: Floats
    shape: Floats

    @cached_property
    def problem(self) -> Problem:
        """The problem that defines the layout; its horizon is not used."""
        kind = self.environment
        return Problem(ends=(1,), actions=kind.actions, dim=kind.dim, layout=kind.layout)

    def block(self, index: int) -> Block:
        """Draw a block of units from its own seed."""
        random = generator(branch(self.seed, UNITS, index))
        values = self.environment.contexts(random, BLOCK, self.shape)
        if self.environment.layout == "block":
            values = values[:, 0, :]
        contexts = Contexts(np.ascontiguousarray(values), self.problem)
        return Block(
            contexts=contexts.values,
            means=contexts.means(self.theta),
            noise=self.environment.noise * random.standard_normal(BLOCK),
            draws=block_draws(self.seed, index, BLOCK),
        )


def turned(values: Array, shape: Array) -> Array:
    """Return values @ shape, with each trial's own shape."""
    if shape.ndim == 2:
        return values @ shape
    # One product per trial: broadcasting would make one per unit.
    flat = values.reshape(shape.shape[0], -1, shape.shape[-1])
    return (flat @ shape).reshape(values.shape)


def lengths(values: Array) -> Array:
    """Return the norm of every vector, keeping the vectors' axis."""
    xp = namespace(values)
    return xp.sqrt(xp.sum(values * values, axis=-1, keepdims=True))


def random_rotation(random: Generator, dim: int) -> Floats:
    """Return a uniformly random orthogonal matrix."""
    q, r = np.linalg.qr(random.standard_normal((dim, dim)))
    rotation: Floats = q * np.sign(np.diag(r))
    return rotation
