"""What the encoder learns from the first wave: bounds, scales, fill values, rare levels.

All of it is computed from sorted values or counts, so that neither the order of the units nor the
pieces they come in have a part in it, not even by rounding.
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
    """How a number is treated once nothing about it is open.

    Parameters
    ----------
    low, high
        The bounds that it is moved to; None where there are none.
    fill
        What stands for a missing one.
    mean, sd
        What is subtracted, and by what is divided; a number without spread (0) says nothing.
    indicator
        Whether a column says which are missing.
    clipped
        How many values of the first wave lie beyond its own quantiles.
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
    """What the first wave taught, by column: numbers, and the levels that are too rare."""

    numbers: Mapping[str, FrozenNumber] = field(default_factory=dict)
    rare: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return it as plain values, from which :meth:`of` makes it again."""
        return {
            "numbers": {name: asdict(number) for name, number in self.numbers.items()},
            "rare": {name: list(levels) for name, levels in self.rare.items()},
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "LearnedFeatures":
        """Return what plain values say."""
        return cls(
            {name: FrozenNumber(**number) for name, number in plain["numbers"].items()},
            {name: tuple(levels) for name, levels in plain["rare"].items()},
        )


def learn_number(values: Floats, rules: NumberRules) -> FrozenNumber:
    """Return what the values of the first wave teach; NaN is a missing one.

    Values are first moved to the declared range or to their own quantiles; mean, standard deviation
    and median are those of what is then there.
    """
    present = np.sort(values[~np.isnan(values)])
    count = len(present)
    low, high = rules.range or (None, None)
    if rules.range is None and rules.quantiles is not None and count:
        low, high = _bounds(present, *rules.quantiles)
    clipped = 0 if rules.range else outside(present, low, high)
    bounded = present if low is None else np.clip(present, low, high)
    mean, deviation, median = _moments(bounded)
    fills = {"refuse": 0.0, "mean": mean, "median": median}
    missing = (len(values) - count) / max(len(values), 1)
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
    """Return how many values lie beyond bounds; a missing one lies nowhere."""
    if low is None or high is None:
        return 0
    return int(np.count_nonzero((values < low) | (values > high)))


def _bounds(ordered: Floats, low: float, high: float) -> tuple[float, float]:
    """Return values beyond which there are at most these shares of all, rounded down."""
    count = len(ordered)
    # A product may miss the whole number that is meant.
    below, above = (math.floor(share * count + 1e-9) for share in (low, 1 - high))
    below = min(below, count - 1)
    return float(ordered[below]), float(ordered[max(count - 1 - above, below)])


def _moments(ordered: Floats) -> tuple[float, float, float]:
    """Return mean, population standard deviation and median of ordered values, 0 of none."""
    count = len(ordered)
    if not count:
        return 0.0, 0.0, 0.0
    median = ordered[(count - 1) // 2] / 2 + ordered[count // 2] / 2
    # The mean of equal numbers may miss them by a rounding, which must not be scaled up.
    if ordered[0] == ordered[-1]:
        return float(ordered[0]), 0.0, float(ordered[0])
    mean = ordered.sum() / count
    return float(mean), float(np.sqrt(((ordered - mean) ** 2).sum() / count)), float(median)


def scaling_of(rules: NumberRules) -> tuple[float, float] | None:
    """Return the mean and standard deviation that are declared, None where they are learned."""
    if not isinstance(rules, NumericRules) or rules.scale == "learn":
        return None
    return (rules.scale.mean, rules.scale.sd) if isinstance(rules.scale, Scaling) else (0.0, 1.0)
