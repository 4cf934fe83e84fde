"""The rule as SQL, and waves closed by sums, at a terminal."""

import json
import os
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from seqbatch.campaign import Campaign
from seqbatch.cli.app import app
from seqbatch.storage import open_store
from tests.campaign.warehouses import ELSEWHERE, DuckDBShop, customers, visits


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("campaigns.db")
    Campaign.create(ELSEWHERE, store=store)
    store.close()
    return tmp_path


def run(*words, code=0):
    result = CliRunner().invoke(app, ["campaign", *words])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.usefixtures("folder")
def test_a_wave_runs_in_a_database():
    tables = ("--units", "units", "--assignments", "roster")
    begun = "campaign sql afar --units YOUR_TABLE --assignments YOUR_ASSIGNMENTS --write"
    assert begun in run("status", "afar").output
    assert "the table of assignments" in run("sql", "afar", "--units", "units", code=2).output
    shop, units = DuckDBShop(), customers(700, seed=1)
    shop.put("units", units)
    script = run("sql", "afar", *tables, "--write").stdout
    assert [shop.run(script).item(), shop.run(script).item()] == [600, 600]
    found = shop.run("SELECT * FROM roster")
    shop.put("outcomes", visits(found["id"], found["action"], seed=1))
    words = ("--what", "sums", "--assignments", "roster", "--outcomes", "outcomes")
    words += ("--out", "sums.sql")
    assert run("sql", "afar", *words).stdout == "sums.sql\n"
    assert "must be a new file" in run("sql", "afar", *words, code=2).output
    shop.run(Path("sums.sql").read_text()).write_parquet("sums.parquet")
    shown = run("record-sums", "afar", "sums.parquet", "--statement", "sums.sql").stdout
    assert "Wave 1 closed (event 2)" in shown
    assert "Its rows are kept elsewhere" in shown
    said = json.loads(run("verify", "afar", "--json").stdout)
    assert not said["findings"]
    assert "wave 1 are kept elsewhere" in said["notes"][0]
    shop.put("units", customers(1_200, seed=1)[:900])
    with pytest.raises(duckdb.Error, match="300 units of units have no action yet, fewer"):
        shop.run(run("sql", "afar", *tables, "--write").stdout)
    assert shop.run(run("sql", "afar", *tables, "--write", "--partial").stdout).item() == 300
    shop.close()


def test_control_characters_reach_no_terminal(folder):
    store = open_store(os.fspath(folder / "campaigns.db"))
    spec = {**ELSEWHERE, "name": "odd", "actions": ["a", "b"]}
    spec["features"] = {"categorical": {"zip": ["x\x1b[2J", "y"]}}
    Campaign.create(spec, store=store)
    store.close()
    tables = ("--units", "units", "--assignments", "roster")
    said = run("sql", "odd", *tables, code=2).output
    assert "control characters" in said
    run("sql", "odd", *tables, "--out", "odd.sql")
