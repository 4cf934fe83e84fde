"""Whether what a file unpacks to fits into memory, asked before it is unpacked.

A file may be small and its rows large: a text that is spelled once and meant a million times, a
page of zeros. Each check returns the problem, and the reader of the file refuses it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from seqbatch.campaign.design.limits import (
    DECODED,
    EXPANSION,
    MOST_DECODED,
    MOST_ROWS,
    PIECE,
    UNPACKED,
)
from seqbatch.campaign.tables.ahead import over
from seqbatch.campaign.tables.arrow_messages import unpacked_sizes
from seqbatch.core.arrays import Integers

#: Rows read at once where nothing tells how large they are.
FEW = 256
#: Ends of messages about sizes: what to do.
CUT = "cut the file into several"


def too_many_rows(rows: int) -> str:
    """Return what is wrong with a file of so many rows, "" if nothing is."""
    if rows <= MOST_ROWS:
        return ""
    return f"a file must have at most {MOST_ROWS:,} rows; received {rows:,} or more; {CUT}"


def too_much_unpacked(size: int, file: int) -> str:
    """Return what is wrong where some rows of a file unpack to `size` bytes at once."""
    if size <= (most := max(UNPACKED, EXPANSION * file)):
        return ""
    return (
        f"rows that are read at once must unpack to at most {most:,} bytes in a file of {file:,} "
        f"bytes; received {size:,}; write it in smaller batches or row groups"
    )


def too_much_decoded(size: int, file: int) -> str:
    """Return what is wrong where the cells of a file have `size` bytes in all."""
    if size <= (most := max(DECODED, MOST_DECODED * file)):
        return ""
    return (
        f"the cells of a file of {file:,} bytes must have at most {most:,} bytes in all; received "
        f"{size:,} or more; {CUT}"
    )


def of_arrow(file: Any) -> str:
    """Return what is wrong with the sizes of an Arrow file or stream, "" if nothing is."""
    size = file.seek(0, 2)
    return next(
        (why for each in unpacked_sizes(file) if (why := too_much_unpacked(each, size))), ""
    )


def of_parquet(opened: pa.parquet.ParquetFile, columns: Sequence[str], size: int) -> str:
    """Return what is wrong with the sizes that a Parquet file states, "" if nothing is."""
    found = opened.metadata
    if why := too_many_rows(found.num_rows):
        return why
    for group in range(found.num_row_groups):
        total = sum(chunk.total_uncompressed_size for chunk in _chunks(found, group, columns))
        if why := too_much_unpacked(total, size):
            return why
    return ""


def rows_at_once(path: Any, kinds: pa.Schema, columns: Sequence[str], most: int) -> int:
    """Return how many rows of a Parquet file can be decoded at once, `most` unless texts are long.

    Parquet may spell a text once and repeat it in every row. The texts so spelled come with the
    first row of a row group, if they are asked for apart.
    """
    # Lists of texts are not looked into; a few rows at a time are all that is read of them.
    if any(pa.types.is_nested(kinds.field(name).type) for name in columns):
        most = min(most, FEW)
    texts = [name for name in columns if may_repeat(kinds.field(name).type)]
    if not texts:
        return most
    metadata = pa.parquet.read_metadata(path)
    groups = over(partial(_longest, path, metadata, texts), range(metadata.num_row_groups))
    return max(1, min(most, PIECE // max(groups, default=1)))


def _longest(path: Any, metadata: Any, texts: Sequence[str], group: int) -> int:
    """Return how many bytes the longest text has that a row group spells apart, 1 at least."""
    opened = pa.parquet.ParquetFile(
        path, metadata=metadata, pre_buffer=False, read_dictionary=texts
    )
    rows = opened.iter_batches(batch_size=1, row_groups=[group], columns=texts, use_threads=False)
    longest = 1
    for column in next(iter(rows), pa.record_batch([])).columns:
        column.validate(full=True)
        # Texts that are all spelled out come as they are.
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        longest = max(longest, int(text_bytes(column.dictionary).max(initial=0)))
    return longest


def _chunks(metadata: Any, group: int, columns: Sequence[str]) -> Iterator[Any]:
    """Yield what a Parquet file says of the parts of a row group that these columns have."""
    wanted = set(columns)
    for place in range(metadata.row_group(group).num_columns):
        chunk = metadata.row_group(group).column(place)
        if chunk.path_in_schema in wanted or chunk.path_in_schema.partition(".")[0] in wanted:
            yield chunk


def text_bytes(column: Any) -> Integers:
    """Return the bytes of each cell's text, 0 for what is missing or of another type.

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
        # Texts that share their bytes would be copied to be counted; each starts with its length.
        views = np.frombuffer(column.buffers()[1], dtype=np.int32).reshape(-1, 4)
        lengths = views[column.offset : column.offset + len(column), 0].astype(np.int64)
        return np.where(np.asarray(column.is_valid()), lengths, 0) if column.null_count else lengths
    if _is_text(kind):
        lengths = pc.binary_length(column).cast(pa.int64()).fill_null(0)
        counted: Integers = lengths.to_numpy(zero_copy_only=False)
        return counted
    return np.zeros(len(column), dtype=np.int64)


def may_repeat(kind: Any) -> bool:
    """Say whether a column is of text, spelled in each row or by its place in a dictionary."""
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
    """Yield runs of rows, from and up to, of at most `most` rows and about `PIECE` bytes each.

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
