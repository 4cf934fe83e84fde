"""A trajectory: what is kept of one run."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqbatch.core import Estimate, Problem
from seqbatch.core.arrays import Floats, Integers
from seqbatch.environments import Environment
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import Grid
from seqbatch.policies import Policy


@dataclass(frozen=True)
class Trajectory:
    """A run, batch by batch, and its regret at chosen units in between.

    Parameters
    ----------
    ends
        Units seen by each batch's end, shape (M,).
    regret
        Regret so far at each batch's end, shape (M,).
    reward
        Mean reward of the chosen actions so far (without noise), shape (M,).
    counts
        How often each action was taken in each batch, shape (M, K).
    error
        |theta_hat - theta| after each batch, over all models; NaN where it is not known.
    eigenvalue
        Smallest eigenvalue of the design so far, over all models, after each batch.
    checkpoints, checkpoint_regret
        Units at which the regret so far was requested, and that regret.
    units_read
        How many units of the environment were read: more than the last end when logged data are
        replayed, because only matching units count.
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


def problem_of(environment: Environment, grid: Grid) -> Problem:
    """Return the problem that an environment poses on a grid, if it has units enough."""
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


def diagnostics(state: Any, policy: Policy, theta: Floats | None) -> tuple[float, float]:
    """Return the estimation error and the design's smallest eigenvalue, as far as known."""
    error = eigenvalue = float("nan")
    summary = getattr(policy, "summary", None)
    if summary is not None and theta is not None:
        estimate: Estimate = summary(state)
        error = float(np.linalg.norm(estimate.theta - theta))
    # A user's own policy may keep its state in any form; then there is nothing to report.
    if evidence := getattr(state, "evidence", ()):
        gram = sum(part.gram for part in evidence)
        eigenvalue = float(np.linalg.eigvalsh(gram).min())
    return error, eigenvalue
