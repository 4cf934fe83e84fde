"""Write tables to an Excel workbook: texts as text, never as formulas; numbers as numbers."""

from collections.abc import Callable
from datetime import date, datetime
from typing import IO, Any

import pyarrow as pa

from seqbatch.campaign.files.column_values import is_text, python_value
from seqbatch.errors import InvalidArgumentError

#: What a sheet of Excel holds: rows with the header, columns, and characters of a cell.
MOST_ROWS, MOST_COLUMNS, LONGEST = 1_048_576, 16_384, 32_767
#: Excel's first day; earlier dates are written as text. Whole numbers above are not exact.
FIRST_DAY, EXACT = date(1900, 3, 1), 10**15
#: The time of creation in the file: the same rows give the same bytes.
CREATED = datetime(2000, 1, 1)


class Workbook:
    """A workbook with one sheet.

    Parameters
    ----------
    file
        The file to write to.
    """

    def __init__(self, file: IO[bytes]) -> None:
        # Only for this format: other files are written without it.
        import xlsxwriter

        self._book = xlsxwriter.Workbook(file, {"constant_memory": True})
        self._book.set_properties({"created": CREATED})
        self._sheet = self._book.add_worksheet()
        self._bold = self._book.add_format({"bold": True})
        self._day = self._book.add_format({"num_format": "yyyy-mm-dd"})
        self._moment = self._book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        """Write some rows; the first call writes the header."""
        if not self._rows:
            self._begin(table)
        if self._rows + table.num_rows > MOST_ROWS or table.num_columns > MOST_COLUMNS:
            size = f"{self._rows - 1 + table.num_rows:,} rows of {table.num_columns:,} or more"
            rule = f"a .csv or .parquet file for more than {MOST_ROWS - 1:,} rows of a table"
            raise InvalidArgumentError("out", rule, f".xlsx for {size}")
        columns = [_cells(column) for column in table.columns]
        writers = [self._writer(column.type) for column in table.columns]
        for place, cells in enumerate(zip(*columns, strict=True), start=self._rows):
            for column, (cell, write) in enumerate(zip(cells, writers, strict=True)):
                if cell is not None:
                    write(place, column, cell)
        self._rows += table.num_rows

    def _begin(self, table: pa.Table) -> None:
        self._sheet.freeze_panes(1, 0)
        # No green corners beside ids, which are text on purpose.
        self._sheet.ignore_errors({"number_stored_as_text": f"A1:XFD{MOST_ROWS}"})
        for column, name in enumerate(table.column_names):
            self._sheet.write_string(0, column, name, self._bold)
        self._rows = 1

    def _writer(self, kind: pa.DataType) -> Callable[[int, int, Any], Any]:
        """Return the function that writes cells of a type."""
        if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            return self._number
        if pa.types.is_boolean(kind):
            boolean: Callable[[int, int, Any], Any] = self._sheet.write_boolean
            return boolean
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return self._date
        return self._text

    def _text(self, row: int, column: int, cell: Any) -> None:
        text = str(cell)
        if len(text) > LONGEST:
            rule = f"a .csv or .parquet file for cells of more than {LONGEST:,} characters"
            raise InvalidArgumentError("out", rule, f".xlsx for a cell of {len(text):,}")
        if text:
            self._sheet.write_string(row, column, text)

    def _number(self, row: int, column: int, cell: float) -> None:
        if isinstance(cell, int) and abs(cell) >= EXACT:
            self._text(row, column, cell)
        # Excel has neither NaN nor infinity.
        elif abs(cell) < float("inf"):
            self._sheet.write_number(row, column, cell)

    def _date(self, row: int, column: int, cell: Any) -> None:
        if not isinstance(cell, date) or cell.isoformat() < FIRST_DAY.isoformat():
            self._text(row, column, cell)
        elif isinstance(cell, datetime):
            self._sheet.write_datetime(row, column, cell.replace(tzinfo=None), self._moment)
        else:
            self._sheet.write_datetime(row, column, cell, self._day)

    def close(self) -> None:
        """Write the rest of the file."""
        self._book.close()


def _cells(column: Any) -> list[Any]:
    """Return the cells of a column as Python values."""
    if is_text(column.type) or pa.types.is_floating(column.type):
        found: list[Any] = column.to_pylist()
        return found
    return [python_value(cell) for cell in column]
