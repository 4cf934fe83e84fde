"""There is one recommendation, it never loses by its own estimates, and nothing contradicts it."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.campaign import Campaign
from seqbatch.campaign.views.decision import DecisionCode
from seqbatch.document import part_lines
from seqbatch.inference import Interval, Verdict
from seqbatch.storage import open_store
from tests.campaign.specs import about

SPEC = {
    "name": "shop", "question": "Which  offer\nbrings most?", "owner": "crm team", "seed": 5,
    "unit": "customer", "actions": ["none", "mail", "call"], "control": "none", "floor": 0.05,
    "randomised": 0.2, "grid": {"sizes": [600, 600, 600]},
    "features": {"numeric": {"age": "learn"}}, **about("visit", kind="yes/no", unit="visits"),
}  # fmt: skip
CHANCES = {"none": 0.1, "mail": 0.2, "call": 0.5}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = open_store(tmp_path_factory.mktemp("shop") / "campaigns.db")
    yield made
    made.close()


def run(store, name, *, waves=3, chances=CHANCES, chance=None, key=None, **changes):
    """Run waves; `chance` gives the chance of a visit from the rows and the wave's number."""
    campaign = Campaign.create({**SPEC, "name": name, **changes}, store=store, key=key)
    for wave in range(waves):
        random = np.random.default_rng([8, wave])
        units = pl.DataFrame({"customer": [f"{wave}-{n}" for n in range(600)],
                              "age": random.normal(40, 10, 600)})  # fmt: skip
        rows = pl.from_arrow(campaign.assign(units).table).join(units, on="customer")
        p = chance(rows, wave) if chance else rows["action"].replace_strict(chances, default=0.3)
        visit = (random.random(600) < np.asarray(p)) * 1.0
        campaign.record(rows.select("customer").with_columns(visit=visit))
        campaign.close()
    return campaign


@pytest.fixture(scope="module")
def shop(store):
    return run(store, "shop").findings()


def around(estimate, half, error=None):
    error = half / 2 if error is None else error
    ends = {"low": estimate - half, "high": estimate + half}
    return Interval(about="", estimate=estimate, error=error, df=100, level=0.95, **ends,
                    statistic=estimate / error)  # fmt: skip


def test_one_action_for_everybody(shop):
    made = shop.decision
    assert (made.code, made.action) == ("give", "call")
    assert made.title == "Which offer brings most?"
    assert made.about.startswith("shop · finished ")
    assert made.about.endswith(" · 1,800 customers in 3 waves · crm team")
    assert made.lead == "Give call to every customer."
    # In all, it is the expected lift for a round number of customers.
    assert made.units == 1_000
    assert made.total.estimate == pytest.approx(1_000 * made.expected.estimate)
    answers = dict(made.answers)
    assert answers["Better than none?"] == "Yes, and the latest outcomes agree."
    assert answers["Better than the second best?"].startswith("Yes: +")
    assert "no change of effects between waves found" in dict(made.facts)["Rests on"]
    plain = shop.plain()["decision"]
    assert plain["code"] == "give"
    assert plain["answers"][0]["question"] == "Better than none?"


def test_it_is_one_screen(shop):
    lines = [line for part in shop.decision.parts() for line in part_lines(part)]
    assert sum(1 + len(line) // 80 for line in lines) <= 20


def test_earned_counts_the_adaptive_waves_alone(shop):
    run = shop.run
    assert run.adaptive == (2, 3)
    # The first wave is uniform: pooled over all three by size, its gain of 0 counts a third.
    assert run.over_random.estimate == pytest.approx(run.earned.estimate * 2 / 3)
    earned = dict(shop.decision.facts)["The campaign"]
    total = f"{shop.measure.in_all.number(1_200 * run.earned.estimate, 1_200 * run.earned.error)}"
    assert (
        earned
        == f"earned about {total} more visits than equal shares would have, in waves 2 and 3."
    )


def test_the_best_is_compared_with_the_second_by_their_own_lift(shop):
    made = shop.recommendation
    lifts = {lift.action: lift.interval for lift in shop.lifts}
    assert made.second == "mail"
    gap = lifts["call"].estimate - lifts["mail"].estimate
    assert made.over_second.estimate == pytest.approx(gap, abs=1e-9)
    # Three pairs of actions share the error: 0.025/3 on each side.
    half = (made.over_second.high - made.over_second.low) / 2
    assert half == pytest.approx(2.39 * made.over_second.error, rel=0.02)
    turned = replace(shop, recommendation=replace(made, over_second=around(-0.1, 0.05)))
    assert dict(turned.decision.answers)["Better than the second best?"].startswith("No: -10")


def test_an_open_campaign_goes_on(store):
    made = run(store, "open", waves=2).findings().decision
    assert (made.code, made.lead) == ("give", "So far call is best: continue with wave 3 of 3.")
    assert "1,200 customers so far, wave 3 of 3" in made.about


def test_no_clear_winner_says_how_many_more(store):
    found = run(store, "unclear", waves=2, chances=dict.fromkeys(CHANCES, 0.2)).findings()
    assert found.decision.code == "not-clear"
    unclear = replace(found.recommendation, lift=around(0.03, 0.04, 0.02))
    found = replace(found, recommendation=unclear)
    made = found.decision
    assert made.lead == "No clear winner yet: continue with wave 3 of 3."
    # With as many more, the lift would lie a half-width and 0.84 errors above 0.
    assert made.further == pytest.approx(1_200 * ((0.0568 / 0.03) ** 2 - 1), rel=0.05)
    said = f"about {made.further:,} more customers would tell; the planned waves have only 600."
    assert made.worth[1].endswith(said)
    enough = replace(found, course=replace(found.course, sizes=(600, 600, 10**6)))
    assert enough.decision.worth[1].endswith("would tell; wave 3 has 1,000,000.")
    nothing = replace(unclear, lift=around(0.001, 0.1))
    small = replace(found, recommendation=nothing).decision
    assert (small.further, small.worth[1][:14]) == (None, "Even many more")
    ended = replace(found, condition="finished").decision
    assert ended.lead == "No clear winner: keep none."


def test_a_changed_effect_is_not_averaged(store):
    turning = (0.75, 0.4, 0.15)
    found = run(
        store, "turned",
        chance=lambda rows, wave: rows["action"].replace_strict(
            {"none": 0.4, "mail": turning[wave], "call": 0.35}),
    ).findings()  # fmt: skip
    made = found.decision
    assert (made.code, made.action, made.total) == ("changed", "mail", None)
    assert made.lead == "The effect of mail changed between waves: run another wave."
    assert made.worth[1].startswith("Wave by wave: ")
    assert [question for question, _ in made.answers] == ["Better than none?"]
    assert "the effect of mail" in dict(made.facts)["Rests on"]


def test_nothing_yet(store, tmp_path):
    fresh = Campaign.create({**SPEC, "name": "fresh"}, store=store)
    made = fresh.findings().decision
    assert (made.code, made.lead) == ("no-data", "No outcomes yet.")
    assert (made.answers, made.facts) == ((), ())
    same = run(store, "same", waves=1, chances=dict.fromkeys(CHANCES, 1.0)).findings().decision
    assert same.lead == "All outcomes so far are equal: there is nothing to compare yet."
    masked = run(store, "masked", key=tmp_path / "key", masked=True).findings().decision
    assert (masked.code, masked.answers) == ("masked", ())
    assert masked.lead == "The campaign is masked: unmask it before you decide."


def test_a_retired_action_never_leads(store):
    campaign = run(store, "retired", waves=1)
    campaign.amend(retire=["call"], reason="no agents")
    assert campaign.findings().decision.action == "mail"


def test_a_changed_lift_is_expected_as_it_is_now(shop):
    latest = around(0.1, 0.05)
    changed = replace(shop.recommendation, code=Verdict.GIVE_CHANGED, latest=latest)
    made = replace(shop, recommendation=changed).decision
    assert (made.code, made.expected) == ("give", latest)
    assert made.worth[-1].startswith("If that lasts, in a roll-out expect about 100 more visits")
    worse = replace(shop, recommendation=replace(changed, latest=around(-0.1, 0.05)))
    assert worse.decision.code != "give"


def chosen(found, *, gain, beside, **shares):
    rule = replace(found.rule, gain=gain, best="call", over_best=beside, shares=shares)
    return replace(found, rule=rule).decision


def test_a_rule_by_features_must_beat_the_best_single_action(shop):
    shares = {"none": 0.3, "mail": 0.34, "call": 0.36}
    made = chosen(shop, gain=around(0.5, 0.1), beside=around(0.1, 0.05), **shares)
    assert (made.code, made.action, made.lift.estimate) == ("choose-by-unit", None, 0.5)
    assert made.lead == (
        "Choose by features: give call to 36% and mail to 34% of customers, and none to the rest."
    )
    assert dict(made.answers)["Better than one action for all?"].startswith("Yes: +10")
    for beside in (around(0.1, 0.2), around(-0.1, 0.05), around(nan, nan)):
        made = chosen(shop, gain=around(0.5, 0.1), beside=beside, **shares)
        assert (made.code, made.action) == ("give", "call")
        assert not dict(made.answers)["Better to choose by customer?"].startswith("Yes")
    # Nearly the same action for everybody is that action.
    made = chosen(shop, gain=around(0.5, 0.1), beside=around(0.1, 0.05), call=0.97, none=0.03)
    assert made.code == "give"
    assert dict(made.answers)["Better to choose by customer?"].startswith("No: call is the best")


def test_a_rule_that_wins_is_found(store):
    def chance(rows, _):
        young = rows["age"].to_numpy() < 40
        action = rows["action"].to_numpy()
        return 0.1 + 0.8 * np.where(young, action == "mail", action == "call")

    found = run(store, "split", chance=chance).findings()
    made = found.decision
    assert made.code == "choose-by-unit"
    gain, beside = found.rule.gain, found.rule.over_best
    best = next(lift for lift in found.lifts if lift.action == found.rule.best)
    # Judged on the last wave, against the same action: the two gains differ by that action's lift.
    assert gain.estimate - beside.estimate == pytest.approx(
        best.waves[-1].interval.estimate, abs=0.06
    )


numbers = st.floats(-0.5, 0.5)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_lead_never_loses_and_never_was_retired(shop, data):
    draw = data.draw
    lift, latest, expected, gain, beside = (
        around(draw(numbers), draw(st.floats(0.001, 0.5))) for _ in range(5)
    )
    made = replace(
        shop.recommendation, code=draw(st.sampled_from(list(Verdict))), lift=lift, latest=latest
    )
    if made.code in (Verdict.TOO_FEW, Verdict.BARRED):
        made = replace(made, action=None, lift=None, latest=None)
    less = draw(st.booleans())
    found = replace(
        shop, recommendation=made, condition=draw(st.sampled_from(["open", "finished"])),
        measure=replace(shop.measure, direction="min" if less else "max"),
        retired=("mail",), selected=replace(shop.selected, expected=expected),
        rule=replace(shop.rule, gain=gain, best="call", over_best=beside,
                     shares={"none": 0.5, "mail": 0.0, "call": 0.5}),
    )  # fmt: skip
    told = found.decision
    sign = -1 if less else 1
    assert told.action not in found.retired
    if told.code in (DecisionCode.GIVE, DecisionCode.CHOOSE):
        assert sign * told.lift.estimate > 0
        assert sign * told.expected.estimate > 0
        assert sign * told.total.estimate > 0
    else:
        assert told.total is None
        assert "Give" not in told.lead
    # One recommendation, and no answer against it.
    said = " ".join(text for _, text in told.answers)
    assert told.lead.count(".") == 1
    if told.code is DecisionCode.GIVE:
        assert "Yes: " not in said.partition("choose")[2]
        assert dict(told.answers)["Better than none?"].startswith(("Yes", "On average", "Not"))
    assert inf not in (told.units, told.further)
