"""Killed at any point, on a full disk, on a broken one: the whole call happened, or nothing did."""

import errno
import random
import shutil
import subprocess

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.storage import open_store
from tests.campaign.crashing import FAULTS, Nursery, order
from tests.campaign.instances import created, units
from tests.campaign.stages import CALLS, examine, prepare
from tests.cases import thorough


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("stages"))


@pytest.fixture(scope="module")
def nursery():
    made = Nursery()
    yield made
    made.close()


@pytest.mark.slow
# After a step is before the next one, but for what is done between them.
@pytest.mark.parametrize("when", ["before", *thorough("after")])
@pytest.mark.parametrize("step", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_killed_at_a_point(stages, nursery, tmp_path, call, step, when):
    stage = stages[call]
    path = stage.copied(tmp_path)
    arguments = stage.full(tmp_path)
    [result] = nursery.run(order(path, call, die_at=(step, when), **arguments))
    kept = examine(path, stage, acknowledged=result.get("done"), out=arguments.get("out"))
    if result["killed"] and step in (
        "claim",
        "add_units",
        "add_outcomes",
        "add_state",
        "add_event",
    ):
        assert not kept
    if result["killed"] and step in ("publish", "replace"):
        assert kept


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_killed_at_any_moment(stages, nursery, tmp_path, call):
    """Six kills of each call that hit it while it ran; `make torture` has thousands."""
    stage, draw = stages[call], random.Random(call)
    span, killed = 0.1, 0
    for attempt in range(200):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        path, arguments = stage.copied(folder), stage.full(folder)
        [result] = nursery.run(order(path, call, die_after=draw.uniform(0, span), **arguments))
        examine(path, stage, acknowledged=result.get("done"), out=arguments.get("out"))
        shutil.rmtree(folder)
        killed += result["killed"]
        # Keeps to about as long as the call takes, however fast or busy the machine is.
        span *= 1.05 if result["killed"] else 0.85
        if killed == 6:
            break
    assert killed == 6


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """A nursery whose writes can be made to fail; skipped where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here to make the library that lets writes fail")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    source = __file__.replace("test_crashes.py", "faults.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", library, source, "-ldl"], check=True
    )
    made = Nursery({"LD_PRELOAD": str(library)})
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.ENOSPC, *thorough(errno.EIO)])
@pytest.mark.parametrize("call", CALLS)
def test_writes_that_fail(stages, faulty, tmp_path, call, code):
    stage = stages[call]
    counted = stage.copied(tmp_path)
    [result] = faulty.run(order(counted, call, fail=(-1, 0, "copy.db"), **stage.full(tmp_path)))
    writes = result["writes"]
    assert writes > 3
    step = max(1, writes // 8)
    for number in range(0, writes, step):
        folder = tmp_path / str(number)
        folder.mkdir()
        path, arguments = stage.copied(folder), stage.full(folder)
        [result] = faulty.run(order(path, call, fail=(number, code, "copy.db"), **arguments))
        assert not result["killed"]
        # A disk that fails during the commit leaves open whether the change was stored.
        unsure = result.get("error") == "UncertainCommitError"
        if not result.get("done"):
            assert result["error"] == "StoreError" or unsure
            assert ("Nothing was changed" in result["message"]) != unsure
            assert not (folder / "out.parquet").exists()
        kept = examine(path, stage, acknowledged=result.get("done"), out=arguments.get("out"))
        assert unsure or kept == bool(result.get("done"))
        shutil.rmtree(folder)


@pytest.mark.slow
def test_verify_after_a_crash(stages, nursery, tmp_path):
    path = stages["close"].copied(tmp_path)
    nursery.run(order(path, "close", die_at=("commit", "before"), wave=2))
    store = open_store(path)
    campaign = Campaign.open("spring", store=store)
    assert campaign.verify().sound
    campaign.close(wave=2)
    assert campaign.verify().sound
    store.close()


@pytest.mark.slow
def test_a_killed_call_takes_no_place_in_a_block(nursery, tmp_path):
    """Calls of two units are killed before or after they are stored; then all are repeated."""
    changes = {"draw": "blocks", "strata": ["zip"], "grid": {"sizes": [12, 12]}}
    everyone = units(12)
    store = open_store(tmp_path / "whole.db")
    whole = created(store, **changes).assign(everyone).table
    store.close()
    path = tmp_path / "killed.db"
    store = open_store(path)
    campaign = created(store, **changes)
    ends = [
        ("add_units", "after"),
        ("commit", "before"),
        ("commit", "after"),
        ("publish", "before"),
    ]
    for number, start in enumerate(range(0, 12, 2)):
        part = tmp_path / f"{start}.parquet"
        everyone[start : start + 2].write_parquet(part)
        out = tmp_path / f"out-{start}.parquet"
        if number < len(ends):
            die_at = ends[number]
            [result] = nursery.run(order(path, "assign", die_at=die_at, units=part, out=out))
            assert result["killed"]
        campaign.assign(part, out=out, force=True)
    answers = [pl.read_parquet(tmp_path / f"out-{start}.parquet") for start in range(0, 12, 2)]
    assert pl.concat(answers)["action"].to_list() == whole["action"].to_pylist()
    assert campaign.verify().sound
    store.close()


@pytest.mark.slow
def test_killed_on_postgresql(postgres_url, nursery, tmp_path):
    """The same on a server: it sees a client vanish, and forgets what was not committed."""
    store = open_store(postgres_url)
    campaign, draw = created(store, grid={"sizes": [2_000] * 10}), random.Random(5)
    span, killed = 0.15, 0
    for wave in range(10):
        frame = units(2_000, start=2_000 * wave)
        frame.write_parquet(tmp_path / "units.parquet")
        arguments = {"units": tmp_path / "units.parquet", "out": tmp_path / f"{wave}.parquet"}
        [result] = nursery.run(
            order(postgres_url, "assign", die_after=draw.uniform(0, span), **arguments)
        )
        found = campaign.situation().units[wave]
        assert found in (0, 2_000)
        assert found == 2_000 or not result.get("done")
        killed += result["killed"]
        span *= 1.05 if result["killed"] else 0.6
        again = campaign.assign(frame).table
        if arguments["out"].exists():
            assert pl.read_parquet(arguments["out"]).equals(pl.from_arrow(again))
        nursery.run(order(postgres_url, "close", die_at=("commit", "before"), wave=wave + 1,
                          force=True, reason="test"))  # fmt: skip
        assert len(campaign.situation().closes) == wave
        campaign.close(force=True, reason="test")
    assert killed
    assert campaign.verify().sound
    store.close()
