"""What an analyst types to learn what was learned, and whether to stop."""

import json
from pathlib import Path

import pytest

from tests.campaign.instances import units
from tests.cli.test_campaign import SPEC, run, said, wave


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """A campaign whose declared rule says to stop after its first wave."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    spec = SPEC + '[stopping]\nrule = "pocock"\n'
    Path("spec.toml").write_text(spec, encoding="utf-8")
    units(60).write_csv("units.csv")
    run("create", "spec.toml")
    assert "No outcomes yet." in run("findings", "spring").stdout
    run("assign", "spring", "units.csv", "--out", "a1.csv")
    wave(1)
    run("record", "spring", "o1.csv")
    return tmp_path


@pytest.mark.usefixtures("stopped")
def test_the_decision_first_and_the_rest_in_an_appendix(monkeypatch):
    run("close", "spring")
    monkeypatch.setenv("COLUMNS", "80")
    short = run("findings", "spring", "--level", "0.9").stdout
    assert len(short.splitlines()) <= 24
    assert max(map(len, short.splitlines())) <= 80
    assert "Give call to every unit." in short
    assert "(90% interval" in short
    assert "What each action brings" not in short
    first = " ".join(run("findings", "spring", "--level", "0.9", "--appendix").stdout.split())
    assert "What each action brings over none" in first
    assert "NOT VALID, for comparison" in first
    assert "What would break it:" in first
    plain = said("findings", "spring")
    assert plain["decision"]["lead"] == "Give call to every unit."
    assert plain["level"] == 0.95
    assert [lift["action"] for lift in plain["lifts"]] == ["mail", "call"]
    json.dumps(plain, allow_nan=False)
    # Before the wave was closed nothing was known.
    assert said("findings", "spring", "--at-event", "3")["outcomes"] == 0


@pytest.mark.usefixtures("stopped")
def test_a_close_says_what_the_rule_says_and_going_on_takes_a_reason():
    shown = " ".join(run("close", "spring").stdout.split())
    assert (
        "The declared rule (pocock-spending, alpha 0.05) after wave 1: stop for success." in shown
    )
    assert "(boundary 2." in shown
    assert "Next: seqbatch campaign report spring" in shown
    units(40, start=60).write_csv("units2.csv")
    refused = run("assign", "spring", "units2.csv", "--out", "a2.csv", code=3)
    assert "seqbatch campaign continue" in " ".join(refused.output.split())
    shown = run("continue", "spring", "--reason", "a second goal").stdout
    assert 'despite its stopping rule ("stop for success"; event 5).' in " ".join(shown.split())
    assert "Next: seqbatch campaign assign spring" in " ".join(shown.split())
    run("assign", "spring", "units2.csv", "--out", "a2.csv")
    assert said("close", "spring", "--wave", "1")["stopping"]["verdict"] == "stop for success"
    assert said("show-event", "spring")[4]["kind"] == "continue"
    run("continue", "spring", "--reason", "again", code=3)


@pytest.mark.usefixtures("stopped")
def test_the_rule_to_run_next_is_written_in_three_formats():
    run("close", "spring")
    made = json.loads(run("rule", "spring").stdout)
    assert made["kind"] == "linear"
    assert list(made["scores"]) == ["none", "mail", "call"]
    run("rule", "spring", "--format", "python", "--out", "rule.py")
    assert "def main" in Path("rule.py").read_text(encoding="utf-8")
    assert 'FROM "people"' in run("rule", "spring", "--format", "sql", "--units", "people").stdout
    refused = run("rule", "spring", "--kind", "tree", code=3)
    assert "A tree needs two closed waves" in " ".join(refused.output.split())
    assert "There is no tree." in " ".join(run("findings", "spring", "--tree").stdout.split())
    told = " ".join(run("findings", "spring", "--boosted-trees").stdout.split())
    assert "Whether a rule by trees would have done better is not known." in told
