"""Ids of several columns, and clusters."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqbatch.campaign import Campaign
from seqbatch.campaign.files.ids import joined, parted
from tests.campaign.instances import created, outcomes, units
from tests.campaign.specs import about
from tests.refusals import refused

SPEC = {
    "name": "weekly", "seed": 1, "unit": ["customer", "week"], "cluster": "customer",
    "actions": ["none", "mail"], "randomised": 0.5, **about("visit"),
    "features": {"numeric": {"age": "raw"}}, "grid": {"sizes": [6, 6]},
}  # fmt: skip
TEXT = st.text(alphabet=st.sampled_from("a|\\0 é"), min_size=0, max_size=4)


def frame(customers, week="w1", **columns):
    return pl.DataFrame({
        "customer": customers, "week": [week] * len(customers), "age": 30.0, **columns,
    })  # fmt: skip


def weekly(store, **changes):
    return Campaign.create({**SPEC, **changes}, store=store)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=5))
def test_what_is_joined_can_be_parted(rows):
    columns = [[row[place] for row in rows] for place in range(3)]
    ids = joined(columns)
    assert parted(ids, 3) == columns
    assert len(set(ids)) == len(set(rows))


def test_answers_exports_and_outcome_files_have_all_columns(store, tmp_path):
    campaign = weekly(store)
    customers = ["7", "a|b", "a\\", "é", "x", "y"]
    answers = pl.from_arrow(campaign.assign(frame(customers)).table)
    assert answers.columns[:3] == ["customer", "week", "action"]
    assert answers["customer"].to_list() == customers
    again = pl.from_arrow(campaign.assign(frame(customers[::-1])).table)
    assert again["action"].to_list() == answers["action"].to_list()[::-1]
    rows = answers.select("customer", "week", visit=pl.lit(1.0))
    assert campaign.record(rows).accepted == 6
    held = campaign.record(frame(customers[:2], week="w9").select("customer", "week", visit=1.0))
    assert held.quarantined == 2
    assert held.held[0][1] == "7|w9"
    campaign.close()
    campaign.assign(frame(customers, week="w2"))
    campaign.export(tmp_path / "u.parquet")
    shown = pl.read_parquet(tmp_path / "u.parquet")
    assert shown.select("customer", "week").rows() == [
        (customer, week) for week in ("w1", "w2") for customer in customers
    ]
    campaign.export(tmp_path / "h.parquet", what="held")
    shown = pl.read_parquet(tmp_path / "h.parquet")
    assert shown.select("customer", "week").rows() == [("7", "w9"), ("a|b", "w9")]
    assert campaign.verify().sound


def test_problems_name_the_column(store):
    campaign = weekly(store)
    with refused("invalid-rows", column="week", problem="no-such-column"):
        campaign.assign(frame(["a"]).drop("week"))
    with refused("invalid-rows", row=1, column="week", problem="missing"):
        campaign.assign(frame(["a"], week=""))
    with refused("invalid-rows", row=2, column="customer and week", problem="repeated"):
        campaign.assign(frame(["a", "a"]))
    result = campaign.record(pl.DataFrame({"customer": ["a"], "week": [""], "visit": [1.0]}))
    assert result.held[0][3] == "week is missing"


def test_similar_ids_are_told_apart_column_by_column(store):
    campaign = weekly(store)
    result = campaign.assign(frame(["007", "7", "A", "a ", "b"]))
    [warning] = result.warnings
    assert "'007|w1' and '7|w1'" in warning
    assert "'A|w1' and 'a |w1'" in warning


def test_a_cluster_of_its_own_is_kept_and_exported(store, tmp_path):
    campaign = weekly(store, unit="customer", cluster="household")
    given_units = frame(list("abcdef"), household=["1", "1", "2", "2", "3", "3"])
    with refused("invalid-rows", column="household", problem="no-such-column"):
        campaign.assign(given_units.drop("household"))
    campaign.export(tmp_path / "nobody.parquet")
    campaign.assign(given_units)
    campaign.export(tmp_path / "u.parquet")
    shown = pl.read_parquet(tmp_path / "u.parquet")
    assert shown["household"].to_list() == ["1", "1", "2", "2", "3", "3"]
    assert pl.read_parquet(tmp_path / "nobody.parquet").columns == shown.columns
    campaign.record(given_units.select("customer", visit=1.0))
    campaign.close()
    assert campaign.verify().sound


@pytest.mark.parametrize(("changes", "field"), [
    ({"unit": ["customer", "customer"]}, "unit"),
    ({"unit": []}, "unit"),
    ({"unit": ["customer", "age"]}, "unit"),
    ({"unit": ["customer", "wave"]}, "unit"),
    ({"unit": 3}, "unit"),
    ({"cluster": "age"}, "cluster"),
    ({"cluster": "visit"}, "metrics.visit.column"),
])  # fmt: skip
def test_ids_and_clusters_that_cannot_be(store, changes, field):
    with refused("invalid-spec", field=field):
        weekly(store, **changes)


@pytest.mark.parametrize("change", [
    lambda unit: unit.lstrip("0") or "0",
    lambda unit: f"{int(unit)}.0",
    lambda unit: f" {unit} ",
])  # fmt: skip
def test_ids_that_were_changed_on_the_way_are_said_to_be(store, tmp_path, change):
    campaign = created(store)
    table = outcomes(campaign.assign(units(300)).table)
    ids = [change(unit) for unit in table["id"]]
    path = tmp_path / "outcomes.csv"
    table.with_columns(id=pl.Series(ids)).write_csv(path)
    result = campaign.record(path)
    assert (result.quarantined, result.accepted) == (300, 0)
    [advice] = result.advice
    assert advice.startswith("300 of 300 unknown ids match units when leading zeros")
    assert f"({ids[0]!r} may be {table['id'][0]!r})" in advice
    [doubt] = result.doubts
    assert doubt.plain()["remedies"] == [{"action": "record", "options": {"match_ids": True}}]
    # Matched, they are the outcomes of their units; sent again they are duplicates.
    result = campaign.record(path, match_ids=True)
    assert (result.accepted, result.matched, result.unknown, result.doubts) == (300, 300, 0, ())
    assert campaign.record(path, match_ids=True).duplicate == 300
    assert campaign.verify().sound
    campaign.export(tmp_path / "units.csv")
    stored = pl.read_csv(tmp_path / "units.csv", infer_schema_length=0)
    recorded = stored.select("id", pl.col("visit").cast(pl.Float64)).sort("id")
    assert recorded.equals(table.select("id", pl.col("visit").cast(pl.Float64)).sort("id"))


def test_an_id_that_may_be_several_units_stays_unknown(store):
    campaign = created(store)
    ids = ["7", "07", "007", *(f"{row:03d}" for row in range(100, 397))]
    table = outcomes(campaign.assign(units(300).with_columns(id=pl.Series(ids))).table)
    told = table.with_columns(id=pl.Series(["0007", "7 ", "07", *(f" {each}" for each in ids[3:])]))
    result = campaign.record(told, match_ids=True)
    # "0007" and "7 " may be three units each, and "07" is one.
    assert (result.accepted, result.matched, result.unknown) == (298, 297, 2)
    assert {unit for _, unit, _, _ in result.held} == {"0007", "7 "}


def test_ids_of_others_are_not_said_to_be_changed(store):
    campaign = created(store)
    table = outcomes(campaign.assign(units(300)).table)
    strangers = table.with_columns(id=pl.Series([f"x{row}" for row in range(300)]))
    assert campaign.record(strangers).advice == ()
    few = table.with_columns(id=pl.Series(["5", *table["id"][1:]]))
    assert campaign.record(few).advice == ()


def test_some_ids_that_lost_the_spaces_of_their_units_are_said_to_be_changed(store):
    campaign = created(store)
    padded = [f"{row:06d} " if row < 15 else f" {row:06d}" if row < 30 else f"{row:06d}"
              for row in range(300)]  # fmt: skip
    table = outcomes(campaign.assign(units(300).with_columns(id=pl.Series(padded))).table)
    result = campaign.record(table.with_columns(pl.col("id").str.strip_chars()))
    assert (result.accepted, result.quarantined) == (270, 30)
    [advice] = result.advice
    assert advice.startswith("30 of 30 unknown ids match units when leading zeros, spaces")
    assert "('000000' may be '000000 ')" in advice


def test_a_list_with_changed_ids_is_warned_about(store):
    campaign = created(store)
    campaign.assign(units(100))
    assert campaign.assign(units(30, start=100), draw=True).warnings == ()
    changed = units(140, start=60).with_columns(pl.col("id").str.strip_chars_start("0"))
    (said,) = campaign.assign(changed, draw=True).warnings
    assert said.startswith("70 of the first 140 new ids match units that were already assigned")
    assert said.endswith("; each of them counts as a new unit")
    assert "('60' may be '000060')" in said
