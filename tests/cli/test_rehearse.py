"""Rehearsing from the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.test_campaign import folder, run, said

__all__ = ["folder"]


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
