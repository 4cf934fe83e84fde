"""Copies of stores: every kind to every other, in use, interrupted, damaged."""

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from seqbatch.campaign import Campaign
from seqbatch.cli.app import app
from seqbatch.storage import copy_store, copying, open_store, schema, tokens
from seqbatch.storage.copying import TABLES
from tests.campaign.instances import SPEC, units
from tests.refusals import refused

NOT_COPIED = {"migrations", "sessions"}


def lived_in(store):
    """Fill a store with a campaign in its second wave, a deleted one, and a token."""
    gone = Campaign.create({**SPEC, "name": "gone"}, store=store, who="ann")
    gone.delete(reason="a trial")
    campaign = Campaign.create(SPEC, store=store, who="ann")
    campaign.assign(units(300))
    campaign.record(units(300).select("id").with_columns(visit=0.5))
    campaign.close()
    campaign.assign(units(50, start=300))
    tokens.create(store, "shop", role="operator")
    return campaign


def opened(kind, folder, name, request):
    if kind == "postgresql":
        return open_store(request.getfixturevalue("postgres_url"))
    return open_store(f"lake:{folder / name}" if kind == "lake" else folder / f"{name}.db")


def same(one, other):
    """Whether both stores hold the same events, and the same decisions."""
    return [(event.hash, event.payload) for event in one.events()] == [
        (event.hash, event.payload) for event in other.events()
    ]


PAIRS = [
    ("sqlite", "sqlite"), ("sqlite", "lake"), ("lake", "lake"),
    pytest.param("sqlite", "postgresql", marks=pytest.mark.slow),
    pytest.param("postgresql", "sqlite", marks=pytest.mark.slow),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_a_copy_is_the_same_campaign_and_goes_on(kind, other, tmp_path, request):
    source = opened(kind, tmp_path, "a", request)
    target = opened(other, tmp_path, "b", request)
    campaign = lived_in(source)
    made = copy_store(source, target)
    assert made.campaigns == ("spring",)
    assert (made.files > 0) == (kind == "lake")
    copied = Campaign.open("spring", store=target)
    assert same(campaign, copied)
    assert copied.verify().sound, copied.verify().findings
    assert target.tombstones() == source.tombstones()
    assert [token.name for token in tokens.listed(target)] == ["shop"]
    # Both go on alike: known units keep their actions, and new ones get the same.
    more = units(150, start=270)
    both = [one.assign(more).table["action"].to_pylist() for one in (campaign, copied)]
    assert both[0] == both[1]
    assert copied.verify().sound
    with refused("not-empty"):
        copy_store(source, target)
    for store in (source, target):
        store.close()


def test_rows_in_files_are_copied_to_lakes_alone(tmp_path):
    source, target = open_store(f"lake:{tmp_path / 'lake'}"), open_store(tmp_path / "b.db")
    lived_in(source)
    with refused("lake-to-other"):
        copy_store(source, target)
    assert target.names() == []


def test_every_table_is_copied_or_left_out_on_purpose():
    copied = {table.name for table in TABLES}
    assert copied | NOT_COPIED == set(schema.metadata.tables)
    assert not copied & NOT_COPIED


def test_a_difference_leaves_the_target_empty(tmp_path):
    source, target = open_store(tmp_path / "a.db"), open_store(tmp_path / "b.db")
    lived_in(source)
    # A target that changes what it is given.
    with target.transaction(write=True) as connection:
        connection.execute(sa.text(
            "CREATE TRIGGER other AFTER INSERT ON folds BEGIN "
            "UPDATE folds SET hash = 'x' WHERE campaign = NEW.campaign; END"
        ))  # fmt: skip
    with refused("copy-differs"):
        copy_store(source, target)
    assert target.names() == []
    assert target.tombstones() == []


@pytest.mark.slow
def test_a_copy_is_of_one_moment(tmp_path, postgres_url, monkeypatch):
    """What is recorded while a copy is being made is not in it, not even in part."""
    source, target = open_store(postgres_url), open_store(tmp_path / "b.db")
    campaign = lived_in(source)
    before, plain = [event.hash for event in campaign.events()], copying._copied

    def meanwhile(table, reading, writing):
        if table is schema.unit_chunks:
            campaign.assign(units(60, start=340))
        return plain(table, reading, writing)

    monkeypatch.setattr(copying, "_copied", meanwhile)
    copy_store(source, target)
    copied = Campaign.open("spring", store=target)
    assert [event.hash for event in copied.events()] == before
    assert len(campaign.events()) == len(before) + 1
    assert copied.verify().sound
    source.close()
    target.close()


def test_the_commands_copy_and_check(tmp_path):
    source = open_store(tmp_path / "a.db")
    lived_in(source)
    run = CliRunner().invoke
    words = ["store", "copy", str(tmp_path / "a.db"), str(tmp_path / "b.db")]
    done = run(app, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert "Copied 1 campaign" in done.output
    checked = run(app, ["store", "check", "--store", str(tmp_path / "b.db")])
    assert checked.exit_code == 0
    assert "sound" in checked.output
    assert run(app, words).exit_code == 3
    copied = open_store(tmp_path / "b.db")
    with copied.transaction(write=True) as connection:
        connection.execute(sa.text("DROP TRIGGER events_no_update"))
        connection.execute(sa.text("UPDATE events SET why = 'other' WHERE sequence = 2"))
    checked = run(app, ["store", "check", "--store", str(tmp_path / "b.db")])
    assert checked.exit_code == 1
    assert "NOT sound" in checked.output
