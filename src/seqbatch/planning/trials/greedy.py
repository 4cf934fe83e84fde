"""What greedy trials start from, estimate by and answer: the past, least squares, rates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqbatch.core import kernels
from seqbatch.core.arrays import Floats

#: An error below this share of the value is rounding: the value is exact.
ROUNDING = 1e-9


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
    uniform: Floats
    blind: Floats
    gain: Floats | float | None
    strata: tuple[int, ...] = (0,)

    def total(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Return the regret of batches of these sizes, and its standard error.

        What is lost by chance alone is known exactly and has no error.
        """
        units = np.array(sizes, dtype=np.float64)
        return self.mean(self.regret @ units, chance=float(self.blind @ units))

    def by_scenario(self, sizes: Sequence[int]) -> Floats:
        """Return what each scenario adds to the regret of batches of these sizes.

        That is its regret times its probability, shape (scenarios,).
        """
        units = np.array(sizes, dtype=np.float64)
        lost, known = self._beside_chance(self.regret @ units, float(self.blind @ units))
        number = len(self.strata)
        means = (self.weight * lost).reshape(-1, number).mean(axis=0) / number
        return np.asarray(np.bincount(self.strata, weights=means + known), dtype=np.float64)

    def mean(self, lost: Floats, *, chance: float) -> tuple[float, float]:
        """Return the mean over trials of what is lost, and its standard error.

        Parameters
        ----------
        lost
            By each trial.
        chance
            How many units are assigned by chance alone.
        """
        lost, known = self._beside_chance(lost, chance)
        weighted = self.weight * lost
        mean = float(np.sum(known)) + float(weighted.mean())
        # Each scenario has its share of the trials, so that the differences between are no chance.
        spread = weighted.reshape(-1, len(self.strata)).std(axis=0, ddof=1)
        error = math.sqrt(float((spread**2).mean()) / len(weighted))
        return mean, error if error > ROUNDING * abs(mean) else 0.0

    def _beside_chance(self, lost: Floats, chance: float) -> tuple[Floats, Floats | float]:
        """Take out of what is lost what chance alone loses, where that is known exactly."""
        if self.gain is None:
            return lost, 0.0
        return lost - chance * self.uniform, chance * self.gain

    def median(self, lost: Floats) -> float:
        """Return what half of the cases lose less than, given what each trial loses."""
        order = np.argsort(lost)
        passed = np.cumsum(self.weight[order])
        return float(lost[order[np.searchsorted(passed, passed[-1] / 2)]])

    def best_units(self, sizes: Sequence[int]) -> float:
        """Return how many units get their best action, on average."""
        units = np.array(sizes, dtype=np.float64)
        return float(self.weight @ (self.best @ units) / self.weight.sum())


def least_squares(gram: Floats, moment: Floats) -> Floats:
    """Return the solutions, shape (..., dim); nearly those of least norm where rank is missing."""
    dim = gram.shape[-1]
    # A ridge far below any sampling error, instead of a decomposition for every trial; the constant
    # keeps even a gram of zeros solvable.
    size = np.trace(gram, axis1=-2, axis2=-1)[..., None] + 1e-300
    matrices, places = gram.copy(), np.arange(dim)
    matrices[..., places, places] += 1e-10 * size
    return solve(matrices, moment)


def solve(matrices: Floats, vectors: Floats) -> Floats:
    """Return the solutions of many systems with positive definite matrices.

    Shapes (..., dim, dim) and (..., dim).
    """
    solutions, dim = np.empty(vectors.shape), vectors.shape[-1]
    flat = np.ascontiguousarray(matrices).reshape(-1, dim, dim)
    wanted = np.ascontiguousarray(vectors).reshape(-1, dim)
    kernels.solve_positive(flat, wanted, solutions.reshape(-1, dim))
    return solutions
