"""Vectors of units as sums take them: numbers apart from categories, which need no products."""

import threading

import numpy as np
import pyarrow as pa

from seqbatch.campaign.tables.encoder import Encoder
from seqbatch.campaign.tables.features.categorical import CategoricalFeature
from seqbatch.core.arrays import Floats
from seqbatch.core.fixed_point import Vectors


class Room(threading.local):
    """Memory that every thread uses again: to get it anew takes longer than to fill it."""

    _kept: Floats = np.empty(0)

    def floats(self, rows: int, count: int) -> Floats:
        """Return an array of any numbers, which is that of the thread's last call."""
        if self._kept.size < rows * count:
            self._kept = np.empty(rows * count)
        return self._kept[: rows * count].reshape(rows, count)


def vectors(encoder: Encoder, given: pa.Table, room: Room) -> Vectors:
    """Return the unit's own part of the vectors, the same as by :meth:`Encoder.encode`.

    Numbers lie in the room, until the same thread makes others there.
    """
    if encoder.features.interactions:
        return Vectors.of(encoder.encode(given))
    places, parts, count = encoder.places(), encoder.parts, given.num_rows
    marked = {
        name: part
        for name, part in parts.items()
        if isinstance(part, CategoricalFeature) and part.known
    }
    intercept = int(encoder.features.intercept)
    marks = np.empty((intercept + len(marked), count), dtype=np.int64)
    marks[:intercept] = 0
    for row, (name, part) in enumerate(marked.items(), start=intercept):
        part.write_places(given.column(name), places[name].start, marks[row])
    numbers = {
        name: part for name, part in parts.items() if not isinstance(part, CategoricalFeature)
    }
    columns = [column for name in numbers for column in range(*places[name].indices(encoder.dim))]
    writers = [(len(part.names), part.writer(given.column(name))) for name, part in numbers.items()]

    def some_numbers(some: slice) -> Floats:
        rows, first = room.floats(len(columns), some.stop - some.start), 0
        for width, write in writers:
            write(some, rows[first : first + width].T)
            first += width
        return rows

    return Vectors(some_numbers, np.array(columns, dtype=np.int64), marks)
