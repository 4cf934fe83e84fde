"""How a simulated experiment is run: randomisation, missing and late outcomes, restrictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.random import Generator

from seqbatch.allocation import Limits, limited
from seqbatch.core.arrays import Bools, Floats
from seqbatch.environments.base import generator
from seqbatch.environments.restricted import drawn
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# Eligibility and capacity: random assignment within such restrictions.


#: What the experiment is for: what it earns, or the choice of one action for all units afterwards.
Purpose = Literal["earn", "choose"]

#: The number of units from which the shares of random assignment are computed.
UNITS = 8_192


@dataclass(frozen=True, eq=False)
class UniformLaw:
    """Random assignment within restrictions.

    Parameters
    ----------
    weights
        The relative probability of each action among a unit's eligible actions; shape (K,).
    shares
        The share of all units that get each action; shape (K,).
    """

    weights: Floats
    shares: Floats


@lru_cache(maxsize=64)
def uniform_law(eligible: tuple[float, ...], capacity: tuple[float, ...]) -> UniformLaw:
    """Return random assignment: uniform among eligible actions, reduced where capacity is short.

    Parameters
    ----------
    eligible
        The share of units that may get each action.
    capacity
        The maximum share of all units that may get each action.

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
                "enough for all units, given their eligible actions",
                f"{list(capacity)} with eligible shares {list(eligible)}",
            ) from None
        weights, table = np.exp(-kept.prices), kept.probabilities
    return UniformLaw(weights, table.mean(axis=0))


def masks(random: Generator, units: int, eligible: tuple[float, ...]) -> Bools:
    """Draw which actions each unit may get, shape (units, K)."""
    every = np.ones((units, len(eligible)), dtype=np.bool_)
    return drawn(random, every, np.array(eligible))


@lru_cache(maxsize=64)
def choices(eligible: tuple[float, ...]) -> tuple[tuple[int, float], ...]:
    """Return the possible numbers of eligible actions of a unit, with probabilities.

    >>> [(number, round(chance, 3)) for number, chance in choices((1.0, 0.5, 0.5))]
    [(1, 0.25), (2, 0.5), (3, 0.25)]
    """
    chances = np.ones(1)
    for share in eligible:
        chances = np.convolve(chances, [1 - share, share])
    # A unit without eligible actions gets one all the same.
    chances[1] += chances[0]
    return tuple(
        (number, chance) for number, chance in enumerate(chances.tolist()) if number and chance
    )


def even(mask: Bools, weights: Floats) -> Floats:
    """Return the probabilities of random assignment among eligible actions, shape (n, K)."""
    table: Floats = np.where(mask, weights, 0.0)
    table /= table.sum(axis=1, keepdims=True)
    return table


# ----------------------------------------------------------------------
# The conduct of an experiment.


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """How an experiment is run besides the policy's own choices.

    Parameters
    ----------
    randomised
        The share of units whose action is drawn uniformly at random, whatever the policy says.
    floor
        The minimum probability of every action for all other units.
    actions
        K, the number of actions; required with a floor.
    missing
        The share of outcomes that never arrive, independently of all else.
    delay
        By how many batches outcomes are late: those of batch m are first used in batch
        m + 1 + delay.
    explored
        The minimum share of random actions in the first batch with known outcomes.
    eligible
        The share of units that may get each action; () if all may get all.
    capacity
        The maximum share of each batch that may get each action, 1 for no limit; () if there are no
        limits.
    after
        The number of units that get the final rule when all outcomes are known: a roll-out.
    purpose
        ``"choose"``: only the action that is chosen for all units at the end counts.

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
    after: int = 0
    purpose: Purpose = "earn"

    @property
    def restricted(self) -> bool:
        """Whether eligibility or capacity restricts actions."""
        return bool(self.eligible or self.capacity)

    @property
    def looks_beyond(self) -> bool:
        """Whether units after the experiment count."""
        return self.purpose == "choose" or self.after > 0

    @property
    def eligibility(self) -> tuple[float, ...]:
        """The share of units that may get each action."""
        return self.eligible or (1.0,) * self.actions

    @property
    def room(self) -> Floats:
        """The capacity of each action, as a share of a batch; shape (K,)."""
        return np.array(self.capacity or (1.0,) * self.actions)

    @property
    def own_room(self) -> Floats:
        """The capacity left by random units, as a share of the units that the policy decides."""
        own = 1 - self.chance
        if not own or not self.capacity:
            return np.ones(self.actions)
        left = (self.room - self.chance * self.uniform.shares) / own
        return np.where(self.room < 1, np.maximum(left, 0.0), 1.0)

    @property
    def uniform(self) -> UniformLaw:
        """Random assignment within the restrictions."""
        return uniform_law(self.eligibility, tuple(self.room.tolist()))

    @property
    def chance(self) -> float:
        """The share of units whose action is random, by randomisation or by the floor."""
        # A floor applies to a unit's eligible actions.
        within = max(sum(self.eligible), 1.0) if self.eligible else self.actions
        return min(self.randomised + (1 - self.randomised) * within * self.floor, 1.0)

    @property
    def returned(self) -> float:
        """The share of outcomes that arrive."""
        return 1 - self.missing

    def blind(self, batches: int, *, informed: bool = False) -> Floats:
        """Return the share of each batch that is assigned uniformly at random.

        Parameters
        ----------
        batches
            The number of batches.
        informed
            Whether outcomes are known before the first batch.
        """
        shares = np.full(batches, self.chance)
        start = 0 if informed else 1 + self.delay
        shares[:start] = 1.0
        shares[start : start + 1] = max(self.chance, self.explored)
        return shares

    def known(self, sizes: Sequence[int]) -> list[float]:
        """Return the expected number of known outcomes when each batch is assigned."""
        ends = [0, *np.cumsum(sizes).tolist()]
        return [self.returned * ends[max(batch - self.delay, 0)] for batch in range(len(sizes))]
