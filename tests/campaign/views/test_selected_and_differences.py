"""In findings: the best of several, how different actions are by feature, and boosted trees."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign.decide.logged_waves import logged
from seqbatch.campaign.record.current_situation import situation
from seqbatch.campaign.views.boosted_trees import trees_sentences
from seqbatch.campaign.views.findings_text import placed
from seqbatch.campaign.views.selected_action import selected_sentence
from seqbatch.core.pooled_regression import CONSTANT, FEATURES, MOST_RATIO
from seqbatch.inference import Verdict
from tests.campaign.specs import about
from tests.campaign.views.test_findings import exported, made, run
from tests.oracles import pooling

PAIRS = [(one, two) for one in CONSTANT for two in FEATURES if two <= MOST_RATIO * one]


def test_a_roll_out_is_told_if_several_actions_compete(store):
    found = run(made(store)).findings()
    one, best = found.selected, found.best
    assert (one.action, one.competing) == (best.action, 2)
    assert one.raw == pytest.approx(best.interval.estimate)
    # The worse end is that of the joint interval: the two never contradict each other.
    assert one.expected.low == best.together.low
    assert one.expected.low <= one.expected.estimate < one.raw
    assert one.expected.high <= best.together.high
    assert found.recommendation.code is Verdict.GIVE
    told = found.decision
    assert told.expected == one.expected
    assert told.total.estimate == pytest.approx(told.units * one.expected.estimate)
    assert told.worth[1].startswith("In a roll-out expect about ")
    plain = found.plain()["selected"]
    assert plain["expected"]["low"] == one.expected.low
    assert (plain["action"], plain["competing"]) == ("call", 2)


def by_chance(frame, random):
    return (random.random(len(frame)) < 0.5).astype(float)


def test_what_to_expect_is_said_also_without_a_clear_winner(store, tmp_path):
    campaign = run(made(store), sizes=(90,), value=by_chance)
    found = campaign.findings()
    assert found.recommendation.code is not Verdict.GIVE
    [said] = selected_sentence(found)
    one, measure = found.selected, found.measure
    best = next(lift for lift in found.lifts if lift.action == one.action).interval
    assert said.startswith(f"{one.action} looks best: {measure.amount(best.estimate, best.error)} ")
    assert f"as the best of 2: {measure.amount(one.expected.estimate, one.expected.error)}" in said
    assert measure.between(one.expected) in said
    report = campaign.report(tmp_path / "report.md", appendix=True).read_text(encoding="utf-8")
    for text in (str(found.document(appendix=True)), report):
        assert said in " ".join(text.split())


def test_the_best_is_the_lowest_where_less_is_better(store):
    found = run(made(store, **about("visit", kind="yes/no", direction="min"))).findings()
    one = found.selected
    assert one.action == min(found.lifts, key=lambda lift: lift.interval.estimate).action
    assert one.expected.high == found.best.together.high
    assert one.expected.estimate >= one.raw


def test_one_action_against_control_has_no_competitor(store):
    found = run(made(store, actions=["call", "none"])).findings()
    assert found.selected is None
    assert "too good" not in str(found.decision)
    assert selected_sentence(found) == []


def test_retired_actions_and_those_not_open_to_all_are_not_compared(store):
    campaign = run(made(store), sizes=(90, 60))
    campaign.amend(retire=["mail"], reason="no stock")
    found = run(campaign, sizes=(80,), start=5_000).findings()
    assert found.selected is None
    assert "not all lifts can be compared" in selected_sentence(found)[0]


def test_how_different_the_actions_are_agrees_with_the_literal_oracle(store, tmp_path):
    """One wave, in which calls cost a quarter of a visit."""
    actions = [{"name": "call", "cost": 0.25}, "none", "mail"]
    campaign = run(
        made(store, actions=actions, currency="EUR", **about("visit", unit="EUR", less_costs=True)),
        sizes=(90,),
    )
    found = campaign.findings()
    names, [wave] = exported(campaign, tmp_path)
    rows = [row for row in wave if row["y"] is not None]
    x, a = np.array([row["x"] for row in rows]), np.array([row["a"] for row in rows])
    y = np.array([row["y"] - 0.25 * (names[row["a"]] == "call") for row in rows])
    _, scales = pooling.pooled(x, a, y, 3, constant=0, pairs=PAIRS)
    first, *others = found.differences
    assert first.feature == ""
    assert first.spread == pytest.approx(scales[0], rel=1e-5)
    spreads = {one.feature: one.spread for one in others}
    assert spreads == {"age": pytest.approx(scales[1], rel=1e-5),
                       "member": pytest.approx(scales[2], rel=1e-5)}  # fmt: skip
    assert [one.spread for one in others] == sorted(spreads.values(), reverse=True)
    [table] = [one for one in placed(found)["methods"] if one.title.startswith("How different")]
    assert table.rows[0][0] == "for the average customer"
    assert table.columns == ("feature", "standard deviation of profit in EUR per customer")
    assert found.plain()["differences"][0]["spread"] == first.spread


def test_boosted_trees_are_compared_if_asked_for(store):
    campaign = run(made(store), missing=0.0)
    assert campaign.findings().trees is None
    found = campaign.findings(boosted_trees=True)
    assert found.trees.units == 230
    assert found.trees.gain.note == "Both rules give every unit the same action."
    [said] = trees_sentences(found)
    assert said.startswith("Whether a rule by trees would have done better is not known.")
    for low, words in [(0.01, "act in steps or together"), (-0.01, "It has not been shown")]:
        gain = replace(found.run.value, estimate=0.05, error=0.02, low=low, high=0.09)
        told = replace(found, trees=replace(found.trees, gain=gain))
        [said] = trees_sentences(told)
        assert words in said
        assert "5.0 more visits per 100 customers than the rule to run next" in said


def test_units_of_one_cluster_are_in_one_fold(store):
    campaign = made(store, unit=["household", "customer"], cluster="household")
    random = np.random.default_rng(3)
    units = pl.DataFrame({
        "household": [f"h{n // 2}" for n in range(90)], "customer": [f"c{n}" for n in range(90)],
        "age": random.normal(40, 10, 90), "member": random.choice(["yes", "no"], 90),
    })  # fmt: skip
    told = pl.from_arrow(campaign.assign(units).table)
    keys = told.select("household", "customer")
    campaign.record(keys.with_columns(visit=pl.Series(random.random(90).round())))
    campaign.close()
    with store.read(campaign.name) as reader:
        data = logged(reader, situation(reader.events()))
        [piece] = list(data.hashed(1))
    for cluster in np.unique(piece.rows.clusters):
        assert len(set(piece.folds[piece.rows.clusters == cluster].tolist())) == 1
    assert len(set(piece.ids.tolist())) == 90
    assert len(set(piece.clusters.tolist())) == 45
