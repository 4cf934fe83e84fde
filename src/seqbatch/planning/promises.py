"""What Theorem 1 promises of equal batches of arbitrary contexts, and when it promises nothing."""

import math
from dataclasses import dataclass

from seqbatch import theory


@dataclass(frozen=True, kw_only=True)
class Promises:
    """Theorem 1's bounds for one experiment.

    Parameters
    ----------
    units, actions
        T and K.
    dim
        d: that of all actions' models together.
    noise
        The standard deviation of the noise; mean rewards lie in [-1, 1] times it.
    """

    units: int
    actions: int
    dim: int
    noise: float

    @property
    def most_lost(self) -> float:
        """The most that can be lost: the range of the mean rewards, unit by unit."""
        return 2.0 * self.units * self.noise

    def of(self, largest: int) -> float:
        """Return the bound for batches of up to `largest` units; NaN where it says nothing."""
        # Proved for equal batches: as many of the largest size as hold all units, and some more.
        number = -(-self.units // largest)
        bound = self.noise * theory.sbucb_upper_bound(
            units=number * largest, dim=self.dim, actions=self.actions, batches=number
        )
        return bound if bound < self.most_lost else math.nan

    @property
    def fewest(self) -> int | None:
        """How many batches it takes to promise anything; None if no number is enough."""
        if math.isnan(self.of(1)):
            return None
        low, high = 1, self.units
        # The largest batch with which there still is a promise; a larger one promises less.
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (low, middle - 1) if math.isnan(self.of(middle)) else (middle, high)
        return -(-self.units // low)

    @property
    def enough(self) -> int:
        """How many batches match fully online (Corollary 1)."""
        return theory.adversarial_batches_for_online(units=self.units, dim=self.dim)
