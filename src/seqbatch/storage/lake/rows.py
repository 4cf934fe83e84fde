"""One campaign of a lake: its records in the ledger, their rows in files, its indexes in memory."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.outcomes import counting
from seqbatch.campaign.record.store import Event, Fold, OutcomeChunk, Tombstone, UnitChunk
from seqbatch.campaign.tables.ahead import over
from seqbatch.campaign.tables.texts import Texts
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import StoreError
from seqbatch.storage.bulk import Bulk
from seqbatch.storage.lake.files import FileRows, Files
from seqbatch.storage.lake.ids import Ids
from seqbatch.storage.lake.outcomes import NewestOutcomes, versions_of
from seqbatch.storage.rows import View


class LakeView(View):
    """One campaign within one transaction of its ledger.

    The indexes are made of the files when they are first asked for, and kept as long as the view:
    they cannot differ from the records, and take no part in what is stored.

    Parameters
    ----------
    connection, campaign, name, bulk
        See :class:`~seqbatch.storage.rows.View`.
    lake
        The lake's folder.
    """

    derived = True
    #: Most records name files, and are short.
    rows_at_once = 8 * View.rows_at_once

    def __init__(
        self, connection: sa.Connection, campaign: int, name: str, bulk: type[Bulk], *, lake: Path
    ) -> None:
        super().__init__(connection, campaign, name, bulk)
        self._lake = lake
        self.files = Files(lake, campaign, name)
        self.buried = False
        self._newest: NewestOutcomes | None = None

    def kept(
        self, rows: pa.Table, *, kind: str, event: int, chunk: int, first: int | None = None
    ) -> bytes:
        """Keep rows in a file; return what a record holds of it."""
        return self.files.write(rows, kind=kind, event=event, chunk=chunk, first=first)

    def unit_chunks(
        self, *, given: bool, chunks: Sequence[int] | None = None
    ) -> Iterator[UnitChunk]:
        """Yield the chunks of units in order, all or those named; `given` empty unless wanted."""
        for chunk in super().unit_chunks(given=given, chunks=chunks):
            yield replace(
                chunk,
                given=FileRows.of(chunk.given, self._lake),
                decided=FileRows.of(chunk.decided, self._lake),
            )

    def outcome_chunks(
        self, *, after_event: int = 0, until_event: int | None = None
    ) -> Iterator[OutcomeChunk]:
        """Yield the chunks of outcome rows in order: those after one event, up to another."""
        for chunk in super().outcome_chunks(after_event=after_event, until_event=until_event):
            yield replace(chunk, rows=FileRows.of(chunk.rows, self._lake))

    @cached_property
    def _ids(self) -> Ids:
        """The units' ids, of every file there is."""
        extents = self.extents()
        ids = Ids(sum(extent.count for extent in extents))
        chunks = self.unit_chunks(given=True) if extents else iter(())
        read = over(lambda chunk: (chunk.first, ids.hashes(_ids_of(chunk))), chunks)
        with closing(read):
            for first, hashes in read:
                ids.add_first(hashes, np.arange(first, first + len(hashes)))
        return ids

    @cached_property
    def _owners(self) -> Ids:
        """The outcomes' ids, of every file there is."""
        ids = Ids()
        for chunk in self.outcome_chunks():
            rows = counting(unpack(chunk.rows))
            if "outcome" in rows.column_names:
                ids.add_first(ids.hashes(rows["outcome"]), rows["number"].to_numpy())
        return ids

    def _outcomes(self, parts: int) -> NewestOutcomes:
        """The newest outcomes, with as many parts as were asked for."""
        if self._newest is None or self._newest.parts < parts:
            self._newest = NewestOutcomes(self._units, parts)
            self._newest.read(self.outcome_chunks())
        return self._newest

    @property
    def _units(self) -> int:
        last = self.extents()[-1:]
        return last[0].first + last[0].count if last else 0

    def numbers(self, units: Texts) -> Integers:
        """Return each unit's number, -1 where it has none."""
        return self._ids.numbers(units)

    def owners(self, ids: Sequence[str]) -> Integers:
        """Return the number of the unit that each outcome id belongs to, -1 where none."""
        return self._owners.numbers(ids)

    def outcomes(self, numbers: Integers, *, parts: int = 0) -> tuple[Integers, Floats]:
        """Return the newest version and cells of each unit's outcome; 0 and NaN where none."""
        versions, cells = self._outcomes(parts).of(numbers)
        return versions, cells[:, : 1 + parts]

    def outcome_versions(
        self, numbers: Integers
    ) -> Iterator[tuple[int, int, tuple[float, ...], int]]:
        """Yield all versions of units' outcomes: number, version, cells, event."""
        return (
            versions_of(self.outcome_chunks(), numbers, self._units) if len(numbers) else iter(())
        )

    def index_sizes(self) -> tuple[int, int, int]:
        """Return how many rows the indexes of numbers, outcomes and outcome ids have."""
        outcomes = sum(counting(unpack(chunk.rows)).num_rows for chunk in self.outcome_chunks())
        return len(self._ids), outcomes, len(self._owners)

    def number_index(self) -> Iterator[tuple[str, int]]:
        """Yield the whole index of unit numbers."""
        for chunk in self.unit_chunks(given=True):
            ids = _ids_of(chunk).to_pylist()
            yield from zip(ids, range(chunk.first, chunk.first + len(ids)), strict=True)

    def outcome_index(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield the whole index of outcomes: number, version, value, event."""
        for number, version, cells, event in self.outcome_versions(np.arange(self._units)):
            yield number, version, cells[0], event

    def owner_index(self) -> Iterator[tuple[str, int]]:
        """Yield the whole index of outcome ids."""
        for chunk in self.outcome_chunks():
            rows = counting(unpack(chunk.rows))
            if "outcome" in rows.column_names:
                yield from zip(rows["outcome"].to_pylist(), rows["number"].to_pylist(), strict=True)

    def claim(self, units: Texts, first: int) -> bool:
        """Number units from `first` on; where one has a number, do nothing and return False."""
        hashes = self._ids.hashes(units)
        return self._ids.add(hashes, np.arange(first, first + len(units)))

    def add_outcomes(self, chunk: OutcomeChunk) -> None:
        """Add a chunk of outcome rows."""
        super().add_outcomes(replace(chunk, rows=bytes(chunk.rows)))

    def index_outcomes(
        self, event: int, numbers: Integers, versions: Integers, cells: Floats
    ) -> None:
        """Add the rows of an event that count to the index, before their chunk or after it."""
        del event
        if self._newest is not None:
            self._newest.add(numbers, versions, cells)

    def add_units(self, chunk: UnitChunk) -> None:
        """Add a chunk of units, whose numbers were claimed."""
        given, decided = bytes(chunk.given), bytes(chunk.decided)
        super().add_units(replace(chunk, given=given, decided=decided))

    def add_owners(self, ids: Sequence[str], numbers: Integers) -> None:
        """Say whose outcome ids are that nobody had."""
        if not self._owners.add(self._owners.hashes(ids), numbers):
            raise StoreError(f"campaign {self.name}: an outcome id belongs to two units.")

    def add_event(self, event: Event, fold: Fold) -> None:
        """Put the files on disk, and then add the event that knows them."""
        self.files.publish()
        super().add_event(event, fold)

    def bury(self, tombstone: Tombstone) -> None:
        """Delete the campaign, but for its tombstone; a change's last call."""
        super().bury(tombstone)
        self.buried = True

    def sweep(self) -> None:
        """Remove the files of events that never came about."""
        last = self.last_event()
        self.files.sweep(after_event=0 if last is None else last.sequence)

    def take_back(self, *, files_after: int) -> None:
        """Remove what was written and is not to be kept; what else is known is read again."""
        self.files.drop(after=files_after)
        self._newest = None
        for name in ("_ids", "_owners"):
            vars(self).pop(name, None)


def _ids_of(chunk: UnitChunk) -> pa.ChunkedArray:
    """Return the ids of a chunk of units."""
    given = chunk.given
    return given.ids() if isinstance(given, FileRows) else unpack(given).column(0)
