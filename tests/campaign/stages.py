"""A campaign right before each of its calls, and what each call must lead to."""

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from seqbatch.campaign import Campaign
from seqbatch.storage import open_store
from tests.campaign.instances import created, outcomes, run_wave, units

CALLS = ("assign", "record", "close")
LAKE = "lake:"


@dataclass(frozen=True)
class Stage:
    """A store right before a call, the call, and the states before and after it."""

    call: str
    url: str
    arguments: dict
    before: str
    after: str
    out: bytes

    def copied(self, folder):
        """Return a copy of the store, an SQLite file or a lake, to do damage to."""
        if self.url.startswith(LAKE):
            path = Path(folder) / "copy.lake"
            shutil.copytree(self.url.removeprefix(LAKE), path)
            return f"{LAKE}{path}"
        path = Path(folder) / "copy.db"
        shutil.copyfile(self.url, path)
        return path

    def full(self, folder):
        """Return the call's arguments, its output going to a folder."""
        extra = {"out": str(Path(folder) / "out.parquet")} if self.call == "assign" else {}
        return {**self.arguments, **extra}


def prepare(folder, *, count=2_000, lake=False):
    """Run a campaign into its second wave, keeping the store before each call of that wave."""
    folder = Path(folder)
    path = folder / ("live.lake" if lake else "live.db")
    store = open_store(f"{LAKE}{path}" if lake else path)
    campaign = created(store, grid={"sizes": [300, count, 100]})
    run_wave(campaign, 1, start=0, count=300)
    frame = units(count, start=300)
    frame.write_parquet(folder / "units.parquet")
    stages = {}
    for call in CALLS:
        before = campaign.status().state
        store.close()
        kept = folder / f"{call}{path.suffix}"
        (shutil.copytree if lake else shutil.copyfile)(path, kept)
        out = b""
        if call == "assign":
            arguments = {"units": str(folder / "units.parquet")}
            campaign.assign(**arguments, out=folder / "out.parquet")
            out = (folder / "out.parquet").read_bytes()
            table = campaign.assign(frame).table
            outcomes(table).write_parquet(folder / "outcomes.parquet")
        elif call == "record":
            arguments = {"outcomes": str(folder / "outcomes.parquet")}
            campaign.record(**arguments)
        else:
            arguments = {"wave": 2}
            campaign.close(**arguments)
        after = campaign.status().state
        url = f"{LAKE}{kept}" if lake else str(kept)
        stages[call] = Stage(call, url, arguments, before, after, out)
    store.close()
    return stages


def require_no_orphans(campaign):
    """Every file of a lake is one that an event knows, once somebody changed the campaign."""
    with campaign.store.read(campaign.name) as reader:
        known = {chunk.rows.name for chunk in reader.outcome_chunks()}
        for chunk in reader.unit_chunks(given=True):
            known |= {chunk.given.name, chunk.decided.name}
    folder = campaign.store.folder
    there = {path.relative_to(folder).as_posix() for path in folder.glob("*/*/*")}
    assert there == known, "a file that no event knows"


def examine(path, stage, *, acknowledged, out=None):
    """Check a store after a call that may have died, then make the call again; return which it was.

    Nothing acknowledged is lost, nothing half-done is visible, and the retry gives the same bytes.
    """
    lake = str(path).startswith(LAKE)
    raw = sqlite3.connect(Path(str(path).removeprefix(LAKE)) / "ledger.db" if lake else path)
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    raw.close()
    store = open_store(path)
    try:
        campaign = Campaign.open("spring", store=store)
        state = campaign.status().state
        assert state in (stage.before, stage.after), "half of the call is visible"
        if acknowledged:
            assert state == stage.after, "an acknowledged call is lost"
        if out is not None and Path(out).exists():
            assert Path(out).read_bytes() == stage.out, "an incomplete file is visible"
            assert state == stage.after, "an answer was given that was not kept"
        arguments = dict(stage.arguments)
        if stage.call == "assign":
            arguments |= {"out": out, "force": True}
        getattr(campaign, stage.call)(**arguments)
        assert campaign.status().state == stage.after
        if out is not None:
            assert Path(out).read_bytes() == stage.out, "the retry answers otherwise"
        if lake:
            require_no_orphans(campaign)
            assert campaign.verify().sound
        return state == stage.after
    finally:
        store.close()
