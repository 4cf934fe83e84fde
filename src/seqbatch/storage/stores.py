"""SQL stores: SQLite in a file, PostgreSQL on a server."""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import sqlalchemy as sa

from seqbatch.campaign.record.events import software
from seqbatch.campaign.record.store import Tombstone
from seqbatch.errors import (
    DAMAGED,
    CampaignStateError,
    InvalidArgumentError,
    StoreError,
    UncertainCommitError,
    UnknownCampaignError,
)
from seqbatch.storage import schema
from seqbatch.storage.bulk import Bulk, PostgresBulk, SQLiteBulk
from seqbatch.storage.rows import View, tombstones
from seqbatch.storage.schema_differences import MIGRATIONS, schema_differences
from seqbatch.timed_steps import timed

# ----------------------------------------------------------------------
# Advice when a store's file or folder cannot be used


def require_place(path: Path) -> None:
    """Refuse to create a store in a folder that is missing or not writable."""
    folder = path.absolute().parent
    if path.exists():
        return
    if not folder.is_dir():
        raise StoreError(
            f"{path} cannot be created: there is no folder {folder}. Create that folder first.",
            code="no-folder",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(
            f"{path} cannot be created: you do not have write permission for {folder}. Nothing "
            "was touched. Name another place, or ask the folder's owner for permission.",
            code="not-writable",
        )


def remedy(path: Path, reason: str) -> str | None:
    """Return advice for an SQLite error about a file; None if the call can be retried."""
    folder = path.absolute().parent
    if "readonly database" in reason:
        return (
            f"Nothing was changed. You can read {path} but not write it: ask its owner for "
            f"write permission for that file and its folder {folder}."
        )
    if "unable to open" in reason:
        return (
            f"Nothing was changed. You need read and write permission for {path} and its folder "
            f"{folder}: ask their owner, or name another store."
        )
    if "not a database" in reason or "malformed" in reason:
        return (
            f"Nothing was changed. {path} is not a store, or it is damaged: name another store, "
            "or restore this one from a copy."
        )
    return None


# ----------------------------------------------------------------------
# Schema versions and migrations


VERSIONS = MIGRATIONS / "versions"
#: Every schema that this version knows, oldest first.
KNOWN = tuple(sorted(path.stem.removeprefix("schema_") for path in VERSIONS.glob("schema_*.py")))


def revision(connection: sa.Connection) -> str | None:
    """Return the schema revision of a database; None if it has no seqbatch tables."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalars().all()
    return found[0] if found else None


def made_by(connection: sa.Connection) -> str:
    """Return the version of seqbatch that migrated a database last; "" if it is not recorded."""
    if not sa.inspect(connection).has_table(schema.migrations.name):
        return ""
    newest = sa.select(schema.migrations.c.version).order_by(schema.migrations.c.schema.desc())
    return connection.execute(newest.limit(1)).scalar() or ""


def refuse_unknown(found: str | None, label: str, by: str) -> None:
    """Refuse a schema that this version of seqbatch does not know."""
    if found is None or found in KNOWN:
        return
    made = "a version before the first release" if found < KNOWN[0] else "a later version"
    advice = (
        "Make a new store, or use the version that made this one."
        if found < KNOWN[0]
        else "Use that version of seqbatch, or a later one."
    )
    raise StoreError(
        f"{label}: this store was made by {made} of seqbatch. It has schema {found}; this "
        f"version reads {', '.join(KNOWN)}. Nothing was changed. {advice}"
        + (f" Version {by} migrated it last." if by else ""),
        code="other-schema",
    )


def upgrade(connection: sa.Connection, *, at: str | None = None) -> None:
    """Run the missing migrations within the connection's transaction; `at` is the time, or now."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    now = at or datetime.now(UTC).isoformat(timespec="seconds")
    row = {"schema": KNOWN[-1], "version": software(), "at": now}
    connection.execute(schema.migrations.insert().values(**row))


# ----------------------------------------------------------------------
# Detection of a lake's ledger: only its lake can continue the campaigns in it


#: Prefix of a record that names a file instead of holding rows.
FILE = b'{"file":'


def refuse_ledger(connection: sa.Connection, label: str) -> None:
    """Refuse a lake's ledger: a store that cannot read the files would assign units twice."""
    tables = {table.name for table in (schema.campaigns, schema.unit_chunks, schema.outcome_chunks)}
    if not tables <= set(sa.inspect(connection).get_table_names()):
        # Reading the store reports any damage.
        return
    found = connection.execute(_IN_FILES).scalar()
    if found is not None:
        raise StoreError(
            f"{label} is the ledger of a lake; the rows of campaign {found} are in the lake's "
            "files. Nothing was touched. Name the lake: lake:folder, or "
            "lake:folder?ledger=postgresql://user@host/database.",
            code="ledger-of-a-lake",
        )


def _newest_in_file(table: sa.Table, content: str) -> sa.ColumnElement[bool]:
    """Return whether the newest chunk of a campaign is in a file.

    Checking the newest is enough: once a lake has written a chunk, no other store adds one.
    """
    start = sa.func.substr(table.c[content], 1, len(FILE), type_=sa.LargeBinary)
    mine = sa.select(start).where(table.c.campaign == schema.campaigns.c.id)
    newest = mine.order_by(table.c.chunk.desc()).limit(1).correlate(schema.campaigns)
    return newest.scalar_subquery() == FILE


_IN_FILES = (
    sa.select(schema.campaigns.c.name)
    .where(
        _newest_in_file(schema.unit_chunks, "given")
        | _newest_in_file(schema.outcome_chunks, "rows")
    )
    .limit(1)
)


# ----------------------------------------------------------------------
# SQL stores


#: Seconds that a change waits for another change to end, and for a server to accept a connection.
PATIENCE, REACHING = 60, 10
#: The codes of stores that may work again later: unreachable, failed, or locked by another change.
UNREACHABLE, FAILED, BUSY = "store-unreachable", "store-failed", "store-busy"
#: SQLite's cache size in KiB, for writing and for reading. Writes to the indexes of millions of
#: units are scattered over the file; reads go through the chunks in order and rarely return.
WRITING, READING = 131_072, 16_384

_NUMBER = sa.select(schema.campaigns.c.id).where(schema.campaigns.c.name == sa.bindparam("name"))
_LOCKED = _NUMBER.with_for_update()


class SQLStore:
    """Campaigns in SQL tables; see :class:`~seqbatch.campaign.record.store.Store`."""

    bulk: type[Bulk]
    #: The files of the store; empty if a server stores it.
    files: tuple[Path, ...] = ()
    _file: Path | None = None
    #: The time at which the tables were made; None for the time at which they are.
    _made_at: str | None = None
    #: This store's defaults for spec fields that are not set; here there are none.
    defaults: MappingProxyType[str, str] = MappingProxyType({})

    def __init__(
        self,
        engine: sa.Engine,
        label: str,
        *,
        secrets: Sequence[str] = (),
        wait_for_server: bool = False,
    ) -> None:
        self.label = label
        self._engine = engine
        self._secrets = [secret for secret in secrets if secret]
        self._ready, self._preparing = False, threading.Lock()
        try:
            self._prepare()
        except StoreError as error:
            # The first call that reaches the server prepares the store.
            if not (wait_for_server and error.code == UNREACHABLE):
                raise

    def names(self) -> list[str]:
        """Return the names of all campaigns in order of creation."""
        with self._transaction(write=False) as connection:
            query = sa.select(schema.campaigns.c.name).order_by(schema.campaigns.c.id)
            return list(connection.execute(query).scalars())

    def tombstones(self) -> list[Tombstone]:
        """Return the tombstones of deleted campaigns in order of deletion."""
        with self._transaction(write=False) as connection:
            return tombstones(connection)

    def schema_differences(self) -> list[tuple[str, str]]:
        """Return each part of the schema that differs from the expected one, and how."""
        with self._transaction(write=False) as connection:
            return list(schema_differences(connection, KNOWN))

    @contextmanager
    def create(self, name: str) -> Iterator[View]:
        """Begin a new campaign; raise CampaignStateError if the name is taken."""
        with self._transaction(write=True) as connection:
            self._lock_names(connection)
            if self._number(connection, name) is not None:
                raise CampaignStateError(
                    f"campaign {name} already exists in {self.label}. Choose another name.",
                    code="name-taken",
                    field="name",
                )
            table = schema.campaigns
            number = _next_number(connection)
            connection.execute(table.insert().values(id=number, name=name))
            yield self._view(connection, number, name)

    @contextmanager
    def change(self, name: str) -> Iterator[View]:
        """Begin an exclusive transaction on a campaign; an unknown name: CampaignStateError."""
        with self._transaction(write=True) as connection:
            with timed("wait for the campaign"):
                campaign = self._locked(connection, name)
            if campaign is None:
                self._refuse_unknown(connection, name)
            yield self._view(connection, campaign, name)

    @contextmanager
    def read(self, name: str) -> Iterator[View]:
        """Open a view of a campaign."""
        with self._transaction(write=False) as connection:
            yield self._view(connection, self._known(connection, name), name)

    def copy(self, name: str, out: Path) -> None:
        """Write a campaign alone to a new SQLite file; the same records give the same bytes."""
        with self._transaction(write=False) as source:
            number = self._known(source, name)
            newest = sa.select(sa.func.max(schema.events.c.at)).where(
                schema.events.c.campaign == number
            )
            made = SQLiteStore(out, made_at=source.execute(newest).scalar())
            try:
                with made.transaction(write=True) as target:
                    _copy(source, target, number, name)
            finally:
                made.close()
        with closing(sqlite3.connect(out)) as file:
            # One file without a journal beside it, and without traces of how it was written.
            file.execute("PRAGMA journal_mode = DELETE")
            file.execute("VACUUM")

    def scrub(self, name: str) -> None:
        """Remove the bytes that an erasure left in the store's files."""
        del name
        try:
            with timed("compact the store"):
                self._compact()
        except self._failures() as error:
            reason = self._hidden(str(getattr(error, "orig", None) or error).partition("\n")[0])
            raise StoreError(
                f"{self.label}: the units are erased, but free space of the database may still "
                f"hold their bytes: {reason}. Make the same call again.",
                code="not-compacted",
            ) from error

    def _compact(self) -> None:
        """Write the tables of campaigns and answers anew, without what was deleted."""
        raise NotImplementedError

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        """Run a transaction on tables that do not belong to a campaign."""
        with self._transaction(write=write) as connection:
            yield connection

    def close(self) -> None:
        """Close the connections to the database."""
        self._engine.dispose()

    def _view(self, connection: sa.Connection, campaign: int, name: str) -> View:
        """Return a view of one campaign within a transaction."""
        return View(connection, campaign, name, self.bulk)

    def _prepare(self) -> None:
        """Migrate the schema to this version, or refuse it."""
        try:
            with self._connected(write=False) as connection:
                found = revision(connection)
                if found == KNOWN[-1]:
                    self._refuse_other_kind(connection)
                by = made_by(connection)
            refuse_unknown(found, self.label, by)
            if found != KNOWN[-1]:
                with self._connected(write=True) as connection:
                    self._lock_names(connection)
                    # Another process may have created the tables while this one waited.
                    found = revision(connection)
                    if found is None:
                        self._refuse_foreign(connection)
                    if found != KNOWN[-1]:
                        upgrade(connection, at=self._made_at)
            self._ready = True
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        """Run a transaction; on any error, it is rolled back."""
        if not self._ready:
            with self._preparing:
                if not self._ready:
                    self._prepare()
        with self._connected(write=write) as connection:
            yield connection

    @contextmanager
    def _connected(self, *, write: bool) -> Iterator[sa.Connection]:
        """Do the same as `_transaction`, also in a store whose tables are not prepared yet."""
        step = "connect"
        try:
            connected = self._engine.connect().execution_options(write=write)
            with connected as connection:
                with timed("wait for the store"):
                    begun = connection.begin()
                with begun:
                    step = "run"
                    yield connection
                    step = "commit" if write else "end"
                    if write:
                        with timed("commit"):
                            begun.commit()
        except self._failures() as error:
            raise self.failed(error, step=step) from error

    @contextmanager
    def part(self, view: View) -> Iterator[None]:
        """Run a part of a transaction; on any error, the whole part is rolled back."""
        try:
            with view.connection.begin_nested():
                yield
        except self._failures() as error:
            raise self.failed(error) from error

    def failed(self, error: Exception, *, step: str = "run") -> StoreError:
        """Return the error for a database failure, without secrets in its text.

        Parameters
        ----------
        error
            The database's error.
        step
            The step that failed: connect, run, commit or end.
        """
        raw = getattr(error, "orig", None) or error
        reason = str(raw).strip().partition("\n")[0]
        failed = f"{self.label}: database error: {self._hidden(reason)}."
        if step == "commit" and not self._undone(raw):
            return UncertainCommitError(
                f"{failed} It is not known whether the change was saved: the database did not "
                "confirm it. You can make the same call again; a saved change is not made twice."
            )
        again = "Nothing was changed; you can make the same call again."
        if self._is_busy(raw):
            return StoreError(
                f"{self.label}: the store is busy: another change did not end in time "
                f"({self._hidden(reason)}). {again}",
                code=BUSY,
            )
        known = (remedy(self._file, reason) if self._file else None) or again
        code = DAMAGED if "malformed" in reason else self._code(step)
        return StoreError(f"{failed} {known}", code=code)

    def _hidden(self, text: str) -> str:
        """Return a message with the store's secrets hidden."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _number(self, connection: sa.Connection, name: str) -> int | None:
        return connection.execute(_NUMBER, {"name": name}).scalar_one_or_none()

    def _known(self, connection: sa.Connection, name: str) -> int:
        found = self._number(connection, name)
        if found is None:
            self._refuse_unknown(connection, name)
        return found

    def _refuse_unknown(self, connection: sa.Connection, name: str) -> NoReturn:
        names = list(connection.execute(sa.select(schema.campaigns.c.name)).scalars())
        there = ", ".join(map(str, names[:10])) or "none"
        raise UnknownCampaignError(
            f"{self.label} has no campaign {name!r}. Its campaigns: {there}."
        )

    def _locked(self, connection: sa.Connection, name: str) -> int | None:
        """Lock a campaign against other changes; return its number, None if it is unknown."""
        return self._number(connection, name)

    def _lock_names(self, connection: sa.Connection) -> None:
        """Block concurrent creations and migrations."""

    def _refuse_foreign(self, connection: sa.Connection) -> None:
        """Refuse a database that holds other data."""

    def _refuse_other_kind(self, connection: sa.Connection) -> None:
        """Refuse a database that belongs to another kind of store."""
        refuse_ledger(connection, self.label)

    def _failures(self) -> tuple[type[Exception], ...]:
        """Return the exceptions that this kind of database raises."""
        return (sa.exc.SQLAlchemyError,)

    def _undone(self, error: BaseException) -> bool:
        """Return whether a failed commit is certain to have changed nothing."""
        raise NotImplementedError

    def _is_busy(self, error: BaseException) -> bool:
        """Return whether another change kept its lock for too long."""
        raise NotImplementedError

    def _code(self, step: str) -> str:
        """Return the code of a failure in a step."""
        del step
        return FAILED


class SQLiteStore(SQLStore):
    """Campaigns in one SQLite file: one writer at a time, crash-safe at any point."""

    bulk = SQLiteBulk

    def __init__(self, path: Path, *, made_at: str | None = None) -> None:
        self._file, self._made_at = path, made_at
        _make_private(path)
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(path)),
            connect_args={"timeout": PATIENCE},
            poolclass=sa.pool.NullPool,
        )
        sa.event.listen(engine, "connect", _settings)
        sa.event.listen(engine, "begin", _begin)
        beside = ("", "-journal", "-wal", "-shm")
        self.files = tuple(path.with_name(path.name + end) for end in beside)
        super().__init__(engine, str(path))

    def _refuse_foreign(self, connection: sa.Connection) -> None:
        others = sa.inspect(connection).get_table_names()
        if others:
            raise StoreError(
                f"{self.label} has tables that do not belong to seqbatch "
                f"({', '.join(others[:5])}). Nothing was touched. Name another file.",
                code="foreign-tables",
            )

    def _compact(self) -> None:
        assert self._file is not None
        with closing(sqlite3.connect(self._file, timeout=PATIENCE)) as file:
            file.execute("VACUUM")
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _failures(self) -> tuple[type[Exception], ...]:
        return (*super()._failures(), sqlite3.Error)

    def _undone(self, error: BaseException) -> bool:
        # After an I/O error, the end of the journal may or may not be on disk.
        return _sqlite_code(error) != sqlite3.SQLITE_IOERR

    def _is_busy(self, error: BaseException) -> bool:
        return _sqlite_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


#: The tables with the rows of campaigns, and how many rows to copy at once: chunks are long.
OF_CAMPAIGNS: dict[sa.Table, int] = {
    schema.events: 1_000,
    schema.unit_chunks: 8,
    schema.outcome_chunks: 8,
    schema.states: 8,
    schema.assignments: 10_000,
    schema.outcomes: 10_000,
    schema.outcome_rows: 10_000,
    schema.folds: 100,
    schema.erasures: 1_000,
}


def rows_in_pieces(
    connection: sa.Connection, asked: sa.Select[Any], together: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a query, some at a time."""
    found = connection.execution_options(yield_per=together).execute(asked)
    for some in found.mappings().partitions():
        yield [dict(row) for row in some]


def _copy(source: sa.Connection, target: sa.Connection, number: int, name: str) -> None:
    """Copy the rows of a campaign into an empty store, as its first campaign."""
    target.execute(schema.campaigns.insert().values(id=1, name=name))
    for table, together in OF_CAMPAIGNS.items():
        asked = sa.select(table).where(table.c.campaign == number).order_by(*table.primary_key)
        for rows in rows_in_pieces(source, asked, together):
            target.execute(table.insert(), [{**row, "campaign": 1} for row in rows])


def _sqlite_code(error: BaseException) -> int:
    """Return the primary result code of an SQLite error, which is its low byte."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _next_number(connection: sa.Connection) -> int:
    """Return a number that no campaign ever had, so a tombstone refers to only one campaign."""
    taken = [
        connection.execute(sa.select(sa.func.max(column))).scalar() or 0
        for column in (schema.campaigns.c.id, schema.tombstones.c.campaign)
    ]
    return max(taken) + 1


def _make_private(path: Path) -> None:
    """Create the file if it is missing, readable only by its owner.

    SQLite gives its journal files the same permissions.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        # The file exists, or cannot be created; opening it then gives a better message.
        return


def keeps_wal_safe(version: tuple[int, ...]) -> bool:
    """Return whether this version of SQLite is safe with a write-ahead log.

    Older versions can, rarely, corrupt the database when two connections write and checkpoint at
    the same time. With these the rollback journal is used, which does not have this bug.

    >>> [keeps_wal_safe(v) for v in ((3, 40, 1), (3, 44, 6), (3, 50, 4), (3, 50, 7), (3, 51, 3))]
    [False, True, False, True, True]
    """
    return (
        version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    )


def _settings(raw: Any, _record: Any) -> None:
    # `_begin` begins the transactions; the driver must not begin any.
    raw.isolation_level = None
    # A damaged byte must not prevent reading the rest: verification reports it.
    raw.text_factory = lambda text: text.decode(errors="replace")
    mode = "WAL" if keeps_wal_safe(sqlite3.sqlite_version_info) else "DELETE"
    for setting in (
        f"journal_mode = {mode}",
        "synchronous = FULL",
        "foreign_keys = ON",
        f"cache_size = -{WRITING}",
    ):
        raw.execute(f"PRAGMA {setting}")


def _begin(connection: sa.Connection) -> None:
    write = connection.get_execution_options().get("write", True)
    if not write:
        connection.exec_driver_sql(f"PRAGMA cache_size = -{READING}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


class PostgresStore(SQLStore):
    """Campaigns in the schema `seqbatch` of a PostgreSQL database."""

    bulk = PostgresBulk

    def __init__(self, url: str, *, wait_for_server: bool = False) -> None:
        try:
            import psycopg
        except ModuleNotFoundError:
            raise StoreError(
                "a postgresql:// store needs psycopg, which is not installed. Install it with: "
                'pip install "seqbatch[postgres]"',
                code="not-installed",
            ) from None
        from psycopg.types.string import BytesBinaryDumper

        class BinaryCursor(psycopg.Cursor[Any]):
            """Fetches results in binary form: as text, long records would be twice as large."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self.format = psycopg.pq.Format.BINARY

        def prepare(raw: Any, _record: Any) -> None:
            raw.adapters.register_dumper(bytes, BytesBinaryDumper)
            raw.cursor_factory = BinaryCursor
            _require_utf8(raw)
            raw.execute("SET search_path TO seqbatch")
            # A timeout in the address or the server's settings has precedence.
            raw.execute(
                f"SELECT set_config('lock_timeout', '{PATIENCE}s', false) "
                "WHERE current_setting('lock_timeout') = '0'"
            )
            raw.commit()

        self._error: type[Exception] = psycopg.Error
        parsed = _parsed(url)
        # Parameters after the question mark may be secrets: password, sslpassword, passfile.
        label = parsed.set(query={}).render_as_string(hide_password=True)
        secrets = [str(parsed.password or "")]
        secrets += [str(value) for name, value in parsed.query.items() if "password" in name]
        if "connect_timeout" not in parsed.query:
            parsed = parsed.update_query_dict({"connect_timeout": str(REACHING)})
        engine = sa.create_engine(parsed)
        sa.event.listen(engine, "connect", prepare)
        sa.event.listen(engine, "begin", _begin_read)
        super().__init__(engine, label, secrets=secrets, wait_for_server=wait_for_server)

    def _locked(self, connection: sa.Connection, name: str) -> int | None:
        # Lock only the campaign's row, so changes of other campaigns can continue.
        return connection.execute(_LOCKED, {"name": name}).scalar_one_or_none()

    def _lock_names(self, connection: sa.Connection) -> None:
        # There is no row to lock yet. The lock's number is arbitrary, but the same everywhere.
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(83118)"))
        connection.execute(sa.text("CREATE SCHEMA IF NOT EXISTS seqbatch"))

    def _compact(self) -> None:
        tables = (schema.unit_chunks, schema.outcome_chunks, schema.assignments, schema.outcomes,
                  schema.outcome_rows, schema.answers, schema.answer_pieces)  # fmt: skip
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        with connection:
            for table in tables:
                connection.execute(sa.text(f"VACUUM FULL {table.name}"))

    def _failures(self) -> tuple[type[Exception], ...]:
        return (*super()._failures(), self._error)

    def _undone(self, error: BaseException) -> bool:
        # A broken rule or a conflict with another transaction; without a state, the connection
        # was lost. 40003 is the server's word for a statement whose completion is unknown.
        state = str(getattr(error, "sqlstate", None) or "")
        return state.startswith(("23", "40")) and state != "40003"

    def _is_busy(self, error: BaseException) -> bool:
        return getattr(error, "sqlstate", None) == "55P03"

    def _code(self, step: str) -> str:
        return UNREACHABLE if step == "connect" else FAILED


def _parsed(url: str) -> sa.URL:
    try:
        return sa.make_url(url).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidArgumentError(
            "store", "postgresql://user@host:port/database with a whole number for the port",
            "an address that cannot be read",
        ) from None  # fmt: skip


def _require_utf8(raw: Any) -> None:
    """Refuse a database that cannot store every text because its encoding is not UTF-8."""
    encoding = raw.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        name = raw.info.dbname
        raw.close()
        raise StoreError(
            f"database {name}: its encoding must be UTF8, because ids and names can be in any "
            f"script; it is {encoding}. Nothing was touched. Use another database: CREATE "
            "DATABASE ... ENCODING 'UTF8' TEMPLATE template0.",
            code="wrong-encoding",
        )


def _begin_read(connection: sa.Connection) -> None:
    if not connection.get_execution_options().get("write", True):
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
