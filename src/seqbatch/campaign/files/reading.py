"""Read files of units and outcomes in pieces: CSV, Parquet, Arrow IPC, or standard input."""

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from seqbatch.campaign.files import unpacked_size
from seqbatch.campaign.files.csv import (
    CsvDialect,
    DelimitedError,
    Records,
    decoded,
    dialect_of,
    records,
    unmarked,
    unmarked_name,
)
from seqbatch.campaign.files.unpacked_size import DamagedStreamError
from seqbatch.campaign.spec.input_limits import LONGEST_CELL, MOST_COLUMNS, MOST_PROBLEMS
from seqbatch.core import arguments
from seqbatch.core.arrays import Bools, Integers
from seqbatch.errors import InvalidArgumentError, InvalidFileError, Remedy, RowProblem

# ----------------------------------------------------------------------
# Sources: tables that are read in pieces.
#
# In every format, a piece is an Arrow record batch of at most `CHUNK` rows, and repeated reads
# return the same rows. CSV columns are read as text: the caller interprets them, and ids keep
# their leading zeros.


#: The rows in one piece: enough for speed, few enough for memory (25 numbers a row: 13 MB).
CHUNK = 65_536
#: The most cells in one piece: a file with many columns is read in pieces of fewer rows.
CELLS = 2_000_000
#: The number of columns named when one is missing.
SHOWN = 10
#: The end of the message for a file that cannot be read.
NOTHING = "nothing was done"
FORMATS = ("csv", "parquet", "arrow")
ENDINGS = {
    ".csv": "csv", ".csv.gz": "csv", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow",
    ".ipc": "arrow",
}  # fmt: skip
#: More file name endings that are read.
READ = ENDINGS | {".tsv": "csv", ".tsv.gz": "csv", ".tab": "csv", ".txt": "csv", ".txt.gz": "csv"}

#: The problem of a file without rows.
NO_ROWS = RowProblem(0, "", "the file has no rows", "no-rows")


class Source:
    """A table that can be read repeatedly, in pieces.

    Commands, HTTP calls and public methods make one for each file or table they receive. Nothing
    is opened before `with source:`, which may be repeated.

    Parameters
    ----------
    given
        A path, ``"-"`` for standard input, or any object with Arrow's table interface
        (``__arrow_c_stream__``), from PyArrow, Polars, pandas, DuckDB and others.
    name
        The name used in messages, if not the path.
    file_format
        csv, parquet or arrow; by default from the name's ending, and csv for standard input.
    delimiter, encoding
        The dialect of a CSV file; detected by default.

    Examples
    --------
    >>> with Source(pa.table({"unit": ["a", "b"]})) as table:
    ...     print(table.columns(), sum(piece.num_rows for piece in table.batches(["unit"])))
    ['unit'] 2
    """

    def __init__(
        self,
        given: Any,
        *,
        name: str | None = None,
        file_format: str | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> None:
        self._given = given
        self._in_memory = _is_table(given)
        if not self._in_memory and not isinstance(given, str | os.PathLike):
            raise InvalidArgumentError(
                "file", "a path, or a table with Arrow's interface", type(given).__name__
            )
        #: Whether the rows come from standard input.
        self.is_pipe = not self._in_memory and str(given) == "-"
        usual = "table" if self._in_memory else "standard input" if self.is_pipe else str(given)
        self.name = usual if name is None else name
        #: The file as the user named it, stored with events; "" for other sources.
        self.file = ""
        if name is None and isinstance(given, str | Path) and not self.is_pipe:
            self.file = str(given)
        self._stated = file_format
        self.delimiter = delimiter
        self.encoding = encoding
        self._path: Path | None = None
        self._table: pa.Table | None = None
        #: The file's fingerprint when it was opened; None for sources that cannot change.
        self._seen: Fingerprint | None = None
        self._spool: IO[bytes] | None = None
        #: Rows of a CSV file with too many or too few cells, by line.
        self.ragged: list[RowProblem] = []
        #: How far line numbers are ahead of row numbers, and from which rows on.
        self._ahead: list[tuple[Integers, Integers]] = []

    def __enter__(self) -> "Source":
        """Open the file; copy standard input to a file so that it can be read again."""
        # The file may have changed since it was last opened.
        self.__dict__.pop("dialect", None)
        # An unknown format is refused here, before anything is read.
        if self.file_format == "table":
            self._table = _table(self._given)
        elif self.is_pipe:
            self._spool = tempfile.NamedTemporaryFile(suffix=".spool")
            shutil.copyfileobj(sys.stdin.buffer, self._spool)
            self._spool.flush()
            self._path = Path(self._spool.name)
        else:
            self._path = Path(self._given)
            if not self._path.is_file():
                folder = self._path.is_dir()
                reason = "is a folder" if folder else "there is no such file"
                problem = RowProblem(0, "", reason, "folder" if folder else "no-such-file")
                raise InvalidFileError(self.name, [problem], NOTHING)
            self._seen = fingerprint(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the copy of standard input."""
        if self._spool is not None:
            self._spool.close()

    @cached_property
    def file_format(self) -> str:
        """The file's format: csv, parquet, arrow, or table."""
        if self._in_memory:
            return "table"
        name = "-" if self.is_pipe else Path(self._given).name
        return format_of(name, self._stated, endings=READ)

    @cached_property
    def dialect(self) -> CsvDialect:
        """The delimiter and encoding of a CSV file."""
        assert self._path is not None
        path = self._path
        found: CsvDialect = self.reading(
            lambda: dialect_of(path, delimiter=self.delimiter, encoding=self.encoding)
        )
        return found

    @property
    def read_as(self) -> str:
        """A note on how a CSV file was read, if its dialect is unusual; otherwise empty."""
        if self.file_format != "csv" or self.dialect.usual:
            return ""
        return f"{self.name} was read as {self.dialect} text"

    @property
    def has_index(self) -> bool:
        """Whether the first column of a CSV file has no name, like a data frame's index."""
        return self.file_format == "csv" and not self._csv_header()[0]

    @property
    def has_semicolons(self) -> bool:
        """Whether semicolons separate the cells, as is usual where the decimal mark is a comma."""
        return self.file_format == "csv" and self.dialect.delimiter == ";"

    @property
    def place(self) -> str:
        """The word for a position in the file: line or row."""
        return "line" if self.file_format == "csv" else "row"

    def invalid(
        self,
        problems: list[RowProblem],
        consequence: str = NOTHING,
        *,
        remedies: Sequence[Remedy] = (),
    ) -> InvalidFileError:
        """Return the error for these problems; in a CSV file their positions are lines."""
        return InvalidFileError(
            self.name, problems, consequence, place=self.place, remedies=remedies
        )

    def columns(self) -> list[str]:
        """Return the distinct column names; refuse a file that cannot be read."""
        names: list[str] = self.reading(self._columns)
        if not names:
            self.refuse("the file has no columns", "no-columns")
        if len(names) > MOST_COLUMNS:
            rule = f"a file must have at most {MOST_COLUMNS:,} columns"
            self.refuse(
                f"{rule}; received {len(names):,}; leave out those that you do not need",
                "too-many-columns",
            )
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            reason = "the header names this column more than once"
            raise self.invalid([RowProblem(0, n, reason, "repeated-column") for n in repeated])
        return names

    def batches(
        self, columns: Sequence[str], *, longest: int | None = LONGEST_CELL
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these columns in order, in pieces of at most `CHUNK`.

        Parameters
        ----------
        columns
            The columns to read.
        longest
            The most bytes that a cell may have; None for no limit.
        """
        size = max(256, min(CHUNK, CELLS // len(columns)))
        pieces = self.reading(lambda: self._batches(list(columns), size))
        rows = decoded = 0
        while (piece := self.reading(lambda: _valid(next(pieces, None)))) is not None:
            self.refuse(unpacked_size.too_many_rows(rows + piece.num_rows), "too-many-rows")
            spelled = self._spelled(piece, rows, longest)
            decoded += int(spelled.sum())
            if self._path is not None:
                size_of_file = self._path.stat().st_size
                self.refuse(unpacked_size.too_much_decoded(decoded, size_of_file), "too-large")
            for start, stop in unpacked_size.cuts(spelled, size):
                yield piece.slice(start, stop - start)
            rows += piece.num_rows

    def _spelled(self, piece: pa.RecordBatch, rows: int, longest: int | None) -> Integers:
        """Return the number of bytes of each row's texts; refuse a text that is too long."""
        total = np.zeros(piece.num_rows, dtype=np.int64)
        for name, column in zip(piece.schema.names, piece.columns, strict=True):
            lengths = unpacked_size.text_bytes(column)
            if longest is not None and lengths.max(initial=0) > longest:
                row = int(lengths.argmax())
                reason = f"must have at most {longest:,} bytes; received {lengths[row]:,}"
                place = int(self.lines(np.array([rows + row + 1]))[0])
                raise self.invalid([RowProblem(place, name, reason, "too-long")])
            total += lengths
        return total

    def lines(self, read: Integers) -> Integers:
        """Return the positions in the file of rows, which are counted from 1.

        In a CSV file the position is the line on which the row begins; otherwise it is the row.
        """
        if not self._ahead:
            return read
        starts, ahead = (np.concatenate(parts) for parts in zip(*self._ahead, strict=True))
        found: Integers = read + ahead[np.searchsorted(starts, read, side="right") - 1]
        return found

    def placed(self, problems: Sequence[RowProblem]) -> list[RowProblem]:
        """Replace the rows of problems, counted from 1, by lines; 0 means the whole file."""
        rows = np.array([each.row for each in problems], dtype=np.int64)
        lines = np.where(rows > 0, self.lines(np.maximum(rows, 1)), 0).tolist()
        return [replace(each, row=line) for line, each in zip(lines, problems, strict=True)]

    def require_unchanged(self) -> None:
        """Refuse a file that was replaced or changed since it was opened."""
        if self._seen is None:
            return
        assert self._path is not None
        try:
            now = fingerprint(self._path)
        except OSError:
            now = None
        if now != self._seen:
            reason = "the file changed while it was read; wait until it is complete, and try again"
            raise InvalidFileError(self.name, [RowProblem(0, "", reason, "changed")], NOTHING)

    def reading(self, call: Callable[[], Any]) -> Any:
        """Call a function, and refuse the file if its contents make the call fail."""
        try:
            return call()
        except DelimitedError as error:
            self.require_unchanged()
            self.refuse(f"cannot be read as csv: {error}", "unreadable")
        except (pa.ArrowException, UnicodeError, DamagedStreamError, OSError) as error:
            self.require_unchanged()
            # Keep the first line: the next ones say where in Arrow's code the error arose.
            reason = str(error).partition("\n")[0][:300]
            self.refuse(f"cannot be read as {self.file_format}: {reason}", "unreadable")

    def refuse(self, reason: str, code: str) -> None:
        """Refuse the whole file for a reason; do nothing if the reason is empty."""
        if reason:
            raise self.invalid([RowProblem(0, "", reason, code)]) from None

    def _columns(self) -> list[str]:
        if self.file_format == "csv":
            # A column without a name, such as a data frame's index, cannot be selected.
            return [name for name in self._csv_header() if name]
        if self.file_format == "parquet":
            return list(pa.parquet.ParquetFile(self._path).schema_arrow.names)
        if self.file_format == "arrow":
            with pa.OSFile(str(self._path)) as file:
                return list(_ipc(file).schema.names)
        assert self._table is not None
        return list(self._table.column_names)

    def _csv_header(self) -> list[str]:
        header = next((found.record(0) for found in self._csv_records()), [])
        names = [unmarked_name(name.strip()) for name in header]
        if not any(names):
            self.refuse("the file is empty", "no-columns")
        return names

    def _csv_records(self) -> Iterator[Records]:
        assert self._path is not None
        blocks = decoded(self._path, self.dialect.encoding)
        before = self.dialect.before
        # Anything before the header is on a separate line.
        first = next(blocks)[before:]
        return records(chain([first], blocks), self.dialect.delimiter, line=2 if before else 1)

    def _batches(self, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        if self.file_format == "csv":
            return self._csv_batches(columns)
        if self.file_format == "parquet":
            return self._parquet_batches(columns, size)
        if self.file_format == "arrow":
            return self._ipc_batches(columns)
        assert self._table is not None
        return iter(self._table.select(columns).to_batches(max_chunksize=size))

    def _csv_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        self.ragged.clear()
        self._ahead.clear()
        header, read = self._csv_header(), 0
        places = [header.index(name) for name in columns]
        for number, found in enumerate(self._csv_records()):
            fits = found.fits(len(header))
            if number == 0:
                fits[0] = False
            self._note_ragged(found, fits, width=len(header), header=number == 0)
            self._refuse_nameless(found, fits, header)
            firsts = found.firsts[:-1][fits]
            self._note_lines(read, found.lines[fits])
            read += len(firsts)
            yield pa.record_batch(
                [unmarked(found.cells(firsts + place)) for place in places], names=columns
            )

    def _note_ragged(self, found: Records, fits: Bools, *, width: int, header: bool) -> None:
        """Record the lines of records that are not as long as the header."""
        odd = np.flatnonzero(~fits)[1 if header else 0 :]
        for line, cells in zip(found.lines[odd].tolist(), found.widths[odd].tolist(), strict=True):
            reason = f"the row has {cells} cells, the header {width}"
            self.ragged.append(RowProblem(line, "", reason, "cell-count"))
            if len(self.ragged) > MOST_PROBLEMS:
                raise DelimitedError(
                    f"more than {MOST_PROBLEMS:,} rows do not have as many cells as the header"
                )

    def _refuse_nameless(self, found: Records, fits: Bools, header: list[str]) -> None:
        """Refuse values without a column name; only the first column, an index, may lack one."""
        for place in (place for place, name in enumerate(header) if place and not name):
            cells = found.firsts[:-1][fits] + place
            filled = np.flatnonzero(found.ends[cells] > found.starts[cells])
            for row, text in zip(filled, found.cells(cells[filled]).to_pylist(), strict=True):
                if text.strip():
                    line = int(found.lines[fits][row])
                    code = "unnamed-column"
                    reason = (
                        f"column {place + 1} has the value {text[:40]!r} but no name in the "
                        "header (there may be two headers). Keep one header, with a name for "
                        "every column"
                    )
                    if _names_all(found.record(int(np.flatnonzero(fits)[row]))):
                        code = "late-header"
                        reason = (
                            f"the header seems to be on line {line:,}, with a name for every "
                            "column; delete the lines above it"
                        )
                    raise self.invalid([RowProblem(line, "", reason, code)])

    def _note_lines(self, read: int, lines: Integers) -> None:
        """Record where line numbers run ahead of row numbers; usually only at the header."""
        rows = np.arange(read + 1, read + 1 + len(lines))
        ahead = lines - rows
        # The header precedes all rows, which puts lines at least 1 ahead.
        before = self._ahead[-1][1][-1] if self._ahead else 0
        changed = np.flatnonzero(np.diff(ahead, prepend=before))
        if len(changed):
            self._ahead.append((rows[changed], ahead[changed]))

    def _parquet_batches(self, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        assert self._path is not None
        # Read on demand: reading ahead would load the whole file into memory.
        file = pa.parquet.ParquetFile(self._path, pre_buffer=False, buffer_size=1 << 20)
        size_of_file = self._path.stat().st_size
        self.refuse(unpacked_size.too_many_rows(file.metadata.num_rows), "too-many-rows")
        self.refuse(unpacked_size.of_parquet(file, columns, size_of_file), "too-large")
        rows = unpacked_size.rows_at_once(self._path, file.schema_arrow, columns, size)
        # Arrow's threads may outlive a refused file and crash the process.
        yield from file.iter_batches(batch_size=rows, columns=columns, use_threads=False)

    def _ipc_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self._path)) as file:
            self.refuse(unpacked_size.of_arrow(file), "too-large")
            for batch in _ipc_pieces(_ipc(file)):
                yield batch.select(columns)


def _names_all(cells: list[str]) -> bool:
    """Return whether a row may be the header: its cells are distinct words, not numbers."""
    names = {cell.strip() for cell in cells}
    return len(names) == len(cells) and all(name and not name[0].isdigit() for name in names)


def no_such_column(name: str, there: Sequence[str]) -> RowProblem:
    """Return the problem of a missing column: a similar name, or the existing columns.

    >>> no_such_column("Umsatz neu", ["Kunde", "umsatz_neu"]).reason
    "the file has no such column; did you mean 'umsatz_neu'?"
    >>> no_such_column("visit", ["id", "y"]).reason
    "the file has no such column; it has 'id', 'y'"
    """
    meant = [other for other in there if _bare(other) == _bare(name)]
    if meant:
        reason = f"the file has no such column; did you mean {meant[0]!r}?"
        return RowProblem(0, name, reason, "no-such-column")
    shown = ", ".join(repr(other[:60]) for other in there[:SHOWN])
    more = f" and {len(there) - SHOWN:,} more" if len(there) > SHOWN else ""
    reason = f"the file has no such column; it has {shown}{more}"
    return RowProblem(0, name, reason, "no-such-column")


def _bare(name: str) -> str:
    """Return a name without case, spaces and punctuation."""
    return "".join(filter(str.isalnum, name.casefold()))


def _valid(piece: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """Return a piece after validating it: offsets in a damaged file may point anywhere."""
    if piece is not None:
        piece.validate(full=True)
    return piece


def _ipc(file: Any) -> Any:
    """Open an Arrow file or an Arrow stream."""
    try:
        return pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        return pa.ipc.open_stream(file)


def _ipc_pieces(reader: Any) -> Iterator[pa.RecordBatch]:
    if hasattr(reader, "num_record_batches"):
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
    else:
        yield from reader


#: Device, inode, size, modification time and change time.
Fingerprint = tuple[int, int, int, int, int]


def fingerprint(path: Path) -> Fingerprint:
    """Return values that change when a file is replaced or written to."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def source_of(
    given: Any,
    *,
    file_format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Source:
    """Wrap the user's input in a source; a source is returned unchanged."""
    if isinstance(given, Source):
        return given
    return Source(given, file_format=file_format, delimiter=delimiter, encoding=encoding)


def _is_table(given: Any) -> bool:
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")


def _table(given: Any) -> pa.Table:
    """Return a table in memory; duplicate columns are refused only when it is read."""
    try:
        return pa.table(given)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = f"cannot be read as an Arrow table: {str(error).partition(chr(10))[0][:300]}"
        problem = RowProblem(0, "", reason, "unreadable")
        raise InvalidFileError("table", [problem], NOTHING) from error


def format_of(name: str, file_format: str | None, *, endings: Mapping[str, str] = ENDINGS) -> str:
    """Return a file's format, as stated or from its ending."""
    if file_format is not None:
        return arguments.choice("file_format", file_format, FORMATS)
    if name == "-":
        return "csv"
    for ending, found in endings.items():
        if name.lower().endswith(ending):
            return found
    if name.lower().endswith((".xlsx", ".xls", ".xlsm", ".ods")):
        raise InvalidArgumentError(
            "file", f"named with one of {', '.join(endings)}", name, "Save the sheet as CSV first."
        )
    raise InvalidArgumentError(
        "file", f"named with one of {', '.join(endings)}", name, "Or state its format."
    )


def has_ending(name: str) -> bool:
    """Return whether a file's name shows its format."""
    return name.lower().endswith(tuple(ENDINGS))
