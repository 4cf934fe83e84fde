"""What is written back about units: one row each, in the order they were handed over."""

import os
import sys
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


class Writer:
    """Writes tables of one make into a file, complete or not at all.

    The file appears under its name with :meth:`publish`; until then, and where that never comes,
    what was there before stays.
    """

    def __init__(self, target: str | Path, *, kind: str | None = None) -> None:
        self._pipe = str(target) == "-"
        self._kind = format_of(str(target), kind)
        self._target = Path(target)
        self._partial = self._target.with_name(f"{self._target.name}.{os.getpid()}.partial")
        self._close: Callable[[], object] | None = None
        self._put: Callable[[pa.Table], object] | None = None

    def __enter__(self) -> Self:
        self._file: Any = sys.stdout.buffer if self._pipe else self._partial.open("wb")
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
        self._file.flush()
        if not self._pipe:
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._target)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pipe:
            return
        # A writer that was never finished would speak up when it is thrown away.
        if self._close is not None and not self._file.closed:
            self._close()
        self._file.close()
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
        frame.write_csv(self._file, include_header=self._header)
        self._header = False
