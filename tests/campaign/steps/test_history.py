"""Campaigns that start from the sums of an earlier one."""

import json
import sqlite3

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign, rehearse, validate
from seqbatch.campaign.decide.logged_waves import planned
from seqbatch.campaign.record import events
from seqbatch.campaign.record.earlier_campaign import fingerprint
from seqbatch.campaign.record.events import canonical
from seqbatch.campaign.spec.toml import value
from seqbatch.campaign.steps.earlier import Sources
from seqbatch.core import Statistics
from seqbatch.planning import plan
from seqbatch.storage import open_store
from tests.campaign.instances import without_triggers
from tests.refusals import refused

SPEC = {
    "name": "winter", "seed": 7, "actions": ["none", "mail", "call"],
    "grid": {"sizes": [150, 90]}, "currency": "EUR",
    "metrics": {"sales": {"kind": "amount", "unit": "EUR"}}, "objective": {"maximise": "sales"},
    "features": {
        "numeric": {"age": "learn", "income": {"scale": "learn", "clip": [0.01, 0.99]}},
        "categorical": {"zip": {"levels": ["a", "b", "rare"], "least": 5, "other": True}},
    },
}  # fmt: skip
EFFECTS = {"none": 0.0, "mail": 0.6, "call": -0.4, "visit": 0.2}


def people(name, wave, count):
    random = np.random.default_rng([len(name), wave])
    return pl.DataFrame({
        "unit": [f"{name}-{wave}-{place}" for place in range(count)],
        "age": random.normal(40, 10, count), "income": random.lognormal(10, 0.5, count),
        "zip": random.choice(["a", "b", "rare"], count, p=[0.5, 0.49, 0.01]),
    })  # fmt: skip


def run(campaign, *, wave, count, level=0.0):
    """Run a wave; return its answers."""
    units = people(campaign.name, wave, count)
    answers = pl.from_arrow(campaign.assign(units).table)
    effect = np.array([EFFECTS[name] for name in answers["action"]])
    slope = (units["age"].to_numpy() - 40) / 10
    noise = np.random.default_rng([wave, count]).standard_normal(count)
    sales = level + slope * effect + noise
    campaign.record(pl.DataFrame({"unit": units["unit"], "sales": sales}))
    campaign.close()
    return answers


@pytest.fixture(scope="module")
def winter(tmp_path_factory):
    """A store with a finished campaign."""
    store = open_store(tmp_path_factory.mktemp("winter") / "c.db")
    campaign = Campaign.create(SPEC, store=store)
    for wave, count in enumerate((150, 90), start=1):
        run(campaign, wave=wave, count=count)
    yield store
    store.close()


def later(store, name, **settings):
    return Campaign.create({**SPEC, "history": {"campaign": "winter"}, **settings, "name": name},
                           store=store)  # fmt: skip


def test_a_campaign_from_its_history(winter, tmp_path):
    spring = later(winter, "spring", control="none", randomised=0.1)
    now = spring.situation()
    assert now.policy["kind"] == "JointRidge"
    assert now.policy["first"] == "fixed"
    before = Campaign(winter, "winter").situation()
    assert now.encoder(wave=1).learned == before.learned
    # No wave is planned to be more precise than another one of its size.
    assert planned(now).shares == pytest.approx((150 / 240, 90 / 240))
    answers = run(spring, wave=1, count=150, level=30.0)
    # The first wave is no longer random: most units get what their age asks for.
    units = people("spring", 1, 150)
    asked = np.where(units["age"].to_numpy() > 40, "mail", "call")
    assert (answers["action"].to_numpy() == asked).mean() > 0.6
    shown = answers.filter(~pl.col("randomised"))
    assert shown.select(pl.max_horizontal("p(none)", "p(mail)", "p(call)")).min().item() > 0.9
    run(spring, wave=2, count=90, level=-10.0)
    for said in (spring.status().notes, spring.findings().notes):
        assert any("campaign winter, 240 units" in note for note in said)
    assert spring.verify().sound
    page = tmp_path / "protocol.json"
    spring.protocol(page)
    told = json.loads(page.read_text())["history"]
    assert told["hash"] == before.hash
    assert told["units"] == 240
    assert told["fingerprint"] in page.read_text()
    # Without the earlier campaign the record is complete.
    again = open_store(tmp_path / "moved.db")
    file = tmp_path / "sums.json"
    assert Campaign(winter, "winter").export(file, what="sums") == 240
    moved = later(again, "spring", history={"file": str(file)}, control="none", randomised=0.1)
    first = moved.situation()
    assert first.history == now.history
    assert moved.assign(people("spring", 1, 150)).table["action"].to_pylist() == (
        answers["action"].to_list()
    )
    assert moved.verify().sound
    again.close()


def test_sizes_are_planned_from_the_history(winter):
    asked = {"grid": {"plan": {"units": 300, "batches": 2, "max_batches": 2, "noise": 1.0}}}
    started = later(winter, "planned", **asked).situation()
    alone = Campaign.create({**SPEC, **asked, "name": "alone"}, store=winter).situation()
    made = plan(units=300, actions=3, history=started.made_policy().history, batches=2,
                max_batches=2)  # fmt: skip
    assert started.sizes == made.grid.sizes != alone.sizes
    assert started.policy["first"] == "fixed"
    with refused("invalid-spec", match="grid.plan: history comes from the spec itself"):
        later(winter, "other", grid={"plan": {"units": 300, "history": "winter"}})


def test_sums_are_those_of_the_units(winter, tmp_path):
    campaign = Campaign(winter, "winter")
    campaign.export(tmp_path / "sums.json", what="sums")
    found = json.loads((tmp_path / "sums.json").read_text())
    campaign.export(tmp_path / "units.parquet", what="units")
    units = pl.read_parquet(tmp_path / "units.parquet")
    now = campaign.situation()
    given = units.select("unit", "age", "income", pl.col("zip").cast(pl.Categorical))
    vectors = now.encoder().encode(given.to_arrow())
    names = [action.name for action in now.actions]
    places = np.array([names.index(name) for name in units["action"]])
    rewards = units["reward"].to_numpy()
    sums = Statistics.zero(3, vectors.shape[1]).add(vectors, rewards, places)
    for place, name in enumerate(names):
        own = found["actions"][name]
        assert own["units"] == sums.count[place]
        assert np.allclose(own["moment"], sums.moment[place])
        lower = np.tril_indices(vectors.shape[1])
        assert np.allclose(own["gram"], sums.gram[place][lower])
        second = (places == place) & (units["wave"].to_numpy() == 2)
        assert own["units by wave"][1] == second.sum()
        assert np.isclose(own["outcomes by wave"][1], rewards[second].sum())
        assert np.allclose(own["columns by wave"][1], vectors[second].sum(axis=0))
    assert found["columns"] == list(now.encoder().names)
    assert found["fingerprint"] == fingerprint(found)
    with refused("invalid-argument", field="out"):
        campaign.export(tmp_path / "sums.csv", what="sums")
    with refused("file-exists", field="out"):
        campaign.export(tmp_path / "sums.json", what="sums")


def test_a_new_action_is_tried_first(winter):
    summer = later(winter, "summer", actions=["mail", "none", "visit"])
    assert summer.situation().policy["first"] == "uniform"
    answers = run(summer, wave=1, count=150)
    assert answers.select(pl.col("p(visit)").unique()).to_series().to_list() == [
        pytest.approx(1 / 3)
    ]
    assert summer.verify().sound
    sampling = later(winter, "sampling", actions=["mail", "none", "visit"],
                     policy={"kind": "ThompsonSampling"})  # fmt: skip
    assert sampling.situation().policy["estimate"] == "pooled"
    share = run(sampling, wave=1, count=150)["p(visit)"].mean()
    assert 0.05 < share < 0.6
    sampling.amend(add=["call"], floor=0.01, reason="one more")
    run(sampling, wave=2, count=90)
    assert sampling.verify().sound


def test_exact_sums_and_a_stated_drift(winter):
    bounded = {
        **SPEC, "sums": "exact", "name": "old", "draws": "md5",
        "metrics": {"sales": {"kind": "amount", "unit": "EUR", "range": [-100, 100]}},
        "features": {
            "numeric": {"age": {"scale": "learn", "range": [0, 100]}},
            "categorical": {"zip": ["a", "b", "rare"]},
        },
    }  # fmt: skip
    old = Campaign.create(bounded, store=winter)
    run(old, wave=1, count=150)
    with refused("invalid-spec", field="history.campaign", match="is open"):
        Campaign.create({**bounded, "name": "new", "history": {"campaign": "old"}}, store=winter)
    old.abort(reason="enough")
    new = Campaign.create(
        {**bounded, "name": "new", "history": {"campaign": "old", "drift": 0.05}}, store=winter
    )
    # Scales are known, so that a database can sum up the first wave, too.
    assert "SELECT" in new.sql(what="sums", assignments="assignments", outcomes="outcomes")
    run(new, wave=1, count=150)
    assert any("declared drift, 0.05" in note for note in new.status().notes)
    assert new.verify().sound


def test_a_changed_history_is_found(tmp_path, winter):
    path = tmp_path / "c.db"
    store = open_store(path)
    Campaign(winter, "winter").export(tmp_path / "sums.json", what="sums")
    spring = later(store, "spring", history={"file": str(tmp_path / "sums.json")})
    run(spring, wave=1, count=150)
    assert spring.verify().sound
    store.close()
    raw = sqlite3.connect(path)
    [(before,)] = raw.execute("SELECT payload FROM events WHERE sequence = 1").fetchall()
    payload = json.loads(before)
    payload["history"]["actions"]["mail"]["moment"][1] += 0.5
    with without_triggers(raw):
        raw.execute("UPDATE events SET payload = ? WHERE sequence = 1", (canonical(payload),))
    raw.commit()
    raw.close()
    store = open_store(path)
    found = Campaign(store, "spring").verify()
    places = {(each.event, each.place) for each in found.findings}
    assert (1, "hash") in places
    # The estimates no longer follow from it.
    assert any(place.startswith("state") for _, place in places), found.findings
    events._remembered.clear()
    with refused("damaged"):
        Campaign(store, "spring").close()
    store.close()


def wrong(**settings):
    return {**SPEC, "name": "x", "history": {"campaign": "winter"}, **settings}


@pytest.mark.parametrize(("settings", "named"), [
    ({"features": {**SPEC["features"], "numeric": {"age": "raw"}}},
     ["features.numeric.age.scale", "income"]),
    ({"features": {**SPEC["features"], "categorical": {"zip": ["b", "a"]}}},
     ["features.categorical.zip.levels", "features.categorical.zip.least"]),
    ({"features": {**SPEC["features"], "boolean": {"member": "refuse"}}}, ["member"]),
    ({"features": {**SPEC["features"], "interactions": [["age", "zip"]]}}, ["interactions"]),
    ({"objective": {"minimise": "sales"}}, ["minimised"]),
    ({"metrics": {"sales": {"kind": "amount", "unit": "USD"}}, "currency": "USD"}, ["sales.unit"]),
    ({"actions": [{"name": "mail", "cost": 0.5}, "none"],
      "objective": {"maximise": "sales", "less_costs": True}}, ["less_costs", "action mail"]),
    ({"actions": ["post", "phone"]}, ["none, mail, call"]),
], ids=str)  # fmt: skip
def test_another_encoding_is_refused(winter, settings, named):
    with refused("invalid-spec", field="history.campaign") as caught:
        Campaign.create(wrong(**settings), store=winter)
    assert all(name in str(caught.value) for name in named)


def test_what_has_no_history(winter, tmp_path):
    for settings, field in [
        ({"masked": True}, "history"),
        ({"policy": {"kind": "Lookahead"}}, "history"),
        ({"policy": {"kind": "SBPE", "estimate": "own"}}, "policy.history"),
        ({"history": {"campaign": "winter", "file": "x"}}, "history.campaign"),
        ({"history": {}}, "history.campaign"),
        ({"policy": {"kind": "JointRidge", "history": {}}}, "policy.history"),
        ({"history": {"campaign": "autumn"}}, "history.campaign"),
        ({"history": {"campaign": "winter", "drift": -1}}, "history.drift.constrained-float"),
        ({"history": {"file": "nothing.json"}}, "history.file"),
        ({"objective": {"maximise": "sales", "purpose": {"after": 1000}}}, "history"),
    ]:
        with refused("invalid-spec") as caught:
            Campaign.create(wrong(**settings), store=winter)
        assert caught.value.field.startswith(field.partition(".constrained")[0]), settings
    file = tmp_path / "sums.json"
    Campaign(winter, "winter").export(file, what="sums")
    document = json.loads(file.read_text())
    for change in (
        {"probabilities": "unknown"}, {"version": 2}, {"kind": "x"}, {"noise": 3.0},
        {"actions": {}},
    ):  # fmt: skip
        file.write_text(json.dumps({**document, **change}))
        with refused("invalid-spec", field="history.file"):
            Campaign.create(wrong(history={"file": str(file)}), store=winter)
    mask = Campaign.create({**SPEC, "name": "mask", "masked": True}, store=winter,
                           key=tmp_path / "key")  # fmt: skip
    mask.abort(reason="enough")
    with refused("invalid-spec", field="history.campaign", match="masked"):
        Campaign.create(wrong(history={"campaign": "mask"}), store=winter)


def test_validation_finds_the_history(winter, tmp_path):
    scratch = open_store(tmp_path / "scratch.db")
    found = validate(wrong(), people("x", 1, 150), scratch=scratch, existing=winter)
    assert found.sound
    assert found.prepared.now.history["campaign"] == "winter"
    scratch.close()


def test_without_features_and_to_choose(winter):
    plain = {**SPEC, "features": {}, "name": "bare"}
    old = Campaign.create(plain, store=winter)
    run(old, wave=1, count=150)
    old.abort(reason="enough")
    for name, purpose in (("earning", "earn"), ("choosing", "choose")):
        made = Campaign.create(
            {**plain, "name": name, "history": {"campaign": "bare"},
             "objective": {"maximise": "sales", "purpose": purpose}}, store=winter,
        )  # fmt: skip
        policy = made.situation().policy
        assert (policy["kind"], policy["waves"], policy["objective"]) == (
            "ThompsonSampling", "own level", purpose,
        )  # fmt: skip
        run(made, wave=1, count=150)
        assert made.verify().sound


@pytest.mark.parametrize("interim", ["open", "committee"])
def test_a_spec_with_a_history_is_rehearsed(winter, tmp_path, interim):
    """With the earlier campaign in a store, or a file of its sums beside the spec."""
    spec = {**SPEC, "name": "spring", "randomised": 0.1, "interim": interim, "control": "none"}
    truth = {"none": 0, "mail": 0.6, "call": 0, "spread": {"sd": 1}}
    asked = {"units": people("spring", 1, 240), "truths": [truth], "campaigns": 1}
    stored = {**spec, "history": {"campaign": "winter"}}
    with refused("invalid-spec", field="history.campaign"):
        rehearse(stored, **asked)
    made = rehearse(stored, sources=Sources(lambda: winter), **asked)
    Campaign(winter, "winter").export(tmp_path / "sums.json", what="sums")
    file = tmp_path / "spec.toml"
    declared = {**spec, "history": {"file": "sums.json"}}
    file.write_text("\n".join(f"{name} = {value(own)}" for name, own in declared.items()))
    assert rehearse(file, **asked).data["truths"] == made.data["truths"]
    assert made.data["truths"] != rehearse(spec, **asked).data["truths"]
