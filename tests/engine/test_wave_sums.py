"""A wave's sums over Arrow batches have the same digits on every engine, and those of DuckDB."""

import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.warehouse.wave_tally import WaveTally
from seqbatch.engine import merge_tree, over_batches
from seqbatch.storage import open_store
from tests.campaign.warehouse.test_frozen_rule import joined, listing, texts
from tests.campaign.warehouse.test_sums import assigned, summed
from tests.campaign.warehouses import ELSEWHERE
from tests.engine.conftest import NAMES


@pytest.mark.slow
def test_every_engine_and_duckdb_sum_up_to_the_same_digits(engines, tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 600, 1)
    wanted, _ = summed(campaign, tmp_path, units, outcomes)
    rule = listing(campaign.rule(), units)
    table = joined(rule, units, outcomes)
    for name in NAMES:
        tallies = over_batches(engines(name), rule.sums, table.to_batches(max_chunksize=53))
        result = texts(merge_tree(WaveTally.merged, tallies).table(rule.now, ""))
        assert result.equals(texts(wanted).select(result.columns), null_equal=True), name
    store.close()
