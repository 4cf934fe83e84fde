"""Columns of units that are kept for rules and strata, and are no part of the model."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from seqbatch.campaign.design.eligibility import Kind
from seqbatch.campaign.tables.booleans import read_booleans
from seqbatch.campaign.tables.columns import MISSING, categories, read_numbers


@dataclass(frozen=True)
class BesideColumn:
    """One such column; what is missing in it is null, and no mistake.

    Parameters
    ----------
    name
        The column.
    kind
        What it holds.
    """

    name: str
    kind: Kind

    @property
    def kept(self) -> pa.DataType:
        """The Arrow type that is kept of it."""
        return {"text": pa.string(), "number": pa.float64(), "yes or no": pa.bool_()}[self.kind]

    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return what is kept of a column of a file, and what is wrong with its rows."""
        if self.kind == "text":
            encoded, wrong = categories(column)
            return encoded, {row: why for row, why in wrong.items() if why != MISSING}
        if self.kind == "number":
            found = read_numbers(column)
            return pa.array(found.values, mask=found.missing), found.wrong
        found = read_booleans(column)
        return pa.array(found.values > 0, mask=found.missing), found.wrong
