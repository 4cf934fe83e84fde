"""What a person types and sees."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import seqbatch
from seqbatch.cli.app import app
from tests.simulation.test_study_file import SPEC

ROOT = Path(__file__).parents[2]


def run(*words, code=0):
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def test_version():
    assert run("--version").stdout.strip() == seqbatch.__version__


def test_the_package_runs_as_a_module():
    words = [sys.executable, "-m", "seqbatch", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == seqbatch.__version__


def test_grid():
    assert "3,485" in run("grid", "--units", "50000", "--dim", "10", "--batches", "3").stdout
    rows = json.loads(
        run("grid", "--units", "8124", "--dim", "234", "--kind", "uniform",
            "--batches", "adversarial", "--json").stdout
    )  # fmt: skip
    assert len(rows) == 3_131
    assert rows[-1]["to"] == 8_124
    assert rows[0] == {"batch": 1, "from": 1, "to": 2, "size": 2, "share": "0.02%"}
    assert len(json.loads(run("grid", "--units", "50", "--json").stdout)) == 3
    online = run("grid", "--units", "50", "--kind", "online", "--json").stdout
    assert len(json.loads(online)) == 50


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("grid", "--units", "50", "--dim", "10"), "units must be at least dim^2 = 100"),
        (("grid", "--units", "50", "--kind", "round"), "kind must be one of"),
        (("grid", "--units", "50", "--batches", "some"), "--batches must be a whole number, or"),
        (
            ("grid", "--units", "50", "--kind", "online", "--batches", "3"),
            '--batches must be left out with kind "online"',
        ),
        (("reproduce", "fig9"), "name must be one of"),
        (("reproduce", "fig1"), "received fig1. Did you mean fig1-mushroom or fig1-covertype?"),
        (("reproduce", "batches", "--device", "numpy"), "used only with fig2 and fig3"),
        (("reproduce", "fig3", "--device", "tpu"), "device must be one of 'cuda', 'cpu', 'numpy'"),
        (("simulate", "nowhere.toml"), "which does not exist"),
    ],
)
def test_bad_input_gets_one_line_and_code_2(words, message):
    result = run(*words, code=2)
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_all_goes_on_past_missing_data(tmp_path, monkeypatch):
    from seqbatch import lab
    from seqbatch.lab import batches

    monkeypatch.setenv("SEQBATCH_DATA", str(tmp_path / "nothing"))
    monkeypatch.setattr(batches, "COUNTS", {batches.ADVERSARY: (2,), batches.STOCHASTIC: (2,)})
    kept = {name: lab.EXPERIMENTS[name] for name in ("fig1-mushroom", "batches")}
    monkeypatch.setattr(lab, "EXPERIMENTS", kept)
    result = run("reproduce", "all", "--quick", "--trials", "2", "--out", str(tmp_path), "--json",
                 code=2)  # fmt: skip
    assert list(json.loads(result.stdout)) == ["batches"]
    assert "agaricus-lepiota" in result.stderr


def test_lists():
    policies = {
        row["policy"]: row["parameters"] for row in json.loads(run("policies", "--json").stdout)
    }
    assert {"SBUCB", "BPE", "Oracle"} <= set(policies)
    # What else a parameter may be is shown as well.
    for option in (
        "objective='earn' (or 'choose')", "estimate='own' (or 'pooled')",
        "last='same' (or 'greedy')", "waves='same level' (or 'own level')",
        "scale='outcomes'",
        "first=None (or 'fixed', 'uniform', 'design')",
    ):  # fmt: skip
        assert option in policies["ThompsonSampling"]
    assert "Lookahead" in policies
    names = {row["environment"] for row in json.loads(run("environments", "--json").stdout)}
    assert {"Gaussian", "WorstCase", "FeaturePool"} <= names
    assert "LinearEnvironment" not in names
    assert "SBUCB" in run("policies").stdout


def test_simulate(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC, encoding="utf-8")
    result = run("simulate", str(spec), "--out", str(tmp_path / "out"), "--json")
    rows = json.loads(result.stdout)
    assert len(rows) == 4
    assert rows[0]["trials"] == 3
    again = run("simulate", str(spec), "--out", str(tmp_path / "out"))
    assert "greedy" in again.stdout


@pytest.mark.parametrize("words", [("simulate", "spec.toml"), ("reproduce", "batches")])
def test_an_engine_that_is_refused_leaves_no_folder(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(SPEC, encoding="utf-8")
    result = run(*words, "--out", "out", "--engine", "dusk", code=2)
    assert "--engine must be one of local, dask, ray" in " ".join(result.stderr.split())
    assert [file.name for file in tmp_path.iterdir()] == ["spec.toml"]


def test_help_names_every_experiment():
    from seqbatch.lab import EXPERIMENTS

    shown = run("reproduce", "--help").stdout
    assert [name for name in EXPERIMENTS if name not in shown] == []


@pytest.mark.slow
def test_reproduce(tmp_path, monkeypatch):
    from seqbatch.lab import batches

    monkeypatch.setattr(batches, "COUNTS", {batches.ADVERSARY: (2,), batches.STOCHASTIC: (2,)})
    words = ("reproduce", "batches", "--quick", "--trials", "2", "--out", str(tmp_path))
    assert "did not hold" in run(*words).stdout or "held" in run(*words).stdout
    files = json.loads(run(*words, "--json").stdout)["batches"]
    assert all(Path(file).exists() for file in files)


def test_the_command_is_installed_and_completes():
    command = Path(sys.executable).with_name("seqbatch")
    shown = subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    for name in ("reproduce", "simulate", "policies", "environments", "grid", "--show-completion"):
        assert name in shown


def test_every_command_is_documented():
    pages = "".join(
        page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))
    )
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert f"seqbatch {name}" in pages, name


def test_where_an_error_came_up_is_said_on_a_line_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQBATCH_DATA", str(tmp_path))
    asked = ("reproduce", "fig1-mushroom", "--quick", "--out", str(tmp_path / "out"))
    *_, command, place = run(*asked, code=2).stderr.splitlines()
    assert command.endswith("export SEQBATCH_DATA=path/to/folder")
    assert place.startswith("In LinUCB/")
