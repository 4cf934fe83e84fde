"""One byte changed anywhere, and verify names it."""

import shutil
import sqlite3

import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.events import digest
from seqbatch.storage import open_store
from seqbatch.storage.schema import metadata
from tests.campaign.instances import created, outcomes, run_wave, units


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
    raw.execute(f"DROP TRIGGER {table}_no_UPDATE")
    [(before,)] = raw.execute(f'SELECT "{column}" FROM {table} WHERE {where}').fetchall()
    after = change(before)
    assert after != before
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
    import numpy as np

    from seqbatch.campaign.record.codec import pack, unpack
    from seqbatch.campaign.record.events import hash_of

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
