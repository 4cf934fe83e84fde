"""What an analyst types and sees."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from seqbatch import cli, storage
from seqbatch.cli.app import app
from seqbatch.cli.views import app as commands
from tests.campaign.instances import outcomes, units

ROOT = Path(__file__).parents[2]
SPEC = """\
name = "spring"
seed = 7
unit = "id"
actions = ["none", "mail", "call"]
randomised = 0.2
floor = 0.02
[metrics.visit]
range = [-10, 10]
[objective]
maximise = "visit"
[features.numeric]
age = "learn"
[grid]
sizes = [60, 40]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(SPEC, encoding="utf-8")
    units(60).write_csv("units.csv")
    return tmp_path


def run(*words, code=0, stdin=None):
    result = CliRunner().invoke(app, ["campaign", *words], catch_exceptions=False, input=stdin)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def said(*words, code=0):
    return json.loads(run(*words, "--json", code=code).stdout)


def wave(number):
    frame = pl.read_csv(f"a{number}.csv", schema_overrides={"id": pl.String})
    outcomes(frame.to_arrow()).write_csv(f"o{number}.csv")


def test_a_whole_campaign(folder):
    assert "Created campaign spring" in run("create", "spec.toml").stdout
    shown = run("assign", "spring", "units.csv", "--out", "a1.csv").stdout
    assert "Wave 1: 60 units assigned; written to a1.csv." in shown
    wave(1)
    assert "60 accepted" in run("record", "spring", "o1.csv").stdout
    shown = run("close", "spring").stdout
    assert "Wave 1 closed (event 4)" in shown
    assert "Allocation matches the logged probabilities (p =" in shown
    units(45, start=60).write_csv("more.csv")
    refused = run("assign", "spring", "more.csv", "--out", "a2.csv", code=3)
    assert "room for 40 more units; the file has 45 new" in refused.stderr
    shown = run("assign", "spring", "more.csv", "--out", "a2.csv", "--partial").stdout
    assert "5 units did not fit in this wave; written to a2.rest.csv." in shown
    assert len(pl.read_csv("a2.rest.csv")) == 5
    wave(2)
    run("record", "spring", "o2.csv")
    run("close", "spring", "--wave", "2")
    assert said("close", "spring", "--wave", "1")["event"] == 4
    status = said("status", "spring")
    assert (status["condition"], status["wave"]) == ("finished", len(status["waves"]))
    assert "weighted mean" in run("status", "spring").stdout
    assert "control" not in run("status", "spring").stdout
    assert "Verified: no discrepancies." in run("verify", "spring").stdout
    assert said("verify", "spring")["sound"] is True
    assert said("list")[0]["events"] == 7
    assert said("show-event", "spring", "1")["payload"]["spec"]["seed"] == 7
    assert len(said("show-event", "spring")) == 7
    run("export", "spring", "--out", "all.parquet")
    assert len(pl.read_parquet("all.parquet")) == 100
    assert run("export", "spring", "--out", "-", "--what", "events").stdout.count("\n") >= 8
    files = said("report", "spring", "--out", "report.html")["files"]
    page = Path(files[0]).read_text(encoding="utf-8")
    assert "Campaign spring" in page
    assert 'src="http' not in page
    assert len(files) == 1
    assert folder.exists()


@pytest.mark.usefixtures("folder")
def test_values_beyond_the_first_wave_are_counted():
    run("create", "spec.toml")
    assert "Clipped" not in run("assign", "spring", "units.csv", "--out", "a1.csv").stdout
    wave(1)
    run("record", "spring", "o1.csv")
    run("close", "spring")
    more = units(40, start=60).with_columns(age=pl.Series([1e9] + [40.0] * 39))
    more[:20].write_csv("some.csv")
    more.write_csv("more.csv")
    shown = run("assign", "spring", "some.csv", "--out", "some.out.csv").stdout
    line = "Clipped to the bounds of the first wave or the declared range: age 1"
    assert f"{line}." in shown.splitlines()
    # Units that had their answer are not counted again.
    assert said("assign", "spring", "more.csv", "--out", "a2.csv")["clipped"] == {}
    assert said("status", "spring")["clipped"] == {"age": 1}
    assert f"{line} so far." in " ".join(run("status", "spring").stdout.split())


def test_exit_codes(folder):
    run("status", "spring", code=2)
    run("create", "spec.toml")
    assert "already exists" in run("create", "spec.toml", code=3).stderr
    run("status", "autumn", code=3)
    run("assign", "spring", "none.csv", "--out", "a.csv", code=2)
    run("close", "spring", code=3)
    Path("bad.csv").write_text("id,age\na,x\nb,1\na,2\n", encoding="utf-8")
    result = said("assign", "spring", "bad.csv", "--out", "a.csv", code=2)
    [problem] = result["problems"]
    assert problem.pop("reason")
    assert problem == {"line": 2, "column": "age", "code": "not-a-number"}
    run("assign", "spring", "units.csv", "--out", "a1.csv")
    Path("o.csv").write_text("id,visit\n000000,1\nghost,1\n", encoding="utf-8")
    assert "no such unit" in run("record", "spring", "o.csv", code=1).stdout
    assert said("record", "spring", "o.csv", code=1)["duplicate"] == 1
    assert "at least 90.0% are needed" in run("close", "spring", code=3).stderr
    run("close", "spring", "--force", code=2)
    run("close", "spring", "--force", "--reason", "it is late")
    run("show-event", "spring", "99", code=2)
    assert folder.exists()


def test_pipes(folder):
    run("create", "spec.toml")
    text = Path("units.csv").read_text(encoding="utf-8")
    result = run("assign", "spring", "-", "--out", "-", stdin=text)
    assert result.stdout.count("\n") == 61
    assert result.stdout.startswith("id,action,wave")
    assert "60 units assigned" in result.stderr
    assert folder.exists()


def test_init_writes_a_fresh_seed_or_the_one_that_is_asked_for(folder):
    seeds = set()
    for more in ((), (), ("--seed", "7"), ("--seed", str(2**63 - 1))):
        run("init", "units.csv", "--out", "new.toml", "--force", *more)
        seeds.add(tomllib.loads(Path("new.toml").read_text(encoding="utf-8"))["seed"])
    assert len(seeds) == 4
    assert {7, 2**63 - 1} < seeds
    assert len([seed for seed in seeds if 2**20 < seed < 2**53]) == 2
    for wrong in ("-1", str(2**63)):
        assert "seed" in run("init", "--out", "no.toml", "--seed", wrong, code=2).stderr
    assert folder.exists()


def test_init_amend_abort(folder):
    run("init", "units.csv", "--name", "two", "--out", "two.toml")
    run("init", "--out", "two.toml", code=2)
    run("create", "two.toml")
    assert "Amended (event 2)" in run("amend", "two", "--reason", "more", "--sizes", "30,40",
                                      "--add", "visit", "--retire", "offer A").stdout  # fmt: skip
    assert said("list")[0]["waves"] == 2
    run("amend", "two", "--reason", "x", "--sizes", "many", code=2)
    run("amend", "two", "--reason", "x", "--add", "a:b", code=2)
    for wrong in ("", "z:p=nan", ":p=1"):
        assert (
            "add must be an action"
            in run("amend", "two", "--reason", "x", "--add", wrong, code=2).stderr
        )
    run("abort", "two", "--reason", "enough")
    assert said("status", "two")["condition"] == "aborted"
    assert "was aborted" in run("assign", "two", "units.csv", "--out", "x.csv", code=3).stderr
    assert folder.exists()


@pytest.mark.usefixtures("folder")
def test_init_says_in_few_lines_what_is_left_out_and_who_may_get_what():
    rows = "\n".join(
        f"{row:03d},Ann{row % 7},{row % 5},{'yes' if row % 3 else 'no'},DE,{row % 2}"
        for row in range(40)
    )
    Path("people.csv").write_text(
        f"customer,first_name,visits,do_not_contact,country,vip\n{rows}\n", encoding="utf-8"
    )
    words = ("init", "people.csv", "--actions", "none,mail", "--out", "people.toml", "--force")
    shown = run(*words).stdout
    assert "Who may get mail: not do_not_contact." in shown
    assert "addresses and free remarks): first_name." in shown
    assert "): country." in shown
    assert "Check these columns first: do_not_contact." in shown
    found = said(*words)
    assert found["eligible"] == {"mail": "not do_not_contact"}
    by_name = {column["column"]: column for column in found["columns"]}
    assert by_name["first_name"]["code"] == "personal"
    assert by_name["do_not_contact"]["rule"] == "not do_not_contact"
    run("validate", "people.toml", "people.csv")
    found = said(*words, "--columns", "visits", "--max-features", "3")
    assert [column["column"] for column in found["columns"] if column["became"] == "numeric"] == [
        "visits"
    ]
    assert "--columns" in run(*words, "--columns", "visit", code=2).stderr
    assert "--max-features" in run(*words, "--max-features", "0", code=2).stderr


def test_init_says_what_became_of_each_column_and_what_comes_next(folder):
    Path("messy.csv").write_text(
        'customer,spend,revenue\n01,"1,50",1\n02,"2,75",0\n03,"7,00",5\n', encoding="utf-8"
    )
    words = ("init", "messy.csv", "--actions", "none, offer A", "--control", "none", "--maximise",
             "visit", "--waves", "1", "--name", "messy", "--out", "a spec.toml", "--force",
             )  # fmt: skip
    shown = run(*words).stdout
    assert "decimal comma" in shown
    assert "Check these columns first: revenue." in shown
    assert "Next: seqbatch campaign validate 'a spec.toml' messy.csv" in shown
    found = said(*words)
    assert (found["unit"], found["sizes"]) == (["customer"], [3])
    assert [column["became"] for column in found["columns"]] == ["unit", "numeric", "question"]
    assert found["next"] == "seqbatch campaign validate 'a spec.toml' messy.csv"
    run("create", "a spec.toml")
    run("assign", "messy", "messy.csv", "--out", "x.csv")
    assert "control must be one of" in run("init", "--control", "z", "--force", code=2).stderr
    assert folder.exists()


def test_files_that_are_there_stay_unless_forced(folder):
    run("create", "spec.toml")
    store = Path("campaigns.db").read_bytes()
    refused = run("export", "spring", "--out", "campaigns.db", "--format", "csv", "--force", code=2)
    assert "out must be a file other than the store" in refused.stderr
    assert Path("campaigns.db").read_bytes() == store
    run("init", "units.csv", "--out", "units.csv", "--force", code=2)
    run("init", "--out", "spec.toml", code=2)
    assert Path("spec.toml").read_text(encoding="utf-8") == SPEC
    for words in (
        ("assign", "spring", "units.csv", "--out", "a.csv"), ("export", "spring", "--out", "e.csv"),
        ("report", "spring", "--out", "r.html"), ("seal", "spring", "--out", "s.json"),
        ("init", "--out", "i.toml"),
    ):  # fmt: skip
        run(*words)
        assert "which exists" in run(*words, code=2).stderr
        run(*words, "--force")
    assert folder.exists()


def test_answers_that_cannot_be_written(folder, monkeypatch):
    run("create", "spec.toml")

    def broken(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", broken)
        refused = run("assign", "spring", "units.csv", "--out", "a.csv", "--json", code=2)
    said = json.loads(refused.stdout)
    assert said["error"] == "OutputError"
    assert said["message"].startswith("60 units were assigned (event 2), but writing the answers")
    assert "othing was" not in refused.output
    assert (
        "60 already had an action" in run("assign", "spring", "units.csv", "--out", "a.csv").stdout
    )
    assert folder.exists()


def test_damage_is_found(folder):
    import sqlite3

    run("create", "spec.toml")
    raw = sqlite3.connect("campaigns.db")
    raw.execute("DROP TRIGGER events_no_UPDATE")
    raw.execute("UPDATE events SET who = 'somebody else'")
    raw.commit()
    raw.close()
    shown = run("verify", "spring", code=1).stdout
    assert "event 1, hash: the event does not match it" in shown
    assert folder.exists()


def test_every_command_is_documented():
    page = (ROOT / "docs" / "campaigns.md").read_text(encoding="utf-8")
    for command in commands.registered_commands:
        name = command.name or command.callback.__name__
        assert f"seqbatch campaign {name}" in page, name


def test_no_password_is_shown(folder, monkeypatch):
    real, label = storage.open_store, "postgresql+psycopg://bob:***@host/db"

    def opened(url, **options):
        assert "SECRET" in url
        store = real(folder / "c.db", **options)
        store.label = label
        return store

    monkeypatch.setattr(storage, "open_store", opened)
    where = ("--store", "postgresql://bob:SECRET@host/db")
    assert label in run("create", "spec.toml", *where).output
    Path("two.toml").write_text(SPEC.replace("spring", "two"), encoding="utf-8")
    assert said("create", "two.toml", *where)["store"] == label
    shown = run("list", *where).output
    assert label in shown
    assert "SECRET" not in shown


def test_brackets_in_names_are_no_markup(folder):
    Path("spec.toml").write_text(SPEC.replace('"mail"', '"mail [/b]"'), encoding="utf-8")
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a1.csv")
    assert "mail [/b]" in run("status", "spring").stdout
    Path("o.csv").write_text("id,visit\n[/b]x,1\n", encoding="utf-8")
    assert "[/b]x" in run("record", "spring", "o.csv", code=1).stdout
    assert folder.exists()


def test_the_rest_is_another_file(folder):
    run("create", "spec.toml")
    units(70).write_csv("units.csv")
    words = ("assign", "spring", "units.csv", "--out", "b.csv", "--partial", "--rest", "b.csv")
    assert "rest must be a file other than out" in run(*words, code=2).stderr
    assert not Path("b.csv").exists()
    words = ("assign", "spring", "units.csv", "--out", "a", "--out-format", "parquet", "--partial")
    run(*words)
    assert Path("a.rest.csv").read_text().startswith("id,age,spend,zip,city\n")
    assert folder.exists()


@pytest.mark.parametrize(("old", "new", "line"), [
    ("[grid]", '[policy]\nkind = "Thomson"\n[grid]', 'line 14: kind = "Thomson"'),
    ("[grid]", '[policy]\nkind = "SBUCB"\nscle = 1\n[grid]', "line 15: scle = 1"),
    ("[grid]", '[policy]\nkind = "SBUCB"\nalpha = -1\n[grid]', "line 15: alpha = -1"),
    ("sizes = [60, 40]", "plan = {units = 90, effekt = 1}",
     "line 14: plan = {units = 90, effekt = 1}"),
    ("[grid]\nsizes = [60, 40]", "[grid.plan]\nunits = 90\neffekt = 1", "line 15: effekt = 1"),
    ("sizes = [60, 40]", "calendar = true\nwaves = 9\nunits = 3", "line 13: [grid]"),
])  # fmt: skip
def test_a_refused_declaration_is_quoted_and_leaves_no_store(folder, old, new, line):
    Path("spec.toml").write_text(SPEC.replace(old, new), encoding="utf-8")
    refused = run("create", "spec.toml", code=2).stderr
    assert "spec.toml: 1 problem; nothing was created." in refused
    assert line in refused
    assert sorted(path.name for path in folder.iterdir()) == ["spec.toml", "units.csv"]


def test_what_is_said_where_there_is_no_more_wave(folder):
    Path("spec.toml").write_text(SPEC.replace("[60, 40]", "[60]"), encoding="utf-8")
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a1.csv")
    wave(1)
    pl.read_csv("o1.csv", infer_schema=False)[:58].write_csv("most.csv")
    run("record", "spring", "most.csv")
    run("close", "spring")
    said = run("record", "spring", "o1.csv").stdout
    assert "From closed waves: 2 outcomes; findings and the report use them, but no later" in said
    shown = run("assign", "spring", "units.csv", "--out", "a1.csv", "--force").stdout
    assert shown.startswith("No new units were assigned, 60 already had an action; written to")
    assert folder.exists()


def test_an_interruption_while_it_starts(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "seqbatch.cli.app")
    monkeypatch.setattr("builtins.__import__", interrupted)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    monkeypatch.undo()
    assert caught.value.code == 130
    assert "interrupted" in capsys.readouterr().err


def test_the_control_is_marked(folder):
    text = SPEC.replace("randomised", 'control = "none"\nrandomised')
    (folder / "spec.toml").write_text(text, encoding="utf-8")
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a1.csv")
    wave(1)
    pl.read_csv("o1.csv", infer_schema=False)[:58].write_csv("o1.csv")
    run("record", "spring", "o1.csv")
    rows = said("status", "spring")["actions"]
    assert [row["difference"] is None for row in rows] == [True, False, False]
    shown = run("status", "spring").stdout
    assert "(control)" in " ".join(shown.split())
    assert "Missing outcomes: too few are missing, or too few arrived," in run(
        "close", "spring"
    ).stdout.replace("\n", " ")


@pytest.mark.usefixtures("folder")
def test_a_shop_that_exports_buyers_only():
    Path("shop.toml").write_text(SHOP, encoding="utf-8")
    rows = [f"{number:03d},w1,30" for number in range(20)]
    Path("shop.csv").write_text("\n".join(["customer,week,age", *rows]), encoding="utf-8")
    run("create", "shop.toml")
    run("assign", "shop", "shop.csv", "--out", "a.csv")
    orders = [f"{number:03d},w1,{9 + number},1,1" for number in range(6)]
    lines = ["customer,week,revenue,refund,left", *orders, "x,w1,1,0,0", "y,w1,1,0,0"]
    Path("orders.csv").write_text("\n".join(lines), encoding="utf-8")
    shown = run("record", "shop", "orders.csv", code=1).stdout
    assert "Held rows by reason" in shown
    assert said("record", "shop", "orders.csv", code=1)["reasons"] == [
        {"verdict": "quarantined", "reason": "no such unit in this campaign", "rows": 2}
    ]
    assert "buyers only" in run("close", "shop", code=3).stderr
    none = ("--metric", "revenue.absent=0", "--metric", "refund.absent=0")
    shown = " ".join(run("amend", "shop", *none, "--reason", "no row").stdout.split())
    assert "absent of revenue from none to 0; absent of refund from none to 0" in shown
    shown = run("close", "shop").stdout
    assert "6 recorded, 14 absent and counted as 0 EUR" in shown
    shown = run("status", "shop").stdout
    assert "6 recorded, 14 absent and counted as 0 EUR" in shown
    assert said("status", "shop")["waves"][0]["absent"] == 14
    run("verify", "shop")


SHOP = """
name = "shop"
unit = ["customer", "week"]
cluster = "customer"
actions = ["none", {name = "call", cost = 0.4}]
randomised = 1
currency = "EUR"
[metrics]
revenue = {unit = "EUR"}
refund = {unit = "EUR"}
left = {kind = "yes/no", guardrail = {at_most = 0.02}}
[objective]
maximise = {revenue = 1.0, refund = -0.5}
less_costs = true
[features.numeric]
age = "raw"
[grid]
sizes = [20, 20]
"""


@pytest.mark.usefixtures("folder")
def test_the_command_that_record_names_reads_what_was_held():
    text = SPEC.replace("[grid]", "[metrics.calls]\n[grid]")
    Path("spec.toml").write_text(text, encoding="utf-8")
    run("create", "spec.toml")
    run("assign", "spring", "units.csv", "--out", "a1.csv")
    rows = "".join(f"{row:06};1,5;2,5\n" for row in range(60))
    Path("o1.csv").write_text(f"id;visit;calls\n{rows}", encoding="utf-8")
    named = "amend spring --metric visit.format=1.234,56 --reason 'YOUR REASON'"
    assert named in " ".join(run("record", "spring", "o1.csv", code=1).stdout.split())
    for wrong in ("calls", "calls=1.234,56", "calls.absent=none"):
        assert (
            "--metric" in run("amend", "spring", "--metric", wrong, "--reason", "x", code=2).stderr
        )
    formats = ("--metric", "visit.format=1.234,56", "--metric", "calls.format=1.234,56")
    shown = run("amend", "spring", *formats, "--reason", "as it is").stdout
    assert "format of visit from none to 1.234,56" in " ".join(shown.split())
    assert "60 accepted" in run("record", "spring", "o1.csv").stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("words", [("campaign", "list"), ("grid", "--units", "1000", "--json")])
def test_output_that_cannot_be_written_has_its_own_exit_code(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    storage.open_store("campaigns.db").close()
    command = [sys.executable, "-c", "from seqbatch.cli import main; main()", *words]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 4
    assert "output could not be written" in done.stderr
    assert "Traceback" not in done.stderr
