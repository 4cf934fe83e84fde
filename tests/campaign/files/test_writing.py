"""Errors when a file cannot be written: the record stays, and no partial file is left."""

import errno
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from seqbatch.campaign.files.writing import Writer
from seqbatch.errors import CampaignError, InvalidArgumentError, OutputError
from seqbatch.storage import open_store
from tests.campaign.instances import created, lose_commit, outcomes, units
from tests.cases import thorough
from tests.refusals import refused


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("campaigns.db")
    yield created(store)
    store.close()


def broken(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_was_done_is_said_where_answers_cannot_be_written(campaign, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", broken)
        with pytest.raises(OutputError) as caught:
            campaign.assign(units(5), out="a.csv")
    said = str(caught.value)
    assert said.startswith("5 units were assigned (event 2), but writing the answers, to a.csv,")
    assert "No space left on device" in said
    assert "same call again" in said
    assert "othing was" not in said
    assert isinstance(caught.value, CampaignError)
    assert isinstance(caught.value, OSError)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["campaigns.db"]
    again = campaign.assign(units(5), out="a.csv")
    assert (again.assigned, again.repeated) == (0, 5)
    assert pl.read_csv("a.csv").height == 5


def test_the_rest_that_cannot_be_written(campaign, monkeypatch):
    whole = Path.replace

    def picky(self, target):
        return broken() if "rest" in self.name else whole(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", picky)
        with refused("output-failed", match=r"300 units.* rest\.csv"):
            campaign.assign(units(310), out="a.csv", partial=True, rest="rest.csv")
        with refused("output-failed"):
            campaign.assign(units(310), out="a.csv", partial=True, rest="rest.csv")
    campaign.assign(units(310), out="a.csv", partial=True, rest="rest.csv")
    assert (len(pl.read_csv("a.csv")), len(pl.read_csv("rest.csv"))) == (300, 10)


def test_a_folder_that_vanishes_meanwhile(campaign, tmp_path):
    (tmp_path / "out").mkdir()

    def vanish(doing, _rows):
        if doing == "assigning":
            shutil.rmtree(tmp_path / "out", ignore_errors=True)

    with refused("output-failed", match="5 units"):
        campaign.assign(units(5), out="out/a.csv", report=vanish)
    assert len(campaign.events()) == 2


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow"])
def test_a_full_disk_is_noticed_before_units_are_kept(campaign, tmp_path, monkeypatch, ending):
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="No space left") as caught:
        campaign.assign(units(5), out=f"a.{ending}")
    assert not isinstance(caught.value, OutputError)
    assert len(campaign.events()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["campaigns.db"]


def command(*words, **options):
    """Start a command of its own process."""
    code = "from seqbatch.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "campaign", *words],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", *thorough("parquet")])
def test_a_disk_that_takes_no_more(campaign, tmp_path, ending):
    campaign.assign(units(300))
    units(300).write_csv("units.csv")

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))

    process = command("assign", "spring", "units.csv", "--out", f"a.{ending}", preexec_fn=limited)
    shown, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert shown == ""
    assert "File too large" in said
    assert "Traceback" not in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["campaigns.db", "units.csv"]


@pytest.mark.slow
@pytest.mark.usefixtures("campaign")
def test_what_a_killed_call_left_is_swept_by_the_next(tmp_path):
    units(300).write_parquet("units.parquet")
    # Another holds the store, so that the call waits with its file begun.
    holder = sqlite3.connect("campaigns.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    process = command("assign", "spring", "units.parquet", "--out", "a.csv")
    deadline = time.monotonic() + 60
    while not (left := list(tmp_path.glob("a.csv.*.partial"))) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    holder.close()
    assert len(left) == 1
    assert left[0].exists()
    again = command("assign", "spring", "units.parquet", "--out", "a.csv")
    _, said = again.communicate(timeout=60)
    assert again.returncode == 0, said
    assert not list(tmp_path.glob("*.partial"))
    assert pl.read_csv("a.csv").height == 300


def targets(campaign, name):
    """Return every call that writes a file, with this one as its target."""
    return {
        "assign": lambda **more: campaign.assign(units(5), out=name, out_format="csv", **more),
        "rest": lambda **more: campaign.assign(
            units(5), partial=True, rest=name, out_format="csv", **more
        ),
        "export": lambda **more: campaign.export(name, file_format="csv", **more),
        "report": lambda **more: campaign.report(name, **more),
        "seal": lambda **more: campaign.seal(name, **more),
    }


@pytest.mark.parametrize("call", ["assign", "rest", "export", "report", "seal"])
def test_the_store_is_never_written_over(campaign, tmp_path, call):
    before = Path("campaigns.db").read_bytes()
    Path("link.html").symlink_to("campaigns.db")
    Path("hard.json").hardlink_to("campaigns.db")
    names = ("campaigns.db", "campaigns.db-journal", "campaigns.db-wal", "link.html", "hard.json")
    for name in (*names, tmp_path / "campaigns.db"):
        with refused("invalid-argument"):
            targets(campaign, name)[call](force=True)
    os.mkfifo("fifo.csv")
    os.mkfifo("fifo.html")
    os.mkfifo("fifo.json")
    for name in (os.devnull, tmp_path, *tmp_path.glob("fifo.*")):
        with pytest.raises(InvalidArgumentError):
            targets(campaign, name)[call](force=True)
    assert Path("campaigns.db").read_bytes() == before
    assert len(campaign.events()) == 1


@pytest.mark.parametrize(("call", "name"), [
    ("assign", "a.csv"), ("rest", "a.csv"), ("export", "a.csv"), ("report", "a.html"),
    ("seal", "a.json"),
])  # fmt: skip
def test_a_file_that_is_there_is_overwritten_by_force_alone(campaign, call, name):
    campaign.assign(units(300, start=1_000))
    Path(name).write_text("mine")
    with refused("file-exists"):
        targets(campaign, name)[call]()
    assert Path(name).read_text() == "mine"
    if call in ("assign", "rest"):
        campaign.record(outcomes(campaign.assign(units(300, start=1_000)).table))
        campaign.close()
        campaign.assign(units(198, start=2_000))
    if call == "assign":
        campaign.assign(units(2), out=name, force=True)
    else:
        targets(campaign, name)[call](force=True)
    assert Path(name).read_text(encoding="utf-8") != "mine"


@pytest.mark.parametrize("call", ["assign", "rest", "export", "report", "seal"])
def test_a_place_that_cannot_be_written_is_named_as_it_was_asked_for(campaign, monkeypatch, call):
    opened = Path.open

    def locked(path, mode="r", *rest, **more):
        if path.parent.name == "locked" and mode != "rb":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, mode, *rest, **more)

    # Nothing is locked to the user that tests may be run by.
    monkeypatch.setattr(Path, "open", locked)
    Path("locked").mkdir()
    ending = {"report": "html", "seal": "json"}.get(call, "csv")
    name = f"locked/a.{ending}"
    advice = "cannot be written: Permission denied; choose another name, or a folder that you may"
    with pytest.raises(PermissionError, match=advice) as refused:
        targets(campaign, name)[call]()
    assert refused.value.filename == name
    assert campaign.situation().sequence == 1


def test_a_report_is_of_a_kind_that_can_be_written(campaign):
    with refused("invalid-argument", field="out"):
        campaign.report("report.png", force=True)
    with refused("invalid-argument", field="file_format", received="pdf"):
        campaign.report("report.html", file_format="pdf")
    campaign.report("report.txt", file_format="md")
    assert Path("report.txt").read_text(encoding="utf-8").startswith("# Campaign")
    assert sorted(path.name for path in Path().glob("report*")) == ["report.txt"]


def test_a_name_tells_the_format(campaign):
    for name, file_format in (("a.parquet", "csv"), ("a.csv", "arrow")):
        with refused("invalid-argument", field="out"):
            campaign.export(name, file_format=file_format)
    with refused("invalid-argument", field="file"):
        campaign.export("a.html")
    assert campaign.export("a.txt", file_format="csv") == 0


def test_a_seal_is_not_written_over_its_key(campaign):
    Path("key.json").write_text("secret")
    with refused("invalid-argument", field="out"):
        campaign.seal("key.json", key="key.json", force=True)
    assert Path("key.json").read_text() == "secret"


@pytest.mark.parametrize("stored", [True, False])
def test_answers_are_written_once_it_is_known_that_units_were_assigned(
    campaign, tmp_path, monkeypatch, stored
):
    out = tmp_path / "answers.csv"
    lose_commit(monkeypatch, campaign.store, stored=stored)
    with refused("uncertain-commit"):
        campaign.assign(units(300), out=out)
    assert not out.exists()
    # The same call settles it, and writes the same answers as if nothing had happened.
    assert campaign.assign(units(300), out=out).assigned == (0 if stored else 300)
    assert len(pl.read_csv(out)) == 300
    assert campaign.verify().sound


def _write(writer):
    writer.write(units(5).to_arrow())
    writer.complete()


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "arrow"])
def test_a_full_disk_is_said_of_the_file(tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    with Writer(path) as writer, Path("/dev/full").open("wb", buffering=0) as full:
        writer._file.close()
        writer._file = full
        if kind == "csv.gz":
            writer._sink.fileobj = full
        else:
            writer._sink = full
        with pytest.raises(OSError, match="No space left on device") as caught:
            _write(writer)
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


def test_very_long_file_names_are_refused(campaign):
    long = f"{'x' * 300}.csv"
    with refused("invalid-rows", match="File name too long"):
        campaign.assign(long)
    for call in (campaign.export, lambda out: campaign.assign(units(5), out=out)):
        with refused("invalid-argument", field="out", match="File name too long"):
            call(long)
    assert len(campaign.events()) == 1
