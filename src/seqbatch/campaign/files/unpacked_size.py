"""How much memory a compressed or binary file needs, checked before it is unpacked."""

import re
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from seqbatch.campaign.files.parallel_pieces import over
from seqbatch.campaign.spec.input_limits import (
    DECODED,
    EXPANSION,
    MOST_COLUMNS,
    MOST_DECODED,
    MOST_ROWS,
    PIECE,
    UNPACKED,
)
from seqbatch.core.arrays import Integers

# ----------------------------------------------------------------------
# Compute the memory that an Arrow stream needs from its messages, before decoding.
#
# A compressed buffer starts with its unpacked size, and readers trust that number: a file of a few
# kilobytes may request all available memory. The code below reads only the head of each message
# and the first bytes of its buffers, in the layout of Arrow's IPC format (flatbuffers).


#: The first and last bytes of a random-access file; a stream has neither.
MAGIC = b"ARROW1"
#: Message types, and the numbers of fields in their tables, as in Arrow's schema.
DICTIONARY, BATCH = 2, 3
KIND, HEADER, BODY = 1, 2, 3
DATA = 1
BUFFERS, COMPRESSION = 2, 3
DICTIONARIES, BATCHES = 2, 3
#: The limit for the head of a message and for a footer: 20,000 columns take 5 MB.
LONGEST_HEAD = 1 << 26


class DamagedStreamError(ValueError):
    """A stream with inconsistent messages."""


def unpacked_sizes(file: Any) -> Iterator[int]:
    """Yield the unpacked size in bytes of each message of an Arrow file or stream.

    Parameters
    ----------
    file
        A seekable file; its position is reset to the start.
    """
    size = file.seek(0, 2)
    try:
        for message, body in _messages(file, size):
            length = message.number(BODY, "<q")
            if length < 0 or body + length > size:
                raise DamagedStreamError(f"a message of {length:,} bytes in a file of {size:,}")
            yield _unpacked(file, message, body, length)
    except (struct.error, OverflowError) as error:
        raise DamagedStreamError(str(error)) from None
    finally:
        file.seek(0)


def _messages(file: Any, size: int) -> "Iterator[tuple[_Table, int]]":
    """Yield the messages that hold rows, each with the position of its body."""
    file.seek(0)
    if file.read(len(MAGIC)) == MAGIC:
        for place in _places(file, size):
            head = _head(file, place)
            if head is not None:
                yield head
        return
    place = 0
    while (head := _head(file, place)) is not None:
        yield head
        place = head[1] + head[0].number(BODY, "<q")


def _places(file: Any, size: int) -> list[int]:
    """Return the positions of a file's messages, from its footer."""
    tail = len(MAGIC) + 4
    file.seek(max(size - tail, 0))
    end = file.read(tail)
    if not end.endswith(MAGIC):
        raise DamagedStreamError("the file is cut off: its last bytes are missing")
    footer = _Table.root(_content(file, size - tail - _length(end[:4]), _length(end[:4])))
    return [
        block[0] for field in (DICTIONARIES, BATCHES) for block in footer.structs(field, "<qi4xq")
    ]


def _length(prefix: bytes) -> int:
    length: int = struct.unpack("<i", prefix)[0]
    if not 0 < length <= LONGEST_HEAD:
        raise DamagedStreamError(f"the head of a message has {length:,} bytes")
    return length


def _content(file: Any, place: int, length: int) -> bytes:
    if place < 0:
        raise DamagedStreamError("a message before the start of the file")
    file.seek(place)
    content: bytes = file.read(length)
    if len(content) < length:
        raise DamagedStreamError("the file ends within the head of a message")
    return content


class _Table:
    """A table of a flatbuffer: fields are found through a list of offsets."""

    def __init__(self, content: bytes, place: int) -> None:
        self._content = content
        self._place = place
        self._fields = place - self._at(place, "<i")

    @classmethod
    def root(cls, content: bytes) -> "_Table":
        """Return the root table of a flatbuffer."""
        return cls(content, struct.unpack_from("<I", content)[0])

    def _at(self, place: int, form: str) -> int:
        if place < 0:
            raise DamagedStreamError("a field before the start of its message")
        return int(struct.unpack_from(form, self._content, place)[0])

    def _field(self, number: int) -> int | None:
        """Return the position of a field, or None if it is omitted."""
        entry = 4 + 2 * number
        if entry + 2 > self._at(self._fields, "<H"):
            return None
        offset = self._at(self._fields + entry, "<H")
        return self._place + offset if offset else None

    def number(self, number: int, form: str) -> int:
        """Return a numeric field, or 0 if it is omitted."""
        place = self._field(number)
        return 0 if place is None else self._at(place, form)

    def table(self, number: int) -> "_Table | None":
        """Return a field that is a table."""
        place = self._field(number)
        return None if place is None else _Table(self._content, place + self._at(place, "<I"))

    def structs(self, number: int, form: str) -> Iterator[tuple[int, ...]]:
        """Yield the elements of a field that is a list of structures."""
        place = self._field(number)
        if place is None:
            return
        start = place + self._at(place, "<I")
        for index in range(self._at(start, "<I")):
            place = start + 4 + struct.calcsize(form) * index
            yield struct.unpack_from(form, self._content, place)


def _head(file: Any, place: int) -> tuple[_Table, int] | None:
    """Return the head of a message and the position of its body; None at the end."""
    if place < 0:
        raise DamagedStreamError("a message before the start of the file")
    file.seek(place)
    prefix = file.read(4)
    if prefix == b"\xff\xff\xff\xff":
        place, prefix = place + 4, file.read(4)
    if len(prefix) < 4 or prefix == b"\0\0\0\0":
        return None
    length = _length(prefix)
    return _Table.root(_content(file, place + 4, length)), place + 4 + length


def _unpacked(file: Any, message: _Table, body: int, length: int) -> int:
    """Return the unpacked size of a message's buffers; its length if it is not compressed."""
    header, kind = message.table(HEADER), message.number(KIND, "<B")
    if header is not None and kind == DICTIONARY:
        header = header.table(DATA)
    if header is None or kind not in (DICTIONARY, BATCH) or header.table(COMPRESSION) is None:
        return length
    total = 0
    for offset, packed in header.structs(BUFFERS, "<qq"):
        if packed >= 8 and 0 <= offset <= length - 8:
            file.seek(body + offset)
            # -1 means that this buffer is not compressed.
            said = struct.unpack("<q", file.read(8))[0]
            total += said if said >= 0 else packed
    return total


# ----------------------------------------------------------------------
# Check whether a file's contents fit into memory before unpacking it.
#
# A small file may hold large rows: one text that is referenced a million times, or a page of zeros.
# Each check returns the problem, and the caller refuses the file.


#: The rows read at once if their size is unknown.
FEW = 256
#: The advice at the end of messages about sizes.
CUT = "cut the file into several"


def too_many_columns(count: int) -> str:
    """Return why a file with so many columns is refused, or ""."""
    if count <= MOST_COLUMNS:
        return ""
    rule = f"a file must have at most {MOST_COLUMNS:,} columns, counting those within others"
    return f"{rule}; received {count:,}; leave out those that you do not need"


#: How the footer of a Parquet file begins, in Thrift's compact format: its version, and the number
#: of columns, in one byte up to 14.
FOOTER = re.compile(
    rb"\x15[\x80-\xff]*[\x00-\x7f]\x19(?:([\x0c-\xec])|\xfc([\x80-\xff]{0,4}[\x00-\x7f]))"
)


def parquet_columns(path: str) -> int:
    """Return the number of columns in a Parquet file's schema, with those within others.

    The whole footer has an entry for each column and row group: reading it may take long. The
    number is 0 if the footer begins in an unknown way.
    """
    with Path(path).open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 8, 0))
        start = size - 8 - int.from_bytes(file.read(4), "little")
        file.seek(max(start, 0))
        found = FOOTER.match(file.read(32))
    if found is None:
        return 0
    short, long = found.groups(b"")
    # Seven bits in each byte, the lowest first. The list begins with the schema itself.
    count = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(long))
    return (short[0] >> 4 if short else count) - 1


def too_many_rows(rows: int) -> str:
    """Return the message for a file with too many rows, or ""."""
    if rows <= MOST_ROWS:
        return ""
    return f"a file must have at most {MOST_ROWS:,} rows; received {rows:,} or more; {CUT}"


def too_much_unpacked(size: int, file: int) -> str:
    """Return the message if part of a file unpacks to too many bytes at once, or ""."""
    if size <= (most := max(UNPACKED, EXPANSION * file)):
        return ""
    return (
        f"rows that are read at once must unpack to at most {most:,} bytes in a file of {file:,} "
        f"bytes; received {size:,}; write it in smaller batches or row groups"
    )


def too_large_workbook(size: int, file: int) -> str:
    """Return the message if an archive unpacks to too many bytes, or ""."""
    if size <= (most := max(UNPACKED, EXPANSION * file)):
        return ""
    return (
        f"a workbook of {file:,} bytes must unpack to at most {most:,} bytes; received {size:,}; "
        f"{CUT}"
    )


def too_much_decoded(size: int, file: int) -> str:
    """Return the message if a file's cells have too many bytes in total, or ""."""
    if size <= (most := max(DECODED, MOST_DECODED * file)):
        return ""
    return (
        f"the cells of a file of {file:,} bytes must have at most {most:,} bytes in all; received "
        f"{size:,} or more; {CUT}"
    )


def of_arrow(file: Any) -> str:
    """Return the message if an Arrow file or stream is too large, or ""."""
    size = file.seek(0, 2)
    return next(
        (why for each in unpacked_sizes(file) if (why := too_much_unpacked(each, size))), ""
    )


def of_parquet(opened: pa.parquet.ParquetFile, columns: Sequence[str], size: int) -> str:
    """Return the message if a Parquet file is too large by its own metadata, or ""."""
    found = opened.metadata
    for group in range(found.num_row_groups):
        total = sum(chunk.total_uncompressed_size for chunk in _chunks(found, group, columns))
        if why := too_much_unpacked(total, size):
            return why
    return ""


def rows_at_once(path: Any, kinds: pa.Schema, columns: Sequence[str], most: int) -> int:
    """Return how many rows of a Parquet file to decode at once: `most` unless texts are long.

    Parquet may store a text once in a dictionary and repeat it in every row. Reading one row of a
    row group as a dictionary column returns all of these texts.
    """
    # Lists of texts are not inspected; they are read a few rows at a time.
    if any(pa.types.is_nested(kinds.field(name).type) for name in columns):
        most = min(most, FEW)
    texts = [name for name in columns if may_repeat(kinds.field(name).type)]
    if not texts:
        return most
    metadata = pa.parquet.read_metadata(path)
    groups = over(partial(_longest, path, metadata, texts), range(metadata.num_row_groups))
    return max(1, min(most, PIECE // max(groups, default=1)))


def _longest(path: Any, metadata: Any, texts: Sequence[str], group: int) -> int:
    """Return the bytes of the longest text in a row group's dictionary, at least 1."""
    opened = pa.parquet.ParquetFile(
        path, metadata=metadata, pre_buffer=False, read_dictionary=texts
    )
    rows = opened.iter_batches(batch_size=1, row_groups=[group], columns=texts, use_threads=False)
    longest = 1
    for column in next(iter(rows), pa.record_batch([])).columns:
        column.validate(full=True)
        # Texts stored without a dictionary come unchanged.
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        longest = max(longest, int(text_bytes(column.dictionary).max(initial=0)))
    return longest


def _chunks(metadata: Any, group: int, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the metadata of these columns' chunks in a row group."""
    wanted = set(columns)
    for place in range(metadata.row_group(group).num_columns):
        chunk = metadata.row_group(group).column(place)
        if chunk.path_in_schema in wanted or chunk.path_in_schema.partition(".")[0] in wanted:
            yield chunk


def text_bytes(column: Any) -> Integers:
    """Return the bytes of each cell's text; 0 if it is missing or of another type.

    >>> text_bytes(pa.array(["é", None, "abc"]).dictionary_encode())
    array([2, 0, 3])
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        words = np.append(text_bytes(column.dictionary), 0)
        places = column.indices.cast(pa.int64(), safe=False).fill_null(len(words) - 1)
        chosen: Integers = np.take(words, places.to_numpy(zero_copy_only=False))
        return chosen
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        # Counting would copy texts that share their bytes; read the length in each view instead.
        views = np.frombuffer(column.buffers()[1], dtype=np.int32).reshape(-1, 4)
        lengths = views[column.offset : column.offset + len(column), 0].astype(np.int64)
        return np.where(np.asarray(column.is_valid()), lengths, 0) if column.null_count else lengths
    if _is_text(kind):
        lengths = pc.binary_length(column).cast(pa.int64()).fill_null(0)
        counted: Integers = lengths.to_numpy(zero_copy_only=False)
        return counted
    return np.zeros(len(column), dtype=np.int64)


def may_repeat(kind: Any) -> bool:
    """Return whether a column holds text, stored in each row or in a dictionary."""
    return _is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _is_text(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
    )


def cuts(spelled: Integers, most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) runs of at most `most` rows and about `PIECE` bytes each.

    >>> list(cuts(np.array([1, 1, 1, 1, 1]), 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    ends = np.cumsum(spelled)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + PIECE, side="right"))
        stop = min(max(stop, start + 1), start + most)
        yield start, stop
        start = stop
