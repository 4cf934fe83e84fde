"""Files of units and outcomes, read in pieces: CSV, Parquet, Arrow IPC, or a pipe.

Whatever the format, a piece is an Arrow record batch of at most `CHUNK` rows, and the rows are the
same however often a file is read. CSV columns come as text: what a column means is for its reader
to say, and an id keeps its leading zeros.
"""

import csv
import io
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from seqbatch.campaign.design.limits import LONGEST_CELL, MOST_COLUMNS, MOST_PROBLEMS
from seqbatch.campaign.tables import sizes
from seqbatch.campaign.tables.arrow_messages import DamagedStreamError
from seqbatch.campaign.tables.formulas import unmarked, unmarked_name
from seqbatch.core import arguments
from seqbatch.core.arrays import Integers
from seqbatch.errors import InvalidArgumentError, InvalidFileError

#: Rows in one piece: big enough for speed, small enough for memory (25 numbers a row: 13 MB).
CHUNK = 65_536
#: Cells in one piece at most: a file of many columns comes in pieces of fewer rows.
CELLS = 2_000_000
#: Bytes of a CSV file that are read at once; no row is longer.
BLOCK = 8 << 20
#: Bytes of a CSV file in which its header must end.
LONGEST_HEADER = 4 << 20
#: What is not done with a file that cannot be read.
NOTHING = "nothing was done"
FORMATS = ("csv", "parquet", "arrow")
ENDINGS = {
    ".csv": "csv", ".csv.gz": "csv", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow",
    ".ipc": "arrow",
}  # fmt: skip

Problem = tuple[int, str, str]


@dataclass
class Source:
    """A table that can be read again and again, in pieces.

    Parameters
    ----------
    name
        What to call it in messages.
    file_format
        csv, parquet, arrow or table.
    path, table
        Where its rows are: a file, or memory.
    seen
        The file as it was when it was opened; None for what cannot change.
    ragged
        Rows of a CSV file that have too many or too few cells, found while reading.
    """

    name: str
    file_format: str
    path: Path | None = None
    table: pa.Table | None = None
    seen: "Fingerprint | None" = None
    ragged: list[Problem] = field(default_factory=list)

    def columns(self) -> list[str]:
        """Return the names of the columns, each once; refuse a file that cannot be read."""
        names: list[str] = self.reading(self._columns)
        if not names:
            self.refuse("the file has no columns")
        if len(names) > MOST_COLUMNS:
            rule = f"a file must have at most {MOST_COLUMNS:,} columns"
            self.refuse(f"{rule}; received {len(names):,}; leave out those that are not needed")
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            problems = [
                (0, name, "the header names this column more than once") for name in repeated
            ]
            raise InvalidFileError(self.name, problems, NOTHING)
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
            How many bytes a cell may have; None for as many as there is room for.
        """
        size = max(256, min(CHUNK, CELLS // len(columns)))
        pieces = self.reading(lambda: self._batches(list(columns), size))
        rows = decoded = 0
        while (piece := self.reading(lambda: _valid(next(pieces, None)))) is not None:
            self.refuse(sizes.too_many_rows(rows + piece.num_rows))
            spelled = self._spelled(piece, rows, longest)
            decoded += int(spelled.sum())
            if self.path is not None:
                self.refuse(sizes.too_much_decoded(decoded, self.path.stat().st_size))
            for start, stop in sizes.cuts(spelled, size):
                yield piece.slice(start, stop - start)
            rows += piece.num_rows

    def _spelled(self, piece: pa.RecordBatch, rows: int, longest: int | None) -> Integers:
        """Return the bytes of each row's texts; refuse a text that is too long."""
        total = np.zeros(piece.num_rows, dtype=np.int64)
        for name, column in zip(piece.schema.names, piece.columns, strict=True):
            lengths = sizes.text_bytes(column)
            if longest is not None and lengths.max(initial=0) > longest:
                row = int(lengths.argmax())
                reason = f"must have at most {longest:,} bytes; received {lengths[row]:,}"
                place = int(self.lines(self.rows(np.array([rows + row + 1])))[0])
                raise InvalidFileError(self.name, [(place, name, reason)], NOTHING)
            total += lengths
        return total

    def rows(self, read: Integers) -> Integers:
        """Return where rows that were read stand in the file, counting those that were ragged.

        Rows of data count from 1, and so do rows that were read.
        """
        ragged = np.sort(np.array([row for row, _, _ in self.ragged], dtype=np.int64))
        # Of the rows before the j-th ragged one, j were ragged as well.
        passed = np.searchsorted(ragged - np.arange(len(ragged)), read, side="right")
        return read + passed

    def lines(self, rows: Integers) -> Integers:
        """Return the lines of rows of data; a CSV file has a header."""
        return rows + 1 if self.file_format == "csv" else rows

    def require_unchanged(self) -> None:
        """Refuse a file that was replaced or written to since it was opened."""
        if self.seen is None:
            return
        assert self.path is not None
        try:
            now = fingerprint(self.path)
        except OSError:
            now = None
        if now != self.seen:
            reason = "the file changed while it was read; wait until it is complete, and try again"
            raise InvalidFileError(self.name, [(0, "", reason)], NOTHING)

    def reading(self, call: Callable[[], Any]) -> Any:
        """Call, and refuse the file where what is in it makes that impossible."""
        try:
            return call()
        except (pa.ArrowException, UnicodeError, csv.Error, DamagedStreamError, OSError) as error:
            self.require_unchanged()
            if len(self.ragged) > MOST_PROBLEMS:
                self.refuse(f"more than {MOST_PROBLEMS:,} rows are not as long as the header")
            # The first line: Arrow says in the next ones where in its own code this was found.
            reason = str(error).partition("\n")[0][:300]
            if "straddling object" in reason:
                reason = f"a row must have less than {BLOCK:,} bytes; a quote may be left open"
            self.refuse(f"cannot be read as {self.file_format}: {reason}")

    def refuse(self, reason: str) -> None:
        """Refuse the whole file for a reason; do nothing where there is none."""
        if reason:
            raise InvalidFileError(self.name, [(0, "", reason)], NOTHING) from None

    def _columns(self) -> list[str]:
        if self.file_format == "csv":
            return [unmarked_name(name) for name in self._csv_header()]
        if self.file_format == "parquet":
            return list(pa.parquet.ParquetFile(self.path).schema_arrow.names)
        if self.file_format == "arrow":
            with pa.OSFile(str(self.path)) as file:
                return list(_ipc(file).schema.names)
        assert self.table is not None
        return list(self.table.column_names)

    def _csv_header(self) -> list[str]:
        assert self.path is not None
        with pa.input_stream(str(self.path)) as stream:
            first = stream.read(LONGEST_HEADER)
        if not first.strip(b"\xef\xbb\xbf\r\n\t ,"):
            raise InvalidFileError(self.name, [(0, "", "the file is empty")], NOTHING)
        cut = len(first) == LONGEST_HEADER
        if cut and not (b"\n" in first or b"\r" in first):
            self.refuse(f"the header must have less than {LONGEST_HEADER:,} bytes")
        text = first.decode("utf-8-sig", errors="ignore" if cut else "strict")
        # Lines end as they do in the file: a form feed in a name is part of the name.
        return next((row for row in csv.reader(io.StringIO(text, newline="")) if row), [])

    def _batches(self, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        if self.file_format == "csv":
            return self._csv_batches(columns)
        if self.file_format == "parquet":
            return self._parquet_batches(columns, size)
        if self.file_format == "arrow":
            return self._ipc_batches(columns)
        assert self.table is not None
        return iter(self.table.select(columns).to_batches(max_chunksize=size))

    def _csv_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        self.ragged.clear()
        written = {unmarked_name(name): name for name in self._csv_header()}
        names = [written[name] for name in columns]

        def odd(row: Any) -> str:
            number = (row.number or 1) - 1
            reason = f"the row has {row.actual_columns} cells, the header {row.expected_columns}"
            self.ragged.append((number, "", reason))
            return "skip" if len(self.ragged) <= MOST_PROBLEMS else "error"

        reader = pa.csv.open_csv(
            str(self.path),
            # One thread, so that a row that is not as long as the header has its number.
            read_options=pa.csv.ReadOptions(block_size=BLOCK, use_threads=False),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=odd),
            convert_options=pa.csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
            ),
        )
        return (
            pa.record_batch([unmarked(column) for column in batch.columns], names=columns)
            for batch in reader
        )

    def _parquet_batches(self, columns: list[str], size: int) -> Iterator[pa.RecordBatch]:
        assert self.path is not None
        # Read as it is needed: fetched ahead, the whole file would be in memory.
        file = pa.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 20)
        self.refuse(sizes.of_parquet(file, columns, self.path.stat().st_size))
        rows = sizes.rows_at_once(self.path, file.schema_arrow, columns, size)
        yield from file.iter_batches(batch_size=rows, columns=columns)

    def _ipc_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self.path)) as file:
            self.refuse(sizes.of_arrow(file))
            for batch in _ipc_pieces(_ipc(file)):
                yield batch.select(columns)


def _valid(piece: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """Return a piece whose values can be looked at: a damaged file's may point anywhere."""
    if piece is not None:
        piece.validate(full=True)
    return piece


def _ipc(file: Any) -> Any:
    """Open an Arrow file, or the stream form of one."""
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


#: Device, inode, size, and the times of the last change of content and of anything.
Fingerprint = tuple[int, int, int, int, int]


def fingerprint(path: Path) -> Fingerprint:
    """Return what changes when a file is replaced or written to."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextmanager
def source(given: Any, *, file_format: str | None = None) -> Iterator[Source]:
    """Open a path, ``"-"`` for standard input, or a table in memory.

    Standard input is spooled first, so that it too can be read again.

    Parameters
    ----------
    given
        A path, ``"-"``, a PyArrow table or a Polars frame.
    file_format
        csv, parquet or arrow; by the name's ending where None, csv for a pipe.
    """
    if isinstance(given, pa.Table) or hasattr(given, "to_arrow"):
        table = given if isinstance(given, pa.Table) else given.to_arrow()
        yield Source("table", "table", table=table)
    elif str(given) == "-":
        with tempfile.NamedTemporaryFile(suffix=".spool") as spool:
            shutil.copyfileobj(sys.stdin.buffer, spool)
            spool.flush()
            yield Source("standard input", format_of("-", file_format), path=Path(spool.name))
    else:
        path = Path(given)
        found = format_of(path.name, file_format)
        if not path.is_file():
            raise InvalidFileError(str(given), [(0, "", "there is no such file")], NOTHING)
        yield Source(str(given), found, path=path, seen=fingerprint(path))


def format_of(name: str, file_format: str | None) -> str:
    """Return a file's format, by what was said or by its ending."""
    if file_format is not None:
        return arguments.choice("file_format", file_format, FORMATS)
    if name == "-":
        return "csv"
    for ending, found in ENDINGS.items():
        if name.endswith(ending):
            return found
    raise InvalidArgumentError(
        "file", f"named with one of {', '.join(ENDINGS)}", name, "Or state its format."
    )


def has_ending(name: str) -> bool:
    """Say whether a file's name tells its format."""
    return name.endswith(tuple(ENDINGS))
