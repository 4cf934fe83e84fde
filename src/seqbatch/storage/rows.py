"""Records to rows and back: one view of one campaign, the same SQL for both databases."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from seqbatch.campaign.record.events import canonical
from seqbatch.campaign.record.store import Event, Extent, OutcomeChunk, StateRecord, UnitChunk
from seqbatch.core.arrays import Floats, Integers
from seqbatch.storage import schema
from seqbatch.storage.bulk import Bulk

_PAGE = 10_000


class View:
    """One campaign within one transaction; the contract's Reader and Change.

    Parameters
    ----------
    connection
        A connection in the transaction.
    campaign, name
        The campaign's number and name.
    bulk
        How this kind of database takes many rows at once.
    """

    def __init__(
        self, connection: sa.Connection, campaign: int, name: str, bulk: type[Bulk]
    ) -> None:
        self._connection = connection
        self._campaign = campaign
        self._name = name
        self._bulk = bulk(connection)

    @property
    def name(self) -> str:
        """The campaign's name as the store has it."""
        return self._name

    def last_event(self) -> Event | None:
        """Return the newest event."""
        table = schema.events
        query = self._of(table).order_by(table.c.sequence.desc()).limit(1)
        row = self._connection.execute(query).mappings().first()
        return None if row is None else _event(row)

    def events(self) -> list[Event]:
        """Return all events in order."""
        query = self._of(schema.events).order_by(schema.events.c.sequence)
        return [_event(row) for row in self._connection.execute(query).mappings()]

    def unit_chunks(
        self, *, given: bool, chunks: Sequence[int] | None = None
    ) -> Iterator[UnitChunk]:
        """Yield the chunks of units in order, all or those named; `given` empty unless wanted."""
        table = schema.unit_chunks
        wanted = chunks if chunks is not None else self._chunks(table)
        columns = [c for c in table.c if c.name != "campaign" and (given or c.name != "given")]
        for chunk in wanted:
            query = sa.select(*columns).where(
                table.c.campaign == self._campaign, table.c.chunk == chunk
            )
            row = self._connection.execute(query).mappings().one()
            yield UnitChunk(**{"given": b"", **row})

    def extents(self) -> list[Extent]:
        """Return where the chunks of units lie, in order."""
        table = schema.unit_chunks
        columns = [table.c[field.name] for field in fields(Extent)]
        query = sa.select(*columns).where(table.c.campaign == self._campaign)
        rows = self._connection.execute(query.order_by(table.c.chunk))
        return [Extent(*row) for row in rows]

    def outcome_chunk_count(self) -> int:
        """Return how many chunks of outcome rows there are."""
        return len(self._chunks(schema.outcome_chunks))

    def outcome_chunks(self) -> Iterator[OutcomeChunk]:
        """Yield the chunks of outcome rows in order."""
        table = schema.outcome_chunks
        for chunk in self._chunks(table):
            query = self._of(table).where(table.c.chunk == chunk)
            row = dict(self._connection.execute(query).mappings().one())
            del row["campaign"]
            yield OutcomeChunk(**row)

    def states(self) -> Iterator[StateRecord]:
        """Yield the states in order of their events."""
        query = self._of(schema.states).order_by(schema.states.c.event)
        for row in self._connection.execute(query).mappings():
            yield _state(row)

    def last_state(self) -> StateRecord | None:
        """Return the newest state."""
        query = self._of(schema.states).order_by(schema.states.c.event.desc()).limit(1)
        row = self._connection.execute(query).mappings().first()
        return None if row is None else _state(row)

    def numbers(self, units: Sequence[str]) -> Integers:
        """Return each unit's number, -1 where it has none."""
        return self._bulk.numbers(self._campaign, units)

    def outcomes(self, numbers: Integers) -> tuple[Integers, Floats]:
        """Return the newest version and value of each unit's outcome; 0 and NaN where none."""
        return self._bulk.outcomes(self._campaign, numbers)

    def number_index(self) -> Iterator[tuple[str, int]]:
        """Yield the whole index of unit numbers."""
        table = schema.assignments
        query = sa.select(table.c.unit, table.c.number).where(table.c.campaign == self._campaign)
        for row in self._connection.execute(query.execution_options(yield_per=_PAGE)):
            yield row[0], row[1]

    def outcome_index(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield the whole index of outcomes: number, version, value, event."""
        table = schema.outcomes
        query = sa.select(table.c.number, table.c.version, table.c.value, table.c.event).where(
            table.c.campaign == self._campaign
        )
        for row in self._connection.execute(query.execution_options(yield_per=_PAGE)):
            yield row[0], row[1], row[2], row[3]

    def claim(self, units: Sequence[str], first: int) -> bool:
        """Number units from `first` on; where one has a number, do nothing and return False."""
        return self._bulk.claim(self._campaign, units, first)

    def add_units(self, chunk: UnitChunk) -> None:
        """Add a chunk of units, whose numbers were claimed."""
        self._insert(schema.unit_chunks, vars(chunk))

    def add_outcomes(
        self, chunk: OutcomeChunk, numbers: Integers, versions: Integers, values: Floats
    ) -> None:
        """Add a chunk of outcome rows, and the accepted ones to the index."""
        self._insert(schema.outcome_chunks, vars(chunk))
        self._bulk.add_outcomes(self._campaign, numbers, versions, values, chunk.event)

    def add_state(self, state: StateRecord) -> None:
        """Add a state."""
        self._insert(schema.states, vars(state))

    def add_event(self, event: Event) -> None:
        """Add the event that says what all this was; the last call of a change."""
        plain = {
            **vars(event),
            "counts": canonical(event.counts),
            "payload": canonical(event.payload),
        }
        self._insert(schema.events, plain)

    def _of(self, table: sa.Table) -> sa.Select[Any]:
        return sa.select(table).where(table.c.campaign == self._campaign)

    def _chunks(self, table: sa.Table) -> Sequence[int]:
        query = sa.select(table.c.chunk).where(table.c.campaign == self._campaign)
        return self._connection.execute(query.order_by(table.c.chunk)).scalars().all()

    def _insert(self, table: sa.Table, values: dict[str, Any]) -> None:
        self._connection.execute(table.insert().values(campaign=self._campaign, **values))


def _event(row: Any) -> Event:
    plain = {name: value for name, value in row.items() if name != "campaign"}
    plain["counts"], plain["payload"] = _values(row["counts"]), _values(row["payload"])
    return Event(**plain)


def _values(text: str) -> dict[str, Any]:
    """Return what a text says; a damaged one as it stands, for a verification to name."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {"damaged": text}


def _state(row: Any) -> StateRecord:
    return StateRecord(**{name: value for name, value in row.items() if name != "campaign"})
