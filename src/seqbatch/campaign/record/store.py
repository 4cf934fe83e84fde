"""The interface of a store: a campaign's records, and the operations on them.

A store keeps four kinds of append-only records for each campaign, and three indexes:

========== =========================================================================
events     what was done, by whom, when and why, each with the hash of the one before
units      chunks of assigned units: what was given and what was decided, as Arrow
outcomes   chunks of recorded rows, each with its verdict, as Arrow
states     what the policy knew after each wave
numbers    unit id to its number in the campaign; prevents two actions for one unit
values     unit number and version to an outcome; prevents counting an outcome twice; version 0
           is the outcome assumed for an absent unit
rows       a logged row's key and version to its unit and content; prevents counting a row twice
========== =========================================================================

A store also keeps one fold for each campaign: its state after the newest event, which saves reading
all events. The fold is rebuilt if it does not match the newest event; verification rebuilds it from
the events and compares.

An erasure replaces the chunks of some units and outcomes by chunks without them, splitting those of
units, so that every unit keeps its number.

A campaign without outcomes can be deleted. All of its records are removed, and a tombstone stays.

Every change is made within one :meth:`Store.change`, which is one transaction: it ends with one
event or leaves nothing. Changes of one campaign come one after the other, whichever process makes
them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from seqbatch.campaign.files.column_values import Texts
from seqbatch.core.arrays import Bools, Floats, Integers, Places


@dataclass(frozen=True, kw_only=True)
class Event:
    """An operation on a campaign, as recorded.

    Parameters
    ----------
    sequence
        Its number in the campaign, from 1, which alone defines the order of events.
    kind
        create, assign, record, close, look, continue, amend, erase, unmask, unblind, screen, sign,
        stop or abort.
    at
        The time in UTC, from the machine's clock.
    who, why
        The user, and the reason given.
    counts
        Counts of units, rows and the like, by name.
    payload
        Further details, as plain values.
    rows_hash
        The hash of the hashes of the records added with it.
    previous, hash
        The hash of the event before it ("" for the first), and its own.
    version
        The version of seqbatch that wrote it; "" if it was not recorded.
    """

    sequence: int
    kind: str
    at: str
    who: str
    why: str
    counts: dict[str, Any]
    payload: dict[str, Any]
    rows_hash: str
    previous: str
    hash: str
    version: str = ""


class RowsElsewhere(bytes):
    """The address and fingerprint of rows that are stored outside the record."""

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows; raise StoreError if they were changed since they were stored.

        Return all columns, or those of the named columns that exist.
        """
        raise NotImplementedError

    @property
    def fingerprint(self) -> bytes:
        """A hash of the rows."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class UnitChunk:
    """Some units of one wave, in order: their columns, and the decisions for them.

    The rows are Arrow streams, or :class:`RowsElsewhere`; see :meth:`Change.kept`.
    """

    chunk: int
    event: int
    wave: int
    first: int
    count: int
    given: bytes
    decided: bytes
    hash: str


@dataclass(frozen=True, kw_only=True)
class OutcomeChunk:
    """Some rows of an outcome file with their verdicts, stored in the same way as units."""

    chunk: int
    event: int
    count: int
    rows: bytes
    hash: str


@dataclass(frozen=True, eq=False)
class LoggedRows:
    """Rows of outcome files from which outcomes are combined.

    Parameters
    ----------
    keys
        What identifies each row: its id, or else its content. An id is written after the name of
        its column and a bar; a content after the bar alone.
    versions
        The version of a row with an id, from 1: only the newest counts. Equal rows without ids are
        versions of one row, and all of them count.
    numbers
        The units' numbers.
    contents
        The row's cells as in an outcome (NaN if empty, or computed from others), its time in
        microseconds since 1970 (NaN if not declared), and 1 if the time is a whole day, shape
        (n, 1 + parts + 2).
    """

    keys: pa.Array
    versions: Integers
    numbers: Integers
    contents: Floats

    @property
    def cells(self) -> Floats:
        """The cells, without the time."""
        return self.contents[:, :-2]

    @property
    def times(self) -> Floats:
        """The times."""
        return self.contents[:, -2]

    @property
    def days(self) -> Bools:
        """Which times are whole days."""
        days: Bools = self.contents[:, -1] == 1
        return days

    def take(self, rows: Places) -> "LoggedRows":
        """Return only these rows."""
        return LoggedRows(
            self.keys.take(rows), self.versions[rows], self.numbers[rows], self.contents[rows]
        )

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class KnownRows:
    """The newest version of each of some logged rows, found by their keys.

    Parameters
    ----------
    versions
        The versions, 0 for unknown rows.
    numbers, contents
        The units' numbers, and the content of each row.
    events
        The events that recorded them.
    """

    versions: Integers
    numbers: Integers
    contents: Floats
    events: Integers


@dataclass(frozen=True, kw_only=True)
class StateRecord:
    """The policy's state after `wave` waves were closed (or learned again by an amendment)."""

    event: int
    wave: int
    content: bytes
    hash: str


@dataclass(frozen=True)
class Extent:
    """The extent of a chunk of units: its number, first unit, count, wave and event."""

    chunk: int
    first: int
    count: int
    wave: int
    event: int


@dataclass(frozen=True, kw_only=True)
class Fold:
    """A campaign's state after one of its events, as text, with a hash of both."""

    event: int
    content: str
    hash: str


@dataclass(frozen=True, kw_only=True)
class Tombstone:
    """The record that remains of a deleted campaign.

    Parameters
    ----------
    campaign, name
        Its number in the store, which is never used again, and its name, which may be.
    events, units, last
        How many events and units it had, and the hash of its newest event.
    at, who, why
        When it was deleted, by whom, and the reason given.
    previous, hash
        The hash of the store's tombstone before it ("" for the first), and its own.
    """

    campaign: int
    name: str
    events: int
    units: int
    last: str
    at: str
    who: str
    why: str
    previous: str
    hash: str


class Reader(Protocol):
    """One consistent view of one campaign."""

    @property
    def name(self) -> str:
        """The campaign's name as stored."""

    @property
    def number(self) -> int:
        """The campaign's number in the store."""

    def newest(self) -> tuple[int, str, int]:
        """Return the newest event's number and hash, and the fold's event number (0 for none)."""

    @property
    def derived(self) -> bool:
        """Whether the indexes are computed from the records, and cannot differ from them."""

    def last_event(self) -> Event | None:
        """Return the newest event."""

    def event(self, sequence: int) -> Event:
        """Return one event by its number."""

    def events(self) -> list[Event]:
        """Return all events in order."""

    def fold(self) -> Fold | None:
        """Return the fold stored by the last change."""

    def unit_chunks(
        self, *, given: bool, chunks: Sequence[int] | None = None
    ) -> Iterator[UnitChunk]:
        """Yield all or the selected chunks of units in order; `given` is empty unless requested."""

    def extents(self, *, wave: int | None = None) -> list[Extent]:
        """Return the extents of all chunks of units, or of a wave's chunks, in order."""

    def extent_of(self, number: int) -> Extent:
        """Return the extent of the chunk with a unit."""

    def next_chunks(self) -> tuple[int, int]:
        """Return the numbers of the next chunk of units and the next chunk of outcome rows."""

    def outcome_chunks(
        self, *, after_event: int = 0, until_event: int | None = None
    ) -> Iterator[OutcomeChunk]:
        """Yield the chunks of outcome rows in order: those after one event, up to another."""

    def states(self) -> Iterator[StateRecord]:
        """Yield the states in order of their events."""

    def last_state(self, *, before_event: int | None = None) -> StateRecord | None:
        """Return the newest state, or the newest before an event."""

    def last_state_hash(self) -> str:
        """Return the hash of the newest state, without its content, which may be long."""

    def numbers(self, units: Texts) -> Integers:
        """Return each unit's number, -1 for unknown units."""

    def known_rows(self, keys: Texts, *, parts: int) -> KnownRows:
        """Return the newest version of each logged row."""

    def outcomes(self, numbers: Integers, *, parts: int = 0) -> tuple[Integers, Floats, Bools]:
        """Return the newest version and cells of each unit's outcome, and whether it was absent.

        The version is 0 and the cells are NaN if nothing was recorded. The cells are the value and,
        if `parts` are requested, the other numbers recorded with it. An absent unit once counted as
        the declared value.
        """

    def outcome_versions(
        self, numbers: Integers
    ) -> Iterator[tuple[int, int, tuple[float, ...], int]]:
        """Yield all versions of units' outcomes: number, version, cells, event."""

    def index_sizes(self) -> tuple[int, int, int]:
        """Return how many rows the indexes of numbers, outcomes and logged rows have."""

    def number_index(self) -> Iterator[tuple[str, int]]:
        """Yield the whole index of unit numbers."""

    def outcome_index(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield the whole index of outcomes: number, version, value, event."""

    def row_index(self) -> Iterator[tuple[str, int, int]]:
        """Yield the whole index of logged rows: key, version, event."""


class Change(Reader, Protocol):
    """A view that accepts new records; they are stored only if the transaction succeeds."""

    def kept(
        self, rows: pa.Table, *, kind: str, event: int, chunk: int, first: int | None = None
    ) -> bytes:
        """Return the content of a record for these rows: the rows, or their address elsewhere.

        This method is thread-safe.

        Parameters
        ----------
        rows
            The rows.
        kind
            units, decisions or outcomes.
        event, chunk
            The number of their event, and of their chunk.
        first
            The number of the first unit, if the rows are units in order.
        """

    def claim(self, units: Texts, first: int) -> bool:
        """Number units from `first` on; if one already has a number, return False instead."""

    def add_units(self, chunk: UnitChunk) -> None:
        """Add a chunk of units that were numbered by :meth:`claim`."""

    def add_outcomes(self, chunk: OutcomeChunk) -> None:
        """Add a chunk of outcome rows."""

    def index_outcomes(
        self, event: int, numbers: Integers, versions: Integers, cells: Floats
    ) -> None:
        """Add an event's accepted rows to the index, before or after adding their chunk."""

    def index_rows(self, event: int, rows: LoggedRows) -> None:
        """Add an event's logged rows to the index, before or after adding their chunk."""

    def add_state(self, state: StateRecord) -> None:
        """Add a state."""

    def add_event(self, event: Event, fold: Fold) -> None:
        """Add the event of this change, and store its fold; must be the last call of a change."""

    def erase(
        self, event: int, *, units: Mapping[int, str], rows: Sequence[tuple[str, int]]
    ) -> None:
        """Begin an erasure: delete the index rows of units, and all answers kept for repeats.

        Parameters
        ----------
        event
            The number of the event that will end it.
        units
            The ids of the units by their numbers.
        rows
            The key and the unit's number of each of their logged rows.
        """

    def drop_units(self, chunk: int) -> None:
        """Delete a chunk of units within an erasure; others may replace it."""

    def drop_outcomes(self, chunk: int) -> None:
        """Delete a chunk of outcome rows within an erasure; another may replace it."""

    def last_tombstone(self) -> Tombstone | None:
        """Return the newest tombstone of the store."""

    def bury(self, tombstone: Tombstone) -> None:
        """Delete the campaign, and add its tombstone; must be the last call of a change."""


class Store(Protocol):
    """A database of campaigns."""

    @property
    def label(self) -> str:
        """The store's name for display, without secrets."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The store's own files, which must not be overwritten."""

    @property
    def defaults(self) -> Mapping[str, str]:
        """The store's defaults for fields that a spec leaves out."""

    def names(self) -> list[str]:
        """Return the names of all campaigns, in the order of their creation."""

    def tombstones(self) -> list[Tombstone]:
        """Return the tombstones of deleted campaigns, in the order of their deletion."""

    def schema_differences(self) -> list[tuple[str, str]]:
        """Return each part of the store that is not as it was made, and the difference."""

    def create(self, name: str) -> AbstractContextManager[Change]:
        """Begin a campaign; raise CampaignStateError if the name is taken."""

    def change(self, name: str) -> AbstractContextManager[Change]:
        """Begin an exclusive transaction; raise CampaignStateError if the name is unknown."""

    def read(self, name: str) -> AbstractContextManager[Reader]:
        """Open a view of a campaign."""

    def copy(self, name: str, out: Path) -> None:
        """Write a campaign alone to a new SQLite file; the same records give the same bytes."""

    def scrub(self, name: str) -> None:
        """Remove the bytes that an erasure left in the store's files."""

    def close(self) -> None:
        """Close the database connection."""
