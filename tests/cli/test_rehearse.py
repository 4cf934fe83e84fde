"""Rehearsing from the command line."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.test_campaign import folder, run, said, wave

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


@pytest.mark.usefixtures("folder")
def test_a_history_is_found_in_the_store():
    run("create", "spec.toml", "--store", "own.db")
    run("assign", "spring", "units.csv", "--out", "a1.csv", "--store", "own.db")
    wave(1)
    run("record", "spring", "o1.csv", "--store", "own.db")
    run("close", "spring", "--store", "own.db")
    run("abort", "spring", "--reason", "enough", "--store", "own.db")
    text = Path("spec.toml").read_text(encoding="utf-8").replace("spring", "summer")
    Path("later.toml").write_text(f'{text}[history]\ncampaign = "spring"\n', encoding="utf-8")
    asked = ("later.toml", "--units", "units.csv", "--truth", "truth.toml", "--campaigns", "1")
    made = said("rehearse", "later.toml", "--write-truth", "truth.toml", "--store", "own.db")
    assert made["next"].endswith("--truth truth.toml --store own.db")
    made = said("rehearse", *asked, "--store", "own.db")
    assert made["next"] == "seqbatch campaign create later.toml --store own.db"
    assert "campaigns.db" in run("rehearse", *asked, code=2).output


SETTLED = """
name = "settled"
actions = ["none", "mail"]
metrics.sale.kind = "yes/no"
objective.maximise = "sale"
grid.{grid}
"""


@pytest.mark.usefixtures("folder", "few_trials")
def test_what_validate_suggests_runs_as_pasted():
    def suggested(spec):
        [line] = [x for x in run("validate", spec).output.splitlines() if "how often" in x]
        return shlex.split(line.partition("seqbatch campaign ")[2])

    planned = "plan = {units = 300, batches = 2, base_rate = 0.1, effect = 0.3}"
    Path("planned.toml").write_text(SETTLED.format(grid=planned), encoding="utf-8")
    assert suggested("planned.toml") == ["rehearse", "planned.toml"]
    made = said("rehearse", "planned.toml", "--campaigns", "1")
    expected = "the plan's effect: mail brings 60 more sales per 100 units"
    assert [truth["name"] for truth in made["truths"]] == ["no action differs", expected]

    Path("plain.toml").write_text(SETTLED.format(grid="sizes = [60, 60]"), encoding="utf-8")
    words = suggested("plain.toml")
    assert words == ["rehearse", "plain.toml", "--write-truth", "plain.truth.toml"]
    then = shlex.split(said(*words)["next"])
    assert then == ["seqbatch", "campaign", *words[:2], "--truth", "plain.truth.toml"]
    made = said(*then[2:], "--campaigns", "1")
    assert [truth["name"] for truth in made["truths"]] == ["no action differs", "an example"]
    assert suggested("plain.toml") == then[2:]
    assert "exists" in run(*words, code=2).output


@pytest.mark.usefixtures("folder", "few_trials")
def test_init_with_a_plan_writes_what_it_assumed():
    options = ("--plan", "--base-rate", "10%", "--smallest-lift", "5pp", "--units", "300")
    run("init", *options, "--waves", "2", "--actions", "none,mail", "--out", "new.toml")
    made = said("rehearse", "new.toml", "--truth", "new.truth.toml", "--campaigns", "1")
    assert [truth["name"] for truth in made["truths"]] == ["no action differs", "as planned"]
    assert made["truths"][1]["true means"]["mail"] == [pytest.approx(0.15)] * 2
