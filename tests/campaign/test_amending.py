"""Amendments: the fixed action stays, a name is given once, and units are those there were."""

import pytest

from seqbatch.errors import InvalidArgumentError
from tests.campaign.instances import shares, small, small_wave


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
