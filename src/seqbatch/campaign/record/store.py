"""What a campaign asks of its store: plain records, and the few things done with them.

A store keeps four kinds of append-only records for each campaign, and two indexes:

========== =========================================================================
events     what was done, by whom, when and why, each with the hash of the one before
units      chunks of assigned units: what was given and what was decided, as Arrow
outcomes   chunks of recorded rows, each with its verdict, as Arrow
states     what the policy knew after each wave
numbers    unit id to its number in the campaign, so that no unit has two actions
values     unit number and version to an outcome, so that no outcome counts twice
========== =========================================================================

Every change is made within one :meth:`Store.change`, which is one transaction: it ends with one
event or leaves nothing. Changes of one campaign come one after the other, whichever process makes
them.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from seqbatch.core.arrays import Floats, Integers


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that was done to a campaign.

    Parameters
    ----------
    sequence
        Its number in the campaign, from 1: the only order there is.
    kind
        create, assign, record, close, amend or abort.
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


@dataclass(frozen=True, kw_only=True)
class UnitChunk:
    """Some units of one wave, in order, as two Arrow streams: what was given, what was decided."""

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
    """Some rows of an outcome file with their verdicts, as an Arrow stream."""

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


def waves_of(extents: list[Extent], numbers: Integers) -> Integers:
    """Return the wave of each unit number."""
    firsts = np.array([extent.first for extent in extents], dtype=np.int64)
    waves = np.array([extent.wave for extent in extents], dtype=np.int64)
    if not len(firsts):
        return np.zeros(len(numbers), dtype=np.int64)
    return waves[np.searchsorted(firsts, numbers, side="right") - 1]


class Reader(Protocol):
    """One consistent view of one campaign."""

    @property
    def name(self) -> str:
        """The campaign's name as the store has it."""

    def last_event(self) -> Event | None:
        """Return the newest event."""

    def events(self) -> list[Event]:
        """Return all events in order."""

    def unit_chunks(
        self, *, given: bool, chunks: Sequence[int] | None = None
    ) -> Iterator[UnitChunk]:
        """Yield the chunks of units in order, all or those named; `given` empty unless wanted."""

    def extents(self) -> list[Extent]:
        """Return where the chunks of units lie, in order."""

    def outcome_chunk_count(self) -> int:
        """Return how many chunks of outcome rows there are."""

    def outcome_chunks(self) -> Iterator[OutcomeChunk]:
        """Yield the chunks of outcome rows in order."""

    def states(self) -> Iterator[StateRecord]:
        """Yield the states in order of their events."""

    def last_state(self) -> StateRecord | None:
        """Return the newest state."""

    def numbers(self, units: Sequence[str]) -> Integers:
        """Return each unit's number, -1 where it has none."""

    def outcomes(self, numbers: Integers) -> tuple[Integers, Floats]:
        """Return the newest version and value of each unit's outcome; 0 and NaN where none."""

    def number_index(self) -> Iterator[tuple[str, int]]:
        """Yield the whole index of unit numbers."""

    def outcome_index(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield the whole index of outcomes: number, version, value, event."""


class Change(Reader, Protocol):
    """A view that may be added to; nothing lasts before the transaction ends well."""

    def claim(self, units: Sequence[str], first: int) -> bool:
        """Number units from `first` on; where one has a number, do nothing and return False."""

    def add_units(self, chunk: UnitChunk) -> None:
        """Add a chunk of units, whose numbers were claimed."""

    def add_outcomes(
        self, chunk: OutcomeChunk, numbers: Integers, versions: Integers, values: Floats
    ) -> None:
        """Add a chunk of outcome rows, and the accepted ones to the index."""

    def add_state(self, state: StateRecord) -> None:
        """Add a state."""

    def add_event(self, event: Event) -> None:
        """Add the event that says what all this was; the last call of a change."""


class Store(Protocol):
    """A database of campaigns."""

    @property
    def label(self) -> str:
        """What to call the store in front of people, without any secret."""

    def names(self) -> list[str]:
        """Return the names of all campaigns, in the order of their creation."""

    def create(self, name: str) -> AbstractContextManager[Change]:
        """Begin a campaign; a name that is taken raises CampaignStateError."""

    def change(self, name: str) -> AbstractContextManager[Change]:
        """Begin a transaction on a campaign, alone; an unknown name raises CampaignStateError."""

    def read(self, name: str) -> AbstractContextManager[Reader]:
        """Open a view of a campaign."""

    def close(self) -> None:
        """Let go of the database."""
