"""A greedy policy and the actions that it knows nothing about."""

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.decisions import Decided
from seqbatch.storage import open_store
from tests.campaign.instances import LEVELS, shares, small, small_wave, units
from tests.campaign.specs import about


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


@pytest.mark.parametrize("policy", [
    {"kind": "SBPE"}, {"kind": "BPE"}, {"kind": "RBGL"}, {"kind": "LBGL", "scale": 0.01},
    {"kind": "EpsilonGreedy", "epsilon": 0.06},
])  # fmt: skip
def test_an_action_that_nobody_knows_does_not_take_the_wave(store, policy):
    campaign = small(store, **about("y", direction="min"), floor=0.02, policy=policy)
    small_wave(campaign, 1)
    campaign.amend(reason="an idea", add=["new"])
    table = small_wave(campaign, 2)
    assert shares(table)["a"] > 0.8
    assert 0 < shares(table)["new"] < 0.1
    own = 0.0 if policy["kind"] != "EpsilonGreedy" else 0.06 / 4
    assert table["p(new)"].to_numpy() == pytest.approx(0.02 + (1 - 4 * 0.02) * own)
    assert campaign.verify().sound


@pytest.mark.parametrize("kind", ["SBPE", "BPE"])
def test_an_action_without_outcomes_does_not_take_the_wave(store, kind):
    campaign = small(store, **about("y", direction="min"), policy={"kind": kind})
    small_wave(campaign, 1, only=["b", "c"])
    assert shares(small_wave(campaign, 2)) == {"b": 1.0}
    assert campaign.verify().sound


def test_bpe_knows_what_the_part_that_it_fitted_knows(store):
    """Action a is the best by far, but no outcome of it is in the part fitted after wave 2."""
    campaign = small(store, **about("y", direction="min"), policy={"kind": "BPE"})
    table = pl.from_arrow(campaign.assign(units(300)).table)
    with store.read("small") as reader:
        decided = Decided.of(unpack(next(iter(reader.unit_chunks(given=False))).decided))
    levels = np.array([LEVELS[action] for action in table["action"]])
    first_part = pl.Series(decided.groups == 0) | (table["action"] != "a")
    campaign.record(pl.DataFrame({"id": table["id"], "y": levels}).filter(first_part))
    campaign.close(force=True, reason="as it is")
    assert shares(pl.from_arrow(campaign.assign(units(300, start=2_000)).table)) == {"a": 1.0}
    campaign.close(force=True, reason="none came")
    assert shares(small_wave(campaign, 3)) == {"b": 1.0}


def test_without_any_outcome_actions_are_random(store):
    campaign = small(store, policy={"kind": "SBPE", "ties": "lowest"})
    campaign.assign(units(300))
    campaign.close(force=True, reason="none came")
    table = pl.from_arrow(campaign.assign(units(300, start=1_000)).table)
    assert table.select("p(a)", "p(b)", "p(c)").to_numpy() == pytest.approx(1 / 3)
    assert campaign.verify().sound


@pytest.mark.parametrize("kind", ["SBPE", "BPE", "RBGL"])
def test_an_action_without_outcomes_does_not_take_the_wave_where_limits_bind(store, kind):
    """Costs are negative rewards, so that the estimate 0 of what nobody knows is above the rest."""
    campaign = small(
        store, **about("y", direction="min"), policy={"kind": kind}, capacity={"b": 120}
    )
    small_wave(campaign, 1, only=["b", "c"])
    counts = small_wave(campaign, 2)["action"].value_counts()
    assert dict(counts.iter_rows()) == {"b": 120, "c": 180}
    assert campaign.verify().sound
