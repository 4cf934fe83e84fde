"""Looks, amendments and proposals from sums: those of the same campaign with its rows."""

import json
from dataclasses import asdict

import polars as pl
import pytest

from seqbatch.campaign.record.codec import agreement
from seqbatch.campaign.views import verify_checks
from seqbatch.storage import open_store
from tests.campaign.near_and_afar import Pair, differences
from tests.campaign.specs import about
from tests.campaign.warehouse.test_sums import state_of
from tests.campaign.warehouses import DuckDBShop, PostgresShop, customers
from tests.refusals import refused


@pytest.fixture
def stores(tmp_path):
    opened = [open_store(tmp_path / f"{name}.db") for name in ("afar", "near")]
    yield opened
    for each in opened:
        each.close()


@pytest.fixture(params=["duckdb", pytest.param("postgres", marks=pytest.mark.slow)])
def shop(request):
    if request.param == "duckdb":
        made = DuckDBShop()
    else:
        made = PostgresShop(request.getfixturevalue("postgres").get_uri())
    yield made
    made.close()


def plain(given):
    return json.loads(json.dumps(asdict(given)))


def require_alike_looks(pair):
    """Compare all looks: verdicts, boundaries and statistics."""
    looks = [one.findings().stopping.looks for one in (pair.afar, pair.near)]
    assert len(looks[0]) == pair.afar.situation().wave - 1
    assert list(differences(*([plain(each) for each in own] for own in looks))) == []


RULES = {
    "obrien-fleming-spending": {"futility": True},
    "pocock-classical": {},
}


@pytest.mark.parametrize("rule", RULES)
def test_looks_are_those_of_a_campaign_with_its_rows(stores, shop, tmp_path, rule):
    stopping = {"rule": rule, **RULES[rule]}
    eligible = {"eligible": {"call": "vip"}} if rule == "pocock-classical" else {}
    pair = Pair(
        stores, shop, tmp_path, sizes=(500, 400, 300), control="none", stopping=stopping, **eligible
    )
    seen = []
    for _ in range(3):
        pair.wave()
        if pair.afar.situation().condition == "open":
            with refused("look-due"):
                pair.assign()
            with refused("look-due"):
                pair.afar.amend(sizes=[300], reason="too early")
        seen.append(pair.sum_up()[-1].stopping)
        require_alike_looks(pair)
        one, other = (each.situation() for each in (pair.afar, pair.near))
        assert (one.stop, one.condition) == (other.stop, other.condition)
        if one.condition == "stopped":
            with refused("stopped"):
                pair.assign()
            pair.both("go_on", reason="to learn more")
    assert [look.wave for look in seen] == [1, 2, 3]
    assert any(look.stops for look in seen)
    pair.require_alike()
    assert pair.afar.verify().sound


def test_a_campaign_goes_on_without_a_look(stores, shop, tmp_path):
    """Its last look counts the waves before, as it would with its rows."""
    pair = Pair(stores, shop, tmp_path, control="none", stopping={"rule": "pocock-spending"})
    pair.wave()
    pair.both("go_on", reason="the sums are late")
    pair.wave()
    assert pair.sum_up()[-1].stopping.wave == 2
    assert [look.wave for look in pair.afar.findings().stopping.looks] == [2]


def test_a_changed_look_is_found(stores, shop, tmp_path, monkeypatch):
    pair = Pair(stores, shop, tmp_path, control="none", stopping={"rule": "pocock-spending"})
    pair.wave()
    pair.sum_up()
    monkeypatch.setattr(verify_checks, "look_again", lambda *_: None)
    assert {one.place for one in pair.afar.verify().findings} == {"stopping"}


LEARNED = {
    "numeric": {"age": {"missing": "median"}, "spend": {"clip": [0.05, 0.9]}},
    "boolean": {"vip": "level"},
    "categorical": {"kind": {"levels": ["a", "b", "c"], "least": 20}},
    "date": {"since": {"parts": ["weekday", "days"], "missing": "median"}},
}


def test_scales_are_learned_from_the_first_wave(stores, shop, tmp_path):
    pair = Pair(stores, shop, tmp_path, features=LEARNED)
    with refused("nothing-to-sum"):
        Pair(stores, shop, tmp_path, name="other").statement("scaling")
    pair.wave()
    own, other = (one.situation().learned.plain() for one in (pair.afar, pair.near))
    assert own["rare"] == other["rare"] == {"kind": ["c"]}
    assert list(differences(own, other)) == []
    pair.wave()
    pair.sum_up()
    pair.require_alike()
    assert pair.afar.verify().sound


def test_sums_of_the_first_wave_wait_for_its_scales(stores, shop, tmp_path):
    pair = Pair(stores, shop, tmp_path, features=LEARNED)
    shop.put("customers", customers(600, seed=1))
    shop.run(pair.assign())
    with refused("scaling-missing", match="age, spend, since, kind"):
        pair.statement("sums")
    text, path = pair.statement("scaling")
    result = shop.run(text)
    with refused("invalid-rows", problem="wrong-statement"):
        pair.afar.record_sums(result.with_columns(statement=pl.lit("x")), statement=path)
    with refused("invalid-rows", problem="no-such-column"):
        pair.afar.record_sums(result.drop("low0"), statement=path)
    made = pair.afar.record_sums(result, statement=path)
    assert (made.kind, made.waves) == ("scaling", (1,))
    assert pair.afar.record_sums(result, statement=path) == made


AMENDMENTS = {
    "sizes": {"sizes": [350, 150, 100]},
    "floor": {"floor": 0.1},
    "retire": {"retire": ["it's mail"]},
    "add": {"add": [{"name": "sms", "cost": 0.5}], "retire": ["call"]},
    "BPE": {"sizes": [350, 250], "policy": {"kind": "BPE", "split": "needed"}},
}


@pytest.mark.parametrize("case", AMENDMENTS)
def test_amendments_learn_again_from_sums(stores, shop, tmp_path, case):
    amended = {**AMENDMENTS[case]}
    spec = {"policy": amended.pop("policy")} if "policy" in amended else {}
    money = {"currency": "EUR", **about("visit", range=[-10, 10], unit="EUR", less_costs=True)}
    spec |= money if case == "add" else {}
    pair = Pair(stores, shop, tmp_path, sizes=(500, 300, 200), **spec)
    pair.wave()
    pair.sum_up()
    pair.both("amend", reason="the plan changed", **amended)
    assert agreement(*map(state_of, (pair.afar, pair.near))) < 1e-9
    while pair.afar.situation().condition == "open":
        pair.wave()
    assert agreement(*map(state_of, (pair.afar, pair.near))) < 1e-9
    pair.sum_up()
    pair.require_alike()
    assert pair.afar.verify().sound


@pytest.mark.parametrize(
    ("spec", "amended"),
    [
        ({}, {"metrics": {"visit": {"absent": 0}}}),
        ({"eligible": {"call": "vip"}}, {"retire": ["call"]}),
    ],
    ids=["metrics", "rules"],
)
def test_amendments_that_take_rows_are_refused(stores, shop, tmp_path, spec, amended):
    pair = Pair(stores, shop, tmp_path, **spec)
    with refused("rows-elsewhere"):
        pair.afar.amend(reason="the plan changed", **amended)


@pytest.mark.usefixtures("few_trials")
def test_proposed_sizes_are_those_of_a_campaign_with_its_rows(stores, shop, tmp_path):
    pair = Pair(stores, shop, tmp_path, grid={"sizes": [60, 100, 1_500], "adaptive": True})
    proposals = [plain(closed.proposal) for closed in pair.wave()]
    assert proposals[0]["sizes"] != [100, 1_500]
    assert list(differences(*proposals)) == []
    pair.both("replan", adopt=True)
    pair.wave()
    pair.wave()
    pair.sum_up()
    pair.require_alike()
    assert pair.afar.verify().sound
