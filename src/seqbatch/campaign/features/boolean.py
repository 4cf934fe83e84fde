"""Boolean features: yes or no."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from seqbatch.campaign.features.base import MISSING_LEVEL, Feature
from seqbatch.campaign.files.columns import MISSING, Reason, missing_rows, read_booleans
from seqbatch.core.arrays import Floats


@dataclass(frozen=True)
class BooleanFeature(Feature):
    """A column of yes and no.

    Parameters
    ----------
    name
        The column.
    missing
        What to do with a missing one: "refuse", "level" (a column of its own), or what it means.
    """

    missing: bool | str
    kept: ClassVar[pa.DataType] = pa.bool_()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        own = (self.name,)
        return (*own, f"{self.name} {MISSING_LEVEL}") if self.missing == "level" else own

    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return the values, null where they are missing, and what is wrong with the rows."""
        found = read_booleans(column)
        wrong = found.wrong
        if self.missing == "refuse" and found.missing.any():
            advice = f'; {self.name} = "level" (or true, or false) would accept it'
            wrong = wrong | missing_rows(found.missing, Reason(MISSING, advice))
        return pa.array(found.values > 0, mask=found.missing), wrong

    def encode(self, kept: Any, out: Floats) -> None:
        """Write the model's columns into `out`, which is all 0."""
        out[:, 0] = np.asarray(kept.fill_null(self.missing is True))
        if self.missing == "level":
            out[:, 1] = np.asarray(kept.is_null())

    def possible(self, rng: np.random.Generator, count: int) -> Floats:
        """Return random rows of the model's columns, such as units could have."""
        values = rng.integers(0, 2 + (self.missing == "level"), size=count)
        return np.stack([values == 1, values == 2], axis=1)[:, : len(self.names)] * 1.0
