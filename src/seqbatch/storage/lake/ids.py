"""Texts to numbers, in memory: the ids of a campaign's units, and of its outcomes."""

import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from seqbatch.core.arrays import AnyArray, Bytes, Integers
from seqbatch.core.kernels import texts
from seqbatch.errors import StoreError

#: A slot has room for 32 bits of a number.
MOST = 1 << 32
#: Slots of an empty index, and how full one may become.
SMALLEST, FULL = 1 << 10, 0.6


class Ids:
    """An index of texts by a keyed hash, 16 bytes a slot; the texts themselves are not kept.

    Examples
    --------
    >>> ids = Ids()
    >>> ids.add(pa.array(["a", "b"]), np.array([7, 8]))
    True
    >>> ids.add(pa.array(["c", "a"]), np.array([9, 10]))
    False
    >>> ids.numbers(pa.array(["b", "c", "a"])).tolist(), len(ids)
    ([8, -1, 7], 2)
    """

    def __init__(self, room: int = 0) -> None:
        # Nobody can choose ids that share their hashes: the key is another one each time.
        self._key = np.frombuffer(os.urandom(16), dtype=np.uint64)
        self._slots = _empty(room)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def numbers(self, ids: Sequence[str] | pa.Array) -> Integers:
        """Return the number of each text, -1 where it has none."""
        found = np.empty(len(ids), dtype=np.int64)
        texts.find(self._slots, self._hashes(ids), found)
        return found

    def add(self, ids: Sequence[str] | pa.Array, numbers: Integers) -> bool:
        """Add texts; where one is there already, do nothing and return False."""
        if numbers.max(initial=0) >= MOST:
            raise StoreError(f"a campaign of a lake has at most {MOST:,} units.")
        hashes = self._hashes(ids)
        self._make_room(len(hashes))
        added = texts.add(self._slots, hashes, numbers)
        if added < len(hashes):
            texts.take_back(self._slots, hashes[:added])
            return False
        self._count += added
        return True

    def add_first(self, ids: Sequence[str] | pa.Array, numbers: Integers) -> None:
        """Add texts; one that is there already keeps its number."""
        if not self.add(ids, numbers):
            array = _text(ids)
            for row in range(len(array)):
                self.add(array.slice(row, 1), numbers[row : row + 1])

    def _hashes(self, ids: Sequence[str] | pa.Array) -> AnyArray:
        data, offsets = _buffers(_text(ids))
        made = np.empty((len(offsets) - 1, 2), dtype=np.uint64)
        texts.hash_texts(data, offsets, self._key, made)
        return made

    def _make_room(self, more: int) -> None:
        if self._count + more > FULL * len(self._slots):
            larger = _empty(2 * (self._count + more))
            texts.move(self._slots, larger)
            self._slots = larger


def _empty(room: int) -> AnyArray:
    size = SMALLEST
    while room > FULL * size:
        size *= 2
    return np.zeros((size, 2), dtype=np.uint64)


def _text(ids: Sequence[str] | pa.Array) -> pa.Array:
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    return ids if isinstance(ids, pa.Array) else pa.array(ids, type=pa.string())


def _buffers(ids: pa.Array) -> tuple[Bytes, AnyArray]:
    """Return the bytes of texts, and where each starts and ends in them."""
    _, offsets, data = ids.buffers()
    if not len(ids):
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int32)
    places = np.frombuffer(offsets, dtype=np.int32)[ids.offset : ids.offset + len(ids) + 1]
    content = np.zeros(1, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    return content, places
