"""Read files of units and outcomes in pieces: CSV, Excel, Parquet, Arrow, or standard input."""

import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files import reader_process, unpacked_size
from seqbatch.campaign.files.column_values import decoded
from seqbatch.campaign.files.csv import CsvDialect, DelimitedError, dialect_of
from seqbatch.campaign.files.csv_rows import CsvRows
from seqbatch.campaign.files.formats import READ, WORKBOOKS, format_of
from seqbatch.campaign.files.header import HeaderError
from seqbatch.campaign.files.reader_process import BinaryFileError, Description, valid
from seqbatch.campaign.files.repeats import Dedupe, RepeatedRowsError, Repeats, kept_rows
from seqbatch.campaign.files.sheet import Sheet
from seqbatch.campaign.spec.input_limits import LONGEST_CELL, MOST_PIPED
from seqbatch.core import arguments
from seqbatch.core.arrays import Integers
from seqbatch.errors import InvalidArgumentError, InvalidFileError, Part, Remedy, RowProblem

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
#: The bytes of standard input that are copied at a time.
PIPED = 1 << 20
#: The number of columns named when one is missing.
SHOWN = 10
#: The end of the message for a file that cannot be read.
NOTHING = "nothing was done"
#: The most lines or rows above a header.
MOST_SKIPPED = 1_000

#: The problem of a file without rows.
NO_ROWS = RowProblem(0, "", "the file has no rows", "no-rows")


class ReadingOptions(TypedDict, total=False):
    """How to read a file; see :class:`Source`."""

    file_format: str | None
    delimiter: str | None
    encoding: str | None
    sheet: str | None
    skip_rows: int
    dedupe: str | None


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
        csv, xlsx, xls, parquet or arrow; by default from the name's ending, and csv for standard
        input.
    delimiter, encoding
        The dialect of a CSV file, such as ``";"`` or ``"semicolon"``, and ``"utf-16"``; detected by
        default.
    sheet
        The sheet of a workbook; by default the first visible one with cells.
    skip_rows
        The number of lines of a CSV file, or rows of a sheet, above the header.
    dedupe
        Which row of a repeated unit counts: "first", "last", or "newest-by" and a column of dates
        or numbers. By default, a repeated unit is refused.

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
        sheet: str | None = None,
        skip_rows: int = 0,
        dedupe: str | None = None,
    ) -> None:
        self._given = given
        self._in_memory = _is_table(given)
        if not self._in_memory and not isinstance(given, str | os.PathLike):
            raise InvalidArgumentError(
                "file", "a path, or a table with Arrow's interface", type(given).__name__
            )
        #: Whether the rows come from standard input.
        self.is_pipe = not self._in_memory and str(given) == "-"
        usual = "standard input" if self.is_pipe else printable(str(given))
        usual = "table" if self._in_memory else usual
        self.name = usual if name is None else name
        #: The file as the user named it, stored with events; "" for other sources.
        self.file = ""
        if name is None and isinstance(given, str | Path) and not self.is_pipe:
            self.file = str(given)
        self._stated = file_format
        self.delimiter = delimiter
        self.encoding = encoding
        self.sheet = sheet
        self.skip_rows = arguments.integer("skip_rows", skip_rows, at_least=0)
        if skip_rows > MOST_SKIPPED:
            raise InvalidArgumentError("skip_rows", f"at most {MOST_SKIPPED:,}", skip_rows)
        self.dedupe = None if dedupe is None else Dedupe.of(dedupe)
        options: ReadingOptions = {
            "file_format": file_format, "delimiter": delimiter, "encoding": encoding,
            "sheet": sheet, "skip_rows": skip_rows, "dedupe": dedupe,
        }  # fmt: skip
        #: The options that were given, with which the file is read the same way again.
        self.options = {name: value for name, value in options.items() if value}
        self._path: Path | None = None
        self._table: pa.Table | None = None
        #: The file's fingerprint when it was opened; None for sources that cannot change.
        self._seen: Fingerprint | None = None
        self._spool: IO[bytes] | None = None
        #: Which rows count, if each unit counts only once.
        self._repeats: Repeats | None = None
        #: How far line numbers are ahead of row numbers, and from which rows on.
        self._ahead: list[tuple[Integers, Integers]] = []

    def __enter__(self) -> "Source":
        """Open the file; copy standard input to a file so that it can be read again."""
        self._repeats, before = None, self._seen
        # An unknown format is refused here, before anything is read.
        if self.file_format == "table":
            self._table = _table(self._given)
        elif self.is_pipe:
            self._spool = tempfile.NamedTemporaryFile(suffix=".spool")
            self._path = Path(self._spool.name)
            self._copy_input(self._spool)
        else:
            self._path = Path(self._given)
            if printable(str(self._given)) != str(self._given):
                # The record and reports name the file.
                self.refuse("the file's name must be UTF-8 text; rename the file", "file-name")
            try:
                self._seen = self._found(self._path)
            except OSError as error:
                self.refuse(f"cannot be opened: {error.strerror}", "cannot-be-opened")
        if before is None or before != self._seen:
            # The file may have changed since it was last opened.
            for found in ("dialect", "_csv", "_sheet"):
                self.__dict__.pop(found, None)
        return self

    def _found(self, path: Path) -> "Fingerprint":
        """Return the fingerprint of the file; refuse a folder, and a file that does not exist."""
        if not path.is_file():
            if path.is_dir():
                self.refuse("is a folder", "folder")
            if path.exists():
                self.refuse("is a pipe or a device; pass its content on standard input", "device")
            self.refuse("there is no such file", "no-such-file")
        return fingerprint(path)

    def _copy_input(self, spool: IO[bytes]) -> None:
        """Copy standard input; if that fails, remove the copy."""
        try:
            while piece := sys.stdin.buffer.read(PIPED):
                size = spool.tell() + len(piece)
                if size > MOST_PIPED:
                    spool.close()
                    self.refuse(
                        f"must have at most {MOST_PIPED:,} bytes; received {size:,} or more; "
                        "write them to a file, and name the file",
                        "too-large",
                    )
                spool.write(piece)
            spool.flush()
        except OSError as error:
            with suppress(OSError):
                # Closing writes what is left, which fails on a full disk.
                spool.close()
            said = f"{error.strerror}; free some space, or set TMPDIR to a folder that has more"
            raise OSError(
                error.errno, f"standard input cannot be stored: {said}", spool.name
            ) from None

    def __exit__(self, *_: object) -> None:
        """Remove the copy of standard input."""
        if self._spool is not None:
            self._spool.close()

    @cached_property
    def file_format(self) -> str:
        """The file's format: csv, parquet, arrow, xlsx, xls, or table."""
        if self._in_memory:
            return "table"
        name = "-" if self.is_pipe else printable(Path(self._given).name)
        return format_of(name, self._stated, endings=READ)

    @cached_property
    def dialect(self) -> CsvDialect:
        """The delimiter and encoding of a CSV file."""
        assert self._path is not None
        path = self._path
        found: CsvDialect = self.reading(
            lambda: dialect_of(
                path, delimiter=self.delimiter, encoding=self.encoding, skip_rows=self.skip_rows
            )
        )
        return found

    @cached_property
    def _csv(self) -> CsvRows:
        assert self._path is not None
        return CsvRows(self._path, self.dialect)

    @cached_property
    def _sheet(self) -> Sheet:
        assert self._path is not None
        path = self._path

        def check(rows: int) -> None:
            self.refuse(unpacked_size.too_many_rows(rows), "too-many-rows")

        found: Sheet = self.reading(lambda: Sheet(path, self.sheet, self.skip_rows, check))
        return found

    @property
    def ragged(self) -> list[RowProblem]:
        """Rows of a CSV file with too many or too few cells, by line."""
        return self._csv.ragged if self.file_format == "csv" else []

    @property
    def read_as(self) -> str:
        """Notes on how the file was read, if that is not obvious; otherwise empty."""
        how = ""
        if self.file_format == "csv" and not self.dialect.usual:
            how = f"{self.name} was read as {self.dialect} text"
        if self.file_format in WORKBOOKS and self._sheet.others:
            how = f"{self.name} was read from {self._sheet.choice}"
        if self._repeats is None:
            return how
        return f"{how}; {self._repeats}" if how else f"{self.name}: {self._repeats}"

    @property
    def left_out(self) -> dict[str, Any]:
        """For an event: the rule and the number of rows of repeated units left out, if any."""
        found = self._repeats
        if found is None or not found.rows:
            return {}
        return {"left_out": {"rule": str(found.rule), "rows": found.rows, "units": found.units}}

    @property
    def sheets(self) -> tuple[str, list[str]]:
        """The sheet of a workbook that is read, and the other visible ones."""
        return self._sheet.name, self._sheet.others

    @property
    def has_index(self) -> bool:
        """Whether the first column has no name, like a data frame's index."""
        header = self._header()
        return bool(header) and not header[0]

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
        code: str = "",
        remedies: Sequence[Remedy] = (),
        advice: Sequence[Part] = (),
    ) -> InvalidFileError:
        """Return the error for these problems; in a CSV file their positions are lines."""
        name = self.name
        if (sheet := self.__dict__.get("_sheet")) is not None and sheet.others:
            name = f"{name}, sheet {sheet.name!r}"
        return InvalidFileError(
            name, problems, consequence, place=self.place, code=code, remedies=remedies,
            advice=advice or self._advice(problems),
        )  # fmt: skip

    def _advice(self, problems: list[RowProblem]) -> tuple[Part, ...]:
        """Return how to read the file differently, if that solves a problem."""
        late = [each.row for each in problems if each.code == "late-header"]
        if late:
            return "To skip what is above the header", Remedy("skip-rows", skip_rows=late[0] - 1)
        if self.dedupe is None and any(each.code == "repeated" for each in problems):
            return "To keep one row of each unit", Remedy("dedupe", dedupe="last")
        return ()

    def columns(self) -> list[str]:
        """Return the distinct column names; refuse a file that cannot be read."""
        names: list[str] = self.reading(self._columns)
        if not names:
            self.refuse("the file has no columns", "no-columns")
        self.refuse(unpacked_size.too_many_columns(len(names)), "too-many-columns")
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            reason = "the header names this column more than once"
            raise self.invalid([RowProblem(0, n, reason, "repeated-column") for n in repeated])
        return names

    def stated_rows(self) -> int:
        """Return the number of rows that a Parquet file states; 0 in other formats."""
        if self.file_format != "parquet":
            return 0
        assert self._path is not None
        path = self._path
        found: Description = self.reading(lambda: reader_process.describe(path, "parquet"))
        return found.rows

    def keep_one(self, ids: Sequence[str]) -> None:
        """From now on read only one row of each unit, by the rule that was given, if any.

        Parameters
        ----------
        ids
            The columns of the units' ids.
        """
        self._repeats = None
        if self.dedupe is None:
            return
        rule = self.dedupe
        columns = list(dict.fromkeys((*ids, *([rule.column] if rule.column else []))))
        there = self.columns()
        if missing := [name for name in columns if name not in there]:
            raise self.invalid([no_such_column(name, there) for name in missing])
        try:
            self._repeats = kept_rows(
                rule, lambda: self.batches(columns), ids, where=lambda row: self.where([row])[0]
            )
        except RepeatedRowsError as error:
            raise self.invalid(sorted(self.placed(error.problems))) from None

    def changed_ids(self, columns: Sequence[str]) -> list[RowProblem]:
        """Return the problems of ids that Excel has rounded, or turned into dates."""
        return self._sheet.changed_ids(columns) if self.file_format in WORKBOOKS else []

    def batches(
        self, columns: Sequence[str], *, longest: int | None = LONGEST_CELL, shown: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these columns in order, in pieces of at most `CHUNK`.

        Parameters
        ----------
        columns
            The columns to read.
        longest
            The most bytes that a cell may have; None for no limit.
        shown
            Whether the cells are to be written again, as a workbook shows them.
        """
        start, repeats = 0, self._repeats
        for piece in self._every_batch(columns, longest, shown):
            if repeats is None:
                yield piece
                continue
            low, high = np.searchsorted(repeats.kept, [start, start + piece.num_rows])
            if high > low:
                # Arrow takes no rows of text views.
                rows = decoded(pa.Table.from_batches([piece])).take(repeats.kept[low:high] - start)
                yield rows.combine_chunks().to_batches()[0]
            start += piece.num_rows

    def _every_batch(
        self, columns: Sequence[str], longest: int | None, shown: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows, also those of repeated units."""
        size = max(256, min(CHUNK, CELLS // len(columns)))
        pieces = self.reading(lambda: self._batches(list(columns), size, shown))
        rows = spelled_bytes = 0
        # The cells of a CSV file are cut from text that was decoded here.
        checked = next if self.file_format == "csv" else _next_valid
        while (piece := self.reading(lambda: checked(pieces, None))) is not None:
            self.refuse(unpacked_size.too_many_rows(rows + piece.num_rows), "too-many-rows")
            if not rows:
                self.reading(partial(self._refuse_timezones, piece.schema))
            spelled = self._spelled(piece, rows, longest)
            spelled_bytes += int(spelled.sum())
            if self._path is not None:
                size_of_file = self._path.stat().st_size
                self.refuse(
                    unpacked_size.too_much_decoded(spelled_bytes, size_of_file), "too-large"
                )
            for start, stop in unpacked_size.cuts(spelled, size):
                yield piece.slice(start, stop - start)
            rows += piece.num_rows

    def _refuse_timezones(self, schema: pa.Schema) -> None:
        """Refuse a column whose times of day are unknown: they may move a date to another day."""
        for field in schema:
            if pa.types.is_timestamp(field.type) and field.type.tz is not None:
                try:
                    pc.local_timestamp(pa.array([0], field.type))
                except pa.ArrowInvalid:
                    reason = (
                        f"must have a timezone that this system knows; received {field.type.tz!r}; "
                        "convert the column to UTC"
                    )
                    raise self.invalid(
                        [RowProblem(0, field.name, reason, "unknown-timezone")]
                    ) from None

    def _spelled(self, piece: pa.RecordBatch, rows: int, longest: int | None) -> Integers:
        """Return the number of bytes of each row's texts; refuse a text that is too long."""
        total = np.zeros(piece.num_rows, dtype=np.int64)
        for name, column in zip(piece.schema.names, piece.columns, strict=True):
            lengths = unpacked_size.text_bytes(column)
            if longest is not None and lengths.max(initial=0) > longest:
                row = int(lengths.argmax())
                reason = f"must have at most {longest:,} bytes; received {lengths[row]:,}"
                place = int(self._file_lines(np.array([rows + row + 1]))[0])
                raise self.invalid([RowProblem(place, name, reason, "too-long")])
            total += lengths
        return total

    def lines(self, read: Integers) -> Integers:
        """Return the positions in the file of rows, which are counted from 1.

        In a CSV file the position is the line on which the row begins, in a workbook the row of the
        sheet; otherwise it is the row of data.
        """
        return self._file_lines(read if self._repeats is None else self._repeats.kept[read - 1] + 1)

    def _file_lines(self, read: Integers) -> Integers:
        """Return the positions of rows among all rows, also those of repeated units."""
        if not self._ahead:
            return read
        starts, ahead = (np.concatenate(parts) for parts in zip(*self._ahead, strict=True))
        found: Integers = read + ahead[np.searchsorted(starts, read, side="right") - 1]
        return found

    def where(self, rows: Sequence[int]) -> list[str]:
        """Return the positions of rows in words, such as `line 7`."""
        lines = self.lines(np.array(rows, dtype=np.int64)).tolist()
        return [f"{self.place} {line:,}" for line in lines]

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
        except HeaderError as error:
            self.require_unchanged()
            raise self.invalid([error.problem]) from None
        except DelimitedError as error:
            self.require_unchanged()
            problem = RowProblem(0, "", f"cannot be read as csv: {error}", "unreadable")
            remedies = [Remedy("delimiter", delimiter=mark) for mark in error.delimiters]
            raise self.invalid([problem], remedies=remedies) from None
        except BinaryFileError as error:
            self.require_unchanged()
            if error.kind == "refused":
                self.refuse(str(error), error.code)
            whole = "unreadable-file" if error.kind == "unreadable" else ""
            self.refuse(f"cannot be read as {self.file_format}: {error}", "unreadable", whole)
        except (pa.ArrowException, UnicodeError, OSError) as error:
            self.require_unchanged()
            # Keep the first line: the next ones say where in Arrow's code the error arose.
            reason = str(error).partition("\n")[0][:300]
            self.refuse(f"cannot be read as {self.file_format}: {reason}", "unreadable")

    def refuse(self, reason: str, code: str, whole: str = "") -> None:
        """Refuse the whole file for a reason; do nothing if the reason is empty.

        Parameters
        ----------
        reason, code
            The problem.
        whole
            The code of the refusal; that of files with invalid rows by default.
        """
        if reason:
            raise self.invalid([RowProblem(0, "", reason, code)], code=whole) from None

    def _columns(self) -> list[str]:
        if self._table is not None:
            return list(self._table.column_names)
        if self.file_format in ("csv", *WORKBOOKS):
            # A column without a name, such as a data frame's index, cannot be selected.
            return [name for name in self._header() if name]
        assert self._path is not None
        return reader_process.describe(self._path, self.file_format).columns

    def _header(self) -> list[str]:
        """Return the names in the header of a CSV file or a sheet; [] in other formats."""
        if self.file_format not in ("csv", *WORKBOOKS):
            return []
        if self.file_format == "csv":
            names = self._csv.header
        else:
            names = self._sheet.header
            self.reading(self._sheet.require_header)
        if not any(names):
            self.refuse("the file is empty", "no-columns")
        return names

    def _batches(self, columns: list[str], size: int, shown: bool) -> Iterator[pa.RecordBatch]:
        if self._table is not None:
            return iter(self._table.select(columns).to_batches(max_chunksize=size))
        if self.file_format == "csv":
            return self._with_lines(self._csv.batches(columns))
        if self.file_format in WORKBOOKS:
            if found := self._sheet.hollow(columns):
                raise self.invalid(found)
            return self._with_lines(self._sheet.batches(columns, shown=shown))
        assert self._path is not None
        return reader_process.read(self._path, self.file_format, columns, size)

    def _with_lines(
        self, pieces: Iterator[tuple[Integers, pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the pieces of a file, and note the lines of their rows."""
        self._ahead.clear()
        read = 0
        for lines, piece in pieces:
            self._note_lines(read, lines)
            read += piece.num_rows
            yield piece

    def _note_lines(self, read: int, lines: Integers) -> None:
        """Record where line numbers run ahead of row numbers; usually only at the header."""
        rows = np.arange(read + 1, read + 1 + len(lines))
        ahead = lines - rows
        # The header precedes all rows, which puts lines at least 1 ahead.
        before = self._ahead[-1][1][-1] if self._ahead else 0
        changed = np.flatnonzero(np.diff(ahead, prepend=before))
        if len(changed):
            self._ahead.append((rows[changed], ahead[changed]))


def _next_valid(pieces: Iterator[pa.RecordBatch], end: None) -> pa.RecordBatch | None:
    return valid(next(pieces, end))


def no_such_column(name: str, there: Sequence[str]) -> RowProblem:
    """Return the problem of a missing column: a similar name, or the existing columns.

    >>> no_such_column("Umsatz neu", ["Kunde", "umsatz_neu"]).reason
    "the file has no such column; did you mean 'umsatz_neu'?"
    >>> no_such_column("visit", ["id", "y"]).reason
    "the file has no such column; it has 'id', 'y'"
    """
    if meant := meant_column(name, there):
        reason = f"the file has no such column; did you mean {meant!r}?"
        return RowProblem(0, name, reason, "no-such-column")
    shown = ", ".join(repr(other[:60]) for other in there[:SHOWN])
    more = f" and {len(there) - SHOWN:,} more" if len(there) > SHOWN else ""
    reason = f"the file has no such column; it has {shown}{more}"
    return RowProblem(0, name, reason, "no-such-column")


#: Words in brackets, such as a unit of measure.
BRACKETS = re.compile(r"[(\[][^)\]]*[)\]]")


def meant_column(name: str, there: Sequence[str]) -> str:
    """Return the column with almost the same name, or "".

    It may differ by case, spaces and punctuation, or by words in brackets.

    >>> meant_column("net_sales", ["Net sales"]), meant_column("revenue", ["id", "Revenue (EUR)"])
    ('Net sales', 'Revenue (EUR)')
    >>> meant_column("revenue", ["revenue (EUR)", "revenue (USD)"])
    ''
    """
    if same := [other for other in there if _bare(other) == _bare(name)]:
        return same[0]
    inside = [other for other in there if _bare(BRACKETS.sub("", other)) == _bare(name)]
    return inside[0] if len(inside) == 1 else ""


def _bare(name: str) -> str:
    """Return a name without case, spaces and punctuation."""
    return "".join(filter(str.isalnum, name.casefold()))


#: Device, inode, size, modification time and change time.
Fingerprint = tuple[int, int, int, int, int]


def fingerprint(path: Path) -> Fingerprint:
    """Return values that change when a file is replaced or written to."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def silent(doing: str, rows: int) -> None:
    """Report nothing of a file that is read."""


def source_of(given: Any, **reading: Unpack[ReadingOptions]) -> Source:
    """Wrap the user's input in a source; a source is returned unchanged."""
    return given if isinstance(given, Source) else Source(given, **reading)


def printable(name: str) -> str:
    r"""Return the name of a file, with a question mark for each byte that is not UTF-8.

    >>> printable(b"ao\xc3\xbbt\xff.csv".decode(errors="surrogateescape"))
    'août?.csv'
    """
    return name.encode(errors="replace").decode()


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
