"""Files that crash, stop or exhaust their reader are refused, and the process goes on."""

import os
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import polars as pl
import psutil
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from seqbatch.campaign.files import reader_process
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.files.unpacked_size import parquet_columns
from seqbatch.cli.app import app
from tests.campaign.files.damaged_files import COLUMNS, ENDINGS, crashing, examine_many, whole
from tests.campaign.instances import units
from tests.refusals import refused


def read(path):
    with Source(path) as source:
        return pa.Table.from_batches(source.batches(source.columns()))


@pytest.fixture
def large(tmp_path):
    """A file of many pieces: more than a pipe holds."""
    table = pa.table({"id": [f"{n:064}" for n in range(300_000)]})
    pa.parquet.write_table(table, tmp_path / "large.parquet")
    return tmp_path / "large.parquet"


@pytest.fixture
def small(tmp_path):
    units(20).write_parquet(tmp_path / "small.parquet")
    return tmp_path / "small.parquet"


@pytest.fixture
def waiting(small):
    """The child that reads the next file."""
    read(small)
    return reader_process._waiting[-1]


def test_a_file_that_aborts_pyarrow_is_refused(tmp_path, small):
    path = tmp_path / "units.parquet"
    path.write_bytes(crashing(units(20).to_arrow()))
    reading = (
        "import sys, pyarrow.parquet as pq, resource\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "pq.ParquetFile(sys.argv[1]).metadata.row_group(0).column(0)"
    )
    done = subprocess.run([sys.executable, "-c", reading, path], stderr=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGABRT
    with refused("unreadable-file", match=r"units\.parquet[^$]*SIGABRT"):
        read(path)
    assert read(small).num_rows == 20


def test_the_command_line_refuses_it_with_exit_code_2(tmp_path):
    path = tmp_path / "units.parquet"
    path.write_bytes(crashing(units(20).to_arrow()))
    done = CliRunner().invoke(
        app, ["campaign", "init", str(path), "--out", str(tmp_path / "s.toml")]
    )
    assert done.exit_code == 2
    assert "units.parquet" in done.output.replace("\n", "")
    assert "SIGABRT" in done.output


def test_a_child_that_stops_is_ended(large, waiting, monkeypatch):
    monkeypatch.setattr(reader_process, "SECONDS", 0.5)
    os.killpg(waiting._process.pid, signal.SIGSTOP)
    with refused("unreadable-file", match=r"more than 0\.5 seconds"):
        read(large)
    assert not waiting.alive
    monkeypatch.undo()
    assert read(large).num_rows == 300_000


def test_a_file_that_takes_too_much_memory_is_refused(large, small, monkeypatch):
    monkeypatch.setattr(reader_process, "MEMORY", 1 << 20)
    monkeypatch.setattr(reader_process, "MEMORY_PER_BYTE", 0)
    with refused("unreadable-file"):
        read(large)
    monkeypatch.undo()
    assert read(small).num_rows == 20


def test_a_child_that_is_killed_half_way(large, waiting):
    with Source(large) as source:
        pieces = source.batches(["id"])
        next(pieces)
        os.killpg(waiting._process.pid, signal.SIGKILL)
        with refused("unreadable-file", match="SIGKILL"):
            list(pieces)
    assert read(large).num_rows == 300_000


def test_a_child_that_ended_while_it_waited_is_replaced(small, waiting):
    os.killpg(waiting._process.pid, signal.SIGKILL)
    waiting._process.wait()
    assert read(small).num_rows == 20


def test_an_abandoned_reading_ends_its_child(large, small, waiting):
    with Source(large) as source:
        pieces = source.batches(["id"])
        next(pieces)
        pieces.close()
    assert not waiting.alive
    assert waiting not in reader_process._waiting
    assert read(small).num_rows == 20


def test_a_child_stays_for_the_next_file(tmp_path, small, waiting):
    (tmp_path / "damaged.parquet").write_bytes(small.read_bytes()[:-20])
    with refused("invalid-rows", match="cannot be read as parquet"):
        read(tmp_path / "damaged.parquet")
    for _ in range(3):
        assert read(small).num_rows == 20
    assert reader_process._waiting[-1] is waiting
    assert waiting.alive


def test_threads_read_at_the_same_time(tmp_path):
    for n in range(8):
        units(100 * n + 1).write_parquet(tmp_path / f"{n}.parquet")
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(read, [tmp_path / f"{n}.parquet" for n in range(8)] * 3)
        assert [table.num_rows for table in found] == [100 * n + 1 for n in range(8)] * 3
    assert len(reader_process._waiting) <= reader_process.KEPT


def test_a_forked_process_starts_children_of_its_own(small, waiting):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        if not (child := os.fork()):
            done = False
            try:
                done = not reader_process._waiting and read(small).num_rows == 20
                reader_process._end_all()
            finally:
                os._exit(not done)
    assert os.waitpid(child, 0)[1] == 0
    assert waiting.alive
    assert read(small).num_rows == 20
    assert reader_process._waiting[-1] is waiting


def test_children_end_when_their_parent_is_killed(small):
    packages = reader_process._START.partition("from seqbatch")[0]
    script = (
        f"{packages}\nfrom pathlib import Path\n"
        "from seqbatch.campaign.files import reader_process\n"
        f"reader_process.describe(Path({str(small)!r}), 'parquet')\n"
        "print(reader_process._waiting[-1]._process.pid, flush=True)\n"
        "input()"
    )
    folder, paths = str(Path(reader_process.__file__).parents[2]), repr(sys.path).replace("'", '"')
    parent = subprocess.Popen(
        [sys.executable, "-c", script, folder, paths],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with parent:
        child = psutil.Process(int(parent.stdout.readline()))
        processes = [child, *child.children()]
        parent.kill()
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert not alive


def test_a_child_that_cannot_start_is_not_the_files_fault(small, monkeypatch):
    for reader in reader_process._waiting:
        reader.end()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with refused("reader-failed", match="/bin/false"):
        read(small)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with refused("reader-failed", match="/no/such/python"):
        read(small)


def test_a_relative_path_is_the_callers(tmp_path, waiting, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    units(7).write_parquet(tmp_path / "elsewhere" / "é.parquet")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert waiting.alive
    assert read("é.parquet").num_rows == 7


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_type_is_read_as_in_this_process(tmp_path, ending):
    path = tmp_path / f"units.{ending}"
    read_types = set()
    for place, column in enumerate(COLUMNS):
        content = whole({"x": column}, ending, packing=[None, "zstd"][place % 2])
        if content is not None:
            path.write_bytes(content)
            if ending == "parquet":
                expected = pa.Table.from_batches(pa.parquet.ParquetFile(path).iter_batches())
            else:
                opened = pa.ipc.open_stream if "stream" in ending else pa.ipc.open_file
                expected = opened(pa.BufferReader(content)).read_all()
            found = read(path)
            if pa.types.is_map(column.type):
                # Arrow's streams give the parts of a map their usual names.
                assert found.to_pylist() == expected.to_pylist()
            else:
                assert found.schema.equals(expected.schema, check_metadata=True)
                # Days lose their time of day.
                assert column.type == pa.date64() or found.equals(expected)
            read_types.add(str(column.type))
    assert len(read_types) > 40


@pytest.mark.slow
def test_damaged_files_give_rows_or_a_refusal(tmp_path):
    refusals, unreadable = examine_many(range(300), tmp_path)
    # Every kind of end was reached.
    assert 0 < unreadable < refusals < 300


def test_a_parquet_file_of_very_many_columns_is_refused_before_its_footer_is_read(tmp_path):
    path = tmp_path / "wide.parquet"
    nested = pa.struct([(f"c{n}", pa.int8()) for n in range(20_000)])
    pa.parquet.write_table(pa.table({"id": pa.array([], nested)}), path)
    with refused("invalid-rows", problem="too-many-columns", match="20,000 columns.*20,001"):
        read(path)
    # The rest of the footer is not looked at: it may be damaged, and it may be very long.
    content = path.read_bytes()
    place = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[: place + 40] + bytes(len(content) - place - 48) + content[-8:])
    with refused("invalid-rows", problem="too-many-columns"):
        read(path)


@pytest.mark.parametrize("count", [1, 13, 14, 15, 127, 128, 300])
def test_the_columns_of_a_footer_are_counted(tmp_path, count):
    table = pa.table({f"c{n}": [1] for n in range(count)})
    path = str(tmp_path / "u.parquet")
    for write in (
        lambda: pa.parquet.write_table(table, path),
        lambda: pl.from_arrow(table).write_parquet(path),
        lambda: duckdb.from_arrow(table).write_parquet(path),
    ):
        write()
        assert parquet_columns(path) == count


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\xff" * 20, b"\x15\x04\x19\x0c" + bytes(40)])
def test_a_footer_that_begins_in_an_unknown_way_has_no_columns(tmp_path, content):
    path = tmp_path / "u.parquet"
    path.write_bytes(content)
    assert parquet_columns(str(path)) <= 0
    with refused("invalid-rows", problem="unreadable"):
        read(path)
