"""Columns of plain numbers whose dots may part thousands: 2.750 is 2750 where decimals have commas.

A single cell never tells. A column does as soon as one of its dots cannot part thousands, as in
12.5 or 0.125. Where none tells, and the file has semicolons between its cells or numbers without a
dot beside those with one, the file is refused instead of being read a thousand times too small.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from seqbatch.campaign.design.number_format import PLAIN, THOUSANDS
from seqbatch.campaign.tables.columns import is_text, undictionaried
from seqbatch.campaign.tables.reading import Problem, Source

#: A number as programs spell it that has a dot, and one whose dot may part thousands.
DOTTED = r"^\s*[+-]?\d*\.\d*(?:[eE][+-]?\d+)?\s*$"
UNCLEAR = r"^\s*[+-]?[1-9]\d{0,2}\.\d{3}\s*$"
#: What has a digit, and no dot.
WITHOUT = r"^[^.]*\d[^.]*$"
#: Cells that are looked at first: they tell of most columns.
FEW = 1000


@dataclass
class _Seen:
    """What was seen of a column: its first unclear cell, and whether some have no dot."""

    row: int = 0
    cell: str = ""
    without: bool = False


class UnclearDots:
    """Looks at the pieces of a file for columns of numbers that can be read in two ways.

    Parameters
    ----------
    source
        The file.
    columns
        Those that hold numbers for which no format is declared.
    """

    def __init__(self, source: Source, columns: Iterable[str]) -> None:
        self._source = source
        self._seen = {name: _Seen() for name in columns}

    def look(self, batch: Any, start: int) -> None:
        """Look at a piece whose first row of data is number `start` + 1."""
        for name in list(self._seen):
            column = undictionaried(batch.column(name))
            if not is_text(column.type) or _is_clear(column[:FEW]) or _is_clear(column):
                del self._seen[name]
                continue
            self._note(self._seen[name], column, start)

    @staticmethod
    def _note(seen: _Seen, column: Any, start: int) -> None:
        found = pc.match_substring_regex(column, UNCLEAR)
        if not seen.row and (place := pc.index(found, True).as_py()) >= 0:
            seen.row, seen.cell = start + place + 1, column[place].as_py().strip()
        seen.without = seen.without or bool(
            pc.any(pc.match_substring_regex(column, WITHOUT)).as_py()
        )

    def problems(self, advice: str) -> list[Problem]:
        """Return a problem for each column that remains unclear, by its first such row.

        Parameters
        ----------
        advice
            How to declare a format.
        """
        parted = self._source.file_format == "csv" and self._source.dialect.delimiter == ";"
        return [
            (seen.row, name, f"{_readings(seen.cell)}; {advice}")
            for name, seen in self._seen.items()
            if seen.row and (parted or seen.without)
        ]


def _is_clear(column: Any) -> bool:
    """Say whether some dot cannot part thousands."""
    dotted = column.filter(pc.match_substring(column, "."))
    dotted = dotted.filter(pc.match_substring_regex(dotted, DOTTED))
    return not pc.all(pc.match_substring_regex(dotted, UNCLEAR), min_count=0).as_py()


def _readings(cell: str) -> str:
    """Return what a cell may mean.

    >>> _readings("2.750")
    '2.750 may be 2.75 (format = "1234.56") or 2750 (format = "1.234,56")'
    """
    decimal, thousands = float(cell), float(cell.replace(".", ""))
    return (
        f'{cell} may be {decimal:g} (format = "{PLAIN}") or {thousands:.0f} '
        f'(format = "{THOUSANDS}")'
    )
