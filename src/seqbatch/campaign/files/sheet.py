"""A sheet of a workbook, converted once and kept in a temporary file while it is read."""

import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from seqbatch.campaign.files import reader_process
from seqbatch.campaign.files.header import unnamed_cell
from seqbatch.core.arrays import Integers
from seqbatch.errors import RowProblem

#: The bytes of a sheet that are held in memory before they go to disk.
SMALL = 1 << 20
#: The column of row numbers, and the mark before the name of a column as Excel shows it.
ROWS, AS_SHOWN = "", "\0"


class Sheet:
    """The rows of a sheet below its header.

    Parameters
    ----------
    path
        The workbook.
    sheet
        The name of the sheet; None for the first visible one with cells.
    skip_rows
        The number of rows above the header.
    check
        Called with the number of rows so far, to refuse a sheet that has too many.
    """

    def __init__(
        self, path: Path, sheet: str | None, skip_rows: int, check: Callable[[int], None]
    ) -> None:
        # An unnamed file, which no other process can write to.
        self._spool = tempfile.SpooledTemporaryFile(max_size=SMALL)  # noqa: SIM115
        weakref.finalize(self, self._spool.close)
        self._places: list[int] = []
        self._shown: set[str] = set()
        rows, pieces = 0, reader_process.read_sheet(path, sheet, skip_rows)
        try:
            while True:
                piece = next(pieces)
                rows += piece.num_rows
                check(rows)
                self._places.append(self._spool.tell())
                self._shown = {name for name in piece.schema.names if name[:1] == AS_SHOWN}
                self._spool.write(reader_process.packed(piece))
        except StopIteration as end:
            said: Mapping[str, Any] = end.value
        #: The name of the sheet, and of the other visible sheets.
        self.name: str = said["sheet"]
        self.others: list[str] = said["others"]
        #: The names of the columns; "" for a column without one.
        self.header: list[str] = said["columns"]
        self._unnamed: Mapping[str, Any] | None = said.get("unnamed")
        #: The first row of each column with a formula without a result, ...
        self._hollow: Mapping[str, int] = said.get("hollow", {})
        #: ... with a number that Excel has rounded, and with a date among other cells.
        self._rounded: Mapping[str, int] = said.get("rounded", {})
        self._dated: Mapping[str, int] = said.get("dated", {})

    def require_header(self) -> None:
        """Refuse a sheet with a value below no name."""
        if (cell := self._unnamed) is not None:
            raise unnamed_cell("row", cell["place"], self.header, cell["rows"])

    def batches(
        self, columns: Sequence[str], *, shown: bool
    ) -> Iterator[tuple[Integers, pa.RecordBatch]]:
        """Yield these columns in pieces, with the number of each row.

        Parameters
        ----------
        columns
            The names of the columns.
        shown
            Whether to spell numbers among texts as Excel shows them.
        """
        mark = AS_SHOWN if shown else ""
        chosen = [mark + name if mark + name in self._shown else name for name in columns]
        for place in self._places:
            self._spool.seek(place)
            piece = pa.ipc.open_stream(self._spool).read_next_batch()
            rows = piece.column(ROWS).to_numpy()
            made = piece.select(chosen)
            yield rows, pa.record_batch(made.columns, names=list(columns))

    def hollow(self, columns: Sequence[str]) -> list[RowProblem]:
        """Return the problems of columns with formulas that were never computed."""
        reason = (
            "holds a formula without its result; open the file in Excel or LibreOffice, and save it"
        )
        return [
            RowProblem(self._hollow[name], name, reason, "formula")
            for name in columns
            if name in self._hollow
        ]

    def changed_ids(self, columns: Sequence[str]) -> list[RowProblem]:
        """Return the problems of id columns in which Excel may have changed ids."""
        reason = (
            "is a number of more than 15 digits, which Excel rounds: the id is lost. Export it "
            "again as text"
        )
        found = [
            RowProblem(self._rounded[name], name, reason, "rounded-id")
            for name in columns
            if name in self._rounded
        ]
        reason = (
            "is a date among other ids: Excel turns ids such as 3-12 into dates. Export them again "
            "as text"
        )
        return found + [
            RowProblem(self._dated[name], name, reason, "dated-id")
            for name in columns
            if name in self._dated
        ]

    @property
    def choice(self) -> str:
        """Which sheet was chosen among several."""
        others = ", ".join(repr(name) for name in self.others[:5])
        more = ", ..." if len(self.others) > 5 else ""
        return f"sheet {self.name!r}, not {others}{more}"
