"""What greedy trials start from, estimate by and answer: the past, least squares, rates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Floats
from seqbatch.planning.trials.totals import Totals


@dataclass(frozen=True, eq=False)
class Past:
    """What is known when a campaign under way is planned anew, in whitened coordinates.

    Parameters
    ----------
    gram
        Sum of x x' for each model, shape (models, dim, dim).
    moment
        Sum of reward times x for each model, shape (models, dim).
    common
        The standard deviation of what the parameters of all models have in common, which moves no
        choice; 0 where there is no such part.
    """

    gram: Floats
    moment: Floats
    common: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Rates:
    """What a unit of each batch costs, in each trial.

    Parameters
    ----------
    regret
        The expected regret of one unit, shape (trials, batches).
    best
        The probability that a unit gets its best action, shape (trials, batches).
    weight
        How much each trial counts, 1 on average: rare failures that carry the mean are drawn more
        often than they happen, and count less in return. Shape (trials,).
    luck
        The part of it that first batches have, of mean 1 over all trials; shape (trials,).
    uniform
        The regret of a unit whose action is drawn uniformly at random, shape (trials,).
    blind
        The share of each batch that is assigned so, shape (batches,).
    gain
        What each stratum adds to the mean of `uniform`, where it is known exactly; shape
        (strata,), or one number.
    strata
        The scenarios that the trials are of, by number, one trial after the other, over and over.
    """

    regret: Floats
    best: Floats
    weight: Floats
    luck: Floats
    uniform: Floats
    blind: Floats
    gain: Floats | float | None
    strata: tuple[int, ...] = (0,)

    def totals(self, sizes: Sequence[int]) -> Totals:
        """Return what each trial loses in batches of these sizes."""
        units = np.array(sizes, dtype=np.float64)
        return self.summed(self.regret @ units, self.best @ units, chance=float(self.blind @ units))

    def summed(self, lost: Floats, best: Floats, *, chance: float) -> Totals:
        """Return totals of these trials that were added up elsewhere."""
        number = len(self.strata)
        return Totals(
            lost=lost,
            best=best,
            weight=self.weight,
            luck=self.luck,
            uniform=self.uniform,
            chance=np.full(number, chance),
            gain=None if self.gain is None else np.broadcast_to(self.gain, number),
            strata=self.strata,
        )

    def total(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Return the regret of batches of these sizes, and its standard error."""
        return self.totals(sizes).mean()

    def by_scenario(self, sizes: Sequence[int]) -> Floats:
        """Return what each scenario adds to the regret of batches of these sizes."""
        return self.totals(sizes).by_scenario()


def least_squares(gram: Floats, moment: Floats) -> Floats:
    """Return the solutions, shape (..., dim); nearly those of least norm where rank is missing."""
    # A ridge far below any sampling error, instead of a decomposition for every trial; the constant
    # keeps even a gram of zeros solvable.
    return solve(gram, moment, ridge=1e-10 * (np.trace(gram, axis1=-2, axis2=-1) + 1e-300))


def solve(matrices: Floats, vectors: Floats, *, ridge: Floats | float = 0.0) -> Floats:
    """Return the solutions of many systems with positive definite matrices.

    Shapes (..., dim, dim) and (..., dim); `ridge`, one number or shape (...), is added to the
    matrices' diagonals.
    """
    solutions, dim = np.empty(vectors.shape), vectors.shape[-1]
    flat = np.ascontiguousarray(matrices).reshape(-1, dim, dim)
    wanted = np.ascontiguousarray(vectors).reshape(-1, dim)
    added = np.broadcast_to(ridge, vectors.shape[:-1]).reshape(-1)
    kernels.solve_positive(flat, added, wanted, solutions.reshape(-1, dim))
    return solutions
