"""A lake's indexes in memory: unit ids to numbers, unit numbers to outcomes."""

import os
from collections.abc import Iterable, Iterator

import numpy as np

from seqbatch.campaign.files.column_values import Texts, buffers
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.outcomes import counting, part_name, parts_of
from seqbatch.campaign.record.store import OutcomeChunk
from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.core.kernels import texts
from seqbatch.errors import StoreError

# ----------------------------------------------------------------------
# Texts to numbers, in memory: the ids of a campaign's units, and of its outcomes.


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


# ----------------------------------------------------------------------
# Outcomes by unit number, in memory: the newest version of each, and every version of some.


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
