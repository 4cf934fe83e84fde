"""Rules that every environment keeps."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from seqbatch.core import Contexts, Problem
from seqbatch.environments import BLOCK, Block, Environment
from seqbatch.errors import SeqbatchError


class EnvironmentCheckError(SeqbatchError, AssertionError):
    """An environment broke a rule that every environment keeps."""


def check_shapes(environment: Environment) -> None:
    """Blocks have the layout's shapes, finite numbers, and draws in [0, 1)."""
    block = environment.instance(SeedSequence(1)).block(0)
    n, K, dim = len(block), environment.actions, environment.dim
    _require(
        n == min(BLOCK, environment.units or BLOCK),
        environment,
        f"a block must hold {BLOCK} units, or all there are; it holds {n}",
    )
    wanted = {
        "contexts": (n, dim) if environment.layout == "block" else (n, K, dim),
        "means": (n, K),
        "noise": (n,),
        "draws": (n,),
    }
    for name, shape in wanted.items():
        array = getattr(block, name)
        _require(
            array.shape == shape and array.dtype == np.float64 and np.isfinite(array).all(),
            environment,
            f"{name} must be finite float64 of shape {shape}; it has {array.dtype} {array.shape}",
        )
    _require(
        block.draws.min() >= 0 and block.draws.max() < 1,
        environment,
        "draws must lie in [0, 1)",
    )


def check_means(environment: Environment) -> None:
    """Means are <x, theta> wherever there is a theta."""
    instance = environment.instance(SeedSequence(2))
    if instance.theta is None:
        return
    block = instance.block(0)
    problem = Problem(
        ends=(1,),
        actions=environment.actions,
        dim=environment.dim,
        layout=environment.layout,
    )
    expected = Contexts.of(block.contexts, problem).means(instance.theta)
    _require(
        np.allclose(block.means, expected, rtol=1e-9, atol=1e-12),
        environment,
        "means must be the products of contexts and theta",
    )


def check_determinism(environment: Environment) -> None:
    """The same seed gives the same instance and units; blocks come in any order."""
    forward = environment.instance(SeedSequence(3))
    backward = environment.instance(SeedSequence(3))
    last = 0 if environment.units and environment.units <= BLOCK else 1
    first = [forward.block(index) for index in range(last + 1)]
    second = [backward.block(index) for index in reversed(range(last + 1))][::-1]
    _require(
        all(map(_equal, first, second)),
        environment,
        "a block must be the same whichever blocks were drawn before it",
    )


def check_seeds_differ(environment: Environment) -> None:
    """Other seeds, and other blocks, give other draws."""
    blocks = [environment.instance(SeedSequence(4, spawn_key=(k,))).block(0) for k in range(2)]
    _require(
        not np.array_equal(blocks[0].draws, blocks[1].draws),
        environment,
        "two seeds must not give the same draws",
    )
    if environment.units is None:
        instance = environment.instance(SeedSequence(4))
        _require(
            not np.array_equal(instance.block(0).contexts, instance.block(1).contexts),
            environment,
            "two blocks must not hold the same units",
        )


def check_no_shared_memory(environment: Environment) -> None:
    """Changing a block changes no later one."""
    instance = environment.instance(SeedSequence(5))
    names = ("contexts", "means", "noise", "draws")
    before = instance.block(0)
    kept = {name: getattr(before, name).copy() for name in names}
    for name in names:
        getattr(before, name)[...] = 0.5
    for name in names:
        _require(
            np.array_equal(getattr(instance.block(0), name), kept[name]),
            environment,
            f"a block's {name} must not be shared with later blocks",
        )


ENVIRONMENT_CHECKS: tuple[Callable[[Environment], None], ...] = (
    check_shapes,
    check_means,
    check_determinism,
    check_seeds_differ,
    check_no_shared_memory,
)


def check_environment(environment: Environment) -> None:
    """Run every check on an environment."""
    for check in ENVIRONMENT_CHECKS:
        check(environment)


def _equal(left: Block, right: Block) -> bool:
    names = ("contexts", "means", "noise", "draws")
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)


def _require(condition: Any, environment: Environment, complaint: str) -> None:
    if not condition:
        raise EnvironmentCheckError(f"{type(environment).__name__}: {complaint}")
