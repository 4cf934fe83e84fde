"""Read recorded outcomes: versions, corrections, and units that count as absent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from math import isnan

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files.parallel_pieces import over
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.store import OutcomeChunk, Reader
from seqbatch.campaign.spec.objective import Reward
from seqbatch.campaign.spec.spec import Spec
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers, Places

# ----------------------------------------------------------------------
# All recorded versions of outcomes, and the outcomes known at any event.
#
# Version 0 is not a recorded outcome: it is the value assumed for an absent unit after its close.


#: The verdicts by their numbers in the record. An absence is no row of a file. Counted and outside
#: rows are logged: they are the parts of an outcome, and no outcome by themselves.
VERDICTS = (
    "accepted", "duplicate", "conflict", "quarantined", "absent", "counted", "outside",
)  # fmt: skip
ACCEPTED, DUPLICATE, CONFLICT, QUARANTINED, _, COUNTED, OUTSIDE = VERDICTS
ABSENT = VERDICTS.index("absent")
#: The verdicts of rows that are held: their values are in no number.
HELD = (CONFLICT, QUARANTINED)
#: The columns of an outcome, without its parts.
CELLS = ("number", "version", "value")


@dataclass(frozen=True)
class Ledger:
    """Outcomes in the order of their events: unit number, version, value, and parts.

    The parts, shape (n, parts), are the other numbers recorded with a value: the terms of a sum,
    and metrics. They are read only on request. A value is NaN if metrics were recorded, but not
    all that the reward consists of.
    """

    numbers: Integers
    versions: AnyArray
    values: Floats
    parts: Floats

    @classmethod
    def of(cls, chunks: Iterable[OutcomeChunk], *, parts: int = 0, room: int = 0) -> "Ledger":
        """Collect the accepted rows and absences of recorded chunks, with this many parts each.

        `room` is an upper bound of their number, if known, and is allocated at once. Without it the
        arrays are copied whenever their size doubles.
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
        """Allocate arrays for rows; parts that are not filled in take no memory.

        Versions use half the bits of numbers, since allocating less memory is faster.
        """
        numbers, versions = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int32)
        return cls(numbers, versions, np.empty(room), np.empty((room, parts)))

    def _put(self, place: slice, rows: "Ledger") -> None:
        for field in fields(self):
            getattr(self, field.name)[place] = getattr(rows, field.name)

    @property
    def absent(self) -> Bools:
        """Return which rows are assumed outcomes of absent units."""
        absent: Bools = self.versions == 0
        return absent

    def joined(self, other: "Ledger") -> "Ledger":
        """Merge two ledgers; return the newest version of each unit, as :meth:`known` does."""
        if not len(other):
            return self
        both = Ledger(
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.versions, other.versions]),
            np.concatenate([self.values, other.values]),
            np.concatenate([self.parts, other.parts]),
        )
        return both.known()

    def known(self) -> "Ledger":
        """Return the newest version of each unit's outcome, sorted by unit number.

        If that has no value, the unit's value is the one assumed for an absent unit, if any.
        """
        if (self.numbers[1:] > self.numbers[:-1]).all():
            return self
        # Sort by unit and then by version: the last row of each unit is its newest.
        order = np.lexsort((self.versions, self.numbers))
        numbers = self.numbers[order]
        last = np.ones(len(order), dtype=np.bool_)
        last[:-1] = numbers[1:] != numbers[:-1]
        newest, lowest = self.take(order[last]), order[np.roll(last, 1)]
        assumed = np.isnan(newest.values) & (self.versions[lowest] == 0)
        if assumed.any():
            newest.values[assumed] = self.values[lowest[assumed]]
            newest.versions[assumed] = 0
        return newest

    def rewarded(self) -> "Ledger":
        """Return the rows with a value: the others have metrics, but no reward so far."""
        there = ~np.isnan(self.values)
        return self if there.all() else self.take(np.flatnonzero(there))

    def within(self, low: int, high: int) -> "Ledger":
        """Return the rows of units with numbers from `low` to `high` - 1.

        The rows must be sorted by unit, as :meth:`known` and :meth:`joined` return them.
        """
        start, stop = np.searchsorted(self.numbers, (low, high)).tolist()
        return self.take(slice(start, stop))

    def firsts(self, newest: "Ledger", units: int) -> Bools:
        """Return for each newest row whether these rows include the unit's first version.

        An absence counts as a first version. The newest rows come from :meth:`known`.
        """
        if newest is self:
            alone: Bools = self.versions <= 1
            return alone
        found = np.zeros(units, dtype=np.bool_)
        found[self.numbers[self.versions <= 1]] = True
        return found[newest.numbers]

    def take(self, rows: Places | slice) -> "Ledger":
        """Return only these rows."""
        return Ledger(
            self.numbers[rows],
            self.versions[rows],
            self.values[rows],
            self.parts[rows],
        )

    def without_parts(self) -> "Ledger":
        """Return the same rows without parts."""
        return replace(self, parts=self.parts[:, :0])

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, eq=False)
class Newest:
    """The newest outcome of each unit by its number, for very large campaigns.

    It takes twelve bytes for each unit, plus one chunk of outcomes at a time. A :class:`Ledger` of
    all outcomes takes ten times as much memory while it is sorted.

    Parameters
    ----------
    values
        The outcome, NaN if the unit has none.
    versions
        Its version: 0 if the unit counts as absent, -1 if nothing is known.
    """

    values: Floats
    versions: Integers

    @classmethod
    def of(cls, chunks: Iterable[OutcomeChunk], units: int) -> "Newest":
        """Collect the accepted rows and absences of recorded chunks, for this many units."""
        newest = cls(np.full(units, np.nan), np.full(units, -1, dtype=np.int32))
        for chunk in chunks:
            newest._take_in(counted(chunk))
        return newest

    def _take_in(self, rows: pa.Table) -> None:
        # Sort by version: if a unit occurs twice, its newest version is written last.
        rows = rows.select(CELLS).sort_by("version")
        numbers, versions, values = (column.to_numpy() for column in rows.itercolumns())
        # A version without a value says nothing about the reward.
        newer = (versions >= self.versions[numbers]) & ~np.isnan(values)
        self.versions[numbers[newer]] = versions[newer]
        self.values[numbers[newer]] = values[newer]

    def count_absent(self, gone: "Absentees") -> None:
        """Let units without an outcome count as absent."""
        nothing = self.versions[gone.numbers] < 0
        self.values[gone.numbers[nothing]] = gone.values[nothing]
        self.versions[gone.numbers[nothing]] = 0

    def within(self, low: int, high: int) -> Floats:
        """Return the outcomes of units with numbers from `low` to `high` - 1."""
        return self.values[low:high]

    def counts(self, low: int, high: int) -> tuple[int, int]:
        """Return how many of these units have an outcome, and how many of those are absent."""
        versions = self.versions[low:high]
        return int((versions >= 0).sum()), int((versions == 0).sum())


def counted(chunk: OutcomeChunk, columns: Sequence[str] = CELLS) -> pa.Table:
    """Return these columns of a recorded chunk's accepted rows and absent units."""
    return counting(unpack(chunk.rows, [*columns, "verdict"]))


def counting(rows: pa.Table) -> pa.Table:
    """Return the accepted rows and absent units of a recorded chunk."""
    codes = pa.array([VERDICTS.index(ACCEPTED), ABSENT], type=pa.int8())
    mask = pc.is_in(rows["verdict"], value_set=codes)
    return rows if pc.all(mask).as_py() is not False else rows.filter(mask)


def parts_of(rows: pa.Table, parts: int) -> Floats:
    """Return the parts recorded with each row, NaN if there are none."""
    found = np.full((rows.num_rows, parts), np.nan)
    for place in range(parts):
        if part_name(place) in rows.column_names:
            found[:, place] = rows[part_name(place)].to_numpy()
    return found


def part_name(place: int) -> str:
    """Return the name of a part's column in a recorded chunk."""
    return f"part {place}"


def absences(numbers: Integers, values: Floats) -> pa.Table:
    """Return the rows of a chunk with the assumed outcomes of absent units."""
    count = len(numbers)
    return pa.table(
        {
            "number": numbers,
            "value": values,
            "version": np.zeros(count, dtype=np.int32),
            "verdict": np.full(count, ABSENT, dtype=np.int8),
        }
    )


# ----------------------------------------------------------------------
# New and corrected outcomes since the last estimate.


#: A corrected value may be at most this many times larger than the remaining values. Removing a
#: larger one from the sums would leave its rounding errors, so the waves are learned from scratch.
LARGEST_CORRECTION = 1e8


@dataclass(frozen=True)
class News:
    """New and corrected outcomes since the last estimate, one row for each unit.

    Parameters
    ----------
    fresh
        Outcomes of units that had none.
    corrected
        Outcomes of units that had a different one at the last estimate.
    before, was_absent
        The previous outcomes of corrected units, and whether they were assumed for an absent unit.
    until
        The newest event to include.
    unrewarded
        New metrics of units without a value of the reward.
    """

    fresh: Ledger
    corrected: Ledger
    before: Floats
    was_absent: Bools
    until: int
    unrewarded: Ledger

    def counting(self, absent: Ledger) -> "News":
        """Return the news with the assumed outcomes of absent units added, and all metrics."""
        return replace(self, fresh=self.fresh.joined(self.unrewarded.joined(absent)))

    def numbers_before(self, number: int) -> Integers:
        """Return the numbers of affected units below `number`, in order."""
        some = [each[each < number] for each in (self.fresh.numbers, self.corrected.numbers)]
        return np.union1d(*some)

    @property
    def loses_precision(self) -> bool:
        """Whether removing a corrected value from the sums would leave large rounding errors."""
        if not len(self.before):
            return False
        left = np.abs(np.concatenate([self.fresh.rewarded().values, self.corrected.values]))
        gone = np.abs(self.before).max()
        return bool(gone > LARGEST_CORRECTION * max(left.mean() if len(left) else 0.0, 1e-300))

    @classmethod
    def since(cls, reader: Reader, now: Situation, event: int, *, parts: int = 0) -> "News":
        """Read the outcomes recorded after an event, up to the campaign's current state."""
        chunks = reader.outcome_chunks(after_event=event, until_event=now.sequence)
        rows = Ledger.of(chunks, parts=parts, room=now.assigned)
        every = rows.known()
        newest = every.rewarded()
        unrewarded = every.take(np.flatnonzero(np.isnan(every.values)))
        # In the open wave, no unit had an outcome before its first version; in closed waves, some
        # units counted as absent.
        late = newest.numbers < sum(now.units[: now.wave - 1])
        asked = newest.numbers[late | ~rows.firsts(newest, now.assigned)]
        had: dict[int, tuple[int, float]] = {}
        for number, version, cells, when in reader.outcome_versions(asked):
            newer = when <= event and version >= had.get(number, (0, 0.0))[0]
            if newer and not isnan(cells[0]):
                had[number] = (version, cells[0])
        if not had:
            return cls(newest, newest.take(slice(0)), np.zeros(0), np.zeros(0, dtype=np.bool_),
                       now.sequence, unrewarded)  # fmt: skip
        again = np.isin(newest.numbers, np.array(list(had), dtype=np.int64))
        corrected = newest.take(np.flatnonzero(again))
        before = [had[number] for number in corrected.numbers.tolist()]
        return cls(
            fresh=newest.take(np.flatnonzero(~again)),
            corrected=corrected,
            before=np.array([value for _, value in before], dtype=np.float64),
            was_absent=np.array([version == 0 for version, _ in before], dtype=np.bool_),
            until=now.sequence,
            unrewarded=unrewarded,
        )


# ----------------------------------------------------------------------
# Units that count as absent when a wave is closed: no outcome, and the waiting time is over.
#
# A close and a replay give the same result, which depends only on the recorded rows and on the
# times of the assign and close events.


@dataclass(frozen=True)
class Absentees:
    """Units that count as absent from a close on.

    Parameters
    ----------
    numbers
        The units, in order.
    values
        The outcome assumed for each: the declared value, or the reward of the metrics that were
        recorded, with the declared values of the others.
    waiting
        The assignments, as wave and event, whose waiting time is not over. They are checked again
        when the next wave is closed.
    """

    numbers: Integers
    values: Floats
    waiting: tuple[tuple[int, int], ...]

    def ledger(self, parts: int) -> Ledger:
        """Return their assumed outcomes, which hold until real ones are recorded."""
        count = len(self.numbers)
        return Ledger(
            self.numbers,
            np.zeros(count, dtype=np.int64),
            self.values,
            np.full((count, parts), np.nan),
        )


def absentees(reader: Reader, now: Situation, news: News, *, at: datetime, skip: bool) -> Absentees:
    """Return the units that count as absent when the open wave is closed.

    Parameters
    ----------
    reader
        The reader for units and outcomes.
    now
        The campaign's state before the close.
    news
        The outcomes since the last estimate, with their parts if the reward is a sum.
    at
        The time of the close.
    skip
        Whether to exclude the wave from learning. If so, none of its units count as absent.
    """
    none = np.zeros(0, dtype=np.int64)
    if now.absent is None:
        return Absentees(none, np.zeros(0), ())
    assigned = {wave: assigned_by(reader, wave) for wave in {now.wave, *dict(now.waiting)}}
    own = [] if skip else [(now.wave, event) for event in assigned[now.wave]]
    found, values, left = [none], [np.zeros(0)], []
    for wave, event in dict.fromkeys([*now.waiting, *own]):
        if not _due(reader, now, event, at):
            left.append((wave, event))
            continue
        numbers = assigned[wave].get(event, none)
        known, partly = news.fresh.numbers, news.unrewarded
        if wave != now.wave:
            known, partly = _recorded(reader, now, numbers)
        found.append(np.setdiff1d(numbers, known))
        values.append(_assumed(now, found[-1], partly))
    return Absentees(np.concatenate(found), np.concatenate(values), tuple(left))


def absent_since(reader: Reader, now: Situation, at: datetime) -> Absentees:
    """Return the units of closed waves whose waiting time has ended since the last close."""
    found, values, left = [np.zeros(0, dtype=np.int64)], [np.zeros(0)], []
    for wave, event in now.waiting:
        if now.absent is None or not _due(reader, now, event, at):
            left.append((wave, event))
            continue
        numbers = assigned_by(reader, wave)[event]
        known, partly = _recorded(reader, now, numbers)
        found.append(np.setdiff1d(numbers, known))
        values.append(_assumed(now, found[-1], partly))
    return Absentees(np.concatenate(found), np.concatenate(values), tuple(left))


def _assumed(now: Situation, numbers: Integers, partly: Ledger) -> Floats:
    """Return the outcomes of absent units, some of which have a part of the reward's metrics."""
    assert now.absent is not None
    values = np.full(len(numbers), now.absent)
    if not now.spec.reward.plain and len(partly):
        here = np.flatnonzero(np.isin(numbers, partly.numbers))
        parts = partly.parts[np.searchsorted(partly.numbers, numbers[here])]
        values[here] = weighted(now.spec.reward, assumed_terms(now.spec, terms_of(now.spec, parts)))
    return values


def terms_of(spec: Spec, parts: Floats) -> Floats:
    """Return the metrics that a reward of several adds up, from an outcome's parts."""
    return parts[:, [spec.parts.index(metric.name) for metric in spec.reward.terms]]


def assumed_terms(spec: Spec, terms: Floats) -> Floats:
    """Return the reward's metrics with the values of absent units in place of missing ones."""
    absent = np.array([np.nan if m.absent is None else m.absent for m in spec.reward.terms])
    return np.where(np.isnan(terms), absent, terms)


def weighted(reward: Reward, terms: Floats) -> Floats:
    """Return the reward, the weighted sum of its metrics, shape (n, metrics)."""
    if reward.plain:
        return terms[:, 0]
    total = np.zeros(len(terms))
    for place, weight in enumerate(reward.weights):
        total = total + weight * terms[:, place]
    return total


def _due(reader: Reader, now: Situation, event: int, at: datetime) -> bool:
    """Return whether the waiting time of an assignment's units is over."""
    wait = now.spec.reward.wait
    return wait is None or at - datetime.fromisoformat(reader.event(event).at) >= wait


def assigned_by(reader: Reader, wave: int) -> dict[int, Integers]:
    """Return the numbers of a wave's units by the event that assigned them."""
    pieces: dict[int, list[Integers]] = {}
    for extent in reader.extents(wave=wave):
        numbers = np.arange(extent.first, extent.first + extent.count)
        pieces.setdefault(extent.event, []).append(numbers)
    return {event: np.concatenate(found) for event, found in pieces.items()}


def _recorded(reader: Reader, now: Situation, numbers: Integers) -> tuple[Integers, Ledger]:
    """Return which of these units of earlier waves have an outcome, and the others' metrics."""
    newest: dict[int, tuple[int, tuple[float, ...]]] = {}
    for number, version, cells, event in reader.outcome_versions(numbers):
        if event <= now.sequence and version > newest.get(number, (0, ()))[0]:
            newest[number] = version, cells
    found = sorted(number for number, (_, cells) in newest.items() if not isnan(cells[0]))
    left = sorted(newest.keys() - set(found))
    parts = np.full((len(left), len(now.spec.parts)), np.nan)
    for place, number in enumerate(left):
        parts[place] = newest[number][1][1:]
    nothing = np.full(len(left), np.nan)
    partly = Ledger(np.array(left, dtype=np.int64), np.ones(len(left), np.int32), nothing, parts)
    return np.array(found, dtype=np.int64), partly
