"""The commands of a committee: close and look with the key, unblind, verify, and what opens."""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from seqbatch.cli.app import app

SPEC = """\
name = "trial"
seed = 7123456789
unit = "patient"
actions = ["placebo", "dose"]
control = "placebo"
masked = true
interim = "committee"
[stopping]
rule = "obrien-fleming"
looks = "key holder"
[policy]
kind = "UniformRandom"
[metrics.score]
range = [0, 20]
[objective]
maximise = "score"
[grid]
sizes = [80, 80]
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("trial.toml").write_text(SPEC, encoding="utf-8")
    numbers = range(80)
    pl.DataFrame({"patient": [f"P{n}" for n in numbers]}).write_csv("patients.csv")
    scores = {"patient": [f"P{n}" for n in numbers], "score": [n * 53 % 21 for n in numbers]}
    pl.DataFrame(scores).write_csv("scores.csv")


def run(*words, code=0):
    result = CliRunner().invoke(app, ["campaign", *words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def test_a_committee_at_the_command_line():
    without = SPEC.replace('looks = "key holder"\n', "")
    Path("without.toml").write_text(without, encoding="utf-8")
    for words in (["validate"], ["create", "--key", "x.key"]):
        run(words[0], "without.toml", *words[1:], code=2)
    named = "Rule for early stopping: obrien-fleming-spending, with a total error of 5%."
    assert named in run("validate", "trial.toml")
    run("create", "trial.toml", code=2)
    run("create", "trial.toml", "--key", "trial.key")
    assigned = run("assign", "trial", "patients.csv", "--out", "a.csv")
    assert "written to a.csv" in assigned
    assert " A " not in assigned
    run("record", "trial", "scores.csv")
    # A key that does not fit closes nothing.
    Path("wrong.key").write_text(
        Path("trial.key").read_text().replace('"control": "', '"control": "x')
    )
    run("close", "trial", "--key", "wrong.key", "--out", "closed.html", code=2)
    made = run("close", "trial", "--key", "trial.key", "--out", "closed.html", "--json")
    closed = json.loads(made)
    assert closed["look"].keys() == {"wave", "verdict", "event", "hash"}
    assert closed["look"]["verdict"] == "continue"
    assert closed["assigned"] == {"all actions": 80}
    assert "placebo" in Path("closed.html").read_text(encoding="utf-8")
    assert not [word for word in ("placebo", "dose") if word in made]
    again = json.loads(run("look", "trial", "--key", "trial.key", "--out", "two.md", "--json"))
    assert {**closed["look"], "out": "two.md", "next": again["next"]} == again


def test_what_the_key_opens():
    run("create", "trial.toml", "--key", "trial.key")
    run("assign", "trial", "patients.csv", "--out", "a.csv")
    run("record", "trial", "scores.csv")
    key = ("--key", "trial.key")
    run("close", "trial", *key)
    run("findings", "trial", code=3)
    opened = run("findings", "trial", *key)
    assert "placebo" in opened
    assert "findings trial --appendix --key trial.key" in opened
    assert "placebo" not in run("status", "trial")
    assert "placebo" in run("status", "trial", *key)
    assert "7123456789" not in run("show-event", "trial", "1")
    assert "7123456789" in run("show-event", "trial", "1", *key)
    for ending, more in (("csv", ()), ("csv", key)):
        run("export", "trial", "--what", "events", "--out", f"{len(more)}.{ending}", *more)
    assert "7123456789" not in Path("0.csv").read_text()
    assert "7123456789" in Path("2.csv").read_text()
    assert "not checked" in run("verify", "trial")
    assert "not checked" not in run("verify", "trial", *key)
    one = json.loads(run("unblind", "trial", "P7", *key, "--reason", "a fall", "--json"))
    assert one["action"] in ("placebo", "dose")
    assert "unit number" in run("show-event", "trial")
    assert one["action"] not in run("show-event", "trial", str(one["event"]))
