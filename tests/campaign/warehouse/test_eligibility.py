"""Who may get what, as SQL: databases and Arrow batches decide and sum up as Python does."""

import numpy as np
import polars as pl
import pytest
import sqlglot

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import agreement
from seqbatch.campaign.warehouse.dialects import DIALECTS
from seqbatch.campaign.warehouse.wave_list import WaveList
from seqbatch.storage import open_store
from tests.campaign.warehouse.test_frozen_rule import joined, listing, tallied, texts
from tests.campaign.warehouse.test_sums import here, state_of, summed
from tests.campaign.warehouses import (
    ELSEWHERE,
    SPEC,
    customers,
    decided,
    in_duckdb,
    in_postgres,
    visits,
)
from tests.refusals import refused

COLUMNS = {"region": "text", "visits": "number"}
#: Everybody may get the first action.
SOME = {
    "columns": COLUMNS,
    "eligible": {
        "it's mail": ("zip != 'urban' and (vip or region in [\"no'rth\", 'south']) or age >= 44.5"),
        "call": "may_phone",
    },
}
#: Who may get neither of the others gets the first.
FALLBACK = {
    "columns": COLUMNS,
    "fallback": "none",
    "eligible": {
        "it's mail": "not (visits in [0, 3]) and not vip = true",
        "call": "visits < 2 or `kind` == 'c' or region not in ['south']",
    },
}
CASES = {
    "SBPE": {**SOME, "policy": {"kind": "SBPE"}},
    "SBUCB": {**FALLBACK, "policy": {"kind": "SBUCB", "gamma": 0.7}},
    "BPE": {**SOME, "policy": {"kind": "BPE", "split": "needed"}},
    "LBGL": {**FALLBACK, "policy": {"kind": "LBGL", "scale": 0.02, "ties": "random"}},
    "UniformRandom": {**SOME, "policy": {"kind": "UniformRandom"}},
    "FixedAction": {**SOME, "policy": {"kind": "FixedAction", "action": 2}},
    "no floor": {**FALLBACK, "floor": 0.0, "randomised": 0.0},
    "missing": {
        "columns": {"visits": "number"},
        "eligible": {
            "it's mail": "region is missing",
            "call": "visits is not missing and not (zip is missing)",
        },
    },
}


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def people(count, *, seed):
    """Return units with the columns that rules use, some of them missing."""
    random = np.random.default_rng([seed, 7])

    def sometimes(values):
        return [None if gone else value for value, gone in zip(values, random.random(count) < 0.1)]  # noqa: B905

    regions = random.choice(["no'rth", "south", "", "west"], count).tolist()
    counts = random.choice([-0.0, 0.0, 1.0, 2.0, 3.0, np.nan], count).tolist()
    return customers(count, seed=seed).with_columns(
        pl.Series("region", sometimes(regions), dtype=pl.String),
        pl.Series("visits", sometimes(counts), dtype=pl.Float64),
        pl.Series("may_phone", sometimes((random.random(count) < 0.4).tolist()), dtype=pl.Boolean),
    )


def closed_once(store, changes, *, known=("none", "it's mail", "call")):
    campaign = Campaign.create({**SPEC, **changes}, store=store)
    table = pl.from_arrow(campaign.assign(people(600, seed=1)).table)
    table = table.filter(pl.col("action").is_in(known))
    campaign.record(visits(table["id"], table["action"], seed=1))
    campaign.close(force=True, reason="as it is")
    return campaign


def require_same(campaign, run, *, count=4_000, seed=2):
    units = people(count, seed=seed)
    found, rule = run(units), campaign.rule()
    batches = [pl.DataFrame(rule.assign(batch)) for batch in units.to_arrow().to_batches()]
    wanted = pl.from_arrow(campaign.assign(units, partial=True).table)
    for other in (found, pl.concat(batches)):
        pairs = wanted.join(other, on="id", suffix=" found", validate="1:1")
        assert len(pairs) == count
        names = [action.name for action in campaign.situation().actions]
        same = {"action": "action found", "score": "score found"}
        same |= {f"p({name})": f"p{place}" for place, name in enumerate(names)}
        for left, right in same.items():
            assert (pairs[left] == pairs[right]).all(), left
        assert other["problem"].null_count() == count
    return wanted


@pytest.mark.parametrize("case", CASES)
def test_duckdb_and_batches_decide_as_python_does(store, case):
    campaign = closed_once(store, CASES[case])
    statement = campaign.sql(units="units")
    wanted = require_same(campaign, lambda units: in_duckdb(statement, units=units))
    # The rules bind, and more than one action is given.
    assert (wanted["p(call)"] == 0).any()
    assert wanted["action"].n_unique() == 3


@pytest.mark.parametrize("policy", ["SBPE", "BPE"])
def test_the_first_wave_is_decided_as_python_decides(store, policy):
    campaign = Campaign.create({**SPEC, **CASES[policy]}, store=store)
    statement = campaign.sql(units="units")
    require_same(campaign, lambda units: in_duckdb(statement, units=units), count=600, seed=1)


@pytest.mark.parametrize("ties", ["lowest", "random"])
def test_who_may_only_get_what_nobody_knows_gets_any_of_it(store, ties):
    policy = {"policy": {"kind": "SBPE", "ties": ties, "unknown": "avoid"}, "floor": 0.0}
    campaign = closed_once(store, {**SOME, **policy}, known=("call",))
    statement = campaign.sql(units="units")
    wanted = require_same(campaign, lambda units: in_duckdb(statement, units=units))
    lost = wanted.filter((pl.col("p(call)") == 0) & (pl.col("p(it's mail)") > 0))
    assert (lost["p(none)"] == lost["p(it's mail)"]).all()
    assert len(lost) > 100


@pytest.mark.slow
@pytest.mark.parametrize("case", ["SBPE", "SBUCB"])
def test_postgres_decides_as_python_does(store, postgres, case):
    campaign = closed_once(store, CASES[case])
    statement, uri = campaign.sql(units="units", dialect="postgres"), postgres.get_uri()
    require_same(campaign, lambda units: in_postgres(uri, statement, units=units))


def test_who_may_get_nothing_is_refused(store):
    rules = {"columns": COLUMNS, "eligible": dict.fromkeys(SPEC["actions"], "visits > 1")}
    campaign = Campaign.create({**SPEC, **rules}, store=store)
    units = people(600, seed=3)
    found = in_duckdb(campaign.sql(units="units"), units=units)
    batch = pl.concat(
        [pl.DataFrame(campaign.rule().assign(b)) for b in units.to_arrow().to_batches()]
    )
    nothing = units.filter(
        (pl.col("visits") > 1).fill_null(False).not_() | pl.col("visits").is_nan()
    )
    none = "no action is eligible for this unit (none, it's mail, call)"
    for answers in (found, batch):
        left = answers.filter(pl.col("problem").is_not_null())
        assert set(left["id"]) == set(nothing["id"])
        assert left["action"].null_count() == len(left)
        assert left["problem"].unique().to_list() == [none]
    with refused("invalid-rows", row=1, column="id", problem="not-eligible"):
        campaign.assign(units)


def test_sums_are_those_of_batches_and_close_the_wave_as_rows_do(store, tmp_path):
    afar = Campaign.create({**ELSEWHERE, **SOME}, store=store)
    other = open_store(tmp_path / "other.db")
    near = Campaign.create(here(**SOME), store=other)
    earlier = WaveList.empty()
    for count, seed in ((600, 1), (400, 2)):
        units = people(count, seed=seed)
        found = decided(afar, units)
        outcomes = visits(found["id"], found["action"], seed=seed)
        wanted, path = summed(afar, tmp_path, units, outcomes)
        rule = listing(afar.rule(), units, earlier)
        tally = tallied(rule, joined(rule, units, outcomes))
        result = rule.result(tally, path.read_text(), earlier)
        earlier = earlier.merged(rule.listed(units.to_arrow().to_batches()[0]))
        assert texts(result).equals(texts(wanted).select(texts(result).columns), null_equal=True)
        afar.record_sums(wanted, statement=path)
        near.assign(units)
        near.record(outcomes)
        near.close()
        assert agreement(state_of(afar), state_of(near)) == 0
    assert afar.verify().sound
    other.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_parses(store, dialect):
    campaign = Campaign.create({**ELSEWHERE, **SOME}, store=store)
    for tables in ({"units": "units"}, {"what": "sums", "outcomes": "outcomes"}):
        text = campaign.sql(dialect=dialect, assignments="assignments", **tables)
        assert len(sqlglot.parse(text, dialect=dialect)) == 1
