"""Environments from arrays: labelled data, your own data and logged experiments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from seqbatch.core import Contexts, Layout, Problem, arguments
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.display import counted
from seqbatch.environments.base import (
    BLOCK,
    OUTCOMES,
    Block,
    block_draws,
    branch,
    generator,
    seed_of,
)
from seqbatch.environments.outcomes import noise_of
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True, eq=False, repr=False)
class ArrayEnvironment:
    """Given contexts and rewards, in the given order.

    Parameters
    ----------
    contexts
        The contexts, in the layout's shape.
    rewards
        The outcome of every unit under every action, shape (n, K), if all are known; regret is
        measured on them. Without it, pass `means` and `noise`.
    layout
        See :class:`~seqbatch.core.problem.Problem`.
    logged
        If only one action's outcome is known, the action that was logged; `rewards` then holds its
        outcome in that column, NaN if it is missing: it is never learned, and counts 0 in the
        reward. A simulation counts only the units whose logged action is the chosen one, which is
        unbiased if the log was uniformly random. Regret is then unknown (NaN).
    eligible
        Which actions each unit may get, booleans (n, K); None for all. Regret is measured against
        the best eligible action.
    means
        The mean reward of every unit under every action, shape (n, K); regret is measured on them.
    noise
        What is added to `means`, and always stated with them: a standard deviation, ``"bernoulli"``
        or ``"poisson"``, each drawn anew for every seed; or numbers, (n,) or (n, K). 0 for none.

    Examples
    --------
    >>> own = ArrayEnvironment(np.ones((3, 2)), np.eye(3), layout="block")
    >>> own.actions, own.dim, own.units
    (3, 2, 3)
    >>> own
    <ArrayEnvironment: 3 units, 3 actions, dim 2, block layout>
    >>> clicks = ArrayEnvironment(np.ones((3, 2)), means=np.full((3, 2), 0.5), noise="bernoulli")
    >>> block = clicks.instance(1).block(0)
    >>> (block.means + block.noise)[:, 0]
    array([1., 1., 0.])
    """

    contexts: ArrayLike
    rewards: ArrayLike | None = None
    layout: Layout = "block"
    logged: ArrayLike | None = None
    eligible: ArrayLike | None = None
    means: ArrayLike | None = field(default=None, kw_only=True)
    noise: float | str | ArrayLike | None = field(default=None, kw_only=True)
    _arrays: tuple[Floats, Floats, Integers | None, Bools | None] = field(init=False, repr=False)
    _missing: Bools | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        table = self._table()
        given = arguments.numeric("contexts", self.contexts)
        dim = given.shape[-1] if given.ndim else 0
        problem = Problem(ends=(1,), actions=table.shape[1], dim=dim, layout=self.layout)
        contexts = Contexts.of(given, problem, eligible=self.eligible)
        values, eligible = contexts.values, contexts.eligible
        if len(values) != len(table):
            raise InvalidArgumentError(
                "rewards", f"one row for each of {len(values)} contexts", f"{len(table)} rows"
            )
        actions: Any = None
        if self.logged is not None:
            actions = arguments.actions("logged", self.logged, len(table), problem.actions)
            _require_possible(actions, eligible)
        object.__setattr__(self, "_arrays", (values, table, actions, eligible))

    def __repr__(self) -> str:
        logged = ", logged" if self.logged is not None else ""
        return (
            f"<ArrayEnvironment: {counted(self.units, 'unit')}, {self.actions} actions, "
            f"dim {self.dim}, {self.layout} layout{logged}>"
        )

    def _table(self) -> Floats:
        """Return the means of every action, or the outcomes where those are known."""
        if (self.rewards is None) == (self.means is None):
            given = "neither" if self.means is None else "both"
            raise InvalidArgumentError(
                "rewards", "given, or else means with their noise, and not both", given
            )
        if self.rewards is not None:
            if self.noise is not None:
                raise InvalidArgumentError(
                    "noise", "left out with rewards, which are outcomes", repr(self.noise)
                )
            rewards = self.rewards
            if self.logged is not None:
                numbers = arguments.numeric("rewards", rewards)
                missing = np.isnan(numbers)
                object.__setattr__(
                    self, "_missing", missing.any(axis=-1) if missing.any() else None
                )
                rewards = np.where(missing, 0.0, numbers)
            return arguments.floats("rewards", rewards, ("n", "K"))
        table = arguments.floats("means", self.means, ("n", "K"))  # type: ignore[arg-type]
        if self.logged is not None:
            raise InvalidArgumentError(
                "means", "left out with logged data, whose outcomes are rewards", "given"
            )
        if self.noise is None:
            raise InvalidArgumentError(
                "noise",
                "stated with means: a standard deviation, 'bernoulli', 'poisson' or an array",
                None,
                "State noise=0 if outcomes are to equal their means.",
            )
        if isinstance(self.noise, str):
            arguments.choice("noise", self.noise, ("bernoulli", "poisson"))
            noise_of(self.noise, table, np.random.default_rng(0))
        elif np.ndim(self.noise) == 0:
            arguments.number("noise", self.noise, at_least=0)  # type: ignore[arg-type]
        else:
            shape = table.shape[: 1 if np.ndim(self.noise) == 1 else 2]
            object.__setattr__(self, "noise", arguments.floats("noise", self.noise, shape))
        return table

    @property
    def actions(self) -> int:
        """K."""
        return int(self._arrays[1].shape[1])

    @property
    def dim(self) -> int:
        """The length of one context vector."""
        return int(self._arrays[0].shape[-1])

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self._arrays[1])

    def instance(self, seed: int | SeedSequence) -> ArrayInstance:
        """Return the data; the seed determines the policy's draws, and noise that is drawn."""
        return ArrayInstance(self, seed_of(seed))


@dataclass(frozen=True)
class ArrayInstance:
    """The data of an :class:`ArrayEnvironment`, in blocks."""

    environment: ArrayEnvironment
    seed: SeedSequence
    theta: None = None

    def block(self, index: int) -> Block:
        """Return a block of rows."""
        values, table, logged, eligible = self.environment._arrays
        rows = slice(index * BLOCK, (index + 1) * BLOCK)
        n, missing = len(table[rows]), self.environment._missing
        return Block(
            contexts=values[rows].copy(),
            means=table[rows].copy(),
            noise=self._noise(table[rows], index),
            draws=block_draws(self.seed, index, BLOCK)[:n],
            logged=None if logged is None else logged[rows],
            eligible=None if eligible is None else eligible[rows],
            delay=None if missing is None else np.where(missing[rows], np.inf, 0.0),
        )

    def _noise(self, means: Floats, index: int) -> Floats:
        noise: Any = self.environment.noise
        if isinstance(noise, np.ndarray):
            return noise[index * BLOCK : (index + 1) * BLOCK].copy()
        if noise is None or (not isinstance(noise, str) and noise == 0):
            return np.zeros(len(means))
        random = generator(branch(self.seed, OUTCOMES, index))
        if isinstance(noise, str):
            return noise_of(noise, means, random)
        return noise_of("gaussian", means, random, float(noise))


def _require_possible(logged: Integers, eligible: Bools | None) -> None:
    """Refuse a log in which a unit got an action for which it is not eligible."""
    if eligible is None:
        return
    wrong = np.flatnonzero(~eligible[np.arange(len(logged)), logged])
    if len(wrong):
        raise InvalidArgumentError(
            "logged",
            "an eligible action of every unit",
            f"action {logged[wrong[0]]} in row {wrong[0]}, which is not eligible",
        )


def classification(features: ArrayLike, labels: ArrayLike, *, classes: int) -> ArrayEnvironment:
    """Turn labelled data into a bandit: an action guesses the label, and a right guess earns 1.

    The order of rows is kept (Section 6.1).

    >>> classification([[1.0], [2.0]], [1, 0], classes=2).rewards.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    classes = arguments.integer("classes", classes, at_least=2)
    rows = arguments.floats("features", features, ("n", "p"))
    known = arguments.actions("labels", labels, len(rows), classes)
    return ArrayEnvironment(rows, np.eye(classes)[known], layout="block")


def logged_table(
    contexts: ArrayLike,
    actions: ArrayLike,
    outcomes: ArrayLike,
    *,
    arms: int,
    probabilities: ArrayLike | None = None,
    seed: int = 0,
) -> ArrayEnvironment:
    """Turn a log of a randomised experiment, with one row per unit, into an environment.

    Parameters
    ----------
    contexts, actions, outcomes
        What is known of each unit: features (n, p), the action it got, and its outcome, NaN if it
        is missing.
    arms
        K, the number of actions.
    probabilities
        The probability with which each unit got its action, shape (n,), or that of every action,
        (n, K), as in a decision; left out if all were equally likely.
        Units are then left out at random, fewest of the least likely, so that the rest is a uniform
        log: every unit stays with the least probability over its own.
    seed
        The seed of what is left out.

    Examples
    --------
    >>> log = logged_table(np.ones((4, 1)), [0, 1, 1, 1], [2.0, 5.0, 6.0, 7.0], arms=2)
    >>> log.rewards.tolist()
    [[2.0, 0.0], [0.0, 5.0], [0.0, 6.0], [0.0, 7.0]]
    """
    features = arguments.floats("contexts", contexts, ("n", "p"))
    n = len(features)
    taken = arguments.actions("actions", actions, n, arguments.integer("arms", arms, at_least=2))
    table = np.zeros((n, arms))
    got = arguments.numeric("outcomes", outcomes)
    known = arguments.floats("outcomes", np.where(np.isnan(got), 0.0, got), (n,))
    table[np.arange(n), taken] = np.where(np.isnan(got), np.nan, known)
    kept: Any = slice(None)
    if probabilities is not None:
        chance = arguments.numeric("probabilities", probabilities)
        shape = (n,) if chance.ndim == 1 else (n, arms)
        chance = arguments.floats("probabilities", chance, shape)
        if chance.ndim == 2:
            chance = chance[np.arange(n), taken]
        if n and not (chance.min() > 0 and chance.max() <= 1):
            raise InvalidArgumentError(
                "probabilities", "above 0 and at most 1", f"{chance.min():g} to {chance.max():g}"
            )
        drawn = generator(seed_of(seed)).random(n)
        kept = np.flatnonzero(drawn * chance < chance.min(initial=1.0))
    return ArrayEnvironment(features[kept], table[kept], layout="block", logged=taken[kept])
