"""The rows of a delimited text file below its header, as columns of text."""

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files.csv import (
    CsvDialect,
    DelimitedError,
    Records,
    decoded,
    records,
    unmarked,
    unmarked_name,
)
from seqbatch.campaign.files.header import LOOKED_AT, unnamed_cell
from seqbatch.campaign.files.plain_records import PlainRecords
from seqbatch.campaign.spec.input_limits import MOST_PROBLEMS
from seqbatch.core.arrays import Bools, Integers
from seqbatch.errors import RowProblem


class CsvRows:
    """The rows of a delimited text file.

    Parameters
    ----------
    path, dialect
        The file, and its dialect.
    """

    def __init__(self, path: Path, dialect: CsvDialect) -> None:
        self._path = path
        self._dialect = dialect
        #: Rows with too many or too few cells, by line.
        self.ragged: list[RowProblem] = []

    @cached_property
    def header(self) -> list[str]:
        """The names of the columns; "" for a column without one."""
        first = next((found.record(0) for found in self._records()), [])
        return [unmarked_name(name.strip()) for name in first]

    def batches(self, columns: list[str]) -> Iterator[tuple[Integers, pa.RecordBatch]]:
        """Yield these columns in pieces, with the line on which each row begins."""
        self.ragged.clear()
        header = self.header
        places = [header.index(name) for name in columns]
        for number, found in enumerate(self._records()):
            fits = found.fits(len(header))
            if number == 0:
                fits[0] = False
            self._note_ragged(found, fits, width=len(header), header=number == 0)
            _refuse_unnamed(found, fits, header)
            cells = [found.column(place, fits) for place in places]
            if found.apostrophes:
                cells = [unmarked(each) for each in cells]
            yield found.lines[fits], pa.record_batch(cells, names=columns)

    def _records(self) -> Iterator[Records | PlainRecords]:
        blocks = decoded(self._path, self._dialect.encoding)
        # Anything before the header is on separate lines.
        first = next(blocks)[self._dialect.before :]
        return records(
            chain([first], blocks), self._dialect.delimiter, line=self._dialect.header_line
        )

    def _note_ragged(
        self, found: Records | PlainRecords, fits: Bools, *, width: int, header: bool
    ) -> None:
        """Record the lines of records that are not as long as the header."""
        odd = np.flatnonzero(~fits)[1 if header else 0 :][: MOST_PROBLEMS + 1]
        for line, cells in zip(found.lines[odd].tolist(), found.widths[odd].tolist(), strict=True):
            reason = f"the row has {cells} cells, the header {width}"
            self.ragged.append(RowProblem(line, "", reason, "cell-count"))
            if len(self.ragged) > MOST_PROBLEMS:
                raise DelimitedError(
                    f"more than {MOST_PROBLEMS:,} rows do not have as many cells as the header"
                )


def _refuse_unnamed(found: Records | PlainRecords, fits: Bools, header: list[str]) -> None:
    """Refuse values without a column name; only the first column, an index, may lack one."""
    for place in (place for place, name in enumerate(header) if place and not name):
        cells = found.column(place, fits)
        filled = np.flatnonzero(pc.binary_length(cells).to_numpy(zero_copy_only=False))
        for row, text in zip(filled, cells.take(pa.array(filled)).to_pylist(), strict=True):
            if text.strip():
                below = np.flatnonzero(fits)[row : row + LOOKED_AT].tolist()
                rows = [(int(found.lines[one]), found.record(one)) for one in below]
                raise unnamed_cell("line", place, header, rows)
