"""The flow of units: numbers that add up, in the report, with what was screened before."""

import re
from xml.etree import ElementTree

import polars as pl
import pytest

from seqbatch.campaign.views.flow import FlowPicture, flow_of
from seqbatch.campaign.views.report_results import gathered
from tests.campaign.decide.test_stopping import nothing, trial
from tests.campaign.views.test_findings import people, run
from tests.refusals import refused


def flow(campaign):
    return flow_of(gathered(campaign.store, campaign.name))


def test_units_add_up_by_action(store, tmp_path):
    campaign = trial(store)
    campaign.screen(300, excluded={"younger than 18": 40, "no consent": 10})
    campaign.screen(50, excluded={"no consent": 5}, reason="second week")
    run(campaign, sizes=(120,), value=nothing, missing=0.2)
    campaign.assign(people(60, 9_000), partial=True)
    made = flow(campaign)
    assert (made.assessed, made.excluded) == (350, {"younger than 18": 40, "no consent": 15})
    assert (made.assigned, made.other, made.unscreened) == (180, 350 - 55 - 180, 0)
    campaign.export(tmp_path / "units.parquet")
    given = pl.read_parquet(tmp_path / "units.parquet")
    for arm in made.arms:
        assert arm.assigned == (given["action"] == arm.action).sum()
        assert arm.assigned == arm.left_out + arm.lost + arm.analysed
    assert sum(arm.left_out for arm in made.arms) == 60
    assert sum(arm.analysed for arm in made.arms) == campaign.findings().outcomes
    report = campaign.report(tmp_path / "report.md", appendix=True)
    said = report.read_text(encoding="utf-8")
    assert "Assessed: 350; excluded: 55." in said
    assert "| no consent | 15 |" in said
    assert campaign.verify().sound


def test_screenings_that_are_missing_are_counted(store, tmp_path):
    campaign = trial(store)
    campaign.screen(100, excluded={"no consent": 10})
    run(campaign, sizes=(120,), value=nothing)
    made = flow(campaign)
    assert (made.unscreened, made.other) == (30, 0)
    report = campaign.report(tmp_path / "report.md", appendix=True)
    assert "screenings of at least 30 are missing" in report.read_text(encoding="utf-8")


def test_absent_units_are_analysed(store):
    metrics = {"visit": {"kind": "yes/no", "absent": 0.0}}
    campaign = trial(store, metrics=metrics, stopping={"rule": "none"})
    campaign.assign(people(120, 0))
    ids = people(120, 0)["customer"].head(30)
    campaign.record(pl.DataFrame({"customer": ids, "visit": [1.0] * 30}))
    campaign.close(force=True, reason="the end")
    made = flow(campaign)
    assert made.assessed is None
    assert sum(arm.absent for arm in made.arms) == 90
    assert [arm.lost for arm in made.arms] == [0, 0]
    text = FlowPicture(made).svg()
    shown = re.findall(r">([^<>]+)</text>", text)
    assert shown[0] == "Assigned: 120"
    assert f"of these absent: {made.arms[1].absent}" in shown


def test_a_screening_excludes_no_more_than_it_assessed(store):
    campaign = trial(store)
    with refused("invalid-argument", field="excluded"):
        campaign.screen(10, excluded={"under 18": 11})
    with refused("invalid-argument", field="assessed"):
        campaign.screen(0)
    with refused("invalid-argument", field="excluded"):
        campaign.screen(10, excluded={" ": 1})
    assert len(campaign.events()) == 1


@pytest.mark.parametrize("name", ["mail", "<b>&", "a" * 200])
def test_the_picture_holds_whatever_it_is_called(store, name):
    campaign = run(trial(store, actions=["none", name]), sizes=(120,), value=nothing)
    campaign.screen(200, excluded={"<script>": 3})
    text = FlowPicture(flow(campaign)).svg()
    assert "<script>" not in text
    assert "<b>" not in text
    ElementTree.fromstring(text)
