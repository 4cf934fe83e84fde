"""A schema that was changed is named, on every kind of store; an unchanged one never is."""

import pytest

from seqbatch.storage import open_store
from tests.campaign.instances import created

INDEXES = [
    (["DROP INDEX unit_chunks_first"], {"index unit_chunks_first": "is missing"}),
    (
        ["DROP INDEX unit_chunks_first", "CREATE INDEX unit_chunks_first ON unit_chunks (first)"],
        {"index unit_chunks_first": "was changed"},
    ),
    (["CREATE UNIQUE INDEX more ON outcomes (number)"], {"index more": "does not belong"}),
    (
        ["INSERT INTO migrations VALUES ('0010', '1.0', '2030-01-01T00:00:00+00:00')"],
        {"migration to 0010": "must be to one of 0008, 0009"},
    ),
]
ON_SQLITE = [
    *INDEXES,
    (["DROP TRIGGER events_no_UPDATE"], {"trigger events_no_UPDATE": "is missing"}),
    (
        [
            "DROP TRIGGER events_no_DELETE",
            "CREATE TRIGGER events_no_DELETE BEFORE DELETE ON events WHEN 0 "
            "BEGIN SELECT RAISE(ABORT, 'events is append-only'); END",
        ],
        {"trigger events_no_DELETE": "was changed"},
    ),
    (
        ["CREATE TRIGGER more AFTER INSERT ON outcomes BEGIN DELETE FROM folds; END"],
        {"trigger more": "does not belong"},
    ),
    (
        ["CREATE TABLE copy AS SELECT * FROM folds", "DROP TABLE folds",
         "ALTER TABLE copy RENAME TO folds"],
        {"primary key of folds": "is missing"},
    ),
    (
        ["DROP TRIGGER migrations_no_DELETE", "DELETE FROM migrations"],
        {"migration to 0009": "is missing", "trigger migrations_no_DELETE": "is missing"},
    ),
    (
        ["DROP TRIGGER migrations_no_UPDATE", "UPDATE migrations SET at = 5"],
        {"migration to 0009": "ISO", "trigger migrations_no_UPDATE": "is missing"},
    ),
    (
        ["DROP TRIGGER migrations_no_UPDATE", "UPDATE migrations SET version = ''"],
        {"migration to 0009": "version", "trigger migrations_no_UPDATE": "is missing"},
    ),
]  # fmt: skip
ON_POSTGRES = [
    *INDEXES,
    (["DROP TRIGGER events_kept ON events"], {"trigger events_kept": "is missing"}),
    (
        ["ALTER TABLE events DISABLE TRIGGER events_append_only"],
        {"trigger events_append_only": "disabled"},
    ),
    (
        ["ALTER TABLE events ENABLE REPLICA TRIGGER events_append_only"],
        {"trigger events_append_only": "disabled"},
    ),
    (
        ["CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
         "$$ BEGIN RETURN NULL; END $$"],
        {"function refuse_change": "was changed"},
    ),
    (
        ["CREATE TRIGGER more BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION "
         "refuse_outcomes()"],
        {"trigger more": "does not belong"},
    ),
    (
        ["ALTER TABLE events DROP CONSTRAINT events_campaign_previous_key"],
        {"unique key of events (campaign, previous)": "is missing"},
    ),
    (
        ["ALTER TABLE outcome_rows DROP CONSTRAINT outcome_rows_pkey"],
        {"primary key of outcome_rows": "is missing"},
    ),
]  # fmt: skip


def found_after(store, campaign, statements):
    """Return what verify finds after a change of the schema."""
    with store._engine.begin() as raw:
        for statement in statements:
            raw.exec_driver_sql(statement)
    verified = campaign.verify()
    assert not verified.sound
    assert all(str(each).startswith("schema, ") for each in verified.findings)
    return {each.place: each.problem for each in verified.findings}


def same(found, wanted):
    return found.keys() == wanted.keys() and all(wanted[key] in found[key] for key in wanted)


@pytest.mark.parametrize(("statements", "wanted"), ON_SQLITE)
@pytest.mark.parametrize("kind", ["", "lake:"])
def test_a_changed_schema_is_named(tmp_path, kind, statements, wanted):
    store = open_store(f"{kind}{tmp_path / 'store'}")
    campaign = created(store)
    assert campaign.verify().sound
    assert same(found_after(store, campaign, statements), wanted)
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(("statements", "wanted"), ON_POSTGRES)
def test_a_changed_schema_is_named_on_postgres(postgres_url, statements, wanted):
    store = open_store(postgres_url)
    campaign = created(store)
    assert campaign.verify().sound
    assert same(found_after(store, campaign, statements), wanted)
    store.close()


def test_a_table_of_migrations_that_is_gone_is_named(tmp_path):
    store = open_store(tmp_path / "c.db")
    campaign = created(store)
    found = found_after(store, campaign, ["DROP TABLE migrations"])
    assert found["table migrations"] == "is missing"
    store.close()


def test_verify_writes_nothing(tmp_path):
    store = open_store(tmp_path / "c.db")
    campaign = created(store)
    before = (tmp_path / "c.db").read_bytes()
    assert campaign.verify().sound
    assert (tmp_path / "c.db").read_bytes() == before
    store.close()
