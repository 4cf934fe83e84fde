"""Rows that are no units: totals, as reports put below a table, and headers between rows."""

from collections.abc import Iterable
from typing import Any

#: What stands where ids stand in a row of totals, in lower case.
WORDS = frozenset((
    "total", "totals", "grand total", "subtotal", "sum", "sums", "summe", "summen", "gesamt",
    "gesamtsumme", "gesamtergebnis", "insgesamt", "zwischensumme", "somme", "total general",
    "total général", "totale", "totaal", "suma", "soma",
))  # fmt: skip

#: What is wrong with a row that repeats the header.
HEADER = "repeats the header; delete the row"
#: Words for a number that is missing.
MISSING = ("", "nan", "na", "n/a", "null", "none")


def is_total(unit: str, others: Iterable[Any]) -> bool:
    """Say whether a file's last row holds totals: by its id, with nothing but numbers beside it.

    Parameters
    ----------
    unit
        The id, or the first part of it.
    others
        The row's other cells.

    Examples
    --------
    >>> is_total("Total", ["29", "2595.59", ""]), is_total("Total", ["29", "Oslo"])
    (True, False)
    """
    word = " ".join(unit.partition(":")[0].lower().split())
    return word in WORDS and all(_is_number_or_none(cell) for cell in others)


def refusal(unit: str) -> str:
    """Return what is wrong with such a row."""
    return f"seems to be a row of totals, since its id is {unit!r}; delete the row"


def _is_number_or_none(cell: Any) -> bool:
    text = "" if cell is None else str(cell).strip()
    if text.lower() in MISSING:
        return True
    letters = sum(character.isalpha() for character in text)
    # A currency's letters may stand beside a number; a dash often stands where there is none.
    return not letters or (letters <= 3 and any(map(str.isdigit, text)))
