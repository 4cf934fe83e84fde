"""The demo itself runs by `make demo`; what it declares is read here."""

import runpy
from pathlib import Path

from typer.testing import CliRunner

from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.cli.app import app

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_the_demo_declares_a_campaign():
    text = runpy.run_path(str(DEMO))["SPEC"]
    spec = parse_spec(text.format(units=64_000, waves=3, effect=0.03, noise=0.35))
    assert spec.control == "No E-Mail"


def test_the_demo_ends_with_commands_that_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = runpy.run_path(str(DEMO))
    made["STORE"].parent.mkdir(parents=True)
    token, serve = made["IN_A_BROWSER"]
    result = CliRunner().invoke(app, token, catch_exceptions=False)
    assert result.stdout.startswith("sqb_")
    assert CliRunner().invoke(app, [*serve, "--help"], catch_exceptions=False).exit_code == 0
