"""Proposals: sizes for the remaining batches, with what the outcomes so far say."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from seqbatch.core.arrays import Floats

#: The quantiles of a posterior that are shown: 90% lies between them.
LOW, HIGH = 0.05, 0.95


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """The posterior of a quantity: its mean, and a 90% interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> "Posterior":
        """Return the posterior of equally plausible values."""
        low, high = np.quantile(values, (LOW, HIGH))
        return cls(mean=float(values.mean()), low=float(low), high=float(high))


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Proposed sizes for the remaining batches, next to the planned ones.

    Parameters
    ----------
    seen
        The number of units assigned so far.
    planned, sizes
        The remaining batches, as planned so far and as proposed.
    explored
        The share of the next batch that should get a random action, 0 for no more than declared: if
        the first batch taught too little, choices based on it would teach little more.
    regret, error
        The expected regret of the remaining units with the planned sizes, and its standard error.
    saving, saving_error
        How much less regret is expected with the proposed sizes, and its standard error.
    stated_effect
        The effect assumed before; None if none was stated.
    effect, noise
        Their posteriors.
    """

    seen: int
    planned: tuple[int, ...]
    sizes: tuple[int, ...]
    explored: float
    regret: float
    error: float
    saving: float
    saving_error: float
    stated_effect: float | None
    effect: Posterior
    noise: Posterior

    @property
    def changes(self) -> bool:
        """Whether the proposal differs from the plan."""
        return self.sizes != self.planned or self.explored > 0

    def plain(self) -> dict[str, Any]:
        """Return the proposal as plain values."""
        return {**asdict(self), "planned": list(self.planned), "sizes": list(self.sizes)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Proposal":
        """Return the proposal from plain values."""
        return cls(
            **{
                **plain,
                "planned": tuple(plain["planned"]),
                "sizes": tuple(plain["sizes"]),
                "effect": Posterior(**plain["effect"]),
                "noise": Posterior(**plain["noise"]),
            }
        )
