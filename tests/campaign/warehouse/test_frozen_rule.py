"""The open wave's rule on Arrow batches: the same decisions and sums as SQL and as a close."""

import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.campaign import Campaign
from seqbatch.campaign.files.column_values import Problems
from seqbatch.campaign.record.codec import agreement
from seqbatch.campaign.warehouse.wave_list import WaveList
from seqbatch.campaign.warehouse.wave_tally import WaveTally
from seqbatch.engine import merge_tree
from seqbatch.storage import open_store
from tests.campaign.warehouse.test_sums import CASES, assigned, here, state_of, summed
from tests.campaign.warehouses import ELSEWHERE, SPEC, customers, first_wave, in_duckdb, in_postgres
from tests.refusals import refused

KEYS = ["action", "part", "seen"]


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def listing(rule, units, earlier=None):
    """Return the rule for a wave of these units, as far as they are new."""
    listed = merge_tree(WaveList.merged, map(rule.listed, units.to_arrow().to_batches()))
    return rule.with_wave(listed, earlier, partial=True)


def joined(rule, units, outcomes):
    """Return a wave's answers with their outcomes beside them, as one Arrow table."""
    batches = units.to_arrow().to_batches()
    answers = pl.concat([pl.DataFrame(rule.assign(batch)) for batch in batches])
    return answers.join(outcomes, on="id", how="left").to_arrow()


def tallied(rule, table, *, rows=97):
    pieces = table.to_batches(max_chunksize=rows)
    return merge_tree(WaveTally.merged, map(rule.sums, pieces))


def texts(table):
    """Return the rows of a result as texts, without the statement's fingerprint."""
    frame = pl.DataFrame(table) if not isinstance(table, pl.DataFrame) else table
    return frame.drop("statement").sort(KEYS).cast(pl.String)


@pytest.mark.parametrize("policy", ["BPE", "SBUCB"])
def test_batches_are_decided_as_the_statement_decides(store, policy):
    campaign = first_wave(store, policy={"kind": policy})
    units = customers(2_000, seed=2).with_columns(
        kind=pl.when(pl.int_range(2_000) % 50 == 3).then(pl.lit("z")).otherwise(pl.col("kind"))
    )
    wanted = in_duckdb(campaign.sql(units="units"), units=units)
    rule = campaign.rule()
    found = pl.concat([pl.DataFrame(rule.assign(batch)) for batch in units.to_arrow().to_batches()])
    assert found.columns == wanted.columns
    both = wanted.join(found, on="id", suffix=" found", validate="1:1")
    refused = both["problem"].is_not_null()
    assert refused.sum() == 40
    assert (refused == both["problem found"].is_not_null()).all()
    assert both.filter(refused)["action found"].null_count() == 40
    decided = both.filter(~refused)
    for column in wanted.columns[1:-1]:
        assert (decided[column] == decided[f"{column} found"]).all(), column


@pytest.mark.parametrize("case", ["BPE", "costs"])
def test_sums_are_those_of_the_statement_and_close_the_wave_as_rows_do(store, tmp_path, case):
    afar = Campaign.create({**ELSEWHERE, **CASES[case]}, store=store)
    other = open_store(tmp_path / "other.db")
    near = Campaign.create(here(**CASES[case]), store=other)
    earlier = None
    for count, seed in ((600, 1), (400, 2)):
        units, outcomes = assigned(afar, count, seed)
        wanted, path = summed(afar, tmp_path, units, outcomes)
        rule = listing(afar.rule(), units, earlier)
        tally = tallied(rule, joined(rule, units, outcomes))
        result = rule.result(tally, path.read_text(), earlier)
        earlier = WaveList.empty() if earlier is None else earlier
        earlier = earlier.merged(rule.listed(units.to_arrow().to_batches()[0]))
        assert texts(result).equals(texts(wanted).select(texts(result).columns), null_equal=True)
        afar.record_sums(result, statement=path)
        near.assign(units)
        near.record(outcomes)
        near.close()
        assert agreement(state_of(afar), state_of(near)) == 0
    other.close()


@pytest.mark.slow
def test_sums_are_those_of_postgres(store, tmp_path, postgres):
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 600, 1)

    def run(text, **tables):
        return in_postgres(postgres.get_uri(), text, **tables)

    wanted, path = summed(campaign, tmp_path, units, outcomes, run=run, dialect="postgres")
    rule = listing(campaign.rule(), units)
    result = texts(rule.result(tallied(rule, joined(rule, units, outcomes)), path.read_text()))
    assert result.equals(texts(wanted).select(result.columns), null_equal=True)


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 299), max_size=6), seed=st.integers(0, 99))
def test_any_cut_and_any_order_give_the_same_sums(tmp_path_factory, cuts, seed):
    if not hasattr(test_any_cut_and_any_order_give_the_same_sums, "made"):
        opened = open_store(tmp_path_factory.mktemp("cuts") / "campaigns.db")
        campaign = Campaign.create(ELSEWHERE, store=opened)
        units, outcomes = assigned(campaign, 300, 1)
        rule = listing(campaign.rule(), units)
        made = rule, joined(rule, units, outcomes)
        test_any_cut_and_any_order_give_the_same_sums.made = made
        opened.close()
    rule, table = test_any_cut_and_any_order_give_the_same_sums.made
    whole = texts(rule.sums(table.combine_chunks().to_batches()[0]).table(rule.now, ""))
    shuffled = table.take(np.random.default_rng(seed).permutation(300))
    ends = [0, *sorted(set(cuts)), 300]
    pieces = [shuffled[a:b].combine_chunks().to_batches()[0] for a, b in zip(ends, ends[1:])]  # noqa: B905, RUF007
    # As they travel between processes.
    packed = [rule.sums(piece).packed() for piece in pieces]
    found = merge_tree(WaveTally.merged, map(WaveTally.unpacked, packed))
    assert texts(found.table(rule.now, "")).equals(whole, null_equal=True)


def test_shards_have_rules_without_the_other_units(store):
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 900, 1)
    rule = listing(campaign.rule(), units)
    # The wave has 600 of 900 units.
    whole, parts = joined(rule, units, outcomes), []
    for shard in (units[:200], units[200:]):
        listed = rule.listed(shard.to_arrow().combine_chunks().to_batches()[0])
        own = rule.of_shard(listed)
        assert len(own.members) < len(listed.marks)
        table = joined(own, shard, outcomes)
        parts.append(tallied(own, table))
        assert table.num_rows == len(own.members)
    with refused("invalid-rows", problem="not-in-wave"):
        own.sums(whole.combine_chunks().to_batches()[0])
    found = texts(merge_tree(WaveTally.merged, parts).table(rule.now, ""))
    assert found.equals(texts(tallied(rule, whole).table(rule.now, "")), null_equal=True)


def test_a_unit_in_two_pieces_is_found(store, tmp_path):
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 600, 1)
    _, path = summed(campaign, tmp_path, units, outcomes)
    rule = listing(campaign.rule(), units)
    table = joined(rule, units, outcomes)
    twice = tallied(rule, table).merged(tallied(rule, table[:1]))
    with refused("invalid-rows", row=6, column="distinct_units", problem="repeated-units"):
        campaign.record_sums(rule.result(twice, path.read_text()), statement=path)


def test_values_beyond_the_range_are_counted_and_units_with_problems_refused(store, tmp_path):
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 600, 1)
    beyond = outcomes.with_columns(visit=pl.when(pl.int_range(pl.len()) < 3).then(11.0)
                                   .otherwise(pl.col("visit")))  # fmt: skip
    wanted, _ = summed(campaign, tmp_path, units, beyond)
    rule = listing(campaign.rule(), units)
    answers = joined(rule, units, beyond)
    found = tallied(rule, answers).table(rule.now, "")
    assert sum(found["outside"].to_pylist()) == 3
    assert texts(found).equals(texts(wanted).select(texts(found).columns), null_equal=True)
    unfit = joined(rule, units.with_columns(spend=pl.lit(None, dtype=pl.Float64)), outcomes)
    with refused("invalid-rows", row=97, column="spend", problem="missing"):
        tallied(rule, unfit)


def test_a_rule_is_plain_data(store):
    rule = first_wave(store).rule()
    batch = customers(50, seed=3).to_arrow().to_batches()[0]
    assert pickle.loads(pickle.dumps(rule)).assign(batch).equals(rule.assign(batch))
    assert WaveTally.unpacked(WaveTally({}).packed()).groups == {}


def test_what_sql_cannot_say_is_refused(store):
    with refused("not-in-sql"):
        Campaign.create({**SPEC, "draws": "blake2"}, store=store).rule()
    floating = Campaign.create({**SPEC, "name": "floating", "sums": "floating"}, store=store)
    with refused("not-in-sql"):
        floating.rule().sums(customers(5, seed=1).to_arrow().to_batches()[0])


def test_no_unit_with_a_problem_is_given_an_action_however_many_there_are(store, monkeypatch):
    # A file has one problem where it has very many; of a batch every unit is answered.
    monkeypatch.setitem(Problems.__init__.__kwdefaults__, "most", 3)
    units = customers(10, seed=3).with_columns(spend=pl.lit(None, dtype=pl.Float64))
    (batch,) = units.to_arrow().to_batches()
    found = first_wave(store).rule().assign(batch)
    assert found["problem"].to_pylist() == ["spend is missing"] * 10
    assert found["action"].null_count == 10
