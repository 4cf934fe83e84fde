"""The lake's store: files in a folder, the ledger in SQLite among them or in PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import sqlalchemy as sa

from seqbatch.errors import InvalidArgumentError, StoreError
from seqbatch.storage.lake.files import Files
from seqbatch.storage.lake.rows import LakeView
from seqbatch.storage.rows import View, tombstones
from seqbatch.storage.stores import PostgresStore, SQLiteStore, SQLStore

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
