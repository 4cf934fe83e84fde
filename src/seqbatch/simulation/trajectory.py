"""The trajectory of one simulated run: regret, reward and diagnostics, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from seqbatch.core import Contexts, Estimate, Problem
from seqbatch.core.arrays import Floats, Integers
from seqbatch.display import counted, number
from seqbatch.document import Frames, Table, shown
from seqbatch.environments import BLOCK, Block, Environment, Instance
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.policies import Policy

if TYPE_CHECKING:
    from seqbatch.inference import Rows


@dataclass(frozen=True)
class Trajectory(Frames):
    """A run, batch by batch, and its regret at chosen units in between.

    Parameters
    ----------
    ends
        Number of units by each batch's end, shape (M,).
    regret
        Cumulative regret at each batch's end, shape (M,).
    reward
        Cumulative mean reward of the chosen actions (without noise), shape (M,).
    counts
        How often each action was chosen in each batch, shape (M, K).
    error
        |theta_hat - theta| after each batch, over all models; NaN if unknown.
    eigenvalue
        Smallest eigenvalue of the design so far, over all models, after each batch.
    checkpoints, checkpoint_regret
        The requested units, and the cumulative regret at each.
    simple_regret
        How much a unit loses on average, beside its best action, under the rule for units after the
        last batch: the highest estimated mean. Measured on up to 4,096 units that follow, or on the
        last ones where there are no more. NaN if unknown: without learning from the last batch, on
        devices, for logged data, and for policies of your own without a method `recommended`.
    units_read
        The number of units read from the environment: with logged data more than the last end,
        because only matching units count.
    rows
        The units as rows for :mod:`seqbatch.inference`, if the log was kept; None otherwise.

    Examples
    --------
    >>> from seqbatch import grids
    >>> from seqbatch.environments import Sphere
    >>> from seqbatch.policies import RBGL
    >>> from seqbatch.simulation import simulate
    >>> simulate(RBGL(), Sphere(dim=2, actions=3), grids.explicit([50, 200]), seed=1)
    <Trajectory: 200 units in 2 batches, 3 actions; regret 42.633, reward 78.499>
    """

    ends: Integers
    regret: Floats
    reward: Floats
    counts: Integers
    error: Floats
    eigenvalue: Floats
    checkpoints: Integers
    checkpoint_regret: Floats
    units_read: int
    simple_regret: float = nan
    rows: Rows | None = None

    def __repr__(self) -> str:
        batches, actions = self.counts.shape
        return (
            f"<Trajectory: {counted(self.ends[-1], 'unit')} in {counted(batches, 'batch')}, "
            f"{actions} actions; "
            f"regret {number(self.regret[-1])}, reward {number(self.reward[-1])}>"
        )

    def tables(self) -> list[Table]:
        """Return the run batch by batch, without columns that are unknown."""
        columns: dict[str, list[Any]] = {
            "batch": list(range(1, len(self.ends) + 1)),
            "units": self.ends.tolist(),
            "regret": self.regret.tolist(),
            "reward": self.reward.tolist(),
            "estimation error": self.error.tolist(),
            "least eigenvalue": self.eigenvalue.tolist(),
        }
        known = {name: part for name, part in columns.items() if not np.isnan(part).all()}
        taken = Table(
            "How often each action was chosen",
            ("batch", *(f"action {action}" for action in range(self.counts.shape[1]))),
            [(m, *counts) for m, counts in enumerate(self.counts.tolist(), start=1)],
        )
        progress = Table("So far", tuple(known), list(zip(*known.values(), strict=True)))
        return [progress, taken]

    def _repr_html_(self) -> str:
        return shown(repr(self), self.tables())


def problem_of(environment: Environment, grid: Grid) -> Problem:
    """Return the problem of an environment on a grid, after checking that it has enough units."""
    if environment.units is not None and environment.units < grid.units:
        raise InvalidArgumentError(
            "grid",
            f"of at most the environment's {environment.units} units",
            f"{grid.units} units",
        )
    return Problem(
        ends=grid.ends,
        actions=environment.actions,
        dim=environment.dim,
        layout=environment.layout,
    )


def too_short(problem: Problem, seen: int, read: int) -> InvalidArgumentError:
    """Return the error for an environment whose units end before the grid does."""
    return InvalidArgumentError(
        "environment",
        f"long enough to fill a grid of {problem.units} units",
        f"{seen} usable units among {read}",
        "With logged data, only units whose logged action matches count.",
    )


def diagnostics(state: Any, policy: Policy, theta: Floats | None) -> tuple[float, float]:
    """Return the estimation error and the design's smallest eigenvalue; NaN if unknown."""
    error = eigenvalue = float("nan")
    summary = getattr(policy, "summary", None)
    if summary is not None and theta is not None:
        estimate: Estimate = summary(state)
        error = float(np.linalg.norm(estimate.theta - theta))
    # Your own policy may store its state in any form; then there is nothing to report.
    if evidence := getattr(state, "evidence", ()):
        gram = sum(part.gram for part in evidence)
        eigenvalue = float(np.linalg.eigvalsh(gram).min())
    return error, eigenvalue


class LaterUnits:
    """The units of an instance on which final rules are judged: a block that no run has learned."""

    def __init__(self, environment: Environment, instance: Instance) -> None:
        self.units, self.block = environment.units, cache(instance.block)

    def after(self, units: int) -> Block:
        """Return the block after so many units, or the last one where there are no more."""
        index = units // BLOCK + 1
        if self.units is not None and self.units <= index * BLOCK:
            index = (units - 1) // BLOCK
        return self.block(index)

    def simple_regret(self, policy: Policy, state: Any, problem: Problem) -> float:
        """Return how much a unit loses under a policy's final rule; NaN if that is unknown."""
        recommended = getattr(policy, "recommended", None)
        if recommended is None:
            return nan
        block = self.after(problem.units)
        shares: Floats = recommended(state, Contexts(block.contexts, problem, block.eligible))
        return float((block.best - (shares * block.means).sum(axis=1)).mean())
