"""Findings from sums: those of the same campaign with its rows, in DuckDB and in PostgreSQL."""

import json
import re

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.warehouse import findings_statement
from seqbatch.campaign.warehouse.statement import BLANK, fingerprint, marked
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.campaign.warehouses import ELSEWHERE, DuckDBShop, PostgresShop, customers, visits
from tests.refusals import refused

#: What sums do not have, and what the sums that close a wave round.
APART = {"lacking", "splits", "tree", "clipped", "expected", "allocation_p"}


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


class Pair:
    """The same campaign twice: in a database, and with its rows."""

    def __init__(self, stores, shop, folder, *, sizes=(600, 400), **changes):
        spec = {**ELSEWHERE, "grid": {"sizes": list(sizes)}, **changes}
        self.afar = Campaign.create(spec, store=stores[0])
        self.near = Campaign.create({**spec, "rows": "here"}, store=stores[1])
        self.shop, self.folder, self.told = shop, folder, []

    def statement(self, what):
        """Return a statement, and its file."""
        text = self.afar.sql(
            what=what, dialect=self.shop.dialect, assignments="afar_units", outcomes="visits"
        )
        path = self.folder / f"{what}-{self.afar.situation().sequence}.sql"
        path.write_text(text, encoding="utf-8")
        return text, path

    def wave(self):
        """Run a wave in both; one unit in ten has no outcome."""
        now = self.afar.situation()
        units = customers(now.sizes[now.wave - 1], seed=now.wave)
        self.shop.put("customers", units)
        self.shop.run(
            self.afar.sql(
                units="customers", assignments="afar_units", write=True, dialect=self.shop.dialect
            )
        )
        given = pl.from_arrow(self.near.assign(units).table)
        known = given.filter(~pl.col("id").str.ends_with("7"))
        self.told.append(visits(known["id"], known["action"], seed=now.wave))
        self.near.record(self.told[-1])
        self.near.close()
        self.shop.put("visits", pl.concat(self.told))
        self.pass_over("sums")

    def pass_over(self, what):
        """Run a statement, and record its result."""
        text, path = self.statement(what)
        return self.afar.record_sums(self.shop.run(text), statement=path)

    def sum_up(self):
        """Run every statement that findings need."""
        made = [self.pass_over("findings")]
        while not made[-1].complete:
            made.append(self.pass_over("findings"))
        return [one.kind for one in made]

    def require_alike(self):
        """Compare the findings of both."""
        both = [json.loads(json.dumps(one.findings().plain())) for one in (self.afar, self.near)]
        assert list(differences(*both)) == []


def differences(one, other, place=""):
    """Yield where two findings differ by more than 1e-9."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one.keys() | other.keys():
            if name not in APART:
                yield from differences(one.get(name), other.get(name), f"{place}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif isinstance(one, float) and isinstance(other, float):
        # The spread of true lifts is found by a search, which stops near it.
        near = 1e-6 if place.endswith("selected.spread") else 1e-9
        if one != pytest.approx(other, rel=near, abs=near):
            yield place, one, other
    elif one != other:
        yield place, one, other


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
    "no constant": {"features": {**ELSEWHERE["features"], "intercept": False}},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_findings_are_those_of_a_campaign_with_its_rows(stores, shop, tmp_path, case):
    pair = Pair(stores, shop, tmp_path, **CASES[case])
    pair.wave()
    with refused("sums-missing"):
        pair.afar.findings()
    pair.wave()
    steps = ["evidence", "returns", "scores"]
    some = case in ("missing", "no constant", "metrics")
    assert pair.sum_up() == [one for one in steps if some or one != "returns"]
    pair.require_alike()
    assert pair.afar.findings().lacking == ("splits", "tree", "clipped")
    assert pair.afar.verify().sound


@pytest.mark.slow
def test_postgres_gives_the_same_findings(stores, tmp_path, postgres):
    shop = PostgresShop(postgres.get_uri())
    pair = Pair(stores, shop, tmp_path)
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


def test_eligibility_takes_the_rows(stores):
    spec = {**ELSEWHERE, "eligible": {"call": "vip"}}
    campaign = Campaign.create(spec, store=stores[0])
    with refused("rows-elsewhere", match="eligibility"):
        campaign.findings()
