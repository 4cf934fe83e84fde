"""Seals kept elsewhere: a shortened history, an older copy, a changed seal."""

import json
import shutil
import sqlite3
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from seqbatch.campaign import Campaign, Seal
from seqbatch.campaign.record.events import sealed
from seqbatch.storage import open_store
from seqbatch.storage.schema import metadata
from tests.campaign.instances import created, run_wave, units
from tests.campaign.views.test_verify import behind
from tests.refusals import refused


@pytest.fixture
def campaign(tmp_path):
    store = open_store(tmp_path / "c.db")
    made = created(store)
    run_wave(made, 1, start=0, count=300)
    yield made
    store.close()


def keys(folder, private=None):
    """Write a pair of keys as OpenSSH does, and as OpenSSL does."""
    private = private or ed25519.Ed25519PrivateKey.generate()
    form, none = serialization.PrivateFormat, serialization.NoEncryption()
    pem, ssh = serialization.Encoding.PEM, serialization.Encoding.OpenSSH
    public = private.public_key()
    contents = {
        "id": private.private_bytes(pem, form.OpenSSH, none),
        "id.pem": private.private_bytes(pem, form.PKCS8, none),
        "id.pub": public.public_bytes(ssh, serialization.PublicFormat.OpenSSH),
        "id.pub.pem": public.public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo),
    }
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def seals(found):
    return [finding.problem for finding in found.findings if finding.place == "seal"]


def test_a_seal_holds_while_the_campaign_goes_on(campaign, tmp_path):
    made = campaign.seal(tmp_path / "seal.json")
    assert made == Seal.read(tmp_path / "seal.json")
    assert (made.event, made.units, made.waves) == (4, 300, 1)
    assert made.hash == campaign.close(wave=1).hash == campaign.status().hash
    campaign.assign(units(50, start=300))
    assert campaign.verify(seal=made).sound


def test_an_older_copy_is_seen(campaign, tmp_path):
    """What the chain cannot show: everything in an older copy fits together."""
    shutil.copyfile(tmp_path / "c.db", tmp_path / "old.db")
    campaign.assign(units(50, start=300))
    made = campaign.seal()
    store = open_store(tmp_path / "old.db")
    old = Campaign(store, "spring")
    assert old.verify().sound
    [problem] = seals(old.verify(seal=made))
    assert "the newest event here is 4: the last events were removed, or this is an" in problem
    old.assign(units(50, start=700))
    [problem] = seals(old.verify(seal=made))
    assert "event 5 is not the one that was sealed" in problem
    store.close()


def test_another_campaigns_seal_is_refused(campaign):
    found = campaign.verify(seal=replace(campaign.seal(), campaign="autumn"))
    assert "the seal is of campaign 'autumn', not of 'spring'" in seals(found)[0]


@pytest.mark.parametrize(("private", "public"), [("id", "id.pub.pem"), ("id.pem", "id.pub")])
def test_a_signed_seal_shows_whose_it_is(campaign, tmp_path, private, public):
    mine, other = keys(tmp_path / "mine"), keys(tmp_path / "other")
    made = campaign.seal(key=mine / private)
    assert campaign.verify(seal=made, signer=mine / public).sound
    assert "was not signed by the owner" in seals(
        campaign.verify(seal=made, signer=other / public)
    )[0]  # fmt: skip
    assert "was not signed by the owner" in seals(
        campaign.verify(seal=campaign.seal(), signer=mine / public)
    )[0]  # fmt: skip
    for change in ({"units": 299}, {"at": "2000-01-01T00:00:00+00:00"}, {"signature": "00" * 64}):
        found = seals(campaign.verify(seal=replace(made, **change), signer=mine / public))
        [said] = found
        assert said.startswith("the signature does not match the seal")


def test_files_that_are_no_keys_or_seals(campaign, tmp_path):
    folder = keys(tmp_path / "mine")
    (tmp_path / "text").write_text("hello")
    curve = ec.generate_private_key(ec.SECP256R1())
    other = keys(tmp_path / "curve", curve)
    for wrong in (tmp_path / "none", tmp_path / "text", folder / "id.pub", other / "id"):
        with refused("invalid-argument", field="key"):
            campaign.seal(key=wrong)
    made = json.loads(json.dumps(vars(campaign.seal())))
    for name, text in {
        "a": "hello", "b": "[]", "c": "{}", "d": json.dumps({**made, "event": "4"}),
        "e": json.dumps({**made, "more": 1}),
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
        with refused("invalid-rows", problem="not-a-seal"):
            campaign.verify(seal=tmp_path / name)
    with refused("invalid-rows", problem="not-a-seal"):
        campaign.verify(seal=tmp_path / "nowhere")


def test_a_space_in_an_event_is_named(campaign, tmp_path):
    campaign.store.close()
    raw = sqlite3.connect(tmp_path / "c.db")
    raw.execute("DROP TRIGGER events_no_UPDATE")
    raw.execute("UPDATE events SET counts = ' ' || counts WHERE sequence = 3")
    raw.commit()
    raw.close()
    store = open_store(tmp_path / "c.db")
    assert any(finding.event == 3 for finding in Campaign(store, "spring").verify().findings)
    store.close()


def test_tombstones_are_sealed(store):
    for name in ("first", "second"):
        created(store, name=name).delete(reason="a trial")
    campaign = created(store)
    made = campaign.seal()
    assert (made.deleted, made.tombstone) == (2, store.tombstones()[-1].hash)
    created(store, name="third").delete(reason="a trial")
    assert campaign.verify(seal=made).sound
    table = metadata.tables["tombstones"]
    first, second, third = store.tombstones()
    forged = sealed("second", replace(second, why="nothing happened"))
    last = sealed("third", replace(third, previous=forged.hash))
    with behind(store) as raw:
        for each in (forged, last):
            mine = table.c.campaign == each.campaign
            raw.execute(table.update().where(mine).values(**vars(each)))
    # Everything fits together; only the seal knows.
    assert campaign.verify().sound
    assert len(seals(campaign.verify(seal=made))) == 1
    with behind(store) as raw:
        raw.execute(table.delete().where(table.c.campaign != first.campaign))
    assert campaign.verify().sound
    [problem] = seals(campaign.verify(seal=made))
    assert "counts 2 deleted campaigns, but the store has 1 tombstones" in problem
