"""Draws that are kept: standard normals by purpose and batch, and what is made of them.

All randomness is drawn once and kept, by trial and batch number. Two grids are therefore compared
on common random numbers, and a trial's regret is a continuous function of the batches' ends, as an
optimiser wants it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch.core.arrays import AnyArray, Bools, Floats
from seqbatch.environments.base import branch, generator
from seqbatch.planning.trials.restrictions import masks

#: The draws of so many first batches are kept; those of later ones are drawn again each time.
#: Most grids that a search tries have no more batches, and memory stays bounded.
KEPT = 8
#: Beyond so many degrees of freedom a chi-square is a polynomial of a normal (Cornish and Fisher),
#: to about a thousandth, as far out as 3.5 standard deviations.
MANY_FREE = 30
#: Up to this variance, quantiles of binomials are exact.
MANY = 100


@dataclass(frozen=True, eq=False)
class Draws:
    """Kept random numbers, by a name and a set."""

    seed: SeedSequence

    @cached_property
    def _kept(self) -> dict[tuple[object, ...], AnyArray]:
        return {}

    def normals(self, purpose: int, batch: int, shape: tuple[int, ...]) -> Floats:
        """Return standard normals, the same ones whenever they are asked for."""
        return self._drawn((purpose, batch, shape), lambda random: random.standard_normal(shape))

    def below(self, purpose: int, batch: int, shape: tuple[int, ...]) -> Floats:
        """Return standard normals below the diagonals of square matrices, and zeros."""
        return self._drawn(
            (purpose, batch, shape, "below"),
            lambda random: np.tril(random.standard_normal(shape), -1),
        )

    def taken(
        self,
        rows: Floats,
        purpose: int,
        batch: int,
        shape: tuple[int, ...],
        *,
        across: bool = False,
    ) -> Floats:
        """Return rows taken at random, with replacement, the same ones whenever asked for.

        They lie side by side in the last axis but one, or `across` in the last one.
        """

        def draw(random: Generator) -> Floats:
            drawn = rows[random.integers(0, len(rows), shape)]
            return np.ascontiguousarray(np.swapaxes(drawn, -1, -2)) if across else drawn

        return self._drawn((purpose, batch, shape, "rows"), draw)

    def masks(
        self, purpose: int, batch: int, shape: tuple[int, int], eligible: tuple[float, ...]
    ) -> Bools:
        """Return who may get what, given each action's share; shape (*shape, K)."""

        def draw(random: Generator) -> Bools:
            return masks(random, shape[0] * shape[1], eligible).reshape(*shape, -1)

        return self._drawn((purpose, batch, shape, eligible), draw)

    def _drawn(self, key: tuple[Any, ...], draw: Callable[[Generator], AnyArray]) -> AnyArray:
        """Return what was drawn under this key of purpose, batch and more, or draw it."""
        if key in self._kept:
            return self._kept[key]
        drawn = draw(generator(branch(self.seed, *key[:2])))
        if key[1] < KEPT:
            self._kept[key] = drawn
        return drawn


def chi_squares(normals: Floats, freedom: Floats) -> Floats:
    """Turn standard normals into chi-squares, continuously in the degrees of freedom.

    Where these are not positive, the answer is 0.

    >>> chi_squares(np.zeros(3), np.array([-1.0, 1.0, 201.0])).round(3)
    array([  0.   ,   0.455, 200.334])
    """
    from scipy.special import gammaincinv, ndtr

    freedom = np.broadcast_to(freedom, normals.shape)
    # Entries without freedom are overwritten below; until then they must not divide by zero.
    k, square = np.maximum(freedom, 1e-9), normals**2
    half = np.sqrt(k / 2)
    result: Floats = k + normals * (2 * half + (square - 7) / (18 * half))
    result += (square - 1) * (2 / 3) - ((6 * square + 14) * square - 32) / (405 * k)
    few = (freedom > 0) & (freedom <= MANY_FREE)
    # Exact quantiles take far longer, so only those that need them get them.
    if few.any():
        result[few] = 2 * gammaincinv(freedom[few] / 2, ndtr(normals[few]))
    result[freedom <= 0] = 0.0
    return result


def binomials(
    normals: Floats, number: Floats, share: Floats | float, *, exact: float = MANY
) -> Floats:
    """Turn standard normals into binomials, by their quantiles.

    Where many are expected it is the normal law's quantile, corrected for skewness and rounded.

    Parameters
    ----------
    normals
        Standard normals, shape (n,).
    number
        How many draws, whole numbers, shape (n,).
    share
        The chance of each, a number or shape (n,).
    exact
        Up to which variance the quantiles are exact.

    Examples
    --------
    >>> binomials(np.array([-9.0, 0.0, 9.0]), np.array([10.0, 10.0, 40_000.0]), 0.5)
    array([0.00e+00, 5.00e+00, 2.09e+04])
    """
    from scipy.special import ndtr

    share = np.broadcast_to(share, number.shape)
    mean, variance = number * share, number * share * (1 - share)
    # Nothing is skewed, nor random at all, where the chance is 0 or 1.
    skewed = (variance > 0) * (1 - 2 * share) * (normals**2 - 1) / 6
    result: Floats = np.clip(np.rint(mean + np.sqrt(variance) * normals + skewed), 0, number)
    few = np.flatnonzero((variance > 0) & (variance <= exact))
    if not len(few):
        return result
    # Exact quantiles by one table for each law; few laws share all of the draws.
    laws, law = np.unique(np.stack([number[few], share[few]]), axis=1, return_inverse=True)
    order = np.argsort(law.ravel(), kind="stable")
    starts = np.searchsorted(law.ravel()[order], np.arange(laws.shape[1] + 1))
    for place, (count, chance) in enumerate(laws.T):
        mine = few[order[starts[place] : starts[place + 1]]]
        result[mine] = np.searchsorted(
            _distribution(int(count), float(chance)), ndtr(normals[mine])
        )
    return result


@lru_cache(maxsize=4_096)
def _distribution(number: int, share: float) -> Floats:
    """Return the probabilities of at most 0, 1, ... up to one less than `number`.

    They end where they are 1 but for rounding.
    """
    from scipy.special import bdtr

    mean = number * share
    most = min(float(number), math.ceil(mean + 12 * math.sqrt(mean) + 30))
    chances: Floats = bdtr(np.arange(most), number, share)
    return chances


def wishart_factors(
    normals: Floats, diagonal: Floats, freedom: Floats, *, last: Floats | None = None
) -> Floats:
    """Return lower triangular L with L L' the gram of `freedom` standard normal vectors.

    Bartlett's: normals below a diagonal of chi variables. With fewer vectors than dimensions the
    columns beyond their number are 0, as the gram's rank wants it.

    Parameters
    ----------
    normals, diagonal
        Standard normals, below the diagonal and for it, shapes (..., dim, dim) and (..., dim).
    freedom
        How many vectors, shape (...).
    last
        The last chi-square of the diagonal, where it is drawn elsewhere, shape (...).
    """
    places = np.arange(diagonal.shape[-1])
    chis = wishart_diagonal(diagonal, freedom)
    factors = normals * (chis > 0)[..., None, :]
    factors[..., places, places] = chis
    if last is not None:
        factors[..., -1, -1] = np.sqrt(last)
    return factors


def wishart_diagonal(normals: Floats, freedom: Floats) -> Floats:
    """Return the diagonal of such a root; zeros at its end where vectors are fewer."""
    left = freedom[..., None] - np.arange(normals.shape[-1])
    return np.sqrt(chi_squares(normals, left))
