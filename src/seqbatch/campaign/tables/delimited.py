"""Delimited text, cut into records and cells block by block, with the line that each begins on.

Quotes, quoted line breaks and all three ends of lines are read as spreadsheets and Python's own
reader do. Nothing is read ahead: Arrow's reader does that on threads of its own, which outlive a
file that is refused and have brought down the process at its end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.core import kernels
from seqbatch.core.arrays import AnyArray, Bools, Integers

#: Bytes that are read at once; no row is longer.
BLOCK = 8 << 20


class DelimitedError(ValueError):
    """Text that cannot be cut into cells, or not in one way alone."""


@dataclass(frozen=True, eq=False)
class Records:
    """Some records of a file.

    Parameters
    ----------
    data
        Their bytes.
    starts, ends, quoted
        Where each cell is, and whether it stands in quotes.
    firsts
        The first cell of each record, and one past the last cell of all.
    lines
        The line that each record begins on.
    """

    data: AnyArray
    starts: AnyArray
    ends: AnyArray
    quoted: Bools
    firsts: AnyArray
    lines: Integers

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def widths(self) -> AnyArray:
        """How many cells each record has."""
        return np.diff(self.firsts)

    def fits(self, width: int) -> Bools:
        """Say which records have so many cells, empty ones after them not counted."""
        widths = self.widths
        fits: Bools = widths == width
        if (longer := np.flatnonzero(widths > width)).size:
            lengths = np.concatenate([[0], np.cumsum(self.ends - self.starts)])
            surplus = lengths[self.firsts[longer + 1]] - lengths[self.firsts[longer] + width]
            fits[longer] = surplus == 0
        return fits

    def cells(self, chosen: AnyArray) -> Any:
        """Return the text of these cells."""
        out = np.empty(int((self.ends[chosen] - self.starts[chosen]).sum()), dtype=np.uint8)
        offsets = np.empty(len(chosen) + 1, dtype=np.int32)
        size = kernels.copy_cells(
            self.data, self.starts, self.ends, self.quoted, chosen, out, offsets
        )
        buffers = pa.py_buffer(offsets), pa.py_buffer(out[:size])
        return pa.StringArray.from_buffers(len(chosen), *buffers)

    def record(self, number: int) -> list[str]:
        """Return the cells of one record."""
        cells = np.arange(self.firsts[number], self.firsts[number + 1], dtype=np.int32)
        texts: list[str] = self.cells(cells).to_pylist()
        return texts


def records(blocks: Iterable[bytes], delimiter: str, *, line: int = 1) -> Iterator[Records]:
    r"""Yield the records of UTF-8 text that comes in blocks and begins on a line.

    >>> [found] = records([b'a,b\n"x', b'\ny",2\n3,4'], ",")
    >>> [(found.record(row), int(found.lines[row])) for row in range(len(found))]
    [(['a', 'b'], 1), (['x\ny', '2'], 2), (['3', '4'], 4)]
    """
    rest = b""
    for block, final in _with_end(blocks):
        text = rest + block
        found, used, line = _cut(text, delimiter, line, final=final)
        rest = text[used:]
        if len(found):
            yield found
        if len(rest) >= BLOCK:
            rule = f"a row must have less than {BLOCK:,} bytes"
            raise DelimitedError(f"{rule}; a quote may be left open on line {line:,}")


def _with_end(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each block, and whether it is the last one."""
    waiting = b""
    for block in blocks:
        yield waiting, False
        waiting = block
    yield waiting, True


def _cut(text: bytes, delimiter: str, line: int, *, final: bool) -> tuple[Records, int, int]:
    """Return the records that end in a text, the bytes used up, and the line of the next record."""
    data = np.frombuffer(text, dtype=np.uint8)
    ends_of_lines = text.count(b"\n") + text.count(b"\r") + 1
    most = ends_of_lines + text.count(delimiter.encode())
    starts, ends = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    quoted = np.empty(most, dtype=np.bool_)
    firsts = np.empty(ends_of_lines + 1, dtype=np.int32)
    lines = np.empty(ends_of_lines, dtype=np.int64)
    count, cells, used, line, unclosed = kernels.split_cells(
        data, ord(delimiter), final, line, starts, ends, quoted, firsts, lines
    )
    if unclosed:
        raise DelimitedError(f"a quote is left open in the row that begins on line {line:,}")
    firsts[count] = cells
    found = Records(
        data, starts[:cells], ends[:cells], quoted[:cells], firsts[: count + 1], lines[:count]
    )
    return found, used, line


def widths(text: str, delimiter: str, *, final: bool) -> tuple[list[int], list[int]]:
    """Return how many cells the records of a text have, and the lines they begin on."""
    try:
        found, _, _ = _cut(text.encode(), delimiter, 1, final=final)
    except DelimitedError:
        # A quote is left open; what comes before it tells as much as there is.
        found, _, _ = _cut(text.encode(), delimiter, 1, final=False)
    return found.widths.tolist(), found.lines.tolist()
