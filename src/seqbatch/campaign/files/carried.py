"""Columns of a file of units that are copied to the assignments, such as names and addresses."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.files.column_values import decoded
from seqbatch.campaign.files.reading import Source, no_such_column
from seqbatch.core.arrays import Integers
from seqbatch.errors import InvalidArgumentError

#: The bytes of carried columns that are held in memory before they go to disk.
SMALL = 1 << 20


class CarriedColumns:
    """The carried columns of all rows that count, in a temporary file.

    Parameters
    ----------
    spool, ends
        The file of an Arrow table, and the number of rows up to the end of each of its pieces.
    """

    def __init__(self, spool: IO[bytes] | None, ends: Sequence[int]) -> None:
        self._ends: Integers = np.array(ends, dtype=np.int64)
        self._pieces: Any = pa.ipc.open_file(spool) if spool is not None else None
        #: The names and types of the columns.
        self.schema: pa.Schema = pa.schema([]) if self._pieces is None else self._pieces.schema

    def rows(self, start: int, count: int) -> pa.Table:
        """Return a range of rows, counted from 0; without columns if none are carried."""
        if self._pieces is None:
            return pa.table({})
        first = int(np.searchsorted(self._ends, start, side="right"))
        last = int(np.searchsorted(self._ends, start + count, side="left"))
        pieces = [self._pieces.get_batch(place) for place in range(first, last + 1)]
        before = int(self._ends[first - 1]) if first else 0
        return pa.Table.from_batches(pieces, self.schema).slice(start - before, count)


@contextmanager
def carried(source: Source, columns: Sequence[str]) -> Iterator[CarriedColumns]:
    """Read the columns to carry; refuse a column that the file does not have.

    Parameters
    ----------
    source
        The file.
    columns
        The names of the columns.
    """
    there = source.columns()
    if missing := [name for name in columns if name not in there]:
        raise source.invalid([no_such_column(name, there) for name in missing])
    if not columns:
        yield CarriedColumns(None, ())
        return
    with tempfile.SpooledTemporaryFile(max_size=SMALL) as spool:
        ends, rows, writer = [], 0, None
        for batch in source.batches(columns, shown=True):
            piece = decoded(pa.Table.from_batches([batch])).combine_chunks()
            writer = writer or pa.ipc.new_file(spool, piece.schema)
            writer.write_table(piece)
            rows += piece.num_rows
            ends.append(rows)
        if writer is None:
            # A file without rows is refused when its units are read.
            yield CarriedColumns(None, ())
            return
        writer.close()
        spool.seek(0)
        yield CarriedColumns(spool, ends)


def require_free(columns: Sequence[str], taken: Sequence[str]) -> None:
    """Refuse to carry a column twice, or under the name of a column of the assignments."""
    for place, name in enumerate(columns):
        if name in taken or name in columns[:place]:
            rule = f"columns other than those of the assignments ({', '.join(taken)}), each once"
            raise InvalidArgumentError("with_columns", rule, repr(name))
