"""One campaign's view of the database: converts records to rows and back."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from seqbatch.campaign.files.column_values import Texts, as_list
from seqbatch.campaign.record.codec import pack
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
from seqbatch.storage import schema
from seqbatch.storage.bulk import Bulk, newest, newest_rows

_PAGE = 10_000
#: Number of chunks per query: SQL limits the length of a list.
_MOST = 500


def _of_campaign(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.campaign == sa.bindparam("campaign")


def _next(table: sa.Table) -> sa.ScalarSelect[int]:
    """Return the next chunk number."""
    found = sa.select(sa.func.coalesce(sa.func.max(table.c.chunk) + 1, 0))
    return found.where(_of_campaign(table)).scalar_subquery()


def _last(table: sa.Table, column: str) -> sa.ScalarSelect[Any]:
    """Return a column of the row with the newest event."""
    order = table.c.sequence if "sequence" in table.c else table.c.event
    found = sa.select(table.c[column]).where(_of_campaign(table))
    return found.order_by(order.desc()).limit(1).scalar_subquery()


# Statements that every small call uses, built once: building a statement takes longer than running
# it.
_PLACE = sa.select(
    _last(schema.events, "sequence").label("sequence"),
    _last(schema.events, "hash").label("hash"),
    sa.func.coalesce(_last(schema.folds, "event"), 0).label("fold"),
    _next(schema.unit_chunks).label("units"),
    _next(schema.outcome_chunks).label("outcomes"),
    _last(schema.states, "hash").label("state"),
)
_KEEP_FOLD = sa.text(
    "INSERT INTO folds (campaign, event, content, hash) VALUES (:campaign, :event, :content, :hash)"
    " ON CONFLICT (campaign) DO UPDATE"
    " SET event = excluded.event, content = excluded.content, hash = excluded.hash"
)


class View:
    """One campaign within one transaction; implements the Reader and Change protocols.

    Parameters
    ----------
    connection
        The transaction's connection.
    campaign, name
        The campaign's number and name.
    bulk
        Bulk operations for this kind of database.
    """

    #: The indexes are stored in separate tables.
    derived = False
    #: Number of chunk rows to read at once.
    rows_at_once = 65_536

    def __init__(
        self, connection: sa.Connection, campaign: int, name: str, bulk: type[Bulk]
    ) -> None:
        self._connection = connection
        self._campaign = campaign
        self._name = name
        self._mine = {"campaign": campaign}
        self._known_place: Any = None
        self._bulk = bulk(connection)

    @property
    def connection(self) -> sa.Connection:
        """The connection, for storing other data in the same transaction."""
        return self._connection

    @property
    def name(self) -> str:
        """The campaign's name in the store."""
        return self._name

    @property
    def number(self) -> int:
        """The campaign's number in the store."""
        return self._campaign

    def newest(self) -> tuple[int, str, int]:
        """Return the newest event's number and hash, and the fold's event number (0 if none)."""
        place = self._place()
        return place.sequence, place.hash, place.fold

    def last_event(self) -> Event | None:
        """Return the newest event."""
        table = schema.events
        query = self._of(table).order_by(table.c.sequence.desc()).limit(1)
        row = self._connection.execute(query).mappings().first()
        return None if row is None else _event(row)

    def event(self, sequence: int) -> Event:
        """Return one event by its number."""
        query = self._of(schema.events).where(schema.events.c.sequence == sequence)
        return _event(self._connection.execute(query).mappings().one())

    def events(self) -> list[Event]:
        """Return all events in order."""
        query = self._of(schema.events).order_by(schema.events.c.sequence)
        return [_event(row) for row in self._connection.execute(query).mappings()]

    def fold(self) -> Fold | None:
        """Return the fold: the summary of all events that the last change stored."""
        row = self._connection.execute(self._of(schema.folds)).mappings().first()
        return None if row is None else Fold(**_without_campaign(row))

    def unit_chunks(
        self, *, given: bool, chunks: Sequence[int] | None = None
    ) -> Iterator[UnitChunk]:
        """Yield all or the named chunks of units, in order; `given` is empty unless requested."""
        table = schema.unit_chunks
        columns = [c for c in table.c if c.name != "campaign" and (given or c.name != "given")]
        if chunks is not None and not chunks:
            return
        within = sa.true() if chunks is None else table.c.chunk.between(min(chunks), max(chunks))
        for row in self._paged(table, columns, within, only=chunks):
            yield UnitChunk(**{"given": b"", **row})

    def extents(self, *, wave: int | None = None) -> list[Extent]:
        """Return the extents of all chunks of units, or of a wave's chunks, in order."""
        query = self._extents()
        if wave is not None:
            query = query.where(schema.unit_chunks.c.wave == wave)
        rows = self._connection.execute(query.order_by(schema.unit_chunks.c.first))
        return [Extent(*row) for row in rows]

    def extent_of(self, number: int) -> Extent:
        """Return the extent of the chunk that contains a unit."""
        first = schema.unit_chunks.c.first
        query = self._extents().where(first <= number).order_by(first.desc()).limit(1)
        return Extent(*self._connection.execute(query).one())

    def next_chunks(self) -> tuple[int, int]:
        """Return the next chunk number of units and of outcome rows."""
        place = self._place()
        return place.units, place.outcomes

    def outcome_chunks(
        self, *, after_event: int = 0, until_event: int | None = None
    ) -> Iterator[OutcomeChunk]:
        """Yield the chunks of outcome rows in order, after one event and up to another."""
        table = schema.outcome_chunks
        columns = [column for column in table.c if column.name != "campaign"]
        within = table.c.event > after_event
        if until_event is not None:
            within &= table.c.event <= until_event
        for row in self._paged(table, columns, within):
            yield OutcomeChunk(**row)

    def states(self) -> Iterator[StateRecord]:
        """Yield the states in order of their events."""
        table = schema.states
        query = sa.select(table.c.event).where(table.c.campaign == self._campaign)
        # States are read one at a time, because each may be large.
        for event in self._connection.execute(query.order_by(table.c.event)).scalars().all():
            row = self._connection.execute(self._of(table).where(table.c.event == event))
            yield StateRecord(**_without_campaign(row.mappings().one()))

    def last_state(self, *, before_event: int | None = None) -> StateRecord | None:
        """Return the newest state, or the newest before an event."""
        query = self._of(schema.states).order_by(schema.states.c.event.desc()).limit(1)
        if before_event is not None:
            query = query.where(schema.states.c.event < before_event)
        row = self._connection.execute(query).mappings().first()
        return None if row is None else StateRecord(**_without_campaign(row))

    def last_state_hash(self) -> str:
        """Return the hash of the newest state without reading its content."""
        return str(self._place().state)

    def numbers(self, units: Texts) -> Integers:
        """Return each unit's number; -1 for unknown units."""
        return self._bulk.numbers(self._campaign, as_list(units))

    def outcomes(self, numbers: Integers, *, parts: int = 0) -> tuple[Integers, Floats, Bools]:
        """Return the newest version and cells of each unit's outcome, and whether it was absent."""
        return newest(self._bulk.versions(self._campaign, numbers), len(numbers), parts)

    def known_rows(self, keys: Texts, *, parts: int) -> KnownRows:
        """Return the newest version of each logged row."""
        found = self._bulk.row_versions(self._campaign, as_list(keys))
        return newest_rows(found, len(keys), content_width(parts))

    def outcome_versions(
        self, numbers: Integers
    ) -> Iterator[tuple[int, int, tuple[float, ...], int]]:
        """Yield all versions of units' outcomes: number, version, cells, event."""
        for place, version, value, parts, event in self._bulk.versions(self._campaign, numbers):
            known = nan if value is None else value
            cells = (known, *_others(parts)) if parts else (known,)
            yield int(numbers[place]), version, cells, event

    def index_sizes(self) -> tuple[int, int, int]:
        """Return how many rows the indexes of numbers, outcomes and logged rows have."""
        sizes = [
            self._connection.execute(
                sa.select(sa.func.count()).where(table.c.campaign == self._campaign)
            ).scalar_one()
            for table in (schema.assignments, schema.outcomes, schema.outcome_rows)
        ]
        return sizes[0], sizes[1], sizes[2]

    def number_index(self) -> Iterator[tuple[str, int]]:
        """Yield the whole index of unit numbers."""
        yield from self._index(schema.assignments, "unit", "number")

    def outcome_index(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield the whole index of outcomes: number, version, value, event."""
        for number, version, value, event in self._index(
            schema.outcomes, "number", "version", "value", "event"
        ):
            yield number, version, nan if value is None else value, event

    def row_index(self) -> Iterator[tuple[str, int, int]]:
        """Yield the whole index of logged rows: key, version, event."""
        yield from self._index(schema.outcome_rows, "key", "version", "event")

    def kept(
        self, rows: pa.Table, *, kind: str, event: int, chunk: int, first: int | None = None
    ) -> bytes:
        """Return the content of a record: here, the rows themselves."""
        del kind, event, chunk, first
        return pack(rows)

    def claim(self, units: Texts, first: int) -> bool:
        """Number units from `first` on; if any already has one, do nothing and return False."""
        return self._bulk.claim(self._campaign, as_list(units), first)

    def add_units(self, chunk: UnitChunk) -> None:
        """Add a chunk of units; call `claim` first."""
        self._insert(schema.unit_chunks, vars(chunk))

    def add_outcomes(self, chunk: OutcomeChunk) -> None:
        """Add a chunk of outcome rows."""
        self._insert(schema.outcome_chunks, vars(chunk))

    def index_outcomes(
        self, event: int, numbers: Integers, versions: Integers, cells: Floats
    ) -> None:
        """Index the rows of an event that count, before or after adding their chunk."""
        # Floating point has two zeros; databases return either, so only one is stored.
        self._bulk.add_outcomes(self._campaign, numbers, versions, cells + 0.0, event)

    def index_rows(self, event: int, rows: LoggedRows) -> None:
        """Index the logged rows of an event, before or after adding their chunk."""
        self._bulk.add_rows(self._campaign, rows, event)

    def add_state(self, state: StateRecord) -> None:
        """Add a state."""
        self._insert(schema.states, vars(state))

    def add_event(self, event: Event, fold: Fold) -> None:
        """Add the event that describes the change, and its fold; must be the last call."""
        plain = {
            **vars(event),
            "counts": canonical(event.counts),
            "payload": canonical(event.payload),
        }
        self._insert(schema.events, plain)
        self._connection.execute(_KEEP_FOLD, {**self._mine, **vars(fold)})

    def last_tombstone(self) -> Tombstone | None:
        """Return the newest tombstone of the store."""
        found = tombstones(self._connection)
        return found[-1] if found else None

    def bury(self, tombstone: Tombstone) -> None:
        """Delete the campaign and add its tombstone; must be the last call of a change."""
        # The tombstone comes first: without it, the triggers refuse to delete anything.
        self._connection.execute(schema.tombstones.insert().values(**vars(tombstone)))
        for table in (
            schema.assignments, schema.unit_chunks, schema.states, schema.folds, schema.erasures,
            schema.events,
        ):  # fmt: skip
            self._connection.execute(table.delete().where(table.c.campaign == self._campaign))
        own = schema.campaigns.c.id == self._campaign
        self._connection.execute(schema.campaigns.delete().where(own))

    def erase(
        self, event: int, *, units: Mapping[int, str], rows: Sequence[tuple[str, int]]
    ) -> None:
        """Begin an erasure: delete the index rows of units, and all answers kept for repeats."""
        # This row comes first: without it, the triggers refuse to delete anything.
        self._insert(schema.erasures, {"event": event})
        self._delete(schema.assignments, unit=list(units.values()))
        self._delete(schema.outcomes, number=list(units))
        keys, numbers = [key for key, _ in rows], [number for _, number in rows]
        self._delete(schema.outcome_rows, key=keys, number=numbers)
        for table in (schema.answer_pieces, schema.answers):
            self._connection.execute(table.delete())

    def drop_units(self, chunk: int) -> None:
        """Delete a chunk of units within an erasure; others may replace it."""
        self._delete(schema.unit_chunks, chunk=[chunk])

    def drop_outcomes(self, chunk: int) -> None:
        """Delete a chunk of outcome rows within an erasure; another may replace it."""
        self._delete(schema.outcome_chunks, chunk=[chunk])

    def _delete(self, table: sa.Table, **keys: list[Any]) -> None:
        """Delete the campaign's rows of a table that have these values."""
        self.forget()
        same = [table.c[name] == sa.bindparam(f"of_{name}") for name in keys]
        made = table.delete().where(table.c.campaign == self._campaign, *same)
        names = [f"of_{name}" for name in keys]
        if rows := [dict(zip(names, row, strict=True)) for row in zip(*keys.values(), strict=True)]:
            self._connection.execute(made, rows)

    def forget(self) -> None:
        """Clear cached values after a part of the transaction was rolled back."""
        self._known_place = None

    def _place(self) -> Any:
        """Return the position of the newest records, cached until a record is added."""
        if self._known_place is None:
            self._known_place = self._connection.execute(_PLACE, self._mine).one()
        return self._known_place

    def _of(self, table: sa.Table) -> sa.Select[Any]:
        return sa.select(table).where(table.c.campaign == self._campaign)

    def _extents(self) -> sa.Select[Any]:
        table = schema.unit_chunks
        columns = [table.c[field.name] for field in fields(Extent)]
        return sa.select(*columns).where(table.c.campaign == self._campaign)

    def _index(self, table: sa.Table, *columns: str) -> Iterator[Any]:
        chosen = [table.c[column] for column in columns]
        query = sa.select(*chosen).where(table.c.campaign == self._campaign)
        for row in self._connection.execute(query.execution_options(yield_per=_PAGE)):
            yield tuple(row)

    def _paged(
        self,
        table: sa.Table,
        columns: Sequence[sa.Column[Any]],
        within: Any,
        *,
        only: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        """Yield rows of chunks in order; each query reads many small chunks or one large one."""
        mine = (table.c.campaign == self._campaign) & within
        # The chunks that an erasure splits keep their place, but have new numbers.
        order = table.c.first if "first" in table.c else table.c.chunk
        query = sa.select(table.c.chunk, table.c.count).where(mine).order_by(order)
        found = self._connection.execute(query).all()
        if only is not None:
            wanted = set(only)
            found = [row for row in found if row[0] in wanted]
        for page in _pages(found, self.rows_at_once):
            some = sa.select(*columns).where(
                table.c.campaign == self._campaign, table.c.chunk.in_(page)
            )
            yield from self._connection.execute(some.order_by(order)).mappings().all()

    def _insert(self, table: sa.Table, values: dict[str, Any]) -> None:
        self.forget()
        self._connection.execute(_inserting(table), {**self._mine, **values})


@cache
def _inserting(table: sa.Table) -> sa.Insert:
    """Return the insert statement of a table, cached to avoid compiling it again."""
    return table.insert()


def tombstones(connection: sa.Connection) -> list[Tombstone]:
    """Return the tombstones of a store in the order of their hash chain."""
    rows = connection.execute(sa.select(schema.tombstones)).mappings()
    found = {row["previous"]: Tombstone(**row) for row in rows}
    ordered: list[Tombstone] = []
    while (after := ordered[-1].hash if ordered else "") in found:
        ordered.append(found.pop(after))
    # The rest have lost their predecessor, which verification reports.
    return [*ordered, *found.values()]


def _event(row: Any) -> Event:
    plain = _without_campaign(row)
    plain["counts"], plain["payload"] = _values(row["counts"]), _values(row["payload"])
    return Event(**plain)


def _values(text: str) -> dict[str, Any]:
    """Parse JSON; keep damaged text unparsed, so that verification can report it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    # Only the canonical form is valid: even an additional space counts as damage.
    whole = isinstance(found, dict) and canonical(found) == text
    return found if whole else {"damaged": text}


def _others(parts: Any) -> list[Any]:
    """Parse the numbers stored with a value; keep damaged ones, like :func:`_values`."""
    whole = isinstance(parts, bytes) and len(parts) % 8 == 0
    return np.frombuffer(parts, dtype="<f8").tolist() if whole else [parts]


def _without_campaign(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "campaign"}


def _pages(chunks: Sequence[Any], most: int) -> Iterator[list[int]]:
    """Group (chunk, rows) pairs into runs of at most `most` rows, or of a single chunk."""
    page: list[int] = []
    rows = 0
    for chunk, count in chunks:
        if page and (rows + max(count, 1) > most or len(page) == _MOST):
            yield page
            page, rows = [], 0
        page.append(chunk)
        rows += max(count, 1)
    if page:
        yield page
