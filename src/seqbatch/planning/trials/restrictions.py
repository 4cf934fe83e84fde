"""Who may get which action, and how many may: what chance does within such restrictions."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from seqbatch.allocation import Limits, limited
from seqbatch.core.arrays import Bools, Floats
from seqbatch.environments.base import generator
from seqbatch.environments.restricted import drawn
from seqbatch.errors import InvalidArgumentError

#: By so many units the shares of chance are found.
UNITS = 8_192


@dataclass(frozen=True, eq=False)
class UniformLaw:
    """How units are assigned by chance alone.

    Parameters
    ----------
    weights
        How likely each action is among those that a unit may get, up to a factor; shape (K,).
    shares
        The share of all units that gets each action; shape (K,).
    """

    weights: Floats
    shares: Floats


@lru_cache(maxsize=64)
def uniform_law(eligible: tuple[float, ...], capacity: tuple[float, ...]) -> UniformLaw:
    """Return how chance assigns: evenly among what a unit may get, less where room is short.

    Parameters
    ----------
    eligible
        The share of units that may get each action.
    capacity
        The most units of each action, as a share of all.

    Examples
    --------
    >>> uniform_law((1.0, 1.0, 1.0), (1.0, 1.0, 0.1)).shares.round(3)
    array([0.45, 0.45, 0.1 ])
    """
    mask = masks(generator(np.random.SeedSequence(1)), UNITS, eligible)
    weights = np.ones(len(eligible))
    table = even(mask, weights)
    most = np.where(np.array(capacity) < 1, UNITS * np.array(capacity), np.inf)
    if (table.sum(axis=0) > most).any():
        try:
            kept = limited(None, table, Limits(at_most=most), eligible=mask)
        except InvalidArgumentError:
            raise InvalidArgumentError(
                "capacity",
                "enough for all units, given what each of them may get",
                f"{list(capacity)} where shares {list(eligible)} are eligible",
            ) from None
        weights, table = np.exp(-kept.prices), kept.probabilities
    return UniformLaw(weights, table.mean(axis=0))


def masks(random: Generator, units: int, eligible: tuple[float, ...]) -> Bools:
    """Draw who may get what, shape (units, K)."""
    everyone = np.ones((units, len(eligible)), dtype=np.bool_)
    return drawn(random, everyone, np.array(eligible))


@lru_cache(maxsize=64)
def choices(eligible: tuple[float, ...]) -> tuple[tuple[int, float], ...]:
    """Return how many actions a unit may choose from, and how likely each number is.

    >>> [(number, round(chance, 3)) for number, chance in choices((1.0, 0.5, 0.5))]
    [(1, 0.25), (2, 0.5), (3, 0.25)]
    """
    chances = np.ones(1)
    for share in eligible:
        chances = np.convolve(chances, [1 - share, share])
    # Who may get nothing gets one all the same.
    chances[1] += chances[0]
    return tuple(
        (number, chance) for number, chance in enumerate(chances.tolist()) if number and chance
    )


def even(mask: Bools, weights: Floats) -> Floats:
    """Return the probabilities of chance among what each unit may get, shape (n, K)."""
    table: Floats = np.where(mask, weights, 0.0)
    table /= table.sum(axis=1, keepdims=True)
    return table
