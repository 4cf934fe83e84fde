"""The demo itself runs by `make demo`; what it declares is read here."""

import runpy
from pathlib import Path

import polars as pl
from typer.testing import CliRunner

from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.cli.app import app

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_the_demo_declares_a_campaign():
    made = runpy.run_path(str(DEMO))
    spec = parse_spec(made["SPEC"])
    assert (spec.control, spec.name) == ("none", made["NAME"])
    assert sum(spec.grid.sizes) == 60_000
    assert max(map(len, made["SPEC"].splitlines())) <= made["WIDTH"]


def test_the_demos_customers_answer_nearly_always():
    made = runpy.run_path(str(DEMO))
    everyone = made["customers"](3_000)
    given = everyone.with_columns(action=pl.Series(["none", made["MEN"], made["WOMEN"]] * 1_000))
    rows = made["answers"](given, 1).join(given, on="customer")
    assert 0.97 < len(rows) / 3_000 < 0.99
    bought = dict(rows.group_by("action").agg(pl.col("purchase").mean()).iter_rows())
    assert max(bought, key=bought.get) == made["MEN"]


def test_the_demo_ends_with_commands_that_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = runpy.run_path(str(DEMO))
    made["STORE"].parent.mkdir(parents=True)
    token, serve = made["IN_A_BROWSER"]
    result = CliRunner().invoke(app, token, catch_exceptions=False)
    assert result.stdout.startswith("sqb_")
    assert CliRunner().invoke(app, [*serve, "--help"], catch_exceptions=False).exit_code == 0
