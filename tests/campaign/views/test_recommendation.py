"""The recommendation never contradicts a guardrail, a look, or the numbers beside it."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.views.recommendation import candidates
from seqbatch.inference import Guarded, Interval, Verdict
from seqbatch.inference.intervals import normal_tail
from seqbatch.storage import open_store
from tests.campaign.specs import about

SPEC = {
    "draws": "blake2",
    "name": "shop", "seed": 5, "unit": "customer", "actions": ["none", "mail", "call"],
    "control": "none", "policy": {"kind": "UniformRandom"}, "grid": {"sizes": [600, 600, 600]},
    **about("visit", kind="yes/no",
            metrics={"left": {"kind": "yes/no", "guardrail": {"at_most": 0.3}}}),
    "required_outcomes": 0.1, "stopping": {"rule": "pocock", "futility": True},
}  # fmt: skip
CHANCES = {"none": 0.1, "mail": 0.3, "call": 0.6}
LEFT = {"none": 0.0, "mail": 0.1, "call": 0.5}
#: Names of campaigns, on which the draws depend, and the chance of a visit after the last calls.
SEVERAL = {"one": ("a0", 0.13), "two": ("a5", 0.14)}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = open_store(tmp_path_factory.mktemp("shop") / "campaigns.db")
    yield made
    made.close()


def run(store, name, *, waves, chances=CHANCES, last=None, left=LEFT, back=1.0, **changes):
    campaign = Campaign.create({**SPEC, "name": name, **changes}, store=store)
    for wave in range(waves):
        random = np.random.default_rng([8, wave])
        given = pl.DataFrame({"customer": [f"{wave}-{n}" for n in range(600)]})
        frame = pl.from_arrow(campaign.assign(given).table)
        drawn = {
            column: (random.random(600) < frame["action"].replace_strict(of).to_numpy()) * 1.0
            for column, of in (("visit", (last if wave == 2 else None) or chances), ("left", left))
        }
        rows = frame.select("customer").with_columns(**drawn)
        campaign.record(rows.filter(pl.Series(random.random(600) < back)))
        campaign.close()
        if campaign.situation().stop and wave + 1 < waves:
            campaign.go_on(reason="the protocol asks for it")
    return campaign


@pytest.fixture(scope="module")
def shop(store):
    """Two of three waves; calls bring most, and annoy."""
    return run(store, "shop", waves=2)


def test_an_action_beyond_its_guardrail_is_not_recommended(shop):
    found = shop.findings()
    assert found.best.action == "call"
    assert found.barred == {"call"}
    made = found.recommendation
    assert (made.code, made.action) == (Verdict.GIVE, "mail")
    assert made.guardrails == {"left": Guarded.KEPT}
    made = found.decision
    assert (made.code, made.action) == ("give", "mail")
    assert made.lead == "Give mail to every customer."
    facts = dict(made.facts)
    assert facts["Ruled out"] == "call has the best estimate, but breaks the guardrail on left."
    assert facts["Guardrails"].startswith("left kept (7.5")
    assert facts["Guardrails"].endswith(", at most 30).")
    plain = found.plain()
    assert plain["recommendation"]["code"] == "give"
    assert plain["recommendation"]["guardrails"] == {"left": "kept"}
    [_, left] = plain["metrics"]
    codes = {one["action"]: one["code"] for one in left["guardrail"]["actions"]}
    assert codes == {"none": "kept", "mail": "kept", "call": "broken"}


@pytest.mark.parametrize(
    ("name", "code", "better"), [("one", "give", 1), ("two", "unconfirmed", 2)]
)
def test_the_best_of_several_needs_clearer_latest_waves(store, name, code, better):
    """Without that, one of several lifts that are gone would look confirmed by chance."""
    found = run(
        store, SEVERAL[name][0], waves=3, chances={"none": 0.1, "mail": 0.19, "call": 0.2},
        last={"none": 0.1, "mail": 0.1, "call": SEVERAL[name][1]},
        **about("visit", kind="yes/no", unit="visits"),
        stopping={"rule": "none"},
    ).findings()  # fmt: skip
    made = found.recommendation
    assert candidates(found) == sum(lift.around.low > 0 for lift in found.lifts) == better
    assert 0.05 < normal_tail(made.latest.statistic) < 0.1
    assert made.same_p > 0.05
    assert (made.action, made.code) == ("call", code)


def test_only_actions_that_can_be_recommended_are_candidates(shop):
    found = shop.findings()
    assert [lift.around.low > 0 for lift in found.lifts] == [True, True]
    # Calls are beyond their guardrail.
    assert candidates(found) == 1
    assert candidates(replace(found, metrics=())) == 2
    assert candidates(replace(found, metrics=(), retired=("mail",))) == 1
    less = replace(found.measure, direction="min")
    assert candidates(replace(found, metrics=(), measure=less)) == 0


def judged(found, **codes):
    """Return findings with other verdicts about guardrails."""
    [visit, left] = found.metrics
    rails = tuple(replace(one, code=codes.get(one.action, one.code)) for one in left.guardrail)
    return replace(found, metrics=(visit, replace(left, guardrail=rails)))


@pytest.mark.parametrize(
    ("code", "words"),
    [(Guarded.NOT_CLEAR, "left not clear yet"), (Guarded.TOO_FEW, "left too few events to judge")],
)
def test_what_is_not_clear_is_said_beside_the_recommendation(shop, code, words):
    found = judged(shop.findings(), mail=code)
    assert dict(found.decision.facts)["Guardrails"].startswith(words)


def test_the_control_may_break_a_guardrail_too(shop):
    found = judged(shop.findings(), none=Guarded.BROKEN)
    worse = replace(found.recommendation, code=Verdict.WORSE)
    made = replace(found, recommendation=worse, rule=None).decision
    assert (made.code, made.action) == ("no-action", None)
    assert made.lead == "No action can be recommended."
    assert "BROKEN" in dict(made.facts)["Guardrails"]


def test_nothing_is_recommended_where_all_break_a_guardrail(store):
    left = {"none": 0.0, "mail": 0.5, "call": 0.5}
    found = run(store, "all", waves=1, left=left).findings()
    assert found.barred == {"mail", "call"}
    assert found.recommendation.code is Verdict.BARRED
    assert found.decision.code == "keep-control"
    assert found.decision.lead == "Keep none: every other action breaks a guardrail."


def test_intervals_allow_for_the_looks_of_a_declared_rule(shop):
    found = shop.findings()
    # The second of three looks, the error shared by two actions: 0.0025/2 on each side.
    for lift in found.lifts:
        one, wide = lift.interval, lift.together
        assert (wide.high - wide.low) / 2 == pytest.approx(3.023 * one.error, rel=0.02)
    mail = found.recommendation.lift
    number = found.measure.number
    ends = f"{number(mail.low, mail.error)} to {number(mail.high, mail.error)})"
    assert ends in found.decision.worth[0]
    looks = next(table for table in found.tables() if table.title.startswith("Looks ("))
    assert looks.columns[6:8] == ("repeated from", "to")
    last = found.stopping.looks[-1].actions[-1]
    assert float(looks.cells()[-1][6]) == pytest.approx(100 * last.low, abs=0.06)


def test_after_one_look_at_the_end_the_interval_is_the_usual_one(store):
    campaign = run(store, "once", waves=1, grid={"sizes": [600]}, actions=["none", "call"])
    [lift] = campaign.findings().lifts
    half = (lift.together.high - lift.together.low) / 2
    # The last look of one has four fifths of the error.
    assert half == pytest.approx(2.054 * lift.interval.error, rel=1e-2)


def test_futility_keeps_the_control(store):
    found = run(
        store, "futile", waves=2, chances={"none": 0.3, "mail": 0.2, "call": 0.25}
    ).findings()
    assert found.stopping.looks[-1].verdict == "stop for futility"
    made = found.decision
    assert (made.code, made.action, made.further) == ("keep-control", "none", None)
    assert made.lead.startswith("Keep none")
    assert "stop for futility" in dict(made.facts)["Stopping rule"]


def around(estimate, half, error):
    return Interval(about="", estimate=estimate, error=error, df=100, level=0.95,
                    low=estimate - half, high=estimate + half)  # fmt: skip


def test_ends_on_both_sides_of_nothing_are_told_apart():
    visits = Measure(name="visit", kind="yes/no", direction="max", of="customer")
    assert visits.between(around(0.079, 0.02, 0.01)) == "95% interval 5.9 to 9.9"
    assert visits.between(around(-0.079, 0.02, 0.01)) == "95% interval 5.9 to 9.9"
    assert visits.between(around(0.01, 0.038, 0.019)) == "95% interval 2.8 fewer to 4.8 more"
    assert visits.between(around(-0.01, 0.038, 0.019)) == "95% interval 4.8 fewer to 2.8 more"
    # An end that is not 0 is not called 0.
    assert visits.between(around(0.22, 0.224, 0.09)) == "95% interval 0.4 fewer to 44 more"
    # Nor does an amount: "0 fewer" says nothing.
    assert visits.amount(-0.0036, 0.09).startswith("0.4 fewer")
    # An interval without 0 is not shown with it.
    assert visits.between(around(0.22, 0.216, 0.09)) == "95% interval 0.4 to 44"
    assert visits.signed(around(-0.016, 0.014, 0.007)) == "-1.6 (95% interval -3.0 to -0.2)"


def test_a_lift_that_turned_is_not_given(store):
    # Alike in all waves but for one action, which is good at first and harmful at last.
    alone = {**about("visit", kind="yes/no"), "stopping": {}}
    campaign = Campaign.create({**SPEC, "name": "turned", **alone}, store=store)
    for wave, chance in enumerate((0.75, 0.5, 0.3)):
        random = np.random.default_rng([3, wave])
        given = pl.DataFrame({"customer": [f"{wave}-{n}" for n in range(600)]})
        frame = pl.from_arrow(campaign.assign(given).table)
        chances = frame["action"].replace_strict({"none": 0.4, "mail": chance, "call": 0.35})
        visits = (random.random(600) < chances.to_numpy()) * 1.0
        campaign.record(frame.select("customer").with_columns(visit=visits))
        campaign.close()
    found = campaign.findings()
    mail = next(lift for lift in found.lifts if lift.action == "mail")
    assert mail.interval.low > 0
    assert found.recommendation.code is Verdict.CHANGED
    assert found.recommendation.latest_waves == (3,)
    made = found.decision
    assert (made.code, made.action, made.total) == ("changed", "mail", None)
    assert "Give" not in str(made)


def test_too_few_events_recommend_nothing(store):
    few = run(store, "rare", waves=2, chances={"none": 0.003, "mail": 0.003, "call": 0.003},
              **about("visit", kind="yes/no"), stopping={})  # fmt: skip
    found = few.findings()
    assert found.recommendation.code is Verdict.TOO_FEW
    assert not any(one.interval.known for one in (*found.means, *found.lifts))
    made = found.decision
    assert (made.code, made.action) == ("too-few-events", None)
    assert made.worth[0].endswith("5 are needed.")
    assert found.plain()["recommendation"]["few"]["needed"] == 5


def test_many_missing_outcomes_are_said_at_once(shop, store):
    assert "Careful" not in dict(shop.findings().decision.facts)
    few = run(store, "few", waves=1, back=0.5).findings()
    assert "Many outcomes are missing" in dict(few.decision.facts)["Careful"]
    gone = 100 * (1 - few.outcomes / 600)
    assert f"{gone:.3g}% missing" in dict(few.decision.facts)["Rests on"]


def test_shifts_of_features_are_not_called_what_they_are_not(store):
    changes = {
        **about("visit", kind="yes/no"),
        "stopping": {},
        "features": {"numeric": {"age": "raw"}},
    }
    campaign = Campaign.create({**SPEC, "name": "shift", **changes}, store=store)
    for wave, mean in enumerate((40.0, 45.0)):
        random = np.random.default_rng(wave)
        given = pl.DataFrame({"customer": [f"{wave}-{n}" for n in range(600)],
                              "age": random.normal(mean, 10, 600)})  # fmt: skip
        frame = pl.from_arrow(campaign.assign(given).table)
        visit = (random.random(600) < 0.3) * 1.0
        campaign.record(frame.select("customer").with_columns(visit=visit))
        campaign.close()
    found = campaign.findings()
    table = next(table for table in found.tables() if table.title == "The same in all waves?")
    assert table.columns == ("about", "statistic", "p")
    rows = {row[0]: row[1] for row in table.cells()}
    shift = rows["age"].removeprefix("largest shift ").removesuffix(" sd")
    assert float(shift) == pytest.approx(0.5, abs=0.1)
    assert rows["lift of mail over none"].startswith("chi-square ")
    assert rows["level of outcomes"].startswith("F ")
