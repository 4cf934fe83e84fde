"""What greedy trials start from, estimate by and answer: the past, least squares, rates."""

from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import Floats


@dataclass(frozen=True, eq=False)
class Past:
    """What is known when a campaign under way is planned anew, in whitened coordinates.

    Parameters
    ----------
    gram
        Sum of x x' for each model, shape (models, dim, dim).
    moment
        Sum of reward times x for each model, shape (models, dim).
    """

    gram: Floats
    moment: Floats


@dataclass(frozen=True, eq=False)
class Rates:
    """What a unit of each batch costs, in each trial.

    Parameters
    ----------
    regret
        The expected regret of one unit, shape (trials, batches).
    best
        The probability that a unit gets its best action, shape (trials, batches).
    """

    regret: Floats
    best: Floats


def least_squares(gram: Floats, moment: Floats) -> Floats:
    """Return the solutions, shape (..., dim); nearly those of least norm where rank is missing."""
    dim = gram.shape[-1]
    # A ridge far below any sampling error, instead of a decomposition for every trial; the constant
    # keeps even a gram of zeros solvable.
    size = np.trace(gram, axis1=-2, axis2=-1)[..., None, None] + 1e-300
    return solve(gram + 1e-10 * size * np.eye(dim), moment)


def solve(matrices: Floats, vectors: Floats) -> Floats:
    """Return the solutions of many systems, shapes (..., dim, dim) and (..., dim)."""
    solutions: Floats = np.asarray(np.linalg.solve(matrices, vectors[..., None]), dtype=np.float64)
    return solutions[..., 0]
