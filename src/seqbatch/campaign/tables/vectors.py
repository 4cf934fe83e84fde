"""Vectors of units as sums take them: numbers apart from categories, which need no products."""

import numpy as np
import pyarrow as pa

from seqbatch.campaign.tables.encoder import Encoder
from seqbatch.campaign.tables.features.categorical import CategoricalFeature
from seqbatch.core.fixed_point import Vectors


def vectors(encoder: Encoder, given: pa.Table) -> Vectors:
    """Return the unit's own part of the vectors, the same as by :meth:`Encoder.encode`."""
    if encoder.features.interactions:
        return Vectors.of(encoder.encode(given))
    places, parts, count = encoder.places(), encoder.parts, given.num_rows
    numbers = {
        name: part for name, part in parts.items() if not isinstance(part, CategoricalFeature)
    }
    columns = [column for name in numbers for column in range(*places[name].indices(encoder.dim))]
    rows = np.zeros((len(columns), count))
    row = 0
    for name, part in numbers.items():
        width = places[name].stop - places[name].start
        part.encode(given.column(name), rows[row : row + width].T)
        row += width
    marks = [np.zeros((int(encoder.features.intercept), count), dtype=np.int64)]
    for name, part in parts.items():
        if isinstance(part, CategoricalFeature) and part.known:
            marks.append(places[name].start + part.places(given.column(name))[None])
    return Vectors(rows, np.array(columns, dtype=np.int64), np.concatenate(marks))
