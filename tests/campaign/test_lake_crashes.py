"""A lake that is killed, full or broken: the whole call happened, or nothing did."""

import errno
import random
import shutil

import pytest

from tests.campaign.crashing import LAKE_FAULTS, Nursery, order
from tests.campaign.stages import CALLS, examine, prepare
from tests.campaign.torture import library
from tests.cases import thorough


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("stages"), count=500, lake=True)


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    """A nursery whose writes can be made to fail, where there is a compiler."""
    shim = library(tmp_path_factory.mktemp("faults"))
    made = Nursery({"LD_PRELOAD": str(shim)} if shim else None)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("step", LAKE_FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_killed_at_a_point(stages, nursery, tmp_path, call, step):
    """Before a step in one copy, after it in another; the next call sweeps what was left."""
    stage = stages[call]
    for when in ("before", "after"):
        folder = tmp_path / when
        folder.mkdir()
        url, arguments = stage.copied(folder), stage.full(folder)
        [result] = nursery.run(order(url, call, die_at=(step, when), **arguments))
        kept = examine(url, stage, acknowledged=result.get("done"), out=arguments.get("out"))
        if result["killed"] and step in ("write file", "publish files", "add_event"):
            assert not kept


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_killed_at_any_moment(stages, nursery, tmp_path, call):
    """Two kills of each call that hit it while it ran."""
    stage, draw = stages[call], random.Random(call)
    span, killed = 0.1, 0
    for attempt in range(60):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        url, arguments = stage.copied(folder), stage.full(folder)
        [result] = nursery.run(order(url, call, die_after=draw.uniform(0, span), **arguments))
        examine(url, stage, acknowledged=result.get("done"), out=arguments.get("out"))
        shutil.rmtree(folder)
        killed += result["killed"]
        span *= 1.05 if result["killed"] else 0.85
        if killed == 2:
            break
    assert killed == 2


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.EIO, *thorough(errno.ENOSPC)])
@pytest.mark.parametrize("call", CALLS)
def test_writes_that_fail(stages, nursery, tmp_path, call, code):
    stage = stages[call]
    (tmp_path / "all").mkdir()
    url, arguments = stage.copied(tmp_path / "all"), stage.full(tmp_path / "all")
    [result] = nursery.run(order(url, call, fail=(-1, 0, "copy.lake"), **arguments))
    if (writes := result["writes"]) is None:
        pytest.skip("no C compiler here to make the library that lets writes fail")
    assert writes > 3
    for number in range(0, writes, max(1, writes // 4)):
        folder = tmp_path / str(number)
        folder.mkdir()
        url, arguments = stage.copied(folder), stage.full(folder)
        [result] = nursery.run(order(url, call, fail=(number, code, "copy.lake"), **arguments))
        assert not result["killed"]
        # A disk that fails during the commit leaves open whether the change was stored.
        unsure = result.get("error") == "UncertainCommitError"
        if not result.get("done"):
            assert result["error"] == "StoreError" or unsure
            assert ("Nothing was changed" in result["message"]) != unsure
        kept = examine(url, stage, acknowledged=result.get("done"), out=arguments.get("out"))
        assert unsure or kept == bool(result.get("done"))
        shutil.rmtree(folder)
