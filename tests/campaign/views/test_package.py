"""Packages: deterministic, complete, and verified by the script inside."""

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
import zipfile

import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.rehearsal.rehearsal import rehearse
from seqbatch.errors import Remedy
from seqbatch.storage import open_store
from tests.campaign.decide.test_stopping import SPEC, effect, nothing, trial
from tests.campaign.views.test_findings import run
from tests.refusals import refused

FILES = {
    "README.txt", "findings.json", "manifest.json", "protocol.html", "record.db", "report.html",
    "seal.json", "spec.json", "verify.py", "versions.json",
}  # fmt: skip


def unpacked(file, folder):
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    return folder


def verified(folder, *options):
    return subprocess.run(
        [sys.executable, *options, "verify.py"], cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A package of a campaign in a store with others, and its folder."""
    folder = tmp_path_factory.mktemp("made")
    store = open_store(folder / "store.db")
    run(trial(store, name="other"), sizes=(120,), value=nothing)
    campaign = run(trial(store), sizes=(120,), value=effect(0.1))
    campaign.sign("approved by the statistician")
    run(campaign, sizes=(120,), start=5_000, value=effect(1.0))
    newest = campaign.package(folder / "trial.zip")
    assert newest == campaign.events()[-1].hash
    campaign.package(folder / "again.zip")
    store.close()
    return folder


def test_the_same_record_gives_the_same_bytes(made):
    assert (made / "trial.zip").read_bytes() == (made / "again.zip").read_bytes()
    assert (made / "trial.zip").stat().st_mode & 0o077 == 0


def test_it_holds_one_campaign_and_verifies_elsewhere(made, tmp_path):
    folder = unpacked(made / "trial.zip", tmp_path)
    assert {file.name for file in folder.iterdir()} == FILES
    whole = verified(folder)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert "Replayed: 240 decisions" in whole.stdout
    # Again: verifying has not changed anything.
    alone = verified(folder, "-I", "-S")
    assert alone.returncode == 0, alone.stdout + alone.stderr
    assert "Decisions are not replayed" in alone.stdout
    store = open_store(shutil.copy(folder / "record.db", tmp_path / "copy.db"))
    assert store.names() == ["trial"]
    campaign = Campaign.open("trial", store=store)
    again = campaign.findings(at_event=campaign.events()[-1].sequence, tree=True).plain()
    findings = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    assert findings == json.loads(json.dumps(again))
    store.close()


def test_whatever_is_changed_is_found(made, tmp_path):
    for name in ("report.html", "record.db"):
        folder = unpacked(made / "trial.zip", tmp_path / name)
        with (folder / name).open("ab") as file:
            file.write(b" ")
        broken = verified(folder, "-I", "-S")
        assert broken.returncode == 1
        assert f"{name} was changed" in broken.stdout


def test_a_changed_record_is_found_although_the_manifest_was_changed_too(made, tmp_path):
    folder = unpacked(made / "trial.zip", tmp_path)
    with sqlite3.connect(folder / "record.db") as record:
        for (trigger,) in record.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            record.execute(f"DROP TRIGGER {trigger}")
        record.execute("UPDATE events SET who = 'eve' WHERE sequence = 3")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    hashed = hashlib.sha256((folder / "record.db").read_bytes()).hexdigest()
    manifest["files"]["record.db"] = hashed
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    broken = verified(folder, "-I", "-S")
    assert broken.returncode == 1
    assert "event 3 was changed" in broken.stdout


def test_the_rehearsal_goes_with_it(store, tmp_path):
    spec = {**SPEC, "stopping": {"rule": "none"}}
    truths = [{"spread": {"sd": 1}, "none": 0, "mail": 0.2}]
    rehearse(spec, truths=truths, campaigns=4).save(tmp_path / "rehearsal.json")
    campaign = Campaign.create(spec, store=store, rehearsal=tmp_path / "rehearsal.json")
    run(campaign, sizes=(120,), value=nothing)
    campaign.package(tmp_path / "trial.zip", rehearsal=tmp_path / "rehearsal.json")
    folder = unpacked(tmp_path / "trial.zip", tmp_path / "made")
    assert {file.name for file in folder.iterdir()} == {*FILES, "rehearsal.json"}
    assert "rehearsal.json" in (folder / "README.txt").read_text(encoding="utf-8")
    other = {**spec, "required_outcomes": 0.4}
    rehearse(other, truths=truths, campaigns=4).save(tmp_path / "other.json")
    with refused("invalid-argument", field="rehearsal"):
        campaign.package(tmp_path / "two.zip", rehearsal=tmp_path / "other.json")


def test_a_guarded_seed_stays_with_the_holder_of_the_key(store, tmp_path):
    campaign = Campaign.create(
        {**SPEC, "stopping": {"rule": "none"}, "masked": True}, store=store, key=tmp_path / "k"
    )
    run(campaign, sizes=(120,), value=nothing)
    with refused("withheld") as caught:
        campaign.package(tmp_path / "trial.zip")
    assert caught.value.remedies == (Remedy("key"),)
    assert not (tmp_path / "trial.zip").exists()
    campaign.package(tmp_path / "trial.zip", key=tmp_path / "k")
    folder = unpacked(tmp_path / "trial.zip", tmp_path / "made")
    # It stays masked.
    assert "mail" not in (folder / "findings.json").read_text(encoding="utf-8")
    assert b"mail" not in (folder / "record.db").read_bytes()
    campaign.unmask(tmp_path / "k", reason="decided")
    # A key is needed as long as actions could be foreseen.
    with refused("withheld"):
        campaign.package(tmp_path / "open.zip")
    campaign.abort(reason="enough")
    campaign.package(tmp_path / "open.zip")
    folder = unpacked(tmp_path / "open.zip", tmp_path / "opened")
    assert "mail" in (folder / "findings.json").read_text(encoding="utf-8")
