"""Looks of a key holder: those of the same campaign without a mask, and nobody else sees them."""

import json
import stat
from dataclasses import replace
from random import Random

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide import keyed_looks
from seqbatch.campaign.spec import masking
from seqbatch.campaign.spec.masking import Key
from seqbatch.campaign.steps import create
from seqbatch.campaign.views.verify_checks import wrong_keyed_looks
from seqbatch.storage import open_store
from tests.campaign.instances import SPEC, units
from tests.refusals import refused

ARMS = ["placebo-x", "low dose", "high dose"]
STOPPING = {"rule": "pocock", "alpha": 0.1}
TRIAL = {
    **SPEC, "name": "trial", "actions": ARMS, "control": "placebo-x", "masked": True,
    "stopping": {**STOPPING, "looks": "key holder"}, "interim": "committee",
}  # fmt: skip
WAVES = [(0, 300), (300, 200), (500, 100)]


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


@pytest.fixture
def key(tmp_path):
    return tmp_path / "trial.key"


@pytest.fixture(autouse=True)
def _same_codes(monkeypatch):
    """Which arm is A decides what a look says, and is drawn anew for each campaign."""
    monkeypatch.setattr(masking.secrets, "SystemRandom", lambda: Random(1))


@pytest.fixture
def trial(store, key):
    return Campaign.create(TRIAL, store=store, key=key, who="ann")


def wave(campaign, number, codes, *, effect=0.0):
    """Run a wave in which one arm brings `effect` more; return the result of closing it."""
    start, count = WAVES[number - 1]
    answers = pl.from_arrow(campaign.assign(units(count, start=start)).table)
    values = [
        effect * (codes.get(code, code) == "high dose") + row * 7919 % 13 / 10
        for row, code in enumerate(answers["action"])
    ]
    campaign.record(pl.DataFrame({"id": answers["id"], "visit": values}))
    return campaign.close()


def twin(store, key):
    """Return the same campaign without a mask: its actions stand in the order of the codes."""
    ours = {**TRIAL, "masked": False, "interim": "open", "stopping": STOPPING}
    other = open_store(store.files[0].with_name("twin.db"))
    return Campaign.create({**ours, "actions": list(key.codes.values())}, store=other, who="ann")


def test_a_look_is_that_of_the_same_campaign_without_a_mask(trial, store, key):
    """At every wave, bit for bit, before and after unmasking; also when unmasking takes it."""
    codes = Key.read(key).codes
    open_trial = twin(store, Key.read(key))
    wave(trial, 1, codes)
    looks = [trial.look(key)]
    seen = [wave(open_trial, 1, codes).stopping]
    wave(trial, 2, codes, effect=0.1)
    # Outcomes that come after the closing count at the next look.
    trial.record(pl.DataFrame({"id": ["000007"], "visit": [-9.0]}), correct=True, reason="typo")
    looks.append(trial.look(key))
    seen.append(wave(open_trial, 2, codes, effect=0.1).stopping)
    open_trial.record(
        pl.DataFrame({"id": ["000007"], "visit": [-9.0]}), correct=True, reason="typo"
    )
    assert [one.taken for one in looks] == seen
    assert [one.verdict for one in looks] == ["continue", "continue"]
    wave(trial, 3, codes, effect=8.0)
    seen.append(wave(open_trial, 3, codes, effect=8.0).stopping)
    assert seen[-1].verdict == "stop for success"
    trial.unmask(key, reason="the last wave is closed")
    assert trial.findings().stopping.looks == tuple(seen)
    assert trial.findings().stopping.looks == open_trial.findings().stopping.looks
    assert trial.verify().findings == ()
    open_trial.store.close()


def test_closings_after_unmasking_go_on_where_the_key_holder_left(trial, store, key):
    codes = Key.read(key).codes
    open_trial = twin(store, Key.read(key))
    for each in (trial, open_trial):
        wave(each, 1, codes)
    trial.look(key)
    trial.unmask(key, reason="a safety review")
    assert wave(trial, 2, codes).stopping is None  # withheld until the end
    assert wave(open_trial, 2, codes).stopping is not None
    wave(trial, 3, codes)
    wave(open_trial, 3, codes)
    assert trial.findings().stopping.looks == open_trial.findings().stopping.looks
    assert trial.verify().sound
    open_trial.store.close()


def test_the_next_wave_waits_for_the_look(trial, key):
    codes = Key.read(key).codes
    with refused("no-wave-closed"):
        trial.look(key)
    wave(trial, 1, codes)
    assert trial.status().look_due
    assert trial.next_step() == "look"
    assert "A look is due after wave 1 (the committee)" in str(trial.status().document().first)
    with refused("look-due"):
        trial.assign(units(200, start=300))
    # Units with an action get it again.
    assert trial.assign(units(300)).repeated == 300
    looked = trial.look(key, reason="first meeting")
    assert not trial.status().look_due
    [event] = [event for event in trial.events() if event.kind == "look"]
    assert (event.why, event.counts) == ("first meeting", {})
    assert event.payload.keys() == {"wave", "verdict", "seal"}
    # A repeated call changes nothing.
    assert trial.look(key) == looked
    assert trial.situation().sequence == event.sequence
    wave(trial, 2, codes)
    trial.go_on(reason="the committee cannot meet")
    with refused("no-look"):
        trial.look(key)
    trial.assign(units(100, start=500))


def test_a_verdict_to_stop_ends_assigning_and_says_no_more(trial, key):
    codes = Key.read(key).codes
    wave(trial, 1, codes, effect=4.0)
    looked = trial.look(key)
    assert looked.taken.verdict == "stop for success"
    assert (looked.verdict, trial.situation().stop) == ("stop", "stop")
    with refused("stopped"):
        trial.assign(units(200, start=300))
    assert trial.status().condition == "stopped"
    # Withheld until somebody confirms the stop: it might be continued.
    assert trial.situation().withheld == (trial.situation().spec.interim == "committee")
    trial.go_on(reason="the committee wants to know the second dose better")
    trial.assign(units(200, start=300))


def test_the_closed_report_is_for_its_owner_alone(trial, key, tmp_path):
    wave(trial, 1, Key.read(key).codes, effect=0.1)
    out = tmp_path / "closed-report.json"
    looked = trial.look(key, out=out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    told = json.loads(out.read_text())
    [look] = told["findings"]["stopping"]["looks"]
    assert look["actions"][0]["statistic"] == looked.taken.actions[0].statistic
    newest = trial.events()[-1]
    assert (told["event"], told["hash"]) == (newest.sequence, newest.hash)
    assert (trial.status(key=key).events, trial.status(key=key).hash) == (
        told["event"],
        told["hash"],
    )
    with refused("file-exists", field="out"):
        trial.look(key, out=out)
    out.chmod(0o644)
    trial.look(key, out=out, force=True)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    page = tmp_path / "closed-report.html"
    trial.look(key, out=page)
    assert all(name in page.read_text() for name in ARMS)
    # The record and everybody's views still have codes alone.
    assert not [name for name in ARMS for event in trial.events() if name in str(event)]


def test_looks_are_verified_with_the_key_or_after_unmasking(trial, key, monkeypatch):
    codes = Key.read(key).codes
    wave(trial, 1, codes)
    trial.look(key)
    wave(trial, 2, codes)
    [note] = trial.verify().notes
    assert note == "1 look of the key holder not checked: that takes the key"
    assert trial.verify(key=key).notes == ()
    held = Key.read(key)
    events = trial.events()
    with trial.store.read("trial") as reader:
        made = keyed_looks.keyed_looks(reader, events, held)
    assert not list(wrong_keyed_looks(made, events, held))
    for forged in ({"verdict": "stop"}, {"seal": "0" * 40}):
        others = [replace(e, payload=e.payload | forged) if e.kind == "look" else e for e in events]
        assert [place for _, place, _ in wrong_keyed_looks(made, others, held)] == ["look"]
    other = [replace(made[0], taken=replace(made[0].taken, alpha=0.2))]
    assert list(wrong_keyed_looks(other, events, held))
    # As if the rows gave another look than the one that was recorded.
    monkeypatch.setattr(keyed_looks, "DIGITS", 3)
    assert [one.place for one in trial.verify(key=key).findings] == ["look"]
    with refused("damaged"):
        trial.look(key)
    assert trial.status().look_due


def test_a_wrong_key_opens_nothing(trial, store, key, tmp_path):
    codes = Key.read(key).codes
    wave(trial, 1, codes)
    forged = json.loads(key.read_text())
    forged["control"] = "low dose"
    wrong = tmp_path / "wrong.key"
    wrong.write_text(json.dumps(forged))
    for call in (
        lambda: trial.look(wrong),
        lambda: trial.unblind("000001", key=wrong, reason="x"),
        lambda: trial.findings(key=wrong),
        lambda: trial.status(key=wrong),
        lambda: trial.verify(key=wrong),
        lambda: trial.export(tmp_path / "u.csv", key=wrong),
        lambda: trial.report(tmp_path / "r.html", key=wrong),
    ):
        with refused("invalid-argument", field="key"):
            call()
    plain = Campaign.create(SPEC, store=store, who="ann")
    with refused("invalid-argument", field="key"):
        plain.findings(key=key)
    with refused("not-masked"):
        plain.look(key)


def test_results_are_withheld_until_the_end_except_with_the_key(trial, key, tmp_path):
    codes = Key.read(key).codes
    answers = trial.assign(units(300)).table
    assert answers.column_names == ["id", "action", "wave"]
    closed = wave(trial, 1, codes)
    assert closed.observed == {"all actions": 300}
    assert trial.status().actions == ()
    assert {row.action for row in trial.status(key=key).actions} == set(ARMS)
    assert trial.findings(key=key).control == "placebo-x"
    for call in (
        trial.findings,
        trial.next_rule,
        trial.rule,
        lambda: trial.sql(units="t"),
        lambda: trial.report(tmp_path / "r.html"),
        lambda: trial.export(tmp_path / "u.csv"),
        lambda: trial.export(tmp_path / "u.csv", what="outcomes"),
        lambda: trial.findings(at_event=2),
        lambda: trial.package(tmp_path / "t.zip"),
    ):
        with refused("withheld"):
            call()
    assert trial.export(tmp_path / "u.csv", key=key) == 300
    assert set(pl.read_csv(tmp_path / "u.csv")["action"]) == set(ARMS)
    assert trial.export(tmp_path / "e.csv", what="events", key=key) == trial.situation().sequence
    trial.report(tmp_path / "r.html", key=key)
    assert stat.S_IMODE((tmp_path / "r.html").stat().st_mode) == 0o600
    trial.look(key)
    trial.abort(reason="no more patients")
    assert trial.findings().actions == ("A", "B", "C")
    # Only the key or unmasking tells the looks, for which intervals would have to allow.
    assert any("intervals are for a single look" in note for note in trial.findings().notes)
    assert not any("for a single look" in note for note in trial.findings(key=key).notes)
    assert trial.status().actions


def test_results_of_a_campaign_without_a_mask_can_be_withheld(store, key):
    spec = {**TRIAL, "masked": False, "stopping": STOPPING, "name": "open-label"}
    with refused("invalid-argument", field="key"):
        Campaign.create(spec, store=store, who="ann")
    made = Campaign.create(spec, store=store, key=key, who="ann")
    assert wave(made, 1, {}).stopping is None
    assert made.findings(key=key).stopping.looks[0].verdict == "go on"
    with refused("withheld"):
        made.findings()
    with refused("not-masked"):
        made.unmask(key, reason="there is no mask")
    assert wave(made, 2, {}, effect=8.0).stopping is None
    # Nobody but the committee is told which way it went.
    assert made.findings(key=key).stopping.looks[1].verdict == "stop for success"
    assert made.situation().stop == "stop"
    assert made.verify().sound


def test_one_unit_is_unblinded_in_an_emergency(trial, key, tmp_path):
    held = Key.read(key)
    coded = pl.from_arrow(trial.assign(units(300)).table)
    found = trial.unblind("000041", key=key, reason="anaphylaxis")
    code = coded.filter(pl.col("id") == "000041")["action"][0]
    assert found.action == held.codes[code]
    event = trial.events()[-1]
    assert (event.kind, event.who, event.why) == ("unblind", "ann", "anaphylaxis")
    assert event.payload == {"number": 41}
    assert not [name for name in (*ARMS, f"'{code}'") if name in repr((event, found))]
    for unit in ("999999", ["000041", "000042"], ""):
        with refused("invalid-argument", field="unit"):
            trial.unblind(unit, key=key, reason="anaphylaxis")
    with refused("invalid-argument", field="reason"):
        trial.unblind("000041", key=key, reason=" ")
    assert trial.situation().sequence == event.sequence
    trial.unblind("000042", key=key, reason="a fall")
    said = "Unblinded in an emergency: 2 units (events 3 and 4)."
    assert said in trial.protocol(tmp_path / "protocol.md").read_text()
    trial.record(pl.DataFrame({"id": coded["id"], "visit": [1.0] * 300}))
    assert said in trial.report(tmp_path / "report.md", key=key, appendix=True).read_text()
    assert trial.verify(key=key).sound


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"stopping": STOPPING}, "stopping.looks"),
        ({"masked": False}, "stopping.looks"),
        ({"interim": "open"}, "interim"),
        ({"stopping": {"looks": "key holder"}}, "stopping.looks"),
        ({"grid": {"sizes": [300, 200], "adaptive": True}}, "interim"),
    ],
)
def test_a_plan_of_looks_that_shows_the_arms_or_nobody_can_take_is_refused(
    store, key, changes, field
):
    with refused("invalid-spec", field=field):
        Campaign.create({**TRIAL, **changes}, store=store, key=key, who="ann")
    assert not key.exists()


def test_a_masked_campaign_of_an_earlier_version_goes_on_without_looks(store, key, monkeypatch):
    """It could be created with a rule that nobody applies while it is masked."""
    monkeypatch.setattr(create, "require_planned_looks", lambda _spec: None)
    spec = {**TRIAL, "stopping": STOPPING, "interim": "open"}
    trial = Campaign.create(spec, store=store, key=key, who="ann")
    codes = Key.read(key).codes
    closed = wave(trial, 1, codes)
    assert closed.stopping is None
    assert any("compares actions with the control" in note for note in closed.notes)
    with refused("no-looks"):
        trial.look(key)
    trial.unmask(key, reason="an interim analysis")
    wave(trial, 2, codes)
    [look] = trial.findings().stopping.looks
    assert {one.action for one in look.actions} == {"low dose", "high dose"}
    assert trial.verify().sound
