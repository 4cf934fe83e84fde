"""Names that a terminal would obey, through every command: they are shown instead."""

import json
import os
import pty
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

from seqbatch.campaign import Campaign
from seqbatch.cli.app import app
from seqbatch.cli.console import dump
from seqbatch.display import visible
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.hostile import EVERY, IMPOSSIBLE, TERMINAL, acts

ACTIONS = EVERY[:40]
ESCAPE = TERMINAL[0]
SPEC = {
    "name": "x", "unit": "\x1b[1mid", "actions": list(ACTIONS), "control": ACTIONS[0],
    **about("\x07visit", row_id="\u202eorder"),
    "features": {"numeric": {"=age": "raw"}, "categorical": {"<b>kind": list(EVERY)}},
    "grid": {"sizes": [len(EVERY), len(EVERY)]}, "randomised": 1.0,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("campaigns.db")
    Campaign.create(SPEC, store=store, who="\x1b]0;who\x07")
    store.close()
    count = len(EVERY)
    pl.DataFrame(
        {"\x1b[1mid": EVERY, "=age": [1.0] * count, "<b>kind": EVERY, "@extra": EVERY}
    ).write_parquet("units.parquet")
    pl.DataFrame(
        {"\x1b[1mid": EVERY, "\x07visit": [1.0] * count, "\u202eorder": EVERY}
    ).write_parquet("outcomes.parquet")
    ghosts = [f"ghost {each}" for each in EVERY]
    pl.DataFrame(
        {"\x1b[1mid": ghosts, "\x07visit": [1.0] * count, "\u202eorder": EVERY}
    ).write_parquet("ghosts.parquet")
    return tmp_path


def run(*words, code=0):
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == code, result.output
    assert acts(result.stdout) | acts(result.stderr) == set()
    if "--json" in words:
        json.loads(result.stdout, parse_constant=pytest.fail)
    return result


def campaign(*words, code=0):
    return run("campaign", *words, code=code)


def twice(*words, code=0):
    campaign(*words, code=code)
    return json.loads(campaign(*words, "--json", code=code).stdout)


def test_a_whole_campaign_of_hostile_names(folder):
    twice("assign", "x", "units.parquet", "--out", "a.csv", "--force", "--who", ESCAPE)
    twice("record", "x", "outcomes.parquet", "--reason", ESCAPE)
    held = twice("record", "x", "ghosts.parquet", code=1)["held"]
    assert held[0]["unit"] == f"ghost {EVERY[0]}"
    closed = twice("close", "x", "--wave", "1")
    assert list(closed["assigned"]) == list(ACTIONS)
    status = twice("status", "x")
    assert {row["action"] for row in status["actions"]} == set(ACTIONS)
    assert visible(ESCAPE) in "".join(campaign("status", "x").stdout.split("\n"))
    assert set(twice("findings", "x")["actions"]) == set(ACTIONS)
    assert "\x1b" not in campaign("findings", "x").stdout
    events = twice("show-event", "x")
    assert [event["who"] for event in events][:2] == ["\x1b]0;who\x07", ESCAPE]
    campaign("show-event", "x", "1")
    twice("list")
    twice("verify", "x")
    twice("seal", "x", "--out", "seal.json", "--force")
    twice("report", "x", "--out", "report.html", "--force")
    for what in ("units", "outcomes", "held", "events"):
        twice("export", "x", "--what", what, "--out", f"{what}.csv", "--force")
    twice("init", "units.parquet", "--out", "new.toml", "--force")
    assert acts((folder / "report.html").read_text(encoding="utf-8")) == set()


# Every other one: ten commands each.
@pytest.mark.parametrize("text", [*EVERY[::2], *IMPOSSIBLE])
def test_what_is_refused_is_shown_and_not_obeyed(folder, text):
    usage = 2
    # What begins with a dash is an option, and none of ours.
    campaign("status", text, code=2 if text in IMPOSSIBLE or text[:1] == "-" != text else 3)
    campaign("status", "x", "--at-event", text, code=usage)
    campaign("status", "x", f"--{text}", code=usage)
    run("campaign", f"z{text}", code=usage)
    run("reproduce", f"z{text}", code=usage)
    campaign("amend", "x", "--retire", f"z{text}", "--reason", "x", code=usage)
    campaign("export", "x", "--what", text, "--out", "a.csv", code=usage)
    campaign("export", "x", "--out", f"no/{text}.csv", code=usage)
    campaign("assign", "x", f"no/{text}.csv", "--out", "a.csv", code=usage)
    run("grid", "--units", "9", "--kind", text, code=usage)
    assert not (folder / "a.csv").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", IMPOSSIBLE)
def test_what_no_file_can_hold_is_refused(text):
    assert "reason must be text" in campaign("abort", "x", "--reason", text, code=2).stderr
    assert (
        "who must be text" in campaign("abort", "x", "--reason", "a", "--who", text, code=2).stderr
    )
    campaign("amend", "x", "--reason", text, "--sizes", "9", code=2)
    assert json.loads(campaign("status", "x", "--json").stdout)["events"] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_table_on_a_terminal_is_shown():
    """A pipe gets the bytes as they are; a terminal, text."""
    campaign("assign", "x", "units.parquet", "--out", "a.csv")
    code = "from seqbatch.cli import main; main()"
    words = [sys.executable, "-c", code, "campaign", "export", "x", "--out", "-"]
    piped = subprocess.run(words, capture_output=True, check=True)
    assert ESCAPE.encode() in piped.stdout
    ours, theirs = pty.openpty()
    process = subprocess.Popen(words, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    seen = b""
    while chunk := _read(ours):
        seen += chunk
    os.close(ours)
    assert process.wait() == 0
    assert acts(seen.decode().replace("\r\n", "\n").replace("\t", "")) == set()
    assert visible(ESCAPE) in seen.decode()


def _read(terminal):
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other end was closed
        return b""


@pytest.mark.parametrize("text", [*EVERY, *IMPOSSIBLE])
def test_json_is_json_and_shows_what_it_holds(text, capsys):
    dump({"name": text})
    shown = capsys.readouterr().out
    assert acts(shown) == set()
    assert json.loads(shown) == {"name": text}
