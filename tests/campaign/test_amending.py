"""Amendments: the fixed action stays, a name is given once, and units are those there were."""

import pytest

from seqbatch.errors import InvalidArgumentError
from tests.campaign.instances import shares, small, small_wave, units


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
