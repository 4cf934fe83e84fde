"""Past outcomes from a column of a file, for a plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    from seqbatch.campaign.files.profile import ColumnProfile
    from seqbatch.campaign.files.reading import Source


@dataclass(frozen=True)
class PastOutcomes:
    """Past outcomes of customers.

    Parameters
    ----------
    column
        The column that they are from.
    customer
        The column of the customers, if several rows of one were added up; otherwise "".
    values
        One number for each customer in the file.
    """

    column: str
    customer: str
    values: Floats


def past_outcomes(file: "Source", column: str | None = None) -> PastOutcomes:
    """Return the numbers of a column, in the format that fits the whole column.

    Without a name it is the only column whose numbers may be outcomes. If one column of
    people repeats its values, as in a file of orders, the rows of each person are added up.
    """
    from seqbatch.campaign.files.profile import chosen_number, habits_of, profile_of

    with file as opened:
        columns = {one.name: one for one in profile_of(opened).columns}
        if opened.ragged:
            raise opened.invalid(sorted(opened.ragged))
        habits = habits_of(columns.values(), semicolons=opened.has_semicolons)
    if column is None:
        column = _only(columns)
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
    customer = _customer(columns)
    if not customer:
        return PastOutcomes(column, "", values)
    added = np.bincount(columns[customer].codes, weights=values).astype(np.float64)
    # A refund undoes its order: 0.1 + 0.2 - 0.3 is 0.
    sums: Floats = np.round(added, 9)
    return PastOutcomes(column, customer, sums)


def _customer(columns: "Mapping[str, ColumnProfile]") -> str:
    """Return the only column of people whose values repeat; "" if there is none, or several."""
    from seqbatch.campaign.files.column_name import tells_person

    found = [
        name
        for name, one in columns.items()
        if tells_person(name) and one.present == one.rows and 1 < one.distinct < one.rows
    ]
    return found[0] if len(found) == 1 else ""


def _only(columns: "Mapping[str, ColumnProfile]") -> str:
    """Return the only column whose numbers may be outcomes."""
    fitting = [name for name, one in columns.items() if _may_be_outcome(one)]
    if len(fitting) == 1:
        return fitting[0]
    some = "several of the file's columns may" if fitting else "none of the file's columns seems to"
    rule = f"given: {some} hold the outcomes ({', '.join(fitting or columns)})"
    raise InvalidArgumentError("column", rule, "none")


def _may_be_outcome(column: "ColumnProfile") -> bool:
    """Return whether a column has numbers that are neither ids, codes nor dates."""
    from seqbatch.campaign.files.column_name import is_code, is_date, unlikely_id
    from seqbatch.campaign.files.profile import numbers_rows

    name = column.name
    if not column.numbers or is_date(name) or is_code(name) or unlikely_id(name) == 0:
        return False
    return not numbers_rows(column.numbers[0].numbers, column.codes)
