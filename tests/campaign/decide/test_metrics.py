"""Several outcome columns: sums, costs, metrics with guardrails, formats."""

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.views.status import remarks
from tests.campaign.instances import units
from tests.campaign.record.test_absent_units import SHOP, exported
from tests.campaign.specs import about
from tests.refusals import refused

METRICS = {
    "visits": {"kind": "count", "guardrail": {"at_least": 2}},
    "unsubscribed": {"kind": "yes/no", "guardrail": {"at_most": 0.02}},
}


def shop(store, **changes):
    return Campaign.create({**SHOP, "required_outcomes": 0.5, **changes}, store=store)


def revenue(metrics=METRICS, **settings):
    """Return the settings of a campaign about revenue, with metrics beside it."""
    return about("revenue", **{"unit": "EUR", **settings}, metrics=metrics)


def outcomes(table, **columns):
    count = table.num_rows
    values = {"revenue": 10.0, "visits": 3.0, "unsubscribed": 0.0, **columns}
    kinds = {name: pl.Float64 for name, value in values.items() if not isinstance(value, str)}
    rows = {
        name: value if isinstance(value, list) else [value] * count
        for name, value in values.items()
    }
    return pl.DataFrame({"id": table["id"].to_pylist(), **rows}, schema_overrides=kinds)


def intercepts(campaign):
    with campaign.store.read(campaign.name) as reader:
        state = unpack_state(reader.last_state().content, campaign.situation())
    return dict(zip(["none", "mail"], state.evidence[0].moment[:, 0].tolist(), strict=True))


def test_metrics_are_recorded_counted_and_reported(store, tmp_path):
    campaign = shop(store, **revenue())
    table = campaign.assign(units(40)).table
    mailed = [action == "mail" for action in table["action"].to_pylist()]
    visits = [None if number < 5 else 1.0 + 4 * mail for number, mail in enumerate(mailed)]
    spent = [8.0, 10.0, 12.0, 14.0] * 10
    rows = outcomes(
        table, revenue=spent, visits=visits, unsubscribed=[float(mail) for mail in mailed]
    )
    assert campaign.record(rows).accepted == 40
    closed = campaign.close()
    # A close counts; it judges nothing.
    gone = [name for number, name in enumerate(table["action"].to_pylist()) if number < 5]
    assert closed.metrics["unsubscribed"] == closed.metrics["revenue"] == closed.observed
    assert closed.metrics["visits"] == {
        name: count - gone.count(name) for name, count in closed.observed.items()
    }
    assert campaign.status().metrics == closed.metrics
    assert campaign.status().tables()[-1].title == "Recorded values of each metric"
    # What is learned is the revenue alone.
    assert sum(intercepts(campaign).values()) == sum(spent)
    frame = exported(campaign, tmp_path)
    assert frame["visits"].to_list() == visits
    assert frame["reward"].to_list() == frame["revenue"].to_list() == spent
    text = campaign.report(tmp_path / "r.html").read_text()
    assert "visits per unit; guardrail: at least 2<" in text
    assert "Objective: revenue in EUR per unit; more is better." in text
    assert campaign.verify().sound


def test_no_verdict_comes_from_recorded_rows(store):
    """All ten units with a row left, all thirty without one did not."""
    rail = {"unsubscribed": {"kind": "yes/no", "absent": 0, "guardrail": {"at_most": 0.02}}}
    campaign = shop(store, **revenue(rail, absent=0))
    table = campaign.assign(units(40)).table
    campaign.record(outcomes(table, unsubscribed=1.0).drop("visits")[:10])
    closed = campaign.close()
    assert sum(closed.metrics["unsubscribed"].values()) == 10
    said = " ".join(remarks(campaign.status()))
    assert "unsubscribed" not in said
    _, left = campaign.findings().metrics
    assert (left.recorded, left.absent) == (10, 30)
    # Forty units, of which a quarter left: no verdict for one of them.
    means = [one.interval.estimate for one in left.means]
    assert means == pytest.approx([0.25, 0.25], abs=0.2)


def test_conflicts_compare_metrics_too(store, tmp_path):
    campaign = shop(store, **revenue())
    table = campaign.assign(units(40)).table
    campaign.record(outcomes(table))
    assert campaign.record(outcomes(table)).duplicate == 40
    other = outcomes(table, visits=[4.0] * 10 + [3.0] * 30)
    result = campaign.record(other)
    assert (result.conflict, result.duplicate) == (10, 30)
    assert result.held[0][3] == "the unit already has visits 3; received 4"
    assert result.reasons == (("conflict", "the unit already has another outcome", 10),)
    result = campaign.record(other, correct=True, reason="counted again")
    assert (result.accepted, result.corrected, result.duplicate) == (10, 10, 30)
    campaign.export(tmp_path / "o.parquet", what="outcomes")
    versions = pl.read_parquet(tmp_path / "o.parquet").filter(pl.col("id") == "000000")
    assert versions["visits"].to_list() == [3.0, 4.0]
    assert versions["version"].to_list() == [1, 2]
    assert campaign.verify().sound


def test_metrics_that_cannot_be_are_held(store):
    metrics = {"visits": {"kind": "count", "range": [0, 9]}, "unsubscribed": {"kind": "yes/no"}}
    campaign = shop(store, **revenue(metrics))
    table = campaign.assign(units(40)).table
    result = campaign.record(outcomes(table, visits=[12.0] * 3 + [0.0] * 37))
    assert (result.quarantined, result.accepted) == (3, 37)
    assert result.reasons == (("quarantined", "visits must be between 0 and 9", 3),)
    spelled = outcomes(table, visits="many")
    assert campaign.record(spelled).reasons == (("quarantined", "visits must be a number", 40),)


def test_amounts_above_the_cap_count_as_the_cap(store, tmp_path):
    actions = ["none", {"name": "mail", "cost": 0.4}]
    profit = about("revenue", unit="EUR", absent=0, cap=6.5, less_costs=True)
    campaign = shop(store, actions=actions, currency="EUR", draws="blake2", **profit)
    table = campaign.assign(units(40)).table
    amounts = pl.Series("revenue", [2.0, 10.0] * 20)
    campaign.record(pl.from_arrow(table).select("id").with_columns(amounts))
    campaign.close()
    frame = exported(campaign, tmp_path)
    # The record keeps the amounts as they came.
    assert frame["revenue"].to_list() == amounts.to_list()
    cost = pl.when(pl.col("action") == "mail").then(0.4).otherwise(0.0)
    expected = frame.select(pl.min_horizontal("revenue", pl.lit(6.5)) - cost).to_series()
    assert frame["reward"].to_list() == pytest.approx(expected.to_list())
    learned, found = intercepts(campaign), campaign.findings()
    for row, mean in zip(campaign.status().actions, found.means, strict=True):
        own = frame.filter(pl.col("action") == row.action)["reward"]
        assert learned[row.action] == pytest.approx(own.sum())
        assert mean.interval.estimate == pytest.approx(own.mean(), abs=0.2)
    assert found.measure.head == "profit in EUR per unit (revenue, less costs, capped at 6.5)"
    with refused("invalid-spec", field="metrics.revenue.cap"):
        low = about("revenue", cap=6.5, range=[10, 20], absent=10)
        shop(store, name="low", **low)


@pytest.mark.parametrize(("direction", "sign"), [("max", 1), ("min", -1)])
def test_costs_are_taken_off_what_is_learned(store, tmp_path, direction, sign):
    verb = "maximise" if direction == "max" else "minimise"
    campaign = shop(
        store,
        metrics={"revenue": {"unit": "EUR", "absent": 2}, "returned": {"unit": "EUR", "absent": 0}},
        objective={verb: {"revenue": 1.0, "returned": -0.5}, "less_costs": True},
        actions=["none", {"name": "mail", "cost": 0.4}],
        currency="EUR",
    )
    table = campaign.assign(units(40)).table
    rows = outcomes(table, returned=4.0).drop("visits", "unsubscribed")
    campaign.record(rows[:30])
    closed = campaign.close()
    frame = exported(campaign, tmp_path)
    value = pl.when(pl.col("observed") == "absent").then(2.0).otherwise(8.0)
    cost = pl.when(pl.col("action") == "mail").then(0.4).otherwise(0.0)
    expected = frame.select(value - sign * cost).to_series()
    assert frame["reward"].to_list() == pytest.approx(expected.to_list())
    assert frame["revenue"].to_list() == [10.0] * 30 + [None] * 10
    learned = intercepts(campaign)
    for row in campaign.status().actions:
        own = frame.filter(pl.col("action") == row.action)["reward"]
        assert learned[row.action] == pytest.approx(sign * own.sum())
        assert row.mean == pytest.approx(own.mean())
    assert sum(closed.absent.values()) == 10
    # A correction, and a row in the place of an absence, keep the costs.
    campaign.record(rows[:1].with_columns(revenue=pl.lit(20.0)), correct=True, reason="more")
    campaign.record(rows[30:31])
    second = campaign.assign(units(40, start=40)).table
    campaign.record(outcomes(second, returned=0.0).drop("visits", "unsubscribed"))
    campaign.close()
    frame, learned = exported(campaign, tmp_path), intercepts(campaign)
    for action in ("none", "mail"):
        own = frame.filter(pl.col("action") == action)["reward"]
        assert learned[action] == pytest.approx(sign * own.sum())
    assert campaign.verify().sound


def test_a_sum_needs_all_of_its_columns(store, tmp_path):
    campaign = shop(
        store,
        metrics={"revenue": {}, "returned": {}},
        objective={"maximise": {"revenue": 1e20, "returned": -0.5}},
    )
    table = campaign.assign(units(40)).table
    given = outcomes(table, returned=[None] + [0.0] * 39, revenue=[1.0, 1e20, 1e6] + [1e4] * 37)
    result = campaign.record(given.drop("visits", "unsubscribed"))
    assert result.reasons == (("quarantined", "reward must be below 1e+30 in size", 1),)
    # The objective is not known yet where one of its metrics is missing.
    assert exported(campaign, tmp_path)["reward"].null_count() == 2


def test_outcomes_as_germans_export_them(store, tmp_path):
    campaign = shop(store, **revenue({"share": {"format": "12,5 %"}}, format="1.234,56"))
    table = campaign.assign(units(40)).table
    rows = [(name, "1.250,50", "12,5 %") for name in table["id"].to_pylist()]
    frame = pl.DataFrame(rows, schema=["id", "revenue", "share"], orient="row")
    assert campaign.record(frame).accepted == 40
    assert exported(campaign, tmp_path)["reward"].to_list() == [1250.5] * 40
    assert exported(campaign, tmp_path)["share"].to_list() == [0.125] * 40


def test_reasons_are_counted_beside_the_first_rows(store):
    campaign = shop(store, **revenue())
    table = campaign.assign(units(40)).table
    campaign.record(outcomes(table).drop("visits", "unsubscribed"))
    strange = pl.DataFrame({"id": [f"x{n}" for n in range(50)], "revenue": [1.0] * 50})
    other = pl.DataFrame(
        {"id": table["id"].to_pylist()[:7], "revenue": [float(n) for n in range(7)]}
    )
    result = campaign.record(pl.concat([strange, other]))
    assert len(result.held) == 20
    assert result.reasons == (
        ("quarantined", "no such unit in this campaign", 50),
        ("conflict", "the unit already has another outcome", 7),
    )
    payload = campaign.events()[-1].payload
    assert payload["reasons"] == [list(reason) for reason in result.reasons]


@pytest.mark.parametrize(("changes", "field"), [
    (revenue({"age": {}}), "metrics.age.column"),
    (revenue({"visits": {"direction": "up"}}), "metrics.visits.direction"),
    (revenue({"visits": {"range": [2, 1]}}), "metrics.visits.range"),
    (revenue({"visits": {"format": "x"}}), "metrics.visits.format"),
    ({"actions": ["none", {"name": "mail", "cost": True}]}, "actions.1.cost"),
])  # fmt: skip
def test_metrics_and_costs_that_cannot_be_declared(store, changes, field):
    with refused("invalid-spec", field=field):
        shop(store, **changes)
