"""Who is in a wave: each unit once, the same units everywhere, and nothing wrong in silence."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import duckdb
import polars as pl
import psycopg
import pytest
import sqlglot

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import agreement
from seqbatch.campaign.warehouse.dialects import DIALECTS
from seqbatch.campaign.warehouse.wave_list import WaveList, ordered
from seqbatch.engine import merge_tree
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.campaign.warehouse.test_frozen_rule import joined, tallied, texts
from tests.campaign.warehouse.test_sums import here, state_of
from tests.campaign.warehouses import (
    ELSEWHERE,
    DuckDBShop,
    PostgresShop,
    customers,
    visits,
)
from tests.refusals import refused

SIZES = [300, 200, 150]
SPEC = {**ELSEWHERE, "grid": {"sizes": SIZES}}
TABLES = {"units": "units", "assignments": "roster"}


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


@pytest.fixture(params=["duckdb", pytest.param("postgres", marks=pytest.mark.slow)])
def shop(request):
    if request.param == "duckdb":
        made = DuckDBShop()
    else:
        made = PostgresShop(request.getfixturevalue("postgres").get_uri())
    yield made
    made.close()


def insert(campaign, shop, **options):
    return shop.run(campaign.sql(dialect=shop.dialect, write=True, **TABLES, **options))


def create(campaign, shop):
    """Create the table of assignments alone: PostgreSQL undoes a whole script that fails."""
    text = campaign.sql(dialect=shop.dialect, write=True, **TABLES)
    shop.run(text.partition(";")[0])


def roster(shop, wave):
    return shop.run(f"SELECT * FROM roster WHERE wave = {wave}").sort("id")


def sums_of(campaign, shop, folder, wave):
    """Return the sums of a wave, and the file of their statement."""
    mine = roster(shop, wave).filter(pl.col("action").is_in(["none", "it's mail", "call"]))
    shop.put("outcomes", visits(mine["id"], mine["action"], seed=wave))
    text = campaign.sql(
        what="sums", dialect=shop.dialect, assignments="roster", outcomes="outcomes"
    )
    path = folder / f"sums-{wave}.sql"
    path.write_text(text, encoding="utf-8")
    return shop.run(text), path


def wave(campaign, shop, folder, number):
    insert(campaign, shop)
    sums, path = sums_of(campaign, shop, folder, number)
    return campaign.record_sums(sums, statement=path)


def test_three_waves_of_one_table_are_those_of_a_campaign_from_files(store, shop, tmp_path):
    """The customers grow; the same ones enter the waves in a database, on Arrow, and from files."""
    afar = Campaign.create(SPEC, store=store)
    other = open_store(tmp_path / "other.db")
    near = Campaign.create(here(grid=SPEC["grid"]), store=other)
    seen, earlier = set(), None
    for number, size in enumerate(SIZES, start=1):
        units = pl.concat([customers(400, seed=seed) for seed in range(1, number + 1)])
        shop.put("units", units)
        assert insert(afar, shop).item() == size
        mine = roster(shop, number)
        # A second run changes nothing, nor does one over other customers.
        shop.put("units", customers(400, seed=99))
        assert insert(afar, shop).item() == size
        assert roster(shop, number).equals(mine)
        assert len(mine) == size
        assert not seen & set(mine["id"])
        seen |= set(mine["id"])

        wanted = pl.from_arrow(near.assign(units, draw=True).table).sort("id")
        assert wanted.select("id", "action").equals(mine.select("id", "action"))
        rule = afar.rule()
        listed = merge_tree(WaveList.merged, map(rule.listed, pieces(units)))
        own = rule.with_wave(listed, earlier)
        arrow = pl.concat([pl.DataFrame(own.assign(piece)) for piece in pieces(units)]).sort("id")
        assert arrow["problem"].null_count() == size
        same = {"feature_zip": pl.col("feature_zip").replace("", None)}
        stored = [frame.with_columns(**same).select(mine.columns) for frame in (arrow, mine)]
        assert stored[0].equals(stored[1])

        sums, path = sums_of(afar, shop, tmp_path, number)
        outcomes = visits(mine["id"], mine["action"], seed=number)
        entered = units.filter(pl.col("id").is_in(mine["id"].implode()))
        # The sums are those of the answers, of which one half came from Arrow and one from SQL.
        both = pl.concat([arrow[:90].drop("problem"), mine[90:].select(arrow.columns[:-1])])
        answers = both.join(outcomes, on="id", how="left").to_arrow()
        found = own.result(tallied(own, answers), path.read_text(), earlier)
        assert texts(found).equals(texts(sums).select(texts(found).columns), null_equal=True)
        before = merge_tree(WaveList.merged, map(rule.listed, pieces(entered)))
        earlier = before if earlier is None else earlier.merged(before)
        afar.record_sums(sums, statement=path)
        near.record(outcomes)
        near.close()
        assert agreement(state_of(afar), state_of(near)) == 0
    assert afar.verify().sound
    assert near.verify().sound
    other.close()


def pieces(units, rows=97):
    return units.to_arrow().to_batches(max_chunksize=rows)


def test_a_customer_who_changes_after_the_decision_is_summed_up_as_decided(store, tmp_path):
    campaign, shop = Campaign.create(SPEC, store=store), DuckDBShop()
    shop.put("units", customers(400, seed=1))
    insert(campaign, shop)
    before, _ = sums_of(campaign, shop, tmp_path, 1)
    shop.put("units", customers(400, seed=1).with_columns(spend=pl.lit(60.0), vip=pl.lit(True)))
    after, _ = sums_of(campaign, shop, tmp_path, 1)
    assert after.equals(before, null_equal=True)
    shop.close()


def one_more(frame, **changed):
    return pl.concat([frame, frame[-1:].with_columns(**changed)])


BAD_UNITS = {
    "repeated": (lambda units: one_more(units, spend=pl.lit(59.0)), "1 rows of units repeat"),
    "nameless": (lambda units: one_more(units, id=pl.lit(None, pl.String)), "1 rows of units have"),
    "empty id": (lambda units: one_more(units, id=pl.lit("")), "1 rows of units have no id"),
    "too few": (lambda units: units[:299], "299 units of units have no action yet, fewer than"),
    "problem": (
        lambda units: units.with_columns(spend=pl.lit(None, dtype=pl.Float64)), "spend is missing",
    ),
    "no column": (lambda units: units.drop("vip"), "vip"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_UNITS)
def test_a_script_that_finds_something_wrong_fails_and_inserts_nothing(store, shop, case):
    change, said = BAD_UNITS[case]
    campaign = Campaign.create(SPEC, store=store)
    create(campaign, shop)
    shop.put("units", change(customers(400, seed=1)))
    with pytest.raises((duckdb.Error, psycopg.Error), match=said):
        insert(campaign, shop)
    assert shop.run("SELECT COUNT(*) AS n FROM roster").item() == 0


def forgotten(shop):
    shop.run("DELETE FROM roster WHERE id = (SELECT MIN(id) FROM roster WHERE wave = 1)")


def of_another(shop):
    first = "SELECT MIN(id) FROM roster WHERE wave = 1"
    shop.run(f"UPDATE roster SET id = id || 'x' WHERE id = ({first})")


def added(shop):
    shop.run("INSERT INTO roster (id, wave) VALUES ('somebody', 7)")


def emptied(shop):
    shop.run("DELETE FROM roster")


@pytest.mark.parametrize("change", [forgotten, of_another, added, emptied])
def test_a_table_that_is_not_the_campaigns_is_refused(store, shop, tmp_path, change):
    campaign = Campaign.create(SPEC, store=store)
    shop.put("units", customers(900, seed=1))
    wave(campaign, shop, tmp_path, 1)
    kept = shop.run("SELECT * FROM roster")
    change(shop)
    with pytest.raises(
        (duckdb.Error, psycopg.Error), match="should be the 300 units of the earlier"
    ):
        insert(campaign, shop)
    # Somebody who assigned in time, and whose table changed only then, has no sums either.
    shop.put("roster", kept)
    insert(campaign, shop)
    if change is emptied:
        shop.run("DELETE FROM roster WHERE wave = 1")
    else:
        change(shop)
    sums, path = sums_of(campaign, shop, tmp_path, 2)
    with refused("invalid-rows", row=1, column="altered", problem="altered"):
        campaign.record_sums(sums, statement=path)
    assert campaign.situation().wave == 2


def test_sums_of_units_that_had_an_earlier_wave_are_refused(store, shop, tmp_path):
    campaign = Campaign.create(SPEC, store=store)
    shop.put("units", customers(900, seed=1))
    wave(campaign, shop, tmp_path, 1)
    insert(campaign, shop)
    # One unit of the second wave becomes one of the first.
    first, second = roster(shop, 1), roster(shop, 2)
    again = pl.concat([second[1:], second[:1].with_columns(id=pl.lit(first["id"][0]))])
    shop.put("roster", pl.concat([first, again]))
    sums, path = sums_of(campaign, shop, tmp_path, 2)
    with refused("invalid-rows", row=1, column="earlier", problem="earlier-units"):
        campaign.record_sums(sums, statement=path)
    # The whole first wave once more, as the second, without a trace of the first.
    shop.put("roster", first[:200].with_columns(wave=pl.lit(2, pl.Int64)))
    sums, path = sums_of(campaign, shop, tmp_path, 2)
    with refused("invalid-rows", row=1, column="altered", problem="altered"):
        campaign.record_sums(sums, statement=path)


def test_a_table_that_another_campaign_uses_is_refused(store, shop, tmp_path):
    """Even one of the same name, whose first wave is there."""
    one = Campaign.create(SPEC, store=store)
    other = open_store(tmp_path / "other.db")
    two = Campaign.create({**SPEC, "seed": 6}, store=other)
    shop.put("units", customers(900, seed=1))
    insert(one, shop)
    with pytest.raises((duckdb.Error, psycopg.Error), match="300 units of other waves or campaign"):
        insert(two, shop)
    sums, path = sums_of(two, shop, tmp_path, 1)
    with refused("invalid-rows", problem="no-rows"):
        two.record_sums(sums, statement=path)
    other.close()


@pytest.mark.slow
def test_two_sessions_that_insert_at_the_same_time_insert_once(store, postgres):
    campaign = Campaign.create(SPEC, store=store)
    shop = PostgresShop(postgres.get_uri())
    shop.put("units", customers(900, seed=1))
    create(campaign, shop)
    text = campaign.sql(dialect="postgres", write=True, **TABLES)
    sessions = [psycopg.connect(postgres.get_uri(), autocommit=True) for _ in range(6)]
    for session in sessions:
        session.execute("SET search_path TO shop")
    with ThreadPoolExecutor(len(sessions)) as pool:
        list(pool.map(lambda session: session.execute(text), sessions))
    for session in sessions:
        session.close()
    assert len(roster(shop, 1)) == 300
    shop.close()


def test_a_unit_of_the_wave_that_is_changed_afterwards_is_refused(store, tmp_path):
    campaign, shop = Campaign.create(SPEC, store=store), DuckDBShop()
    shop.put("units", customers(400, seed=1))
    insert(campaign, shop)
    whole = roster(shop, 1)
    for change, column, problem in (
        (one_more(whole, action=pl.lit("none")), "distinct_units", "repeated-units"),
        (whole.with_columns(action=pl.lit("a letter")), "action", "no-action"),
        (whole.with_columns(feature_spend=pl.lit(None, pl.Float64)), "action", "no-action"),
        (whole.with_columns(p0=pl.lit(0.9)), "e0", "impossible"),
    ):
        shop.put("roster", change)
        sums, path = sums_of(campaign, shop, tmp_path, 1)
        with refused("invalid-rows", column=column, problem=problem):
            campaign.record_sums(sums, statement=path)
    shop.put("roster", whole[1:])
    sums, path = sums_of(campaign, shop, tmp_path, 1)
    with refused("not-as-planned", match="299"):
        campaign.record_sums(sums, statement=path)
    shop.close()


def test_outcomes_whose_ids_are_written_in_another_way_are_refused(store, shop, tmp_path):
    """Otherwise every unit would count as one without an outcome."""
    spec = {**SPEC, **about("bought", kind="yes/no", absent=0)}
    campaign = Campaign.create(spec, store=store)
    shop.put("units", customers(400, seed=1))
    insert(campaign, shop)
    _, path = sums_of(campaign, shop, tmp_path, 1)
    mine = roster(shop, 1)
    right = visits(mine["id"], mine["action"], seed=1)
    shop.put("outcomes", right.with_columns(pl.col("id") + " "))
    with refused("invalid-rows", row=1, column="told", problem="no-unit-matches", match="300"):
        campaign.record_sums(shop.run(path.read_text()), statement=path)
    # Other customers' outcomes are passed over, and nobody may have one.
    for outcomes in (right[:0], pl.concat([right, right.with_columns(pl.col("id") + " ")])):
        shop.put("outcomes", outcomes)
        sums = shop.run(path.read_text())
        assert sums["told"].unique().to_list() == [len(outcomes)]
    assert sum(campaign.record_sums(sums, statement=path).closed.observed.values()) == 300


def test_the_rule_refuses_what_the_script_refuses(store, tmp_path):
    campaign, shop = Campaign.create(SPEC, store=store), DuckDBShop()
    units = customers(900, seed=1)
    shop.put("units", units)
    rule, (batch,) = campaign.rule(), units.to_arrow().combine_chunks().to_batches()
    with refused("no-wave-list"):
        rule.assign(batch)
    listed = rule.listed(batch)
    with refused("invalid-argument", field="units", match="1 repeated"):
        rule.with_wave(listed.merged(rule.listed(batch[:1])))
    with refused("invalid-argument", field="units", match="at least the 300 .* 299 units"):
        rule.with_wave(rule.listed(batch[:299]))
    nameless = one_more(units, id=pl.lit("")).to_arrow().combine_chunks().to_batches()[0]
    with refused("invalid-rows", row=901, column="id"):
        rule.listed(nameless)
    assert rule.with_wave(rule.listed(batch[:299]), partial=True).assign(batch).num_rows == 299
    wave(campaign, shop, tmp_path, 1)
    first = roster(shop, 1).to_arrow().combine_chunks().to_batches()[0]
    rule = campaign.rule()
    listed, earlier = rule.listed(batch), rule.listed(first)
    for wrong in (None, rule.listed(first[1:]), earlier.merged(rule.listed(first[:1])), listed):
        with refused("invalid-argument", field="earlier", match="the 300 units"):
            rule.with_wave(listed, wrong)
    entered = rule.with_wave(listed, earlier).assign(batch)
    assert not set(entered["id"].to_pylist()) & set(first["id"].to_pylist())
    insert(campaign, shop)
    _, path = sums_of(campaign, shop, tmp_path, 2)
    with refused("no-wave-list"):
        rule.sums(entered)
    own = rule.with_wave(listed, earlier)
    answers = joined(own, units, visits(entered["id"], ["none"] * 200, seed=2))
    tally = tallied(own, answers)
    for before, column in ((listed, "altered"), (None, "altered")):
        with refused("invalid-rows", row=1, column=column):
            campaign.record_sums(rule.result(tally, path.read_text(), before), statement=path)
    # The rule of a list that forgot the first wave takes its units; the sums tell.
    wrong = replace(own, members=ordered(earlier.merged(listed).marks))
    again = joined(wrong, pl.DataFrame(batch).filter(pl.col("id").is_in(first["id"].to_pylist())),
                   visits(first["id"], ["none"] * 300, seed=2))  # fmt: skip
    tally = tallied(wrong, again[:200])
    with refused("invalid-rows", row=1, column="earlier"):
        campaign.record_sums(rule.result(tally, path.read_text(), earlier), statement=path)
    shop.close()


ALTERED = {
    "another unit's": ({"id": pl.lit("somebody")}, "id", "not-in-wave"),
    "action": ({"action": pl.lit("a letter")}, "action", "altered"),
    "no action": ({"action": pl.lit(None, pl.String)}, "action", "altered"),
    "probability": ({"p1": pl.col("p1").replace_strict({}, default=0.5)}, "p1", "altered"),
    "randomised": ({"randomised": 1 - pl.col("randomised")}, "randomised", "altered"),
    "part": ({"part": pl.col("part") + 1}, "part", "altered"),
    "wave": ({"wave": pl.lit(1)}, "wave", "altered"),
    "campaign": ({"campaign": pl.lit("warm")}, "campaign", "altered"),
    "column": ({"feature_spend": pl.col("feature_spend") / 2}, "score", "altered"),
}


def test_the_rule_sums_up_nobody_elses_answers(store, tmp_path):
    """Those that the wave's own units had when they were assigned, unchanged, and each once."""
    campaign, shop = Campaign.create(SPEC, store=store), DuckDBShop()
    units = customers(900, seed=1)
    shop.put("units", units)
    wave(campaign, shop, tmp_path, 1)
    rule, (batch,) = campaign.rule(), units.to_arrow().combine_chunks().to_batches()
    first = roster(shop, 1).to_arrow().combine_chunks().to_batches()[0]
    own = rule.with_wave(rule.listed(batch), rule.listed(first))
    answers = pl.DataFrame(own.assign(batch))
    outcomes = visits(answers["id"], ["none"] * 200, seed=2)

    def summed(changed):
        table = changed.join(outcomes, on="id", how="left").to_arrow().combine_chunks()
        return own.sums(table.to_batches()[0])

    assert sum(len(group.ids) for group in summed(answers).groups.values()) == 200
    for change, column, problem in ALTERED.values():
        row = answers[7:8].with_columns(**change)
        with refused("invalid-rows", row=8, column=column, problem=problem):
            summed(
                pl.concat(
                    [answers[:7], row.select(answers.columns), answers[8:]], how="vertical_relaxed"
                )
            )
    with refused("invalid-rows", row=201, column="id", problem="repeated"):
        summed(pl.concat([answers, answers[7:8]]))
    for gone in ("score", "feature_age", "visit"):
        with refused("invalid-rows", row=0, column=gone, problem="no-such-column"):
            batch = answers.join(outcomes, on="id").drop(gone).to_arrow()
            own.sums(batch.combine_chunks().to_batches()[0])
    shop.close()


def test_a_wave_may_have_fewer_units_if_that_is_said(store, shop, tmp_path):
    campaign = Campaign.create(SPEC, store=store)
    shop.put("units", customers(250, seed=1))
    assert insert(campaign, shop, partial=True).item() == 250
    sums, path = sums_of(campaign, shop, tmp_path, 1)
    with refused("not-as-planned"):
        campaign.record_sums(sums, statement=path)
    campaign.record_sums(sums, statement=path, force=True, reason="a small shop")
    shop.put("units", customers(250, seed=1)[:0])
    with pytest.raises((duckdb.Error, psycopg.Error), match="0 units are in wave 2"):
        insert(campaign, shop, partial=True)


def test_a_wave_by_the_calendar_takes_everybody_who_is_new(store, tmp_path):
    grid = {"calendar": True, "waves": 2, "units": 500}
    campaign, shop = Campaign.create({**SPEC, "grid": grid}, store=store), DuckDBShop()
    shop.put("units", customers(400, seed=1))
    wave(campaign, shop, tmp_path, 1)
    shop.put("units", pl.concat([customers(400, seed=1), customers(70, seed=2)]))
    assert insert(campaign, shop).item() == 70
    shop.close()


def test_a_selection_shows_problems_and_is_refused_once_it_was_inserted(store, shop):
    campaign = Campaign.create(SPEC, store=store)
    units = customers(300, seed=1).with_columns(
        spend=pl.when(pl.int_range(300) == 7).then(None).otherwise(pl.col("spend"))
    )
    create(campaign, shop)
    shop.put("units", units)
    with pytest.raises((duckdb.Error, psycopg.Error), match="spend is missing"):
        insert(campaign, shop)
    text = campaign.sql(dialect=shop.dialect, **TABLES)
    found = shop.run(text)
    assert found.filter(pl.col("problem").is_not_null())["id"].to_list() == [units["id"][7]]
    assert found["action"].null_count() == 1
    shop.put("units", units.with_columns(pl.col("spend").fill_null(1.0)))
    insert(campaign, shop)
    with pytest.raises((duckdb.Error, psycopg.Error), match="300 units are in wave 1 of roster"):
        shop.run(text)


def test_ids_of_two_columns_are_told_apart(store, shop):
    spec = {**SPEC, "unit": ["id", "week"]}
    campaign = Campaign.create(spec, store=store)
    weeks = [customers(200, seed=1).with_columns(week=pl.lit(week)) for week in (1, 2)]
    shop.put("units", pl.concat(weeks))
    assert insert(campaign, shop).item() == 300
    pairs = shop.run("SELECT COUNT(*) AS n FROM (SELECT DISTINCT id, week FROM roster) AS pairs")
    assert pairs.item() == 300


@pytest.mark.parametrize("dialect", DIALECTS)
def test_scripts_are_sql_of_their_dialect(store, dialect):
    campaign = Campaign.create(SPEC, store=store)
    tables = {"units": "crm.customers", "assignments": "crm.roster"}
    for write in (True, False):
        text = campaign.sql(dialect=dialect, write=write, **tables)
        assert all(sqlglot.parse(text, read=dialect))
    text = campaign.sql(what="sums", dialect=dialect, assignments="crm.roster", outcomes="o")
    assert all(sqlglot.parse(text, read=dialect))


def test_tables_that_a_statement_does_not_need_are_refused(store):
    campaign = Campaign.create(SPEC, store=store)
    for given, field in (
        ({"units": "units"}, "assignments"),
        ({"units": "units", "write": True}, "assignments"),
        ({"assignments": "roster"}, "what"),
        ({**TABLES, "outcomes": "outcomes"}, "what"),
        ({"what": "sums", **TABLES, "outcomes": "outcomes"}, "what"),
        ({"what": "sums", "assignments": "roster"}, "what"),
        ({**TABLES, "assignments": "taken"}, "table"),
    ):
        with refused("invalid-argument", field=field):
            campaign.sql(**given)
    with refused("invalid-spec", field="rows", match="called like"):
        Campaign.create({**SPEC, "name": "odd", "unit": ["Action"]}, store=store)


def test_exchanged_actions_are_refused(store, shop, tmp_path):
    """Each action is the one that the unit's draws give it, whatever else is in its row."""
    campaign = Campaign.create(SPEC, store=store)
    shop.put("units", customers(400, seed=1))
    insert(campaign, shop)
    mine = roster(shop, 1)
    exchanged = {"mail": "it's mail", "call": "none", "it's mail": "call", "none": "it's mail"}
    some = pl.col("id") == mine["id"].min()
    shop.put("roster", mine.with_columns(
        action=pl.when(some).then(pl.col("action").replace(exchanged)).otherwise("action")
    ))  # fmt: skip
    sums, path = sums_of(campaign, shop, tmp_path, 1)
    with refused("invalid-rows", problem="no-action"):
        campaign.record_sums(sums, statement=path)
    shop.put("roster", mine.with_columns(id=pl.col("id").sort(descending=True)))
    sums, path = sums_of(campaign, shop, tmp_path, 1)
    with refused("invalid-rows", problem="no-action"):
        campaign.record_sums(sums, statement=path)


def test_sums_are_recorded_once(store, shop, tmp_path):
    """A repeated call gives the first answer; a wave without outcomes is closed by force alone."""
    spec = {**SPEC, **about("visit", range=[-10, 10], absent=0)}
    campaign = Campaign.create(spec, store=store)
    shop.put("units", customers(400, seed=1))
    insert(campaign, shop)
    sums, path = sums_of(campaign, shop, tmp_path, 1)
    shop.run("DELETE FROM outcomes")
    with refused("no-outcomes"):
        campaign.record_sums(shop.run(path.read_text(encoding="utf-8")), statement=path)
    made = campaign.record_sums(sums, statement=path)
    assert campaign.record_sums(sums, statement=path) == made
    assert len(campaign.events()) == 2
