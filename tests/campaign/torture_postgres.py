"""PostgreSQL servers killed in the middle of a call, and started again.

Every attempt is a separate campaign, stopped right before a call. A child makes the call; the
server, with all its processes, is killed at a random moment and recovers. What was acknowledged
to the child is stored, no partial change is visible, and repeating the call does not do it twice.
"""

import contextlib
import os
import random
import signal
import tempfile
import threading
import warnings
from collections import Counter
from pathlib import Path

import polars as pl

from seqbatch.campaign import Campaign
from seqbatch.storage import open_store
from tests.campaign.crashing import Nursery, order
from tests.campaign.instances import created, outcomes, run_wave, units

CALLS = ("assign", "record", "close")


def killed(server):
    """Kill a server and everything that it started, as a machine that stops would."""
    import psutil

    postmaster = psutil.Process(server.get_pid())
    for process in (postmaster, *postmaster.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs([postmaster], timeout=10)


def prepared(store, name, call, folder):
    """Bring a campaign to right before a call; return it and the call's arguments."""
    campaign = created(store, name=name, grid={"sizes": [60, 400, 60]})
    run_wave(campaign, 1, start=0, count=60)
    frame = units(400, start=60)
    arguments = {"units": folder / "units.parquet", "out": folder / f"{name}.parquet"}
    frame.write_parquet(arguments["units"])
    if call == "assign":
        return campaign, arguments
    table = campaign.assign(frame).table
    rows = outcomes(table)
    if call == "record":
        rows.write_parquet(folder / f"{name}.outcomes.parquet")
        return campaign, {"outcomes": folder / f"{name}.outcomes.parquet"}
    campaign.record(rows)
    return campaign, {"wave": 2}


def attempt(server, nursery, name, call, delay, folder):
    """Kill the server during a call; return whether the call was kept."""
    url = server.get_uri()
    store = open_store(url)
    campaign, arguments = prepared(store, name, call, folder)
    before = campaign.events()
    store.close()
    timer = threading.Timer(delay, killed, [server])
    timer.start()
    [result] = nursery.run(order(url, call, name=name, **arguments))
    timer.join()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server.ensure_postgres_running()
    store = open_store(url)
    campaign = Campaign.open(name, store=store)
    after = campaign.events()
    assert after[: len(before)] == before, "history changed"
    assert len(after) - len(before) in (0, 1), "half of the call is visible"
    kept = len(after) > len(before)
    if result.get("done"):
        assert kept, "an acknowledged call is lost"
    again = {"force": True} if call == "assign" else {}
    getattr(campaign, call)(**arguments, **again)
    assert len(campaign.events()) == len(before) + 1, "the retry was done twice"
    if call == "assign":
        assert len(pl.read_parquet(arguments["out"])) == 400
    assert campaign.verify().sound
    store.close()
    return kept, "error" in result


def run(kills):
    """Kill servers so many times; return the counts."""
    import pgserver

    counts = {}
    draw = random.Random(2026)
    with tempfile.TemporaryDirectory(prefix="seqbatch-pg-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server = pgserver.get_server(folder / "data", cleanup_mode="stop")
        nursery = Nursery()
        for number in range(kills):
            call = CALLS[number % len(CALLS)]
            tally = counts.setdefault("PostgreSQL server killed", Counter())
            kept, failed = attempt(
                server, nursery, f"kill{number}", call, draw.uniform(0.0, 0.25), folder
            )
            tally["attempts"] += 1
            tally["died"] += failed
            tally["kept"] += kept
        nursery.close()
        server.cleanup()
    return counts
