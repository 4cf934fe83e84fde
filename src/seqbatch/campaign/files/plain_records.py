"""Plain blocks of delimited text: without quotes, with as many cells in every row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.core import kernels
from seqbatch.core.arrays import AnyArray, Bools, Bytes, Integers

#: The bytes that kernels may read or write beyond the end of a text.
SPARE = 8


@dataclass(frozen=True, eq=False)
class PlainRecords:
    """Some records of a file: rows of as many cells each, without quotes.

    Parameters
    ----------
    data, used
        The bytes of the records, and how many they are; `SPARE` more follow.
    delimiter
        The character between cells.
    returns
        The carriage returns before each line feed: 0 or 1.
    ends, sizes
        The position at which each cell ends, by row, and the bytes of each column.
    lines
        The line on which each record begins.
    apostrophes
        Whether a text may begin with an apostrophe.
    """

    data: Bytes
    used: int
    delimiter: str
    returns: int
    ends: AnyArray
    sizes: AnyArray
    lines: Integers
    apostrophes: bool

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def widths(self) -> AnyArray:
        """The number of cells in each record."""
        return np.full(len(self), self.ends.shape[1])

    def fits(self, width: int) -> Bools:
        """Return which records have `width` cells: all of them."""
        return np.full(len(self), self.ends.shape[1] == width)

    def column(self, place: int, rows: Bools) -> Any:
        """Return the text of one cell of each of these rows."""
        out = np.empty(int(self.sizes[place]) + SPARE, dtype=np.uint8)
        offsets = np.empty(len(self) + 1, dtype=np.int32)
        kernels.texts.copy_column(self.data, self.ends, place, self.returns, out, offsets)
        buffers = pa.py_buffer(offsets), pa.py_buffer(out[:-SPARE])
        texts = pa.StringArray.from_buffers(len(self), *buffers)
        return texts if rows.all() else texts.filter(pa.array(rows))

    def record(self, number: int) -> list[str]:
        """Return the cells of one record."""
        start = 0 if number == 0 else self.ends[number - 1, -1] + self.returns + 1
        text = self.data[start : self.ends[number, -1]].tobytes().decode()
        return text.split(self.delimiter)


def plain_records(text: bytes, delimiter: str, line: int, width: int) -> PlainRecords | None:
    r"""Return the complete records of a text, or None unless all are plain.

    A text with quotes is not plain, nor is one with two kinds of line ends, a record of other than
    `width` cells, or a record of empty cells only.

    Parameters
    ----------
    text
        UTF-8 text that begins with a record.
    delimiter
        The character between cells.
    line
        The line on which the text begins.
    width
        The number of cells of each record; 0 for that of the first one.

    Examples
    --------
    >>> found = plain_records(b"a,b\n1,2\n3,", ",", 1, 0)
    >>> found.record(1), found.lines.tolist(), found.used
    (['1', '2'], [1, 2], 8)
    >>> plain_records(b'a,b\n"1",2\n', ",", 1, 0) is None
    True
    """
    first, used = text[: text.find(b"\n")], text.rfind(b"\n") + 1
    returns = int(first.endswith(b"\r"))
    odd = b'"' in text or (not returns and b"\r" in text)
    if odd or not used:
        return None
    width = width or first.count(delimiter.encode()) + 1
    data = np.frombuffer(b"".join((text[:used], bytes(SPARE))), dtype=np.uint8)
    ends, sizes = np.empty(used, dtype=np.int32), np.zeros(width, dtype=np.int64)
    rows = kernels.texts.split_plain(data, used, ord(delimiter), width, returns, ends, sizes)
    # A carriage return within a row ends it, too.
    if rows < 0 or (returns and np.count_nonzero(data == ord("\r")) != rows):
        return None
    table = ends[: rows * width].reshape(rows, width)
    lines = np.arange(line, line + rows)
    return PlainRecords(data, used, delimiter, returns, table, sizes, lines, b"'" in text)
