"""The open wave's rule as SQL: databases decide and sum up as Python does, bit for bit."""

import copy
from dataclasses import replace
from datetime import date
from functools import partial

import numpy as np
import polars as pl
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.draws import draws, md5_key
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.decisions import Decided
from seqbatch.campaign.warehouse.decisions import DRAWS
from seqbatch.campaign.warehouse.dialects import DIALECTS, dialect_of
from seqbatch.campaign.warehouse.features import columns_of
from seqbatch.campaign.warehouse.frozen_rule import FrozenRule
from seqbatch.campaign.warehouse.statement import assigning
from seqbatch.errors import InvalidArgumentError
from seqbatch.storage import open_store
from tests.campaign.instances import created
from tests.campaign.warehouses import (
    SPEC,
    customers,
    dates,
    first_wave,
    in_duckdb,
    in_postgres,
    visits,
)
from tests.refusals import refused

POLICIES = {
    "SBPE": {"kind": "SBPE"},
    "BPE": {"kind": "BPE", "split": "needed"},
    "joint ridge": {"kind": "JointRidge", "waves": "own level", "start": 0},
    "SBUCB": {"kind": "SBUCB", "gamma": 0.7},
    "LBGL": {"kind": "LBGL", "scale": 0.02, "ties": "random"},
    "UniformRandom": {"kind": "UniformRandom"},
}


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A campaign after its first wave, for tests that change nothing."""
    opened = open_store(tmp_path_factory.mktemp("ready") / "campaigns.db")
    yield first_wave(opened, policy=POLICIES["SBPE"])
    opened.close()


def require_same(campaign, run, count=20_000):
    """Compare what a database decides for units with what assign decides."""
    units = customers(count, seed=2)
    found = run(units)
    wanted = pl.from_arrow(campaign.assign(units, partial=True).table)
    pairs = wanted.join(found, on="id", suffix=" found", how="left", validate="1:1")
    assert len(pairs) == count
    names = [action.name for action in campaign.situation().actions]
    same = {
        "action": "action found", "score": "score found", "probability": "probability found",
        **{f"p({name})": f"p{place}" for place, name in enumerate(names)},
    }  # fmt: skip
    for left, right in same.items():
        assert (pairs[left] == pairs[right]).all(), left
    assert (pairs["randomised"].cast(pl.Int64) == pairs["randomised found"].cast(pl.Int64)).all()
    assert found["problem"].null_count() == count
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_duckdb_decides_as_python_does(store, policy):
    campaign = first_wave(store, policy=POLICIES[policy])
    statement = campaign.sql(units="units")
    require_same(campaign, lambda units: in_duckdb(statement, units=units))


BY_SHARES = {
    "Thompson": {"kind": "ThompsonSampling", "samples": 200},
    "exploration sampling": {"kind": "ThompsonSampling", "samples": 200, "objective": "choose"},
    "epsilon": {"kind": "EpsilonGreedy", "epsilon": 0.2},
    "lookahead": {"kind": "Lookahead"},
}


@pytest.mark.parametrize("policy", BY_SHARES)
def test_without_features_databases_draw_by_any_policys_shares(store, policy):
    campaign = first_wave(store, features={}, policy=BY_SHARES[policy])
    statement = campaign.sql(units="units")
    found = require_same(campaign, lambda units: in_duckdb(statement, units=units), 5_000)
    # All units have the same probabilities, and not those of the first wave.
    assert found["p1"].n_unique() == 1
    assert abs(found["p1"][0] - 1 / 3) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["SBPE", "SBUCB"])
def test_postgres_decides_as_python_does(store, postgres, policy):
    campaign = first_wave(store, policy=POLICIES[policy])
    statement = campaign.sql(units="units", dialect="postgres")
    uri = postgres.get_uri()
    require_same(campaign, lambda units: in_postgres(uri, statement, units=units))


@pytest.mark.parametrize("dialect", ["duckdb", pytest.param("postgres", marks=pytest.mark.slow)])
def test_values_that_stand_for_a_missing_one_are_missing_in_databases(store, request, dialect):
    features = copy.deepcopy(SPEC["features"])
    features["numeric"]["age"]["missing_values"] = [999, -1]
    features["date"]["since"]["missing_values"] = ["1900-01-01"]
    campaign = first_wave(store, features=features, policy=POLICIES["SBPE"])
    units = customers(3_000, seed=2)
    gone = pl.int_range(len(units)) % 4
    odd = units.with_columns(
        age=pl.when(gone == 1).then(999.0).when(gone == 2).then(-1.0).otherwise("age"),
        since=pl.when(gone == 3).then(date(1900, 1, 1)).otherwise("since"),
    )
    empty = units.with_columns(
        age=pl.when(gone.is_in([1, 2])).then(None).otherwise("age"),
        since=pl.when(gone == 3).then(None).otherwise("since"),
    )
    statement = campaign.sql(units="units", dialect=dialect)
    run = in_duckdb
    if dialect == "postgres":
        run = partial(in_postgres, request.getfixturevalue("postgres").get_uri())
    found, same = (run(statement, units=each).sort("id") for each in (odd, empty))
    assert found.equals(same)
    assert not found.equals(run(statement, units=units).sort("id"))
    wanted = pl.from_arrow(campaign.assign(odd, partial=True).table).sort("id")
    assert (found["score"] == wanted["score"]).all()
    assert found["problem"].null_count() == len(found)


def test_the_first_wave_is_uniform(store):
    campaign = Campaign.create(SPEC, store=store)
    statement = campaign.sql(units="units")
    found = require_same(campaign, lambda units: in_duckdb(statement, units=units), count=600)
    assert found["action"].value_counts()["count"].min() > 150


def test_a_share_that_was_adopted_is_randomised(ready):
    rule = ready.rule()
    now = replace(rule.now, explored=0.5)
    text = assigning(now, rule.rule, dialect_of("duckdb"), "units")
    units = customers(2_000, seed=2)
    found = in_duckdb(text, units=units).sort("id")
    wanted = pl.DataFrame(FrozenRule(now, rule.rule).assign(units.to_arrow().to_batches()[0]))
    assert found["randomised"].sum() > 900
    for column in ("action", "probability", "randomised"):
        assert (found[column] == wanted.sort("id")[column]).all(), column


def test_retired_actions_and_those_without_outcomes_are_passed_over(store):
    changes = {"actions": [*SPEC["actions"], "new", "old"], "policy": {"kind": "SBPE"}}
    campaign = Campaign.create({**SPEC, **changes}, store=store)
    table = pl.from_arrow(campaign.assign(customers(600, seed=1)).table)
    known = table.filter(pl.col("action").is_in(SPEC["actions"]))
    campaign.record(visits(known["id"], known["action"], seed=1))
    campaign.close(force=True, reason="as it is")
    campaign.amend(reason="too dear", retire=["none"])
    units = customers(2_000, seed=2)
    found = in_duckdb(campaign.sql(units="units"), units=units)
    wanted = pl.from_arrow(campaign.assign(units, partial=True).table)
    pairs = wanted.join(found, on="id", suffix=" found", validate="1:1")
    assert (pairs["action"] == pairs["action found"]).all()
    for place, name in enumerate(["it's mail", "call", "new", "old"]):
        assert (pairs[f"p({name})"] == pairs[f"p{place}"]).all()
    assert pairs["p2"].n_unique() == 1


def test_a_statement_too_wide_for_a_database_is_refused(store):
    levels = [f"l{number}" for number in range(600)]
    features = {"categorical": {"zip": levels}}
    campaign = Campaign.create({**SPEC, "features": features}, store=store)
    campaign.sql(units="units", dialect="postgres")
    with refused("not-in-sql", match="1,600"):
        campaign.sql(
            what="sums", assignments="assignments", outcomes="outcomes", dialect="postgres"
        )


def test_ids_of_several_columns_are_joined(store):
    spec = {**SPEC, "name": "two", "unit": ["shop", "id"]}
    campaign = Campaign.create(spec, store=store)
    units = customers(600, seed=3).with_columns(shop=pl.Series(["a|b", "c\\"] * 300))
    found = in_duckdb(campaign.sql(units="units"), units=units)
    wanted = pl.from_arrow(campaign.assign(units).table)
    pairs = wanted.join(found, on=["shop", "id"], suffix=" found", validate="1:1")
    assert len(pairs) == 600
    assert (pairs["action"] == pairs["action found"]).all()


def test_groups_are_those_of_sample_splitting(store):
    campaign = first_wave(store, policy={"kind": "BPE"})
    units = customers(20_000, seed=2)
    found = in_duckdb(campaign.sql(units="units"), units=units)
    ids = campaign.assign(units).table["id"].to_pylist()
    with store.read("warm") as reader:
        chunks = [chunk for chunk in reader.unit_chunks(given=False) if chunk.wave == 2]
    groups = np.concatenate([Decided.of(unpack(chunk.decided)).groups for chunk in chunks])
    by_id = dict(zip(found["id"], found["part"], strict=True))
    assert [by_id[each] for each in ids] == groups.tolist()
    assert set(groups.tolist()) == {1, -1}


@settings(max_examples=20)
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=20))
def test_md5_draws_are_those_of_duckdb(ids):
    require_same_draws(ids, lambda text, frame: in_duckdb(text, ids=frame), "duckdb")


@pytest.mark.slow
def test_md5_draws_are_those_of_postgres(postgres):
    ids = [str(number) for number in range(500)] + ["ü", "a'b", "日本", " ", "\\"]
    uri = postgres.get_uri()
    require_same_draws(ids, lambda text, frame: in_postgres(uri, text, ids=frame), "postgres")


def require_same_draws(ids, run, dialect):
    sql, key = dialect_of(dialect), md5_key(3, "x")
    digest = sql.md5(f"{sql.text(key)} || id")
    columns = ", ".join(
        f"{sql.digits(digest, a, b)} * {sql.number(0.5 ** (4 * (b - a)))} AS {name}"
        for name, (a, b) in zip(DRAWS, [(0, 13), (13, 26), (26, 32)], strict=True)
    )
    frame = pl.DataFrame({"id": list(dict.fromkeys(ids))}, schema={"id": pl.String})
    found = run(f"SELECT id, {columns} FROM ids", frame)
    drawn = draws(3, "x", found["id"].to_list(), by="md5")
    made = (drawn.randomised, drawn.choice, drawn.place)
    for name, own in zip(DRAWS, made, strict=True):
        assert found[name].to_list() == own.tolist()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40))
@settings(max_examples=20)
def test_numbers_keep_their_bits_in_duckdb(values):
    texts = ", ".join(f"({dialect_of('duckdb').number(value)})" for value in values)
    found = in_duckdb(f"SELECT x FROM (VALUES {texts}) AS t(x)")["x"]
    assert found.to_list() == values


@pytest.mark.parametrize("dialect", ["duckdb", pytest.param("postgres", marks=pytest.mark.slow)])
def test_units_with_a_problem_get_nothing_and_are_told_the_same_everywhere(ready, dialect, request):
    units = customers(6, seed=9).with_columns(
        pl.Series("id", ["a", "b", "c", "d", "e", None]),
        kind=pl.Series(["a", "z", None, "b", "z", "a"]),
        spend=pl.Series([1.0, 1.0, 1.0, float("inf"), None, 1.0]),
        born=pl.Series(["1980-02-29"] * 5 + [None]),
    )
    run = in_duckdb
    if dialect == "postgres":
        run = partial(in_postgres, request.getfixturevalue("postgres").get_uri())
    found = run(ready.sql(units="units", dialect=dialect), units=units)
    assert found.sort("id", nulls_last=True)["problem"].to_list() == [
        None, "kind must be one of a, b, c", "kind is missing",
        "spend must be finite and below 1e+30 in size", "spend is missing", "id is missing",
    ]  # fmt: skip
    given = ["action", "score", "probability", "randomised", "p0", "p1", "p2", "part"]
    refused = found.filter(pl.col("problem").is_not_null())
    assert refused.select(pl.col(given).null_count()).row(0) == (5,) * len(given)
    (batch,) = units.to_arrow().to_batches()
    wanted = pl.DataFrame(ready.rule().assign(batch))
    same = ["wave", *given, "problem"]
    assert found.select(same).sort("problem").rows() == wanted.select(same).sort("problem").rows()


@pytest.mark.parametrize("dialect", ["duckdb", pytest.param("postgres", marks=pytest.mark.slow)])
def test_numbers_too_large_for_the_model_are_told_the_same_everywhere(store, dialect, request):
    features = {
        "numeric": {
            "spend": {"scale": {"mean": 0, "sd": 1e-40}},
            "age": {"scale": {"mean": 1, "sd": 1e-32}, "missing": 3, "indicator": 1},
        },
        "categorical": {"zip": ["u", "r"]},
        "interactions": [["spend", "age"], ["age", "zip"]],
    }
    campaign = Campaign.create({**SPEC, "features": features, "sums": "floating"}, store=store)
    units = pl.DataFrame(
        {
            "id": ["a", "b", "c", "d", "e", "f", "g"],
            "spend": [1.0, -1e25, 1e20, 1e-20, 1.0, 1e-15, 1e31],
            "age": [1.0, 1.0, None, 2e28, 0.5, None, 1.0],
            "zip": ["u", "r", "u", "r", "u", "r", "u"],
        }
    )
    run = in_duckdb
    if dialect == "postgres":
        run = partial(in_postgres, request.getfixturevalue("postgres").get_uri())
    found = run(campaign.sql(units="units", dialect=dialect), units=units).sort("id")
    (batch,) = units.to_arrow().to_batches()
    wanted = pl.DataFrame(campaign.rule().assign(batch)).sort("id")
    large = "must be below 1e+60 in size as the model takes it"
    assert found["problem"].to_list() == [
        None, f"spend {large}", f"spend {large}", f"age {large}", f"spend*age {large}", None,
        "spend must be finite and below 1e+30 in size",
    ]  # fmt: skip
    same = ["action", "probability", "problem"]
    assert found.select(same).rows() == wanted.select(same).rows()
    with refused("invalid-rows") as caught:
        campaign.assign(units)
    assert {each.row for each in caught.value.problems} == {2, 3, 4, 5, 7}


def test_no_number_is_compared_with_what_it_cannot_reach(ready):
    assert "as the model takes it" not in ready.sql(units="units")


def test_days_count_among_what_is_too_large_together(store):
    numeric = {"spend": {"scale": {"mean": 0, "sd": 1e-35}}}
    features = {"numeric": numeric, "date": {"born": {}}, "interactions": [["born", "spend"]]}
    campaign = first_wave(store, features=features, sums="floating")
    units = customers(3, seed=2).with_columns(
        spend=pl.Series([1e24, 9e24, 1e25]), born=pl.Series(["1900-01-01"] * 3)
    )
    found = in_duckdb(campaign.sql(units="units"), units=units).sort("id")
    (batch,) = units.to_arrow().to_batches()
    wanted = pl.DataFrame(campaign.rule().assign(batch)).sort("id")
    large = "must be below 1e+60 in size as the model takes it"
    assert found["problem"].to_list() == [None, f"born*spend {large}", f"spend {large}"]
    assert found.select(wanted.columns).rows() == wanted.rows()


@pytest.mark.parametrize("dialect", ["duckdb", pytest.param("postgres", marks=pytest.mark.slow)])
def test_dates_that_are_ids_or_categories_are_their_text_everywhere(store, dialect, request):
    features = {"categorical": {"bought": {"levels": ["2026-03-01", "2026-03-02"], "other": True}}}
    rules = {"columns": {"called": "text"}, "eligible": {"call": "called = '2026-03-02'"}}
    spec = {**SPEC, "unit": ["id", "day"], "features": features, **rules}
    campaign = Campaign.create({**spec, "grid": {"sizes": [30, 30]}}, store=store)
    days = [date(2026, 3, 1 + number % 3) for number in range(30)]
    columns = {"day": days, "bought": days[::-1], "called": days[1:] + days[:1]}
    units = pl.DataFrame({"id": [f"c{number}" for number in range(30)], **columns})
    told = pl.from_arrow(campaign.assign(units).table).select("id", "day")
    campaign.record(told.with_columns(visit=pl.int_range(30) / 10.0))
    campaign.close()
    units = units.with_columns(id=pl.col("id") + "x")
    run = in_duckdb
    if dialect == "postgres":
        run = partial(in_postgres, request.getfixturevalue("postgres").get_uri())
    found = run(campaign.sql(units="units", dialect=dialect), units=units).sort("id")
    (batch,) = units.to_arrow().to_batches()
    by_rule = pl.DataFrame(campaign.rule().assign(batch)).sort("id")
    wanted = pl.from_arrow(campaign.assign(units).table).sort("id")
    assert found.select(by_rule.columns).rows() == by_rule.rows()
    shown = ["id", "action", "score", "probability"]
    assert found.select(shown).rows() == wanted.select(shown).rows()
    assert set(found["day"]) == {"2026-03-01", "2026-03-02", "2026-03-03"}
    assert found["score"].n_unique() > 3


@pytest.mark.parametrize("kind", [pl.Float64, pl.Datetime])
def test_a_batch_whose_categories_have_a_wrong_type_gets_no_action(ready, kind):
    units = customers(5, seed=9).with_columns(zip=pl.lit(0).cast(kind))
    (batch,) = units.to_arrow().to_batches()
    found = ready.rule().assign(batch)
    rule = "zip must be text, whole numbers, dates or booleans"
    assert found["problem"].to_pylist() == [rule] * 5
    assert found["action"].null_count == 5


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("what", ["assign", "sums"])
def test_every_dialect_parses(ready, dialect, what):
    other = "units" if what == "assign" else "outcomes"
    own = {other: f"lake.{other}"}
    text = ready.sql(what=what, dialect=dialect, assignments="my.roster", **own)
    (parsed,) = sqlglot.parse(text, dialect=dialect)
    found = parsed.find_all(sqlglot.exp.Table)
    tables = {(table.db, table.name) for table in found if table.db}
    assert tables == {("lake", other), ("my", "roster")}


def test_names_and_texts_are_quoted():
    for dialect in DIALECTS.values():
        sql = dialect()
        for text in ("a'b", "a\\'b", "x\ny", "--", "`", '"'):
            (parsed,) = sqlglot.parse(f"SELECT {sql.text(text)}", dialect=sql.name)
            assert parsed.expressions[0].this == text
    assert dialect_of("postgres").table('a"b.c') == '"a""b"."c"'
    with refused("invalid-argument", field="table"):
        dialect_of("duckdb").table("a..b")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"draws": "blake2"}, "md5"),
        ({}, "city"),
        ({"draw": "balanced"}, None),
        ({"policy": {"kind": "ThompsonSampling"}}, "ThompsonSampling"),
        ({"features": {"date": {"since": {"format": "%d.%m.%Y"}}}}, "since"),
    ],
)
def test_what_sql_cannot_say_is_refused_with_the_reason(store, changes, name):
    campaign = created(store, start="2026-03-01", **changes)
    with refused("not-in-sql", match=name):
        campaign.sql(units="units")


def test_wrong_arguments_are_named(ready):
    for wrong in (
        {"what": "all"}, {"dialect": "oracle"}, {"units": "decided"}, {"outcomes": "o"},
        {"what": "sums"},
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError):
            ready.sql(**{"units": "units", **wrong})


#: Leap days, turns of centuries, and the first and last days that are accepted.
DAYS = [*range(-400, 400), *range(10_900, 11_400), -354_285, -25_509, 47_540, 2_932_896]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_dates_become_the_numbers_of_the_encoder(ready, postgres, dialect):
    encoder, sql = ready.situation().encoder(wave=2), dialect_of(dialect)
    made, parts = columns_of(encoder, sql), list(encoder.parts)
    given = f"g{parts.index('since')}"
    days = pl.DataFrame({"since": dates(np.array(DAYS)), "row": [float(row) for row in DAYS]})
    (read,) = (text for text, name in made.read if name == given)
    levels = [(text, name) for text, name in made.levels if given in text]
    inner = ", ".join(f"{text} AS {name}" for text, name in levels)
    text = f"SELECT {inner} FROM (SELECT {read} AS {given}, row FROM days) AS d ORDER BY row"
    run = in_duckdb if dialect == "duckdb" else partial(in_postgres, postgres.get_uri())
    found = run(text, days=days)
    wanted = days.sort("row")["since"]
    month, since, weekday = (found[name] for _, name in levels)
    assert month.to_list() == (wanted.dt.month() - 1).to_list()
    assert weekday.to_list() == (wanted.dt.weekday() - 1).to_list()
    assert since.to_list() == [(date(2026, 3, 1) - day).days for day in wanted]


def test_dates_that_are_missing_or_unlikely_are_problems(ready):
    units = customers(4, seed=9).with_columns(
        kind=pl.lit("a"),
        born=pl.Series(["1980-02-29", None, "0999-12-31", "9999-12-31"]),
    )
    found = in_duckdb(ready.sql(units="units"), units=units).sort("id")
    assert found["problem"].to_list() == [
        None, "born is missing", "born must be a date between the years 1000 and 9999", None,
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_infinite_dates_are_problems(ready, postgres, dialect):
    # DuckDB and PostgreSQL read these words as dates after and before all others.
    units = customers(3, seed=9).with_columns(
        kind=pl.lit("a"),
        born=pl.Series(["1980-02-29", "infinity", "-infinity"]),
    )
    run = in_duckdb if dialect == "duckdb" else partial(in_postgres, postgres.get_uri())
    found = run(ready.sql(units="units", dialect=dialect), units=units).sort("id")
    unlikely = "born must be a date between the years 1000 and 9999"
    assert found["problem"].to_list() == [None, unlikely, unlikely]
    assert found["action"].null_count() == 2
