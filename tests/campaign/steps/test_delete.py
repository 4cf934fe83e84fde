"""Campaigns that are deleted: all or nothing, a tombstone that stays, a name that is free."""

import multiprocessing
import os
import signal
import threading

import pytest
import sqlalchemy as sa

from seqbatch.campaign import Campaign
from seqbatch.errors import CampaignStateError, StoreError
from seqbatch.storage import open_store
from tests.campaign.instances import created, outcomes, units
from tests.campaign.views.test_verify import behind
from tests.refusals import refused

# One process imports what those that are killed need, and forks them.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["pytest", "polars", "psycopg", "seqbatch.campaign", "seqbatch.storage"]
)


def test_a_tombstone_remains_and_the_name_is_free(store):
    other = created(store, name="autumn")
    campaign = created(store)
    campaign.assign(units(300))
    last = campaign.events()[-1].hash
    with refused("has-units", match="300 units"):
        campaign.delete(reason="a wrong list")
    tombstone = campaign.delete(reason="a wrong list", force=True)
    assert (tombstone.name, tombstone.events, tombstone.units) == ("spring", 2, 300)
    assert (tombstone.last, tombstone.who, tombstone.why) == (last, "ann", "a wrong list")
    assert store.tombstones() == [tombstone]
    assert store.names() == ["autumn"]
    with refused("unknown-campaign"):
        campaign.status()
    again = created(store)
    assert again.situation().sequence == 1
    assert again.assign(units(300)).assigned == 300
    again.record(outcomes(again.assign(units(300)).table))
    assert again.verify().sound
    assert other.verify().sound
    second = other.delete(reason="no longer wanted")
    assert second.previous == tombstone.hash
    assert [each.name for each in store.tombstones()] == ["spring", "autumn"]


def test_numbers_are_never_used_again(store):
    """Or else an old tombstone would let the rows of a new campaign be deleted."""
    numbers = []
    for _ in range(3):
        campaign = created(store)
        with store.read("spring") as reader:
            numbers.append(reader.number)
        campaign.delete(reason="once more")
    assert len(set(numbers)) == 3
    created(store)
    refuses_deletion(store, "events")


def refuses_deletion(store, table):
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), store._engine.begin() as raw:
        raw.execute(sa.text(f"DELETE FROM {table}"))


def test_what_was_seen_is_not_deleted(store):
    campaign = created(store)
    campaign.record(outcomes(campaign.assign(units(300)).table))
    with refused("has-outcomes"):
        campaign.delete(reason="not what was hoped for")
    campaign.abort(reason="a complaint")
    with refused("has-outcomes"):
        campaign.delete(reason="not what was hoped for", force=True)
    assert campaign.verify().sound
    # Nor by hand: the database itself refuses the tombstone that would allow it.
    with store.read("spring") as reader:
        number = reader.number
    with pytest.raises(sa.exc.DBAPIError, match="has outcomes"), store._engine.begin() as raw:
        raw.execute(sa.text(
            "INSERT INTO tombstones (campaign, name, events, units, last, at, who, why, previous, "
            f"hash) VALUES ({number}, 'spring', 1, 1, '', '', '', '', '', '')"
        ))  # fmt: skip
    with refused("invalid-argument", field="reason"):
        campaign.delete(reason=" ")


def test_verify_looks_at_tombstones(store_url):
    store = open_store(store_url)
    for name in ("one", "two"):
        created(store, name=name).delete(reason="a trial", force=True)
    campaign = created(store)
    assert campaign.verify().sound
    with behind(store) as raw:
        raw.execute(sa.text("UPDATE tombstones SET why = 'other' WHERE name = 'one'"))
    [found] = campaign.verify().findings
    assert str(found) == "index, tombstone of campaign 'one': does not match its hash"
    with behind(store) as raw:
        raw.execute(sa.text("DELETE FROM tombstones WHERE name = 'one'"))
    [found] = campaign.verify().findings
    assert str(found) == "index, tombstone of campaign 'two': the tombstone before it is missing"
    store.close()


def killed_while_deleting(url, after):
    """Delete, and die by SIGKILL after some statements."""
    store = open_store(url)
    seen = []

    def count(_connection, _cursor, statement, *_rest):
        if statement.startswith(("INSERT INTO tombstones", "DELETE")):
            seen.append(statement)
            if len(seen) == after:
                os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(store._engine, "after_cursor_execute", count)
    Campaign(store, "spring").delete(reason="a trial", force=True)


@pytest.mark.slow
@pytest.mark.parametrize("after", range(1, 8))
def test_a_deletion_that_is_killed_leaves_all_or_nothing(store_url, after):
    store = open_store(store_url)
    created(store).assign(units(300))
    store.close()
    process = FORKS.Process(target=killed_while_deleting, args=(store_url, after))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    store = open_store(store_url)
    assert store.tombstones() == []
    campaign = Campaign.open("spring", store=store)
    assert campaign.verify().sound
    assert campaign.verify().units == 300
    campaign.delete(reason="a trial", force=True)
    assert store.names() == []
    store.close()


@pytest.mark.slow
def test_who_waits_for_a_campaign_that_is_deleted_is_told(postgres_url):
    store = open_store(postgres_url)
    campaign = created(store)
    told = []

    def assign():
        try:
            campaign.assign(units(300))
        except (CampaignStateError, StoreError) as error:
            told.append(str(error))

    with store.change("spring") as change:
        waiting = threading.Thread(target=assign)
        waiting.start()
        waiting.join(1.0)
        assert waiting.is_alive()
        campaign._logbook.bury(change, campaign.situation(), why="a trial")
    waiting.join()
    assert "has no campaign 'spring'" in told[0]
    store.close()
