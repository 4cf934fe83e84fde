"""Texts to numbers, in memory: the ids of a campaign's units, and of its outcomes."""

import os

import numpy as np

from seqbatch.campaign.tables.texts import Texts, buffers
from seqbatch.core.arrays import AnyArray, Integers
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
    >>> ids.add(ids.hashes(["a", "b"]), np.array([7, 8]))
    True
    >>> ids.add(ids.hashes(["c", "a"]), np.array([9, 10]))
    False
    >>> ids.numbers(["b", "c", "a"]).tolist(), len(ids)
    ([8, -1, 7], 2)
    """

    def __init__(self, room: int = 0) -> None:
        # Nobody can choose ids that share their hashes: the key is another one each time.
        self._key = np.frombuffer(os.urandom(16), dtype=np.uint64)
        self._slots = _empty(room)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def numbers(self, ids: Texts) -> Integers:
        """Return the number of each text, -1 where it has none."""
        found = np.empty(len(ids), dtype=np.int64)
        texts.find(self._slots, self.hashes(ids), found)
        return found

    def hashes(self, ids: Texts) -> AnyArray:
        """Return what stands for texts here; by any thread."""
        data, offsets = buffers(ids)
        made = np.empty((len(offsets) - 1, 2), dtype=np.uint64)
        texts.hash_texts(data, offsets, self._key, made)
        return made

    def add(self, hashes: AnyArray, numbers: Integers) -> bool:
        """Add texts by their hashes; where one is there already, do nothing and return False."""
        if numbers.max(initial=0) >= MOST:
            raise StoreError(f"a campaign of a lake has at most {MOST:,} units.")
        self._make_room(len(hashes))
        added = texts.add(self._slots, hashes, numbers)
        if added < len(hashes):
            texts.take_back(self._slots, hashes[:added])
            return False
        self._count += added
        return True

    def add_first(self, hashes: AnyArray, numbers: Integers) -> None:
        """Add texts; one that is there already keeps its number."""
        if not self.add(hashes, numbers):
            for row in range(len(hashes)):
                self.add(hashes[row : row + 1], numbers[row : row + 1])

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
