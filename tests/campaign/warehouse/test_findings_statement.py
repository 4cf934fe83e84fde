"""Findings from sums: those of the same campaign with its rows, in DuckDB and in PostgreSQL."""

import json
import re

import polars as pl
import pytest

from seqbatch.campaign.warehouse import findings_statement
from seqbatch.campaign.warehouse.statement import BLANK, fingerprint, marked
from seqbatch.storage import open_store
from tests.campaign.near_and_afar import Pair, differences
from tests.campaign.specs import about
from tests.campaign.warehouses import ELSEWHERE, DuckDBShop, PostgresShop
from tests.cases import thorough
from tests.refusals import refused


@pytest.fixture
def stores(tmp_path):
    opened = [open_store(tmp_path / f"{name}.db") for name in ("afar", "near")]
    yield opened
    for each in opened:
        each.close()


@pytest.fixture
def shop():
    made = DuckDBShop()
    yield made
    made.close()


CASES = {
    "missing": {},
    "rare": about("bought", kind="yes/no", absent=0),
    "costs": {
        "actions": ["none", {"name": "it's mail", "cost": 0.3}, {"name": "call", "cost": 1.7}],
        "currency": "EUR",
        "metrics": {"visit": {"unit": "EUR", "range": [-10, 10], "absent": 0.25, "cap": 1.5}},
        "objective": {"minimise": "visit", "less_costs": True},
    },
    "metrics": {
        "metrics": {
            "visit": {"range": [-10, 10], "guardrail": {"at_least_control_minus": 0.2}},
            "bonus": {"range": [0, 9], "cap": 2, "guardrail": {"at_most": 1}},
            "bought": {"kind": "yes/no", "absent": 0, "guardrail": {"at_most": 0.2}},
        },
        "objective": {"maximise": "visit"},
    },
    "usual 1": about("bought", kind="yes/no", absent=1),
    "no features": {"features": {}, "policy": {"kind": "ThompsonSampling", "samples": 100}},
    "segments": {"report": {"segments": ["vip", "zip"]}},
    "eligible": {
        "columns": {"kind": "text"},
        "eligible": {"call": "vip", "it's mail": "age > 30 and kind == 'a'"},
        "report": {"segments": ["zip"]},
        **about("visit", metrics={"bonus": {"range": [0, 9]}}, range=[-10, 10]),
    },
    "fallback": {
        "eligible": {"call": "vip", "it's mail": "age > 30"},
        "fallback": "none",
        **about("bought", kind="yes/no", absent=1),
    },
    "no constant": {"features": {**ELSEWHERE["features"], "intercept": False}},
}  # fmt: skip


FEW = ("metrics", "costs", "rare")


@pytest.mark.parametrize("case", [*FEW, *thorough(*(case for case in CASES if case not in FEW))])
def test_findings_are_those_of_a_campaign_with_its_rows(stores, shop, tmp_path, case):
    pair = Pair(stores, shop, tmp_path, **CASES[case])
    pair.wave()
    with refused("sums-missing"):
        pair.afar.findings()
    pair.wave()
    steps = ["evidence", "returns", "scores"]
    some = case in ("missing", "no constant", "metrics", "segments", "eligible")
    made = [one.kind for one in pair.sum_up()]
    assert made == [one for one in steps if some or one != "returns"]
    pair.require_alike()
    assert pair.afar.findings().lacking == ("splits", "tree", "clipped")
    assert pair.afar.verify().sound


@pytest.mark.slow
@pytest.mark.parametrize("case", ["missing", "segments", "eligible", "fallback"])
def test_postgres_gives_the_same_findings(stores, tmp_path, postgres, case):
    shop = PostgresShop(postgres.get_uri())
    pair = Pair(stores, shop, tmp_path, **CASES[case])
    pair.wave()
    pair.wave()
    pair.sum_up()
    pair.require_alike()
    shop.close()


@pytest.fixture
def rare(stores, shop, tmp_path):
    """A campaign elsewhere with one closed wave, whose evidence is summed up."""
    made = Pair(stores, shop, tmp_path, sizes=(600,), **CASES["rare"])
    made.wave()
    return made


def test_reports_rules_and_packages_need_no_rows(rare, tmp_path):
    rare.sum_up()
    rare.afar.report(tmp_path / "report.html")
    own, other = (json.loads(one.next_rule()) for one in (rare.afar, rare.near))
    assert list(differences(own, other)) == []
    rare.afar.package(tmp_path / "package.zip")
    assert rare.afar.next_step() == "report"


def test_a_result_is_recorded_once(rare):
    text, path = rare.statement("findings")
    result = rare.shop.run(text)
    first = rare.afar.record_sums(result, statement=path)
    assert rare.afar.record_sums(result, statement=path) == first
    assert len(rare.afar.events()) == 3


def test_a_result_may_come_in_parts(rare):
    """Workers run the statement on their part of the assignments; results are put together."""
    rare.shop.run("ALTER TABLE afar_units RENAME TO whole")
    for _ in range(2):
        text, path = rare.statement("findings")
        found = []
        for part in (2, 0, 1):
            rare.shop.put(
                "afar_units", rare.shop.run(f"SELECT * FROM whole WHERE hash(id) % 3 = {part}")
            )
            found.append(rare.shop.run(text))
        with refused("invalid-rows", problem="altered"):
            rare.afar.record_sums(pl.concat(found[:2]), statement=path)
        with refused("invalid-rows", problem="altered"):
            rare.afar.record_sums(pl.concat([*found, found[0]]), statement=path)
        rare.afar.record_sums(pl.concat(found), statement=path)
    rare.require_alike()


def test_results_of_other_rows_are_refused(rare):
    """Units and outcomes are those that closed the wave, and the statement is the campaign's."""
    text, path = rare.statement("findings")
    result = rare.shop.run(text)
    rare.shop.put("visits", pl.concat(rare.told)[:-1])
    with refused("invalid-rows", problem="altered"):
        rare.afar.record_sums(rare.shop.run(text), statement=path)
    with refused("invalid-rows", problem="altered"):
        rare.afar.record_sums(result[1:], statement=path)
    with refused("invalid-rows", problem="wrong-statement"):
        rare.afar.record_sums(result.with_columns(statement=pl.lit("x")), statement=path)
    with refused("invalid-rows", problem="not-a-number"):
        rare.afar.record_sums(result.with_columns(s0=pl.lit("x")), statement=path)
    path.write_text(text.replace("SUM(y * y)", "SUM(y)"), encoding="utf-8")
    with refused("invalid-argument", field="statement", match="was changed"):
        rare.afar.record_sums(result, statement=path)


def test_a_statement_from_another_machine_is_accepted(rare):
    """Its models differ by rounding; other models are refused."""
    rare.pass_over("findings")
    text, path = rare.statement("findings")
    number = re.search(r"[0-9]\.[0-9]{14,}e0", text)[0]

    def changed(to):
        other = text.replace(number, to).replace(marked(text), BLANK)
        other = other.replace(BLANK, fingerprint(other))
        path.write_text(other, encoding="utf-8")
        return rare.afar.record_sums(rare.shop.run(other), statement=path)

    with refused("invalid-argument", field="statement", match="was changed"):
        changed(f"1{number}")
    assert changed(f"{number[:-4]}e0").complete


def test_changed_sums_are_found(rare, monkeypatch):
    rare.sum_up()
    monkeypatch.setattr(findings_statement, "_alike", lambda *_: False)
    assert {one.place for one in rare.afar.verify().findings} == {"sums"}
