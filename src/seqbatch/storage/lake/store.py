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
from seqbatch.campaign.record.logged_rows import logged_in
from seqbatch.campaign.record.outcomes import counting
from seqbatch.campaign.record.store import (
    Event,
    Fold,
    KnownRows,
    LoggedRows,
    OutcomeChunk,
    Tombstone,
    UnitChunk,
)
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.errors import CampaignStateError, InvalidArgumentError, StoreError
from seqbatch.output_files import atomically
from seqbatch.storage import schema
from seqbatch.storage.bulk import Bulk
from seqbatch.storage.lake import PREFIX
from seqbatch.storage.lake.files import FileRows, Files
from seqbatch.storage.lake.index import Ids, NewestOutcomes, NewestRows, versions_of
from seqbatch.storage.rows import View, tombstones
from seqbatch.storage.stores import PostgresStore, SQLiteStore, SQLStore

# ----------------------------------------------------------------------
# View of one campaign in a lake


class LakeView(View):
    """One campaign within one transaction of its ledger.

    Records are in the ledger, rows in files, and indexes in memory. An index is built from the
    files when it is first needed and lives as long as the view. Indexes are not stored, and cannot
    differ from the records.

    Parameters
    ----------
    connection, campaign, name, bulk
        See :class:`~seqbatch.storage.rows.View`.
    lake
        The lake's folder.
    """

    derived = True
    #: Most records are short, because they only name a file.
    rows_at_once = 8 * View.rows_at_once

    def __init__(
        self, connection: sa.Connection, campaign: int, name: str, bulk: type[Bulk], *, lake: Path
    ) -> None:
        super().__init__(connection, campaign, name, bulk)
        self._lake = lake
        self.files = Files(lake, campaign, name)
        self.buried = False
        self._newest: NewestOutcomes | None = None
        self._rows: NewestRows | None = None

    def kept(
        self, rows: pa.Table, *, kind: str, event: int, chunk: int, first: int | None = None
    ) -> bytes:
        """Write rows to a file; return the reference to store in the record."""
        return self.files.write(rows, kind=kind, event=event, chunk=chunk, first=first)

    def unit_chunks(
        self, *, given: bool, chunks: Sequence[int] | None = None
    ) -> Iterator[UnitChunk]:
        """Yield all or the named chunks of units, in order; `given` is empty unless requested."""
        for chunk in super().unit_chunks(given=given, chunks=chunks):
            yield replace(
                chunk,
                given=FileRows.of(chunk.given, self._lake),
                decided=FileRows.of(chunk.decided, self._lake),
            )

    def outcome_chunks(
        self, *, after_event: int = 0, until_event: int | None = None
    ) -> Iterator[OutcomeChunk]:
        """Yield the chunks of outcome rows in order, after one event and up to another."""
        for chunk in super().outcome_chunks(after_event=after_event, until_event=until_event):
            yield replace(chunk, rows=FileRows.of(chunk.rows, self._lake))

    @cached_property
    def _ids(self) -> Ids:
        """The index of unit ids, from all files."""
        extents = self.extents()
        ids = Ids(sum(extent.count for extent in extents))
        chunks = self.unit_chunks(given=True) if extents else iter(())
        read = over(lambda chunk: (chunk.first, ids.hashes(_ids_of(chunk))), chunks)
        with closing(read):
            for first, hashes in read:
                ids.add_first(hashes, np.arange(first, first + len(hashes)))
        return ids

    def _logged(self, parts: int) -> NewestRows:
        """Return the index of logged rows, from all files."""
        if self._rows is None or self._rows.parts < parts:
            self._rows = NewestRows(parts)
            self._rows.read(self.outcome_chunks())
        return self._rows

    def _outcomes(self, parts: int) -> NewestOutcomes:
        """Return the newest outcomes with the given number of parts."""
        if self._newest is None or self._newest.parts < parts:
            self._newest = NewestOutcomes(self._units, parts)
            self._newest.read(self.outcome_chunks())
        return self._newest

    @property
    def _units(self) -> int:
        last = self.extents()[-1:]
        return last[0].first + last[0].count if last else 0

    def numbers(self, units: Texts) -> Integers:
        """Return each unit's number; -1 for unknown units."""
        return self._ids.numbers(units)

    def known_rows(self, keys: Texts, *, parts: int) -> KnownRows:
        """Return the newest version of each logged row."""
        return self._logged(parts).of(keys)

    def outcomes(self, numbers: Integers, *, parts: int = 0) -> tuple[Integers, Floats, Bools]:
        """Return the newest version and cells of each unit's outcome, and whether it was absent."""
        versions, cells, absent = self._outcomes(parts).of(numbers)
        return versions, cells[:, : 1 + parts], absent

    def outcome_versions(
        self, numbers: Integers
    ) -> Iterator[tuple[int, int, tuple[float, ...], int]]:
        """Yield all versions of units' outcomes: number, version, cells, event."""
        return (
            versions_of(self.outcome_chunks(), numbers, self._units) if len(numbers) else iter(())
        )

    def index_sizes(self) -> tuple[int, int, int]:
        """Return how many rows the indexes of numbers, outcomes and logged rows have."""
        outcomes = sum(counting(unpack(chunk.rows)).num_rows for chunk in self.outcome_chunks())
        return len(self._ids), outcomes, sum(1 for _ in self.row_index())

    def number_index(self) -> Iterator[tuple[str, int]]:
        """Yield the whole index of unit numbers."""
        for chunk in self.unit_chunks(given=True):
            ids = _ids_of(chunk).to_pylist()
            yield from zip(ids, range(chunk.first, chunk.first + len(ids)), strict=True)

    def outcome_index(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield the whole index of outcomes: number, version, value, event."""
        for number, version, cells, event in self.outcome_versions(np.arange(self._units)):
            yield number, version, cells[0], event

    def row_index(self) -> Iterator[tuple[str, int, int]]:
        """Yield the whole index of logged rows: key, version, event."""
        for chunk in self.outcome_chunks():
            rows = logged_in(chunk, 0)
            for key, version in zip(rows.keys.to_pylist(), rows.versions.tolist(), strict=True):
                yield key, version, chunk.event

    def claim(self, units: Texts, first: int) -> bool:
        """Number units from `first` on; if any already has one, do nothing and return False."""
        hashes = self._ids.hashes(units)
        return self._ids.add(hashes, np.arange(first, first + len(units)))

    def add_outcomes(self, chunk: OutcomeChunk) -> None:
        """Add a chunk of outcome rows."""
        super().add_outcomes(replace(chunk, rows=bytes(chunk.rows)))

    def index_outcomes(
        self, event: int, numbers: Integers, versions: Integers, cells: Floats
    ) -> None:
        """Index the rows of an event that count, before or after adding their chunk."""
        del event
        if self._newest is not None:
            self._newest.add(numbers, versions, cells)

    def add_units(self, chunk: UnitChunk) -> None:
        """Add a chunk of units; call `claim` first."""
        given, decided = bytes(chunk.given), bytes(chunk.decided)
        super().add_units(replace(chunk, given=given, decided=decided))

    def index_rows(self, event: int, rows: LoggedRows) -> None:
        """Index the logged rows of an event, before or after adding their chunk."""
        if self._rows is not None:
            self._rows.add(event, rows)

    def add_event(self, event: Event, fold: Fold) -> None:
        """Publish the files, then add the event that refers to them."""
        self.files.publish()
        super().add_event(event, fold)

    def bury(self, tombstone: Tombstone) -> None:
        """Delete the campaign and add its tombstone; must be the last call of a change."""
        super().bury(tombstone)
        self.buried = True

    def sweep(self) -> None:
        """Remove files whose events were never committed, and files that erasures replaced."""
        last = self.last_event()
        self.files.sweep(after_event=0 if last is None else last.sequence)
        erased = sa.select(schema.erasures.c.event).where(schema.erasures.c.campaign == self.number)
        if self.connection.execute(erased.limit(1)).first() is not None:
            self.files.sweep_others(self._listed())

    def _listed(self) -> set[str]:
        """Return the names of all files in the record."""
        chunks = [
            *((each.given, each.decided) for each in self.unit_chunks(given=True)),
            *((each.rows,) for each in self.outcome_chunks()),
        ]
        return {rows.name for own in chunks for rows in own if isinstance(rows, FileRows)}

    def take_back(self, *, files_after: int) -> None:
        """Remove files of a failed part and clear cached values, which are then read again."""
        self.files.drop(after=files_after)
        self._newest = self._rows = None
        vars(self).pop("_ids", None)


def _ids_of(chunk: UnitChunk) -> pa.ChunkedArray:
    """Return the ids of a chunk of units."""
    given = chunk.given
    return given.ids() if isinstance(given, FileRows) else unpack(given).column(0)


# ----------------------------------------------------------------------
# Lake stores


#: Between a lake's folder and the address of its ledger, if that is elsewhere.
ELSEWHERE = "?ledger="
#: File name of the SQLite ledger; or of the note with another ledger's address, without secrets.
LEDGER, ADDRESS = "ledger.db", "ledger.txt"


def open_lake(text: str, *, create: bool, wait_for_server: bool = False) -> "LakeStore":
    """Open the lake at ``lake:folder`` or ``lake:folder?ledger=postgresql://...``."""
    name, asked, ledger = text.removeprefix(PREFIX).partition(ELSEWHERE)
    known = not asked or ledger.startswith(("postgresql://", "postgres://"))
    # `lake://folder` would mean a folder in the root directory, which is hardly ever intended. Any
    # other text after a question mark is a misspelt ledger.
    if not name or name.startswith("//") or "?" in name or not known:
        rule = "lake:folder, or lake:folder?ledger=postgresql://user@host/database"
        # The text about the ledger may contain a password.
        shown, mark, _ = text.partition("?")
        raise InvalidArgumentError("store", rule, f"{shown}{mark and '?...'}")
    folder = Path(name)
    _require_ledger(folder)
    if not (there := _ledgers(folder)):
        _make(folder, create=create)
        there = _ledgers(folder)
    if there and there != [ADDRESS if ledger else LEDGER]:
        where = (folder / ADDRESS).read_text().strip() if ADDRESS in there else folder / LEDGER
        raise StoreError(
            f"{PREFIX}{folder}: this lake's ledger is {where}. Nothing was touched. Name the "
            "lake together with that ledger.",
            code="other-ledger",
        )
    if ledger:
        return PostgresLake(folder, ledger, wait_for_server=wait_for_server)
    return SQLiteLake(folder)


def _ledgers(folder: Path) -> list[str]:
    return [each for each in (LEDGER, ADDRESS) if (folder / each).exists()]


def _require_ledger(folder: Path) -> None:
    """Refuse files without a ledger: a new ledger would treat them as leftovers of a crash.

    SQLite creates an empty file when the ledger of a running service is removed.
    """
    ledger = folder / LEDGER
    lost = not (folder / ADDRESS).exists() and not (ledger.exists() and ledger.stat().st_size)
    if lost and any(folder.glob("*/units/event-*.parquet")):
        raise StoreError(
            f"{PREFIX}{folder} has files of campaigns but no ledger: {LEDGER} is missing or "
            f"empty, and there is no {ADDRESS}. Nothing was touched. Restore the ledger from a "
            "copy of the lake.",
            code="ledger-lost",
        )


def _make(folder: Path, *, create: bool) -> None:
    """Create the folder of a new lake, or refuse a folder that is not a lake."""
    # If a ledger has appeared by now, another process is creating the same lake.
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    empty = all(name.startswith((LEDGER, ADDRESS)) for name in names)
    if folder.exists() and not (folder.is_dir() and empty):
        raise StoreError(
            f"{PREFIX}{folder} is neither a lake nor an empty folder. Nothing was touched. Name "
            "another folder.",
            code="not-a-lake",
        )
    if not create:
        raise StoreError(
            f"{PREFIX}{folder}: this lake does not exist. Create a campaign to make it, or name "
            "another lake.",
            code="no-such-store",
        )
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{PREFIX}{folder} cannot be created: {error.strerror}.") from None


class LakeStore(SQLStore):
    """Campaigns whose rows are Parquet files; see :mod:`seqbatch.storage.lake.files`."""

    #: Defaults for spec fields that are not set: sums with the same results on every engine.
    defaults = MappingProxyType({"sums": "exact"})
    folder: Path

    @contextmanager
    def create(self, name: str) -> Iterator[View]:
        """Begin a new campaign; raise CampaignStateError if the name is taken."""
        with super().create(name) as view:
            # If the process died while deleting a campaign, files may be left.
            for gone in tombstones(view.connection):
                Files(self.folder, gone.campaign, gone.name).remove()
            Files(self.folder, view.number, name).require_none()
            with self._files(view):
                yield view

    @contextmanager
    def change(self, name: str) -> Iterator[View]:
        """Begin an exclusive transaction on a campaign; an unknown name: CampaignStateError."""
        with super().change(name) as view:
            assert isinstance(view, LakeView)
            # The campaign is locked, so no running process is writing the files without an event.
            view.sweep()
            with self._files(view):
                yield view
        if view.buried:
            view.files.remove()

    @contextmanager
    def part(self, view: View) -> Iterator[None]:
        """Run a part of a transaction; on any error, the whole part is rolled back."""
        with super().part(view), self._files(view):
            yield

    @contextmanager
    def _files(self, view: View) -> Iterator[None]:
        """Remove the files if the block fails; files of a failed commit are swept later."""
        assert isinstance(view, LakeView)
        before = view.files.published
        try:
            yield
        except BaseException:
            view.take_back(files_after=before)
            raise

    def scrub(self, name: str) -> None:
        """Remove the files that erasures replaced, and the bytes that they left in the ledger."""
        with self.change(name):
            pass
        super().scrub(name)

    def copy(self, name: str, out: Path) -> None:
        """Refuse: the rows are in the lake's files."""
        raise CampaignStateError(
            f"campaign {name} cannot be written to {out}: its rows are in the files of a lake, not "
            "in the store.",
            code="rows-in-a-lake",
        )

    def _refuse_other_kind(self, connection: sa.Connection) -> None:
        """Accept every ledger: a lake reads rows both from files and from its ledger."""

    def _view(self, connection: sa.Connection, campaign: int, name: str) -> View:
        return LakeView(connection, campaign, name, self.bulk, lake=self.folder)


class SQLiteLake(LakeStore, SQLiteStore):
    """A lake whose ledger is an SQLite file in the lake's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(folder / LEDGER)
        self.label = f"{PREFIX}{folder}"
        self.files = (folder, *self.files)


class PostgresLake(LakeStore, PostgresStore):
    """A lake whose ledger is a PostgreSQL database."""

    def __init__(self, folder: Path, url: str, *, wait_for_server: bool = False) -> None:
        self.folder = folder
        super().__init__(url, wait_for_server=wait_for_server)
        self._require_own()
        self.label = f"{PREFIX}{folder}{ELSEWHERE}{self.label}"
        self.files = (folder,)

    def _require_own(self) -> None:
        """Refuse another lake's ledger: it would treat this lake's files as crash leftovers."""
        address = self.folder / ADDRESS
        if not address.exists():
            with atomically(address) as partial:
                partial.write_text(f"{self.label}\n", encoding="utf-8")
        if (known := address.read_text(encoding="utf-8").strip()) != self.label:
            self.close()
            raise StoreError(
                f"{PREFIX}{self.folder}: its ledger is {known}, not {self.label}. Nothing was "
                "touched. Name that ledger; or, if it has moved, write its new address into "
                f"{address}.",
                code="other-ledger",
            )
