"""Recorded outcomes: every version, what was known at any event, corrections, and absent units."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files.parallel_pieces import over
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import OutcomeChunk, Reader
from seqbatch.campaign.spec.reward_and_limits import waiting
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers, Places

# ----------------------------------------------------------------------
# Outcomes as they were recorded: every version of each, and what was known at any event.
#
# Version 0 is no record: it says what a unit without one counts as since its wave was closed.


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


# ----------------------------------------------------------------------
# What became known since the last estimate: new outcomes, and those that were corrected.


#: A corrected value may be this much larger than all that are left. Taking a larger one out of sums
#: would leave its rounding errors in them; the waves are then learned again from nothing.
LARGEST_CORRECTION = 1e8


@dataclass(frozen=True)
class News:
    """What became known since the last estimate, one row a unit.

    Parameters
    ----------
    fresh
        Outcomes of units that had none.
    corrected
        Outcomes of units that had another one then.
    before, was_absent
        What these had, in the same order, and whether it was no record but what they counted as.
    until
        The newest event that counts.
    """

    fresh: Ledger
    corrected: Ledger
    before: Floats
    was_absent: Bools
    until: int

    def counting(self, absent: Ledger) -> "News":
        """Return the same with units that count as absent."""
        return replace(self, fresh=self.fresh.joined(absent))

    def numbers_before(self, number: int) -> Integers:
        """Return those of the units concerned that have a lower number, in order."""
        some = [each[each < number] for each in (self.fresh.numbers, self.corrected.numbers)]
        return np.union1d(*some)

    @property
    def loses_precision(self) -> bool:
        """Whether a value that was corrected is too large to be taken out of sums."""
        if not len(self.before):
            return False
        left = np.abs(np.concatenate([self.fresh.values, self.corrected.values]))
        gone = np.abs(self.before).max()
        return bool(gone > LARGEST_CORRECTION * max(left.mean() if len(left) else 0.0, 1e-300))

    @classmethod
    def since(cls, reader: Reader, now: Situation, event: int, *, parts: int = 0) -> "News":
        """Read what was recorded after one event, up to where the campaign stands."""
        chunks = reader.outcome_chunks(after_event=event, until_event=now.sequence)
        rows = Ledger.of(chunks, parts=parts, room=now.assigned)
        newest = rows.known()
        # Of the open wave nobody had an outcome before its first; of a closed one some counted as
        # absent.
        late = newest.numbers < sum(now.units[: now.wave - 1])
        asked = newest.numbers[late | ~rows.firsts(newest, now.assigned)]
        had: dict[int, tuple[int, float]] = {}
        for number, version, cells, when in reader.outcome_versions(asked):
            if when <= event and version >= had.get(number, (0, 0.0))[0]:
                had[number] = (version, cells[0])
        if not had:
            return cls(newest, newest.take(slice(0)), np.zeros(0), np.zeros(0, dtype=np.bool_),
                       now.sequence)  # fmt: skip
        again = np.isin(newest.numbers, np.array(list(had), dtype=np.int64))
        corrected = newest.take(np.flatnonzero(again))
        before = [had[number] for number in corrected.numbers.tolist()]
        return cls(
            fresh=newest.take(np.flatnonzero(~again)),
            corrected=corrected,
            before=np.array([value for _, value in before], dtype=np.float64),
            was_absent=np.array([version == 0 for version, _ in before], dtype=np.bool_),
            until=now.sequence,
        )


# ----------------------------------------------------------------------
# Which units count as absent when a wave is closed: those without an outcome whose time is up.
#
# The same at a close and in a replay: it depends on the recorded rows, and on the times that the
# events of assignment and of the closing carry.


@dataclass(frozen=True)
class Absentees:
    """Units that count as absent from a closing on.

    Parameters
    ----------
    numbers
        The units, in order.
    value
        What they count as.
    waiting
        The assignments, as wave and event, whose units had more time left: they are looked at again
        when the next wave is closed.
    """

    numbers: Integers
    value: float
    waiting: tuple[tuple[int, int], ...]

    def ledger(self, parts: int) -> Ledger:
        """Return them as outcomes, which they are until another is recorded."""
        count = len(self.numbers)
        return Ledger(
            self.numbers,
            np.zeros(count, dtype=np.int64),
            np.full(count, self.value),
            np.full((count, parts), np.nan),
        )


def absentees(
    reader: Reader, now: Situation, recorded: Ledger, *, at: datetime, skip: bool
) -> Absentees:
    """Return who counts as absent when the open wave is closed.

    Parameters
    ----------
    reader
        Where units and outcomes are.
    now
        Where the campaign stood before the closing.
    recorded
        Outcomes of the open wave's units; others may be among them.
    at
        The time of the closing.
    skip
        Whether nothing is learned from the wave; then nobody of it is counted.
    """
    none = np.zeros(0, dtype=np.int64)
    if now.absent is None:
        return Absentees(none, 0.0, ())
    assigned = {wave: _assigned(reader, wave) for wave in {now.wave, *dict(now.waiting)}}
    own = [] if skip else [(now.wave, event) for event in assigned[now.wave]]
    found, left = [none], []
    for wave, event in dict.fromkeys([*now.waiting, *own]):
        if not _due(reader, now, event, at):
            left.append((wave, event))
            continue
        numbers = assigned[wave].get(event, none)
        known = recorded.numbers if wave == now.wave else _recorded(reader, now, numbers)
        found.append(np.setdiff1d(numbers, known))
    return Absentees(np.concatenate(found), now.absent, tuple(left))


def _due(reader: Reader, now: Situation, event: int, at: datetime) -> bool:
    """Say whether the units of an assignment had all the time that was declared."""
    if now.wait is None:
        return True
    wait: timedelta = waiting(now.wait)
    return at - datetime.fromisoformat(reader.event(event).at) >= wait


def _assigned(reader: Reader, wave: int) -> dict[int, Integers]:
    """Return the numbers of a wave's units by the event that assigned them."""
    pieces: dict[int, list[Integers]] = {}
    for extent in reader.extents(wave=wave):
        numbers = np.arange(extent.first, extent.first + extent.count)
        pieces.setdefault(extent.event, []).append(numbers)
    return {event: np.concatenate(found) for event, found in pieces.items()}


def _recorded(reader: Reader, now: Situation, numbers: Integers) -> Integers:
    """Return those of earlier waves' units that have an outcome by now."""
    found = {
        number
        for number, version, _, event in reader.outcome_versions(numbers)
        if version > 0 and event <= now.sequence
    }
    return np.array(sorted(found), dtype=np.int64)
