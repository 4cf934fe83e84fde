"""Write tables to a file or a pipe: CSV, Parquet or Arrow IPC, complete or not at all."""

import errno
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.parquet

from seqbatch.campaign.files.csv import marked
from seqbatch.campaign.files.reading import ENDINGS, format_of, has_ending
from seqbatch.display import visible
from seqbatch.errors import InvalidArgumentError
from seqbatch.output_files import atomically, require_target

#: Endings of spreadsheet files, which cannot be written.
SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")


def require_table(
    target: str | Path,
    *,
    name: str,
    file_format: str | None,
    force: bool,
    apart_from: Mapping[str, Iterable[str | Path]],
) -> None:
    """Refuse a target that a table cannot be written to; see :func:`require_target`."""
    if file_format is None and str(target).lower().endswith(SHEETS):
        rule = f"named with one of {', '.join(ENDINGS)}"
        raise InvalidArgumentError(name, rule, target, "Spreadsheets open CSV files.")
    found = format_of(str(target), file_format)
    if str(target) == "-":
        return
    endings: list[str] = []
    # An ending that contradicts the stated format would mislead readers of the file.
    if has_ending(str(target)):
        endings = [ending for ending, kind in ENDINGS.items() if kind == found]
    require_target(target, name=name, force=force, endings=endings, apart_from=apart_from)


def _send(file: IO[bytes]) -> None:
    """Send a file to standard output; a terminal gets no control characters."""
    out = sys.stdout
    if out.isatty():
        for line in file:
            out.write(visible(line.decode(errors="backslashreplace"), lines=True))
        out.flush()
    else:
        shutil.copyfileobj(file, out.buffer)
        out.buffer.flush()


class Writer:
    """Writes tables with the same columns to a file or a pipe, complete or not at all.

    :meth:`publish` puts the file under its name, or writes to the pipe. Until then, or if it is
    never called, an existing file stays unchanged. If the name ends in .gz the file is compressed,
    and the same rows give the same bytes.
    """

    def __init__(self, target: str | Path, *, file_format: str | None = None) -> None:
        self._pipe = str(target) == "-"
        self._format = format_of(str(target), file_format)
        self._target = Path(target)
        self._whole = atomically(self._target)
        self._close: Callable[[], object] | None = None
        self._put: Callable[[pa.Table], object] | None = None
        self._published = False

    def __enter__(self) -> Self:
        if self._pipe:
            self._file: Any = tempfile.TemporaryFile()
        else:
            self._file = self._opened()
        self._sink: Any = self._file
        if self._format == "csv" and self._target.name.endswith(".gz"):
            self._sink = gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0)
            self._close = self._sink.close
        return self

    def _opened(self) -> IO[bytes]:
        """Return the file to write to until it is published."""
        partial = self._whole.__enter__()
        try:
            return partial.open("wb")
        except OSError as error:
            self._whole.__exit__(type(error), error, None)
            raise

    def write(self, table: pa.Table, *, unalike: Sequence[str] = ()) -> None:
        """Write some rows; the first call fixes the columns.

        Parameters
        ----------
        table
            The rows.
        unalike
            Columns with hardly any repeated values, which Parquet need not encode as dictionaries.
        """
        with self._naming():
            if self._put is None:
                self._begin(table, unalike)
            assert self._put is not None
            self._put(table)

    def complete(self) -> None:
        """Flush everything to disk, to detect a full disk before publishing."""
        with self._naming():
            if self._close is not None:
                close, self._close = self._close, None
                close()
            self._file.flush()
            if not self._pipe:
                os.fsync(self._file.fileno())

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the file in an error that does not, such as that of a full disk."""
        try:
            yield
        except OSError as error:
            if error.filename is not None:
                raise
            # Polars gives neither a number nor a name.
            reason = (error.strerror or str(error)).partition("\n")[0]
            advice = "free some space, or choose another folder"
            target = tempfile.gettempdir() if self._pipe else str(self._target)
            number = error.errno or errno.EIO
            raise OSError(number, f"cannot be written: {reason}; {advice}", target) from None

    def publish(self) -> None:
        """Put the file under its name, safely on disk."""
        self.complete()
        if self._pipe:
            self._file.seek(0)
            _send(self._file)
        else:
            self._file.close()
            self._whole.__exit__(None, None, None)
            self._published = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # An unfinished writer would raise when it is garbage collected. An error here, such as a
        # full disk, was already reported.
        with suppress(OSError, pa.ArrowException):
            if self._close is not None and not self._file.closed:
                self._close()
        with suppress(OSError):
            self._file.close()
        if not (self._pipe or self._published):
            dropped = error or RuntimeError("never published")
            self._whole.__exit__(type(dropped), dropped, None)

    def _begin(self, table: pa.Table, unalike: Sequence[str]) -> None:
        if self._format == "csv":
            self._header = True
            self._put = self._csv
            return
        if self._format == "parquet":
            alike = [name for name in table.column_names if name not in unalike]
            writer = pa.parquet.ParquetWriter(self._file, table.schema, use_dictionary=alike)
        else:
            writer = pa.ipc.new_file(self._file, table.schema)
        self._put, self._close = writer.write_table, writer.close

    def _csv(self, table: pa.Table) -> None:
        import polars as pl

        frame = pl.from_arrow(marked(table))
        assert isinstance(frame, pl.DataFrame)
        try:
            frame.write_csv(self._sink, include_header=self._header)
        except pl.exceptions.ComputeError as error:
            rule = "a Parquet or Arrow file if a column cannot be written as plain text"
            raise InvalidArgumentError("file", rule, self._target, str(error)) from None
        self._header = False
