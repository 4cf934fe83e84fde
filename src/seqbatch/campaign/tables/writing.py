"""What is written back about units: one row each, in the order they were handed over."""

import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from seqbatch.campaign.decisions import Decided
from seqbatch.campaign.files import format_of
from seqbatch.errors import InvalidArgumentError


def answer(
    unit: str, units: Sequence[str], waves: NDArray[np.int64], decided: Decided, names: list[str]
) -> pa.Table:
    """Return the answers about some units as a table.

    Parameters
    ----------
    unit
        What the column of ids is called.
    units, waves, decided
        The ids, and what was decided for each in which wave.
    names
        The actions' names.
    """
    rows = np.arange(len(units))
    columns: dict[str, Any] = {
        unit: pa.array(units, type=pa.string()),
        "action": pa.DictionaryArray.from_arrays(
            decided.actions.astype(np.int32), names
        ).dictionary_decode(),
        "batch": waves.astype(np.int32),
        "score": decided.scores,
        "probability": decided.probabilities[rows, decided.actions],
        "holdout": decided.holdout,
    }
    for number, name in enumerate(names):
        columns[f"p({name})"] = np.ascontiguousarray(decided.probabilities[:, number])
    return pa.table(columns)


def no_answers(unit: str, names: list[str]) -> pa.Table:
    """Return the answers about no units: the columns alone."""
    none = np.zeros(0, dtype=np.int64)
    decided = Decided(none, np.zeros(0), np.zeros((0, len(names))), none > 0, none)
    return answer(unit, [], none, decided, names)


class Writer:
    """Writes tables of one make into a file or a pipe, complete or not at all.

    The file appears under its name with :meth:`publish`, and a pipe is written to by it; until
    then, and where that never comes, what was there before stays. A name that ends in .gz is
    compressed, the same rows to the same bytes.
    """

    def __init__(self, target: str | Path, *, kind: str | None = None) -> None:
        self._pipe = str(target) == "-"
        self._kind = format_of(str(target), kind)
        self._target = Path(target)
        self._partial = self._target.with_name(f"{self._target.name}.{os.getpid()}.partial")
        self._close: Callable[[], object] | None = None
        self._put: Callable[[pa.Table], object] | None = None

    def __enter__(self) -> Self:
        self._file: Any = tempfile.TemporaryFile() if self._pipe else self._partial.open("wb")
        self._sink: Any = self._file
        if self._kind == "csv" and self._target.name.endswith(".gz"):
            self._sink = gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0)
            self._close = self._sink.close
        return self

    def write(self, table: pa.Table) -> None:
        """Write some rows; the first call fixes the columns."""
        if self._put is None:
            self._begin(table)
        assert self._put is not None
        self._put(table)

    def publish(self) -> None:
        """Make the file what its name says, safely on disk."""
        if self._close is not None:
            self._close()
            self._close = None
        self._file.flush()
        if self._pipe:
            self._file.seek(0)
            shutil.copyfileobj(self._file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._target)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A writer that was never finished would speak up when it is thrown away.
        if self._close is not None and not self._file.closed:
            self._close()
        self._file.close()
        if not self._pipe:
            self._partial.unlink(missing_ok=True)

    def _begin(self, table: pa.Table) -> None:
        if self._kind == "csv":
            self._header = True
            self._put = self._csv
            return
        maker = pa.parquet.ParquetWriter if self._kind == "parquet" else pa.ipc.new_file
        writer = maker(self._file, table.schema)
        self._put, self._close = writer.write_table, writer.close

    def _csv(self, table: pa.Table) -> None:
        import polars as pl

        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        try:
            frame.write_csv(self._sink, include_header=self._header)
        except pl.exceptions.ComputeError as error:
            rule = "a Parquet or Arrow file where a column has no plain text"
            raise InvalidArgumentError("file", rule, self._target, str(error)) from None
        self._header = False
