"""A lake's indexes in memory: unit ids to numbers, unit numbers to outcomes, keys to rows."""

import os
from collections.abc import Iterable, Iterator

import numpy as np

from seqbatch.campaign.files.column_values import Texts, buffers
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.logged_rows import content_width, logged_in
from seqbatch.campaign.record.outcomes import counting, part_name, parts_of
from seqbatch.campaign.record.store import KnownRows, LoggedRows, OutcomeChunk
from seqbatch.core import kernels
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.errors import StoreError

# ----------------------------------------------------------------------
# Index of unit ids and row keys


#: Exclusive upper bound of numbers: a slot stores 32 bits.
MOST = 1 << 32
#: Number of slots of an empty index, and its maximum load factor.
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
        # The random key prevents a caller from choosing ids whose hashes collide.
        self._key = np.frombuffer(os.urandom(16), dtype=np.uint64)
        self._slots = _empty(room)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def numbers(self, ids: Texts) -> Integers:
        """Return the number of each text; -1 for unknown texts."""
        return self.places(self.hashes(ids))

    def places(self, hashes: AnyArray) -> Integers:
        """Return the number of each text, found by its hash; -1 for unknown texts."""
        found = np.empty(len(hashes), dtype=np.int64)
        kernels.texts.find(self._slots, hashes, found)
        return found

    def hashes(self, ids: Texts) -> AnyArray:
        """Return the keyed hashes of texts; thread-safe."""
        data, offsets = buffers(ids)
        made = np.empty((len(offsets) - 1, 2), dtype=np.uint64)
        kernels.texts.hash_texts(data, offsets, self._key, made)
        return made

    def add(self, hashes: AnyArray, numbers: Integers) -> bool:
        """Add texts by their hashes; if any is already present, add nothing and return False."""
        if numbers.max(initial=0) >= MOST:
            raise StoreError(f"a campaign in a lake can have at most {MOST:,} units.")
        self._make_room(len(hashes))
        added = kernels.texts.add(self._slots, hashes, numbers)
        if added < len(hashes):
            kernels.texts.take_back(self._slots, hashes[:added])
            return False
        self._count += added
        return True

    def add_first(self, hashes: AnyArray, numbers: Integers) -> None:
        """Add texts; those already present keep their numbers."""
        if not self.add(hashes, numbers):
            for row in range(len(hashes)):
                self.add(hashes[row : row + 1], numbers[row : row + 1])

    def _make_room(self, more: int) -> None:
        if self._count + more > FULL * len(self._slots):
            larger = _empty(2 * (self._count + more))
            kernels.texts.move(self._slots, larger)
            self._slots = larger


def _empty(room: int) -> AnyArray:
    size = SMALLEST
    while room > FULL * size:
        size *= 2
    return np.zeros((size, 2), dtype=np.uint64)


# ----------------------------------------------------------------------
# Index of outcomes by unit number


class NewestOutcomes:
    """The newest version and cells of each unit's outcome, in arrays indexed by unit number.

    Parameters
    ----------
    units
        Number of units.
    parts
        Number of further values stored with each outcome.
    """

    def __init__(self, units: int, parts: int) -> None:
        self.parts = parts
        self._versions = np.zeros(units, dtype=np.int32)
        self._cells = np.full((units, 1 + parts), np.nan)
        self._absent = np.zeros(units, dtype=np.bool_)

    def read(self, chunks: Iterable[OutcomeChunk]) -> None:
        """Add the rows of chunks that count, in order."""
        for chunk in chunks:
            rows = counting(unpack(chunk.rows)).sort_by("version")
            numbers, versions = rows["number"].to_numpy(), rows["version"].to_numpy()
            cells = np.column_stack([rows["value"].to_numpy(), parts_of(rows, self.parts)])
            self.add(numbers, versions, cells)

    def add(self, numbers: Integers, versions: Integers, cells: Floats) -> None:
        """Add outcomes; of several versions of an outcome, the newest is kept."""
        self._make_room(int(numbers.max(initial=-1)) + 1)
        self._absent[numbers[versions == 0]] = True
        newer = (versions >= self._versions[numbers]) & (versions > 0)
        # Floating point has two zeros; stores read back one of them.
        numbers, wide = numbers[newer], cells[newer, : 1 + self.parts] + 0.0
        self._versions[numbers] = versions[newer]
        self._cells[numbers, : wide.shape[1]] = wide

    def _make_room(self, units: int) -> None:
        """Extend the arrays: units may be assigned after the first outcomes were read."""
        if (more := units - len(self._versions)) > 0:
            more = max(more, len(self._versions))
            self._versions = np.pad(self._versions, (0, more))
            self._cells = np.pad(self._cells, ((0, more), (0, 0)), constant_values=np.nan)
            self._absent = np.pad(self._absent, (0, more))

    def of(self, numbers: Integers) -> tuple[Integers, Floats, Bools]:
        """Return the version and cells of each unit, and whether it was absent."""
        self._make_room(int(numbers.max(initial=-1)) + 1)
        versions = self._versions[numbers].astype(np.int64)
        return versions, self._cells[numbers], self._absent[numbers]


def versions_of(
    chunks: Iterable[OutcomeChunk], numbers: Integers, units: int
) -> Iterator[tuple[int, int, tuple[float, ...], int]]:
    """Yield every version of the given units' outcomes: number, version, cells, event."""
    asked = np.zeros(units, dtype=np.bool_)
    asked[numbers[numbers < units]] = True
    for chunk in chunks if asked.any() else ():
        rows = counting(unpack(chunk.rows))
        rows = rows.filter(asked[rows["number"].to_numpy()])
        parts = sum(part_name(place) in rows.column_names for place in range(rows.num_columns))
        names = ["value", *(part_name(place) for place in range(parts))]
        cells = zip(*((rows[name].to_numpy() + 0.0).tolist() for name in names), strict=True)
        yield from zip(
            rows["number"].to_pylist(), rows["version"].to_pylist(), cells,
            [chunk.event] * rows.num_rows, strict=True,
        )  # fmt: skip


# ----------------------------------------------------------------------
# Index of logged rows by their keys


class NewestRows:
    """The newest version of each logged row, found by its key.

    Parameters
    ----------
    parts
        Number of further values stored with each outcome.
    """

    def __init__(self, parts: int) -> None:
        self.parts = parts
        width = content_width(parts)
        self._ids = Ids()
        self._versions = np.zeros(0, dtype=np.int32)
        self._numbers = np.zeros(0, dtype=np.int64)
        self._contents = np.zeros((0, width))
        self._events = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ids)

    def read(self, chunks: Iterable[OutcomeChunk]) -> None:
        """Add the logged rows of chunks, in order."""
        for chunk in chunks:
            self.add(chunk.event, logged_in(chunk, self.parts))

    def add(self, event: int, rows: LoggedRows) -> None:
        """Add rows; of several versions of a row, the newest is kept."""
        hashes, versions = self._ids.hashes(rows.keys), rows.versions
        places = self._ids.places(hashes)
        if (places < 0).any():
            self._add_new(hashes[places < 0])
            places = self._ids.places(hashes)
        order = np.argsort(versions, kind="stable")
        places, versions = places[order], versions[order]
        newer = versions >= self._versions[places]
        places, chosen = places[newer], order[newer]
        self._versions[places] = versions[newer]
        self._numbers[places] = rows.numbers[chosen]
        self._contents[places] = rows.contents[chosen] + 0.0
        self._events[places] = event

    def _add_new(self, hashes: AnyArray) -> None:
        """Number the rows that are new; some may be there twice."""
        _, first = np.unique(hashes, axis=0, return_index=True)
        count = len(self._ids)
        self._ids.add(hashes[np.sort(first)], np.arange(count, count + len(first)))
        if (more := len(self._ids) - len(self._versions)) > 0:
            more = max(more, len(self._versions))
            self._versions = np.pad(self._versions, (0, more))
            self._numbers = np.pad(self._numbers, (0, more))
            self._contents = np.pad(self._contents, ((0, more), (0, 0)))
            self._events = np.pad(self._events, (0, more))

    def of(self, keys: Texts) -> KnownRows:
        """Return the newest version of each row; version 0 for unknown rows."""
        found = self._ids.numbers(keys)
        there = found >= 0
        made = KnownRows(
            versions=np.zeros(len(found), dtype=np.int64),
            numbers=np.full(len(found), -1, dtype=np.int64),
            contents=np.full((len(found), self._contents.shape[1]), np.nan),
            events=np.zeros(len(found), dtype=np.int64),
        )
        places = found[there]
        made.versions[there], made.numbers[there] = self._versions[places], self._numbers[places]
        made.contents[there], made.events[there] = self._contents[places], self._events[places]
        return made
