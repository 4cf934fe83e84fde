"""Decisions that were made earlier, found again by the units' numbers."""

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np

from seqbatch.campaign.record.codec import DAMAGED, unpack
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Extent, Reader
from seqbatch.campaign.tables.assignments import Decided, joined, widened
from seqbatch.core.arrays import Integers
from seqbatch.errors import StoreError


class EarlierDecisions:
    """Decisions made earlier, by unit number; the chunks used last are kept at hand."""

    #: Chunks kept at hand: a file of units that come again mostly has them in their old order.
    KEPT = 32

    def __init__(self, reader: Reader, now: Situation) -> None:
        self._reader = reader
        self._now = now
        self._recent: OrderedDict[int, Decided] = OrderedDict()

    def decided(self, numbers: Integers) -> tuple[Integers, Decided]:
        """Return the waves and decisions of units, in their order."""
        order = np.argsort(numbers, kind="stable")
        pieces = [
            self._chunk(extent.chunk).take(held - extent.first)
            for extent, held in extents_of(self._reader, numbers[order])
        ]
        return self._now.waves_of(numbers), joined(pieces).take(np.argsort(order))

    def _chunk(self, number: int) -> Decided:
        if number not in self._recent:
            [chunk] = self._reader.unit_chunks(given=False, chunks=[number])
            decided = Decided.of(unpack(chunk.decided))
            self._recent[number] = widened(decided, len(self._now.actions))
            if len(self._recent) > self.KEPT:
                self._recent.popitem(last=False)
        self._recent.move_to_end(number)
        return self._recent[number]


def extents_of(reader: Reader, numbers: Integers) -> Iterator[tuple[Extent, Integers]]:
    """Yield the chunks that hold units, given in order, each with the numbers that it holds."""
    start = 0
    while start < len(numbers):
        extent = reader.extent_of(int(numbers[start]))
        stop = int(np.searchsorted(numbers, extent.first + extent.count))
        if not (extent.first <= numbers[start] and stop > start):
            raise StoreError(
                f"campaign {reader.name}: no chunk of units holds unit number {numbers[start]}. "
                f"{DAMAGED}"
            )
        yield extent, numbers[start:stop]
        start = stop
