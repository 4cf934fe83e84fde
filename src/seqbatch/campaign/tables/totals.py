"""Rows that are no units: totals, as reports put below a table, and headers between rows."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.limits import MOST_PROBLEMS
from seqbatch.core.arrays import Floats

#: What stands where ids stand in a row of totals, in lower case.
WORDS = frozenset((
    "total", "totals", "grand total", "subtotal", "sum", "sums", "summe", "summen", "gesamt",
    "gesamtsumme", "gesamtergebnis", "insgesamt", "zwischensumme", "somme", "total general",
    "total général", "totale", "totaal", "suma", "soma",
))  # fmt: skip

#: So many other numbers make a sum that chance hardly hits, and so far may rounding move it.
LEAST, ROUNDED = 3, 1e-4
#: Columns that end in their sums where the id says nothing, and those of them that are named.
SEVERAL, NAMED = 2, 3
#: What is wrong with a row that repeats the header.
HEADER = "repeats the header; delete the row"
#: An id with a word for totals in it, and the share of ids that may have one before it is a habit.
WORDED, RARE = r"(?i)(^|\PL)(" + "|".join(sorted(WORDS)) + r")(\PL|$)", 0.25
#: Words for a number that is missing.
MISSING = ("", "nan", "na", "n/a", "null", "none")


@dataclass(frozen=True)
class Summed:
    """A column of numbers as far as it was read.

    Parameters
    ----------
    total
        The sum of all.
    counted
        How many are there and not 0.
    last
        The last one; 0 where it is missing.
    """

    total: float
    counted: int
    last: float

    @classmethod
    def of(cls, values: Floats) -> "Summed":
        """Sum up a piece; NaN is missing."""
        there = np.where(np.isnan(values), 0.0, values)
        # What is not finite is refused elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(float(there.sum()), int(np.count_nonzero(there)), float(there[-1]))

    def then(self, later: "Summed") -> "Summed":
        """Return the column with a piece that follows."""
        return Summed(self.total + later.total, self.counted + later.counted, later.last)

    @property
    def ends_in_sum(self) -> bool:
        """Whether the last number is the sum of all others, but for rounding.

        >>> Summed.of(np.array([3.0, 3.0, 5.0, 11.0])).ends_in_sum
        True
        """
        missed = abs(self.last - (self.total - self.last))
        return self.counted > LEAST and self.last != 0 and missed <= ROUNDED * abs(self.last)


def ending_in_sums(columns: Mapping[str, Summed]) -> tuple[str, ...]:
    """Return the columns whose last number is the sum of all others."""
    return tuple(name for name, column in columns.items() if column.ends_in_sum)


def refusal(unit: str, others: Iterable[Any], sums: Collection[str] = ()) -> str:
    """Return what is wrong with a file's last row if its id says that it holds totals, else "".

    The id is a word for them with nothing but numbers beside it; or has such a word in it, and
    some number is the sum of all others.

    Parameters
    ----------
    unit
        The id, or the first part of it.
    others
        The row's other cells.
    sums
        The columns whose last number is the sum of all others.

    Examples
    --------
    >>> refusal("Total", ["29", "2595.59", ""])
    "seems to be a row of totals, since its id is 'Total'; delete the row"
    >>> refusal("Total", ["29", "Oslo"]), refusal("Ann", ["29", ""], ["orders"])
    ('', '')
    >>> refusal("All (total)", ["29", "Oslo"], ["age"])
    "seems to be a row of totals, since its id is 'All (total)', with sums in age; delete the row"
    """
    said = " ".join(unit.partition(":")[0].lower().split())
    alone = said in WORDS and all(_is_number_or_none(cell) for cell in others)
    if not alone and not (sums and WORDS & set(re.findall(r"[^\W\d_]+", said))):
        return ""
    also = "" if alone else f", with sums in {_listed(sums)}"
    return f"seems to be a row of totals, since its id is {unit!r}{also}; delete the row"


def doubt(unit: str, place: str, sums: Collection[str]) -> str:
    """Return a warning of a last row whose numbers say that it holds totals, else "".

    >>> doubt("A4", "line 5", ["age", "orders"])
    "line 5 ('A4') may be a row of totals, with sums in age, orders; if it is, delete the row"
    """
    if len(sums) < SEVERAL:
        return ""
    said = f"may be a row of totals, with sums in {_listed(sums)}; if it is, delete the row"
    return f"{place} ({unit!r}) {said}"


def worded(ids: pa.Array) -> list[int]:
    """Return the places of ids that have a word for totals in them, where few do.

    >>> worded(pa.array(["A1", "A2", "A3", "Rural total", None]))
    [3]
    """
    if not pa.types.is_string(ids.type):
        return []
    found = pc.indices_nonzero(pc.match_substring_regex(ids, WORDED)).to_pylist()
    return found if len(found) <= RARE * len(ids) else []


def subtotals(unit: str, others: Collection[Any]) -> str:
    """Return a doubt about a row that is not the last where it may hold totals, else "".

    >>> subtotals("Rural total", ["29", ""])
    "may be a row of totals: its id is 'Rural total', beside numbers alone; if so, delete the row"
    >>> subtotals("Rural total", ["29", "Oslo"])
    ''
    """
    if not others or not all(_is_number_or_none(cell) for cell in others):
        return ""
    said = f"its id is {unit!r}, beside numbers alone"
    return f"may be a row of totals: {said}; if so, delete the row"


def subtotal_rows(batch: Any, names: Iterable[str]) -> dict[int, str]:
    """Return doubts about rows that may hold totals; the first of the columns is that of ids."""
    unit, *others = dict.fromkeys(names)
    ids = batch.column(unit)
    said = {
        row: subtotals(ids[row].as_py(), [batch.column(name)[row].as_py() for name in others])
        for row in worded(ids)[:MOST_PROBLEMS]
    }
    return {row: reason for row, reason in said.items() if reason}


def header_rows(batch: Any, names: Iterable[str]) -> dict[int, str]:
    """Return the rows that repeat the header, as in files that were put one below another."""
    rows = np.arange(batch.num_rows)
    for name in dict.fromkeys(names):
        column = batch.column(name)
        if not pa.types.is_string(column.type) or not len(rows):
            return {}
        same = pc.equal(pc.utf8_trim_whitespace(column.take(rows)), name).fill_null(False)
        rows = rows[same.to_numpy(zero_copy_only=False)]
    return {int(row): HEADER for row in rows}


def _listed(names: Collection[str]) -> str:
    return ", ".join(list(names)[:NAMED]) + (", ..." if len(names) > NAMED else "")


def _is_number_or_none(cell: Any) -> bool:
    text = "" if cell is None else str(cell).strip()
    if text.lower() in MISSING:
        return True
    letters = sum(character.isalpha() for character in text)
    # A currency's letters may stand beside a number; a dash often stands where there is none.
    return not letters or (letters <= 3 and any(map(str.isdigit, text)))
