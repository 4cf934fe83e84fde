"""Write tables to files or a pipe: CSV, Excel, Parquet or Arrow IPC, complete or not at all."""

import errno
import gzip
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from seqbatch.campaign.files.csv import CsvDialect, marked
from seqbatch.campaign.files.formats import ENDINGS, OTHER_WORKBOOKS, format_of, has_ending
from seqbatch.campaign.files.workbook import Workbook
from seqbatch.display import visible
from seqbatch.errors import InvalidArgumentError
from seqbatch.output_files import atomically, require_target


def require_table(
    target: str | Path,
    *,
    name: str,
    file_format: str | None,
    force: bool,
    apart_from: Mapping[str, Iterable[str | Path]],
) -> None:
    """Refuse a target that a table cannot be written to; see :func:`require_target`."""
    if file_format is None and str(target).lower().endswith(OTHER_WORKBOOKS):
        rule = f"named with one of {', '.join(ENDINGS)}"
        raise InvalidArgumentError(name, rule, target, "Excel opens .xlsx files.")
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

    Parameters
    ----------
    target
        The file, or "-" for standard output.
    file_format
        Its format; by default from the name's ending.
    dialect
        The dialect of a CSV file; by default plain: commas, dots in numbers, UTF-8.
    """

    def __init__(
        self,
        target: str | Path,
        *,
        file_format: str | None = None,
        dialect: CsvDialect | None = None,
    ) -> None:
        self._pipe = str(target) == "-"
        self._format = format_of(str(target), file_format)
        self._dialect = dialect or CsvDialect()
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
        if self._format == "xlsx":
            workbook = Workbook(self._file)
            self._put, self._close = workbook.write, workbook.close
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
        dialect = self._dialect
        plain = dialect.encoding == "utf-8"
        sink: Any = self._sink if plain else io.BytesIO()
        if self._header:
            self._sink.write(dialect.opening)
        try:
            frame.write_csv(
                sink, include_header=self._header, separator=dialect.delimiter,
                decimal_comma=dialect.decimal == ",",
            )  # fmt: skip
        except pl.exceptions.ComputeError as error:
            rule = "a Parquet or Arrow file if a column cannot be written as plain text"
            raise InvalidArgumentError("file", rule, self._target, str(error)) from None
        if not plain:
            self._sink.write(self._encoded(sink.getvalue().decode("utf-8")))
        self._header = False

    def _encoded(self, text: str) -> bytes:
        """Return a text in the encoding of the file; refuse characters that it does not have."""
        try:
            return text.encode(self._dialect.encoding)
        except UnicodeEncodeError as error:
            lost = text[error.start : error.start + 1]
            rule = f"a file whose encoding ({self._dialect.encoding}) has the character {lost!r}"
            advice = "Write an .xlsx file, or save the input as UTF-8."
            raise InvalidArgumentError("out", rule, self._target, advice) from None


# ----------------------------------------------------------------------
# Write several files, one for each action, all or none.


class SplitWriter:
    """Writes the rows of each action to its own file; like a :class:`Writer`.

    Parameters
    ----------
    targets
        The file of each action.
    file_format, dialect
        As for a writer.
    """

    def __init__(
        self,
        targets: Mapping[str, Path],
        *,
        file_format: str | None = None,
        dialect: CsvDialect | None = None,
    ) -> None:
        self._targets = targets
        self._writers = {
            action: Writer(target, file_format=file_format, dialect=dialect)
            for action, target in targets.items()
        }
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for writer in self._writers.values():
                stack.enter_context(writer)
            self._stack = stack.pop_all()
        return self

    def write(self, table: pa.Table, *, unalike: Sequence[str] = ()) -> None:
        """Write some rows, each to the file of its action."""
        for action, writer in self._writers.items():
            writer.write(table.filter(pc.equal(table["action"], action)), unalike=unalike)

    def complete(self) -> None:
        """Flush everything to disk."""
        for writer in self._writers.values():
            writer.complete()

    def publish(self) -> None:
        """Put all files under their names; if one cannot be, restore those before it."""
        self.complete()
        with TemporaryDirectory() as folder, ExitStack() as undo:
            for place, (action, writer) in enumerate(self._writers.items()):
                target = Path(os.path.realpath(self._targets[action]))
                before = Path(folder) / str(place) if target.exists() else None
                if before is not None:
                    shutil.copy2(target, before)
                undo.callback(_restore, target, before)
                writer.publish()
            undo.pop_all()

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


def _restore(target: Path, before: Path | None) -> None:
    """Restore a file as it was before, or remove a new one."""
    # The error that led here is the one to report.
    with suppress(OSError):
        if before is None:
            target.unlink(missing_ok=True)
        else:
            with atomically(target) as partial:
                shutil.copy2(before, partial)


def split_targets(out: str | Path, actions: Sequence[str]) -> dict[str, Path]:
    """Return the file of each action, beside the file that is named for all of them.

    >>> {action: str(file) for action, file in split_targets("a.csv", ["none", "offer A"]).items()}
    {'none': 'a-none.csv', 'offer A': 'a-offer-A.csv'}
    """
    if str(out) == "-":
        rule = "left out if the assignments go to standard output"
        raise InvalidArgumentError("split_by", rule, "-")
    path, made = Path(out), dict[str, Path]()
    endings = [ending for ending in ENDINGS if path.name.lower().endswith(ending)]
    ending = path.name[-len(max(endings, key=len)) :] if endings else path.suffix
    stem, taken = path.name.removesuffix(ending), set[str]()
    for action in actions:
        word = re.sub(r"[^\w.-]+", "-", action)[:100].strip("-.") or "action"
        # Some systems do not tell upper and lower case apart.
        names = (
            f"{stem}-{word}{more}{ending}" for more in chain([""], map("-{}".format, count(2)))
        )
        name = next(each for each in names if each.lower() not in taken)
        taken.add(name.lower())
        made[action] = path.with_name(name)
    return made
