"""What is a lake's own: its files, what a crash leaves of them, and where its ledger is."""

import json
import shutil
from contextlib import closing

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.files.parallel_pieces import ahead
from seqbatch.campaign.record.codec import unpack
from seqbatch.errors import StoreError
from seqbatch.storage import open_store
from seqbatch.storage.lake import store as lake_store
from seqbatch.storage.lake.files import FileRows, _parquet
from seqbatch.storage.lake.index import Ids
from tests.campaign.instances import created, outcomes, run_wave, units
from tests.refusals import refused


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A lake with a campaign of two waves, and one that was deleted."""
    folder = tmp_path_factory.mktemp("finished") / "lake"
    store = open_store(f"lake:{folder}")
    created(store, name="gone").assign(units(20))
    campaign = created(store, grid={"sizes": [60, 50, 10]})
    run_wave(campaign, 1, start=0, count=60)
    rows = outcomes(campaign.assign(units(50, start=60)).table)
    campaign.record(rows[:30])
    campaign.record(rows[20:])
    campaign.record(rows[:3].with_columns(visit=pl.lit(2.0)), correct=True, reason="a typo")
    campaign.close()
    Campaign.open("gone", store=store).delete(reason="a trial", force=True)
    store.close()
    return folder


@pytest.fixture
def lake(finished, tmp_path):
    """A copy of it to do damage to."""
    return shutil.copytree(finished, tmp_path / "lake")


def opened(folder):
    return Campaign.open("spring", store=open_store(f"lake:{folder}", create=False))


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*/*"))


def test_files_are_named_by_their_events_and_no_others_stay(finished):
    assert files(finished) == [
        *(f"2-spring/decisions/event-{event:06d}-{chunk:06d}.parquet" for event, chunk in
          ((2, 0), (5, 1))),
        *(f"2-spring/outcomes/event-{event:06d}-{chunk:06d}.parquet" for event, chunk in
          ((3, 0), (6, 1), (7, 2), (8, 3))),
        *(f"2-spring/units/event-{event:06d}-{chunk:06d}.parquet" for event, chunk in
          ((2, 0), (5, 1))),
    ]  # fmt: skip
    verified = opened(finished).verify()
    assert (verified.sound, verified.units, verified.states) == (True, 110, 3)


def test_the_files_say_what_an_export_says(finished, tmp_path):
    """DuckDB, by the folder alone: units and decisions by number, the newest outcome of each."""
    opened(finished).export(tmp_path / "all.parquet")
    exported = pl.read_parquet(tmp_path / "all.parquet").sort("id")
    found = duckdb.sql(f"""
        SELECT u.id, u.age, d.action, d.score, o.value
        FROM '{finished}/2-spring/units/*.parquet' AS u
        JOIN '{finished}/2-spring/decisions/*.parquet' AS d USING (number)
        LEFT JOIN (
            SELECT number, arg_max(value, version) AS value
            FROM '{finished}/2-spring/outcomes/*.parquet' WHERE verdict = 0 GROUP BY number
        ) AS o USING (number)
        ORDER BY u.id
    """).pl()
    names = ["none", "mail", "call"]
    assert found["id"].to_list() == exported["id"].to_list()
    assert found["age"].to_list() == exported["age"].to_list()
    assert [names[number] for number in found["action"]] == exported["action"].to_list()
    assert found["score"].to_list() == exported["score"].to_list()
    assert found["value"].to_list() == exported["visit"].to_list()


@pytest.mark.parametrize("kind", ["units", "decisions", "outcomes"])
@pytest.mark.parametrize("damage", ["a byte", "truncated", "removed", "swapped"])
def test_verify_names_the_file_and_its_event(lake, kind, damage):
    path, other = sorted((lake / "2-spring" / kind).iterdir())[:2]
    content = path.read_bytes()
    if damage == "a byte":
        place = len(content) // 2
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    elif damage == "truncated":
        path.write_bytes(content[:-5])
    elif damage == "removed":
        path.unlink()
    else:
        path.write_bytes(other.read_bytes())
    verified = opened(lake).verify()
    found = verified.findings
    assert ("not replayed for this reason: 1" in str(verified.notes)) == (
        kind == "units" and damage != "a byte"
    )
    # Both waves, the other one, or nobody where no id can be looked up.
    replayed = {"outcomes": 110, "decisions": 50, "units": 50 if damage == "a byte" else 0}[kind]
    assert (verified.units, verified.states) == (replayed, 2)
    event = int(path.name.split("-")[1])
    problem = {
        "a byte": "does not hold the bytes that were written", "truncated": "bytes, not the",
        "removed": "is missing", "swapped": "not th",
    }[damage]  # fmt: skip
    named = [each for each in found if f"{kind}/{path.name}" in each.problem]
    assert any(each.event == event and problem in each.problem for each in named)
    assert all(each.event == event for each in named if "unit chunk" in each.place)
    with pytest.raises(StoreError, match=path.name):
        opened(lake).export(lake.parent / "out.parquet")
    if kind == "units" and damage in ("truncated", "removed"):
        with pytest.raises(StoreError, match=path.name):
            opened(lake).assign(units(10, start=110))


@pytest.mark.parametrize("kind", ["units", "outcomes"])
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(lake, kind):
    path = min((lake / "2-spring" / kind).iterdir())
    path.unlink()
    path.mkdir()
    with refused("file-unreadable", match=path.name):
        opened(lake).export(lake.parent / "out.parquet")


def with_other_ids(path):
    """Return a file of the same length, in which two units have each other's ids."""
    table, length = pa.parquet.read_table(path), path.stat().st_size
    ids = table.column(0).to_pylist()
    for row in range(1, len(ids)):
        others = [ids[row], *ids[1:row], ids[0], *ids[row + 1 :]]
        content = _parquet(table.set_column(0, table.column_names[0], pa.array(others)))
        if len(content) == length:
            return content
    raise AssertionError("no file has the same length")


def test_ids_come_from_the_file_that_was_written(lake):
    """Units that are looked up are those that were assigned, without reading all of their file."""
    path = min((lake / "2-spring" / "units").iterdir())
    rows = outcomes(opened(lake).assign(units(60)).table).with_columns(visit=pl.lit(3.0))
    before = path.read_bytes()
    path.write_bytes(with_other_ids(path))
    with refused("file-damaged", match=path.name):
        opened(lake).record(rows)
    with refused("file-damaged", match=path.name):
        opened(lake).assign(units(10, start=110))
    path.write_bytes(before)
    assert opened(lake).record(rows).conflict == 60


def test_a_file_that_is_swapped_between_two_reads_is_refused(lake):
    """What is decided by and what is summed up later are the same bytes."""
    path = min((lake / "2-spring" / "units").iterdir())
    with open_store(f"lake:{lake}").read("spring") as reader:
        chunk = next(reader.unit_chunks(given=True))
        assert unpack(chunk.given).num_rows == 60
        path.write_bytes(with_other_ids(path))
        with refused("file-damaged"):
            unpack(chunk.given)


def test_another_address_in_the_ledger_is_found(lake):
    """Whoever changes a file must change its hash too, and that is signed."""
    store = open_store(f"lake:{lake}")
    with store._engine.begin() as raw:
        raw.exec_driver_sql("DROP TRIGGER unit_chunks_no_update")
        [content] = raw.exec_driver_sql(
            "SELECT given FROM unit_chunks WHERE chunk = 0 AND campaign = 2"
        ).one()
        other = json.dumps({**json.loads(content), "rows": 59}, separators=(",", ":"))
        raw.exec_driver_sql(
            "UPDATE unit_chunks SET given = ? WHERE chunk = 0 AND campaign = 2", (other.encode(),)
        )
    store.close()
    found = opened(lake).verify().findings
    assert any("does not match its hash" in each.problem for each in found)


def test_what_a_crash_left_is_ignored_and_swept(lake):
    folder = lake / "2-spring"
    left = [
        folder / "units" / "event-000010-000002.parquet",
        folder / "decisions" / "event-000010-000007.parquet.partial",
    ]
    for path in left:
        path.write_bytes(b"half of a file")
    (folder / "units" / "notes.txt").write_text("somebody's own")
    campaign = opened(lake)
    assert campaign.verify().sound
    assert all(path.exists() for path in left)
    campaign.assign(units(10, start=110))
    assert b"half" not in left[0].read_bytes()
    assert not left[1].exists()
    assert (folder / "units" / "notes.txt").exists()
    assert campaign.verify().sound


def test_a_call_that_fails_leaves_no_file(lake):
    before, campaign = files(lake), opened(lake)
    campaign.record(outcomes(campaign.assign(units(50, start=60)).table)[5:9], dry_run=True)
    with refused("too-many-units", match="room for 10"):
        campaign.assign(units(200, start=200))
    assert files(lake) == before


def test_a_disk_that_fails_while_others_write_keeps_nothing(lake, monkeypatch):
    """Files are synced by a thread of their own: what goes wrong there is told all the same."""
    before, campaign = files(lake), opened(lake)

    def broken(path):
        if path.name.endswith(".partial"):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("seqbatch.storage.lake.files.sync", broken)
    with refused("file-not-written", match=r"event-000010-000002\.parquet"):
        campaign.assign(units(10, start=110))
    assert files(lake) == before
    monkeypatch.undo()
    assert campaign.assign(units(10, start=110)).assigned == 10


def test_pieces_that_are_read_ahead(monkeypatch):
    monkeypatch.setattr("seqbatch.campaign.files.parallel_pieces.workers", lambda: 2)

    def failing():
        yield from range(5)
        raise StoreError("no sixth")

    with pytest.raises(StoreError):
        list(ahead(failing()))
    assert list(ahead(iter(range(5)))) == list(range(5))
    with closing(ahead(iter(range(5)))) as pieces:
        assert next(pieces) == 0


def test_what_is_the_same_everywhere_is_the_default(tmp_path):
    store = open_store(f"lake:{tmp_path / 'lake'}")
    small = {"numeric": {"age": "learn"}}
    assert created(store, name="a").situation().spec.draws == "md5"
    # The column `spend` has no bounds: its sums cannot be exact, and nothing asked for them.
    assert created(store, name="b").situation().spec.sums == "floating"
    assert created(store, name="c", features=small).situation().spec.sums == "exact"
    said = created(store, name="d", features=small, draws="blake2", sums="floating").situation()
    assert (said.spec.draws, said.spec.sums) == ("blake2", "floating")
    store.close()


def test_folders_that_are_no_lake(tmp_path):
    with refused("no-such-store"):
        open_store(f"lake:{tmp_path / 'none'}", create=False)
    (tmp_path / "songs").mkdir()
    (tmp_path / "songs" / "one.mp3").write_bytes(b"la")
    for create in (True, False):
        for name in ("songs", "songs/one.mp3"):
            with refused("not-a-lake"):
                open_store(f"lake:{tmp_path / name}", create=create)
    with refused("no-folder"):
        open_store(f"lake:{tmp_path / 'no' / 'folder'}")
    for text in (
        "lake:", f"lake:{tmp_path}?ledger=mysql://x", f"lake:{tmp_path}?ledger=",
        f"lake:{tmp_path}?leger=postgresql://host/x", "lake://songs", "Lake:songs",
    ):  # fmt: skip
        with refused("invalid-argument", field="store"):
            open_store(text)
    with refused("invalid-argument", field="store", received="lake:songs?...") as caught:
        open_store("lake:songs?ledger=ada:secret@host")
    assert "secret" not in str(caught.value)
    with refused("folder"):
        open_store(tmp_path)


def test_a_ledger_is_no_store_of_its_own(lake):
    """Read without its files, it would give the same units actions a second time."""
    content = (lake / "ledger.db").read_bytes()
    with refused("ledger-of-a-lake"):
        open_store(lake / "ledger.db")
    assert (lake / "ledger.db").read_bytes() == content


@pytest.mark.parametrize("ledger", [None, b""])
@pytest.mark.parametrize("create", [True, False])
def test_files_without_their_ledger(lake, ledger, create):
    """A new ledger would know none of them, and the next change would remove them."""
    (lake / "ledger.db").unlink()
    if ledger is not None:
        (lake / "ledger.db").write_bytes(ledger)
    before = files(lake)
    with refused("ledger-lost"):
        open_store(f"lake:{lake}", create=create)
    assert files(lake) == before


def test_a_new_campaign_leaves_the_files_of_an_unknown_one(lake, tmp_path):
    store = open_store(f"lake:{tmp_path / 'other'}")
    created(store, name="gone").delete(reason="a trial", force=True)
    store.close()
    shutil.copy(tmp_path / "other" / "ledger.db", lake / "ledger.db")
    before = files(lake)
    with refused("unknown-files"):
        created(open_store(f"lake:{lake}"))
    assert files(lake) == before


def test_a_database_put_into_a_lake_goes_on_there_alone(tmp_path):
    """Its first chunk is in the database, the newest in a file."""
    (tmp_path / "lake").mkdir()
    path = tmp_path / "lake" / "ledger.db"
    created(open_store(path), grid={"sizes": [60]}).assign(units(30))
    campaign = opened(tmp_path / "lake")
    assert campaign.assign(units(60)).assigned == 30
    assert campaign.verify().sound
    with refused("ledger-of-a-lake"):
        open_store(path)


def test_nothing_is_written_into_the_lake(lake):
    with refused("invalid-argument", field="out"):
        opened(lake).export(lake / "2-spring" / "units" / "mine.parquet")


@pytest.mark.slow
def test_a_ledger_in_postgresql(postgres_url, tmp_path):
    url = f"lake:{tmp_path / 'lake'}?ledger={postgres_url}"
    store = open_store(url)
    campaign = created(store, grid={"sizes": [30, 30]})
    run_wave(campaign, 1, start=0, count=30)
    assert campaign.verify().sound
    assert len(files(tmp_path / "lake")) == 3
    store.close()
    with refused("ledger-of-a-lake"):
        open_store(postgres_url)
    with refused("other-ledger"):
        open_store(f"lake:{tmp_path / 'lake'}")
    (tmp_path / "lake" / "ledger.txt").write_text("postgresql://elsewhere/x")
    with refused("other-ledger"):
        open_store(url)


def test_ids_are_found_by_the_million():
    """An index that grows, against a plain dictionary; ids of every length."""
    random = np.random.default_rng(0)
    texts = [f"{number:x}" * (number % 5) + "ü" + str(number) for number in range(20_000)]
    ids, known = Ids(), {}
    for start in range(0, 20_000, 3_000):
        some = texts[start : start + 3_000]
        numbers = random.integers(0, 2**32, len(some))
        assert ids.add(ids.hashes(pa.array(some)), numbers)
        known |= dict(zip(some, numbers.tolist(), strict=True))
    asked = [*texts[::7], "nobody", ""]
    assert ids.numbers(asked).tolist() == [known.get(text, -1) for text in asked]
    before = len(ids)
    assert not ids.add(ids.hashes(["new", texts[5]]), np.array([1, 2]))
    assert not ids.add(ids.hashes(["new", "newer", "new"]), np.array([1, 2, 3]))
    assert ids.numbers(["new", "newer", texts[5]]).tolist() == [-1, -1, known[texts[5]]]
    assert len(ids) == before


def test_a_close_reads_each_file_once(tmp_path, monkeypatch):
    store = open_store(f"lake:{tmp_path / 'lake'}")
    campaign = created(store, grid={"sizes": [60, 50, 10]}, features={"numeric": {"age": "learn"}})
    assert campaign.situation().spec.sums == "exact"
    run_wave(campaign, 1, start=0, count=60)
    campaign.record(outcomes(campaign.assign(units(50, start=60)).table))
    read, content = [], FileRows._content
    monkeypatch.setattr(FileRows, "_content", lambda rows: read.append(rows.kind) or content(rows))
    campaign.close()
    assert sorted(read) == ["decisions", "outcomes", "units"]
    store.close()


def test_columns_say_whether_something_is_missing():
    table = pa.table({"age": [1.5, None], "spend": [2.5, 3.5]})
    kept = pa.parquet.read_table(pa.BufferReader(_parquet(table)))
    assert [field.nullable for field in kept.schema] == [True, False]
    assert kept.to_pydict() == table.to_pydict()


def test_numbers_that_do_not_get_smaller_are_not_compressed():
    random = np.random.default_rng(0)
    measured, counted = random.standard_normal(5_000), random.integers(0, 90, 5_000) * 1.0
    table = pa.table({"id": [f"{n:06d}" for n in range(5_000)], "x": measured, "age": counted})
    file = pa.parquet.ParquetFile(pa.BufferReader(_parquet(table)))
    group = file.metadata.row_group(0)
    assert [group.column(place).compression for place in range(3)] == ["LZ4", "UNCOMPRESSED", "LZ4"]
    assert file.read().to_pydict() == table.to_pydict()


@pytest.fixture
def threads(monkeypatch):
    """Set how many threads work, on small pieces."""
    monkeypatch.setattr("seqbatch.campaign.files.reading.CHUNK", 256)

    def use(count):
        monkeypatch.setattr("seqbatch.campaign.files.parallel_pieces.workers", lambda: count)

    return use


def test_threads_change_nothing(threads, tmp_path):
    """The same answers, verdicts and estimates, to the bit, whoever works on which piece."""
    frame, found = units(1_500), []
    for count in (1, 4):
        threads(count)
        store = open_store(f"lake:{tmp_path / str(count)}")
        campaign = created(
            store, grid={"sizes": [1_500, 100]}, features={"numeric": {"age": "learn"}}
        )
        assert campaign.situation().spec.sums == "exact"
        campaign.assign(frame[300:900])
        # Some pieces have units of both kinds.
        table = campaign.assign(frame).table
        rows = outcomes(table)
        recorded = campaign.record(pl.concat([rows[400:], rows[:600]]))
        assert (recorded.accepted, recorded.duplicate) == (1_500, 200)
        campaign.close()
        assert campaign.verify().sound
        found.append((table, campaign.status().state))
        store.close()
    assert found[0] == found[1]


def test_a_thread_that_fails_leaves_nothing(threads, tmp_path, monkeypatch):
    from seqbatch.campaign.steps import assign

    threads(3)
    store = open_store(f"lake:{tmp_path / 'lake'}")
    campaign, decide = created(store, grid={"sizes": [1_500, 100]}), assign.decide

    def failing(now, policy, state, given, drawn):
        if given["id"][0].as_py() == "001024":
            raise RuntimeError("a piece that cannot be decided on")
        return decide(now, policy, state, given, drawn)

    monkeypatch.setattr(assign, "decide", failing)
    with pytest.raises(RuntimeError, match="cannot be decided on"):
        campaign.assign(units(1_500))
    assert files(tmp_path / "lake") == []
    monkeypatch.setattr(assign, "decide", decide)
    assert campaign.assign(units(1_500)).assigned == 1_500
    assert campaign.verify().sound
    store.close()


def test_a_lake_that_somebody_else_makes_is_no_strange_folder(tmp_path, monkeypatch):
    """Its ledger comes between two looks at the folder."""
    folder = tmp_path / "lake"
    looked = lake_store._ledgers

    def made_meanwhile(where):
        found = looked(where)
        if not found:
            monkeypatch.setattr(lake_store, "_ledgers", looked)
            open_store(f"lake:{folder}").close()
        return found

    monkeypatch.setattr(lake_store, "_ledgers", made_meanwhile)
    store = open_store(f"lake:{folder}")
    created(store)
    assert store.names() == ["spring"]
    store.close()
