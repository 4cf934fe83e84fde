"""Every command ends with the next one, and pasting them one after the other runs a campaign."""

import json
import shlex
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from seqbatch.cli.app import app
from seqbatch.cli.messages import command
from seqbatch.storage.rows import View
from tests.campaign.instances import outcomes, units
from tests.cli.test_campaign import SPEC

#: The file of units, as init writes it into a spec.
HEADING = 'file = "every body.csv"\n'


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEQBATCH_STORE", raising=False)
    Path("my spec.toml").write_text(HEADING + SPEC, encoding="utf-8")
    units(150).write_csv("every body.csv")


def run(line, code=0):
    words = shlex.split(line)
    assert words[0] == "seqbatch"
    result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def pasted(result):
    """Return the command on the last line."""
    last = result.stdout.splitlines()[-1]
    assert last.startswith("Next: seqbatch campaign "), result.stdout
    return last.removeprefix("Next: ")


def test_a_campaign_by_pasting_what_is_said():
    """Also with a store of its own, and names that a shell would take apart."""
    line = "seqbatch campaign validate 'my spec.toml' 'every body.csv' --store 'my store.db'"
    seen = []
    while "report" not in line:
        line = pasted(run(line))
        seen.append(shlex.split(line)[2])
        assert line.endswith("--store 'my store.db'")
        if seen[-1] == "record":
            # Which file has the outcomes is not known: the name is one to be filled in.
            wave = seen.count("record")
            assert shlex.split(line)[4] == f"YOUR-OUTCOMES-{wave}.csv"
            name = "assignments.csv" if wave == 1 else f"assignments-{wave}.csv"
            outcomes(pl.read_csv(name, infer_schema=False).to_arrow()).write_csv("seen it.csv")
            line = line.replace(f"YOUR-OUTCOMES-{wave}.csv", "'seen it.csv'")
    assert seen == ["create", *["assign", "record", "close"] * 2, "report"]
    assert line == "seqbatch campaign report spring --out spring.html --store 'my store.db'"
    run(line)
    assert Path("spring.html").exists()


def test_status_names_files_that_are_there():
    run("seqbatch campaign create 'my spec.toml'")
    assign = pasted(run("seqbatch campaign status spring"))
    said = "seqbatch campaign assign spring 'every body.csv' --draw --out assignments.csv"
    assert assign == said
    assert pasted(run(assign)) == "seqbatch campaign record spring YOUR-OUTCOMES-1.csv"
    table = pl.read_csv("assignments.csv", infer_schema=False).to_arrow()
    outcomes(table).write_csv("came back.csv")
    record = "seqbatch campaign record spring 'came back.csv'"
    assert json.loads(run(f"{record} --json").stdout)["next"] == "seqbatch campaign close spring"
    # What comes next is a matter of the present.
    assert "Next:" not in run("seqbatch campaign status spring --at-event 2").stdout
    assert json.loads(run("seqbatch campaign status spring --json").stdout)["next"]


def test_the_options_of_reading_a_file_are_repeated():
    every = pl.concat([units(150), units(150).head(3)]).write_csv(separator=";")
    Path("messy.csv").write_text(f"All customers\n{every}", encoding="utf-8")
    reading = "--skip-rows 1 --dedupe last"
    spec = f"--name spring --actions none,mail --maximise visit --waves 2 {reading}"
    line = pasted(run(f"seqbatch campaign init messy.csv {spec}"))
    assert line == f"seqbatch campaign validate spec.toml messy.csv {reading}"
    line = pasted(run(pasted(run(line))))
    said = f"seqbatch campaign assign spring messy.csv {reading} --draw --out assignments.csv"
    assert line == said
    run(line)
    rows = pl.read_csv("assignments.csv", separator=";", infer_schema=False).to_arrow()
    outcomes(rows).write_csv("outcomes.csv")
    run("seqbatch campaign record spring outcomes.csv")
    line = pasted(run("seqbatch campaign close spring"))
    assert line == said.replace("assignments.csv", "assignments-2.csv")
    assert "75 units assigned" in run(line).stdout
    Path("spec.toml").write_text(
        Path("spec.toml").read_text(encoding="utf-8").replace("skip_rows", "skip"), encoding="utf-8"
    )
    assert "reading.skip" in run("seqbatch campaign validate spec.toml", code=2).stderr


def test_json_has_it_too():
    created = json.loads(run("seqbatch campaign create 'my spec.toml' --json").stdout)
    assigned = json.loads(run(f"{created['next']} --json").stdout)
    assert assigned["next"] == "seqbatch campaign record spring YOUR-OUTCOMES-1.csv"
    init = json.loads(run("seqbatch campaign init 'every body.csv' --out new.toml --json").stdout)
    assert init["next"] == "seqbatch campaign validate new.toml 'every body.csv'"


@pytest.mark.parametrize(("declared", "when"), [
    ("absent = 0", ""),
    ('absent = 0\nafter = "14 days"', ", but not earlier than 14 days after its assignment"),
])  # fmt: skip
def test_a_wave_can_be_closed_where_absent_units_count(declared, when):
    text = SPEC.replace("[metrics.visit]", f"[metrics.visit]\n{declared}")
    Path("my spec.toml").write_text(HEADING + text, encoding="utf-8")
    closing = (
        "Once you expect no more outcomes, close wave 1: a unit without one then counts as 0 visit"
        f"{when}."
    )
    run("seqbatch campaign create 'my spec.toml'")
    run("seqbatch campaign assign spring 'every body.csv' --draw --out a.csv")
    # Without any outcome it would be closed by force alone.
    assert "close" not in run("seqbatch campaign status spring").stdout
    given = outcomes(pl.read_csv("a.csv", infer_schema=False).to_arrow())
    given[:30].write_csv("some.csv")
    recorded = run("seqbatch campaign record spring some.csv")
    for told in (recorded, run("seqbatch campaign status spring")):
        assert pasted(told) == "seqbatch campaign record spring YOUR-OUTCOMES-1.csv"
        assert closing in " ".join(told.stdout.split())
        assert "Then: seqbatch campaign close spring" in told.stdout.splitlines()
    run("seqbatch campaign report spring --out r.md")
    assert closing in " ".join(Path("r.md").read_text(encoding="utf-8").split())
    assert "close wave" not in run("seqbatch campaign status spring --at-event 3").stdout
    given.write_csv("all.csv")
    assert "Once you expect no more" not in run("seqbatch campaign record spring all.csv").stdout


def test_calendar_waves_are_not_drawn():
    text = HEADING + SPEC.replace("sizes = [60, 40]", "calendar = true\nwaves = 2\nunits = 100")
    Path("my spec.toml").write_text(text, encoding="utf-8")
    line = pasted(run("seqbatch campaign create 'my spec.toml'"))
    assert line == "seqbatch campaign assign spring 'every body.csv' --out assignments.csv"
    assert pasted(run(line)) == "seqbatch campaign record spring YOUR-OUTCOMES-1.csv"


def test_a_store_of_the_environment_is_not_repeated(monkeypatch):
    monkeypatch.setenv("SEQBATCH_STORE", "elsewhere.db")
    assert "--store" not in pasted(run("seqbatch campaign create 'my spec.toml'"))
    assert command("close", "x", store="campaigns.db") == "seqbatch campaign close x"


def test_no_password_is_repeated():
    said = command("close", "x", store="postgresql://ann:hunter2@host:5432/db")
    assert said == "seqbatch campaign close x --store postgresql://ann:...@host:5432/db"


def test_what_is_done_is_done_although_the_next_step_is_not_known(monkeypatch):
    run("seqbatch campaign create 'my spec.toml'")

    def unreadable(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", unreadable)
    shown = run("seqbatch campaign status spring").stdout
    assert "Next:" not in shown


def test_no_file_is_named_that_the_campaign_was_not_told_of():
    """A larger one with the same columns may hold people who are not meant."""
    units(900).write_csv("alle_kunden_2024.csv")
    line = pasted(run("seqbatch campaign create 'my spec.toml'"))
    assert "'every body.csv'" in line
    assert pasted(run("seqbatch campaign status spring")) == line
    # The last list that had more units than the wave took is the next wave's, too.
    run("seqbatch campaign assign spring alle_kunden_2024.csv --draw --out a.csv")
    outcomes(pl.read_csv("a.csv", infer_schema=False).to_arrow()).write_csv("o.csv")
    run("seqbatch campaign record spring o.csv")
    assert " alle_kunden_2024.csv " in pasted(run("seqbatch campaign close spring"))
    Path("alle_kunden_2024.csv").write_text("other,columns\n1,2\n", encoding="utf-8")
    assert " YOUR-UNITS.csv " in pasted(run("seqbatch campaign status spring"))
    Path("alle_kunden_2024.csv").unlink()
    assert " YOUR-UNITS.csv " in pasted(run("seqbatch campaign status spring"))


def test_the_file_of_one_wave_is_not_proposed_for_the_next():
    units(60).write_csv("units-1.csv")
    run("seqbatch campaign create 'my spec.toml'")
    run("seqbatch campaign assign spring units-1.csv --out a.csv")
    outcomes(pl.read_csv("a.csv", infer_schema=False).to_arrow()).write_csv("o.csv")
    assert "Nothing is new" not in run("seqbatch campaign record spring o.csv").stdout
    assert "Nothing is new" not in run("seqbatch campaign record spring o.csv").stdout
    assert " YOUR-UNITS.csv " in pasted(run("seqbatch campaign close spring"))
    again = run("seqbatch campaign record spring o.csv")
    assert "Nothing is new: every row was recorded before, 60 of them in closed" in again.stdout


def test_a_spec_that_names_no_file():
    Path("my spec.toml").write_text(SPEC, encoding="utf-8")
    assert " YOUR-UNITS.csv " in pasted(run("seqbatch campaign create 'my spec.toml'"))


def test_the_next_step_reads_no_outcomes(monkeypatch):
    """What record says would otherwise take the longer the more was recorded in the wave."""
    run("seqbatch campaign create 'my spec.toml'")
    run("seqbatch campaign assign spring 'every body.csv' --draw --out a.csv")
    given = outcomes(pl.read_csv("a.csv", infer_schema=False).to_arrow())
    given[:30].write_csv("some.csv")
    given.write_csv("all.csv")
    monkeypatch.setattr(View, "outcome_chunks", None)
    assert " record " in pasted(run("seqbatch campaign record spring some.csv"))
    assert " record " in pasted(run("seqbatch campaign record spring some.csv"))
    assert " close " in pasted(run("seqbatch campaign record spring all.csv"))
