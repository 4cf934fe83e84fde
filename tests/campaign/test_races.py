"""Two processes at once: one winner, and the other gets the stored answer or a clear conflict."""

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.decisions import Decided
from seqbatch.errors import CampaignStateError
from seqbatch.storage import open_store
from tests.campaign.crashing import Nursery, order
from tests.campaign.instances import created, outcomes, units

RACES = 6


def races(url, most=RACES):
    """Return how many races a store has to stand: a lake is one of the others with files."""
    return 2 if url.startswith("lake:") else most


@pytest.fixture(scope="module")
def nursery():
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def files(tmp_path):
    """Two files of units that overlap, and one of outcomes for all of them."""
    everyone = units(40)
    everyone[:30].write_parquet(tmp_path / "a.parquet")
    everyone[10:].write_parquet(tmp_path / "b.parquet")
    answered = pl.DataFrame({"id": everyone["id"], "action": ["mail"] * 40})
    outcomes(answered.to_arrow()).write_parquet(tmp_path / "o.parquet")
    return tmp_path


def one_action_each(folder):
    """Check that both answers agree; return them together."""
    a, b = (pl.read_parquet(folder / f"out-{side}.parquet") for side in "ab")
    both = a.join(b, on="id", suffix="_b")
    assert len(both) == 20
    assert both["action"].equals(both["action_b"].rename("action"))
    assert both["probability"].equals(both["probability_b"].rename("probability"))
    return pl.concat([a, b]).unique(subset="id")


@pytest.mark.slow
def test_assigning_recording_and_closing_at_once(store_url, nursery, files):
    """Both hand over the same units, record the same outcomes and close the same wave."""
    store = open_store(store_url)
    conflicts = 0
    for race in range(races(store_url)):
        name = f"race{race}"
        campaign = created(store, name=name, grid={"sizes": [30, 30]})
        # Half of the races name the wave: who comes second then gets the stored answer.
        wanted = {"wave": 1} if race % 2 else {}
        results = nursery.run(*(
            order(
                store_url,
                ("assign", {"units": files / "a.parquet", "out": files / f"out-{side}.parquet",
                            "force": True}),
                ("record", {"outcomes": files / "o.parquet"}),
                ("close", wanted),
                name=name,
            )
            for side in "ab"
        ))  # fmt: skip
        first, second = ((files / f"out-{side}.parquet").read_bytes() for side in "ab")
        assert first == second, results
        events = campaign.events()
        kinds = [event.kind for event in events]
        assert (kinds.count("assign"), kinds.count("close")) == (1, 1)
        assert sum(e.counts["accepted"] for e in events if e.kind == "record") == 30
        if wanted:
            assert [result["event"] for result in results] == [kinds.index("close") + 1] * 2
        else:
            [lost] = [result for result in results if not result.get("done")]
            assert lost["error"] == "CampaignStateError"
            assert "has no units yet" in lost["message"]
            conflicts += 1
        if race % 20 == 0:
            assert campaign.verify().sound
    assert conflicts == races(store_url) // 2
    store.close()


@pytest.mark.slow
def test_units_that_overlap(store_url, nursery, files):
    store = open_store(store_url)
    for race in range(races(store_url, 5)):
        name = f"overlap{race}"
        campaign = created(store, name=name, grid={"sizes": [40, 40]})
        results = nursery.run(*(
            order(store_url, "assign", name=name, units=files / f"{side}.parquet",
                  out=files / f"out-{side}.parquet", force=True)
            for side in "ab"
        ))  # fmt: skip
        assert [result.get("done") for result in results] == [True, True]
        assert len(one_action_each(files)) == 40
        assert campaign.verify().sound
    store.close()


@pytest.mark.slow
def test_assigning_while_closing(store_url, nursery, files):
    store = open_store(store_url)
    waves = set()
    for race in range(races(store_url, 5)):
        name = f"mixed{race}"
        campaign = created(store, name=name, grid={"calendar": True, "waves": 3, "units": 90})
        campaign.assign(pl.read_parquet(files / "a.parquet"))
        campaign.record(files / "o.parquet")
        nursery.run(
            order(store_url, "assign", name=name, units=files / "b.parquet",
                  out=files / "out-b.parquet", force=True),
            order(store_url, "close", name=name, wave=1, force=True, reason="it is late"),
        )  # fmt: skip
        answers = pl.read_parquet(files / "out-b.parquet")
        assert answers["id"].n_unique() == len(answers) == 30
        assert answers.filter(pl.col("id") < "000030")["wave"].unique().to_list() == [1]
        waves |= set(answers["wave"])
        assert campaign.verify().sound
    assert waves <= {1, 2}
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["blocks", "minimise"])
def test_units_balanced_in_order_by_two_processes(store_url, nursery, tmp_path, draw):
    """Whoever comes first: the actions are those of one call with the units in the stored order."""
    store = open_store(store_url)
    everyone = units(24)
    for start in range(0, 24, 3):
        everyone[start : start + 3].write_parquet(tmp_path / f"{start}.parquet")
    changes = {"draw": draw, "strata": ["zip"], "name": f"race-{draw}", "draws": "md5"}
    campaign = created(store, **changes)
    results = nursery.run(*(
        order(
            store_url,
            *(
                ("assign", {"units": tmp_path / f"{start}.parquet",
                            "out": tmp_path / f"out-{start}.parquet", "force": True})
                for start in range(side, 24, 6)
            ),
            name=f"race-{draw}",
        )
        for side in (0, 3)
    ))  # fmt: skip
    assert [result.get("done") for result in results] == [True, True]
    stored = {}
    with store.read(f"race-{draw}") as reader:
        for chunk in reader.unit_chunks(given=True):
            actions = Decided.of(unpack(chunk.decided)).actions.tolist()
            stored |= zip(unpack(chunk.given).column(0).to_pylist(), actions, strict=True)
    assert len(stored) == 24
    assert campaign.verify().sound
    other = open_store(tmp_path / "again.db")
    in_order = pl.DataFrame({"id": list(stored)}).join(everyone, on="id", maintain_order="left")
    again = created(other, **changes).assign(in_order).table
    other.close()
    names = ["none", "mail", "call"]
    assert again["action"].to_pylist() == [names[action] for action in stored.values()]
    store.close()


def test_creating_the_same_campaign_at_once(store_url):
    """Two stores that open an empty database at once make one set of tables."""
    import threading

    failures = []

    def begin():
        opened = open_store(store_url)
        try:
            created(opened)
        except CampaignStateError as error:
            failures.append(type(error).__name__)
        finally:
            opened.close()

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == ["CampaignStateError"] * 3
    opened = open_store(store_url)
    assert opened.names() == ["spring"]
    assert Campaign.open("spring", store=opened).verify().sound
    opened.close()
