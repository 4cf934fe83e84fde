"""A lake: rows in Parquet files, their ledger in SQLite or PostgreSQL."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from seqbatch.campaign.files.column_values import Texts
from seqbatch.campaign.files.parallel_pieces import over
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.outcomes import counting
from seqbatch.campaign.record.store import Event, Fold, OutcomeChunk, Tombstone, UnitChunk
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import InvalidArgumentError, StoreError
from seqbatch.storage.bulk import Bulk
from seqbatch.storage.lake.files import FileRows, Files
from seqbatch.storage.lake.index import Ids, NewestOutcomes, versions_of
from seqbatch.storage.rows import View, tombstones
from seqbatch.storage.stores import PostgresStore, SQLiteStore, SQLStore

# ----------------------------------------------------------------------
# One campaign of a lake: its records in the ledger, their rows in files, its indexes in memory.


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


# ----------------------------------------------------------------------
# The lake's store: files in a folder, the ledger in SQLite among them or in PostgreSQL.


PREFIX, ELSEWHERE = "lake:", "?ledger="
#: The ledger among the files; or the address of the one that is not, without any secret.
LEDGER, ADDRESS = "ledger.db", "ledger.txt"


def open_lake(text: str, *, create: bool) -> "LakeStore":
    """Open the lake of an address, ``lake:folder`` or ``lake:folder?ledger=postgresql://...``."""
    name, asked, ledger = text.removeprefix(PREFIX).partition(ELSEWHERE)
    known = not asked or ledger.startswith(("postgresql://", "postgres://"))
    # `lake://folder` would be a folder of the root, which nobody means who writes it; what follows
    # another question mark is a ledger that was misspelt.
    if not name or name.startswith("//") or "?" in name or not known:
        rule = "lake:folder, or lake:folder?ledger=postgresql://user@host/database"
        # What is said of the ledger may hold a password.
        shown, mark, _ = text.partition("?")
        raise InvalidArgumentError("store", rule, f"{shown}{mark and '?...'}")
    folder = Path(name)
    _require_ledger(folder)
    if not (there := _ledgers(folder)):
        _make(folder, create=create)
        there = _ledgers(folder)
    if there and there != [ADDRESS if ledger else LEDGER]:
        where = (folder / ADDRESS).read_text().strip() if ADDRESS in there else folder / LEDGER
        raise StoreError(f"{PREFIX}{folder}: its ledger is {where}. Nothing was touched. Name it.")
    return PostgresLake(folder, ledger) if ledger else SQLiteLake(folder)


def _ledgers(folder: Path) -> list[str]:
    return [each for each in (LEDGER, ADDRESS) if (folder / each).exists()]


def _require_ledger(folder: Path) -> None:
    """Refuse files without a ledger: a new one would take them for what a crash left.

    SQLite makes an empty file where a service loses the ledger that it has open.
    """
    ledger = folder / LEDGER
    lost = not (folder / ADDRESS).exists() and not (ledger.exists() and ledger.stat().st_size)
    if lost and any(folder.glob("*/units/event-*.parquet")):
        raise StoreError(
            f"{PREFIX}{folder}: has files of campaigns, and its ledger is lost: {LEDGER} is "
            f"missing or empty, and there is no {ADDRESS}. Nothing was touched. Restore it from a "
            "copy of the lake."
        )


def _make(folder: Path, *, create: bool) -> None:
    """Make the folder of a new lake, or refuse one that is something else."""
    # A ledger that is there by now is that of somebody who makes the same lake.
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    empty = all(name.startswith((LEDGER, ADDRESS)) for name in names)
    if folder.exists() and not (folder.is_dir() and empty):
        raise StoreError(
            f"{PREFIX}{folder}: is not a lake, and not an empty folder. Nothing was touched. Name "
            "another."
        )
    if not create:
        raise StoreError(
            f"{PREFIX}{folder}: there is no such lake. Creating a campaign makes one; or name "
            "another."
        )
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{PREFIX}{folder}: cannot be made: {error.strerror}.") from None


class LakeStore(SQLStore):
    """Campaigns whose rows are Parquet files; see :mod:`seqbatch.storage.lake.files`."""

    #: What a spec that says nothing else means here: what is the same on every engine.
    defaults = MappingProxyType({"draws": "md5", "sums": "exact"})
    folder: Path

    @contextmanager
    def create(self, name: str) -> Iterator[View]:
        """Begin a campaign; a name that is taken raises CampaignStateError."""
        with super().create(name) as view:
            # A campaign that was deleted may have left files where the process died then.
            for gone in tombstones(view.connection):
                Files(self.folder, gone.campaign, gone.name).remove()
            Files(self.folder, view.number, name).require_none()
            with self._files(view):
                yield view

    @contextmanager
    def change(self, name: str) -> Iterator[View]:
        """Begin a transaction on a campaign, alone; an unknown name raises CampaignStateError."""
        with super().change(name) as view:
            assert isinstance(view, LakeView)
            # The campaign is locked: files that no event knows belong to nobody who still writes.
            view.sweep()
            with self._files(view):
                yield view
        if view.buried:
            view.files.remove()

    @contextmanager
    def part(self, view: View) -> Iterator[None]:
        """Run a part of a transaction; whatever goes wrong in it, nothing of the part stays."""
        with super().part(view), self._files(view):
            yield

    @contextmanager
    def _files(self, view: View) -> Iterator[None]:
        """Remove the files of what fails; what a failing commit leaves is swept later."""
        assert isinstance(view, LakeView)
        before = view.files.published
        try:
            yield
        except BaseException:
            view.take_back(files_after=before)
            raise

    def _refuse_other_kind(self, connection: sa.Connection) -> None:
        """Refuse nothing: a lake reads rows in files and in its ledger."""

    def _view(self, connection: sa.Connection, campaign: int, name: str) -> View:
        return LakeView(connection, campaign, name, self.bulk, lake=self.folder)


class SQLiteLake(LakeStore, SQLiteStore):
    """A lake whose ledger is an SQLite file among its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(folder / LEDGER)
        self.label = f"{PREFIX}{folder}"
        self.files = (folder, *self.files)


class PostgresLake(LakeStore, PostgresStore):
    """A lake whose ledger is a PostgreSQL database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        super().__init__(url)
        self._require_own()
        self.label = f"{PREFIX}{folder}{ELSEWHERE}{self.label}"
        self.files = (folder,)

    def _require_own(self) -> None:
        """Refuse the ledger of another lake: it would take this one's files for a crash's."""
        address = self.folder / ADDRESS
        if not address.exists():
            address.write_text(f"{self.label}\n", encoding="utf-8")
        if (known := address.read_text(encoding="utf-8").strip()) != self.label:
            self.close()
            raise StoreError(
                f"{PREFIX}{self.folder}: its ledger is {known}, not {self.label}. Nothing was "
                f"touched. Name that one, or say in {address} that it moved."
            )
