"""Ids without what is easily changed on the way, and hashes to find those that may be the same."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.tables.ahead import over
from seqbatch.campaign.tables.ids import joined, parted
from seqbatch.campaign.tables.texts import Texts, as_column, as_list, buffers
from seqbatch.core.arrays import AnyArray
from seqbatch.core.kernels.texts import hash_texts

#: Bits of a hash by which many are sorted in parts.
PART_BITS = 3


def prints_of(ids: pa.Array, key: AnyArray) -> AnyArray:
    """Return a keyed hash of each id, good enough to find candidates by."""
    data, places = buffers(ids)
    made = np.empty((len(ids), 2), dtype=np.uint64)
    hash_texts(data, places, key, made)
    return np.ascontiguousarray(made[:, 0])


def repeated_prints(prints: AnyArray) -> AnyArray:
    """Return the hashes that are there more than once, in their order.

    >>> repeated_prints(np.array([3, 1, 3, 2**63], dtype=np.uint64)).tolist()
    [3]
    """
    # Sorted part by part, by any thread: those that begin with the same bits.
    return np.concatenate(list(over(partial(_repeated_among, prints), range(1 << PART_BITS))))


def _repeated_among(prints: AnyArray, part: int) -> AnyArray:
    ordered = np.sort(prints[prints >> np.uint64(64 - PART_BITS) == part])
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def plain_forms(ids: Texts) -> pa.Array:
    """Return ids without what is easily changed on the way: case, outer spaces, leading zeros.

    >>> plain_forms(["007", "Ann ", "0"]).to_pylist()
    ['7', 'ann', '']
    """
    text = as_column(ids)
    if pc.all(pc.string_is_ascii(text), min_count=0).as_py():
        return pc.ascii_ltrim(pc.ascii_trim_whitespace(pc.ascii_lower(text)), characters="0")
    text = pc.utf8_normalize(text, form="NFC")
    return pc.utf8_ltrim(pc.utf8_trim_whitespace(pc.utf8_lower(text)), characters="0")


def plain_ids(ids: pa.Array, columns: int) -> pa.Array:
    """Return the plain forms of ids, each of the columns that they are made of by itself."""
    if columns == 1:
        return plain_forms(ids)
    parts = parted(as_list(ids), columns)
    return pa.array(joined([plain_forms(part).to_pylist() for part in parts]), type=pa.string())
