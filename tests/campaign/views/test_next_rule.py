"""The rule to run next, exported: program, statement and encoder agree on every unit."""

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import sqlglot

from seqbatch.campaign import Campaign
from seqbatch.campaign.decide import rule_program
from seqbatch.campaign.decide.decision_tree import Neat, dividers, own_tree
from seqbatch.campaign.decide.logged_waves import logged
from seqbatch.campaign.files.column_values import Problems
from seqbatch.campaign.record.events import current
from seqbatch.campaign.views.findings_estimates import asked
from seqbatch.campaign.views.tree import exported_rule, fit_tree, fitted
from seqbatch.campaign.warehouse.dialects import DIALECTS, dialect_of
from seqbatch.campaign.warehouse.next_rule import case_of
from seqbatch.inference import Rows
from seqbatch.inference.decision_tree import Branch, DecisionTree, Leaf, bins_of
from seqbatch.storage import open_store
from tests.campaign.instances import created, units
from tests.campaign.warehouse.test_eligibility import FALLBACK, SOME, people
from tests.campaign.warehouses import SPEC, customers, in_duckdb
from tests.refusals import refused

SIZES = [500, 700, 100]
CASES = {
    "everybody may get all": {},
    "some may not": SOME,
    "a fallback": FALLBACK,
    "less is better": {**SOME, "objective": {"minimise": "visit"}},
}


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def outcomes(table, seed):
    """Return outcomes for which the best action depends on age, zip, vip and a date."""
    random = np.random.default_rng(seed)
    age, zips = table["age"].fill_nan(None).fill_null(40).to_numpy(), table["zip"].to_list()
    actions, may = table["action"].to_numpy(), table["since"].dt.month().fill_null(1).to_numpy()
    mail = np.where(age < 42, 0.8, -0.6)
    call = np.where(np.array([z == "urban" for z in zips]), 1.0, -0.3) + 0.05 * (may - 6)
    y = np.where(actions == "call", call, np.where(actions == "it's mail", mail, 0.0))
    return table.select("id").with_columns(visit=pl.Series(y + random.normal(0, 0.5, len(y))))


def two_waves(store, make, **changes):
    """Return a campaign with two closed waves."""
    campaign = Campaign.create({**SPEC, "grid": {"sizes": SIZES}, **changes}, store=store)
    for wave, size in enumerate(SIZES[:2]):
        given = make(size, seed=wave)
        answer = pl.from_arrow(campaign.assign(given).table).select("id", "action")
        campaign.record(outcomes(given.join(answer, on="id"), wave))
        campaign.close()
    return campaign


def asking(campaign):
    """Return the summaries behind a campaign's rules, its tree, and the bins of the tree."""
    with campaign.store.read(campaign.name) as reader:
        now = current(reader)
        data = logged(reader, now)
        made = asked(data, reader.events(), 0.95)
        tree = fit_tree(made)
        known = [one.feature for one in dividers(now.encoder(), data.columns)]
        cuts = Neat(data.columns)
        return made, tree, (bins_of(data.each_wave[0], known, cuts), cuts)


def prepared(encoder, file):
    """Return units as a campaign stores them."""
    [batch] = file.to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks().to_batches()
    _, given = encoder.prepared(batch, 0, Problems())
    for one in encoder.beside:
        given = given.append_column(one.name, one.read(batch.column(one.name))[0])
    return given


def by_encoder(campaign, kind, file):
    """Return what the campaign's own encoder and rules say about each unit."""
    made, tree, _ = asking(campaign)
    now, data = made.data.now, made.data
    given = prepared(now.encoder(), file)
    x = data.columns.standardised(now.encoder().encode(given))
    names = np.array(made.names)
    mask = np.ones((len(x), len(names)), dtype=bool)
    if now.encoder().eligibility is not None:
        mask = now.encoder().eligibility.mask(given)
    if kind == "linear":
        actions = fitted(made, made.summaries).actions(x, mask)
    else:
        p = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        rows = Rows(x, np.zeros(len(x), dtype=np.int64), p, np.zeros(len(x)), eligible=mask)
        actions = tree.tree.actions(rows)
    return np.where(mask.any(axis=1), names[actions], None).tolist()


def by_program(campaign, kind, file, folder):
    """Return what the exported program says."""
    program, sheet = folder / "rule.py", folder / "units.csv"
    program.write_text(campaign.next_rule(kind=kind, file_format="python"), encoding="utf-8")
    file.write_csv(sheet)
    told = subprocess.run(
        [sys.executable, "-I", program, sheet], capture_output=True, text=True, check=True,
        encoding="utf-8",
    )  # fmt: skip
    found = list(csv.DictReader(io.StringIO(told.stdout)))
    assert [row["id"] for row in found] == file["id"].to_list()
    return [row["action"] or None for row in found]


def by_statement(campaign, kind, file):
    """Return what the exported statement says, in DuckDB."""
    statement = campaign.next_rule(kind=kind, file_format="sql", units="people")
    found = in_duckdb(statement, people=file)
    return file.select("id").join(found, on="id", maintain_order="left")["action"].to_list()


@pytest.mark.parametrize("name", CASES)
def test_all_evaluators_give_the_same_actions(store, tmp_path, name):
    make = people if CASES[name].get("eligible") else customers
    campaign = two_waves(store, make, **CASES[name])
    others = make(400, seed=9)
    for kind in ("linear", "tree"):
        own = by_encoder(campaign, kind, others)
        assert len(set(own) - {None}) > 1
        assert by_program(campaign, kind, others, tmp_path) == own
        assert by_statement(campaign, kind, others) == own


def test_every_condition_means_the_same_everywhere(store):
    """Each way to divide the units by each feature: in the model's columns, in Python, in SQL."""
    campaign = two_waves(store, customers)
    made, _, (bins, cuts) = asking(campaign)
    encoder, columns = campaign.situation().encoder(), made.data.columns
    known = dividers(encoder, columns)
    assert {(one.part.name, one.of) for one in known} == {
        ("age", ""), ("age", "missing"), ("spend", ""), ("vip", ""), ("vip", "missing"),
        ("new", ""), ("zip", ""), ("kind", ""), ("since", "month"), ("since", "days"),
        ("since", "missing"), ("since", "weekday"), ("born", "days"),
    }  # fmt: skip
    file = customers(150, seed=21)
    x = columns.standardised(encoder.encode(prepared(encoder, file)))
    file.write_csv(sheet := io.StringIO())
    rows = list(csv.DictReader(io.StringIO(sheet.getvalue())))
    random = np.random.default_rng(3)
    leaves = Leaf(0, (0, 1), 1), Leaf(1, (1, 0), 1)
    for one in bins:
        for mask in one.masks[random.permutation(len(one.masks))[:3]]:
            branch = Branch(one, mask, *leaves)
            own = own_tree(DecisionTree(branch, leaves[0]), known, cuts, ["first", "second"])
            wanted = np.where(branch.holds(x), "first", "second").tolist()
            rule = replace(exported_rule(made, own), actions=("first", "second"))
            plain = json.loads(json.dumps(rule.plain()))
            assert [rule_program.action_of(plain, row) for row in rows] == wanted, own
            case = " ".join(case_of(rule, dialect_of("duckdb")))
            found = in_duckdb(f"SELECT id, {case} AS action FROM people", people=file)
            joined = file.select("id").join(found, on="id", maintain_order="left")
            assert joined["action"].to_list() == wanted, own


@pytest.mark.parametrize("name", ["some may not", "a fallback"])
def test_no_unit_gets_an_action_that_it_may_not_get(store, tmp_path, name):
    campaign = two_waves(store, people, **CASES[name])
    others = people(400, seed=11)
    encoder = campaign.situation().encoder()
    mask = encoder.eligibility.mask(prepared(encoder, others))
    names = list(encoder.eligibility.names)
    for kind in ("linear", "tree"):
        for place, action in enumerate(by_program(campaign, kind, others, tmp_path)):
            assert action is None or mask[place, names.index(action)]
            assert (action is None) == (not mask[place].any())


def test_a_retired_action_is_not_given(store):
    campaign = two_waves(store, customers)
    campaign.amend(reason="too dear", retire=["call"])
    for kind in ("linear", "tree"):
        made = json.loads(campaign.next_rule(kind=kind))
        assert made["actions"] == ["none", "it's mail"]
        for form in ("json", "sql"):
            assert "call" not in campaign.next_rule(kind=kind, file_format=form)


def test_what_the_campaign_refuses_gets_no_action(store, tmp_path):
    campaign = two_waves(store, customers)
    good = customers(4, seed=3)
    bad = pl.concat([
        good[:1].with_columns(kind=pl.lit("d")),
        good[1:2].with_columns(spend=pl.lit(None, dtype=pl.Float64)),
        good[2:3].with_columns(born=pl.lit(None, dtype=pl.String)),
        good[3:],
    ])  # fmt: skip
    assert [one is None for one in by_program(campaign, "linear", bad, tmp_path)] == [
        True, True, True, False,
    ]  # fmt: skip
    assert [one is None for one in by_statement(campaign, "linear", bad)] == [
        True, True, True, False,
    ]  # fmt: skip


def test_texts_count_as_they_are(store, tmp_path):
    """Spaces and words for nothing are no other spelling of a level, as in the campaign."""
    campaign = two_waves(store, customers)
    cells = ["urban", " urban", "urban ", "Urban", "NA", "none", " ", "", None]
    file = pl.concat([customers(1, seed=3).with_columns(id=pl.lit(str(place)), zip=pl.lit(cell))
                      for place, cell in enumerate(cells)])  # fmt: skip
    for kind in ("linear", "tree"):
        own = by_encoder(campaign, kind, file)
        assert by_program(campaign, kind, file, tmp_path) == own
        assert by_statement(campaign, kind, file) == own
    assert len(set(own)) > 1


@pytest.mark.parametrize("kind", ["linear", "tree"])
def test_every_dialect_can_read_its_statement(store, kind):
    campaign = two_waves(store, people, **SOME)
    for dialect in DIALECTS:
        text = campaign.next_rule(kind=kind, file_format="sql", dialect=dialect)
        assert sqlglot.parse_one(text, read=dialect)


def test_json_has_the_tree_in_the_units_own_terms(store):
    campaign = two_waves(store, customers)
    made = json.loads(campaign.next_rule(kind="tree"))
    found = campaign.findings(tree=True)
    assert made["tree"] == found.plain()["tree"]["rule"]
    assert set(made["columns"]) <= {"age", "zip", "since", "born", "vip", "new", "kind", "spend"}
    assert made["actions"] == ["none", "it's mail", "call"]


def test_hashed_categories_have_a_program_and_no_statement(store, tmp_path):
    campaign = created(store)
    for wave, size in enumerate((300, 200)):
        given = units(size, start=1_000 * wave)
        answer = pl.from_arrow(campaign.assign(given).table)
        y = np.where(answer["action"].to_numpy() == "call", given["age"].to_numpy() / 40 - 1, 0.0)
        campaign.record(answer.select("id").with_columns(visit=pl.Series(y)))
        campaign.close()
    others = units(200, start=9_000)
    assert by_program(campaign, "linear", others, tmp_path) == by_encoder(
        campaign, "linear", others
    )
    with refused("not-in-sql"):
        campaign.next_rule(file_format="sql")


def test_a_campaign_without_closed_waves_has_no_rule(store):
    campaign = Campaign.create(SPEC, store=store)
    with refused("no-rule"):
        campaign.next_rule()
    with refused("no-rule"):
        campaign.next_rule(kind="tree")
