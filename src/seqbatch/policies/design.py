"""The design of a first batch: which actions teach most, before anything is known of rewards.

In the shared layout every action has its own vector, and one parameter is learned from all of
them. In the first batch any action is as good as any other for reward, but not for learning. A
D-optimal design gives each unit the action a of highest x_a' A^-1 x_a, where A is the mean of x x'
over the actions that are so chosen: no other choice has a larger determinant of A.

*Guarantee.* At the optimum the mean of max_a x_a' A^-1 x_a is d (Kiefer and Wolfowitz, for a
distribution of units). All vectors count, none of the outcomes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

#: Units that a design is computed from, steps of Frank-Wolfe, and the part of every column's mean
#: square that is added to it. Designs of unit vectors in all directions grow by 0.001 / d so.
UNITS, STEPS, ADDED = 2_000, 30, 0.001


def design_of(contexts: ArrayLike) -> Floats:
    """Return A, the mean of x x' over the vectors that a D-optimal first batch chooses.

    Pass it to a policy as `design`, together with ``first="design"``.

    Parameters
    ----------
    contexts
        The vectors of units like those of the first batch, (n, K, d), known before any outcome. The
        first 2,000 units are used.

    Examples
    --------
    >>> units = np.random.default_rng(1).standard_normal((2_000, 10, 3))
    >>> design = design_of(units)
    >>> widths = (units @ root_of(design).T) ** 2
    >>> round(float(widths.sum(axis=2).max(axis=1).mean()), 2)
    3.0
    """
    given = arguments.floats("contexts", contexts, ("n", "K", "d"))[:UNITS]
    if not len(given):
        raise InvalidArgumentError("contexts", "at least one unit", "none")
    design = _moments(given.reshape(-1, given.shape[2]))
    for step in range(STEPS):
        chosen = squares(given, root_of(design)).argmax(axis=1)
        taken = given[np.arange(len(given)), chosen]
        design = design + 2 / (step + 3) * (_moments(taken) - design)
    return design


def squares(contexts: Floats, root: Floats) -> Floats:
    """Return |root x|^2 for every unit and action."""
    seen = contexts @ root.T
    total: Floats = (seen * seen).sum(axis=2)
    return total


def root_of(design: Floats) -> Floats:
    """Return lower triangular R with R' R the inverse of the design, a little of it added."""
    sizes = np.diagonal(design)
    # Columns that are 0, or depend on others, leave the design singular. By column: the unit of
    # measurement of a column must not decide.
    added = design + ADDED * np.diag(np.where(sizes > 0, sizes, 1.0))
    root: Floats = np.linalg.inv(np.linalg.cholesky(added))
    return root


def checked(design: ArrayLike | None) -> tuple[tuple[float, ...], ...] | None:
    """Return a design as plain rows; refuse what is no symmetric matrix without negative squares.

    >>> checked([[2, 0], [0, 1]])
    ((2.0, 0.0), (0.0, 1.0))
    """
    if design is None:
        return None
    matrix = arguments.floats("design", design, ("d", "d"))
    near = 1e-9 * max(float(np.abs(matrix).max(initial=0.0)), np.finfo(float).tiny)
    square = matrix.shape[0] == matrix.shape[1] > 0
    if not (
        square
        and (np.abs(matrix - matrix.T) <= near).all()
        and np.linalg.eigvalsh(matrix).min() >= -near * len(matrix)
    ):
        raise InvalidArgumentError(
            "design",
            "a symmetric matrix of d rows with no negative eigenvalue, as from design_of",
            f"shape {matrix.shape}",
        )
    return tuple(tuple(row) for row in matrix.tolist())


def _moments(rows: Floats) -> Floats:
    """Return the mean of x x'."""
    mean: Floats = rows.T @ rows / len(rows)
    return mean
