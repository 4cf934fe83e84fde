"""Columns of text as Arrow keeps them, for ids by the million."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from seqbatch.core.arrays import AnyArray, Bytes

#: Texts: Python's own, or a column of Arrow.
Texts: TypeAlias = "Sequence[str] | pa.Array"


def as_column(texts: Texts) -> pa.Array:
    """Return texts as one column."""
    if isinstance(texts, pa.ChunkedArray):
        return texts.chunk(0) if texts.num_chunks == 1 else texts.combine_chunks()
    return texts if isinstance(texts, pa.Array) else pa.array(texts, type=pa.string())


def as_list(texts: Texts) -> list[str]:
    """Return texts as Python's own."""
    found: list[str] = texts.to_pylist() if isinstance(texts, pa.Array) else list(texts)
    return found


def buffers(texts: Texts) -> tuple[Bytes, AnyArray]:
    """Return the bytes of texts, and where each starts and ends in them.

    >>> data, places = buffers(["a", "é"])
    >>> bytes(data[:3]).decode(), places.tolist()
    ('aé', [0, 1, 3])
    """
    column = as_column(texts)
    if not len(column):
        return np.zeros(1, dtype=np.uint8), np.zeros(1, dtype=np.int32)
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    # Texts that are all empty may have no bytes at all.
    some = data is not None and data.size > 0
    return np.frombuffer(data, dtype=np.uint8) if some else np.zeros(1, dtype=np.uint8), places
