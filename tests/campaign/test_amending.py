"""Amendments: the fixed action stays, a name is given once, and units are those there were."""

import pytest

from seqbatch.campaign.steps.creating import prepare
from seqbatch.errors import CampaignStateError, InvalidArgumentError, InvalidSpecError
from tests.campaign.instances import SMALL, shares, small, small_wave, units


def test_a_fixed_action_stays_the_same_action(store):
    campaign = small(store, policy={"kind": "FixedAction", "action": 1})
    small_wave(campaign, 1)
    with pytest.raises(InvalidArgumentError, match="gives to everybody; received 'b'"):
        campaign.amend(reason="no", retire=["b"])
    campaign.amend(reason="too dear", retire=["a"])
    assert shares(small_wave(campaign, 2)) == {"b": 1.0}
    assert campaign.verify().sound


def test_a_name_is_added_once(store):
    campaign = small(store)
    with pytest.raises(InvalidArgumentError, match="a name not among a, b, c, z; received z"):
        campaign.amend(reason="twice", add=["z", "z"])


def test_units_are_those_that_were_assigned(store):
    campaign = small(store)
    small_wave(campaign, 1, count=120)
    with pytest.raises(InvalidArgumentError, match="at least 122 with 2 waves to come"):
        campaign.amend(reason="too few", units=121)
    campaign.amend(reason="1,000 in all", units=1_000)
    assert campaign.situation().sizes == (300, 440, 440)


def test_an_action_whose_column_is_the_units_is_refused(store):
    frame = units(300).rename({"id": "p(new)"})
    campaign = small(store, unit="p(new)", floor=0.02)
    campaign.assign(frame)
    campaign.close(force=True, reason="none came")
    with pytest.raises(InvalidArgumentError, match="p\\(new\\) is not the unit column"):
        campaign.amend(reason="an idea", add=["new"])
    campaign.amend(reason="an idea", add=["other"])
    assert campaign.verify().sound


def test_an_amendment_says_what_changed_from_what_to_what(store, tmp_path):
    campaign = small(store, floor=0.02)
    small_wave(campaign, 1)
    event = campaign.amend(reason="too dear", sizes=[400], retire=["b"], add=["d"], floor=0.05)
    assert event.payload["changes"] == [
        {"what": "sizes", "from": [300, 300, 300], "to": [300, 400]},
        {"what": "actions", "from": ["a", "b", "c"], "to": ["a", "c", "d"]},
        {"what": "floor", "from": 0.02, "to": 0.05},
    ]
    page = campaign.report(tmp_path / "report.html")
    said = "sizes from 300, 300, 300 to 300, 400; actions from a, b, c to a, c, d; floor from 0.02"
    assert said in page.read_text(encoding="utf-8")
    with pytest.raises(InvalidArgumentError, match="a change of some kind; received what is so"):
        campaign.amend(reason="the same", floor=0.05)


def test_the_control_is_retired_by_force_alone(store):
    campaign = small(store, control="a", randomised=0.1)
    with pytest.raises(InvalidArgumentError, match="another action than the control") as refused:
        campaign.amend(reason="too dear", retire=["a"])
    assert "none of those waves could be compared with it" in str(refused.value)
    assert campaign.situation().sequence == 1
    campaign.amend(reason="too dear", retire=["a"], force=True)
    assert campaign.situation().active == (1, 2)
    # Once it is gone there is nothing left to protect.
    campaign.amend(reason="an idea", add=["d"], floor=0.05)


def test_the_floor_that_keeps_the_control_is_dropped_by_force_alone(store):
    campaign = small(store, control="a", floor=0.1)
    with pytest.raises(InvalidArgumentError, match=r"gives units the control 'a'; received 0\.0"):
        campaign.amend(reason="no more", floor=0.0)
    campaign.amend(reason="no more", floor=0.0, force=True)


KEPT = [
    {"randomised": 0.1}, {"floor": 0.01}, {"policy": {"kind": "UniformRandom"}},
    {"policy": {"kind": "EpsilonGreedy"}}, {"policy": {"kind": "FixedAction", "action": 0}},
    {"grid": {"sizes": [300]}},
]  # fmt: skip
LOST = [
    {}, {"policy": {"kind": "ThompsonSampling"}},
    {"policy": {"kind": "EpsilonGreedy", "epsilon": 0}},
    {"policy": {"kind": "FixedAction", "action": 1}},
]  # fmt: skip


@pytest.mark.parametrize("settings", KEPT)
def test_a_control_that_units_are_sure_to_get_is_accepted(settings):
    prepare({**SMALL, "control": "a", **settings})


@pytest.mark.parametrize("settings", LOST)
def test_a_control_that_nobody_may_get_is_refused(settings):
    with pytest.raises(InvalidSpecError, match="control: after the first wave") as refused:
        prepare({**SMALL, "control": "a", **settings})
    assert "Declare randomised" in str(refused.value)


def test_a_finished_campaign_is_not_aborted(store):
    campaign = small(store, grid={"sizes": [300]})
    small_wave(campaign, 1)
    with pytest.raises(CampaignStateError, match="is finished: all of its waves"):
        campaign.abort(reason="late")
