"""Environments with parameters drawn from a plan's law, simulated unit by unit."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch.core.arrays import Floats
from seqbatch.environments.base import PARAMETER, branch, generator, seed_of
from seqbatch.environments.linear import LinearEnvironment, LinearInstance
from seqbatch.planning.gaussian_model import Model

#: Coordinates of mean 0 and variance 1.
COORDINATES: dict[str, Callable[[Generator, tuple[int, ...]], Floats]] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "uniform": lambda random, shape: random.uniform(-np.sqrt(3), np.sqrt(3), shape),
    "binary": lambda random, shape: random.choice([-1.0, 1.0], shape),
    "skewed": lambda random, shape: random.exponential(1.0, shape) - 1,
    "heavy": lambda random, shape: random.standard_t(5, shape) * np.sqrt(3 / 5),
}


@dataclass(frozen=True, kw_only=True)
class World(LinearEnvironment):
    """Whitened contexts with coordinates of some law; a block layout has a constant first."""

    spread: float = 1.0
    law: str = "normal"

    def instance(self, seed: int | SeedSequence) -> LinearInstance:
        """Draw theta from the law."""
        seed = seed_of(seed)
        random = generator(branch(seed, PARAMETER))
        models = 1 if self.layout == "shared" else self.actions
        theta = self.spread * random.standard_normal((models, self.dim))
        return LinearInstance(self, seed, theta, np.eye(self.dim))

    def contexts(self, random: Generator, units: int, shape: Floats) -> Floats:  # noqa: ARG002
        """Draw the coordinates."""
        values = COORDINATES[self.law](random, (units, self.slots, self.dim))
        if self.layout == "block":
            values[..., 0] = 1.0
        return values


def world(model: Model, law: str = "normal") -> World:
    """Return the environment that a plan's model describes, or one with another law."""
    [(effect, noise)] = model.scenarios
    return World(
        dim=model.dim,
        actions=model.actions,
        layout=model.layout,
        noise=noise,
        spread=model.spread(effect),
        law=law,
    )
