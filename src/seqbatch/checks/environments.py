"""The rules that every environment must keep, and check_environment."""

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from numpy.random import SeedSequence

from seqbatch.checks.report import CheckReport, brief, named, raised_text, rule
from seqbatch.core import Contexts, Layout, Problem
from seqbatch.core.arrays import Floats
from seqbatch.core.contexts import eligible_of
from seqbatch.environments import BLOCK, Block, Environment
from seqbatch.environments.base import Instance
from seqbatch.errors import InvalidArgumentError, SeqbatchError

ARRAYS = ("contexts", "means", "noise", "draws")
PARTS = ("actions", "dim", "layout", "units", "instance")


class EnvironmentCheckError(SeqbatchError, AssertionError):
    """An environment broke a rule that every environment must keep."""


@rule(EnvironmentCheckError)
def check_description(environment: Environment) -> None:
    """The attributes actions, dim, layout, units and instance exist and are valid."""
    lacking = [name for name in PARTS if not hasattr(environment, name)]
    _require(
        not lacking,
        environment,
        f"an environment must have {', '.join(PARTS)}; it lacks {' and '.join(lacking)}",
    )
    for name, least in (("actions", 2), ("dim", 1)):
        _require_count(environment, name, least)
    if environment.units is not None:
        _require_count(environment, "units", 1)
    layouts = get_args(Layout)
    _require(
        environment.layout in layouts,
        environment,
        f"layout must be one of {', '.join(layouts)}; it is {brief(environment.layout)}",
    )


@rule(EnvironmentCheckError)
def check_shapes(environment: Environment) -> None:
    """Blocks have the layout's shapes, finite numbers, draws in [0, 1), eligible actions."""
    block = _block(environment, _instance(environment, 1), 0)
    n, K, dim = len(block), environment.actions, environment.dim
    _require(
        n == min(BLOCK, environment.units or BLOCK),
        environment,
        f"a block must hold {BLOCK} units, or all of them if there are fewer; it holds {n}",
    )
    wanted = {
        "contexts": (n, dim) if environment.layout == "block" else (n, K, dim),
        "means": (n, K),
        "noise": (n, K) if block.noise.ndim == 2 else (n,),
        "draws": (n,),
    }
    for name, shape in wanted.items():
        array = getattr(block, name)
        _require(
            array.shape == shape and array.dtype == np.float64,
            environment,
            f"{name} must be float64 of shape {shape}; it is {brief(array)}",
        )
        wrong = array[~np.isfinite(array)]
        _require(not len(wrong), environment, f"{name} must be finite; received {wrong[:1]}")
    low, high = block.draws.min(), block.draws.max()
    _require(
        low >= 0 and high < 1,
        environment,
        f"draws must lie in [0, 1); they range from {low:g} to {high:g}",
    )
    if block.delay is not None:
        shape = (n, K) if np.ndim(block.delay) == 2 else (n,)
        _require(
            np.shape(block.delay) == shape and (np.asarray(block.delay) >= 0).all(),
            environment,
            f"delay must be at least 0 and of shape {(n,)} or {(n, K)}; it is {brief(block.delay)}",
        )
    if block.eligible is not None:
        try:
            eligible_of(block.eligible, n, K)
        except InvalidArgumentError as error:
            raise EnvironmentCheckError(f"{named(environment)}: {error}") from None


@rule(EnvironmentCheckError)
def check_means(environment: Environment) -> None:
    """Means are <x, theta>, in an environment that states a theta."""
    instance = _instance(environment, 2)
    if instance.theta is None:
        return
    block = _block(environment, instance, 0)
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


@rule(EnvironmentCheckError)
def check_noise(environment: Environment) -> None:
    """Noise averages to 0 under every action, within 6 standard errors."""
    instance = _instance(environment, 6)
    last = 0 if environment.units and environment.units <= BLOCK else 1
    blocks = [_block(environment, instance, index) for index in range(last + 1)]
    means = np.concatenate([block.means for block in blocks])
    noise = np.concatenate(
        [np.broadcast_to(_column(block.noise), block.means.shape) for block in blocks]
    )
    for action in range(noise.shape[1]):
        values = noise[:, action]
        # Events too rare to have occurred tell nothing.
        if len(values) < 100 or np.ptp(means[:, action] + values) < 1e-12:
            continue
        error = float(values.std()) / np.sqrt(len(values))
        mean = float(values.mean())
        _require(
            abs(mean) <= 6 * error + 1e-12,
            environment,
            f"noise must average to 0, because means are the truth by which regret is measured; "
            f"under action {action} it averages to {mean:.3g}, standard error {error:.2g}",
        )


@rule(EnvironmentCheckError)
def check_determinism(environment: Environment) -> None:
    """The same seed gives the same instance and units; blocks may be drawn in any order."""
    forward, backward = _instance(environment, 3), _instance(environment, 3)
    last = 0 if environment.units and environment.units <= BLOCK else 1
    first = [_block(environment, forward, index) for index in range(last + 1)]
    second = [_block(environment, backward, index) for index in reversed(range(last + 1))][::-1]
    _require(
        all(map(_equal, first, second)),
        environment,
        "a block must be the same whichever blocks were drawn before it",
    )


@rule(EnvironmentCheckError)
def check_seeds_differ(environment: Environment) -> None:
    """Different seeds and different blocks give different draws."""
    blocks = [_block(environment, _instance(environment, 4, k), 0) for k in range(2)]
    _require(
        not np.array_equal(blocks[0].draws, blocks[1].draws),
        environment,
        "two seeds must not give the same draws",
    )
    if environment.units is None:
        instance = _instance(environment, 4)
        first, second = (_block(environment, instance, index) for index in range(2))
        _require(
            # A world may show all units the same contexts.
            not np.array_equal(first.draws, second.draws)
            and (_all_the_same(first) or not np.array_equal(first.contexts, second.contexts)),
            environment,
            "two blocks must not hold the same units",
        )


@rule(EnvironmentCheckError)
def check_no_shared_memory(environment: Environment) -> None:
    """Modifying a block does not change later blocks."""
    instance = _instance(environment, 5)
    before = _block(environment, instance, 0)
    kept = {name: getattr(before, name).copy() for name in ARRAYS}
    for name in ARRAYS:
        # A read-only array may be shared.
        if getattr(before, name).flags.writeable:
            getattr(before, name)[...] = 0.5
    after = _block(environment, instance, 0)
    for name in ARRAYS:
        _require(
            np.array_equal(getattr(after, name), kept[name]),
            environment,
            f"a block's {name} must not be shared with later blocks",
        )


ENVIRONMENT_CHECKS: tuple[Callable[[Environment], None], ...] = (
    check_description,
    check_shapes,
    check_means,
    check_noise,
    check_determinism,
    check_seeds_differ,
    check_no_shared_memory,
)


def check_environment(environment: Environment) -> CheckReport:
    """Run every check on an environment.

    Returns
    -------
    CheckReport
        The rules that apply to it, all of which it keeps, for printing.

    Raises
    ------
    EnvironmentCheckError
        If a rule is broken; the message says which one and what was returned.
    """
    for check in ENVIRONMENT_CHECKS:
        check(environment)
    return CheckReport.of(environment, _applying(environment))


def _applying(environment: Environment) -> list[Callable[[Environment], None]]:
    """Return the checks whose rule says anything about this environment."""
    beyond = set()
    instance = _instance(environment, 2)
    if instance.theta is None:
        beyond.add(check_means)
    if not _block(environment, instance, 0).noise.any():
        beyond.add(check_noise)
    return [check for check in ENVIRONMENT_CHECKS if check not in beyond]


def _all_the_same(block: Block) -> bool:
    """Return whether all units have the same contexts."""
    return bool((block.contexts == block.contexts[:1]).all())


def _column(noise: Floats) -> Floats:
    """Return noise with an axis of actions."""
    return noise[:, None] if noise.ndim == 1 else noise


def _instance(environment: Environment, seed: int, *key: int) -> Instance:
    instance = _called(
        environment, "instance", environment.instance, SeedSequence(seed, spawn_key=key)
    )
    _require(
        isinstance(instance, Instance),
        environment,
        f"instance must return an object with theta and block; returned {brief(instance)}",
    )
    return instance  # type: ignore[no-any-return]


def _block(environment: Environment, instance: Instance, index: int) -> Block:
    block = _called(environment, "block", instance.block, index)
    _require(
        isinstance(block, Block), environment, f"block must return a Block; returned {brief(block)}"
    )
    for name in ARRAYS:
        array = getattr(block, name)
        _require(
            isinstance(array, np.ndarray),
            environment,
            f"{name} must be an array; it is {brief(array)}",
        )
    return block  # type: ignore[no-any-return]


def _called(
    environment: Environment, name: str, function: Callable[..., Any], argument: object
) -> Any:
    try:
        return function(argument)
    except Exception as error:
        raise EnvironmentCheckError(
            f"{named(environment)}: {name} must accept the arguments of every environment and "
            f"raise nothing. {raised_text(error)}."
        ) from error


def _equal(left: Block, right: Block) -> bool:
    return all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in (*ARRAYS, "eligible", "delay")
    )


def _require_count(environment: Environment, name: str, least: int) -> None:
    value = getattr(environment, name)
    _require(
        isinstance(value, int | np.integer) and value >= least,
        environment,
        f"{name} must be a whole number of at least {least}; it is {brief(value)}",
    )


def _require(condition: Any, environment: Environment, complaint: str) -> None:
    if not condition:
        raise EnvironmentCheckError(f"{named(environment)}: {complaint}")
