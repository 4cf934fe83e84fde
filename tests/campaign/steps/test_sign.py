"""Signatures: who signed, how the name is known, and where it is shown."""

import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.events import this_user
from seqbatch.campaign.views.signatures import signatures
from tests.refusals import refused


@pytest.fixture
def campaign(store):
    spec = {
        "name": "trial", "seed": 3, "actions": ["placebo", "dose"], "grid": {"sizes": [4]},
        "metrics": {"well": {"kind": "yes/no"}}, "objective": {"maximise": "well"},
    }  # fmt: skip
    return Campaign.create(spec, store=store)


def test_a_signature_says_who_how_known_and_what_for(campaign, store, tmp_path):
    campaign.sign("approved by the statistician")
    Campaign(store, "trial", who="ada").sign("read", reason="the monitor's visit")
    Campaign(store, "trial", who="grace", by_token=True).sign("approved by the sponsor")
    made = signatures(campaign.events())
    assert [(one.who, one.known_by) for one in made] == [
        (this_user(), "account"), ("ada", "given"), ("grace", "token"),
    ]  # fmt: skip
    events = campaign.events()
    assert [one.covers for one in made] == [event.hash for event in events[:3]]
    verified = campaign.verify()
    assert verified.sound
    assert verified.signatures == made
    report = campaign.report(tmp_path / "b.md", appendix=True)
    for page in (campaign.protocol(tmp_path / "a.md"), report):
        text = page.read_text()
        assert "approved by the sponsor" in text
        assert "owner of a token of the service" in text
        assert "name given by the caller, not checked" in text


@pytest.mark.parametrize("meaning", ["", "  ", "two\nlines", "x" * 501])
def test_a_meaning_is_one_line(campaign, meaning):
    with refused("invalid-argument", field="meaning"):
        campaign.sign(meaning)
    assert len(campaign.events()) == 1
