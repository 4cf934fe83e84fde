"""Sweeps, comparisons and figures on every engine: the same bytes, resumed, interrupted."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from seqbatch.cli.app import app
from seqbatch.engine import as_completed, open_engine
from seqbatch.environments import logged_table
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies import SBPE
from seqbatch.simulation import Line, Study, run_tasks
from tests.engine.conftest import NAMES
from tests.engine.pieces import square
from tests.simulation.test_study import TWO, arguments
from tests.studies import runs_of

SPEC = """
seed = 5
trials = 3
horizons = [300]
[environments.sphere]
kind = "Sphere"
dim = 2
actions = 2
[policies.own]
kind = "beside_the_spec.Own"
grid = {kind = "minimax", batches = 2}
"""
SEQBATCH = Path(sys.executable).with_name("seqbatch")


@dataclass(frozen=True)
class Deadly:
    """A task that kills its process once."""

    number: int
    folder: str

    @property
    def name(self):
        return f"task {self.number}"

    def __call__(self):
        mark = Path(self.folder) / "died"
        if self.number == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [{"number": self.number, "third": self.number / 3}]


@pytest.mark.slow
def test_a_sweep_has_the_same_bytes_on_every_engine(engines, tmp_path):
    found = set()
    for name in NAMES:
        runs_of(**arguments(trials=2), out=tmp_path / name, engine=engines(name))
        found.add((tmp_path / name / "results.parquet").read_bytes())
    assert len(found) == 1


def test_a_run_survives_the_death_of_a_process_and_is_resumed_on_another_engine(engines, tmp_path):
    def run(name, count, report=lambda _: None):
        tasks = [Deadly(number, str(tmp_path)) for number in range(count)]
        return run_tasks(
            tasks, out=tmp_path / "run", declaration=1, engine=engines(name), report=report
        )

    first = run("local-2", 4)
    assert (tmp_path / "died").exists()
    assert first["number"].to_list() == [0, 1, 2, 3]
    seen = []
    longer = run("dask", 6, seen.append)
    assert longer[:4].equals(first)
    assert [(p.done, p.resumed) for p in seen] == [(4, 4), (5, 4), (6, 4)]


def test_the_error_of_a_trial_names_it(engines, tmp_path):
    for name in ("local-1", "local-2"):
        # Its units end before enough of them have matched.
        short = logged_table(np.ones((40, 1)), np.arange(40) % 2, np.ones(40), arms=2)
        broken = {"environments": {"log": short}, "policies": {"a": Line(SBPE(), TWO)}}
        with pytest.raises(InvalidArgumentError) as caught:
            runs_of(**broken, horizons=[40], trials=1, out=tmp_path / name, engine=engines(name))
        assert caught.value.__notes__[-1] == "In log/0."


@pytest.mark.slow
def test_a_comparison_with_a_policy_beside_the_spec_is_the_same_everywhere(engines, beside):
    spec = beside / "comparison.toml"
    spec.write_text(SPEC, encoding="utf-8")
    found = set()
    for name in NAMES:
        Study.load(spec).run(beside / name / "run", engine=engines(name)).save(beside / name)
        found.add((beside / name / "results.csv").read_bytes())
    assert len(found) == 1


@pytest.mark.slow
def test_a_cluster_is_reached_by_its_address_and_left_as_it_is(engines, tmp_path):
    cluster = engines("dask")
    address = cluster._client.scheduler.address.removeprefix("tcp://")
    common = arguments(policies={"a": Line(SBPE(), TWO)}, trials=1)
    far = runs_of(**common, out=tmp_path / "far", engine=f"dask://{address}")
    assert far.equals(runs_of(**common, out=tmp_path / "near"))
    assert dict(as_completed(cluster, square, [3])) == {0: 9}


def ended(group):
    """Wait for all processes of a group; return whether they ended."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_an_interrupt_ends_every_process(tmp_path):
    spec = tmp_path / "comparison.toml"
    text = SPEC.replace("beside_the_spec.Own", "SBPE").replace("trials = 3", "trials = 3000")
    spec.write_text(text.replace("[300]", "[60000]"), encoding="utf-8")
    command = [str(SEQBATCH), "simulate", str(spec), "--jobs", "2",
               "--out", str(tmp_path / "out")]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    parts = tmp_path / "out" / "run" / "parts"
    while process.poll() is None and not (parts.exists() and any(parts.glob("*.parquet"))):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "run the same command again to resume" in said
    assert "Traceback" not in said
    assert ended(process.pid)
    assert not (tmp_path / "out" / "results.csv").exists()


def test_the_option_is_refused_where_it_is_wrong(tmp_path):
    spec = tmp_path / "comparison.toml"
    spec.write_text(SPEC.replace("beside_the_spec.Own", "SBPE"), encoding="utf-8")
    words = ["simulate", str(spec), "--engine", "spark", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "--engine must be one of local, dask, ray" in done.stderr


def test_nothing_is_started_for_a_run_that_is_done(tmp_path):
    run_tasks([Deadly(0, str(tmp_path))], out=tmp_path / "run", declaration=1)
    again = [Deadly(0, str(tmp_path))]
    run_tasks(again, out=tmp_path / "run", declaration=1, engine="dask://127.0.0.1:9")
    with open_engine("local") as engine:
        assert engine.room == 1
