"""Campaigns with exact sums: the same estimate in any order, replayed to the bit."""

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign.record.codec import agreement, unpack_state
from seqbatch.storage import open_store
from tests.campaign.instances import created, outcomes, units
from tests.campaign.specs import about
from tests.cases import thorough
from tests.refusals import refused


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def bounded(**changes):
    numeric = {"age": "learn", "spend": {"scale": {"mean": 10, "sd": 5}, "range": [0, 80]}}
    return {
        "sums": "exact",
        "features": {
            "numeric": numeric,
            "categorical": {"zip": ["urban", "rural"], "city": {"hash": 4}},
            "interactions": [["age", "zip"], ["age", "spend"]],
        },
        **changes,
    }


def run(store, *, order, pieces=1, policy="SBPE"):
    """Run a first wave whose units come in this order and in so many pieces."""
    campaign = created(store, **bounded(policy={"kind": policy}))
    everyone = units(300)[order]
    answers = [campaign.assign(piece).table for piece in everyone.iter_slices(-(-300 // pieces))]
    rows = pl.concat([pl.from_arrow(answer) for answer in answers])
    known = outcomes(rows.sort("id").to_arrow())
    campaign.record(known)
    campaign.close()
    return campaign


def state_after(path, **how):
    """Return what the policy knows after a first wave in a store of its own."""
    store = open_store(path)
    campaign = run(store, **how)
    with store.read("spring") as reader:
        state = unpack_state(reader.last_state().content, campaign.situation())
    assert campaign.verify().sound
    store.close()
    return state


@pytest.mark.parametrize("policy", ["SBUCB", *thorough("SBPE", "BPE")])
def test_order_and_pieces_change_no_bit(tmp_path, policy):
    shuffled = np.random.default_rng(0).permutation(300).tolist()
    first = state_after(tmp_path / "1.db", order=list(range(300)), policy=policy)
    for pieces, order in [(7, list(range(299, -1, -1))), (3, shuffled)]:
        path = tmp_path / f"{pieces}.db"
        other = state_after(path, order=order, pieces=pieces, policy=policy)
        assert agreement(first, other) == 0
        for one, two in zip(first.evidence, other.evidence, strict=True):
            assert one.gram.tobytes() == two.gram.tobytes()
            assert one.moment.tobytes() == two.moment.tobytes()


def test_late_outcomes_are_learned_and_not_counted_as_the_waves_own(store):
    campaign = created(store, **bounded())
    first = outcomes(campaign.assign(units(300)).table)
    campaign.record(first[:250])
    campaign.close(force=True, reason="the rest comes late")
    campaign.record(outcomes(campaign.assign(units(200, start=300)).table, seed=2))
    campaign.record(first[250:])
    closed = campaign.close()
    assert closed.late == 50
    assert sum(closed.assigned.values()) == sum(closed.observed.values()) == 200
    assert sum(closed.expected.values()) == pytest.approx(200)
    assert campaign.verify().sound


def test_corrections_and_amendments_are_replayed(store):
    campaign = run(store, order=list(range(300)))
    table = campaign.assign(units(200, start=300)).table
    campaign.record(outcomes(table, seed=2))
    campaign.record(
        pl.DataFrame({"id": ["000007", "000009"], "visit": [9.0, -9.0]}),
        correct=True,
        reason="typo",
    )
    campaign.close()
    with store.read("spring") as reader:
        state = unpack_state(reader.last_state().content, campaign.situation())
    assert state.evidence[0].count.sum() == 500
    campaign.amend(reason="dear", retire=["call"])
    campaign.assign(units(100, start=500))
    found = campaign.verify()
    assert found.sound
    assert not found.notes


def test_numbers_without_bounds_are_refused(store):
    with refused("invalid-spec", field="sums"):
        created(store, sums="exact")
    with refused("invalid-spec", field="sums"):
        created(store, **bounded(**about("visit")))


def test_a_shared_model_and_dates_have_bounds(store):
    days = [f"2025-0{1 + number % 9}-11" for number in range(300)]
    actions = [{"name": name, "features": {"price": price}} for name, price in [("a", 1), ("b", 3)]]
    campaign = created(
        store, sums="exact", model="shared", actions=actions, start="2026-01-01",
        features={"date": {"since": {"parts": ["month", "days"]}}, "numeric": {"age": "learn"}},
    )  # fmt: skip
    table = campaign.assign(units(300).with_columns(since=pl.Series(days))).table
    rows = pl.DataFrame({"id": table["id"].to_pylist(), "visit": np.linspace(-1, 1, 300)})
    campaign.record(rows)
    campaign.close()
    assert campaign.verify().sound


def test_without_features_units_without_an_outcome_are_left_out(store):
    campaign = created(store, sums="exact", features={"intercept": True}, required_outcomes=0.5)
    answers = campaign.assign(units(300).select("id")).table
    known = outcomes(answers)
    campaign.record(known.slice(0, 200))
    campaign.close(force=True, reason="the wave is small")
    with store.read("spring") as reader:
        state = unpack_state(reader.last_state().content, campaign.situation())
    counted = sum(int(each.count.sum()) for each in state.evidence)
    assert counted == 200
