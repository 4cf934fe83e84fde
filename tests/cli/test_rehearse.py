"""Rehearsing from the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.test_campaign import folder, run, said

__all__ = ["folder"]


@pytest.mark.usefixtures("folder")
def test_a_masked_trial_is_led_to_its_key_and_to_enrolment_in_order():
    spec = Path("spec.toml").read_text(encoding="utf-8")
    spec = spec.replace("[60, 40]", "[50, 40]")
    trial = 'masked = true\ninterim = "committee"\nquestion = "Does it heal?"\n'
    Path("trial.toml").write_text(f'{trial}draw = "blocks"\n{spec}', encoding="utf-8")
    Path("truth.toml").write_text("none = 2\nmail = 4\nspread = {sd = 1}\n", encoding="utf-8")
    options = ("--units", "units.csv", "--truth", "truth.toml", "--campaigns", "1")
    made = said("rehearse", "trial.toml", *options)
    assert made["next"] == "seqbatch campaign create trial.toml --key spring.key"
    assert "assign --partial takes" in run("validate", "trial.toml", "units.csv").output
    made = said("create", "trial.toml", "--key", "spring.key")
    expected = "seqbatch campaign assign spring YOUR-UNITS.csv --partial --out assignments.csv"
    assert made["next"] == expected
    first, second, *_ = run("status", "spring").output.splitlines()
    assert first == "Does it heal?"
    assert second.startswith("Campaign spring: wave 1; 1 event.")


@pytest.mark.usefixtures("folder")
def test_a_spec_is_rehearsed_and_leads_to_its_creation():
    Path("truth.toml").write_text("none = 2\nmail = 4\nspread = {sd = 1}\n", encoding="utf-8")
    assert (
        "rehearse spec.toml --units units.csv" in run("validate", "spec.toml", "units.csv").output
    )
    options = ("spec.toml", "--units", "units.csv", "--truth", "truth.toml", "--campaigns", "2")
    made = said("rehearse", *options, "--out", "r.json", "--out", "r.html", "--seed", "3")
    assert made["next"] == "seqbatch campaign create spec.toml --rehearsal r.json"
    assert made["files"] == ["r.json", "r.html"]
    assert (made["seed"], made["campaigns"], made["units"]) == (3, 2, "60 units of units.csv")
    assert json.loads(Path("r.json").read_text(encoding="utf-8"))["hash"] == made["hash"]
    assert "exists" in run("rehearse", *options, "--out", "r.json", code=2).output
    run("create", "spec.toml", "--rehearsal", "r.json")
    run("protocol", "spring", "--rehearsal", "r.json", "--out", "p.html")
    assert made["hash"] in Path("p.html").read_text(encoding="utf-8")
    Path("truth.toml").write_text("none = 2\n", encoding="utf-8")
    refused = said("rehearse", *options, code=2)
    assert refused["code"] == "invalid-truth"
    assert "spread: say how the amounts of visit vary" in refused["message"]
