"""One contract, run against every kind of store."""

import sqlite3
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from unittest.mock import ANY

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.logged_rows import (
    KEY,
    logged_in,
    logged_of,
    that_count,
    time_columns,
)
from seqbatch.campaign.record.outcomes import COUNTED, VERDICTS
from seqbatch.campaign.record.store import (
    Event,
    Fold,
    LoggedRows,
    OutcomeChunk,
    StateRecord,
    Tombstone,
    UnitChunk,
)
from seqbatch.errors import StoreError, UncertainCommitError
from seqbatch.storage import open_store, stores
from seqbatch.storage.lake.store import LakeStore
from seqbatch.storage.schema import metadata
from seqbatch.storage.stores import SQLiteStore, keeps_wal_safe
from seqbatch.storage.transaction import SharedTransaction, SpoiledTransactionError
from tests.campaign.specs import about
from tests.conftest import sqlite_settings
from tests.refusals import refused

EVENT = Event(
    sequence=1, kind="create", at="2030-01-01T00:00:00+00:00", who="ann", why="é 'quoted'",
    counts={"n": 1}, payload={"list": [1, 0.1, None, "ü"]}, rows_hash="r", previous="", hash="h1",
)  # fmt: skip
IDS = ["007", "7", " a b\tü\n'"]
TOMBSTONE = Tombstone(
    campaign=0, name="two", events=1, units=0, last="h1", at="2030-01-01T00:00:00+00:00", who="ann",
    why="é", previous="", hash="t",
)  # fmt: skip


def chunk_of(change, ids=IDS, *, chunk=0, event=2, first=0):
    """Return a chunk of units whose rows were kept."""
    place = {"chunk": chunk, "event": event, "first": first}
    given = pa.table({"id": ids, "zip": pa.array(["é"] * len(ids)).dictionary_encode()})
    return UnitChunk(
        **place, wave=1, count=len(ids), hash="u",
        given=change.kept(given, kind="units", **place),
        decided=change.kept(pa.table({"action": [1] * len(ids)}), kind="decisions", **place),
    )  # fmt: skip


def outcomes_of(change, numbers, versions, cells, *, chunk, event, keys=None):
    """Keep rows of outcomes, or logged rows with keys, and add their chunk; return it."""
    cells = np.array(cells, dtype=float)
    columns = {
        "number": pa.array(numbers, type=pa.int64()),
        "value": cells[:, 0],
        "version": pa.array(versions, type=pa.int32()),
        "verdict": pa.array([0] * len(numbers), type=pa.int8()),
        **{f"part {place}": cells[:, 1 + place] for place in range(cells.shape[1] - 1)},
    }
    if keys is not None:
        columns["verdict"] = pa.array([VERDICTS.index(COUNTED)] * len(numbers), type=pa.int8())
        columns |= {KEY: keys, **time_columns(times_of(cells))}
    place = {"chunk": chunk, "event": event}
    rows = change.kept(pa.table(columns), kind="outcomes", **place)
    made = OutcomeChunk(**place, count=len(numbers), rows=rows, hash="o")
    change.add_outcomes(made)
    if keys is None:
        change.index_outcomes(event, np.array(numbers), np.array(versions), cells)
    else:
        own = np.array(versions), np.array(numbers), times_of(cells)
        change.index_rows(event, LoggedRows(pa.array(keys), *own))
    return made


def times_of(cells):
    """Return the contents of rows that are dated by days, one after the other."""
    days = 86_400e6 * np.arange(len(cells))
    return np.column_stack([cells, days, np.ones(len(cells))])


def add_event(change, event):
    change.add_event(event, Fold(event=event.sequence, content="{}", hash=event.hash))


def begun(store, name="one"):
    with store.create(name) as change:
        change.add_state(StateRecord(event=1, wave=0, content=b"state", hash="s"))
        add_event(change, EVENT)


def with_units(store, name="one"):
    begun(store, name)
    with store.change(name) as change:
        assert change.claim(IDS, 0)
        chunk = chunk_of(change)
        change.add_units(chunk)
        add_event(change, replace(EVENT, sequence=2, kind="assign", previous="h1", hash="h2"))
    return chunk


def test_what_goes_in_comes_out(store):
    chunk = with_units(store)
    with store.read("one") as reader:
        assert reader.name == "one"
        assert reader.events()[0] == EVENT
        assert reader.last_event().sequence == 2
        [found] = reader.unit_chunks(given=True)
        assert found == chunk
        assert unpack(found.given).to_pydict() == {"id": IDS, "zip": ["é"] * 3}
        assert unpack(found.decided).to_pydict() == {"action": [1, 1, 1]}
        assert list(reader.unit_chunks(given=False)) == [replace(chunk, given=b"")]
        assert list(reader.unit_chunks(given=True, chunks=[])) == []
        assert reader.extents()[0].count == 3
        assert reader.last_state() == next(iter(reader.states()))
        assert reader.last_state().content == b"state"
        assert reader.numbers(["7", "nobody", *IDS]).tolist() == [1, -1, 0, 1, 2]
        assert sorted(reader.number_index()) == sorted(zip(IDS, range(3), strict=True))
        assert list(reader.outcome_chunks()) == []
        assert reader.next_chunks() == (1, 0)
        assert reader.event(1) == EVENT
        assert reader.fold() == Fold(event=2, content="{}", hash="h2")
        assert reader.extents(wave=1) == reader.extents()
        assert reader.extents(wave=2) == []
        assert reader.extent_of(2).chunk == 0
        assert reader.last_state(before_event=1) is None
        assert reader.index_sizes() == (3, 0, 0)


def test_outcomes_have_versions(store):
    with_units(store)
    with store.change("one") as change:
        cells = [[0.1, 7.0, np.nan], [1e-300, -0.0, 2.0]]
        chunk = outcomes_of(change, [2, 0], [1, 1], cells, chunk=0, event=3)
        add_event(change, replace(EVENT, sequence=3, previous="h2", hash="h3"))
    with store.change("one") as change:
        newer = outcomes_of(change, [2], [2], [[-5.5, 1.0, 3.0]], chunk=1, event=4)
        add_event(change, replace(EVENT, sequence=4, previous="h3", hash="h4"))
    with store.read("one") as reader:
        versions, values, absent = reader.outcomes(np.array([0, 1, 2, 99]))
        assert versions.tolist() == [1, 0, 2, 0]
        assert not absent.any()
        assert values[[0, 2]].tolist() == [[1e-300], [-5.5]]
        assert np.isnan(values[[1, 3]]).all()
        assert list(reader.outcome_chunks()) == [chunk, newer]
        assert [c.chunk for c in reader.outcome_chunks(after_event=3)] == [1]
        assert sorted(reader.outcome_versions(np.array([2, 1]))) == [
            (2, 1, (0.1, 7.0, ANY), 3), (2, 2, (-5.5, 1.0, 3.0), 4),
        ]  # fmt: skip
        _, cells, _ = reader.outcomes(np.array([2, 0]), parts=2)
        assert cells.tolist() == [[-5.5, 1.0, 3.0], [1e-300, 0.0, 2.0]]
        first = next(row for row in reader.outcome_versions(np.array([2])) if row[1] == 1)
        assert first[2][:2] == (0.1, 7.0)
        assert np.isnan(first[2][2])
        assert reader.index_sizes() == (3, 3, 0)


def test_an_outcome_may_have_metrics_and_no_value(store):
    """An absent unit is known as one after metrics of it were recorded, and after a value was."""
    with_units(store)
    nothing = np.nan
    for event, (versions, cells) in enumerate([
        ([0, 1], [[3.0, nothing], [nothing, 1.0]]),
        ([1, 2], [[nothing, 2.0], [5.0, 1.0]]),
    ], start=3):  # fmt: skip
        with store.change("one") as change:
            outcomes_of(change, [0, 1], versions, cells, chunk=event - 3, event=event)
            last = replace(EVENT, sequence=event, previous=f"h{event - 1}", hash=f"h{event}")
            add_event(change, last)
    with store.read("one") as reader:
        versions, cells, absent = reader.outcomes(np.array([0, 1, 2]), parts=1)
        assert versions.tolist() == [1, 2, 0]
        assert absent.tolist() == [True, False, False]
        expected = [[nothing, 2.0], [5.0, 1.0], [nothing, nothing]]
        assert np.array_equal(cells, np.array(expected), equal_nan=True)
        told = {(n, v): cells[0] for n, v, cells, _ in reader.outcome_versions(np.array([0, 1]))}
        assert (told[0, 0], told[1, 2]) == (3.0, 5.0)
        assert np.isnan([told[0, 1], told[1, 1]]).all()
        assert sum(np.isnan(value) for _, _, value, _ in reader.outcome_index()) == 2


def test_logged_rows_have_keys_and_versions(store):
    with_units(store)
    keys = ["order|é", "order|7", "|0a"]
    with store.change("one") as change:
        cells = [[1.0, np.nan], [-2.0, 1.0], [0.1, 0.0]]
        outcomes_of(change, [2, 0, 1], [1, 1, 1], cells, chunk=0, event=3, keys=keys)
        again = change.known_rows(pa.array(keys), parts=1)
        assert again.events.tolist() == [3, 3, 3]
        add_event(change, replace(EVENT, sequence=3, previous="h2", hash="h3"))
    with store.change("one") as change:
        cells = [[9.0, 4.0], [0.1, 0.0], [0.1, 0.0]]
        outcomes_of(
            change, [2, 1, 1], [2, 2, 3], cells, chunk=1, event=4, keys=[keys[0], keys[2], keys[2]]
        )
        add_event(change, replace(EVENT, sequence=4, previous="h3", hash="h4"))
    with store.read("one") as reader:
        known = reader.known_rows(pa.array(["order|nobody's", *keys, keys[0]]), parts=1)
        assert known.versions.tolist() == [0, 2, 1, 3, 2]
        assert known.numbers.tolist() == [-1, 2, 0, 1, 2]
        assert known.events.tolist() == [0, 4, 3, 4, 4]
        assert known.contents[1].tolist() == [9.0, 4.0, 0.0, 1.0]
        assert known.contents[2].tolist() == [-2.0, 1.0, 86_400e6, 1.0]
        assert np.isnan(known.contents[0]).all()
        assert sorted(reader.row_index()) == [
            ("order|7", 1, 3), ("order|é", 1, 3), ("order|é", 2, 4), ("|0a", 1, 3), ("|0a", 2, 4),
            ("|0a", 3, 4),
        ]  # fmt: skip
        assert reader.index_sizes() == (3, 0, 6)
        chunks = list(reader.outcome_chunks())
        logged = logged_of(reader, np.array([1, 2]), 3, parts=1, until=4)
        assert logged.keys.to_pylist() == [keys[0], keys[2], keys[0], keys[2], keys[2]]
        counts = that_count(logged)
        # Of a row with an id, the newest version counts; equal rows without ids all count.
        assert counts.keys.to_pylist() == [keys[2], keys[0], keys[2], keys[2]]
        assert counts.cells[:, 0].tolist() == [0.1, 9.0, 0.1, 0.1]
        assert [len(logged_in(chunk, 1)) for chunk in chunks] == [3, 3]


def test_a_transaction_of_a_change_that_failed_is_not_stored(store):
    with_units(store)

    def change_twice():
        with SharedTransaction(store, parts=False) as together:
            with suppress(KeyError), together.change("one") as change:
                add_event(change, replace(EVENT, sequence=3, previous="h2", hash="h3"))
                raise KeyError
            with pytest.raises(SpoiledTransactionError), together.change("one"):
                pass

    with pytest.raises(SpoiledTransactionError):
        change_twice()
    with store.read("one") as reader:
        assert len(reader.events()) == 2


def test_many_small_chunks_come_in_order(store):
    begun(store)
    count = 1_203
    with store.change("one") as change:
        assert change.claim([str(number) for number in range(count)], 0)
        one = chunk_of(change, ["0"])
        for number in range(count):
            change.add_units(replace(one, chunk=number, first=number, count=1))
        add_event(change, replace(EVENT, sequence=2, kind="assign", previous="h1", hash="h2"))
    with store.read("one") as reader:
        assert [chunk.first for chunk in reader.unit_chunks(given=False)] == list(range(count))
        some = reader.unit_chunks(given=True, chunks=[1_200, 3, 700])
        assert [chunk.first for chunk in some] == [3, 700, 1_200]
        assert reader.extent_of(1_000).chunk == 1_000


def test_campaigns_are_kept_apart(store):
    with_units(store)
    with_units(store, "two")
    with store.read("two") as reader:
        assert len(list(reader.number_index())) == 3
    assert store.names() == ["one", "two"]
    with refused("name-taken", field="name"), store.create("one"):
        pass
    with refused("unknown-campaign"), store.change("three"):
        pass


class Stop(Exception):  # noqa: N818
    pass


def stop(_):
    raise Stop


def test_a_change_that_fails_leaves_nothing(store):
    begun(store)
    with pytest.raises(Stop), store.change("one") as change:
        stop((change.claim(IDS, 0), change.add_units(chunk_of(change))))
    with pytest.raises(Stop), store.create("two"):
        stop(None)
    assert store.names() == ["one"]
    with store.read("one") as reader:
        assert reader.extents() == []
        assert list(reader.number_index()) == []


def test_rows_without_their_event_are_refused(store):
    begun(store)
    with pytest.raises(StoreError), store.change("one") as change:
        change.add_units(chunk_of(change))
    with store.read("one") as reader:
        assert reader.extents() == []


def test_no_unit_has_two_numbers(store):
    with_units(store)
    with store.change("one") as change:
        assert not change.claim(["8", "7", "9"], 3)
        assert change.numbers(["7", "8", "9"]).tolist() == [1, -1, -1]
        assert not change.claim(["8", "8"], 3)
        assert change.claim(["8", "9"], 3)
        change.add_units(chunk_of(change, ["8", "9"], chunk=1, event=3, first=3))
        add_event(change, replace(EVENT, sequence=3, previous="h2", hash="h3"))
    with store.read("one") as reader:
        assert reader.numbers(["7", "8", "9"]).tolist() == [1, 3, 4]


def test_a_sequence_number_is_used_once(store):
    begun(store)
    with pytest.raises(StoreError), store.change("one") as change:
        add_event(change, replace(EVENT, hash="other"))


#: Tables that are no part of a campaign's record.
BESIDE = {"folds", "tokens", "sessions", "answers", "answer_pieces"}


#: Tables of indexes, which a lake makes of its files.
INDEXES = {"assignments", "outcomes", "outcome_rows"}


@pytest.mark.parametrize("table", sorted(set(metadata.tables) - BESIDE))
def test_tables_are_append_only(store, table):
    if isinstance(store, LakeStore) and table in INDEXES:
        pytest.skip("a lake has no such rows")
    with_units(store)
    with store.change("one") as change:
        outcomes_of(change, [0], [1], [[0.1]], chunk=0, event=3)
        outcomes_of(change, [0], [1], [[0.1]], chunk=1, event=3, keys=["order|x"])
        change.erase(3, units={}, rows=[])
        add_event(change, replace(EVENT, sequence=3, previous="h2", hash="h3"))
    begun(store, "two")
    with store.change("two") as change:
        change.bury(replace(TOMBSTONE, campaign=change.number))
    column = next(iter(metadata.tables[table].c)).name
    statements = [f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"]
    if store._engine.dialect.name == "sqlite":
        statements.append(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")
    for statement in statements:
        # What other rows point to is refused for that, too.
        refused = pytest.raises(sa.exc.DBAPIError, match=r"append-only|is still referenced")
        with refused, store._engine.begin() as raw:
            raw.execute(sa.text(statement))


def test_the_tables_are_those_of_the_migrations(store):
    inspector, dialect = sa.inspect(store._engine), store._engine.dialect
    schema = "seqbatch" if dialect.name == "postgresql" else None
    made = set(inspector.get_table_names(schema=schema))
    assert made == {*metadata.tables, "alembic_version"}

    def described(name, kind, nullable):
        # Ids have a collation there, which is no part of what is read.
        return name, kind.compile(dialect).partition(" COLLATE")[0], nullable

    for name, table in metadata.tables.items():
        columns = inspector.get_columns(name, schema=schema)
        assert [described(c["name"], c["type"], c["nullable"]) for c in columns] == [
            described(c.name, c.type, c.nullable) for c in table.c
        ], name
        key = inspector.get_pk_constraint(name, schema=schema)["constrained_columns"]
        assert key == [column.name for column in table.primary_key]


@pytest.mark.parametrize("schema", ["9999", "0005"])
def test_another_schema_is_refused_untouched(store, store_url, tmp_path, schema):
    begun(store)
    with store._engine.begin() as raw:
        raw.execute(sa.text(f"UPDATE alembic_version SET version_num = '{schema}'"))
    path = tmp_path / ("lake/ledger.db" if store_url.startswith("lake:") else "campaigns.db")
    before = path.read_bytes() if "://" not in store_url else b""
    with refused("other-schema", match=f"schema {schema}"):
        open_store(store_url)
    if before:
        assert path.read_bytes() == before


def test_opening_again_changes_nothing(store_url):
    first = open_store(store_url)
    begun(first)
    first.close()
    second = open_store(store_url)
    assert second.names() == ["one"]
    second.close()


def test_a_file_that_is_something_else(tmp_path):
    text = tmp_path / "notes.db"
    text.write_bytes(b"not a database at all" * 100)
    with refused("store-failed"):
        open_store(text)
    assert text.read_bytes().startswith(b"not a database")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as raw:
        raw.execute("CREATE TABLE songs (title TEXT)")
    raw.close()
    with refused("foreign-tables", match="songs"):
        open_store(other)


def test_stores_that_are_not_there(tmp_path):
    with refused("no-such-store"):
        open_store(tmp_path / "none.db", create=False)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(StoreError):
        open_store(tmp_path / "no folder" / "x.db")
    with refused("invalid-argument", field="store"):
        open_store("mysql://somewhere/x")
    with refused("store-unreachable"):
        open_store("postgresql://nobody@127.0.0.1:1/none")


@pytest.mark.parametrize("address", ["lakes:exp", "sqlite:x.db", "postgres:x", "lake", "SQLite"])
@pytest.mark.parametrize("create", [True, False])
def test_addresses_of_no_kind(address, create, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused("invalid-argument", field="store"):
        open_store(address, create=create)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", ["./lakes:exp", "sqlite:///lakes:exp", "c:exp", "lakes:exp"])
def test_files_whose_names_look_like_addresses(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if address == "lakes:exp":
        open_store("./lakes:exp").close()
    open_store(address).close()
    assert len(list(tmp_path.glob("*exp"))) == 1


@pytest.mark.parametrize("address", ["~/x.db", "sqlite:///~/x.db", "lake:~/x.db"])
def test_the_home_folder_has_a_short_name(address, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    open_store(address).close()
    assert (tmp_path / "x.db").exists()


@pytest.mark.parametrize("prefix", ["", "lake:"])
def test_places_where_no_store_can_be_made(prefix, tmp_path, monkeypatch):
    with refused("no-folder"):
        open_store(f"{prefix}{tmp_path}/none/x")
    # Whoever runs the tests may be allowed to write anywhere.
    monkeypatch.setattr("os.access", lambda path, _: path != tmp_path)
    with refused("not-writable"):
        open_store(f"{prefix}{tmp_path}/x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("prefix", ["", "lake:"])
def test_a_file_that_may_only_be_read_is_named(prefix, tmp_path):
    store = open_store(f"{prefix}{tmp_path}/x")
    file = tmp_path / "x" / "ledger.db" if prefix else tmp_path / "x"

    @sa.event.listens_for(store._engine, "connect")
    def forbid(raw, _record):
        raw.execute("PRAGMA query_only = ON")

    with refused("store-failed", match=f"{file} .* {file.parent}"):
        begun(store)
    store.close()


def test_passwords_are_not_shown(tmp_path):
    with pytest.raises(StoreError) as caught:
        open_store("postgresql://ann:hunter2@127.0.0.1:1/none")
    assert "hunter2" not in str(caught.value)
    for query in ("password=hunter2", "sslpassword=hunter2&application_name=x"):
        with pytest.raises(StoreError) as caught:
            open_store(f"postgresql://ann@127.0.0.1:1/none?{query}")
        assert "hunter2" not in str(caught.value)
    assert SQLiteStore(tmp_path / "x.db").label.endswith("x.db")


def test_sqlite_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "_settings", sqlite_settings)
    store = open_store(tmp_path / "x.db")
    with store._engine.connect() as raw:
        values = {
            name: raw.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    wal = keeps_wal_safe(sqlite3.sqlite_version_info)
    assert values == {
        "journal_mode": "wal" if wal else "delete", "synchronous": 2, "foreign_keys": 1,
    }  # fmt: skip


def test_a_port_that_is_no_number_is_refused_in_words():
    with refused("invalid-argument", field="store") as caught:
        open_store("postgresql://ann:hunter2@127.0.0.1:port/none")
    assert "hunter2" not in str(caught.value)


def test_a_new_file_is_its_owners_alone(tmp_path):
    store = open_store(tmp_path / "x.db")
    begun(store)
    store.close()
    assert (tmp_path / "x.db").stat().st_mode & 0o777 == 0o600


def test_an_answer_that_was_lost_is_not_called_a_failure(postgres_url, monkeypatch):
    """The server may have kept a change whose confirmation never came."""
    store = open_store(postgres_url)
    commit = store._engine.dialect.do_commit

    def lost(connection):
        commit(connection)
        raise sa.exc.OperationalError("COMMIT", None, Exception("the connection was lost"))

    monkeypatch.setattr(store._engine.dialect, "do_commit", lost)
    with refused("uncertain-commit") as caught:
        begun(store)
    assert isinstance(caught.value, UncertainCommitError)
    monkeypatch.undo()
    assert store.names() == ["one"]
    with refused("store-failed"), store.change("one"):
        raise sa.exc.OperationalError("SELECT", None, Exception("too many"))
    store.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_IOERR_FSYNC, "uncertain-commit"),
        (sqlite3.SQLITE_FULL, "store-failed"),
        (sqlite3.SQLITE_BUSY, "store-busy"),
    ],
)
def test_commits_of_sqlite_that_fail(tmp_path, monkeypatch, code, expected):
    store = open_store(tmp_path / "x.db")
    error = sqlite3.OperationalError("the disk failed")
    error.sqlite_errorcode = code

    def failing(_connection):
        raise error

    monkeypatch.setattr(store._engine.dialect, "do_commit", failing)
    with refused(expected):
        begun(store)
    monkeypatch.undo()
    assert store.names() == []
    begun(store)
    store.close()


def test_a_store_that_another_change_keeps_is_busy(store_url, monkeypatch):
    monkeypatch.setattr("seqbatch.storage.stores.PATIENCE", 0.1)
    other = open_store(store_url)
    # PostgreSQL takes whole numbers of milliseconds from an address.
    url = store_url
    if url.startswith("postgresql"):
        url += ("&" if "?" in url else "?") + "options=-clock_timeout%3D100"
    store = open_store(url)
    begun(other)
    with other.change("one"), refused("store-busy"), store.change("one"):
        pass
    with store.change("one") as change:
        assert change.name == "one"
    with other.create("two") as change, refused("store-busy"), store.create("three"):
        pass
    store.close()
    other.close()


def test_a_server_has_a_limit_on_waiting(postgres_url):
    store = open_store(postgres_url)
    with store.transaction(write=True) as connection:
        assert connection.execute(sa.text("SHOW lock_timeout")).scalar_one() == "1min"
    store.close()


def test_units_are_assigned_between_outcomes_of_one_transaction(store):
    """Calls that arrive together share a transaction: units may be new to what was read in it."""
    campaign = Campaign.create(
        {
            "name": "one", "seed": 1, "actions": ["a", "b"], "grid": {"sizes": [8]},
            **about("y"), "features": {"numeric": {"x": "raw"}},
        },
        store=store,
    )  # fmt: skip

    def rows(*units, **columns):
        return pa.table({"unit": list(units), **{k: [v] * len(units) for k, v in columns.items()}})

    campaign.assign(rows("a", x=1.0))
    with SharedTransaction(store) as together:
        shared = Campaign(together, "one")
        assert shared.record(rows("a", y=1.0)).accepted == 1
        shared.assign(rows("b", "c", "d", x=2.0))
        assert shared.record(rows("a", "b", "d", y=1.0)).accepted == 2
        assert shared.record(rows("b", "c", y=1.0)).accepted == 1
    assert campaign.record(rows("a", "b", "c", "d", y=1.0)).duplicate == 4
    assert campaign.verify().sound


def test_both_zeros_are_one(store):
    with_units(store)
    with store.change("one") as change:
        outcomes_of(change, [2, 0], [1, 1], [[-0.0, -0.0], [0.0, 0.0]], chunk=0, event=3)
        add_event(change, replace(EVENT, sequence=3, previous="h2", hash="h3"))
    with store.read("one") as reader:
        versions = reader.outcome_versions(np.array([0, 2]))
        found = [
            *(cells for _, _, cells, _ in versions),
            reader.outcomes(np.array([2]), parts=1)[1],
        ]
    assert not np.signbit(np.concatenate([np.ravel(cells) for cells in found])).any()


@pytest.mark.parametrize("address", [":memory:", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused("invalid-argument", field="store", match="its own empty database"):
        open_store(address)
    assert list(tmp_path.iterdir()) == []


def test_a_store_says_which_version_made_it(store, store_url):
    with store.transaction(write=True) as connection:
        [row] = connection.execute(sa.select(metadata.tables["migrations"])).mappings()
        assert row["version"] == version("seqbatch")
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match=f"Version {version('seqbatch')} migrated it last"):
        open_store(store_url)


def test_a_server_that_cannot_be_reached_yet(postgres_url, monkeypatch):
    connect = sa.Engine.connect

    def down(_self):
        raise sa.exc.OperationalError("", None, Exception("connection refused"))

    monkeypatch.setattr(sa.Engine, "connect", down)
    with refused("store-unreachable"):
        open_store(postgres_url)
    store = open_store(postgres_url, wait_for_server=True)
    with refused("store-unreachable"):
        store.names()
    monkeypatch.setattr(sa.Engine, "connect", connect)
    # The first call that reaches the server makes the tables.
    assert store.names() == []
    begun(store)
    store.close()


def test_only_a_server_is_waited_for(tmp_path):
    (tmp_path / "x.db").write_text("not a database, but long enough to be taken for one" * 20)
    with refused("store-failed"):
        open_store(tmp_path / "x.db", wait_for_server=True)


def test_a_part_that_fails_leaves_nothing_and_is_not_remembered(store):
    with_units(store)
    more = replace(EVENT, sequence=3, kind="assign", previous="h2", hash="h3")

    def fails(together):
        with together.change("one") as change:
            assert change.claim(["b"], 3)
            change.add_units(chunk_of(change, ["b"], chunk=1, event=3, first=3))
            add_event(change, more)
            assert change.newest() == (3, "h3", 3)
            raise ZeroDivisionError

    with SharedTransaction(store) as together:
        with pytest.raises(ZeroDivisionError):
            fails(together)
        with together.change("one") as change:
            assert change.newest() == (2, "h2", 2)
            assert change.next_chunks() == (1, 0)
            assert change.last_state_hash() == "s"
            assert change.numbers(["b"]).tolist() == [-1]
            add_event(change, more)
    with store.read("one") as reader:
        assert reader.newest() == (3, "h3", 3)


@pytest.mark.parametrize("count", [1, 300])
def test_units_are_claimed_all_or_none(store, count):
    begun(store)
    units = [f"u{number}" for number in range(count)]
    with store.change("one") as change:
        assert change.claim(units, 0)
        # Few and many are numbered in two ways: both see the one that has a number.
        assert not change.claim([*(f"v{number}" for number in range(count)), "u0"], count)
        assert change.numbers(["v0", units[-1]]).tolist() == [-1, count - 1]
        add_event(change, replace(EVENT, sequence=2, kind="assign", previous="h1", hash="h2"))
