"""The contract of a store: the records that a campaign keeps, and the few operations on them.

A store keeps four kinds of append-only records for each campaign, and three indexes:

========== =========================================================================
events     what was done, by whom, when and why, each with the hash of the one before
units      chunks of assigned units: what was given and what was decided, as Arrow
outcomes   chunks of recorded rows, each with its verdict, as Arrow
states     what the policy knew after each wave
numbers    unit id to its number in the campaign, so that no unit has two actions
values     unit number and version to an outcome, so that no outcome counts twice; version 0 is
           what a unit without an outcome was counted as
owners     outcome id to a unit's number, so that no outcome has two units
========== =========================================================================

Beside them stands one fold for each campaign: what its events say, as of the newest one, so that a
call need not read them all. It is rebuilt where it does not fit, and a verification ignores it.

A campaign without outcomes can be deleted: all of its records go at once, and a tombstone stays.

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
from seqbatch.core.arrays import Floats, Integers


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that was done to a campaign.

    Parameters
    ----------
    sequence
        Its number in the campaign, from 1: the only order there is.
    kind
        create, assign, record, close, continue, amend or abort.
    at
        When, in UTC, as the clock of the machine said.
    who, why
        By whom, and the reason given.
    counts
        How many of what.
    payload
        What else there is to know, as plain values.
    rows_hash
        Hash of the hashes of the records that came with it.
    previous, hash
        The hash of the event before it ("" for the first), and its own.
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


class RowsElsewhere(bytes):
    """What a record holds of rows that lie elsewhere: their address and fingerprint."""

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows; where they are not those that were kept, raise StoreError.

        All columns, or those of these names that there are.
        """
        raise NotImplementedError

    @property
    def fingerprint(self) -> bytes:
        """A hash of the rows, wherever they lie."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class UnitChunk:
    """Some units of one wave, in order: what was given, and what was decided.

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
    """Some rows of an outcome file with their verdicts, kept like those of units."""

    chunk: int
    event: int
    count: int
    rows: bytes
    hash: str


@dataclass(frozen=True, kw_only=True)
class StateRecord:
    """What the policy knew once `wave` waves were closed (and, after an amendment, relearned)."""

    event: int
    wave: int
    content: bytes
    hash: str


@dataclass(frozen=True)
class Extent:
    """Where a chunk of units lies: its number, first unit, count, wave and event."""

    chunk: int
    first: int
    count: int
    wave: int
    event: int


@dataclass(frozen=True, kw_only=True)
class Fold:
    """What the events up to one of them say, as text, with a hash of both."""

    event: int
    content: str
    hash: str


@dataclass(frozen=True, kw_only=True)
class Tombstone:
    """What is left of a campaign that was deleted.

    Parameters
    ----------
    campaign, name
        Its number in the store, which no other will have, and its name, which is free again.
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
        """The campaign's name as the store has it."""

    @property
    def number(self) -> int:
        """The campaign's number in the store."""

    def newest(self) -> tuple[int, str, int]:
        """Return the newest event's number and hash, and which event the fold is of, 0 for none."""

    @property
    def derived(self) -> bool:
        """Whether the indexes are made of the records, and cannot differ from them."""

    def last_event(self) -> Event | None:
        """Return the newest event."""

    def event(self, sequence: int) -> Event:
        """Return one event by its number."""

    def events(self) -> list[Event]:
        """Return all events in order."""

    def fold(self) -> Fold | None:
        """Return what the last change kept of what the events say."""

    def unit_chunks(
        self, *, given: bool, chunks: Sequence[int] | None = None
    ) -> Iterator[UnitChunk]:
        """Yield the chunks of units in order, all or those named; `given` empty unless wanted."""

    def extents(self, *, wave: int | None = None) -> list[Extent]:
        """Return where the chunks of units lie, in order: all, or those of a wave."""

    def extent_of(self, number: int) -> Extent:
        """Return where the chunk lies that holds a unit."""

    def next_chunks(self) -> tuple[int, int]:
        """Return the numbers that the next chunk of units and of outcome rows will have."""

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
        """Return each unit's number, -1 where it has none."""

    def owners(self, ids: Sequence[str]) -> Integers:
        """Return the number of the unit that each outcome id belongs to, -1 where none."""

    def outcomes(self, numbers: Integers, *, parts: int = 0) -> tuple[Integers, Floats]:
        """Return the newest version and cells of each unit's outcome; 0 and NaN where none.

        The cells are the value and, where `parts` are wanted, the other numbers that were recorded
        with it. Version 0 is no record: it is what a unit counts as that has none.
        """

    def outcome_versions(
        self, numbers: Integers
    ) -> Iterator[tuple[int, int, tuple[float, ...], int]]:
        """Yield all versions of units' outcomes: number, version, cells, event."""

    def index_sizes(self) -> tuple[int, int, int]:
        """Return how many rows the indexes of numbers, outcomes and outcome ids have."""

    def number_index(self) -> Iterator[tuple[str, int]]:
        """Yield the whole index of unit numbers."""

    def outcome_index(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield the whole index of outcomes: number, version, value, event."""

    def owner_index(self) -> Iterator[tuple[str, int]]:
        """Yield the whole index of outcome ids."""


class Change(Reader, Protocol):
    """A view that may be added to; nothing lasts before the transaction ends well."""

    def kept(
        self, rows: pa.Table, *, kind: str, event: int, chunk: int, first: int | None = None
    ) -> bytes:
        """Return what a record holds of its rows: the rows, or where they are kept from now on.

        Threads may call it at the same time.

        Parameters
        ----------
        rows
            The rows.
        kind
            units, decisions or outcomes.
        event, chunk
            The event that they belong to, and the number of their chunk.
        first
            The number of the first unit, where the rows are units in their order.
        """

    def claim(self, units: Texts, first: int) -> bool:
        """Number units from `first` on; where one has a number, do nothing and return False."""

    def add_units(self, chunk: UnitChunk) -> None:
        """Add a chunk of units, whose numbers were claimed."""

    def add_outcomes(self, chunk: OutcomeChunk) -> None:
        """Add a chunk of outcome rows."""

    def index_outcomes(
        self, event: int, numbers: Integers, versions: Integers, cells: Floats
    ) -> None:
        """Add the rows of an event that count to the index, before their chunk or after it."""

    def add_owners(self, ids: Sequence[str], numbers: Integers) -> None:
        """Say whose outcome ids are that nobody had."""

    def add_state(self, state: StateRecord) -> None:
        """Add a state."""

    def add_event(self, event: Event, fold: Fold) -> None:
        """Add the event that says what all this was, and keep its fold; a change's last call."""

    def last_tombstone(self) -> Tombstone | None:
        """Return the newest tombstone of the store."""

    def bury(self, tombstone: Tombstone) -> None:
        """Delete the campaign, but for its tombstone; a change's last call."""


class Store(Protocol):
    """A database of campaigns."""

    @property
    def label(self) -> str:
        """What to call the store in front of people, without any secret."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it is kept in, which nothing else may be written to."""

    @property
    def defaults(self) -> Mapping[str, str]:
        """What a spec that says nothing of these fields means in this store."""

    def names(self) -> list[str]:
        """Return the names of all campaigns, in the order of their creation."""

    def tombstones(self) -> list[Tombstone]:
        """Return what is left of campaigns that were deleted, in the order of their deletion."""

    def create(self, name: str) -> AbstractContextManager[Change]:
        """Begin a campaign; a name that is taken raises CampaignStateError."""

    def change(self, name: str) -> AbstractContextManager[Change]:
        """Begin a transaction on a campaign, alone; an unknown name raises CampaignStateError."""

    def read(self, name: str) -> AbstractContextManager[Reader]:
        """Open a view of a campaign."""

    def close(self) -> None:
        """Let go of the database."""
