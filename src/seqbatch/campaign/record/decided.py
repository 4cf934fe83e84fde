"""Decisions that were made earlier, found again."""

from collections import OrderedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seqbatch.campaign.blobs import unpack
from seqbatch.campaign.contract import Extent, Reader
from seqbatch.campaign.decisions import Decided, joined

Integers = NDArray[np.int64]


class Stored:
    """Decisions made earlier, by unit number; the chunks used last are kept at hand."""

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


def widened(decided: Decided, actions: int) -> Decided:
    """Return decisions with a probability of 0 for actions that were added later."""
    lacking = actions - decided.probabilities.shape[1]
    wide = np.pad(decided.probabilities, ((0, 0), (0, lacking)))
    return Decided(decided.actions, decided.scores, wide, decided.holdout, decided.groups)


def decoded(table: pa.Table) -> pa.Table:
    """Return a table whose dictionary columns are plain, and whose text is of the one kind."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        columns.append(column.cast(pa.string()) if pa.types.is_string_view(column.type) else column)
    return pa.table(columns, names=table.column_names)
