"""Scores are what the outcomes known so far make one expect, fitted from the exported units."""

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.storage import open_store
from tests.campaign.instances import units
from tests.campaign.specs import about
from tests.oracles.fitting import expected

FEATURES = {
    "intercept": True,
    "numeric": {"age": "learn", "spend": {"mean": 10.0, "sd": 5.0}},
    "categorical": {"zip": ["urban", "rural"], "city": {"hash": 3}},
    "interactions": [["age", "zip"], ["spend", "age"]],
}
SPEC = {
    "name": "fit", "seed": 5, "unit": "id", "actions": ["a", "b", "c"], "randomised": 0.3,
    **about("y"), "features": FEATURES, "required_outcomes": 0.5,
    "grid": {"sizes": [150, 150, 100]}, "policy": {"kind": "SBPE"},
}  # fmt: skip
TRAITS = {"a": {"price": 0.0}, "b": {"price": 1.0}, "c": {"price": 2.5}, "d": {"price": 4.0}}


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def assigned(campaign, wave):
    """Assign a wave; return its units with outcomes that depend on everything."""
    frame = units(SPEC["grid"]["sizes"][wave - 1], start=1_000 * wave)
    table = pl.from_arrow(campaign.assign(frame).table)
    effect = np.array([{"a": 0.0, "b": 0.7, "c": -0.4, "d": 0.2}[a] for a in table["action"]])
    noise = np.random.default_rng(wave).normal(0, 0.2, len(frame))
    age, urban = (frame["age"].to_numpy() - 40) / 12, (frame["zip"] == "urban").to_numpy()
    return pl.DataFrame({"id": table["id"], "y": effect * (1 + age * urban) + noise})


def check(campaign, folder, wave, **options):
    """Compare the scores of a wave with a fit to what was known when the one before it closed."""
    closed = [event.sequence for event in campaign.events() if event.kind == "close"][wave - 2]
    campaign.export(folder / "then.parquet", at_event=closed, force=True)
    campaign.export(folder / "now.parquet", force=True)
    past = pl.read_parquet(folder / "then.parquet").to_dicts()
    rows = pl.read_parquet(folder / "now.parquet").filter(pl.col("wave") == wave).to_dicts()
    wanted = expected(rows, past, FEATURES, **options)
    assert [row["score"] for row in rows] == pytest.approx(wanted, abs=1e-8)


def test_late_outcomes_have_their_part(store, tmp_path):
    campaign = Campaign.create(SPEC, store=store)
    first = assigned(campaign, 1)
    campaign.record(first[:120])
    campaign.close()
    second = assigned(campaign, 2)
    check(campaign, tmp_path, 2)
    campaign.record(first[120:])
    campaign.record(second)
    assert campaign.close().late == 30
    assigned(campaign, 3)
    check(campaign, tmp_path, 3)


def test_a_corrected_outcome_replaces_the_first_one(store, tmp_path):
    campaign = Campaign.create(SPEC, store=store)
    first = assigned(campaign, 1)
    campaign.record(first)
    campaign.close()
    campaign.record(assigned(campaign, 2))
    mended = first[:30].with_columns(pl.col("y") + 1)
    campaign.record(mended, correct=True, reason="a wrong unit")
    assert campaign.close().corrected == 30
    assigned(campaign, 3)
    check(campaign, tmp_path, 3)
    exported = pl.read_parquet(tmp_path / "then.parquet").filter(pl.col("wave") == 1)
    known = dict(exported.select("id", "y").iter_rows())
    assert known == dict([*first.iter_rows(), *mended.iter_rows()])


@pytest.mark.parametrize("model", ["per-action", "shared"])
def test_actions_that_were_retired_or_added(store, tmp_path, model):
    traits = TRAITS if model == "shared" else None
    actions = [{"name": name, "features": traits[name] if traits else {}} for name in "abcd"]
    campaign = Campaign.create({**SPEC, "model": model, "actions": actions[:3]}, store=store)
    campaign.record(assigned(campaign, 1))
    campaign.close()
    campaign.amend(reason="a swap", retire=["a"], add=actions[3:])
    campaign.record(assigned(campaign, 2))
    if traits:
        check(campaign, tmp_path, 2, traits=traits)
    campaign.close()
    assigned(campaign, 3)
    check(campaign, tmp_path, 3, traits=traits)


def test_low_outcomes_are_good_ones(store, tmp_path):
    campaign = Campaign.create({**SPEC, **about("y", direction="min")}, store=store)
    campaign.record(assigned(campaign, 1))
    campaign.close()
    assigned(campaign, 2)
    check(campaign, tmp_path, 2, sign=-1.0)
