"""On a terminal of 80 columns nothing is cut: not a number, not a name."""

import io
import re
from contextlib import chdir
from dataclasses import replace

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.views.history import events_table
from seqbatch.cli import console as consoles
from seqbatch.cli.app import app
from seqbatch.document import Table
from seqbatch.simulation import StudyResult
from seqbatch.storage import open_store
from tests.campaign.instances import SMALL, units
from tests.simulation.test_study_file import SPEC as COMPARISON

pytestmark = pytest.mark.slow

NAMES = [
    "no-message-at-all-to-this-unit",
    "letter-with-voucher-for-10-off",
    "call-in-the-early-evening-hour",
]
LONG = "a-campaign-with-a-very-long-name"


def run(*words, folder, code=0):
    """Run a command as a person does whose terminal has 80 columns."""
    with chdir(folder):
        made = CliRunner(env={"COLUMNS": "80"}).invoke(app, list(words))
    assert made.exit_code == code, made.output
    fits(made.stdout)
    return made.stdout


def fits(text):
    assert "…" not in text
    assert "..." not in text
    # A command that is to be pasted stays on one line.
    shown = [line for line in text.splitlines() if not line.startswith("Next: ")]
    assert max(map(len, shown)) <= 80


@pytest.fixture
def narrow(monkeypatch):
    """What is shown on a console of 80 columns."""
    file = io.StringIO()
    monkeypatch.setattr(consoles, "console", Console(width=80, file=file))

    def printed(*tables):
        file.seek(0)
        file.truncate()
        for table in tables:
            consoles.show(table)
        return file.getvalue()

    return printed


def holds_numbers(text, table):
    """Every cell of a column of numbers stands on a line, between two borders or spaces."""
    for row in table.cells():
        for head, cell in zip(table.columns, row, strict=True):
            if head not in table.words and cell:
                assert re.search(rf"(?<![\d,.]){re.escape(cell)}(?![\d,.])", text), cell


def holds_names(text, names):
    """A name stands on one line, with nothing between its characters."""
    for name in names:
        assert name in text


@pytest.fixture
def folder(tmp_path):
    """A campaign of three long names with one wave closed."""
    store = open_store(str(tmp_path / "campaigns.db"))
    spec = {
        **SMALL, "name": LONG, "actions": NAMES, "control": NAMES[0], "floor": 0.01,
        "grid": {"sizes": [90, 1_234_567]},
    }  # fmt: skip
    campaign = Campaign.create(spec, store=store, who="a.person.with.a.long.name@example.org")
    table = pl.from_arrow(campaign.assign(units(90)).table)
    values = [1_234_567.0 + 1_000 * number for number in range(90)]
    campaign.record(table.select("id").with_columns(y=pl.Series(values)))
    campaign.close(reason="")
    store.close()
    return tmp_path


def test_campaigns(folder):
    store = open_store(str(folder / "campaigns.db"))
    status = Campaign.open(LONG, store=store).status()
    events = Campaign.open(LONG, store=store).events()
    store.close()
    shown = run("campaign", "status", LONG, folder=folder)
    for table in status.tables():
        holds_numbers(shown, table)
    holds_names(shown, NAMES)
    holds_names(shown, [f"{row.weighted:,.0f}" for row in status.actions])
    closed = run("campaign", "close", LONG, "--wave", "1", folder=folder)
    holds_names(closed, [*NAMES, *(f"{row.units:,}" for row in status.actions), "30.0"])
    listed = run("campaign", "list", folder=folder)
    holds_names(listed, [LONG, "90", str(len(events))])
    shown = run("campaign", "show-event", LONG, folder=folder)
    holds_names(shown, [*NAMES, *(event.kind for event in events), events[0].at[:10]])
    run("campaign", "show-event", LONG, "1", folder=folder)
    stranger = "a-unit-that-nobody-has-heard-of"
    (folder / "o.csv").write_text(f"id,y\n{stranger},1\n{stranger},2\n", encoding="utf-8")
    held = run("campaign", "record", LONG, "o.csv", folder=folder, code=1)
    holds_names(held, [stranger, "quarantined"])
    assert "90 decisions" in " ".join(run("campaign", "verify", LONG, folder=folder).split())


def test_large_campaigns(narrow, folder):
    store = open_store(str(folder / "campaigns.db"))
    status = Campaign.open(LONG, store=store).status()
    store.close()
    large = replace(
        status,
        waves=tuple(replace(w, assigned=1_234_567, observed=1_234_567) for w in status.waves),
        actions=tuple(
            replace(
                row, units=1_234_567, randomised=1_234_567, outcomes=1_234_567,
                mean=-1_234_567.0, weighted=-1_234_567.0, difference=-1_234_567.0,
            )
            for row in status.actions
        ),
    )  # fmt: skip
    text = narrow(*large.tables())
    fits(text)
    holds_names(text, [*NAMES, "-1,234,567"])
    for table in large.tables():
        holds_numbers(text, table)


def test_events_of_large_files(narrow):
    counts = {"rows": 1_234_567, "accepted": 1_234_566, "actions": dict.fromkeys(NAMES, 1_234_565)}
    event = Event(
        sequence=1_234, kind="record", at="2024-05-06T07:08:09.123456+00:00", who="x" * 30,
        why="a correction after the call centre's second export", counts=counts, payload={},
        rows_hash="", previous="", hash="",
    )  # fmt: skip
    text = narrow(events_table(LONG, [event] * 2))
    fits(text)
    holds_names(text, [*NAMES, "x" * 30, "1,234,567", "1,234,566", "1,234,565", "07:08:09"])


@pytest.mark.usefixtures("few_trials")
def test_plans(tmp_path):
    words = ("plan", "--units", "1234567", "--actions", "3", "--max-batches", "3", "--noise", "500",
             "--effect", "100", "--effect-spread", "1", "--batch-cost", "10000")  # fmt: skip
    shown = run(*words, "--features", "2", folder=tmp_path)
    for head in ("regret", "gain", "best", "rate", "total cost", "best grid"):
        assert head in shown
    assert "123,456,700" in shown  # all that can be lost: every unit at random


def test_grids(tmp_path):
    shown = run("grid", "--units", "1234567", "--dim", "10", "--batches", "4", folder=tmp_path)
    assert "1,234,567" in shown


def test_lists(tmp_path):
    for what, names in (
        ("policies", ["ThompsonSampling", "explore='highest'"]),
        ("environments", ["CorrelatedGaussian", "layout='shared'"]),
    ):
        holds_names(run(what, folder=tmp_path), names)


def test_comparisons(tmp_path, request):
    (tmp_path / "spec.toml").write_text(
        COMPARISON.replace("round", "a-sphere-with-a-very-long-name").replace("mine", NAMES[0]),
        encoding="utf-8",
    )
    shown = run("simulate", "spec.toml", folder=tmp_path)
    holds_names(shown, ["a-sphere-with-a-very-long-name", NAMES[0], "greedy"])
    row = {
        "environment": LONG, "policy": NAMES[0], "units": 1_234_567, "batches": 1_234_567,
        "regret": 1_234_567.8, "simple_regret": 0.12345,
    }  # fmt: skip
    runs = pl.DataFrame([{**row, "trial": trial} for trial in range(2)])
    [table] = StudyResult(runs, {NAMES[0]: "SBPE"}).tables()
    text = request.getfixturevalue("narrow")(table)
    fits(text)
    holds_names(text, NAMES[:1])
    holds_numbers(text, table)


def test_claims(tmp_path):
    """The claims of a figure are text: they are broken between words."""
    shown = run("reproduce", "batches", "--quick", "--trials", "2", folder=tmp_path)
    assert "not decided" in shown
    assert "Corollary 2" in shown


def test_an_empty_table_shows_its_heads(narrow):
    text = narrow(Table("Nothing", ("campaign", "units"), [], words=("campaign",)))
    assert "campaign" in text
    assert "units" in text


def test_a_table_that_fits_is_one_table(narrow):
    table = Table("Two", ("a", "b"), [(1, 2)])
    assert narrow(table).count("Two") == 1
    wide = Table("Many", tuple(f"column {n}" for n in range(30)), [range(30)])
    text = narrow(wide)
    fits(text)
    assert text.count("Many") == text.count("(continued)") + 1 > 1
    holds_numbers(text, wide)
