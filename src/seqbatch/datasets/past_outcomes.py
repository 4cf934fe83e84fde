"""Past outcomes from a column of a file, for a plan."""

from typing import TYPE_CHECKING

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    from seqbatch.campaign.files.reading import Source


def past_outcomes(file: "Source", column: str) -> Floats:
    """Return the numbers in a column, in the format that fits the whole column."""
    from seqbatch.campaign.files.profile import chosen_number, habits_of, profile_of

    with file as opened:
        columns = {one.name: one for one in profile_of(opened).columns}
        if opened.ragged:
            raise opened.invalid(sorted(opened.ragged))
        habits = habits_of(columns.values(), semicolons=opened.has_semicolons)
    if column not in columns:
        there = f"one of the file's columns ({', '.join(columns)})"
        raise InvalidArgumentError("column", there, repr(column))
    found = columns[column]
    if not found.numbers:
        raise InvalidArgumentError("column", "a column of numbers", repr(column))
    if found.present < found.rows:
        missing = f"{found.rows - found.present} missing in {column!r}"
        advice = "Write 0 where a customer bought nothing, and leave other rows out."
        raise InvalidArgumentError("history", "a file without missing amounts", missing, advice)
    values: Floats = np.asarray(chosen_number(found, habits)[0].numbers)[found.codes]
    return values
