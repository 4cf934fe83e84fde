"""Outcomes by unit number, in memory: the newest version of each, and every version of some."""

from collections.abc import Iterable, Iterator

import numpy as np

from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.outcomes import counting, part_name, parts_of
from seqbatch.campaign.record.store import OutcomeChunk
from seqbatch.core.arrays import Floats, Integers


class NewestOutcomes:
    """The newest version and cells of each unit's outcome, by number: no rows, no search.

    Parameters
    ----------
    units
        How many units there are.
    parts
        How many numbers are kept with a value.
    """

    def __init__(self, units: int, parts: int) -> None:
        self.parts = parts
        self._versions = np.full(units, -1, dtype=np.int32)
        self._cells = np.full((units, 1 + parts), np.nan)

    def read(self, chunks: Iterable[OutcomeChunk]) -> None:
        """Take in the rows of chunks that count, in their order."""
        for chunk in chunks:
            rows = counting(unpack(chunk.rows)).sort_by("version")
            numbers, versions = rows["number"].to_numpy(), rows["version"].to_numpy()
            cells = np.column_stack([rows["value"].to_numpy(), parts_of(rows, self.parts)])
            self.add(numbers, versions, cells)

    def add(self, numbers: Integers, versions: Integers, cells: Floats) -> None:
        """Take in outcomes; of several versions of one the newest stays."""
        newer = versions >= self._versions[numbers]
        numbers, wide = numbers[newer], cells[newer, : 1 + self.parts]
        self._versions[numbers] = versions[newer]
        self._cells[numbers, : wide.shape[1]] = wide

    def of(self, numbers: Integers) -> tuple[Integers, Floats]:
        """Return the version and cells of each unit; 0 and NaN where it has none."""
        inside = numbers < len(self._versions)
        places = np.where(inside, numbers, 0)
        versions = np.zeros(len(numbers), dtype=np.int64)
        cells = np.full((len(numbers), 1 + self.parts), np.nan)
        if len(self._versions):
            versions[inside] = np.maximum(self._versions[places[inside]], 0)
            cells[inside] = self._cells[places[inside]]
        return versions, cells


def versions_of(
    chunks: Iterable[OutcomeChunk], numbers: Integers, units: int
) -> Iterator[tuple[int, int, tuple[float, ...], int]]:
    """Yield every version of some units' outcomes: number, version, cells, event."""
    asked = np.zeros(units, dtype=np.bool_)
    asked[numbers[numbers < units]] = True
    for chunk in chunks if asked.any() else ():
        rows = counting(unpack(chunk.rows))
        rows = rows.filter(asked[rows["number"].to_numpy()])
        parts = sum(part_name(place) in rows.column_names for place in range(rows.num_columns))
        names = ["value", *(part_name(place) for place in range(parts))]
        cells = zip(*(rows[name].to_pylist() for name in names), strict=True)
        yield from zip(
            rows["number"].to_pylist(), rows["version"].to_pylist(), cells,
            [chunk.event] * rows.num_rows, strict=True,
        )  # fmt: skip
