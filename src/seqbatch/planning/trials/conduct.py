"""How an experiment is run: chance that is mixed in, outcomes that are lost, and late ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqbatch.core.arrays import Floats


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

    @property
    def chance(self) -> float:
        """The share of units whose action chance alone decides, one way or the other."""
        return min(self.randomised + (1 - self.randomised) * self.actions * self.floor, 1.0)

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
