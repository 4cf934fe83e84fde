"""Numeric features: read, bounded, filled where missing, scaled."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from seqbatch.campaign.features.base import MISSING_LEVEL, Feature
from seqbatch.campaign.features.learned_scales import FrozenNumber, outside, scaling_of
from seqbatch.campaign.files.column_values import MISSING, Reason, missing_rows
from seqbatch.campaign.files.number_format import NumberFormat, read_numbers
from seqbatch.campaign.spec.features import NumberRules, NumericRules
from seqbatch.core.arrays import Bools, Floats
from seqbatch.core.kernels.texts import scale


@dataclass(frozen=True)
class ScaledNumber:
    """A number of each unit, NaN where it is missing, and what the model makes of it.

    Parameters
    ----------
    name
        Its column of the model.
    rules
        What the spec says of it.
    learned
        What the first wave taught; None before.
    """

    name: str
    rules: NumberRules
    learned: FrozenNumber | None

    @property
    def names(self) -> tuple[str, ...]:
        """The number's own column, and one that says that it is missing where that may be."""
        own = (self.name,)
        return (*own, f"{self.name} {MISSING_LEVEL}") if self.rules.indicates else own

    @cached_property
    def frozen(self) -> FrozenNumber | None:
        """How the number is treated; None as long as something about it is open."""
        scaling = scaling_of(self.rules)
        if self.rules.learns or scaling is None:
            return self.learned
        low, high = self.rules.range or (None, None)
        fill = 0.0 if isinstance(self.rules.missing, str) else self.rules.missing
        return FrozenNumber(low, high, fill, *scaling, indicator=False)

    def encode(self, values: Floats, out: Floats) -> None:
        """Write the columns of the model."""
        frozen = self.frozen
        if frozen is None:
            return
        if frozen.sd > 0:
            scale(values, *_rules(frozen), out[:, 0])
        if frozen.indicator:
            out[:, 1] = np.isnan(values)

    @property
    def scaling(self) -> tuple[float, float, float, float, float] | None:
        """What a number alone is scaled by; None where the model's columns are made otherwise."""
        frozen = self.frozen
        alone = len(self.names) == 1 and frozen is not None and frozen.sd > 0
        return _rules(frozen) if alone and frozen is not None else None

    def sizes(self, values: Floats) -> Floats:
        """Return how large the number of each row is to the model."""
        out = np.zeros((len(values), len(self.names)))
        self.encode(values, out)
        return np.abs(out[:, 0])

    def clipped(self, values: Floats) -> int:
        """Return how many values are moved to a bound."""
        # What is declared bounds from the start; quantiles bound once they are known.
        if self.rules.range is not None:
            return outside(values, *self.rules.range)
        return 0 if self.frozen is None else outside(values, self.frozen.low, self.frozen.high)

    def possible(self, rng: np.random.Generator, missing: Bools) -> Floats:
        """Return random rows of the model's columns, where these are missing."""
        made = np.zeros((len(missing), len(self.names)))
        if (frozen := self.frozen) is None:
            return made
        # Any numbers do that the bounds let through: those of a first wave have mean 0.
        self.encode(np.where(missing, np.nan, 0.0), made)
        if frozen.sd > 0:
            made[:, 0] = np.where(missing, made[:, 0], rng.normal(size=len(missing)))
        return made


def _rules(frozen: FrozenNumber) -> tuple[float, float, float, float, float]:
    """Return the bounds, what stands for a missing number, the mean and the spread."""
    low = -np.inf if frozen.low is None else float(frozen.low)
    high = np.inf if frozen.high is None else float(frozen.high)
    return low, high, float(frozen.fill), float(frozen.mean), float(frozen.sd)


@dataclass(frozen=True)
class NumericFeature(Feature):
    """A column of numbers.

    Parameters
    ----------
    name
        The column.
    rules
        What the spec says of it.
    learned
        What the first wave taught; None before.
    """

    rules: NumericRules
    learned: FrozenNumber | None = None
    kept: ClassVar[pa.DataType] = pa.float64()

    @property
    def number(self) -> ScaledNumber:
        """What the model makes of it."""
        return ScaledNumber(self.name, self.rules, self.learned)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        return self.number.names

    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return the numbers, null where they are missing, and what is wrong with the rows."""
        form = None if self.rules.format is None else NumberFormat.of(self.rules.format)
        found = read_numbers(column, form=form)
        if not found.missing.any():
            return pa.array(found.values), found.wrong
        wrong = found.wrong
        if self.rules.missing == "refuse":
            advice = '; missing = "median" (or "mean", or a number) would accept it'
            wrong = wrong | missing_rows(found.missing, Reason(MISSING, advice))
        return pa.array(found.values, mask=found.missing), wrong

    def values(self, kept: Any) -> Floats:
        """Return the numbers that were kept, NaN where they are missing."""
        found: Floats = kept.to_numpy()
        return found

    def encode(self, kept: Any, out: Floats) -> None:
        """Write the model's columns into `out`, which is all 0."""
        self.number.encode(self.values(kept), out)

    def sizes(self, kept: Any) -> Floats:
        """Return how large the number of each row is to the model."""
        return self.number.sizes(self.values(kept))

    def largest(self, kept: Any) -> float:
        """Return a size that no number of any row exceeds: scaling keeps the order of numbers."""
        values = self.values(kept)
        # Neither end minds what is missing, and both are missing where everything is.
        ends = (np.fmin.reduce(values), np.fmax.reduce(values)) if len(values) else ()
        return float(self.number.sizes(np.array([np.nan, *ends])).max())

    def clipped(self, kept: Any) -> int:
        """Return how many values are moved to a bound."""
        return self.number.clipped(self.values(kept))

    def possible(self, rng: np.random.Generator, count: int) -> Floats:
        """Return random rows of the model's columns, such as units could have."""
        missing = rng.random(count) < 0.5 * (self.rules.missing != "refuse")
        return self.number.possible(rng, missing)
