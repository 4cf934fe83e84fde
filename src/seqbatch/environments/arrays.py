"""Environments from arrays: labelled data, your own data and logged experiments."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from seqbatch.core import Contexts, Layout, Problem, arguments
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.environments.base import BLOCK, Block, block_draws
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True, eq=False)
class ArrayEnvironment:
    """Given contexts and rewards, in the given order.

    Parameters
    ----------
    contexts
        The contexts, in the layout's shape.
    rewards
        The reward of every unit under every action, shape (n, K); regret is measured on them.
    layout
        See :class:`~seqbatch.core.problem.Problem`.
    logged
        If only one action's outcome is known, the action that was logged; `rewards` then holds its
        outcome in that column. A simulation counts only the units whose logged action is the chosen
        one, which is unbiased if the log was uniformly random. Regret is then unknown (NaN).
    eligible
        Which actions each unit may get, booleans (n, K); None for all. Regret is measured against
        the best eligible action.

    Examples
    --------
    >>> own = ArrayEnvironment(np.ones((3, 2)), np.eye(3), layout="block")
    >>> own.actions, own.dim, own.units
    (3, 2, 3)
    """

    contexts: ArrayLike
    rewards: ArrayLike
    layout: Layout = "block"
    logged: ArrayLike | None = None
    eligible: ArrayLike | None = None
    _arrays: tuple[Floats, Floats, Integers | None, Bools | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        table = arguments.floats("rewards", self.rewards, ("n", "K"))
        dim = np.shape(self.contexts)[-1] if np.ndim(self.contexts) else 0
        problem = Problem(ends=(1,), actions=table.shape[1], dim=dim, layout=self.layout)
        contexts = Contexts.of(self.contexts, problem, eligible=self.eligible)
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

    def instance(self, seed: SeedSequence) -> "ArrayInstance":
        """Return the data; only the policy's draws depend on the seed."""
        return ArrayInstance(self, seed)


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
        n = len(table[rows])
        return Block(
            contexts=values[rows].copy(),
            means=table[rows].copy(),
            noise=np.zeros(n),
            draws=block_draws(self.seed, index, BLOCK)[:n],
            logged=None if logged is None else logged[rows],
            eligible=None if eligible is None else eligible[rows],
        )


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
    known = arguments.actions("labels", labels, (np.shape(features) or (0,))[0], classes)
    return ArrayEnvironment(features, np.eye(classes)[known], layout="block")
