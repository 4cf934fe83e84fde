"""Rehearsals: what is counted, resuming, what cannot be rehearsed, and the protocol."""

import json
import tomllib
from math import sqrt

import pytest

from seqbatch.campaign import Campaign, rehearse
from seqbatch.campaign.record.rehearsal_file import RehearsalFile
from seqbatch.campaign.rehearsal import rehearsal
from seqbatch.campaign.rehearsal.operating_characteristics import characteristics
from seqbatch.errors import InvalidArgumentError, InvalidSpecError
from seqbatch.storage import open_store
from tests.campaign.rehearsal.specs import (
    LIMITED,
    LOGGED,
    LOGGED_TRUTH,
    MAIL_TRUTH,
    TRIAL,
    TRIAL_TRUTH,
    listed,
)

SMALL = {
    "name": "spring", "actions": ["none", "mail"], "grid": {"sizes": [60, 60]}, "randomised": 0.3,
    "metrics": {"visit": {"kind": "yes/no"}}, "objective": {"maximise": "visit"},
}  # fmt: skip
TRUTH = {"none": 0.2, "mail": 0.7}


@pytest.fixture(scope="module")
def made():
    return rehearse(SMALL, truths=[TRUTH], campaigns=6)


def test_an_interrupted_rehearsal_goes_on_to_the_same_numbers(made, tmp_path, monkeypatch):
    monkeypatch.setattr(rehearsal, "PART", 2)
    options = {"truths": [TRUTH], "campaigns": 6, "parts": tmp_path}

    def interrupt(done):
        if done.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rehearse(SMALL, report=interrupt, **options)
    seen = []
    again = rehearse(SMALL, report=seen.append, **options)
    assert seen[0].resumed == 3
    assert again.plain() == made.plain()
    with pytest.raises(InvalidArgumentError, match="a different run"):
        rehearse(SMALL, seed=1, **options)


def test_a_large_lift_is_found_and_no_lift_is_not(made):
    null, true = made.data["truths"]
    assert null["verdicts"]["no action"]["share"] >= 4 / 6
    assert true["verdicts"]["right action"]["share"] >= 4 / 6
    assert true["power"]["mail"]["share"] >= 4 / 6
    assert true["estimates"]["lift of mail"]["truth"] == pytest.approx(0.5)
    assert abs(true["estimates"]["lift of mail"]["bias"]["mean"]) < 0.15
    assert true["equal"]["mean"] == pytest.approx(0.45)
    assert true["best"]["mean"] == true["each"]["mean"] == pytest.approx(0.7)
    assert 0.45 < true["earned"]["mean"] < 0.7


def test_type_i_errors_are_those_of_hypotheses_that_hold():
    spec = {**SMALL, "grid": {"sizes": [100, 100]}}
    null, true = rehearse(spec, truths=[{"none": 0.5, "mail": 0.8}], campaigns=4).data["truths"]
    always = {
        "the same lift in every wave, each by itself", "any change of a lift, by Holm",
        "the actions' shares, in each wave",
    }  # fmt: skip
    of_null = {
        "gains of the run, each by itself", "gain of the rule to run next",
        "any lift, all together", "lift of mail, by itself", "any change of the level, by Holm",
    }  # fmt: skip
    assert set(null["tests"]) >= of_null | always
    assert set(true["tests"]) >= always
    assert not set(true["tests"]) & (of_null - {"any change of the level, by Holm"})
    assert null["tests"]["gains of the run, each by itself"]["of"] == 3 * 4
    gained = true["estimates"]["gain of the run over none"]["truth"]
    assert gained == pytest.approx(true["earned"]["mean"] - 0.5, abs=0.03)
    assert null["estimates"]["gain of the run over none"]["truth"] == 0


def test_what_could_not_reject_is_no_test():
    """A gain where all shares are equal; splits and lifts for want of events."""
    spec = {**SMALL, "policy": {"kind": "UniformRandom"}, "randomised": 0.0,
            "draws": "blake2", "features": {"numeric": {"age": "raw"}}}  # fmt: skip
    tests = rehearse(spec, truths=[{"none": 0.5}], campaigns=2).data["truths"][0]["tests"]
    assert tests["gains of the run, each by itself"]["of"] == 2 * 2
    assert "any split, by Holm" in tests
    tests = rehearse(spec, truths=[{"none": 0.04}], campaigns=2).data["truths"][0]["tests"]
    assert "the actions' shares, in each wave" in tests
    about = {"any split, by Holm", "any lift, all together", "lift of mail, by itself"}
    assert not about & set(tests)


def fact(**own):
    """Return the facts about one campaign of two actions."""
    usual = {
        "verdict": "not-clear", "action": None, "right": True, "stop": None, "early": False,
        "waves": 2,
        "units": 100, "given": [[30, 20], [10, 40]], "earned": 0.5, "equal": 0.4, "best": 0.6,
        "each": 0.7, "tests": {}, "estimates": {}, "guardrails": {}, "spent": [2.0, 4.0],
        "forced": [],
    }  # fmt: skip
    return {**usual, **own}


def test_characteristics_are_shares_and_means_over_campaigns():
    found = [
        fact(action="mail", verdict="give",
             tests={"a": [True, True], "better: mail": [True, False]},
             estimates={"x": [1.5, 1.0, None, 1.0]}, guardrails={"left: mail": ["broken", True]}),
        fact(action="mail", right=False, tests={"a": [[True, False], True]}, stop=[1, "stop"],
             estimates={"x": [0.0, -1.0, 0.5, 1.0]}, waves=1, given=[[10, 30]], spent=[8.0],
             early=True),
        fact(tests={"a": [True, False], "better: mail": [False, False]},
             estimates={"x": [None, None, None, 1.0]}, forced=["too-few-outcomes"] * 2),
    ]  # fmt: skip
    limits = {"actions": ["none", "mail"], "limits": {
        "mail, each wave": ("mail", 40), "budget, total": (None, 8.0)}}  # fmt: skip
    made = characteristics(found, limits)
    third = {"share": 1 / 3, "error": sqrt(3 / 7 * 4 / 7 / 7), "of": 3}
    assert made["verdicts"] == dict.fromkeys(["right action", "wrong action", "no action"], third)
    assert made["recommended"]["mail"]["share"] == 2 / 3
    assert made["tests"] == {"a": {"share": 0.75, "error": pytest.approx(0.25), "of": 3}}
    assert made["power"]["mail"]["share"] == 0.5
    assert made["stops"] == [{"wave": 1, "verdict": "stop", **third}]
    assert made["allocation"]["mail"]["mean"] == pytest.approx((0.6 + 0.75 + 0.6) / 3)
    one = made["estimates"]["x"]
    assert (one["bias"]["mean"], one["coverage"]["share"]) == (-0.25, 0.5)
    assert one["bias when stopped"]["mean"] == -1
    assert one["known"]["share"] == 2 / 3
    assert made["guardrails"]["left: mail"]["wrong"]["share"] == 1
    assert made["limits"]["mail, each wave"]["reached"]["share"] == 2 / 3
    assert made["limits"]["budget, total"]["used"]["mean"] == pytest.approx(20 / 3)
    assert made["forced"] == {"too-few-outcomes": third}


def test_every_part_of_a_spec_is_rehearsed():
    units = listed(250)
    limited = rehearse(LIMITED, units=units, truths=[MAIL_TRUTH], campaigns=2)
    _, true = limited.data["truths"]
    assert set(true["limits"]) == {"call, each wave", "budget, each wave"}
    assert true["limits"]["call, each wave"]["most"] <= 15
    assert {"left: mail", "left: call"} <= set(true["guardrails"])
    assert not true["guardrails"]["left: call"]["truly kept"]
    assert any(
        name.startswith("any declared segment") for name in limited.data["truths"][0]["tests"]
    )
    assert limited.data["units"] == "250 units of table"
    trial = rehearse(TRIAL, units=units, truths=[TRIAL_TRUTH], campaigns=2)
    assert "the stopping rule" in trial.data["truths"][0]["tests"]
    assert "Rehearsal" not in str(trial)
    titles = {table.title for table in limited.tables()}
    assert {"Guardrails", "Capacities and the budget"} <= titles
    _, true = trial.data["truths"]
    # Amounts are estimated as they are, adjusted for looks, and as the gain of the run.
    for name in ("lift of new", "lift of new, adjusted for looks"):
        assert true["estimates"][name]["truth"] == pytest.approx(-0.4)
    assert true["estimates"]["gain of the run over old"]["truth"] == pytest.approx(-0.2, abs=0.05)


def test_withheld_results_and_masks_change_no_number():
    masked = {
        **SMALL, "masked": True, "interim": "committee",
        "stopping": {"rule": "pocock", "looks": "key holder"},
    }  # fmt: skip
    plain = {**SMALL, "stopping": {"rule": "pocock"}}
    one, other = (rehearse(spec, truths=[TRUTH], campaigns=3) for spec in (masked, plain))
    assert one.data["actions"] == ["none", "mail"]
    assert one.data["truths"] == other.data["truths"]
    assert one.data["design"] != other.data["design"]


def test_units_are_made_from_features_and_outcomes_come_as_rows():
    made = rehearse(LOGGED, truths=[LOGGED_TRUTH], campaigns=2)
    _, true = made.data["truths"]
    assert true["units"]["mean"] == 120
    # Amounts above the cap count as the cap.
    assert 15 < true["true means"]["none"][0] < 20
    assert true["true means"]["vip"] == [None, None]
    assert true["allocation"]["vip"]["mean"] == 0
    assert "lift of vip, by itself" not in made.data["truths"][0]["tests"]
    assert abs(true["estimates"]["mean as run"]["bias"]["mean"]) < 10
    assert "not eligible" in str([table.cells() for table in made.tables()])
    assert not true["forced"]


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (
            {
                "rows": "elsewhere",
                "draws": "md5",
                "sums": "exact",
                "policy": {"kind": "UniformRandom"},
            },
            "a database decides and adds up",
        ),
        ({"cluster": "house"}, "Units of one house resemble one another"),
        ({"strata": ["shop"]}, "rules or strata use shop, which are not features"),
        ({}, "nothing says what outcomes are like"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused_with_the_reason(more, match):
    with pytest.raises(InvalidSpecError, match=match):
        rehearse({**SMALL, **more}, campaigns=1)


def test_the_protocol_has_the_rehearsal_with_which_the_campaign_was_created(made, tmp_path):
    file = made.save(tmp_path / "rehearsal.json")
    assert RehearsalFile.read(file).hash == made.hash
    store = open_store(tmp_path / "campaigns.db")
    with pytest.raises(InvalidArgumentError, match="one of another spec"):
        Campaign.create({**SMALL, "floor": 0.1}, store=store, rehearsal=file)
    assert store.names() == []
    # The seed is no part of the design.
    campaign = Campaign.create({**SMALL, "seed": 5}, store=store, rehearsal=file)
    assert campaign.events()[0].payload["rehearsal"] == {
        "hash": made.hash, "seed": 0, "campaigns": 6,
    }  # fmt: skip
    with_it = campaign.protocol(tmp_path / "with.md", rehearsal=file).read_text()
    assert made.sentences[1] in with_it.replace("\\", "")
    assert made.hash in campaign.protocol(tmp_path / "without.md").read_text()
    assert campaign.verify().sound
    other = rehearse(SMALL, truths=[TRUTH], campaigns=1).save(tmp_path / "other.json")
    with pytest.raises(InvalidArgumentError, match="with which the campaign was created"):
        campaign.protocol(tmp_path / "p.md", rehearsal=other)
    later = Campaign.create({**SMALL, "name": "spring2"}, store=store)
    with pytest.raises(InvalidArgumentError, match="of another spec"):
        later.protocol(tmp_path / "p.md", rehearsal=file)
    plain = json.loads(file.read_text())
    plain["campaigns"] = 1_000
    file.write_text(json.dumps(plain))
    with pytest.raises(InvalidArgumentError, match="was changed since"):
        RehearsalFile.read(file)
    file.write_text("[]")
    with pytest.raises(InvalidArgumentError, match=r"the \.json file of a rehearsal"):
        RehearsalFile.read(file)
    store.close()


def test_without_a_truth_an_example_is_shown():
    spec = {**SMALL, "actions": ["none", "a mail"]}
    with pytest.raises(InvalidSpecError) as caught:
        rehearse(spec, campaigns=1)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("  ")]
    assert lines == ["  none = 0.04", '  "a mail" = 0.05']
    assert rehearse(spec, truths=[tomllib.loads("\n".join(lines))], campaigns=1).data["truths"]
    spec["metrics"] = {"visit": {"kind": "amount"}, "calls": {"kind": "count"}}
    spec["objective"] = {"maximise": {"visit": 1, "calls": 2}}
    with pytest.raises(InvalidSpecError) as caught:
        rehearse(spec, campaigns=1)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("  ")]
    assert rehearse(spec, truths=[tomllib.loads("\n".join(lines))], campaigns=1).data["truths"]


def test_a_page_is_drawn(made, tmp_path):
    page = made.save(tmp_path / "rehearsal.html").read_text()
    assert "data:image/svg+xml" in page
    assert "What campaigns recommend at their end" in made._repr_html_()
