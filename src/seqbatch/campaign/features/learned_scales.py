"""Learn from the first wave: bounds, scales, fill values and rare levels.

Everything is computed from sorted values or counts. The result does not depend on the order of the
units or on the pieces they come in, not even by rounding.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from seqbatch.campaign.spec.features import NumberRules, NumericRules, Scaling
from seqbatch.core.arrays import Floats


@dataclass(frozen=True)
class FrozenNumber:
    """How a number is encoded once all of its settings are known.

    Parameters
    ----------
    low, high
        The bounds to which it is clipped; None if there are none.
    fill
        The value that replaces a missing one.
    mean, sd
        The number to subtract, and the one to divide by; a number with sd 0 carries no information.
    indicator
        Whether a column indicates missing values.
    clipped
        The number of first-wave values outside the wave's own quantiles.
    """

    low: float | None
    high: float | None
    fill: float
    mean: float
    sd: float
    indicator: bool
    clipped: int = 0


@dataclass(frozen=True)
class LearnedFeatures:
    """What was learned from the first wave, by column: numbers, and levels that are too rare."""

    numbers: Mapping[str, FrozenNumber] = field(default_factory=dict)
    rare: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return plain values, from which :meth:`of` restores this object."""
        return {
            "numbers": {name: asdict(number) for name, number in self.numbers.items()},
            "rare": {name: list(levels) for name, levels in self.rare.items()},
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "LearnedFeatures":
        """Restore the object from plain values."""
        return cls(
            {name: FrozenNumber(**number) for name, number in plain["numbers"].items()},
            {name: tuple(levels) for name, levels in plain["rare"].items()},
        )


def learn_number(values: Floats, rules: NumberRules) -> FrozenNumber:
    """Learn a number's encoding from the values of the first wave; NaN means missing.

    Values are first clipped to the declared range or to their own quantiles; mean, standard
    deviation and median are those of the clipped values.
    """
    present = np.sort(values[~np.isnan(values)])
    count = len(present)
    low, high = rules.range or (None, None)
    if rules.range is None and rules.quantiles is not None and count:
        low, high = _bounds(present, *rules.quantiles)
    clipped = 0 if rules.range else outside(present, low, high)
    bounded = present if low is None else np.clip(present, low, high)
    missing = (len(values) - count) / max(len(values), 1)
    return frozen_number(
        rules, bounds=(low, high), clipped=clipped, moments=_moments(bounded), missing=missing
    )


def frozen_number(
    rules: NumberRules,
    *,
    bounds: tuple[float | None, float | None],
    clipped: int,
    moments: tuple[float, float, float],
    missing: float,
) -> FrozenNumber:
    """Return a number's encoding.

    Parameters
    ----------
    rules
        Its rules.
    bounds, clipped
        Its bounds, and how many values of the first wave were outside them.
    moments
        Mean, standard deviation and median of the clipped values.
    missing
        The share of missing values.
    """
    (low, high), (mean, deviation, median) = bounds, moments
    fills = {"refuse": 0.0, "mean": mean, "median": median}
    fixed = scaling_of(rules)
    return FrozenNumber(
        low=low,
        high=high,
        fill=fills[rules.missing] if isinstance(rules.missing, str) else float(rules.missing),
        mean=mean if fixed is None else fixed[0],
        sd=deviation if fixed is None else fixed[1],
        indicator=rules.indicates and missing > rules.indicator,
        clipped=clipped,
    )


def outside(values: Floats, low: float | None, high: float | None) -> int:
    """Return how many values lie outside the bounds; missing values do not count."""
    if low is None or high is None:
        return 0
    return int(np.count_nonzero((values < low) | (values > high)))


def _bounds(ordered: Floats, low: float, high: float) -> tuple[float, float]:
    """Return bounds with at most these shares of all values outside them, rounded down."""
    count = len(ordered)
    # Rounding may put the product slightly below a whole number.
    below, above = (math.floor(share * count + 1e-9) for share in (low, 1 - high))
    below = min(below, count - 1)
    return float(ordered[below]), float(ordered[max(count - 1 - above, below)])


def _moments(ordered: Floats) -> tuple[float, float, float]:
    """Return mean, population standard deviation and median of sorted values; 0 if empty."""
    count = len(ordered)
    if not count:
        return 0.0, 0.0, 0.0
    median = ordered[(count - 1) // 2] / 2 + ordered[count // 2] / 2
    # The mean of equal numbers may differ from them by rounding, which scaling would magnify.
    if ordered[0] == ordered[-1]:
        return float(ordered[0]), 0.0, float(ordered[0])
    mean = ordered.sum() / count
    return float(mean), float(np.sqrt(((ordered - mean) ** 2).sum() / count)), float(median)


def scaling_of(rules: NumberRules) -> tuple[float, float] | None:
    """Return the declared mean and standard deviation, or None if they are learned."""
    if not isinstance(rules, NumericRules) or rules.scale == "learn":
        return None
    return (rules.scale.mean, rules.scale.sd) if isinstance(rules.scale, Scaling) else (0.0, 1.0)
