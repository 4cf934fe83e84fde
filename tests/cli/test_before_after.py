"""Validate and delete, draw, and words that a person at a terminal can act on."""

import json
import shlex
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from threading import Timer

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from seqbatch.cli import campaign as steps
from seqbatch.cli import console as shared
from seqbatch.cli.app import app
from seqbatch.cli.messages import About
from seqbatch.errors import CampaignStateError, Remedy
from seqbatch.policies import registry
from seqbatch.policies.registry import PLAIN
from tests.campaign.instances import outcomes, units
from tests.cli.test_campaign import SPEC, folder, run, said  # noqa: F401

pytestmark = pytest.mark.usefixtures("folder")


def test_a_wave_is_drawn():
    run("create", "spec.toml")
    units(150).write_csv("everybody.csv")
    shown = run("assign", "spring", "everybody.csv", "--draw", "--out", "a1.csv").stdout
    assert "60 of 150 drawn; 90 left for later waves." in shown
    table = pl.read_csv("a1.csv", infer_schema=False)
    assert len(table) == 60
    assert table["id"].to_list() != [f"{n:06d}" for n in range(60)]
    shown = run("assign", "spring", "everybody.csv", "--draw", "--out", "again.csv").stdout
    assert "Wave 1 already has its units; close it before you draw the next one." in shown
    assert Path("again.csv").read_bytes() == Path("a1.csv").read_bytes()
    outcomes(table.to_arrow()).write_csv("o1.csv")
    run("record", "spring", "o1.csv")
    run("close", "spring")
    shown = run("assign", "spring", "everybody.csv", "--draw", "--out", "a2.csv").stdout
    assert (
        "40 of 90 drawn; 50 left for later waves; 60 were assigned in earlier waves and are not in "
        "this file." in " ".join(shown.split())
    )
    assert len(pl.read_csv("a2.csv")) == 40
    assert "drawn" not in run("show-event", "spring").stdout
    assert json.loads(run("show-event", "spring", "5").stdout)["payload"]["draw"]["from"] == 90
    assert run("verify", "spring").stdout.endswith("Verified: no discrepancies.\n")


@pytest.mark.parametrize(("words", "message"), [
    (("assign", "spring", "units.csv", "--draw", "--partial", "--out", "x.csv"),
     "--draw must be left out if partial is given; received both"),
    (("assign", "spring", "units.csv", "--draw", "--rest", "r.csv", "--out", "x.csv"),
     "--rest must be left out if draw is given; received r.csv"),
    (("assign", "spring", "units.csv", "--out", "units.csv"), "--out must be a file other than"),
    (("assign", "spring", "units.csv", "--out", "u.csv", "--format", "doc"), "--format must be"),
    (("status", "spring", "--at-event", "9"), "--at-event must be the number of an event"),
    (("amend", "spring", "--retire", "nix", "--reason", "x"), "--retire must be one of"),
    (("amend", "spring", "--units", "1", "--reason", "x"), "--units must be at least"),
    (("close", "spring", "--force"), "--reason must be given when"),
    (("record", "spring", "units.csv", "--correct"), "--reason must be given with a correction"),
])  # fmt: skip
def test_messages_name_options_as_they_are_typed(words, message):
    run("create", "spec.toml")
    assert message in " ".join(run(*words, code=2).stderr.split())
    assert message in said(*words, code=2)["message"]


def test_states_name_options_as_they_are_typed():
    run("create", "spec.toml")
    units(99).write_csv("many.csv")
    refused = run("assign", "spring", "many.csv", "--out", "x.csv", code=3).stderr
    assert "(--draw), which is fair" in " ".join(refused.split())
    assert "=True" not in refused
    units(30).write_csv("few.csv")
    run("assign", "spring", "few.csv", "--out", "a.csv")
    assert "Or close it anyway: --force, with a --reason" in run("close", "spring", code=3).stderr


def test_validate_writes_nothing():
    before = sorted(Path().iterdir())
    shown = run("validate", "spec.toml", "units.csv").stdout
    assert "units.csv: 60 units can be assigned." in shown
    assert "No problems found. Nothing was written." in shown
    assert sorted(Path().iterdir()) == before
    units(150).write_csv("everybody.csv")
    shown = run("validate", "spec.toml", "everybody.csv").stdout
    assert "The first wave has no room for 90 of them" in shown


def test_validate_says_everything_at_once():
    Path("bad.csv").write_text("id,age\na,x\nb,1\n", encoding="utf-8")
    Path("o.csv").write_text("id,visit\na,1\nghost,1\n", encoding="utf-8")
    result = run("validate", "spec.toml", "bad.csv", "o.csv", code=2)
    assert "line 2, column 'age': must be a number" in result.stderr
    assert "1 would be accepted" in result.stdout
    assert "ghost" in result.stdout
    plain = said("validate", "spec.toml", "bad.csv", "o.csv", code=2)
    assert [problem["error"] for problem in plain["problems"]] == ["InvalidFileError"]
    assert plain["outcomes"]["quarantined"] == 1
    assert (plain["sound"], plain["next"]) == (False, None)


def test_validate_once_the_campaign_is_there():
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a.csv")
    Path("o.csv").write_text("id,visit\n000000,1\n", encoding="utf-8")
    units(150).write_csv("other.csv")
    shown = " ".join(run("validate", "spec.toml", "other.csv", "o.csv").stdout.split())
    assert "It already exists in campaigns.db: outcomes are checked against its units" in shown
    assert (
        "other.csv: 150 units can be assigned, except those that already have an action." in shown
    )
    assert "The first wave has no room" not in shown
    assert "1 would be accepted" in shown
    assert shown.endswith("Next: seqbatch campaign status spring")
    shown = run("record", "spring", "o.csv", "--dry-run").stdout
    assert "1 row: 1 accepted" in shown
    assert "Dry run: nothing was written." in shown
    assert said("status", "spring")["events"] == 2


def test_validate_has_codes_like_the_others():
    Path("o.csv").write_text("id,visit\n000000,1\nghost,1\n", encoding="utf-8")
    run("validate", "spec.toml", "units.csv", "o.csv", code=1)
    Path("wrong.toml").write_text(SPEC.replace("floor = 0.02", "floor = 3"), encoding="utf-8")
    shown = run("validate", "wrong.toml", "units.csv", code=2).stderr
    assert "line 6: floor = 3" in shown
    assert "not checked: units.csv: correct the spec first." in shown
    assert "units must be a file" in run("validate", "spec.toml", "-", code=2).stderr


def test_delete_leaves_a_tombstone():
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a.csv")
    refused = run("delete", "spring", "--reason", "a trial", code=3).stderr
    assert "has assigned 60 units" in refused
    assert "you can still delete it: --force." in " ".join(refused.split())
    shown = run("delete", "spring", "--reason", "a trial", "--who", "ann", "--force").stdout
    assert (
        "Deleted campaign spring with 2 events and 60 units; its name can be used again." in shown
    )
    assert "seqbatch campaign list --deleted" in shown
    run("status", "spring", code=3)
    [tombstone] = said("list", "--deleted")
    assert (tombstone["name"], tombstone["who"], tombstone["why"]) == ("spring", "ann", "a trial")
    assert "a trial" in run("list", "--deleted").stdout
    assert said("list") == []
    run("create", "spec.toml")


def test_delete_is_refused_once_there_are_outcomes():
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a.csv")
    Path("o.csv").write_text("id,visit\n000000,1\n", encoding="utf-8")
    run("record", "spring", "o.csv")
    refused = run("delete", "spring", "--reason", "not what was hoped for", code=3).stderr
    assert "has recorded outcomes" in refused
    assert said("list", "--deleted") == []


def test_amend_shows_from_what_to_what():
    run("create", "spec.toml")
    shown = run("amend", "spring", "--sizes", "50,50", "--reason", "fewer").stdout
    assert "Amended (event 2): sizes from 60, 40 to 50, 50." in shown
    told = run("show-event", "spring").stdout.replace("│", " ")
    assert "sizes from 60, 40 to 50, 50" in " ".join(told.split())
    assert said("show-event", "spring")[1]["changes"][0]["to"] == [50, 50]


def test_the_control_is_protected():
    text = SPEC.replace("randomised", 'control = "none"\nrandomised')
    Path("spec.toml").write_text(text, encoding="utf-8")
    run("create", "spec.toml")
    words = ("amend", "spring", "--retire", "none", "--reason", "too expensive")
    refused = " ".join(run(*words, code=2).stderr.split())
    assert "--retire must be an action other than the control" in refused
    assert "add --force" in refused
    run(*words, "--force")


def test_flags_have_no_type():
    for words in (["--help"], ["grid", "--help"], ["campaign", "assign", "--help"]):
        shown = CliRunner().invoke(app, words).stdout
        assert "--help" in shown
        assert "bool" not in shown


def test_a_feature_may_be_called_wave():
    """In a file of outcomes it is not taken for the wave of the campaign."""
    Path("spec.toml").write_text(SPEC.replace('age = "learn"', 'wave = "raw"'), encoding="utf-8")
    units(60).rename({"age": "wave"}).write_csv("units.csv")
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a1.csv")
    frame = pl.read_csv("a1.csv", infer_schema=False)
    outcomes(frame.to_arrow()).with_columns(wave=pl.lit(7)).write_csv("o1.csv")
    assert said("record", "spring", "o1.csv")["accepted"] == 60
    run("export", "spring", "--out", "e.csv")
    assert {"wave", "feature wave"} < set(pl.read_csv("e.csv").columns)


def test_grids_and_simulations_name_what_there_is(tmp_path):
    kinds = "'uniform', 'online', 'minimax', 'sparse', 'geometric'"
    for kind in ("explicit", "nonsense"):
        result = CliRunner().invoke(app, ["grid", "--units", "50", "--kind", kind])
        assert f"--kind must be one of {kinds}; received '{kind}'." in " ".join(
            result.stderr.split()
        )
        assert "shares" not in result.stderr
        assert ("grids.explicit(" in result.stderr) is (kind == "explicit")
    spec = tmp_path / "sim.toml"
    text = (
        'horizons = [60]\ntrials = 1\n[environments.e]\nkind = "Sphere"\ndim = 2\nactions = 2\n'
        '[policies.l]\nkind = "SBPE"\ngrid = {kind = "uniform", batches = 2}\n'
    )
    spec.write_text(text.replace("Sphere", "Spere"), encoding="utf-8")
    result = CliRunner().invoke(app, ["simulate", str(spec), "--out", "sim"])
    assert "received 'Spere'." in result.stderr
    assert "module" not in result.stderr
    spec.write_text(text, encoding="utf-8")
    assert CliRunner().invoke(app, ["simulate", str(spec), "--out", "sim"]).exit_code == 0
    spec.write_text(text.replace("60", "80"), encoding="utf-8")
    result = CliRunner().invoke(app, ["simulate", str(spec), "--out", "sim"])
    assert result.exit_code == 2
    assert "use another folder, or remove this one" in result.stderr


def test_errors_of_the_machine_are_said_without_python():
    run("create", "spec.toml")
    Path("locked").mkdir()
    refused = run("validate", "locked", code=2).stderr
    assert "Errno" not in refused
    assert "Is a directory" in refused


def finished():
    """Run the campaign to its end; the last list holds nobody new."""
    run("create", "spec.toml")
    units(100).write_csv("everybody.csv")
    for wave in (1, 2):
        run("assign", "spring", "everybody.csv", "--draw", "--out", f"a{wave}.csv")
        table = pl.read_csv(f"a{wave}.csv", infer_schema=False).to_arrow()
        outcomes(table).write_csv(f"o{wave}.csv")
        run("record", "spring", f"o{wave}.csv")
        run("close", "spring")


def test_nothing_is_drawn_once_all_waves_are_closed():
    finished()
    refused = run("assign", "spring", "everybody.csv", "--draw", "--out", "a3.csv", code=3)
    assert "all 2 waves are closed" in refused.stderr
    assert not Path("a3.csv").exists()
    assert "Abort" not in run("delete", "spring", "--reason", "x", code=3).stderr


def test_an_aborted_campaign():
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a.csv")
    shown = run("abort", "spring", "--reason", "a complaint").stdout
    assert shown.endswith("Next: seqbatch campaign report spring --out spring.html\n")
    refused = run("close", "spring", code=3).stderr
    assert "its waves cannot be closed" in " ".join(refused.split())


def test_what_absent_units_count_as_is_an_amendment_like_others():
    run("create", "spec.toml")
    shown = run("amend", "spring", "--metric", "visit.absent=0", "--reason", "buyers only").stdout
    assert "Amended (event 2): absent of visit from none to 0." in shown
    assert "Next: seqbatch campaign assign" in shown
    told = run("show-event", "spring").stdout.replace("│", " ")
    assert "absent of visit from none to 0" in " ".join(told.split())
    assert run("verify", "spring").stdout.endswith("Verified: no discrepancies.\n")


def test_other_workbooks_are_not_written():
    run("create", "spec.toml")
    refused = " ".join(run("export", "spring", "--out", "x.ods", code=2).stderr.split())
    assert "--out must be named with one of" in refused
    assert "Excel opens .xlsx files." in refused


def test_words_need_no_textbook():
    shown = " ".join(run("create", "spec.toml").stdout.split())
    assert "): the first wave at random, then units get the action that looks best" in shown
    shown = " ".join(run("assign", "spring", "units.csv", "--out", "a.csv").stdout.split())
    assert "randomised. In the first wave, every unit gets a random action." in shown
    shown = " ".join(run("status", "spring").stdout.split())
    assert "then units get the action that looks best for them so far" in shown
    assert "in the first wave, all other units also get a random action" in shown
    Path("o.csv").write_text("id,visit\n000000,1\nghost,1\n", encoding="utf-8")
    run("record", "spring", "o.csv", code=1)
    shown = " ".join(run("verify", "spring").stdout.split())
    assert "1 row of outcomes (corrections included)" in shown
    assert "Open r.html in a browser." in run("report", "spring", "--out", "r.html").stdout


def test_every_policy_is_explained():
    assert set(PLAIN) >= set(registry.kinds()) - {"Oracle"}


def test_what_may_be_done_instead_can_be_pasted():
    run("create", "spec.toml", "--store", "my store.db")
    run("assign", "spring", "units.csv", "--out", "a.csv", "--store", "my store.db")
    table = pl.read_csv("a.csv", infer_schema=False)
    table[:20].select("id").with_columns(visit=pl.lit(1.0)).write_csv("o.csv")
    run("record", "spring", "o.csv", "--store", "my store.db")
    refused = run("close", "spring", "--store", "my store.db", code=3).stderr.splitlines()
    amend, close = (shlex.split(line) for line in refused[-2:])
    assert "--force" in close
    assert close[:4] == ["seqbatch", "campaign", "close", "spring"]
    assert "Amended" in run(*amend[2:]).stdout
    run("close", "spring", "--store", "my store.db")


def test_a_few_held_rows_are_shown_and_all_are_counted():
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a.csv")
    ghosts = "".join(f"ghost-{number},1\n" for number in range(9))
    Path("o.csv").write_text(f"id,visit\n{ghosts}000000,x\n", encoding="utf-8")
    for words in (("record", "spring", "o.csv"), ("validate", "spec.toml", "units.csv", "o.csv")):
        shown = run(*words, code=1).stdout
        assert "(the first 5)" in shown
        assert "ghost-4" in shown
        assert "ghost-5" not in shown
        assert "9" in shown[shown.index("by reason") :]
    tried = said("validate", "spec.toml", "units.csv", "o.csv", code=1)["outcomes"]
    recorded = said("record", "spring", "o.csv", code=1)
    assert len(recorded["held"]) == 10
    assert (tried["held"], tried["reasons"]) == (recorded["held"], recorded["reasons"])


def test_one_wave_is_not_several():
    text = Path("spec.toml").read_text("utf-8").replace("sizes = [60, 40]", "sizes = [60]")
    Path("spec.toml").write_text(text, encoding="utf-8")
    assert "; 1 wave of 60 units." in run("create", "spec.toml").stdout


@pytest.mark.usefixtures("few_trials")
def test_init_says_what_its_plan_assumed():
    years = [1893 + number % 113 for number in range(200)]
    units(200).select("id").with_columns(born=pl.Series(years)).write_csv("customers.csv")
    # Never for a noise of 1 that nobody stated.
    assert (
        "--base-rate" in run("init", "customers.csv", "--out", "new.toml", "--plan", code=2).stderr
    )
    known = ("--plan", "--base-rate", "4%", "--smallest-lift", "0.5pp")
    shown = run("init", "customers.csv", "--out", "new.toml", *known).stdout
    assert "1893 to 2005" in shown
    text = " ".join(Path("new.toml").read_text("utf-8").replace("#", " ").split())
    assert "Assumed: a yes/no outcome, yes for 4% of units without any action, lifted by" in text
    assert "gains about 0.005 per unit, give or take a factor of 2.5" in text
    assert 'kind = "yes/no"' in text
    run("init", "customers.csv", "--out", "new.toml", "--base-rate", "4%", "--force", code=2)


def test_errors_are_wrapped_on_a_terminal_and_commands_are_not(monkeypatch):
    screen = Console(width=40, force_terminal=True, no_color=True, file=StringIO(), soft_wrap=True)
    monkeypatch.setattr(shared, "errors", screen)
    story = CampaignStateError("a long story " * 9, remedies=[Remedy("close", reason="why not")])
    shared.complain_of(story, About("spring", "campaigns.db"))
    lines = screen.file.getvalue().splitlines()
    assert all(len(line) <= 40 for line in lines[:-1])
    assert len(lines) > 3
    assert lines[-1] == "  seqbatch campaign close spring --reason 'why not'"


@pytest.fixture
def timers(monkeypatch):
    """Timers that were made, whose second is over when a test says so."""
    made = []

    def hour(seconds, act):
        assert seconds == 1
        made.append(Timer(3600, act))
        return made[-1]

    monkeypatch.setattr(shared, "Timer", hour)
    return made


def after_a_second(timers, *, begun):
    [timer] = timers
    assert timer.is_alive() == begun
    if begun:
        timer.function()
    timers.clear()


def test_what_takes_long_is_said_on_a_terminal_alone(monkeypatch, timers):
    for terminal in (True, False):
        screen = Console(force_terminal=terminal, no_color=True, file=StringIO())
        monkeypatch.setattr(shared, "errors", screen)
        with shared.waiting("planning"):
            assert screen.file.getvalue() == ""
            after_a_second(timers, begun=terminal)
        assert ("planning" in screen.file.getvalue()) == terminal


@pytest.mark.parametrize(
    ("words", "doing"),
    [
        (("findings", "spring"), "estimating the lifts of spring"),
        (("report", "spring", "--out", "r.html"), "writing the report of spring"),
        (("close", "spring"), "closing the wave of spring"),
        (("verify", "spring"), "replaying spring"),
        (("status", "spring"), "working on spring"),
    ],
)
def test_steps_of_campaigns_say_what_they_do(monkeypatch, tmp_path, words, doing):
    said = []

    @contextmanager
    def waiting(text):
        said.append(text)
        yield

    monkeypatch.setattr(steps, "waiting", waiting)
    run(*words, "--store", str(tmp_path / "none.db"), code=2)
    assert said == [doing]


def test_what_advances_is_drawn_on_a_terminal_alone(monkeypatch, timers):
    for terminal in (True, False):
        screen = Console(force_terminal=terminal, no_color=True, file=StringIO(), width=60)
        monkeypatch.setattr(shared, "errors", screen)
        with shared.advancing("planning") as progress:
            progress(0.25)
            assert screen.file.getvalue() == ""
            after_a_second(timers, begun=terminal)
        assert ("25%" in screen.file.getvalue()) == terminal
        with shared.advancing("planning"):
            timers.clear()
        assert terminal or screen.file.getvalue() == ""
