"""Outcomes in another number format than the spec declares, and amendments that accept them."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import Any

from seqbatch.campaign.decide.outcome_columns import OutcomeColumns
from seqbatch.campaign.decide.row_verdicts import Judged
from seqbatch.campaign.files.column_values import python_value
from seqbatch.campaign.files.number_format import formats_for_most, most_read
from seqbatch.errors import Doubt, Part, Remedy

#: How many cells of a column to examine.
FEW = 50
#: Advice for ambiguous numbers.
DECLARE = (
    "declare its format, by an amendment or in the spec before you create the campaign, or "
    "write the numbers without thousands separators and with two decimals"
)


class Misspelled:
    """Collects held cells that are not valid numbers, and the formats that would accept them."""

    def __init__(self) -> None:
        self._cells: dict[str, list[str]] = {}
        self._held: Counter[str] = Counter()

    def look(self, columns: OutcomeColumns, batch: Any, judged: Judged) -> None:
        """Collect the invalid cells of a piece after its rows got their verdicts."""
        for column in declared_formats(columns):
            said = self._cells.setdefault(column, [])
            rows = [row for row, unread in judged.unread.items() if unread == column]
            self._held[column] += len(rows)
            for row in rows[: FEW - len(said)]:
                said.append(str(python_value(batch.column(column)[row])))

    def formats(self, columns: OutcomeColumns, rows: int) -> dict[str, tuple[str, ...]]:
        """Return the formats that accept the held cells, by column.

        `rows` is the number of rows in the file.
        """
        declared, found = declared_formats(columns), {}
        for column, cells in self._cells.items():
            common = formats_for_most(cells, declared[column])
            # A few cells in another format are typing errors; the declared format fits the rest.
            if self._held[column] > rows / 2:
                common = max(
                    common, formats_for_most(cells), key=lambda some: most_read(some, cells)
                )
            found[column] = tuple(example for example in common if '"' not in example)
        return {column: examples for column, examples in found.items() if examples}

    def partly(self, formats: Mapping[str, tuple[str, ...]]) -> set[str]:
        """Return the columns in which every one of these formats still leaves some cells held."""
        found = set()
        for column, examples in formats.items():
            cells = self._cells[column]
            if most_read(examples, cells) < len(cells):
                found.add(column)
        return found


def other_formats(
    columns: OutcomeColumns, formats: Mapping[str, tuple[str, ...]], partly: Container[str]
) -> Iterator[Doubt]:
    """Yield a doubt for each column that other formats would accept, with the amendments.

    Parameters
    ----------
    columns
        What the file's columns mean.
    formats
        The formats by column.
    partly
        The columns in which they accept only some of the held cells.
    """
    for column, examples in formats.items():
        what = f"A part of {column}" if column in partly else column
        parts: list[Part] = []
        for example in examples:
            parts.append(" or" if parts else f"{what} can be read after")
            parts.append(respelling(columns, column, example))
        parts.append("; then record it again.")
        yield Doubt("other-format", tuple(parts), column=column, examples=examples)


def declared_formats(columns: OutcomeColumns) -> dict[str, str | None]:
    """Return the number columns of an outcome file, with their declared formats."""
    return {metric.column: metric.format for metric in columns.numbers}


def respelling(columns: OutcomeColumns, column: str, example: str) -> Remedy:
    """Return the amendment that declares a column's format."""
    names = [metric.name for metric in columns.numbers if metric.column == column]
    return Remedy("amend", metrics={name: {"format": example} for name in names}, reason=...)
