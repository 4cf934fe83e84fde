"""Units that are erased: nothing of them is left, all else stays and can be verified."""

import os
import signal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy as sa

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import agreement, unpack, unpack_state
from seqbatch.errors import CampaignStateError
from seqbatch.storage import open_store
from seqbatch.storage.lake.store import LakeStore
from tests.campaign.instances import created, outcomes, run_wave, units
from tests.campaign.steps.test_delete import FORKS, refuses_deletion
from tests.campaign.views.test_verify import behind
from tests.refusals import refused

#: Units of both closed waves and of the open one, at the ends of chunks and inside; the last of
#: them was assigned alone, so that its record holds its id as plain bytes.
GONE = ["000000", "000007", "000008", "000299", "000300", "000503", "000590"]
ALONE = "000590"


def ids(names):
    return pl.DataFrame({"id": names})


def ran(store, **changes):
    """Run two waves and most of a third, with a held row of a stranger."""
    campaign = created(store, **changes)
    run_wave(campaign, 1, start=0, count=300)
    run_wave(campaign, 2, start=300, count=200)
    most = campaign.assign(units(90, start=500)).table
    alone = campaign.assign(units(1, start=590)).table
    campaign.record(outcomes(most, seed=3))
    campaign.record(outcomes(alone, seed=4))
    held = pl.DataFrame({"id": ["000007", "a stranger"], "visit": [5.0, 6.0]})
    campaign.record(held)
    return campaign


def everything(store, name="spring"):
    """Return all ids in a store's records and indexes, and all event texts."""
    found = set()
    with store.read(name) as reader:
        for chunk in reader.unit_chunks(given=True):
            found |= set(unpack(chunk.given).column(0).to_pylist())
        for chunk in reader.outcome_chunks():
            rows = unpack(chunk.rows)
            found |= set(rows["unit"].to_pylist() if "unit" in rows.column_names else ())
        found |= {unit for unit, _ in reader.number_index()}
        text = "".join(str(event) for event in reader.events())
    return found, text


def bytes_of(url):
    """Return the bytes of the store's files; of a server, nothing."""
    path = Path(url.removeprefix("lake:"))
    files = [path] if path.is_file() else path.rglob("*")
    return b"".join(file.read_bytes() for file in files if file.is_file())


def test_nothing_of_the_units_is_left(store_url, store):
    campaign = ran(store)
    found, _ = everything(store)
    assert {*GONE, "a stranger"} <= found
    if not store_url.startswith("postgres"):
        assert ALONE.encode() in bytes_of(store_url)
    made = campaign.erase(ids([*GONE, "a stranger", "nobody"]), reason="request 12")
    assert (made.units, made.before, made.unknown) == (7, 0, 2)
    # One outcome each, the conflict of 000007, and the row of the stranger.
    assert (made.rows, made.learned, made.estimates) == (9, 5, 2)
    found, text = everything(store)
    assert not found & {*GONE, "a stranger"}
    assert not [gone for gone in GONE if f"'{gone}'" in text]
    assert len(found) == 591 - 7
    assert ALONE.encode() not in bytes_of(store_url)
    event = campaign.events()[-1]
    assert (event.kind, event.why, event.who) == ("erase", "request 12", "ann")


def test_others_are_verified_and_what_cannot_be_is_said(store):
    campaign = ran(store)
    before = campaign.verify()
    campaign.erase(ids(GONE), reason="request 12")
    made = campaign.verify()
    assert made.sound
    assert made.units == before.units - len(GONE)
    assert made.states == before.states - 2
    [note] = made.notes
    assert note == (
        "7 units erased by event 13 (number 0, 7, 8, 299, 300, 503, 590); not computed again: "
        "2 estimates learned from them, whose hashes match"
    )
    again = campaign.erase(ids(GONE), reason="request 12")
    assert (again.units, again.before, again.event) == (0, 7, None)
    assert len(campaign.events()) == 13
    # The next waves go on, and are verified entirely.
    campaign.erase(ids(["000501"]), reason="request 13")
    with refused("too-many-units"):
        campaign.assign(units(20, start=2_000))
    campaign.assign(units(9, start=2_000))
    campaign.record(outcomes(campaign.assign(units(9, start=2_000)).table))
    closed = campaign.close()
    assert sum(closed.assigned.values()) == 100 - 3
    assert closed.observed == closed.assigned
    after = campaign.verify()
    assert after.sound
    assert after.states == made.states + 1


def test_damage_after_an_erasure_is_found(store_url):
    store = open_store(store_url)
    campaign = ran(store)
    campaign.erase(ids(GONE), reason="request 12")
    refuses_deletion(store, "unit_chunks")
    refuses_deletion(store, "erasures")
    with behind(store) as raw:
        raw.execute(sa.text("DELETE FROM unit_chunks WHERE first = 9"))
    assert any(found.event == 2 and "rows" in found.place for found in campaign.verify().findings)
    # A damaged record is not replaced: that would hide the damage.
    with refused("damaged"):
        campaign.erase(ids(["000001"]), reason="request 13")
    store.close()


def test_findings_leave_erased_units_out_and_say_so(store):
    campaign = ran(store)
    before = campaign.findings()
    campaign.erase(ids(["000503", "000590"]), reason="in the open wave")
    assert campaign.findings().lifts == before.lifts
    campaign.erase(ids(["000000", "000300"]), reason="in closed waves")
    after = campaign.findings()
    assert after.units == before.units - 2
    assert after.lifts != before.lifts
    assert after.lifts[0].interval.estimate == pytest.approx(
        before.lifts[0].interval.estimate, abs=0.05
    )
    [note] = [each for each in after.notes if "erased" in each]
    assert note.startswith("4 units erased; the estimates leave them out. Outcomes of 2 of them")
    # An amendment learns again from the rows, so the sums lose them too.
    campaign.close(force=True, reason="no more units")
    campaign.amend(reason="one more wave", sizes=[50])
    [note] = [each for each in campaign.findings().notes if "erased" in each]
    assert note == "4 units erased; the estimates leave them out."
    assert campaign.verify().sound


def test_a_wave_is_learned_without_its_erased_units(tmp_path):
    """The estimate is that of a campaign in which they have no outcome."""
    states = []
    for place, erases in enumerate((True, False)):
        store = open_store(tmp_path / f"{place}.db")
        campaign = created(store)
        run_wave(campaign, 1, start=0, count=300)
        table = outcomes(campaign.assign(units(200, start=300)).table, seed=2)
        gone = [f"{number:06d}" for number in (300, 333, 499)]
        if erases:
            campaign.record(table)
            campaign.erase(ids(gone), reason="request 12")
        else:
            campaign.record(table.filter(~pl.col("id").is_in(gone)))
        campaign.close()
        with store.read("spring") as reader:
            states.append(unpack_state(reader.last_state().content, campaign.situation()))
        assert campaign.verify().sound
        store.close()
    assert agreement(*states) < 1e-12


def test_an_erased_unit_gets_no_second_action_and_its_rows_are_not_kept(store):
    campaign = ran(store)
    table = campaign.assign(units(300)).table
    campaign.erase(ids(GONE), reason="request 12")
    with refused("erased-units", match="row 8, column 'id': is of an erased unit"):
        campaign.assign(units(300))
    assert campaign.assign(units(1, start=1)).repeated == 1
    again = campaign.record(outcomes(table, seed=1))
    assert (again.rows, again.duplicate, again.erased, again.event) == (296, 296, 4, None)
    assert "4 rows are of erased units, and not kept." in again.remarks
    assert campaign.verify().sound


def test_units_decided_together_are_not_replayed(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    campaign = ran(store, draw="balanced")
    campaign.erase(ids(["000007"]), reason="request 12")
    made = campaign.verify()
    assert made.sound
    assert made.units == 291
    assert "299 decisions made together with theirs" in made.notes[0]
    store.close()


def test_a_category_that_only_erased_units_had_is_not_left(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    campaign = created(store)
    rare = pl.when(pl.col("id") == "000007").then(pl.lit("a castle")).otherwise(pl.col("city"))
    table = campaign.assign(units(300).with_columns(rare.alias("city"))).table
    campaign.record(outcomes(table))

    def categories():
        with store.read("spring") as reader:
            columns = [
                column
                for chunk in reader.unit_chunks(given=True)
                for column in unpack(chunk.given).combine_chunks().columns
                if pa.types.is_dictionary(column.type)
            ]
        return {each for column in columns for each in column.chunk(0).dictionary.to_pylist()}

    assert "a castle" in categories()
    campaign.erase(ids(["000007"]), reason="request 12")
    assert categories() - {"urban", "rural"} == {f"c{number}" for number in range(30)}
    assert campaign.verify().sound
    store.close()


def test_looks_are_at_all_waves_so_none_after_an_erased_unit_is_computed_again(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    campaign = created(store, control="none", stopping={"rule": "obrien-fleming"})
    for wave, (start, count) in enumerate([(0, 300), (300, 200), (500, 100)], start=1):
        run_wave(campaign, wave, start=start, count=count)
        if campaign.status().condition == "stopped":
            campaign.go_on(reason="to see more")
    made = campaign.erase(ids(["000007"]), reason="request 12")
    assert made.estimates == 3
    again = campaign.verify()
    assert again.sound
    assert again.states == 1
    store.close()


def test_a_wave_without_a_unit_left_counts_as_skipped(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    campaign = ran(store)
    campaign.erase(ids([f"{number:06d}" for number in range(300)]), reason="a wrong list")
    assert campaign.findings().waves == (2,)
    campaign.close(force=True, reason="no more units")
    assert campaign.verify().sound
    store.close()


def test_what_is_refused(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    campaign = ran(store)
    with refused("invalid-argument", field="reason"):
        campaign.erase(ids(GONE), reason=" ")
    with refused("invalid-rows", match="column 'id': the file has no such column"):
        campaign.erase(pl.DataFrame({"customer": ["000001"]}), reason="request 12")
    with refused("invalid-rows", match="row 2, column 'id': is missing"):
        campaign.erase(ids(["000001", None]), reason="request 12")
    with pytest.raises(CampaignStateError):
        Campaign(store, "autumn").erase(ids(GONE), reason="request 12")
    assert campaign.situation().erased == 0
    store.close()


def killed_while_erasing(url, after):
    """Erase, and die by SIGKILL after some statements."""
    store = open_store(url)
    seen = []

    def count(_connection, _cursor, statement, *_rest):
        if statement.startswith(("INSERT", "DELETE")):
            seen.append(statement)
            if len(seen) == after:
                os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(store._engine, "after_cursor_execute", count)
    if after == 0:
        # After the commit, before the bytes are removed.
        store.scrub = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    Campaign(store, "spring").erase(ids(GONE), reason="request 12")


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1, 5, 10, 15, 20, 25])
def test_an_erasure_that_is_killed_leaves_all_or_nothing(store_url, after):
    store = open_store(store_url)
    ran(store)
    store.close()
    process = FORKS.Process(target=killed_while_erasing, args=(store_url, after))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    store = open_store(store_url)
    campaign = Campaign.open("spring", store=store)
    assert campaign.verify().sound
    assert campaign.situation().erased == (len(GONE) if after == 0 else 0)
    # The same call again removes what is left.
    campaign.erase(ids(GONE), reason="request 12")
    assert campaign.situation().erased == len(GONE)
    assert not everything(store)[0] & set(GONE)
    assert ALONE.encode() not in bytes_of(store_url)
    if isinstance(store, LakeStore):
        with store.read("spring") as reader:
            listed = reader._listed()
        folder = Path(store_url.removeprefix("lake:"))
        assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")} == listed
    store.close()
