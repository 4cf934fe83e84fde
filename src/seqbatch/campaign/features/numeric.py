"""Numeric features: read, clip, fill missing values, scale."""

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
from seqbatch.core import kernels
from seqbatch.core.arrays import Bools, Floats


@dataclass(frozen=True)
class ScaledNumber:
    """A number of each unit (NaN if missing), and its encoding in the model.

    Parameters
    ----------
    name
        Its column of the model.
    rules
        The number's rules in the spec.
    learned
        What was learned from the first wave; None before that.
    """

    name: str
    rules: NumberRules
    learned: FrozenNumber | None

    @property
    def names(self) -> tuple[str, ...]:
        """The number's column, and an indicator of missing values if there may be one."""
        own = (self.name,)
        return (*own, f"{self.name} {MISSING_LEVEL}") if self.rules.indicates else own

    @cached_property
    def frozen(self) -> FrozenNumber | None:
        """How the number is encoded; None while a setting is still to be learned."""
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
            kernels.texts.scale(values, *_rules(frozen), out[:, 0])
        if frozen.indicator:
            out[:, 1] = np.isnan(values)

    @property
    def scaling(self) -> tuple[float, float, float, float, float] | None:
        """The scaling of a number that is only scaled; None if it needs other columns."""
        frozen = self.frozen
        alone = len(self.names) == 1 and frozen is not None and frozen.sd > 0
        return _rules(frozen) if alone and frozen is not None else None

    def sizes(self, values: Floats) -> Floats:
        """Return the absolute number of each row, as the model sees it."""
        out = np.zeros((len(values), len(self.names)))
        self.encode(values, out)
        return np.abs(out[:, 0])

    def clipped(self, values: Floats) -> int:
        """Return the number of values that are clipped to a bound."""
        # A declared range applies from the start; quantiles apply once they are known.
        if self.rules.range is not None:
            return outside(values, *self.rules.range)
        return 0 if self.frozen is None else outside(values, self.frozen.low, self.frozen.high)

    def possible(self, rng: np.random.Generator, missing: Bools) -> Floats:
        """Return random rows of the model's columns, with these values missing."""
        made = np.zeros((len(missing), len(self.names)))
        if (frozen := self.frozen) is None:
            return made
        # Any numbers within the bounds will do: those of a first wave have mean 0.
        self.encode(np.where(missing, np.nan, 0.0), made)
        if frozen.sd > 0:
            made[:, 0] = np.where(missing, made[:, 0], rng.normal(size=len(missing)))
        return made


def _rules(frozen: FrozenNumber) -> tuple[float, float, float, float, float]:
    """Return the bounds, the fill value, the mean and the standard deviation."""
    low = -np.inf if frozen.low is None else float(frozen.low)
    high = np.inf if frozen.high is None else float(frozen.high)
    return low, high, float(frozen.fill), float(frozen.mean), float(frozen.sd)


@dataclass(frozen=True)
class NumericFeature(Feature):
    """A column of numbers.

    Parameters
    ----------
    name
        The column's name.
    rules
        The number's rules in the spec.
    learned
        What was learned from the first wave; None before that.
    """

    rules: NumericRules
    learned: FrozenNumber | None = None
    kept: ClassVar[pa.DataType] = pa.float64()

    @property
    def number(self) -> ScaledNumber:
        """The number as a scaled number."""
        return ScaledNumber(self.name, self.rules, self.learned)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        return self.number.names

    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return the numbers, null if missing, and the problems of the rows."""
        form = None if self.rules.format is None else NumberFormat.of(self.rules.format)
        found = read_numbers(column, form=form)
        values, wrong = found.values_and_wrong()
        missing, gone = found.missing, self.rules.missing_values
        if gone:
            missing = missing | np.isin(values, gone)
        if not missing.any():
            return pa.array(values), wrong
        if self.rules.missing == "refuse":
            advice = '; missing = "median" (or "mean", or a number) would accept it'
            wrong = wrong | missing_rows(missing, Reason(MISSING, advice, MISSING.code))
        return pa.array(values, mask=missing), wrong

    def values(self, kept: Any) -> Floats:
        """Return the stored numbers, NaN if missing."""
        found: Floats = kept.to_numpy()
        return found

    def encode(self, kept: Any, out: Floats) -> None:
        """Write the model's columns into `out`, which contains only zeros."""
        self.number.encode(self.values(kept), out)

    def sizes(self, kept: Any) -> Floats:
        """Return the absolute number of each row, as the model sees it."""
        return self.number.sizes(self.values(kept))

    def largest(self, kept: Any) -> float:
        """Return an upper bound on the absolute numbers of all rows: scaling keeps their order."""
        values = self.values(kept)
        # fmin and fmax ignore NaN unless all values are NaN.
        ends = (np.fmin.reduce(values), np.fmax.reduce(values)) if len(values) else ()
        return float(self.number.sizes(np.array([np.nan, *ends])).max())

    def clipped(self, kept: Any) -> int:
        """Return the number of values that are clipped to a bound."""
        return self.number.clipped(self.values(kept))

    def possible(self, rng: np.random.Generator, count: int) -> Floats:
        """Return random rows of the model's columns that units could have."""
        missing = rng.random(count) < 0.5 * (self.rules.missing != "refuse")
        return self.number.possible(rng, missing)
