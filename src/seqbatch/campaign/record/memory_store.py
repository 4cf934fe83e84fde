"""A store in memory, for campaigns that are only simulated: nothing is kept."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from seqbatch.campaign.files.column_values import Texts, as_list
from seqbatch.campaign.record.codec import RowsAtHand
from seqbatch.campaign.record.events import canonical
from seqbatch.campaign.record.logged_rows import content_width
from seqbatch.campaign.record.store import (
    Event,
    Extent,
    Fold,
    KnownRows,
    LoggedRows,
    OutcomeChunk,
    StateRecord,
    Tombstone,
    UnitChunk,
)
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.errors import CampaignStateError, StoreError, UnknownCampaignError

# ----------------------------------------------------------------------
# The records of one campaign, which are its view as well.


@dataclass(frozen=True, eq=False)
class IndexedOutcomes:
    """The rows of one event that count: numbers, versions and cells."""

    event: int
    numbers: Integers
    versions: Integers
    cells: Floats


@dataclass(eq=False)
class MemoryView:
    """One campaign in memory; implements the Reader and Change protocols.

    Tables are kept as they are, neither packed nor hashed.
    """

    name: str
    number: int
    _events: list[Event] = field(default_factory=list)
    _fold: Fold | None = None
    _units: list[UnitChunk] = field(default_factory=list)
    _outcome_chunks: list[OutcomeChunk] = field(default_factory=list)
    _states: list[StateRecord] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _outcomes: list[IndexedOutcomes] = field(default_factory=list)
    _rows: list[tuple[int, LoggedRows]] = field(default_factory=list)
    tombstone: Tombstone | None = None

    #: The indexes are kept beside the records.
    derived = False

    def newest(self) -> tuple[int, str, int]:
        """Return the newest event's number and hash, and the fold's event number (0 if none)."""
        last = self._events[-1]
        return last.sequence, last.hash, 0 if self._fold is None else self._fold.event

    def last_event(self) -> Event | None:
        """Return the newest event."""
        return self._events[-1] if self._events else None

    def event(self, sequence: int) -> Event:
        """Return one event by its number."""
        return self._events[sequence - 1]

    def events(self) -> list[Event]:
        """Return all events in order."""
        return list(self._events)

    def fold(self) -> Fold | None:
        """Return the fold that the last change stored."""
        return self._fold

    def unit_chunks(
        self, *, given: bool, chunks: Sequence[int] | None = None
    ) -> Iterator[UnitChunk]:
        """Yield all or the named chunks of units, in order; `given` is empty unless requested."""
        for chunk in self._units:
            if chunks is None or chunk.chunk in chunks:
                yield chunk if given else replace(chunk, given=b"")

    def extents(self, *, wave: int | None = None) -> list[Extent]:
        """Return the extents of all chunks of units, or of a wave's chunks, in order."""
        return [
            Extent(each.chunk, each.first, each.count, each.wave, each.event)
            for each in self._units
            if wave is None or each.wave == wave
        ]

    def extent_of(self, number: int) -> Extent:
        """Return the extent of the chunk that contains a unit."""
        return [extent for extent in self.extents() if extent.first <= number][-1]

    def next_chunks(self) -> tuple[int, int]:
        """Return the next chunk number of units and of outcome rows."""
        return len(self._units), len(self._outcome_chunks)

    def outcome_chunks(
        self, *, after_event: int = 0, until_event: int | None = None
    ) -> Iterator[OutcomeChunk]:
        """Yield the chunks of outcome rows in order, after one event and up to another."""
        for chunk in self._outcome_chunks:
            if chunk.event > after_event and (until_event is None or chunk.event <= until_event):
                yield chunk

    def states(self) -> Iterator[StateRecord]:
        """Yield the states in order of their events."""
        yield from self._states

    def last_state(self, *, before_event: int | None = None) -> StateRecord | None:
        """Return the newest state, or the newest before an event."""
        found = [s for s in self._states if before_event is None or s.event < before_event]
        return found[-1] if found else None

    def last_state_hash(self) -> str:
        """Return the hash of the newest state."""
        return self._states[-1].hash

    def numbers(self, units: Texts) -> Integers:
        """Return each unit's number; -1 for unknown units."""
        known = self._numbers
        return np.array([known.get(unit, -1) for unit in as_list(units)], dtype=np.int64)

    def known_rows(self, keys: Texts, *, parts: int) -> KnownRows:
        """Return the newest version of each logged row."""
        wanted = as_list(keys)
        newest: dict[str, tuple[int, int, LoggedRows, int] | None] = dict.fromkeys(wanted)
        for event, rows in self._rows:
            for row, key in enumerate(rows.keys.to_pylist()):
                version = int(rows.versions[row])
                if key in newest and version > (newest[key] or (0,))[0]:
                    newest[key] = version, row, rows, event
        found = KnownRows(
            versions=np.zeros(len(wanted), dtype=np.int64),
            numbers=np.full(len(wanted), -1, dtype=np.int64),
            contents=np.full((len(wanted), content_width(parts)), np.nan),
            events=np.zeros(len(wanted), dtype=np.int64),
        )
        for place, key in enumerate(wanted):
            if (one := newest[key]) is not None:
                version, row, rows, event = one
                found.versions[place], found.events[place] = version, event
                found.numbers[place] = rows.numbers[row]
                found.contents[place] = rows.contents[row] + 0.0
        return found

    def outcomes(self, numbers: Integers, *, parts: int = 0) -> tuple[Integers, Floats, Bools]:
        """Return the newest version and cells of each unit's outcome, and whether it was absent."""
        # Unknown units have no outcome.
        units = max(len(self._numbers), int(numbers.max(initial=-1)) + 1)
        versions, cells = np.zeros(units, dtype=np.int64), np.full((units, 1 + parts), np.nan)
        absent = np.zeros(units, dtype=np.bool_)
        for one in self._outcomes:
            # Sorted by version: if a unit occurs twice, its newest version is written last.
            order = np.argsort(one.versions, kind="stable")
            places, own = one.numbers[order], one.versions[order]
            absent[places[own == 0]] = True
            newer = (own > 0) & (own >= versions[places])
            versions[places[newer]] = own[newer]
            wide = one.cells[order[newer], : 1 + parts]
            cells[places[newer]] = np.nan
            cells[places[newer], : wide.shape[1]] = wide
        return versions[numbers], cells[numbers], absent[numbers]

    def outcome_versions(
        self, numbers: Integers
    ) -> Iterator[tuple[int, int, tuple[float, ...], int]]:
        """Yield all versions of units' outcomes: number, version, cells, event."""
        for one in self._outcomes if len(numbers) else ():
            for row in np.flatnonzero(np.isin(one.numbers, numbers)):
                cells = tuple(one.cells[row].tolist())
                yield int(one.numbers[row]), int(one.versions[row]), cells, one.event

    def index_sizes(self) -> tuple[int, int, int]:
        """Return how many rows the indexes of numbers, outcomes and logged rows have."""
        outcomes = sum(len(one.numbers) for one in self._outcomes)
        return len(self._numbers), outcomes, sum(len(rows) for _, rows in self._rows)

    def number_index(self) -> Iterator[tuple[str, int]]:
        """Yield the whole index of unit numbers."""
        yield from self._numbers.items()

    def outcome_index(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield the whole index of outcomes: number, version, value, event."""
        for one in self._outcomes:
            values = one.cells[:, 0].tolist()
            numbers, versions = one.numbers.tolist(), one.versions.tolist()
            for number, version, value in zip(numbers, versions, values, strict=True):
                yield number, version, value, one.event

    def row_index(self) -> Iterator[tuple[str, int, int]]:
        """Yield the whole index of logged rows: key, version, event."""
        for event, rows in self._rows:
            for key, version in zip(rows.keys.to_pylist(), rows.versions.tolist(), strict=True):
                yield key, version, event

    def kept(
        self, rows: pa.Table, *, kind: str, event: int, chunk: int, first: int | None = None
    ) -> bytes:
        """Return the content of a record: a reference to the rows."""
        del kind, event, chunk, first
        return RowsAtHand.holding(rows)

    def claim(self, units: Texts, first: int) -> bool:
        """Number units from `first` on; if any already has one, do nothing and return False."""
        names = as_list(units)
        fresh = dict(zip(names, range(first, first + len(names)), strict=True))
        if len(fresh) < len(names) or not fresh.keys().isdisjoint(self._numbers):
            return False
        self._numbers |= fresh
        return True

    def add_units(self, chunk: UnitChunk) -> None:
        """Add a chunk of units; call `claim` first."""
        self._units.append(chunk)

    def add_outcomes(self, chunk: OutcomeChunk) -> None:
        """Add a chunk of outcome rows."""
        self._outcome_chunks.append(chunk)

    def index_outcomes(
        self, event: int, numbers: Integers, versions: Integers, cells: Floats
    ) -> None:
        """Index the rows of an event that count, before or after adding their chunk."""
        # Floating point has two zeros; stores read back one of them.
        self._outcomes.append(IndexedOutcomes(event, numbers, versions, cells + 0.0))

    def index_rows(self, event: int, rows: LoggedRows) -> None:
        """Index the logged rows of an event, before or after adding their chunk."""
        self._rows.append((event, rows))

    def add_state(self, state: StateRecord) -> None:
        """Add a state."""
        self._states.append(state)

    def add_event(self, event: Event, fold: Fold) -> None:
        """Add the event that describes the change, and its fold; must be the last call."""
        if event.sequence != len(self._events) + 1:
            raise StoreError(f"campaign {self.name} already has an event {event.sequence}.")
        # Read back, plain values are those of JSON.
        counts, payload = (json.loads(canonical(own)) for own in (event.counts, event.payload))
        self._events.append(replace(event, counts=counts, payload=payload))
        self._fold = fold

    def erase(
        self, event: int, *, units: Mapping[int, str], rows: Sequence[tuple[str, int]]
    ) -> None:
        """Refuse: what is simulated is about nobody."""
        del event, units, rows
        raise StoreError(f"campaign {self.name} is only in memory; it has no person's data.")

    def drop_units(self, chunk: int) -> None:
        """Drop a chunk of units; never called, because `erase` refuses."""

    def drop_outcomes(self, chunk: int) -> None:
        """Drop a chunk of outcome rows; never called, because `erase` refuses."""

    def last_tombstone(self) -> Tombstone | None:
        """Return the newest tombstone of the store: no campaign here leaves one."""
        return None

    def bury(self, tombstone: Tombstone) -> None:
        """Delete the campaign; must be the last call of a change."""
        self.tombstone = tombstone

    def mark(self) -> "Mark":
        """Return how many records there are, to go back to if a change fails."""
        sizes = (len(self._units), len(self._outcome_chunks), len(self._states))
        return Mark(len(self._events), self._fold, len(self._numbers), sizes)

    def since(self, mark: "Mark") -> bool:
        """Return whether an event was added since a mark."""
        return len(self._events) > mark.events

    def back(self, mark: "Mark") -> None:
        """Remove all records since a mark."""
        units, outcomes, states = mark.sizes
        del self._units[units:], self._outcome_chunks[outcomes:], self._states[states:]
        del self._events[mark.events :]
        self._fold = mark.fold
        for unit in list(self._numbers)[mark.numbered :]:
            del self._numbers[unit]
        self._outcomes = [one for one in self._outcomes if one.event <= mark.events]
        self._rows = [each for each in self._rows if each[0] <= mark.events]


@dataclass(frozen=True)
class Mark:
    """The numbers of a campaign's events, numbered units, chunks and states, and its fold."""

    events: int
    fold: Fold | None
    numbered: int
    sizes: tuple[int, int, int]


# ----------------------------------------------------------------------
# The store.


class MemoryStore:
    """Campaigns in the memory of one thread; see :class:`~seqbatch.campaign.record.store.Store`."""

    label = "memory"
    files: tuple[Path, ...] = ()

    def __init__(self, defaults: Mapping[str, str] | None = None) -> None:
        self.defaults: Mapping[str, str] = defaults or {}
        self._campaigns: dict[str, MemoryView] = {}

    def names(self) -> list[str]:
        """Return the names of all campaigns in order of creation."""
        return list(self._campaigns)

    def tombstones(self) -> list[Tombstone]:
        """Return no tombstones: a deleted campaign leaves none."""
        return []

    def schema_differences(self) -> list[tuple[str, str]]:
        """Return no differences: there is no schema."""
        return []

    @contextmanager
    def create(self, name: str) -> Iterator[MemoryView]:
        """Begin a campaign; raise CampaignStateError if the name is taken."""
        if name in self._campaigns:
            raise CampaignStateError(
                f"campaign {name} already exists in {self.label}. Choose another name.",
                code="name-taken",
                field="name",
            )
        made = MemoryView(name, len(self._campaigns) + 1)
        yield made
        self._campaigns[name] = made

    @contextmanager
    def change(self, name: str) -> Iterator[MemoryView]:
        """Begin a change; if it fails, its records are removed."""
        view = self._known(name)
        mark = view.mark()
        try:
            yield view
            if view.tombstone is None and view.mark() != mark and not view.since(mark):
                raise StoreError(f"campaign {name}: a change must end with its event.")
        except BaseException:
            view.back(mark)
            raise
        if view.tombstone is not None:
            del self._campaigns[name]

    @contextmanager
    def read(self, name: str) -> Iterator[MemoryView]:
        """Open a view of a campaign."""
        yield self._known(name)

    def copy(self, name: str, out: Path) -> None:
        """Refuse: what is simulated is not kept."""
        raise StoreError(f"campaign {name} is only in memory; it cannot be written to {out}.")

    def scrub(self, name: str) -> None:
        """Do nothing: there are no files."""

    def close(self) -> None:
        """Forget all campaigns."""
        self._campaigns.clear()

    def _known(self, name: str) -> MemoryView:
        if name not in self._campaigns:
            raise UnknownCampaignError(f"there is no campaign {name} in {self.label}.")
        return self._campaigns[name]
