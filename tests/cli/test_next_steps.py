"""Every command ends with the next one, and pasting them one after the other runs a campaign."""

import json
import shlex
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from seqbatch.cli.app import app
from seqbatch.cli.next_step import command
from tests.campaign.instances import outcomes, units
from tests.cli.test_campaign import SPEC


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEQBATCH_STORE", raising=False)
    Path("my spec.toml").write_text(SPEC, encoding="utf-8")
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
            # No file has outcomes yet: the name is one to be filled in.
            assert shlex.split(line)[4] == "outcomes.csv"
            wave = seen.count("record")
            name = "assignments.csv" if wave == 1 else f"assignments-{wave}.csv"
            outcomes(pl.read_csv(name, infer_schema=False).to_arrow()).write_csv("seen it.csv")
            line = line.replace("outcomes.csv", "'seen it.csv'")
    assert seen == ["create", *["assign", "record", "close"] * 2, "report"]
    assert line == "seqbatch campaign report spring --out spring.html --store 'my store.db'"
    run(line)
    assert Path("spring.html").exists()


def test_status_names_files_that_are_there():
    run("seqbatch campaign create 'my spec.toml'")
    assign = pasted(run("seqbatch campaign status spring"))
    said = "seqbatch campaign assign spring 'every body.csv' --draw --out assignments.csv"
    assert assign == said
    assert pasted(run(assign)) == "seqbatch campaign record spring outcomes.csv"
    table = pl.read_csv("assignments.csv", infer_schema=False).to_arrow()
    outcomes(table).write_csv("came back.csv")
    record = pasted(run("seqbatch campaign status spring"))
    assert record == "seqbatch campaign record spring 'came back.csv'"
    assert json.loads(run(f"{record} --json").stdout)["next"] == "seqbatch campaign close spring"
    # What comes next is a matter of the present.
    assert "Next:" not in run("seqbatch campaign status spring --at-event 2").stdout
    assert json.loads(run("seqbatch campaign status spring --json").stdout)["next"]


def test_json_has_it_too():
    created = json.loads(run("seqbatch campaign create 'my spec.toml' --json").stdout)
    assigned = json.loads(run(f"{created['next']} --json").stdout)
    assert assigned["next"] == "seqbatch campaign record spring outcomes.csv"
    init = json.loads(run("seqbatch campaign init 'every body.csv' --out new.toml --json").stdout)
    assert init["next"] == "seqbatch campaign validate new.toml 'every body.csv'"


def test_calendar_waves_are_not_drawn():
    text = SPEC.replace("sizes = [60, 40]", "calendar = true\nwaves = 2\nunits = 100")
    Path("my spec.toml").write_text(text, encoding="utf-8")
    line = pasted(run("seqbatch campaign create 'my spec.toml'"))
    assert line == "seqbatch campaign assign spring 'every body.csv' --out assignments.csv"
    assert pasted(run(line)) == "seqbatch campaign record spring outcomes.csv"


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

    monkeypatch.setattr(Path, "iterdir", unreadable)
    shown = run("seqbatch campaign status spring").stdout
    assert "Next:" not in shown


def test_of_several_files_the_numbered_one_or_the_largest_is_named():
    assert "'every body.csv'" in pasted(run("seqbatch campaign create 'my spec.toml'"))
    units(20).write_csv("zz.csv")
    assert "'every body.csv'" in pasted(run("seqbatch campaign status spring"))
    units(20).write_csv("units-1.csv")
    units(20).write_csv("units-11.csv")
    assert " units-1.csv " in pasted(run("seqbatch campaign status spring"))
    Path("broken.csv").write_bytes(b"\xff\xfe\x00")
    assert " units-1.csv " in pasted(run("seqbatch campaign status spring"))
