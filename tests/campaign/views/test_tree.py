"""The tree in findings: in words, in the units' own numbers, and honest about what it is worth."""

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.decision_tree import Condition
from seqbatch.campaign.views.tree import tree_sentences, tree_tables
from seqbatch.storage import open_store
from tests.campaign.specs import about

SPEC = {
    "draws": "blake2",
    "name": "spring", "seed": 3, "unit": "customer", "actions": ["none", "mail", "call"],
    "control": "none", "randomised": 0.3, "floor": 0.05,
    **about("sales", kind="amount"),
    "features": {
        "numeric": {"age": {"missing": "median"}},
        "categorical": {"zip": {"levels": ["urban", "rural", "coast"], "other": True}},
    },
    "grid": {"sizes": [900, 600, 900]}, "policy": {"kind": "SBPE"},
}  # fmt: skip


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def run(campaign, gain, *, waves=3):
    """Run waves; `gain` returns what an action brings, by age and zip."""
    for wave, size in enumerate(SPEC["grid"]["sizes"][:waves]):
        random = np.random.default_rng([2, wave])
        units = pl.DataFrame(
            {
                "customer": [f"{wave}-{number}" for number in range(size)],
                "age": random.integers(20, 60, size).astype(float),
                "zip": random.choice(["urban", "rural", "coast", "moon"], size),
            }
        )
        given = pl.from_arrow(campaign.assign(units).table).join(units, on="customer")
        means = [gain(row["action"], row["age"], row["zip"]) for row in given.to_dicts()]
        sales = np.maximum(5 + np.array(means) + random.normal(size=size), 0.01)
        campaign.record(given.select("customer").with_columns(sales=pl.Series(sales)))
        campaign.close()
    return campaign


def by_age_and_zip(action, age, where):
    """Mail is for the young, a call for the others on the coast, nothing for the rest."""
    if action == "mail":
        return 2.0 if age < 40 else -2.0
    return 0.0 if action == "none" else 1.0 if where == "coast" and age >= 40 else -1.0


def test_who_gets_what_and_that_it_is_worth_it(store):
    campaign = run(Campaign.create(SPEC, store=store), by_age_and_zip)
    found = campaign.findings(tree=True)
    tree = found.tree
    assert tree.words == (
        "mail to customers with age at most 39.5; call to customers with age above 44.5 and zip "
        "coast; none to the rest"
    )
    first, value, verdict = tree_sentences(found)
    assert first == f"In short, by all waves but the last: {tree.words}."
    assert tree.over_single.low > 0
    assert tree.single in ("mail", "none")
    assert "It is worth it: in the last wave it brought" in verdict or "brought" in value
    by_action = {one.action: one for one in tree.leaves}
    assert by_action["mail"].lift.low > 1
    assert by_action["mail"].adjusted_p < 0.001
    assert by_action["none"].lift.note == "The leaf gets control."
    assert not by_action["none"].lift.known
    leaves, sql = tree_tables(found)
    assert [row[0] for row in leaves.rows] == [one.who for one in tree.leaves]
    assert sql.rows[0] == ["CASE"]
    # Only what was asked for: by default there is no tree.
    assert campaign.findings().tree is None
    assert (
        "In a few words"
        in campaign.report(store.files[0].parent / "r.md", appendix=True).read_text()
    )


def test_the_best_single_action_is_as_good(store):
    campaign = run(Campaign.create(SPEC, store=store), lambda action, *_: float(action == "call"))
    [said] = tree_sentences(campaign.findings(tree=True))
    assert said == (
        "A rule by features is not worth it: by the waves before the last, call is the best action "
        "for every kind of customer."
    )
    assert tree_tables(campaign.findings(tree=True)) == []
    # Actions that do not differ: the tree follows noise, and the last wave does not confirm it.
    same = run(Campaign.create({**SPEC, "name": "same"}, store=store), lambda *_: 0.0)
    verdict = tree_sentences(same.findings(tree=True))[-1]
    assert verdict.startswith("A rule by features is not worth it")


def test_one_wave_cannot_judge_a_tree(store):
    campaign = run(Campaign.create(SPEC, store=store), by_age_and_zip, waves=1)
    found = campaign.findings(tree=True)
    assert found.tree.unknown
    [said] = tree_sentences(found)
    assert said.startswith("There is no tree.")
    assert found.plain()["tree"]["leaves"] == []


def test_rare_events_give_no_interval(store):
    rare = {**SPEC, **about("sale", kind="yes/no")}
    campaign = Campaign.create(rare, store=store)
    for wave, size in enumerate(SPEC["grid"]["sizes"]):
        random = np.random.default_rng([8, wave])
        ids = [f"{wave}-{number}" for number in range(size)]
        ages = random.integers(20, 60, size).astype(float)
        campaign.assign(pl.DataFrame({"customer": ids, "age": ages, "zip": ["urban"] * size}))
        sale = (random.random(size) < 0.01).astype(float)
        campaign.record(pl.DataFrame({"customer": ids, "sale": sale}))
        campaign.close()
    found = campaign.findings(tree=True)
    tree = found.tree
    assert not tree.over_control.known
    assert not any(one.lift.known for one in tree.leaves)
    assert "not worth it" in tree_sentences(found)[-1]


def test_a_masked_campaign_shows_codes_alone(store, tmp_path):
    key = tmp_path / "key.json"
    masked = {name: value for name, value in SPEC.items() if name != "control"}
    campaign = Campaign.create({**masked, "masked": True}, store=store, key=key)
    run(campaign, lambda action, age, _: 2.0 * (action == "B") * (age < 40))
    told = [*tree_sentences(campaign.findings(tree=True)), campaign.next_rule(kind="tree")]
    for kind in ("linear", "tree"):
        told += [
            campaign.next_rule(kind=kind, file_format=one) for one in ("json", "sql", "python")
        ]
    for name in ("mail", "call"):
        assert not any(name in text for text in told)
    assert any('"B"' in text for text in told)


def test_conditions_in_words():
    zips = Condition(column="zip", levels=("urban", "rural"), among=False)
    assert zips.words() == "zip neither urban nor rural"
    assert zips.words(holds=False) == "zip urban or rural"
    closed = Condition(column="zip", levels=("urban", "rural"), rest=("coast",))
    assert (closed.words(), closed.words(holds=False)) == ("zip urban or rural", "zip coast")
    gone = Condition(column="age", part="missing", levels=(False,))
    assert (gone.words(), gone.words(holds=False)) == ("age not missing", "age missing")
    vip = Condition(column="vip", levels=(False,))
    assert (vip.words(), vip.words(holds=False)) == ("vip no", "vip yes")
    days = Condition(column="since", part="days", at_most=120.0)
    assert days.words(holds=False) == "since days above 120"
