"""Boolean features: yes or no."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.features.base import MISSING_LEVEL, Feature
from seqbatch.campaign.files.column_values import (
    MISSING,
    Read,
    Reason,
    is_text,
    means_missing,
    missing_rows,
    refused,
    undictionaried,
)
from seqbatch.campaign.files.number_format import read_numbers
from seqbatch.core.arrays import Floats

#: Case and surrounding spaces are ignored. Some programs write 1.0 and 0.0 for 1 and 0.
YES = ("true", "t", "yes", "y", "on", "1", "1.0", "ja", "j", "wahr", "oui", "vrai", "si", "sí",
       "sì", "vero", "verdadero", "sim", "tak")  # fmt: skip
NO = ("false", "f", "no", "n", "off", "0", "0.0", "nein", "falsch", "non", "faux", "falso", "nee",
      "nej", "não", "nao", "nie")  # fmt: skip
RULE = "must be a yes or a no, such as true, yes, 1, false, no, 0"
#: The code of a cell that is neither.
NO_BOOLEAN = "not-a-boolean"


def read_booleans(column: Any) -> Read:
    """Read a column of text, booleans or the numbers 0 and 1 as numbers 0 and 1."""
    column = undictionaried(column)
    if not is_text(column.type):
        found = read_numbers(column)
        values, unread = found.values_and_wrong()
        rows = (~found.missing & (values != 0) & (values != 1)).nonzero()[0].tolist()
        wrong = {row: Reason(RULE, f"; received {values[row]:g}", NO_BOOLEAN) for row in rows}
        return Read(values, found.missing, wrong | unread)
    text = pc.utf8_trim_whitespace(column)
    missing = means_missing(text)
    folded = pc.utf8_lower(text)
    yes, no = (
        pc.is_in(folded, pa.array(words)).to_numpy(zero_copy_only=False) for words in (YES, NO)
    )
    unread = refused(text, ~(yes | no | missing), RULE, None, NO_BOOLEAN)
    return Read(yes.astype(np.float64), missing, unread)


@dataclass(frozen=True)
class BooleanFeature(Feature):
    """A boolean column.

    Parameters
    ----------
    name
        The column's name.
    missing
        How to treat a missing value: "refuse", "level" (a separate column), or its meaning.
    """

    missing: bool | str
    kept: ClassVar[pa.DataType] = pa.bool_()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        own = (self.name,)
        return (*own, f"{self.name} {MISSING_LEVEL}") if self.missing == "level" else own

    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return the values, null if missing, and the problems of the rows."""
        found = read_booleans(column)
        values, wrong = found.values_and_wrong()
        if self.missing == "refuse" and found.missing.any():
            advice = f'; {self.name} = "level" (or true, or false) would accept it'
            wrong = wrong | missing_rows(found.missing, Reason(MISSING, advice, MISSING.code))
        return pa.array(values > 0, mask=found.missing), wrong

    def encode(self, kept: Any, out: Floats) -> None:
        """Write the model's columns into `out`, which contains only zeros."""
        out[:, 0] = np.asarray(kept.fill_null(self.missing is True))
        if self.missing == "level":
            out[:, 1] = np.asarray(kept.is_null())

    def possible(self, rng: np.random.Generator, count: int) -> Floats:
        """Return random rows of the model's columns that units could have."""
        values = rng.integers(0, 2 + (self.missing == "level"), size=count)
        return np.stack([values == 1, values == 2], axis=1)[:, : len(self.names)] * 1.0
