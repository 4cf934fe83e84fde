"""Masked campaigns: nothing but the key tells which code is which action."""

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

from seqbatch.campaign import Campaign, validate
from seqbatch.campaign.spec import masking
from seqbatch.campaign.spec.masking import Key
from seqbatch.campaign.steps import create
from seqbatch.errors import SeqbatchError, StoreError
from seqbatch.storage import open_store
from tests.campaign.instances import SPEC, lose_commit, units
from tests.refusals import refused

ARMS = ["placebo-x", "low dose", "high dose"]
TRIAL = {**SPEC, "name": "trial", "actions": ARMS, "control": "placebo-x", "masked": True}


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


@pytest.fixture
def trial(store, tmp_path):
    return Campaign.create(TRIAL, store=store, key=tmp_path / "trial.key", who="ann")


def wave(campaign, start, count):
    answers = pl.from_arrow(campaign.assign(units(count, start=start)).table)
    values = [ord(code[0]) / 10 + row % 7 / 10 for row, code in enumerate(answers["action"])]
    campaign.record(pl.DataFrame({"id": answers["id"], "visit": values}))
    campaign.close()
    return answers


def test_answers_hold_codes_and_neither_scores_nor_probabilities(trial):
    answers = wave(trial, 0, 300)
    assert answers.columns == ["id", "action", "wave"]
    assert set(answers["action"]) == {"A", "B", "C"}


def test_nothing_that_is_shown_or_stored_tells_the_actions(trial, tmp_path):
    wave(trial, 0, 300)
    wave(trial, 300, 200)
    shown = [repr(trial), str(trial.status()), trial.status()._repr_html_(), str(trial.findings())]
    shown.append(json.dumps([e.payload for e in trial.events()], default=str))
    shown.append(json.dumps([e.counts for e in trial.events()], default=str))
    names = ("report.html", "report.md", "report.json")
    shown += [trial.report(tmp_path / name, appendix=True).read_text() for name in names]
    for what in ("units", "outcomes", "events"):
        trial.export(tmp_path / f"{what}.csv", what=what)
        shown.append((tmp_path / f"{what}.csv").read_text())
    assert not [name for name in ARMS for text in shown if name in text]
    header = (tmp_path / "units.csv").read_text().splitlines()[0]
    assert not [part for part in ("score", "probability", "p(", "randomised") if part in header]
    assert {row.least for row in trial.status().actions} == {None}
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("campaigns.db*"))
    assert not [name for name in ARMS if name.encode() in kept]


def test_the_key_is_for_its_owner_alone_and_names_every_code(trial, tmp_path):
    path = tmp_path / "trial.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = Key.read(path)
    assert sorted(key.codes.values()) == sorted(ARMS)
    assert (key.control, sorted(key.codes)) == ("placebo-x", ["A", "B", "C"])
    assert trial.situation().key == key.fingerprint


def test_the_order_of_the_codes_is_drawn(store, tmp_path):
    orders = set()
    for number in range(20):
        path = tmp_path / f"{number}.key"
        Campaign.create({**TRIAL, "name": f"t{number}"}, store=store, key=path, who="ann")
        orders.add(tuple(Key.read(path).codes.values()))
    # All in one order comes once in 6^19 times.
    assert len(orders) > 1


def test_unmasking_gives_names_and_the_control_back(trial, tmp_path):
    coded = wave(trial, 0, 300)
    key = Key.read(tmp_path / "trial.key")
    event = trial.unmask(tmp_path / "trial.key", reason="the committee decided")
    assert (event.kind, event.why) == ("unmask", "the committee decided")
    now = trial.situation()
    assert now.spec.control == "placebo-x"
    assert not now.masked
    again = pl.from_arrow(trial.assign(units(300)).table)
    assert again["action"].to_list() == [key.codes[code] for code in coded["action"]]
    assert "p(low dose)" in again.columns
    assert {row.action for row in trial.status().actions} == set(ARMS)
    assert trial.status(at_event=2).actions[0].action == "A"
    wave_two = pl.from_arrow(trial.assign(units(200, start=300)).table)
    assert set(wave_two["action"]) <= set(ARMS)
    assert trial.verify().sound


def test_another_key_is_refused(trial, store, tmp_path):
    Campaign.create({**TRIAL, "name": "other"}, store=store, key=tmp_path / "o.key", who="ann")
    with refused("invalid-argument", field="key"):
        trial.unmask(tmp_path / "o.key", reason="wrong file")
    forged = json.loads((tmp_path / "trial.key").read_text())
    forged["codes"]["A"], forged["codes"]["B"] = forged["codes"]["B"], forged["codes"]["A"]
    (tmp_path / "forged.key").write_text(json.dumps(forged))
    with refused("invalid-argument", field="key"):
        trial.unmask(tmp_path / "forged.key", reason="forged")
    for text in ("", "[]", "{}", '{"campaign": 1, "codes": 2, "control": 3, "salt": 4}'):
        (tmp_path / "bad.key").write_text(text)
        with refused("invalid-argument", field="key"):
            trial.unmask(tmp_path / "bad.key", reason="bad")
    with refused("invalid-argument", field="key"):
        trial.unmask(tmp_path / "none.key", reason="gone")
    assert trial.situation().masked


def test_unmasking_twice_or_without_a_mask_is_refused(trial, store, tmp_path):
    trial.unmask(tmp_path / "trial.key", reason="done")
    with refused("unmasked"):
        trial.unmask(tmp_path / "trial.key", reason="again")
    plain = Campaign.create(SPEC, store=store, who="ann")
    with refused("not-masked"):
        plain.unmask(tmp_path / "trial.key", reason="why not")


def test_a_masked_campaign_needs_a_key_file_and_others_take_none(store, tmp_path):
    with refused("invalid-argument", field="key", received="none"):
        Campaign.create(TRIAL, store=store, who="ann")
    with refused("invalid-argument", field="key"):
        Campaign.create(SPEC, store=store, key=tmp_path / "x.key", who="ann")
    (tmp_path / "x.key").write_text("mine")
    with refused("invalid-argument", field="key") as caught:
        Campaign.create(TRIAL, store=store, key=tmp_path / "x.key", who="ann")
    assert "force" not in str(caught.value)
    assert (tmp_path / "x.key").read_text() == "mine"
    Campaign.create(TRIAL, store=store, key=tmp_path / "a.key", who="ann")
    with refused("name-taken", field="name"):
        Campaign.create(TRIAL, store=store, key=tmp_path / "b.key", who="ann")
    assert not (tmp_path / "b.key").exists()


def test_actions_are_not_added_while_masked(trial):
    with refused("invalid-argument", field="add"):
        trial.amend(reason="one more", add=["new dose"])


@pytest.mark.parametrize(
    "changes",
    [
        {"actions": ["a", {"name": "b", "cost": 1.0}]},
        {"eligible": {"low dose": "age >= 18"}},
        {"capacity": {"low dose": 100}},
        {"policy": {"kind": "FixedAction", "action": 1}},
    ],
)
def test_what_tells_actions_apart_is_refused(store, tmp_path, changes):
    spec = {**TRIAL, "control": None, **changes}
    with refused("invalid-spec", field="masked"):
        Campaign.create(spec, store=store, key=tmp_path / "k.key", who="ann")


def test_a_masked_spec_is_validated_without_a_key(store):
    found = validate(TRIAL, units(100), scratch=store)
    assert not found.problems
    assert found.units == 100


def test_the_key_stays_if_the_campaign_may_have_been_stored(store, tmp_path, monkeypatch):
    key = tmp_path / "trial.key"
    lose_commit(monkeypatch, store, stored=True)
    with refused("uncertain-commit", match=str(key)):
        Campaign.create(TRIAL, store=store, key=key)
    campaign = Campaign.open("trial", store=store)
    campaign.unmask(key, reason="it was the right key")
    assert {action.name for action in campaign.situation().actions} == set(ARMS)


def test_the_key_is_removed_if_the_store_has_no_such_campaign(store, tmp_path, monkeypatch):
    key = tmp_path / "trial.key"
    lose_commit(monkeypatch, store, stored=False)
    with refused("store-failed"):
        Campaign.create(TRIAL, store=store, key=key)
    assert not key.exists()
    Campaign.create(TRIAL, store=store, key=key)


def test_the_key_stays_if_the_store_does_not_answer(store, tmp_path, monkeypatch):
    key = tmp_path / "trial.key"
    lose_commit(monkeypatch, store, stored=False)
    create, calls = store.create, []

    def silent(name):
        calls.append(name)
        if len(calls) > 1:
            raise StoreError("the store does not answer")
        return create(name)

    monkeypatch.setattr(store, "create", silent)
    with refused("uncertain-commit", match=str(key)):
        Campaign.create(TRIAL, store=store, key=key)
    assert key.exists()


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(5, "I/O error"), StoreError("failed")], ids=repr
)
def test_an_interruption_or_a_failure_during_the_commit(
    store, tmp_path, monkeypatch, stored, error
):
    key = tmp_path / "trial.key"
    lose_commit(monkeypatch, store, stored=stored, error=error)
    with pytest.raises(type(error)):
        Campaign.create(TRIAL, store=store, key=key)
    assert key.exists() == stored == (store.names() == ["trial"])


def test_the_key_and_its_folder_are_on_disk_before_the_commit(store, tmp_path, monkeypatch):
    done, fsync, sync, keep = [], os.fsync, masking.sync, create.keep
    key = tmp_path / "trial.key"
    monkeypatch.setattr(masking.os, "fsync", lambda n: (done.append("file"), fsync(n)))
    monkeypatch.setattr(masking, "sync", lambda path: (done.append(path), sync(path)))
    monkeypatch.setattr(create, "keep", lambda *args: (done.append("commit"), keep(*args)))
    Campaign.create(TRIAL, store=store, key=key)
    assert done.index("file") < done.index(tmp_path) < done.index("commit")


@pytest.mark.usefixtures("trial")
def test_a_name_that_is_taken_leaves_no_key(store, tmp_path):
    with refused("name-taken"):
        Campaign.create(TRIAL, store=store, key=tmp_path / "second.key")
    assert not (tmp_path / "second.key").exists()
    assert (tmp_path / "trial.key").exists()


def test_two_calls_with_one_key_file_keep_one_key(tmp_path):
    """Whichever call creates the campaign, its key is the one in the file."""
    for number in range(5):
        stores = [open_store(tmp_path / f"{number}.db") for _ in range(2)]
        key, start = tmp_path / f"{number}.key", threading.Barrier(2)

        def create(store, key=key, start=start):
            start.wait()
            try:
                return Campaign.create(
                    {**SPEC, "actions": ARMS, "masked": True, "control": None}, store=store, key=key
                )
            except SeqbatchError:
                return None

        with ThreadPoolExecutor(2) as pool:
            made = list(pool.map(create, stores))
        assert sum(each is not None for each in made) == 1
        [campaign] = [each for each in made if each is not None]
        assert Key.read(key).fingerprint == campaign.situation().key
        for store in stores:
            store.close()
