"""Every engine gives the same results, survives the death of a process, and says what failed."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from seqbatch.engine import as_completed, merge_tree, open_engine, over_batches
from seqbatch.errors import EngineError
from tests.engine import pieces
from tests.refusals import refused

ROOT = Path(__file__).parents[2]


def test_every_piece_has_its_result(engine):
    found = dict(as_completed(engine, pieces.square, range(50)))
    assert found == {place: place * place for place in range(50)}
    assert dict(as_completed(engine, pieces.square, [])) == {}


def test_work_is_done_in_several_processes(cluster, tmp_path):
    found = set(dict(as_completed(cluster, pieces.pid_of_two, [str(tmp_path)] * 6)).values())
    assert len(found) == 2
    assert os.getpid() not in found


def test_results_of_batches_come_in_order_and_few_are_read_ahead(cluster):
    read = []

    def batches():
        for number in range(200):
            read.append(number)
            yield number

    results = over_batches(cluster, pieces.slow_at_first, batches())
    assert next(results) == 0
    assert len(read) <= 3 * cluster.room
    assert list(results) == list(range(1, 200))


def test_statistics_are_merged_to_the_same_bits(engine):
    numbers = [0.1 * k for k in range(1000)]
    table = pa.table({"x": numbers})
    batches = table.to_batches(max_chunksize=7)
    found = merge_tree(lambda a, b: a + b, over_batches(engine, pieces.half_gram, batches))
    assert found == merge_tree(lambda a, b: a + b, map(pieces.half_gram, batches))


def test_the_tree_depends_on_the_number_of_values_alone():
    def tree(count):
        return merge_tree(lambda a, b: (a, b), range(count))

    assert tree(1) == 0
    assert tree(2) == (0, 1)
    assert tree(7) == (((0, 1), (2, 3)), ((4, 5), 6))
    with pytest.raises(ValueError, match="nothing to merge"):
        tree(0)


def test_an_error_comes_back_as_it_is_and_names_its_piece(engine):
    with pytest.raises(ZeroDivisionError, match="three cannot be done") as caught:
        list(as_completed(engine, pieces.failing, range(8)))
    assert caught.value.__notes__ == ["In piece 4."]
    # The engine is as good as before.
    assert list(over_batches(engine, pieces.square, [4, 5])) == [16, 25]


def test_an_error_that_cannot_travel_comes_back_as_text(cluster):
    with pytest.raises(EngineError, match="StubbornError: this and that"):
        list(as_completed(cluster, pieces.stubborn, [1]))


def test_what_cannot_be_sent_to_a_process_is_refused_in_words(engines):
    with refused("invalid-argument", field="the work for another process"):
        list(as_completed(engines("local-2"), lambda piece: piece, [1]))


def test_what_cannot_be_sent_back_is_an_error(engines):
    with pytest.raises(Exception, match=r"[Pp]ickle"):
        list(as_completed(engines("local-2"), pieces.unpicklable, [1]))


def test_a_killed_process_costs_nothing_but_time(cluster, tmp_path):
    work = [(number, str(tmp_path)) for number in range(12)]
    found = list(over_batches(cluster, pieces.dying_once, work))
    assert found == [number * number for number in range(12)]
    assert (tmp_path / "died").exists()


def test_a_piece_that_kills_every_process_is_given_up(engines):
    with refused("process-lost", match="3 times") as caught:
        list(as_completed(engines("local-2"), pieces.dying, range(3)))
    assert caught.value.__notes__ == ["In piece 2."]


@pytest.mark.parametrize("name", ["local-2", "dask"])
def test_an_interrupt_is_left_to_the_process_that_started_the_others(engines, name):
    found = dict(as_completed(engines(name), pieces.ignores_interrupts, range(8)))
    assert set(found.values()) == {True}


def test_an_interrupt_does_not_reach_a_process_that_is_being_started():
    before = set(active_children())
    with open_engine("local", jobs=2) as engine:
        future = engine.submit(pieces.square, 3)
        (child,) = set(active_children()) - before
        os.kill(child.pid, signal.SIGINT)
        # By the first process: the future of one that was ended would raise.
        assert engine.outcome(future).value == 9


def test_processes_end_with_the_engine():
    with open_engine("local", jobs=2) as engine:
        found = set(dict(as_completed(engine, pieces.pid, range(6))).values())
        assert all(psutil.pid_exists(number) for number in found)
    assert not any(psutil.pid_exists(number) for number in found)


def test_processes_end_at_the_same_time(tmp_path):
    with open_engine("local", jobs=2) as engine:
        dict(as_completed(engine, pieces.ends_in_company, [str(tmp_path)] * 2))
    assert len(list(tmp_path.glob("* met"))) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not told to stop there")
def test_processes_at_work_stop_at_the_same_time(tmp_path):
    with open_engine("local", jobs=2) as engine:
        futures = [engine.submit(pieces.stops_in_company, str(tmp_path)) for _ in range(2)]
        while len(list(tmp_path.glob("* at work"))) < 2:
            time.sleep(0.01)
        engine.forget(futures)
    assert len(list(tmp_path.glob("* met"))) == 2


KILLED = """
import time
from seqbatch.engine import as_completed, open_engine
from tests.engine.pieces import pid_of_two

if __name__ == "__main__":
    with open_engine("local", jobs=2) as engine:
        print(*dict(as_completed(engine, pid_of_two, ["here"] * 2)).values(), flush=True)
        time.sleep(60)
"""


def test_processes_end_with_one_that_is_killed(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "killed.py").write_text(KILLED, encoding="utf-8")
    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "killed.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), path])},
    )  # fmt: skip
    workers = [psutil.Process(int(number)) for number in process.stdout.readline().split()]
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert (len(workers), alive) == (2, [])


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_clusters_started_here_listen_on_loopback_alone(engines, name):
    list(as_completed(engines(name), pieces.square, range(4)))
    me = psutil.Process()
    addresses = set()
    for process in (me, *me.children(recursive=True)):
        try:
            found = process.net_connections("inet")
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        addresses |= {one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN}
    assert addresses
    assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_an_engine_that_is_not_installed_says_how_to_install_it(monkeypatch, kind):
    module = {"dask": "distributed", "ray": "ray"}[kind]
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"seqbatch.engine.{kind}", raising=False)
    with refused("not-installed", field="engine"), open_engine(kind):
        pass


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_an_address_where_nobody_listens_is_refused_at_once(kind):
    start = time.monotonic()
    with (
        refused("not-reached", field="engine", match=f"{kind}://127.0.0.1:9"),
        open_engine(f"{kind}://127.0.0.1:9"),
    ):
        pass
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("name", ["spark", "dask://", "ray://here", "local://x:1", "dask://x:port"])
def test_a_name_that_is_none_is_refused(name):
    with refused("invalid-argument", field="engine"), \
            open_engine(name):  # fmt: skip
        pass


def test_the_number_of_processes_of_a_cluster_is_its_own():
    with open_engine("local") as engine, \
            refused("invalid-argument", field="jobs"), \
            open_engine(engine, jobs=2):  # fmt: skip
        pass
    with refused("invalid-argument", field="jobs"), \
            open_engine("dask://127.0.0.1:9", jobs=2):  # fmt: skip
        pass
