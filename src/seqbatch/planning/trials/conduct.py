"""How a simulated experiment is run: randomised units, lost and late outcomes, restrictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from seqbatch.allocation import Limits, limited
from seqbatch.core.arrays import Bools, Floats
from seqbatch.environments.base import generator
from seqbatch.environments.restricted import drawn
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# Who may get which action, and how many may: what chance does within such restrictions.


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


# ----------------------------------------------------------------------
# How an experiment is run: chance that is mixed in, outcomes that are lost, and late ones.


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """What happens beside the policy's own choices.

    Parameters
    ----------
    randomised
        The share of units whose action is drawn uniformly at random, whatever the policy says.
    floor
        The least probability of every action for all other units.
    actions
        K, how many actions there are; a floor needs it.
    missing
        The share of outcomes that never come; which ones is independent of all else.
    delay
        How many batches late outcomes are: those of batch m are first used in batch m + 1 + delay.
    explored
        At least this share of the first batch that outcomes are known for gets a random action.
    eligible
        The share of units that may get each action; () where all may get all.
    capacity
        The most units of each action as a share of each batch, 1 without a limit; () where there
        are none.

    Examples
    --------
    >>> Conduct(randomised=0.1, delay=1).blind(4)
    array([1. , 1. , 0.1, 0.1])
    """

    randomised: float = 0.0
    floor: float = 0.0
    actions: int = 1
    missing: float = 0.0
    delay: int = 0
    explored: float = 0.0
    eligible: tuple[float, ...] = ()
    capacity: tuple[float, ...] = ()

    @property
    def restricted(self) -> bool:
        """Whether some units may not get some action, or an action is short."""
        return bool(self.eligible or self.capacity)

    @property
    def eligibility(self) -> tuple[float, ...]:
        """The share of units that may get each action."""
        return self.eligible or (1.0,) * self.actions

    @property
    def room(self) -> Floats:
        """The most units of each action, as a share of a batch; shape (K,)."""
        return np.array(self.capacity or (1.0,) * self.actions)

    @property
    def own_room(self) -> Floats:
        """What chance leaves of it, as a share of the units that the policy decides on."""
        own = 1 - self.chance
        if not own or not self.capacity:
            return np.ones(self.actions)
        left = (self.room - self.chance * self.uniform.shares) / own
        return np.where(self.room < 1, np.maximum(left, 0.0), 1.0)

    @property
    def uniform(self) -> UniformLaw:
        """How units are assigned by chance alone."""
        return uniform_law(self.eligibility, tuple(self.room.tolist()))

    @property
    def chance(self) -> float:
        """The share of units whose action chance alone decides, one way or the other."""
        # A floor holds for what a unit may get.
        within = max(sum(self.eligible), 1.0) if self.eligible else self.actions
        return min(self.randomised + (1 - self.randomised) * within * self.floor, 1.0)

    @property
    def returned(self) -> float:
        """The share of outcomes that come back."""
        return 1 - self.missing

    def blind(self, batches: int, *, informed: bool = False) -> Floats:
        """Return the share of each batch that is assigned uniformly at random.

        Parameters
        ----------
        batches
            How many there are.
        informed
            Whether outcomes are known before the first one.
        """
        shares = np.full(batches, self.chance)
        start = 0 if informed else 1 + self.delay
        shares[:start] = 1.0
        shares[start : start + 1] = max(self.chance, self.explored)
        return shares

    def known(self, sizes: Sequence[int]) -> list[float]:
        """Return how many outcomes each batch can be decided by, on average."""
        ends = [0, *np.cumsum(sizes).tolist()]
        return [self.returned * ends[max(batch - self.delay, 0)] for batch in range(len(sizes))]
