"""How CSV files are spelled: stated by options, said where it is not usual."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seqbatch.campaign import Campaign, validate
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.spec.template import starting_spec, write_spec
from seqbatch.cli.app import app
from seqbatch.storage import open_store

#: Cells parted by a mark that is never looked for, in an encoding that no byte gives away.
UNITS = "customer^city^age\nü1^Łódź^31\nü2^Kraków^44\nü3^Łódź^27\nü4^Kraków^59\n"
OUTCOMES = "customer^revenue\nü1^1\nü2^2\nü3^3\nü4^4\n"
SPELLED = {"delimiter": "^", "encoding": "cp1250"}
OPTIONS = ["--delimiter", "^", "--encoding", "cp1250"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "units.csv").write_text(UNITS, encoding="cp1250")
    (tmp_path / "outcomes.csv").write_text(OUTCOMES, encoding="cp1250")


def run(*words, code=0):
    result = CliRunner().invoke(app, ["campaign", *words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


INIT = ("init", "units.csv", "--actions", "none,mail", "--waves", "1", "--maximise", "revenue",
        "--seed", "1")  # fmt: skip


def test_every_command_that_reads_takes_the_spelling():
    how = "units.csv was read as '^'-separated, cp1250 text"
    made = run(*INIT, *OPTIONS)
    assert f"seqbatch: {how}." in made.stderr
    assert "Łódź" in Path("spec.toml").read_text(encoding="utf-8")
    # The next command is for the same file, spelled the same way.
    line = next(line for line in made.stdout.splitlines() if line.startswith("Next: "))
    words = shlex.split(line.removeprefix("Next: seqbatch campaign "))
    assert words == ["validate", "spec.toml", "units.csv", *OPTIONS]
    assert f"seqbatch: {how}." in run(*words).stderr
    found = json.loads(run("validate", "spec.toml", "units.csv", "outcomes.csv", *OPTIONS,
                           "--json").stdout)  # fmt: skip
    assert found["read_as"] == how
    assert found["outcomes"]["accepted"] == 4
    assert found["outcomes"]["read_as"].startswith("outcomes.csv was read as")
    run("create", "spec.toml")
    assigned = run("assign", "my-campaign", "units.csv", *OPTIONS, "--out", "a.csv", "--json")
    assert json.loads(assigned.stdout)["read_as"] == how
    assert how in assigned.stderr
    recorded = run("record", "my-campaign", "outcomes.csv", *OPTIONS)
    assert "seqbatch: outcomes.csv was read as '^'-separated, cp1250 text." in recorded.stderr
    assert "4 accepted" in recorded.stdout


def test_json_of_init_says_how_a_file_was_read(tmp_path):
    (tmp_path / "units.csv").write_text("id;age\na;3\nb;4\n", encoding="utf-8")
    made = json.loads(run(*INIT, "--json").stdout)
    assert made["read_as"] == "units.csv was read as semicolon-separated, UTF-8 text"
    (tmp_path / "units.csv").write_text("id,age\na,3\nb,4\n", encoding="utf-8")
    usual = run(*INIT, "--json", "--force")
    assert json.loads(usual.stdout)["read_as"] == ""
    assert usual.stderr == ""


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--delimiter", "ab", "--delimiter must be one ASCII character"),
        ("--encoding", "klingon", "--encoding must be an encoding that Python knows"),
        ("--encoding", "utf-8", "units.csv"),
    ],
)
@pytest.mark.parametrize("command", ["init", "validate", "assign"])
def test_a_wrong_spelling_is_refused(command, option, value, words):
    run(*INIT, *OPTIONS)
    run("create", "spec.toml")
    rest = {
        "init": ("units.csv", "--force"),
        "validate": ("spec.toml", "units.csv", "--store", "other.db"),
        "assign": ("my-campaign", "units.csv", "--out", "a.csv"),
    }[command]
    refused = run(command, *rest, option, value, code=2)
    assert words in " ".join(refused.output.split()), refused.output


def test_python_takes_the_spelling_too(tmp_path):
    options = {"name": "spring", "actions": ["none", "mail"], "waves": 1, "metric": "revenue"}
    assert "Łódź" in starting_spec(Source("units.csv", **SPELLED), **options)
    made = write_spec("spec.toml", Source("units.csv", **SPELLED), **options)
    assert made.read_as == "units.csv was read as '^'-separated, cp1250 text"
    scratch, store = open_store(tmp_path / "scratch.db"), open_store(tmp_path / "campaigns.db")
    found = validate("spec.toml", "units.csv", "outcomes.csv", scratch=scratch, **SPELLED)
    assert found.sound
    assert found.read_as == made.read_as
    campaign = Campaign.create("spec.toml", store=store)
    assigned = campaign.assign("units.csv", **SPELLED)
    assert assigned.table["customer"].to_pylist() == ["ü1", "ü2", "ü3", "ü4"]
    assert assigned.read_as == made.read_as
    assert campaign.record("outcomes.csv", **SPELLED).accepted == 4
    scratch.close()
    store.close()
