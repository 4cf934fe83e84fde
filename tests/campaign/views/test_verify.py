"""One byte changed anywhere, and verify names it."""

import json
import shutil
import sqlite3
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy as sa

from seqbatch.campaign import Campaign
from seqbatch.campaign.record import events
from seqbatch.campaign.record.codec import pack, unpack
from seqbatch.campaign.record.events import canonical, digest, hash_of, sealed
from seqbatch.campaign.record.store import Tombstone
from seqbatch.storage import open_store
from seqbatch.storage.schema import metadata
from tests.campaign.instances import created, outcomes, run_wave, units, without_triggers
from tests.campaign.specs import about


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A campaign with two closed waves, late and corrected outcomes, and an open wave."""
    path = tmp_path_factory.mktemp("sound") / "c.db"
    store = open_store(path)
    campaign = created(store)
    run_wave(campaign, 1, start=0, count=300)
    table = campaign.assign(units(200, start=300)).table
    rows = outcomes(table, seed=2)
    campaign.record(rows[:190])
    campaign.record(rows[:1].with_columns(visit=rows["visit"][:1] + 1), correct=True, reason="typo")
    campaign.close()
    campaign.record(rows[190:])
    campaign.assign(units(60, start=500))
    assert campaign.verify().sound
    store.close()
    return path


def damaged(sound, tmp_path, table, column, where, change):
    """Change one value behind the triggers' back; return what verify finds."""
    path = tmp_path / "damaged.db"
    shutil.copyfile(sound, path)
    raw = sqlite3.connect(path)
    raw.text_factory = lambda text: text.decode(errors="surrogateescape")
    [(before,)] = raw.execute(f'SELECT "{column}" FROM {table} WHERE {where}').fetchall()
    after = change(before)
    assert after != before
    with without_triggers(raw):
        raw.execute(f'UPDATE {table} SET "{column}" = ? WHERE {where}', (after,))
    raw.commit()
    raw.close()
    store = open_store(path)
    try:
        return Campaign(store, store.names()[0]).verify()
    finally:
        store.close()


def one_byte(place):
    def change(value):
        if isinstance(value, int):
            return value ^ 1024
        if isinstance(value, float):
            return value + 1e-9
        raw = bytearray(value.encode() if isinstance(value, str) else value)
        if not raw:
            return "x" if isinstance(value, str) else b"x"
        raw[int(place * (len(raw) - 1))] ^= 1
        return raw.decode(errors="surrogateescape") if isinstance(value, str) else bytes(raw)

    return change


ROWS = {
    "campaigns": "id = 1",
    "events": "sequence = 4",
    "unit_chunks": "chunk = 1",
    "outcome_chunks": "chunk = 1",
    "states": "event = 4",
    "assignments": "unit = '000123'",
    "outcomes": "number = 123",
}
CELLS = [
    (table, column.name)
    for table in sorted(ROWS)
    for column in metadata.tables[table].c
    if (table, column.name) != ("campaigns", "id") and column.name != "campaign"
]


@pytest.mark.parametrize(("table", "column"), CELLS, ids=lambda value: str(value))
def test_one_byte_in_any_column_is_named(sound, tmp_path, table, column):
    found = damaged(sound, tmp_path, table, column, ROWS[table], one_byte(0.5))
    assert not found.sound
    named = {finding.event for finding in found.findings}
    text = " ".join(str(finding) for finding in found.findings)
    if table == "assignments":
        assert "000123" in text
    elif table == "outcomes":
        assert "unit number 12" in text
    elif table == "campaigns":
        assert "the store has" in text
    else:
        owner = {"events": 4, "unit_chunks": 5, "outcome_chunks": 6, "states": 4}[table]
        # A number of a record that was changed may lead to its neighbour as well.
        assert named & {owner, owner + 1}


@pytest.mark.slow
@pytest.mark.parametrize("place", [0.0, 0.1, 0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize(("table", "column"), [
    ("unit_chunks", "given"), ("unit_chunks", "decided"), ("outcome_chunks", "rows"),
    ("states", "content"), ("events", "payload"), ("events", "counts"),
])  # fmt: skip
def test_one_byte_anywhere_in_a_record(sound, tmp_path, table, column, place):
    found = damaged(sound, tmp_path, table, column, ROWS[table], one_byte(place))
    assert not found.sound


def test_a_decision_that_was_signed_but_not_made_is_named(sound, tmp_path):
    """Hashes made to fit a forged decision do not make it what the policy decides."""
    path = tmp_path / "forged.db"
    shutil.copyfile(sound, path)
    store = open_store(path)
    with store.read("spring") as reader:
        [chunk] = reader.unit_chunks(given=True, chunks=[1])
    table = unpack(chunk.decided)
    actions = table["action"].to_numpy().copy()
    unit = unpack(chunk.given)["id"][17].as_py()
    actions[17] = (actions[17] + 1) % 3
    forged = table.set_column(0, "action", [np.asarray(actions)])
    decided = pack(forged)
    hashed = hash_of("spring", type(chunk)(**{**vars(chunk), "decided": decided}))
    store.close()
    raw = sqlite3.connect(path)
    raw.execute("DROP TRIGGER unit_chunks_no_UPDATE")
    raw.execute("UPDATE unit_chunks SET decided = ?, hash = ? WHERE chunk = 1", (decided, hashed))
    raw.commit()
    raw.close()
    store = open_store(path)
    found = Campaign(store, "spring").verify()
    store.close()
    assert any(finding.place == f"unit {unit!r}" for finding in found.findings)


def test_a_row_that_is_gone_is_named(sound, tmp_path):
    path = tmp_path / "gone.db"
    shutil.copyfile(sound, path)
    raw = sqlite3.connect(path)
    raw.execute("DROP TRIGGER assignments_no_DELETE")
    raw.execute("DROP TRIGGER outcomes_no_DELETE")
    raw.execute("DELETE FROM assignments WHERE unit = '000007'")
    raw.execute("DELETE FROM outcomes WHERE number = 9")
    raw.commit()
    raw.close()
    store = open_store(path)
    text = " ".join(str(finding) for finding in Campaign(store, "spring").verify().findings)
    store.close()
    assert "unit '000007': is not in the index" in text
    assert "unit number 9, version 1: the index has nothing" in text


def test_rows_that_only_an_index_has_are_named(sound, tmp_path):
    path = tmp_path / "surplus.db"
    shutil.copyfile(sound, path)
    raw = sqlite3.connect(path)
    raw.execute("INSERT INTO assignments VALUES (1, 'stranger', 560)")
    # A second version of one unit's outcome, another's absence, and first ones of those without.
    rows = [(9, 2), (10, 0), *((number, 1) for number in range(500, 530))]
    raw.executemany("INSERT INTO outcomes VALUES (1, ?, ?, 0.25, x'', 5)", rows)
    raw.commit()
    raw.close()
    store = open_store(path)
    found = [str(finding) for finding in Campaign(store, "spring").verify().findings]
    store.close()
    said = "0.25 of event 5 is in the index but was never recorded"
    assert "index, unit 'stranger': is in the index but was never assigned" in found
    assert f"index, outcome of unit number 9, version 2: {said}" in found
    assert f"index, outcome of unit number 10, version 0: {said}" in found
    assert f"index, outcome of unit number 500, version 1: {said}" in found
    assert sum(said in text for text in found) == 20


def test_hashes_tell_neighbours_apart():
    assert digest(b"ab", b"c") != digest(b"a", b"bc")
    assert digest(b"ab", b"") != digest(b"", b"ab")


# ----------------------------------------------------------------------
# Forged with hashes that fit, on every kind of store.


TINY = {
    "name": "tiny", "seed": 1, "unit": "id", "actions": ["a", "b"], "grid": {"sizes": [6, 6]},
    **about("y", range=[0, 1], rows="sum", row_id="sale"), "randomised": 0.5,
    "features": {"numeric": {"x": "raw"}},
}  # fmt: skip
ROWS_OF_TINY = pl.DataFrame({"id": list("uvwxyz"), "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})


@pytest.fixture
def tiny(store):
    campaign = Campaign.create(TINY, store=store)
    campaign.assign(ROWS_OF_TINY)
    rows = pl.DataFrame({"id": ["u", "v"], "sale": ["s1", "s2"], "y": [0.5, 0.25]})
    campaign.record(rows)
    campaign.record(rows[:1].with_columns(y=0.75), correct=True, reason="typo")
    assert campaign.verify().sound
    return campaign


@contextmanager
def behind(store):
    """Change tables behind the triggers' back, and forget what this process remembers."""
    with store._engine.begin() as raw:
        if store._engine.dialect.name == "sqlite":
            with without_triggers(raw):
                yield raw
        else:
            raw.execute(sa.text("SET session_replication_role = replica"))
            yield raw
    events._remembered.clear()


def found_in(campaign, place):
    return [each.problem for each in campaign.verify().findings if each.place == place]


def forge_fold(campaign, change):
    """Change the stored fold, with a hash that fits."""
    with campaign.store.read(campaign.name) as reader:
        fold, newest = reader.fold(), reader.last_event().hash
    plain = json.loads(fold.content)
    change(plain)
    content = canonical(plain)
    with behind(campaign.store) as raw:
        row = {"content": content, "hash": digest(newest.encode(), content.encode())}
        raw.execute(metadata.tables["folds"].update().values(**row))


def test_a_forged_range_in_the_fold_is_named(tiny):
    forge_fold(tiny, lambda plain: plain["spec"]["metrics"]["y"].update(range=[0, 1000]))
    assert found_in(tiny, "fold") == ["the events give other values of spec"]
    # It was in force all the same; what it let in is named too.
    late = pl.DataFrame({"id": ["w"], "sale": ["s3"], "y": [500.0]})
    assert tiny.record(late).accepted == 1
    assert found_in(tiny, "fold") == ["the events give other values of spec"]
    [problem] = found_in(tiny, "outcome of unit number 2")
    assert problem == "y is 500, outside the declared range 0 to 1, but was accepted"


def test_a_forged_retirement_in_the_fold_is_named(tiny):
    forge_fold(tiny, lambda plain: plain.update(retired=[1], conflicts=True))
    assert found_in(tiny, "fold") == ["the events give other values of conflicts, retired"]


def test_a_fold_that_is_gone_or_old_is_named(tiny):
    folds = metadata.tables["folds"]
    with behind(tiny.store) as raw:
        raw.execute(folds.update().values(hash="0"))
    assert found_in(tiny, "fold") == ["its hash is not that of its content"]
    with behind(tiny.store) as raw:
        raw.execute(folds.update().values(event=3))
    assert found_in(tiny, "fold") == ["is of event 3, the newest is 4"]
    with behind(tiny.store) as raw:
        raw.execute(folds.update().values(content="{"))
        raw.execute(folds.update().values(event=4))
    assert found_in(tiny, "fold") == ["is damaged and cannot be read"]
    with behind(tiny.store) as raw:
        raw.execute(folds.delete())
    assert found_in(tiny, "fold") == ["is missing"]


def test_a_fold_with_another_hash_is_not_used(tiny):
    forge_fold(tiny, lambda plain: plain.update(hash="0" * 40, conflicts=9))
    assert tiny.situation().conflicts == 0
    assert tiny.seal().hash == tiny.events()[-1].hash


def test_a_fold_of_an_earlier_version_may_lack_fields(tiny, monkeypatch):
    # One that nothing has filled yet may be missing whatever the version.
    forge_fold(tiny, lambda plain: plain.pop("explored"))
    assert tiny.verify().sound
    forge_fold(tiny, lambda plain: plain.pop("declared"))
    assert found_in(tiny, "fold") == ["the events give other values of declared"]
    monkeypatch.setattr("seqbatch.campaign.views.verify_checks.software", lambda: "9.9")
    assert tiny.verify().sound


def test_ids_that_only_an_index_has_are_named(tiny):
    if tiny.store.defaults:
        pytest.skip("a lake has no such rows")
    with tiny.store.read("tiny") as reader:
        mine = {"campaign": reader.number}
    names = metadata.tables["assignments"], metadata.tables["outcome_rows"]
    with behind(tiny.store) as raw:
        # As many rows as before: one unit's is gone, and a stranger has its number.
        raw.execute(names[0].delete().where(names[0].c.unit == "w"))
        raw.execute(names[0].insert().values(**mine, unit="stranger", number=2))
        row = {"key": "sale|s9", "version": 1, "number": 3, "content": bytes(24), "event": 3}
        raw.execute(names[1].insert().values(**mine, **row))
    assert found_in(tiny, "unit 'w'") == ["is not in the index"]
    assert found_in(tiny, "unit 'stranger'") == ["is in the index but was never assigned"]
    assert found_in(tiny, "rows") == ["4 are in the index, 3 were recorded"]
    said = "of event 3 is in the index but was never recorded"
    assert found_in(tiny, "row 'sale|s9', version 1") == [said]


def forged(campaign, chunk, **columns):
    """Change columns of a recorded chunk, with a hash that fits."""
    with campaign.store.read(campaign.name) as reader:
        found = list(reader.outcome_chunks())[chunk]
    rows = unpack(found.rows)
    for name, values in columns.items():
        kind = rows.schema.field(name).type
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(values, kind))
    store_rows(campaign.store, found, rows=pack(rows))


def test_an_outcome_that_its_rows_do_not_give_is_named(tiny):
    with tiny.store.read("tiny") as reader:
        sizes = [chunk.count for chunk in reader.outcome_chunks()]
    assert sizes == [2, 2, 1, 1]
    # The second chunk has the outcomes of the first.
    forged(tiny, 1, value=[0.5, 1.0])
    assert found_in(tiny, "outcome of unit number 1") == ["its rows give 0.25, the record has 1.0"]


def test_a_row_that_was_changed_is_named(tiny):
    forged(tiny, 0, value=[0.5, 1.0])
    assert found_in(tiny, "outcome of unit number 1") == ["its rows give 1.0, the record has 0.25"]
    if not tiny.store.defaults:
        said = ["the index has version 1 with other content"]
        assert found_in(tiny, "row 'sale|s2', version 1") == said


def test_a_row_that_an_index_lacks_is_named(tiny):
    if tiny.store.defaults:
        pytest.skip("a lake has no such rows")
    table = metadata.tables["outcome_rows"]
    with behind(tiny.store) as raw:
        raw.execute(table.delete().where(table.c.key == "sale|s2"))
    assert found_in(tiny, "row 'sale|s2', version 1") == ["is not in the index"]
    assert found_in(tiny, "rows") == ["2 are in the index, 3 were recorded"]


def test_a_tombstone_of_a_campaign_that_exists_is_named(tiny):
    with tiny.store.read("tiny") as reader:
        number = reader.number
    made = Tombstone(
        campaign=number, name="tiny", events=1, units=0, last="", at="2030-01-01T00:00:00+00:00",
        who="eve", why="", previous="", hash="",
    )  # fmt: skip
    with behind(tiny.store) as raw:
        row = vars(sealed("tiny", made))
        raw.execute(metadata.tables["tombstones"].insert().values(**row))
    assert found_in(tiny, "tombstone of campaign 'tiny'") == ["the campaign exists"]


def test_numbers_are_told_plainly(tmp_path):
    """Nothing in a finding looks like Python's way to write numbers of NumPy."""
    store = open_store(tmp_path / "c.db")
    metrics = {name: {"range": [-9, 9]} for name in ("y", "cost")}
    objective = {"maximise": {"y": 1, "cost": -1}}
    spec = {**TINY, "metrics": metrics, "objective": objective}
    campaign = Campaign.create(spec, store=store)
    campaign.assign(ROWS_OF_TINY)
    campaign.record(pl.DataFrame({"id": ["u"], "y": [1.5], "cost": [0.5]}))
    with store.read("tiny") as reader:
        [units_chunk], [chunk] = reader.unit_chunks(given=True), reader.outcome_chunks()
    rows, decided = unpack(chunk.rows), unpack(units_chunk.decided)
    rows = rows.set_column(rows.column_names.index("value"), "value", [np.array([2.5])])
    decided = decided.set_column(1, "score", pa.chunked_array([np.arange(6.0)]))
    store_rows(store, chunk, rows=pack(rows))
    store_rows(store, units_chunk, decided=pack(decided))
    told = [str(finding) for finding in campaign.verify().findings]
    assert any("the reward is 2.5, but its metrics add up to 1.0" in text for text in told)
    assert any("with 3.0" in text for text in told)
    assert not any("np." in text for text in told)
    store.close()


def store_rows(store, chunk, **content):
    """Change the rows of a chunk, with a hash that fits."""
    table = metadata.tables["unit_chunks" if "decided" in content else "outcome_chunks"]
    row = {**content, "hash": hash_of("tiny", replace(chunk, **content))}
    with behind(store) as raw:
        raw.execute(table.update().where(table.c.chunk == chunk.chunk).values(**row))
