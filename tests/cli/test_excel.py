"""A campaign with workbooks in and out, as an analyst types it."""

import json
from pathlib import Path

import pytest
import python_calamine as calamine
from typer.testing import CliRunner

from seqbatch.cli.app import app
from tests.campaign.files.workbooks import write_workbook

READING = ["--skip-rows", "2", "--dedupe", "newest-by", "changed"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [["Kunden", None], [], ["Kunde", "Name", "Mail", "Umsatz", "Ort", "changed"]]
    for n in [*range(60), 3, 3, 7]:
        city = ["Köln", "Bonn"][n % 2]
        rows.append([(n, "0000"), f"Nr {n}", f"{n}@x.de", 1.5 * (n % 9), city, len(rows)])
    write_workbook("units.xlsx", rows, sheet="Kunden", before=["Info"])


def run(*words, code=0):
    result = CliRunner().invoke(app, ["campaign", *words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def cells(path):
    return calamine.CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()


def test_from_a_workbook_to_lists_and_back():
    first = run("init", "units.xlsx", code=2).stderr
    assert "To skip what is above the header: --skip-rows 2." in first
    again = " ".join(run("init", "units.xlsx", "--skip-rows", "2", code=2).stderr.split())
    assert "To keep one row of each unit: --dedupe last (or first, or newest-by COLUMN)." in again
    spec = ("--name", "s", "--actions", "none,mail it", "--maximise", "visits", "--kind", "count")
    made = json.loads(run("init", "units.xlsx", *READING, *spec, "--waves", "2", "--json").stdout)
    assert made["unit"] == ["Kunde"]
    assert sum(made["sizes"]) == 60
    assert "3 rows of 2 units (Kunde) were repeats" in made["read_as"]
    assert made["next"].endswith("--skip-rows 2 --dedupe 'newest-by changed'")
    assert "60 units can be assigned" in run("validate", "spec.toml", "units.xlsx", *READING).stdout
    run("create", "spec.toml")
    lists = ["--with", "Mail, Name", "--split-by", "action", "--out", "list.xlsx"]
    shown = run("assign", "s", "units.xlsx", *READING, "--draw", *lists)
    assert "written to list-none.xlsx, list-mail-it.xlsx." in " ".join(shown.stdout.split())
    assert "was read from sheet 'Kunden', not 'Info'" in " ".join(shown.stderr.split())
    assert "--force" in run("assign", "s", "units.xlsx", *READING, "--draw", *lists, code=2).stderr
    said = run("assign", "s", "units.xlsx", *READING, "--draw", *lists, "--force", "--json").stdout
    assert json.loads(said)["out"] == ["list-none.xlsx", "list-mail-it.xlsx"]
    for name in ("none", "mail-it"):
        header, *rows = cells(f"list-{name}.xlsx")
        assert header[:4] == ["Kunde", "Mail", "Name", "action"]
        # The lists come back with a column of outcomes.
        write_workbook(f"back-{name}.xlsx", [[*header, "visits"], *([*row, 1] for row in rows)])
        found = json.loads(run("record", "s", f"back-{name}.xlsx", "--json").stdout)
        assert found["accepted"] == len(rows)
    assert "Wave 1 closed" in run("close", "s").stdout
    run("export", "s", "--out", "all.xlsx")
    header, *rows = cells("all.xlsx")
    assert header[0] == "Kunde"
    assert len(rows) == made["sizes"][0]
    assert all(isinstance(row[0], str) and len(row[0]) == 4 for row in rows)
    assert run("verify", "s").stdout.endswith("Verified: no discrepancies.\n")


@pytest.mark.parametrize(("words", "said"), [
    (("--dedupe", "best"), "--dedupe must be first, last, or newest-by"),
    (("--dedupe", "newest-by"), "--dedupe must be first, last, or newest-by"),
    (("--sheet", "Kunde"), "the workbook has no sheet 'Kunde'; it has 'Info', 'Kunden'"),
    (("--skip-rows", "5000"), "--skip-rows must be at most 1,000"),
    (("--format", "ods"), "--format must be one of"),
])  # fmt: skip
def test_wrong_options_are_named(words, said):
    assert said in " ".join(run("init", "units.xlsx", *words, code=2).stderr.split())
    assert not Path("spec.toml").exists()
