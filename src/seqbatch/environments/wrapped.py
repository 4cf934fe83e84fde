"""The base class of environments that change another one: its means, outcomes or eligibility."""

from dataclasses import dataclass
from typing import ClassVar

from numpy.random import SeedSequence

from seqbatch.core import Layout
from seqbatch.core.arrays import Floats
from seqbatch.environments.base import Block, Environment, Instance, seed_of
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True)
class Wrapped:
    """An environment that changes the blocks of another one.

    A subclass defines :meth:`changed`.
    """

    environment: Environment

    #: Whether the mean rewards remain those of the wrapped environment.
    keeps_means: ClassVar[bool] = True

    def __post_init__(self) -> None:
        inside = self.environment
        if isinstance(inside, type) or not hasattr(inside, "instance"):
            rule = "an environment, for example Gaussian(dim=5, actions=4)"
            raise InvalidArgumentError("environment", rule, repr(inside))

    @property
    def actions(self) -> int:
        """K."""
        return self.environment.actions

    @property
    def dim(self) -> int:
        """The length of one context vector."""
        return self.environment.dim

    @property
    def layout(self) -> Layout:
        """The layout of the contexts."""
        return self.environment.layout

    @property
    def units(self) -> int | None:
        """The number of units, or None if unlimited."""
        return self.environment.units

    def instance(self, seed: int | SeedSequence) -> "WrappedInstance":
        """Draw an instance of the wrapped environment."""
        place = seed_of(seed)
        return WrappedInstance(self, place, self.environment.instance(place))

    def changed(self, block: Block, seed: SeedSequence, index: int) -> Block:
        """Return the wrapped instance's block number `index`, changed."""
        raise NotImplementedError


@dataclass(frozen=True)
class WrappedInstance:
    """An instance whose blocks are changed."""

    environment: Wrapped
    seed: SeedSequence
    inside: Instance

    @property
    def theta(self) -> Floats | None:
        """The true parameter, shape (models, dim), or None if there is no true parameter."""
        return self.inside.theta if self.environment.keeps_means else None

    def block(self, index: int) -> Block:
        """Return a block of the wrapped instance, changed."""
        return self.environment.changed(self.inside.block(index), self.seed, index)


def require_common_noise(environment: Wrapped, block: Block) -> None:
    """Refuse to move means whose outcomes were drawn from them, as yes/no outcomes are."""
    if block.noise.ndim != 1:
        name = type(environment).__name__
        raise InvalidArgumentError(
            "environment",
            f"one whose noise is the same for all actions, to be changed by {name}",
            f"{type(environment.environment).__name__}, whose noise depends on the action",
            f"Change the means first: GeneralizedLinear({name}(...)).",
        )
