"""Outcomes as they were recorded: every version of each, and what was known at any event.

Version 0 is no record: it says what a unit without one counts as since its wave was closed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.store import OutcomeChunk
from seqbatch.campaign.tables.ahead import over
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers, Places

ACCEPTED, DUPLICATE, CONFLICT, QUARANTINED = "accepted", "duplicate", "conflict", "quarantined"
VERDICTS = (ACCEPTED, DUPLICATE, CONFLICT, QUARANTINED)
#: The verdict, by number, of a unit that has no row: it stands beside those of rows.
ABSENT = len(VERDICTS)
#: What is known of an outcome, but for its parts.
CELLS = ("number", "version", "value")


@dataclass(frozen=True)
class Ledger:
    """Outcomes in the order of their events: unit number, version, value, and parts.

    The parts, shape (n, parts), are the other numbers recorded with a value: the terms of a sum,
    and metrics. They are read where they are asked for.
    """

    numbers: Integers
    versions: AnyArray
    values: Floats
    parts: Floats

    @classmethod
    def of(cls, chunks: Iterable[OutcomeChunk], *, parts: int = 0, room: int = 0) -> "Ledger":
        """Gather the rows of recorded chunks that count, with this many parts of each.

        Where their number is known, or a larger one, `room` for them is made at once: otherwise
        they are copied whenever there are twice as many as before.
        """
        names = [*CELLS, *map(part_name, range(parts))]
        made, count = cls._empty(room, parts), 0
        for rows in over(lambda chunk: counted(chunk, names), chunks):
            after = count + rows.num_rows
            if after > len(made):
                larger = cls._empty(2 * after, parts)
                larger._put(slice(0, count), made.take(slice(0, count)))
                made = larger
            numbers, versions, values = (rows[name].to_numpy() for name in CELLS)
            some = cls(numbers, versions, values, parts_of(rows, parts))
            made._put(slice(count, after), some)
            count = after
        return made.take(slice(0, count))

    @classmethod
    def _empty(cls, room: int, parts: int) -> "Ledger":
        """Return room for rows; what is not filled in takes no memory.

        Versions have half the bits of numbers: the less memory there is to get, the sooner it is
        there.
        """
        numbers, versions = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int32)
        return cls(numbers, versions, np.empty(room), np.empty((room, parts)))

    def _put(self, place: slice, rows: "Ledger") -> None:
        for field in fields(self):
            getattr(self, field.name)[place] = getattr(rows, field.name)

    @property
    def absent(self) -> Bools:
        """Say which units have no record."""
        absent: Bools = self.versions == 0
        return absent

    def joined(self, other: "Ledger") -> "Ledger":
        """Return the rows of both, by unit number; both must be in that order."""
        if not len(other):
            return self
        both = Ledger(
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.versions, other.versions]),
            np.concatenate([self.values, other.values]),
            np.concatenate([self.parts, other.parts]),
        )
        return both.take(np.argsort(both.numbers, kind="stable"))

    def known(self) -> "Ledger":
        """Return one row a unit, by number: its newest version."""
        if (self.numbers[1:] > self.numbers[:-1]).all():
            return self
        # By unit and then by version: the last row of each unit is its newest.
        order = np.lexsort((self.versions, self.numbers))
        numbers = self.numbers[order]
        last = np.ones(len(order), dtype=np.bool_)
        last[:-1] = numbers[1:] != numbers[:-1]
        return self.take(order[last])

    def within(self, low: int, high: int) -> "Ledger":
        """Return the rows of units numbered from low up to, not including, high.

        The rows must be in the order of units, as :meth:`known` and :meth:`joined` return them.
        """
        start, stop = np.searchsorted(self.numbers, (low, high)).tolist()
        return self.take(slice(start, stop))

    def firsts(self, newest: "Ledger", units: int) -> Bools:
        """Say of each of the newest rows whether the unit's first version is among these.

        Or its absence. The newest rows are what :meth:`known` returns.
        """
        if newest is self:
            alone: Bools = self.versions <= 1
            return alone
        found = np.zeros(units, dtype=np.bool_)
        found[self.numbers[self.versions <= 1]] = True
        return found[newest.numbers]

    def take(self, rows: Places | slice) -> "Ledger":
        """Return these rows alone."""
        return Ledger(
            self.numbers[rows],
            self.versions[rows],
            self.values[rows],
            self.parts[rows],
        )

    def without_parts(self) -> "Ledger":
        """Return the same rows with no parts."""
        return replace(self, parts=self.parts[:, :0])

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, eq=False)
class Newest:
    """The newest outcome of each unit by its number, for going through very many units.

    Twelve bytes a unit, and one chunk of outcomes at a time beside them: a :class:`Ledger` of all
    outcomes takes ten times as much while it is put in order.

    Parameters
    ----------
    values
        The outcome, NaN where there is none.
    versions
        Its version: 0 where the unit counts as absent, -1 where nothing is known.
    """

    values: Floats
    versions: Integers

    @classmethod
    def of(cls, chunks: Iterable[OutcomeChunk], units: int) -> "Newest":
        """Gather the rows of recorded chunks that count, of a campaign with so many units."""
        newest = cls(np.full(units, np.nan), np.full(units, -1, dtype=np.int32))
        for chunk in chunks:
            newest._take_in(counted(chunk))
        return newest

    def _take_in(self, rows: pa.Table) -> None:
        # By version: where a unit comes twice, the last that is written is its newest.
        rows = rows.select(CELLS).sort_by("version")
        numbers, versions, values = (column.to_numpy() for column in rows.itercolumns())
        newer = versions >= self.versions[numbers]
        self.versions[numbers[newer]] = versions[newer]
        self.values[numbers[newer]] = values[newer]

    def within(self, low: int, high: int) -> Floats:
        """Return the outcomes of units numbered from low up to, not including, high."""
        return self.values[low:high]

    def counts(self, low: int, high: int) -> tuple[int, int]:
        """Return how many of these units have an outcome, and how many of those are absent."""
        versions = self.versions[low:high]
        return int((versions >= 0).sum()), int((versions == 0).sum())


def counted(chunk: OutcomeChunk, columns: Sequence[str] = CELLS) -> pa.Table:
    """Return these columns of the rows of a recorded chunk that count."""
    return counting(unpack(chunk.rows, [*columns, "verdict"]))


def counting(rows: pa.Table) -> pa.Table:
    """Return the rows of a recorded chunk that count: those accepted, and absent units."""
    codes = pa.array([VERDICTS.index(ACCEPTED), ABSENT], type=pa.int8())
    mask = pc.is_in(rows["verdict"], value_set=codes)
    return rows if pc.all(mask).as_py() is not False else rows.filter(mask)


def parts_of(rows: pa.Table, parts: int) -> Floats:
    """Return the parts that were recorded with each row, NaN where none were."""
    found = np.full((rows.num_rows, parts), np.nan)
    for place in range(parts):
        if part_name(place) in rows.column_names:
            found[:, place] = rows[part_name(place)].to_numpy()
    return found


def part_name(place: int) -> str:
    """Return what the column of a recorded chunk is called that holds a part."""
    return f"part {place}"


def absences(numbers: Integers, value: float) -> pa.Table:
    """Return the rows of a chunk that says what units without an outcome count as."""
    count = len(numbers)
    return pa.table(
        {
            "number": numbers,
            "value": np.full(count, value),
            "version": np.zeros(count, dtype=np.int32),
            "verdict": np.full(count, ABSENT, dtype=np.int8),
        }
    )
