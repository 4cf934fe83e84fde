"""Vectors of units as sums take them: numbers apart from categories, which need no products."""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.tables.encoder import Encoder
from seqbatch.campaign.tables.features.base import Feature
from seqbatch.campaign.tables.features.categorical import CategoricalFeature
from seqbatch.campaign.tables.features.numeric import NumericFeature
from seqbatch.core.arrays import Floats
from seqbatch.core.fixed_point import Vectors
from seqbatch.core.kernels.encoding import scale_columns


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
    alone = {
        name: part
        for name, part in parts.items()
        if isinstance(part, NumericFeature) and part.number.scaling is not None
    }
    others = {
        name: part
        for name, part in parts.items()
        if name not in alone and not isinstance(part, CategoricalFeature)
    }
    own = [range(*places[name].indices(encoder.dim)) for name in (*alone, *others)]
    columns = np.array([column for each in own for column in each], dtype=np.int64)
    numbers = _Numbers(
        values=[part.values(given.column(name)) for name, part in alone.items()],
        rules=np.array([part.number.scaling for part in alone.values()]).reshape(-1, 5),
        others=[(len(part.names), part, given.column(name)) for name, part in others.items()],
        room=room,
    )
    return Vectors(numbers.some, columns, marks)


@dataclass(frozen=True)
class _Numbers:
    """The columns of the model that are numbers: those that are scaled alone, and then others.

    Parameters
    ----------
    values, rules
        Numbers that are scaled alone, one array a column, and what by.
    others
        How many columns each of the others has, and what they are made of.
    room
        Where they are put.
    """

    values: list[Floats]
    rules: Floats
    others: list[tuple[int, Feature, Any]]
    room: Room

    def some(self, some: slice) -> Floats:
        """Return the numbers of units between two places."""
        count, first = some.stop - some.start, len(self.values)
        rows = self.room.floats(first + sum(width for width, *_ in self.others), count)
        if first:
            # All at once: threads that run Python by turns wait for each other at every call.
            np.concatenate([each[some] for each in self.values], out=rows[:first].reshape(-1))
            scale_columns(rows[:first], self.rules)
        for width, part, kept in self.others:
            own = rows[first : first + width]
            own[:] = 0.0
            part.encode(kept.slice(some.start, count), own.T)
            first += width
        return rows
