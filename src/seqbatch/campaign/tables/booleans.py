"""A column of yes and no, in the usual spellings."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.tables.columns import (
    Read,
    is_text,
    read_numbers,
    refused,
    stands_for_none,
    undictionaried,
)

#: Case and spaces around are ignored. 1.0 and 0.0 are what programs make of 1 and 0.
YES = ("true", "t", "yes", "y", "on", "1", "1.0", "ja", "j", "wahr", "oui", "vrai", "si", "sí",
       "sì", "vero", "verdadero", "sim", "tak")  # fmt: skip
NO = ("false", "f", "no", "n", "off", "0", "0.0", "nein", "falsch", "non", "faux", "falso", "nee",
      "nej", "não", "nao", "nie")  # fmt: skip
RULE = "must be a yes or a no, such as true, yes, 1, false, no, 0"


def read_booleans(column: Any) -> Read:
    """Return a column of text, booleans or the numbers 0 and 1 as numbers 0 and 1."""
    column = undictionaried(column)
    if not is_text(column.type):
        found = read_numbers(column)
        rows = (~found.missing & (found.values != 0) & (found.values != 1)).nonzero()[0].tolist()
        wrong = {row: f"{RULE}; received {found.values[row]:g}" for row in rows}
        return Read(found.values, found.missing, wrong | found.wrong)
    text = pc.utf8_trim_whitespace(column)
    missing = stands_for_none(text)
    folded = pc.utf8_lower(text)
    yes, no = (
        pc.is_in(folded, pa.array(words)).to_numpy(zero_copy_only=False) for words in (YES, NO)
    )
    return Read(yes.astype(np.float64), missing, refused(text, ~(yes | no | missing), RULE))
