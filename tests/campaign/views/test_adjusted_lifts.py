"""Findings after a look that ended the campaign: the adjusted lift comes first."""

import json

import pytest

from tests.campaign.decide.test_stopping import effect, nothing, trial
from tests.campaign.specs import about
from tests.campaign.views.test_findings import run

POCOCK = {"rule": "pocock"}


def ended_at_second(store, **changes):
    campaign = trial(store, stopping=POCOCK, **changes)
    run(campaign, sizes=(120,), value=effect(0.1))
    return run(campaign, sizes=(120,), start=5_000, value=effect(1.0))


def test_the_headline_is_the_adjusted_lift_beside_the_plain_one(store, tmp_path):
    campaign = ended_at_second(store)
    found = campaign.findings()
    (lift,) = found.lifts
    assert found.stopping.end.verdict == "stop for success"
    assert lift.around is lift.adjusted
    assert lift.earlier_looks == 1
    # It is drawn back from the plain estimate that crossed the boundary, and is still above 0.
    assert 0 < lift.adjusted.low < lift.adjusted.estimate < lift.same.estimate
    assert lift.adjusted.p_value > 2 * 0.0112 > lift.same.p_value
    shown = json.loads(json.dumps(found.plain()))["lifts"][0]
    assert shown["adjusted"]["estimate"] == pytest.approx(lift.adjusted.estimate)
    title = "Lifts adjusted for the looks (median-unbiased, by stage-wise ordering)"
    (table,) = [table for table in found.tables() if table.title == title]
    assert table.columns[-1] == "plain estimate (too favourable on average)"
    assert (
        found.measure.amount(lift.adjusted.estimate, lift.adjusted.error)
        in (found.decision.worth[0])
    )
    page = tmp_path / "report.html"
    campaign.report(page)
    assert title in page.read_text()


def test_nothing_is_adjusted_while_the_campaign_may_go_on(store):
    campaign = run(trial(store, stopping=POCOCK), sizes=(120,), value=nothing)
    found = campaign.findings()
    assert (found.stopping.end, found.lifts[0].adjusted) == (None, None)
    assert found.lifts[0].around is found.lifts[0].together


def test_a_first_look_leaves_the_estimate_and_gives_its_own_interval(store):
    found = run(trial(store, stopping=POCOCK), sizes=(120,), value=effect(2.0)).findings()
    (lift,) = found.lifts
    assert lift.earlier_looks == 0
    assert lift.adjusted.estimate == pytest.approx(lift.same.estimate)


def test_continuing_against_success_leaves_no_order_and_against_futility_does(store):
    against = run(trial(store, name="a", stopping=POCOCK), sizes=(120,), value=effect(2.0))
    against.go_on(reason="more data on a guardrail")
    run(against, sizes=(120,), start=5_000, value=effect(2.0))
    assert against.findings().lifts[0].adjusted is None
    futile = {**POCOCK, "futility": True}
    dull = run(trial(store, name="b", stopping=futile), sizes=(120,), value=effect(-0.25))
    assert dull.findings().stopping.end.verdict == "stop for futility"
    dull.go_on(reason="nothing to lose")
    assert dull.findings().stopping.end is None
    run(dull, sizes=(120,), start=5_000, value=effect(1.5))
    assert dull.findings().lifts[0].adjusted is not None


@pytest.mark.parametrize("direction", ["max", "min"])
def test_several_actions_share_the_error_whichever_way_is_better(store, direction):
    sign = 1 if direction == "max" else -1
    campaign = trial(
        store,
        actions=["none", "mail", "call"],
        stopping=POCOCK,
        **about("visit", direction=direction),
    )
    run(campaign, sizes=(120,), value=nothing)
    run(campaign, sizes=(120,), start=5_000, value=effect(1.5 * sign))
    found = campaign.findings()
    mail, call = found.lifts
    assert mail.adjusted.known
    assert call.adjusted.known
    assert mail.earlier_looks == 1
    assert 0 < sign * mail.adjusted.estimate < sign * mail.same.estimate
    assert min(sign * mail.adjusted.low, sign * mail.adjusted.high) > 0
