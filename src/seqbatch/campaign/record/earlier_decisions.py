"""Decisions that were made earlier, found again by the units' numbers."""

from collections import OrderedDict

import numpy as np

from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.store import Extent, Reader
from seqbatch.campaign.tables.assignments import Decided, joined, widened
from seqbatch.core.arrays import Integers


class EarlierDecisions:
    """Decisions made earlier, by unit number; the chunks used last are kept at hand."""

    #: Chunks kept at hand: a file of units that come again mostly has them in their old order.
    KEPT = 32

    def __init__(self, reader: Reader, extents: list[Extent], actions: int) -> None:
        self._reader = reader
        self._chunks = [extent.chunk for extent in extents]
        self._firsts = np.array([extent.first for extent in extents], dtype=np.int64)
        self._waves = np.array([extent.wave for extent in extents], dtype=np.int64)
        self._actions = actions
        self._recent: OrderedDict[int, Decided] = OrderedDict()

    def decided(self, numbers: Integers) -> tuple[Integers, Decided]:
        """Return the waves and decisions of units, in their order."""
        places = np.searchsorted(self._firsts, numbers, side="right") - 1
        pieces, order = [], []
        for place in np.unique(places):
            rows = np.flatnonzero(places == place)
            pieces.append(self._chunk(int(place)).take(numbers[rows] - self._firsts[place]))
            order.append(rows)
        back = np.argsort(np.concatenate(order))
        return self._waves[places], joined(pieces).take(back)

    def _chunk(self, place: int) -> Decided:
        if place not in self._recent:
            [chunk] = self._reader.unit_chunks(given=False, chunks=[self._chunks[place]])
            decided = Decided.of(unpack(chunk.decided))
            self._recent[place] = widened(decided, self._actions)
            if len(self._recent) > self.KEPT:
                self._recent.popitem(last=False)
        self._recent.move_to_end(place)
        return self._recent[place]
