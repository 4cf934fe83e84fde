"""The protocol says what was declared, with numbers that are computed again here."""

import json
from itertools import accumulate

import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.logged_waves import planned
from seqbatch.inference import boundaries, detectable_drift, detectable_lift, planned_path
from seqbatch.storage import open_store
from tests.campaign.instances import SPEC
from tests.campaign.specs import about

TRIAL = {
    **SPEC,
    "name": "trial",
    "control": "none",
    "stopping": {"rule": "obrien-fleming", "futility": True},
    "strata": ["zip", "centre"],
    "eligible": {"call": "age >= 18"},
    "capacity": {"call": {"each_wave": 100, "at_least": 10}},
    **about(
        "visit",
        range=[-10, 10],
        metrics={
            "complaints": {
                "kind": "yes/no",
                "absent": 0,
                "guardrail": {"at_most_control_plus": 0.02},
            },
        },
    ),
    "report": {"segments": ["zip"]},
}


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


@pytest.fixture
def trial(store):
    return Campaign.create(TRIAL, store=store, who="ann")


def words(campaign, tmp_path):
    return " ".join(campaign.protocol(tmp_path / "p.md").read_text().replace("\\", "").split())


def test_everything_declared_is_said(trial, tmp_path):
    said = words(trial, tmp_path)
    for part in (
        "3 waves of 300, 200, 100 units",
        "Objective (the primary outcome): visit per unit; more is better.",
        "Null hypothesis 1: the mean visit per unit, over all units, is the same under mail as",
        "over all units who may get both, is the same under call",
        "call: age &gt;= 18",
        "call: at most 100 in each wave; at least 10 in each wave",
        "within each zip and each zip x centre",
        "the randomised share r = 0.2, the floor f = 0.02",
        "the campaign's name and its seed. The seed is not printed here",
        "It lies between -10 and 10: a row outside this range is held, not used.",
        "complaints (yes/no, column complaints): complaints per 100 units; a unit without a row "
        "counts as 0 complaints; guardrail: at most 2 more complaints per 100 units than none.",
        "Every metric is estimated as the objective",
        "Guardrails (complaints) are judged for every action",
        "Declared subgroups: zip",
        "Nothing has changed since the declaration.",
        trial.events()[0].hash,
    ):
        assert part in said, part


def test_numbers_are_those_of_the_analysis(trial, tmp_path):
    told = json.loads(trial.protocol(tmp_path / "p.json").read_text())
    tables = {
        part["table"]: part["rows"]
        for section in told["sections"]
        for part in section["parts"]
        if "table" in part
    }
    now = trial.situation()
    shares = planned(now).shares
    bounds = boundaries(list(accumulate(shares)), rule="obrien-fleming", alpha=0.05 / 2 / 2)
    rows = tables["Boundaries until a first action has crossed its boundary"]
    assert [float(row[2]) for row in rows] == pytest.approx(bounds, rel=1e-3)
    error = planned_path(planned(now), actions=3, columns=now.encoder().dim, noise=1.0)[-1]
    found = tables[
        "Lifts that the looks detect, two-sided at 5% for all looks and comparisons together"
    ]
    alone = detectable_lift(error, power=0.8)
    drift = detectable_drift(list(accumulate(shares)), rule="obrien-fleming", alpha=0.0125)
    assert float(found[0][1]) == pytest.approx(error * drift, rel=0.02)
    assert 1.05 * alone < error * drift


def test_changes_are_told_apart_from_what_was_declared(trial, tmp_path):
    trial.amend(reason="fewer came", sizes=[300, 150, 100])
    said = words(trial, tmp_path)
    assert "3 waves of 300, 200, 100 units" in said
    assert "sizes from 300, 200, 100 to 300, 150, 100. Reason: fewer came" in said


def test_a_masked_protocol_names_no_action(store, tmp_path):
    arms = ["placebo-x", "low dose", "high dose"]
    spec = {**SPEC, "name": "blind", "actions": arms, "control": "placebo-x", "masked": True}
    campaign = Campaign.create(spec, store=store, key=tmp_path / "k", who="ann")
    said = words(campaign, tmp_path)
    assert "its actions are called A, B, C" in said
    assert campaign.situation().key in said
    assert "Null hypotheses: the mean visit per unit, over all units, is the same under" in said
    assert not [name for name in arms if name in said]


@pytest.mark.usefixtures("few_trials")
def test_campaigns_of_every_other_kind_have_a_protocol(store, tmp_path):
    others = {
        "calendar": {"grid": {"calendar": True, "waves": 3, "units": 900}},
        "alone": {"randomised": 0.0, "floor": 0.0, "stopping": {"rule": "pocock"}},
        "absent": {**about("visit", absent=0, after="14 days")},
        "sums": {"metrics": {"a": {}, "b": {}}, "objective": {"maximise": {"a": 1.0, "b": -0.5}}},
        "planned": {"grid": {"plan": {"units": 2_000, "batches": 3, "noise": 2.0, "missing": 0.1}}},
        "costly": {
            "actions": ["none", "mail", {"name": "call", "cost": 1.0}],
            "budget": {"total": 500},
            "stopping": {"rule": "pocock"},
        },
    }
    for name, changes in others.items():
        campaign = Campaign.create({**SPEC, "name": name, **changes}, store=store, who="ann")
        assert campaign.protocol(tmp_path / f"{name}.html").read_text()
    assert "noise 2, 90% of outcomes returned" in (tmp_path / "planned.html").read_text()
    few = "only once the plan has about 5 events of each action (20 if outcomes are amounts)"
    # Every declared rule waits for events, whatever actions cost.
    assert few in (tmp_path / "costly.html").read_text()
    assert few in (tmp_path / "alone.html").read_text()
    assert few not in (tmp_path / "calendar.html").read_text()


def test_the_method_named_is_the_one_that_is_used(store, tmp_path):
    """Dunnett needs all comparisons to be about the same units, and a single look."""
    rule = {"stopping": {"rule": "obrien-fleming"}}
    cases = {
        "plain": ({}, "have joint coverage, by Dunnett's method."),
        "rules": ({"eligible": {"call": "age >= 18"}}, "by Bonferroni's method, because not all"),
        "looks": (rule, "by Bonferroni's method, at all looks"),
        "calendar": (
            {"grid": {"calendar": True, "waves": 2, "units": 900}},
            "by Bonferroni's method, because shares",
        ),
    }
    for name, (changes, method) in cases.items():
        campaign = Campaign.create({**SPEC, "name": name, **changes}, store=store, who="ann")
        assert method in words(campaign, tmp_path), name
        (tmp_path / "p.md").unlink()


@pytest.mark.usefixtures("few_trials")
@pytest.mark.parametrize(
    ("plan", "noise", "said"),
    [
        ({}, 0.5, "noise 50, that of a rate of 50%, where yes/no outcomes vary most"),
        ({"base_rate": 0.1, "effect": 0.1}, 0.3, "noise 30,"),
    ],
    ids=["no plan", "base rate"],
)
def test_detectable_lifts_of_a_yes_no_outcome_are_in_points(store, tmp_path, plan, noise, said):
    grid = {"plan": {"units": 400, "batches": 2, **plan}} if plan else {"sizes": [200, 200]}
    campaign = Campaign.create(
        {
            "name": "healing", "unit": "patient", "actions": ["placebo", "drug"], "grid": grid,
            "metrics": {"healed": {"kind": "yes/no"}}, "objective": {"maximise": "healed"},
            "policy": {"kind": "UniformRandom"},
        },
        store=store,
    )  # fmt: skip
    text = words(campaign, tmp_path)
    assert f"(healed per 100 patients; {said}" in text
    # Two arms of 200: the standard error is that of a difference of two means.
    error = 100 * noise * (2 / 200) ** 0.5
    lift = detectable_lift(error, power=0.8)
    found = float(text.partition("| 80% |")[2].partition("|")[0])
    assert found == pytest.approx(lift, rel=0.03)


def test_the_detectable_lift_is_that_over_all_units(store, tmp_path):
    campaign = Campaign.create({**SPEC, "name": "plain"}, store=store)
    now = campaign.situation()
    columns, units, variance = now.encoder().dim, 0, 0.0
    for size, cost in zip(now.sizes, planned(now).costs, strict=True):
        units += size
        fitted = columns / max(units / 3 - columns - 1, columns)
        variance += size**2 * (2 * cost * (1 + fitted) / size)
    lift = detectable_lift(variance**0.5 / units, power=0.8, comparisons=2)
    text = words(campaign, tmp_path)
    assert "Detectable lifts, two-sided at 5% for all comparisons together" in text
    assert float(text.partition("| 80% |")[2].partition("|")[0]) == pytest.approx(lift, rel=0.03)
    # Looks give precise waves more weight.
    pooled = planned_path(planned(now), actions=3, columns=columns, noise=1.0)[-1]
    assert lift > 1.1 * detectable_lift(pooled, power=0.8, comparisons=2)


def test_what_rules_and_limits_do_to_precision_is_said(trial, store, tmp_path):
    said = words(trial, tmp_path)
    assert "for lifts that involve call, divide the error by the square root" in said
    assert "ignore the limits on call" in said
    (tmp_path / "p.md").unlink()
    plain = Campaign.create({**SPEC, "name": "plain"}, store=store, who="ann")
    assert "ignore the limits" not in words(plain, tmp_path)


def test_a_masked_protocol_says_when_looks_are_taken(store, tmp_path):
    stopping = {"rule": "pocock", "looks": "key holder"}
    spec = {**SPEC, "name": "blind", "masked": True, "stopping": stopping, "interim": "committee"}
    campaign = Campaign.create(spec, store=store, key=tmp_path / "k", who="ann")
    said = words(campaign, tmp_path)
    assert "the holder of the key takes the look after each wave" in said
    assert "Results are withheld until the campaign has ended" in said
