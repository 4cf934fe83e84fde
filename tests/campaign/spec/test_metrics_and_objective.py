"""Metrics and the objective: what is refused, what follows from them, and where costs count."""

import re
from pathlib import Path

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.spec.metrics import COMBINATIONS, SENSIBLE, Guardrail
from seqbatch.campaign.spec.toml import check_spec, parse_spec
from seqbatch.errors import InvalidSpecError
from tests.campaign.specs import about, profit
from tests.refusals import refused

ROOT = Path(__file__).parents[3]
#: Calls cost money, and what counts is how many customers buy.
CALLS = """\
name = "autumn"
control = "none"
actions = ["none", {name = "call", cost = 4.50}]
currency = "EUR"

[metrics.purchase]
kind = "yes/no"
absent = 0

[metrics.revenue]
unit = "EUR"

[objective]
maximise = "purchase"

[budget]
total = 300

[grid]
sizes = [100, 200]
"""
PLAIN = {"name": "autumn", "actions": ["none", "call"], "grid": {"sizes": [10, 20]}}
COSTS = {"actions": ["none", {"name": "call", "cost": 4.5}]}
YES_NO = about("purchase", kind="yes/no")


def declared(*parts, **settings):
    """Return a spec of the plain settings and others."""
    made = dict(PLAIN)
    for part in (*parts, settings):
        made |= part
    return check_spec(made)


def objective_of(*, currency="EUR", **settings):
    """Return settings with three metrics, and this objective."""
    metrics = {
        "purchase": {"kind": "yes/no"}, "visits": {"kind": "count"}, "revenue": {"unit": "EUR"},
    }  # fmt: skip
    return {"metrics": metrics, "currency": currency, "objective": settings}


# ----------------------------------------------------------------------
# Costs count in an objective that is money; elsewhere against the budget alone.


def test_costs_cannot_be_subtracted_from_a_yes_no_metric():
    text = CALLS.replace('maximise = "purchase"', 'maximise = "purchase"\nless_costs = true')
    with pytest.raises(InvalidSpecError) as caught:
        parse_spec(text)
    assert caught.value.field == "objective.less_costs"
    assert str(caught.value) == (
        "spec.toml: 1 problem; nothing was created.\n"
        "  a cost in EUR cannot be subtracted from a yes/no metric. objective.maximise is "
        '"purchase" (yes/no), and less_costs is true. Say what one purchase is worth '
        "(objective.value = 12.50), or set less_costs = false: costs then count against the "
        "budget alone\n"
        "    line 15: less_costs = true"
    )
    worth = parse_spec(text.replace("less_costs", "value = 12.50\nless_costs"))
    assert (worth.reward.money, worth.reward.unit, worth.reward.weights) == (True, "EUR", (12.5,))


@pytest.mark.parametrize("said", [{}, {"less_costs": False}])
@pytest.mark.parametrize("budget", [None, {"total": 300}])
def test_costs_do_not_touch_a_conversion(said, budget):
    objective = {"maximise": "purchase", **said}
    spec = declared(YES_NO, COSTS, objective=objective, budget=budget)
    assert [spec.charge(action) for action in spec.actions] == [0.0, 0.0]
    assert [action.cost for action in spec.actions] == [0.0, 4.5]
    assert spec.reward.terms[0].kind == "yes/no"
    assert not spec.reward.money


@pytest.mark.parametrize(("metric", "objective", "rewards"), [
    ({"kind": "yes/no"}, {"maximise": "y"}, [1.0, 1.0]),
    ({"unit": "EUR"}, {"maximise": "y", "less_costs": False}, [1.0, 1.0]),
    ({"unit": "EUR"}, {"maximise": "y", "less_costs": True}, [1.0, 1.0 - 0.25]),
    ({"unit": "EUR"}, {"minimise": "y", "less_costs": True}, [1.0, 1.0 + 0.25]),
    ({"kind": "yes/no"}, {"maximise": "y", "value": 12.5, "less_costs": True}, [12.5, 12.25]),
    ({"kind": "yes/no"}, {"maximise": "y", "value": 12.5, "less_costs": False}, [12.5, 12.5]),
    ({"kind": "count"}, {"minimise": "y", "value": 2.0, "less_costs": True}, [2.0, 2.25]),
])  # fmt: skip
def test_what_a_unit_is_worth(store, tmp_path, metric, objective, rewards):
    spec = {
        **PLAIN, "actions": ["none", {"name": "call", "cost": 0.25}], "currency": "EUR",
        "metrics": {"y": metric}, "objective": objective, "policy": {"kind": "UniformRandom"},
    }  # fmt: skip
    campaign = Campaign.create(spec, store=store)
    table = campaign.assign(pl.DataFrame({"unit": list("abcdefghij")})).table
    campaign.record(pl.DataFrame({"unit": table["unit"].to_pylist(), "y": [1] * 10}))
    campaign.close()
    campaign.export(tmp_path / "units.parquet", what="units")
    frame = pl.read_parquet(tmp_path / "units.parquet")
    found = dict(zip(frame["action"], frame["reward"], strict=True))
    assert [found["none"], found["call"]] == rewards
    assert campaign.verify().sound


@pytest.mark.parametrize(("settings", "field"), [
    (objective_of(maximise="purchase", less_costs=True), "objective.less_costs"),
    (objective_of(maximise="purchase", less_costs=True, currency=None), "objective.less_costs"),
    (objective_of(minimise="visits", less_costs=True), "objective.less_costs"),
    (objective_of(maximise="revenue", less_costs=True, currency="USD"), "objective.less_costs"),
    (objective_of(maximise="revenue", less_costs=True, currency=None), "objective.less_costs"),
    (objective_of(maximise={"revenue": 1, "visits": 2}, less_costs=True), "objective.less_costs"),
    (objective_of(maximise="revenue"), "objective.maximise"),
    (objective_of(minimise="revenue"), "objective.minimise"),
    (objective_of(maximise="revenue", currency=None), "objective.maximise"),
    (objective_of(maximise="purchase", value=12.5), "objective.maximise"),
    (objective_of(maximise="purchase", value=12.5, currency=None), "objective.value"),
    (objective_of(maximise="revenue", value=12.5, less_costs=True), "objective.value"),
])  # fmt: skip
def test_costs_and_values_that_do_not_fit_the_objective(settings, field):
    with refused("invalid-spec", field=field):
        declared(settings, COSTS)


@pytest.mark.parametrize("settings", [
    objective_of(maximise="purchase"),
    objective_of(maximise="revenue", less_costs=True),
    objective_of(maximise="revenue", less_costs=False),
    objective_of(maximise="revenue", currency="USD"),
    objective_of(maximise="visits", value=0.1, less_costs=True),
    objective_of(maximise={"revenue": 1, "visits": 2}),
    {**about("weight"), "currency": "EUR"},
    about("weight"),
    profit("revenue", direction="min"),
])  # fmt: skip
def test_costs_and_values_that_fit_the_objective(settings):
    declared(settings, COSTS)


def test_an_amount_without_costs_needs_no_currency():
    assert not declared(about("revenue", unit="EUR")).reward.money


def test_the_budget_has_the_currency_of_the_costs():
    with refused("invalid-spec", field="budget.unit"):
        declared(profit("revenue"), COSTS, budget={"total": 60, "unit": "USD"})
    spec = declared(profit("revenue"), COSTS, budget={"total": 60, "unit": "EUR"})
    assert spec.money == "EUR"
    alone = {**profit("revenue"), "currency": None}
    assert declared(alone, COSTS, budget={"total": 60, "unit": "EUR"}).reward.money
    with refused("invalid-spec", field="objective.less_costs"):
        declared(alone, COSTS, budget={"total": 60, "unit": "USD"})


# ----------------------------------------------------------------------
# The objective.


@pytest.mark.parametrize(("objective", "field"), [
    ({}, "objective.maximise"),
    ({"maximise": "purchase", "minimise": "revenue"}, "objective.maximise"),
    ({"maximise": 3}, "objective.maximise"),
    ({"maximise": ["purchase"]}, "objective.maximise"),
    ({"maximise": {}}, "objective.maximise"),
    ({"minimise": {"visits": "much"}}, "objective.minimise.visits"),
    ({"minimise": "costs"}, "objective.minimise"),
    ({"maximise": {"revenue": 1, "profit": 1}}, "objective.maximise"),
    ({"maximise": "purchase", "value": 0}, "objective.value"),
    ({"maximise": {"purchase": 12.5, "revenue": 1}, "value": 2}, "objective.value"),
    ({"maximise": "purchase", "purpose": "learn"}, "objective.purpose"),
])  # fmt: skip
def test_objectives_that_cannot_be(objective, field):
    with refused("invalid-spec", field=field):
        declared(objective_of(**objective))


def test_a_metric_that_is_nearly_right_is_named():
    with refused("invalid-spec", field="objective.maximise", match="did you mean purchase"):
        declared(objective_of(maximise="purchases"))


def test_a_sum_of_metrics_has_no_cap():
    metrics = {"revenue": {"cap": 900}, "visits": {"kind": "count"}}
    declared(metrics=metrics, objective={"maximise": "revenue"})
    with refused("invalid-spec", field="metrics.revenue.cap"):
        declared(metrics=metrics, objective={"maximise": {"visits": 1, "revenue": 0.1}})


def test_the_reward_of_one_metric_is_the_metric():
    metric = {"column": "amount", "range": [0, 90], "cap": 50, "absent": 0, "after": "3 days"}
    spec = declared(metrics={"revenue": metric, "returned": {}}, objective={"minimise": "revenue"})
    reward = spec.reward
    assert (reward.plain, reward.label, reward.columns) == (True, "revenue", ("amount",))
    assert (reward.sign, reward.range, reward.cap) == (-1.0, (0.0, 90.0), 50.0)
    assert (reward.absent, reward.after, reward.wait.days) == (0.0, "3 days", 3)
    assert spec.parts == ("returned",)


def test_the_reward_of_several_metrics_is_their_sum():
    metrics = {
        "revenue": {"range": [0, 90], "absent": 0, "after": "3 days"},
        "returns": {"kind": "count", "range": [1, 4], "absent": 1, "after": "2 weeks"},
    }
    objective = {"maximise": {"revenue": 0.5, "returns": -2}}
    spec = declared(metrics=metrics, objective=objective)
    reward = spec.reward
    assert (reward.plain, reward.label) == (False, "reward")
    assert (reward.range, reward.cap) == ((-8.0, 43.0), None)
    assert (reward.absent, reward.after) == (-2.0, "2 weeks")
    assert spec.parts == ("revenue", "returns")
    # A unit without a row counts only if all of its metrics say what that means.
    metrics["returns"] = {"kind": "count"}
    open_ended = declared(metrics=metrics, objective=objective).reward
    assert (open_ended.absent, open_ended.range) == (None, None)


def test_rows_within_a_window_are_waited_for():
    metric = {"date": "day", "within": "14 days", "absent": 0}
    assert declared(about("y", **metric)).reward.wait.days == 14
    assert declared(about("y", **metric, after="15 days")).reward.after == "15 days"
    assert declared(about("y", **metric, after="2 weeks")).reward.wait.days == 14
    assert declared(about("y", date="day", within="14 days")).reward.wait is None


# ----------------------------------------------------------------------
# Metrics.


@pytest.mark.parametrize(("settings", "setting"), [
    ({"kind": "money"}, "kind"),
    ({"kind": "yes/no", "range": [0, 1]}, "range"),
    ({"kind": "yes/no", "format": "1.234,56"}, "format"),
    ({"kind": "yes/no", "cap": 1}, "cap"),
    ({"kind": "yes/no", "absent": 2}, "absent"),
    ({"kind": "yes/no", "absent": 0.5}, "absent"),
    ({"range": [1, 1]}, "range"),
    ({"range": [2, 1]}, "range"),
    ({"range": [0, 9], "absent": -1}, "absent"),
    ({"range": [5, 9], "cap": 5}, "cap"),
    ({"cap": 0}, "cap"),
    ({"format": "twelve"}, "format"),
    ({"after": "3 days"}, "after"),
    ({"absent": 0, "after": "3 moons"}, "after"),
    ({"absent": 0, "after": "20 years"}, "after"),
    ({"within": "14 days"}, "within"),
    ({"within": "14", "date": "day"}, "within"),
    ({"within": "14 days", "date": "day", "absent": 0, "after": "13 days"}, "after"),
    ({"rows": "average"}, "rows"),
    ({"row_id": "y"}, "row_id"),
    ({"row_id": "y", "rows": "sum"}, "row_id"),
    ({"guardrail": 0.02}, "guardrail"),
    ({"guardrail": {}}, "guardrail"),
    ({"guardrail": {"at_most": 1, "at_least": 0}}, "guardrail.at_most"),
    ({"guardrail": {"at_least_control_minus": 1, "at_most": 0}}, "guardrail.at_most"),
    ({"guardrail": {"most": 1}}, "guardrail.most"),
    ({"kind": "yes/no", "guardrail": {"at_most": 2}}, "guardrail.at_most"),
    ({"kind": "yes/no", "guardrail": {"at_least": -0.1}}, "guardrail.at_least"),
    ({"kind": "yes/no", "guardrail": {"at_most_control_plus": 1.5}},
     "guardrail.at_most_control_plus"),
    ({"name": "other"}, "name"),
    ({"colum": "z"}, "colum"),
    ({"column": ""}, "column"),
])  # fmt: skip
def test_metrics_that_cannot_be(settings, setting):
    with refused("invalid-spec", field=f"metrics.y.{setting}"):
        declared(about("y", **settings))


@pytest.mark.parametrize("kind", ["yes/no", "count", "amount"])
@pytest.mark.parametrize("rows", COMBINATIONS)
def test_rows_that_make_sense(kind, rows):
    if rows in SENSIBLE[kind]:
        assert declared(about("y", kind=kind, rows=rows)).metrics["y"].rows == rows
    else:
        with refused("invalid-spec", field="metrics.y.rows"):
            declared(about("y", kind=kind, rows=rows))


@pytest.mark.parametrize(("kind", "rows"), [("count", "count"), ("yes/no", "any")])
def test_rows_are_counted_by_their_ids(kind, rows):
    spec = declared(about("orders", kind=kind, column="order_id", row_id="order_id", rows=rows))
    assert spec.metrics["orders"].counts_rows
    assert spec.metrics["orders"].columns == ("order_id",)


@pytest.mark.parametrize(("settings", "field"), [
    ({"unit": "y"}, "metrics.y"),
    ({"unit": "order"}, "metrics.y"),
    ({"cluster": "y"}, "metrics.y.column"),
    ({"features": {"numeric": {"y": "learn"}}}, "metrics.y.column"),
    ({"strata": ["y"]}, "strata"),
    ({"eligible": {"call": "y"}}, "eligible.call"),
    ({"metrics": {}}, "metrics"),
    ({"metrics": {"": {}}}, "metrics"),
    ({"metrics": {"y": 3}}, "metrics.y"),
    ({"metrics": {"y": {"direction": "up"}}}, "metrics.y.direction"),
    ({"metrics": [{"column": "y"}]}, "metrics"),
    ({"metrics": 3}, "metrics"),
])  # fmt: skip
def test_metrics_that_do_not_fit_the_rest(settings, field):
    with pytest.raises(InvalidSpecError) as caught:
        declared(about("y", row_id="order"), settings)
    assert caught.value.field.startswith(field)


def test_one_column_may_be_several_metrics():
    metrics = {
        "purchase": {"kind": "yes/no", "column": "order_id", "row_id": "order_id", "rows": "any"},
        "orders": {"kind": "count", "column": "order_id", "row_id": "order_id", "rows": "count"},
    }
    spec = declared(metrics=metrics, objective={"maximise": "purchase"})
    assert [metric.column for metric in spec.metrics.values()] == ["order_id", "order_id"]


def test_a_metric_is_better_the_lower_if_it_is_bounded_from_above():
    rails = {"at_most": "min", "at_most_control_plus": "min", "at_least": "max",
             "at_least_control_minus": "max"}  # fmt: skip
    for bound, direction in rails.items():
        metric = declared(about("y", guardrail={bound: 0.1})).metrics["y"]
        assert metric.direction == direction
    both = declared(about("y", guardrail={"at_most": 0.1}, metrics={"z": {"direction": "min"}}))
    assert both.metrics["z"].direction == "min"


@pytest.mark.parametrize(("bound", "expected"), [
    ({"at_most": 0.02}, (False, True, 0.02)),
    ({"at_least": 0}, (False, False, 0.0)),
    ({"at_most_control_plus": 0.5}, (True, True, 0.5)),
    ({"at_least_control_minus": 0.5}, (True, False, -0.5)),
])  # fmt: skip
def test_guardrails_bound_one_side(bound, expected):
    rail = Guardrail(**bound)
    assert (rail.relative, rail.upper, rail.bound) == expected


def test_a_spec_survives_being_stored():
    spec = parse_spec(CALLS.replace('unit = "EUR"', "guardrail = {at_least_control_minus = 0.1}"))
    stored = spec.model_dump(mode="json")
    assert check_spec(stored) == spec
    assert stored["metrics"]["revenue"]["guardrail"] == {"at_least_control_minus": 0.1}
    # Most metrics have few settings: what is not declared is not stored.
    assert "absent" not in stored["metrics"]["revenue"]


# ----------------------------------------------------------------------
# What a newcomer reads.


def test_the_documented_objectives_are_what_they_are_called():
    page = (ROOT / "docs" / "how-to" / "metrics.md").read_text(encoding="utf-8")
    heading = 'name = "autumn"\ngrid = {sizes = [10, 20]}\n'
    texts = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    conversion, revenue, gain = (parse_spec(heading + text) for text in texts)
    assert [one.reward.money for one in (conversion, revenue, gain)] == [False, True, True]
    charges = [[each.charge(action) for action in each.actions] for each in (conversion, revenue)]
    assert charges == [[0.0, 0.0], [0.0, 0.0]]
    assert [gain.charge(action) for action in gain.actions] == [0.0, 4.5]
    assert gain.reward.weights == (12.5,)


@pytest.mark.parametrize(("old", "new", "field", "line"), [
    ('"yes/no"', '"yes/no"\nrange = [0, 1]', "metrics.purchase.range", "range = [0, 1]"),
    ("absent = 0", "absent = 2", "metrics.purchase.absent", "absent = 2"),
    ("absent = 0", 'rows = "sum"', "metrics.purchase.rows", 'rows = "sum"'),
    ("absent = 0", 'within = "14 days"', "metrics.purchase.within", 'within = "14 days"'),
    (
        "absent = 0", 'date_format = "%d.%m.%Y"', "metrics.purchase.date_format",
        'date_format = "%d.%m.%Y"',
    ),
    ("absent = 0", "guardrail = 0.1", "metrics.purchase.guardrail", "guardrail = 0.1"),
    ('unit = "EUR"', 'column = "unit"', "metrics.revenue", "[metrics.revenue]"),
    ('maximise = "purchase"', 'maximise = "buy"', "objective.maximise", 'maximise = "buy"'),
    ('maximise = "purchase"', 'maximise = "revenue"', "objective.maximise",
     'maximise = "revenue"'),
    ('maximise = "purchase"', "", "objective.maximise", "[objective]"),
    ("total = 300", 'total = 300\nunit = "USD"', "budget.unit", 'unit = "USD"'),
])  # fmt: skip
def test_messages_quote_the_line_of_the_setting(old, new, field, line):
    text = CALLS.replace(old, new)
    with pytest.raises(InvalidSpecError) as caught:
        parse_spec(text)
    assert caught.value.field == field
    number = text.splitlines().index(line) + 1
    assert str(caught.value).splitlines()[-1] == f"    line {number}: {line}"


def test_messages_quote_the_line_of_an_inline_table():
    text = CALLS.replace('[objective]\nmaximise = "purchase"\n', "")
    text = f'objective = {{maximise = "purchase", less_costs = true}}\n{text}'
    with refused("invalid-spec", field="objective.less_costs", match="line 1: objective = {"):
        parse_spec(text)


@pytest.mark.parametrize(("old", "field"), [
    ('[reward]\ncolumn = "visit"', "reward"),
    ('[[metrics]]\ncolumn = "visit"', "metrics"),
    ('outcome = "order_id"', "outcome"),
])  # fmt: skip
def test_the_settings_of_older_specs_are_answered_with_what_to_write(old, field):
    text = f'name = "spring"\nactions = ["none", "mail"]\ngrid = {{sizes = [10]}}\n{old}\n'
    with pytest.raises(InvalidSpecError, match=r"\[metrics\.NAME\]") as caught:
        parse_spec(text)
    assert (field,) in [place for place, _ in caught.value.places]
