"""The recommendation never contradicts a guardrail, a look, or the numbers beside it."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.views.findings import Measure
from seqbatch.campaign.views.findings_text import recommended
from seqbatch.campaign.views.report import cautions, report
from seqbatch.campaign.views.report_results import gathered
from seqbatch.document import Items
from seqbatch.inference import Interval, boundaries
from seqbatch.inference.intervals import quantile
from seqbatch.storage import open_store

SPEC = {
    "name": "shop", "seed": 5, "unit": "customer", "actions": ["none", "mail", "call"],
    "control": "none", "policy": {"kind": "UniformRandom"}, "grid": {"sizes": [600, 600, 600]},
    "reward": {"column": "visit", "unit": "visits", "range": [0, 1]}, "required_outcomes": 0.1,
    "metrics": [{"column": "left", "direction": "min", "range": [0, 1], "guardrail": 0.3}],
    "stopping": {"rule": "pocock", "futility": True},
}  # fmt: skip
CHANCES = {"none": 0.1, "mail": 0.3, "call": 0.6}
LEFT = {"none": 0.0, "mail": 0.1, "call": 0.5}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = open_store(tmp_path_factory.mktemp("shop") / "campaigns.db")
    yield made
    made.close()


def run(store, name, *, waves, chances=CHANCES, back=1.0, **changes):
    campaign = Campaign.create({**SPEC, "name": name, **changes}, store=store)
    for wave in range(waves):
        random = np.random.default_rng([8, wave])
        given = pl.DataFrame({"customer": [f"{wave}-{n}" for n in range(600)]})
        frame = pl.from_arrow(campaign.assign(given).table)
        drawn = {
            column: (random.random(600) < frame["action"].replace_strict(of).to_numpy()) * 1.0
            for column, of in (("visit", chances), ("left", LEFT))
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


def told(campaign, store):
    """Return the first screen's words."""
    return report(gathered(store, campaign.situation().name)).first.parts


def test_an_action_beyond_its_guardrail_is_not_recommended(shop):
    found = shop.findings()
    assert found.best.action == "call"
    assert found.barred == {"call"}
    violated = next(said for said in found.sentences if said.startswith("Guardrail VIOLATED"))
    assert "left of call has the mean 0.485 over 427 recorded outcomes; at most 0.3" in violated
    assert any("call to 100% of customers. This ignores guardrails" in s for s in found.sentences)
    said = recommended(found, ended=True)
    assert said[0].startswith("Do not give call to every customer yet")
    assert said[1] == "Among the actions within their guardrails, mail is best."
    assert not any("Give call" in each for each in said)
    kept = replace(found, metrics=())
    assert recommended(kept, ended=True) == ["Give call to every customer."]
    # The same numbers as the status shows, and in JSON.
    assert found.metrics == shop.status().metrics
    assert found.plain()["metrics"][2]["passed"] is False


def test_where_nothing_else_is_left_the_control_stays(shop):
    found = shop.findings()
    worse = [replace(row, passed=row.action == "none") for row in found.metrics]
    said = recommended(replace(found, metrics=tuple(worse)), ended=True)
    assert said[1].startswith("Keep none: no action within its guardrails")
    none = [replace(row, passed=False) for row in found.metrics]
    said = recommended(replace(found, metrics=tuple(none)), ended=True)
    assert said[1] == "none also violates a guardrail."


def test_intervals_allow_for_the_looks_of_a_declared_rule(shop):
    found = shop.findings()
    # Two equal looks of three, the error shared by two actions.
    bound = boundaries([1 / 3, 2 / 3], rule="pocock", alpha=0.0125)[-1]
    assert bound > 2.5
    for lift in found.lifts:
        one, wide = lift.interval, lift.together
        half = (wide.high - wide.low) / 2
        assert half == pytest.approx(bound * one.error, rel=0.01)
        assert (wide.high + wide.low) / 2 == pytest.approx(one.estimate, abs=1e-12)
        assert half > 1.25 * (one.high - one.low) / 2
    assert "both comparisons and all looks together" in found.sentences[0]
    number = found.measure.number
    best = found.best.together
    assert f"{number(best.low, best.error)} to {number(best.high, best.error)}," in (
        found.sentences[0])  # fmt: skip
    looks = next(table for table in found.tables() if table.title.startswith("Looks ("))
    assert looks.columns[6:8] == ("repeated from", "to")
    last = found.stopping.looks[-1].actions[-1]
    assert float(looks.cells()[-1][6]) == pytest.approx(100 * last.low, abs=0.06)


def test_after_one_look_at_the_end_the_interval_is_the_usual_one(store):
    campaign = run(store, "once", waves=1, grid={"sizes": [600]}, actions=["none", "call"])
    [lift] = campaign.findings().lifts
    half = (lift.together.high - lift.together.low) / 2
    assert half == pytest.approx(quantile(0.025, lift.interval.df) * lift.interval.error, rel=1e-3)
    assert lift.together.low == pytest.approx(lift.interval.low, rel=1e-3)


def test_going_on_is_spoken_of_only_while_it_is_possible(shop, store):
    [what] = [part.items for part in told(shop, store) if isinstance(part, Items)]
    assert any("stop for success. You can continue only with a reason" in each for each in what)
    ended = run(store, "ended", waves=3)
    [what] = [part.items for part in told(ended, store) if isinstance(part, Items)]
    assert "The stopping rule declared beforehand says: stop for success." in what
    aborted = run(store, "aborted", waves=1)
    aborted.abort(reason="a letter from the press")
    assert any("(reason: a letter from the press)." in part for part in told(aborted, store)
               if isinstance(part, str))  # fmt: skip


def test_futility_does_not_ask_for_more_outcomes(store):
    found = run(
        store, "futile", waves=2, chances={"none": 0.3, "mail": 0.2, "call": 0.25}
    ).findings()
    assert found.stopping.looks[-1].verdict == "stop for futility"
    [said] = recommended(found, ended=True)
    assert said.startswith("Keep none")
    assert "More outcomes" not in said


def around(estimate, half, error):
    return Interval(about="", estimate=estimate, error=error, df=100, level=0.95,
                    low=estimate - half, high=estimate + half)  # fmt: skip


def test_ends_on_both_sides_of_nothing_are_told_apart():
    visits = Measure(reward="visit", unit="visits", direction="max", binary=True, of="customer",
                     costs=False)  # fmt: skip
    assert visits.between(around(0.079, 0.02, 0.01)) == "95% interval 5.9 to 9.9"
    assert visits.between(around(-0.079, 0.02, 0.01)) == "95% interval 5.9 to 9.9"
    assert visits.between(around(0.01, 0.038, 0.019)) == "95% interval 2.8 fewer to 4.8 more"
    assert visits.between(around(-0.01, 0.038, 0.019)) == "95% interval 2.8 more to 4.8 fewer"
    # An end that is not 0 is not called 0.
    assert visits.between(around(0.22, 0.224, 0.09)) == "95% interval 0.4 fewer to 44 more"
    # An interval without 0 is not shown with it.
    assert visits.between(around(0.22, 0.216, 0.09)) == "95% interval 0.4 to 44"
    assert visits.signed(around(-0.016, 0.014, 0.007)) == "-1.6 (95% interval -3.0 to -0.2)"


def test_a_finer_rule_must_leave_the_single_action_behind(shop):
    found = replace(shop.findings(), metrics=())
    best, shares = found.best, {"none": 0.0, "mail": 0.3, "call": 0.7}
    middle = (best.together.estimate + best.together.high) / 2
    for low, beaten in ((middle, False), (best.together.high + 0.01, True)):
        gain = around(low + 0.05, 0.05, 0.025)
        rule = replace(found.rule, gain=gain, shares=shares)
        finer = recommended(replace(found, rule=rule), ended=True)[1]
        best = "the action predicted to be best (call to 70%, mail to 30%)"
        assert finer.startswith(f"Giving each customer {best}")
        assert ("better than call for every customer" in finer) is beaten
        assert ("not been shown that this beats call" in finer) is not beaten
    sentence = next(s for s in replace(found, rule=rule).sentences if s.startswith("To run next"))
    assert "call to 70% of customers, mail to 30% of customers; that is expected" in sentence
    # Next to everybody: what the last wave alone says would only be another number for the same.
    rule = replace(rule, shares={"none": 0.0, "mail": 0.04, "call": 0.96})
    nearly = replace(found, rule=rule)
    assert recommended(nearly, ended=True) == ["Give call to every customer."]
    assert not any("expected to bring" in sentence for sentence in nearly.sentences)
    # Within a guardrail that the rule would break, no finer rule is offered.
    barred = replace(shop.findings(), rule=replace(rule, shares=shares))
    assert not any("predicted to be best" in each for each in recommended(barred, ended=True))


def test_many_missing_outcomes_are_said_at_once(shop, store):
    assert cautions(shop.findings()) == []
    few = run(store, "few", waves=1, back=0.5)
    *_, said = cautions(few.findings())
    assert "% of customers have no outcome" in said
    share = 1 - few.findings().outcomes / 600
    assert f"Careful: {share:.0%} of customers" in said


def test_shifts_of_features_are_not_called_what_they_are_not(store):
    changes = {"metrics": [], "stopping": {}, "features": {"numeric": {"age": "raw"}}}
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
    assert table.columns == ("about", "chi-square", "largest shift (sd)", "p (Holm)")
    rows = {row[0]: row[1:] for row in table.cells()}
    assert rows["age"][0] == ""
    assert float(rows["age"][1]) == pytest.approx(0.5, abs=0.1)
    assert rows["mean of none"][1] == ""
