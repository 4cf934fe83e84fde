"""What a long history costs, and what happens where a part of it is gone."""

import gzip
import json
import shutil
import sqlite3

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.current_situation import Situation, situation
from seqbatch.campaign.record.events import current, folded
from seqbatch.storage import open_store
from tests.campaign.elsewhere import FIXTURE
from tests.campaign.instances import (
    created,
    outcomes,
    run_wave,
    small,
    units,
    without_triggers,
)
from tests.cases import thorough
from tests.refusals import refused


def changed(path, *statements):
    """Change a store behind the triggers' back."""
    raw = sqlite3.connect(path)
    with without_triggers(raw):
        for statement in statements:
            raw.execute(statement)
    raw.commit()
    raw.close()


@pytest.fixture
def path(tmp_path):
    """A campaign whose newest event assigned units."""
    found = tmp_path / "c.db"
    store = open_store(found)
    campaign = created(store)
    run_wave(campaign, 1, start=0, count=300)
    campaign.assign(units(50, start=300))
    store.close()
    return found


def test_an_event_that_is_gone_is_missed(path):
    changed(path, "DELETE FROM events WHERE sequence = 5")
    store = open_store(path)
    campaign = Campaign(store, "spring")
    text = "\n".join(map(str, campaign.verify().findings))
    assert "event 5, unit chunk 1: its event is missing" in text
    assert "event 5, event: was recorded, but is missing" in text
    for call in (
        lambda: campaign.assign(units(50, start=300)), lambda: campaign.close(),
        lambda: campaign.status(),
    ):  # fmt: skip
        with refused("events-missing", match="event is 4.*event 5"):
            call()
    store.close()


def test_records_without_an_event_are_named_also_without_a_fold(path):
    changed(path, "DELETE FROM events WHERE sequence = 5", "DELETE FROM folds")
    store = open_store(path)
    found = Campaign(store, "spring").verify()
    store.close()
    assert "unit chunk 1: its event is missing" in " ".join(map(str, found.findings))


@pytest.mark.parametrize("change", [
    "DELETE FROM folds", "UPDATE folds SET content = '{}'", "UPDATE folds SET event = 2",
    "UPDATE folds SET content = replace(content, '\"wave\":2', '\"wave\":1')",
])  # fmt: skip
def test_a_fold_that_does_not_fit_is_made_anew(path, change, monkeypatch):
    store = open_store(path)
    before = Campaign(store, "spring").status()
    store.close()
    changed(path, change)
    # As another process finds it, which remembers nothing.
    monkeypatch.setattr("seqbatch.campaign.record.events._remembered", {})
    store = open_store(path)
    campaign = Campaign(store, "spring")
    assert campaign.status() == before
    assert campaign.assign(units(150, start=350)).assigned == 150
    with store.read("spring") as reader:
        assert reader.fold() == folded(situation(reader.events()))
    assert campaign.verify().sound
    store.close()


def test_campaigns_with_as_many_events_are_told_apart(store):
    campaigns = [small(store, name=name) for name in ("one", "two")]
    for campaign, count in zip(campaigns, (10, 20), strict=True):
        campaign.assign(units(count))
    now = [campaign.situation() for campaign in campaigns]
    assert [(each.name, each.assigned) for each in now] == [("one", 10), ("two", 20)]


def test_the_fold_is_what_the_events_say(store, monkeypatch):
    campaign = small(store, floor=0.02)
    table = campaign.assign(units(300)).table
    rows = pl.from_arrow(table).select("id", y=pl.lit(1.0))
    campaign.record(rows)
    campaign.record(rows[:3].with_columns(y=2.0))
    campaign.close()
    campaign.amend(reason="an idea", add=["new"], retire=["b"], sizes=[20, 30])
    campaign.assign(units(20, start=500))
    campaign.abort(reason="enough")
    with store.read("small") as reader:
        made = situation(reader.events())
        assert current(reader) == made
        monkeypatch.setattr("seqbatch.campaign.record.events._remembered", {})
        assert current(reader) == made
        assert Situation.of(json.loads(reader.fold().content)) == made
    assert (made.conflicts, made.aborted, made.retired) == (3, True, {1})


@pytest.mark.parametrize(("model", "policy"), [
    ("shared", {"kind": "SBPE"}), ("per-action", {"kind": "BPE"}),
    ("per-action", {"kind": "ThompsonSampling", "scale": 2.0}),
    *thorough(
        ("shared", {"kind": "SBUCB", "gamma": 1.0, "ridge": 0.5}),
        ("per-action", {"kind": "SupSBUCB"}),
    ),
])  # fmt: skip
def test_a_correction_teaches_as_if_it_had_been_right_from_the_start(tmp_path, policy, model):
    """Sums from which a wrong value was taken out agree with those of the right one."""
    actions = ["a", "b", "c"]
    if model == "shared":
        actions = [{"name": n, "features": {"price": float(i)}} for i, n in enumerate(actions)]
    states = []
    for wrong in (True, False):
        store = open_store(tmp_path / f"{wrong}.db")
        campaign = small(store, policy=policy, model=model, actions=actions, randomised=0.2)
        table = campaign.assign(units(300)).table
        right = pl.DataFrame({"id": table["id"].to_pylist(), "y": np.linspace(-1, 1, 300)})
        first = right.with_columns(y=pl.when(pl.int_range(300) < 40).then(-3.0).otherwise("y"))
        campaign.record(first if wrong else right)
        if wrong:
            # Wave 1 was decided without them, so that both runs go on alike.
            campaign.record(right, correct=True, reason="late")
        campaign.close()
        table = campaign.assign(units(300, start=1_000)).table
        again = right.with_columns(y=pl.when(pl.int_range(300) < 40).then(0.5).otherwise("y"))
        if wrong:
            campaign.record(right.with_columns(y=again["y"]), correct=True, reason="worse")
            campaign.record(right, correct=True, reason="as it was")
        campaign.record(pl.DataFrame({"id": table["id"].to_pylist(), "y": [0.25] * 300}))
        closed = campaign.close()
        assert closed.corrected == (40 if wrong else 0)
        assert campaign.verify().sound
        with store.read("small") as reader:
            states.append(reader.last_state().content.partition(b"\n")[2])
        store.close()
    left, right = (np.frombuffer(state, dtype=np.uint8) for state in states)
    assert len(left) == len(right)
    numbers = [np.frombuffer(state[: len(state) // 8 * 8], dtype="<f8") for state in states]
    finite = np.isfinite(numbers[0])
    assert numbers[0][finite] == pytest.approx(numbers[1][finite], rel=1e-9, abs=1e-9)


def test_a_correction_too_large_for_the_sums_is_learned_out(store):
    campaign = small(store)
    table = campaign.assign(units(300)).table
    rows = pl.DataFrame({"id": table["id"].to_pylist(), "y": np.linspace(1, 2, 300)})
    campaign.record(rows.with_columns(y=pl.when(pl.int_range(300) == 5).then(1e60).otherwise("y")))
    campaign.close()
    campaign.record(rows[5:6], correct=True, reason="a slip of the hand")
    table = campaign.assign(units(300, start=1_000)).table
    campaign.record(pl.DataFrame({"id": table["id"].to_pylist(), "y": [1.5] * 300}))
    campaign.close()
    last = campaign.assign(units(10, start=5_000)).table
    assert max(map(abs, last["score"].to_pylist())) < 10
    assert campaign.verify().sound


def test_a_store_made_elsewhere_agrees_to_rounding(path, monkeypatch):
    """Scores that another machine rounds otherwise are a note; others are damage."""
    from seqbatch.campaign.views import verify_checks

    decide = verify_checks.decide

    def rounded(factor):
        def other(*args):
            made = decide(*args)
            return type(made)(**{**vars(made), "scores": made.scores * factor})

        return other

    store = open_store(path)
    campaign = Campaign(store, "spring")
    monkeypatch.setattr(verify_checks, "decide", rounded(1 + 1e-15))
    found = campaign.verify()
    assert found.sound
    assert "within rounding (1e-09)" in found.notes[0]
    monkeypatch.setattr(verify_checks, "decide", rounded(1 + 1e-6))
    assert not campaign.verify().sound
    store.close()


def test_late_outcomes_of_many_waves_are_found_in_their_chunks(store):
    campaign = created(store, grid={"sizes": [40] * 6})
    held = []
    for wave in range(1, 6):
        parts = [campaign.assign(units(20, start=40 * wave + 20 * n)).table for n in (0, 1)]
        rows = pl.concat([outcomes(part, seed=wave) for part in parts])
        campaign.record(rows[:37])
        held.append(rows[37:])
        campaign.close()
    campaign.record(pl.concat(held))
    table = campaign.assign(units(40, start=900)).table
    campaign.record(outcomes(table))
    assert campaign.close().late == 15
    assert campaign.verify().sound
    with store.read("spring") as reader:
        extent = reader.extent_of(100)
        assert (extent.first, extent.wave) == (100, 3)


def test_a_copy_is_verified_where_it_lies(path, tmp_path):
    copy = tmp_path / "copy" / "c.db"
    copy.parent.mkdir()
    shutil.copyfile(path, copy)
    store = open_store(copy)
    assert Campaign(store, "spring").verify().sound
    store.close()


def test_a_store_made_under_other_versions_is_sound(tmp_path):
    """See tests/campaign/elsewhere.py: what was decided there is decided here, bit for bit."""
    found = tmp_path / "elsewhere.db"
    found.write_bytes(gzip.decompress(FIXTURE.read_bytes()))
    store = open_store(found)
    assert store.names() == ["sbpe", "sbucb"]
    for name in store.names():
        verified = Campaign(store, name).verify()
        assert verified.sound
        assert Campaign(store, name).status().condition == "finished"
        assert (verified.units, verified.states) == (102, 4)
    store.close()


def test_a_skipped_wave_teaches_nothing_now_or_later(store):
    """The way out of a wave whose data cannot be used; also amendments learn without it."""
    campaign = small(store, floor=0.05)
    for wave, level in ((1, 1.0), (2, 1e6), (3, 1.0)):
        table = campaign.assign(units(300, start=1_000 * wave)).table
        rows = pl.DataFrame({"id": table["id"].to_pylist(), "y": np.linspace(1, 2, 300) * level})
        campaign.record(rows[:290])
        closed = {"skip": True, "reason": "a wrong unit of measure"} if wave == 2 else {}
        campaign.close(**closed)
        if wave == 2:
            late = rows[290:]
    campaign.record(late)
    campaign.amend(reason="go on", sizes=[50, 50])
    last = campaign.assign(units(50, start=9_000)).table
    assert max(map(abs, last["score"].to_pylist())) < 100
    campaign.record(pl.DataFrame({"id": last["id"].to_pylist(), "y": [1.5] * 50}))
    campaign.close()
    assert max(map(abs, campaign.assign(units(50, start=9_500)).table["score"].to_pylist())) < 100
    assert campaign.verify().sound
    with refused("invalid-argument", field="reason"):
        campaign.close(skip=True)
