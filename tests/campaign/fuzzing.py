"""Damaged and odd files, made by Hypothesis and passed to a campaign in a separate process.

A case is a valid file with a few changes to its bytes or structure. It must end in an answer or in
an error of the package, within ten seconds and a gigabyte; a traceback or the death of the process
is a failure.

Run as a module, it reads one order per line from standard input and answers each with one line.
"""

import datetime
import decimal
import gzip
import io
import json
import select
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path

import polars as pl
import psutil
import pyarrow as pa
import pyarrow.parquet
from hypothesis import strategies as st

from tests.campaign.instances import SPEC, units

ROOT = Path(__file__).parents[2]
#: Seconds that a case may take, and kilobytes that the process may ever hold.
PATIENCE, MEMORY = 10, 1 << 20
FORMATS = ("csv", "csv.gz", "parquet", "arrow", "stream.arrow")
CALLS = ("assign", "record", "init")
#: The campaign that units are assigned in: its wave is open for as many as come.
OPEN = {**SPEC, "grid": {"calendar": True, "waves": 2, "units": 1000}}
SPEC_TEXT = """\
name = "fuzzed"
seed = 7
unit = "id"
actions = ["none", "mail", "call"]
control = "none"
randomised = 0.2
floor = 0.02
[metrics.visit]
range = [-10, 10]
[metrics.calls]
kind = "count"
column = "calls"
unit = "calls"
absent = 0
after = "15 days"
rows = "count"
row_id = "calls"
date = "day"
within = "14 days"
guardrail = {at_most_control_plus = 0.1}
[objective]
maximise = {visit = 1}
[features]
interactions = [["age", "zip"]]
[features.numeric]
age = "learn"
spend = {mean = 10, sd = 5}
[features.categorical]
zip = ["urban", "rural"]
city = {hash = 4}
[grid]
sizes = [30, 20]
[policy]
kind = "ThompsonSampling"
samples = 64
"""
#: Numbers that offsets, lengths and counts are replaced by.
WORDS = (0, 1, 300, 2**16, 2**30, 2**31 - 1, 2**40, 2**62, 2**63 - 1, -1, -(2**31), -(2**63))
CELLS = (
    "", "NaN", "inf", "-1e400", "1e70", "1" * 400, '"', '""', "a\0b", "\ufeff", "é", "e\u0301",
    "\r", "\n", ",", ",,,,", "x" * 11_000, "'", "0", "true", "1979-05-27", "urban", "\x1c",
    "\u2028",
)  # fmt: skip
SETTINGS = (
    "true", "-1", "0", "1e400", "nan", "10000000000000000000000000000000", '""', "[]", "{}",
    "[[]]", "1979-05-27", '"\\u0000"', '["a", "a"]', "[1, [2]]", "{a = {b = 1}}", "0x" + "f" * 40,
    '"' + "x" * 300 + '"', "[" * 40 + "]" * 40, "2", "0.5", "[1]", '["id"]', "{hash = 5000}",
)  # fmt: skip
COLUMNS = (
    pa.nulls(20),
    pa.array([[1]] * 20),
    pa.array([{"a": 1}] * 20),
    pa.array([decimal.Decimal("1.5")] * 20),
    pa.array([datetime.date(2020, 1, 1)] * 20),
    pa.array([b"\xff"] * 20),
    pa.array(["x", None] * 10),
    pa.array(["x", None] * 10).dictionary_encode(),
    pa.array([1, None] * 10).dictionary_encode(),
    pa.array([True, None] * 10),
    pa.array([float("nan"), 1e300] * 10),
    pa.array([2**63 - 1, -(2**63)] * 10),
    pa.array(["é" * 6_000] * 20),
    pa.array(["view", "a view that is longer than twelve bytes"] * 10, type=pa.string_view()),
    pa.array(["large"] * 20, type=pa.large_string()),
    pa.array([1.5] * 20, type=pa.float32()),
    pa.array([1.5] * 20, type=pa.float16()),
    pa.array([datetime.timedelta(1)] * 20),
    pa.array([0] * 20, type=pa.time64("us")),
    pa.array([b"ab"] * 20, type=pa.binary(2)),
    pa.array([[("k", 1)]] * 20, type=pa.map_(pa.string(), pa.int64())),
)

places = st.floats(0, 1, allow_nan=False)
byte_changes = st.one_of(
    st.tuples(st.just("byte"), places, st.integers(0, 255)),
    st.tuples(st.just("word"), places, st.sampled_from(WORDS)),
    st.tuples(st.just("cut"), places, st.just(0)),
    st.tuples(st.just("twice"), places, st.integers(1, 64)),
    st.tuples(st.just("drop"), places, st.integers(1, 64)),
)
structural = st.one_of(
    st.tuples(st.just("cell"), places, st.sampled_from(CELLS)),
    st.tuples(st.just("column"), places, st.integers(0, len(COLUMNS) - 1)),
    st.tuples(st.just("again"), places, st.just(0)),
    st.tuples(st.just("rows"), places, st.just(0)),
)
settings_changes = st.one_of(
    st.tuples(st.just("setting"), places, st.sampled_from(SETTINGS)),
    st.tuples(st.just("line"), places, st.integers(0, 2)),
)
packings = st.sampled_from([None, "lz4", "zstd"])
files = st.tuples(
    st.sampled_from(CALLS),
    st.sampled_from(FORMATS),
    packings,
    st.lists(structural, max_size=2),
    st.lists(byte_changes, max_size=3),
)
specs = st.tuples(
    st.just("create"),
    st.just("toml"),
    st.none(),
    st.lists(settings_changes, max_size=3),
    st.lists(byte_changes, max_size=2),
)
cases = st.one_of(files, files, files, specs)


def content(call, file_format, packing, changes, bytes_changed):
    """Return the bytes of a case's file."""
    if call == "create":
        made = _spec(changes).encode(errors="replace")
    else:
        frame = units(20)
        if call == "record":
            frame = pl.DataFrame({"id": frame["id"], "visit": [0.5] * 20})
        made = _file(frame.to_arrow(), file_format, packing, changes)
    for change in bytes_changed:
        made = _changed(made, *change)
    return gzip.compress(made, mtime=0) if file_format == "csv.gz" else made


def _spec(changes):
    lines = SPEC_TEXT.splitlines()
    for kind, place, value in changes:
        row = int(place * (len(lines) - 1))
        if kind == "setting":
            lines[row] = f"{lines[row].partition('=')[0]}= {value}"
        else:
            lines[row : row + 1] = [lines[row]] * value
    return "\n".join(lines) + "\n"


def _file(table, file_format, packing, changes):
    for kind, place, value in changes:
        column = int(place * (table.num_columns - 1))
        name = table.column_names[column]
        if kind == "cell":
            cells = [str(cell) for cell in table.column(column).to_pylist()]
            cells[int(place * 1000) % 20 : int(place * 1000) % 20 + 1] = [value]
            table = table.set_column(column, name, pa.array(cells[:20]))
        elif kind == "column":
            table = table.set_column(column, name, COLUMNS[value])
        elif kind == "again":
            table = table.append_column(name, table.column(column))
        else:
            table = table.slice(0, int(place * 20))
            break
    return _written(table, file_format, packing)


def _written(table, file_format, packing):
    sink = io.BytesIO()
    if file_format.startswith("csv"):
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        lines = [table.column_names, *rows]
        return "\n".join(",".join(str(cell) for cell in line) for line in lines).encode()
    if file_format == "parquet":
        pa.parquet.write_table(table, sink, compression=packing or "none")
    else:
        maker = pa.ipc.new_stream if "stream" in file_format else pa.ipc.new_file
        with maker(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=packing)) as file:
            file.write_table(table)
    return sink.getvalue()


def _changed(made, kind, place, value):
    at = int(place * max(len(made) - 1, 0))
    match kind:
        case "byte":
            return made[:at] + bytes([value]) + made[at + 1 :]
        case "word":
            at -= at % 4
            form = "<i" if -(2**31) <= value < 2**31 else "<q"
            return made[:at] + struct.pack(form, value) + made[at + struct.calcsize(form) :]
        case "cut":
            return made[:at]
        case "twice":
            return made[: at + value] + made[at:]
        case _:
            return made[:at] + made[at + value :]


class Examiner:
    """The parent's end: a process that tries cases, and is watched."""

    def __init__(self, folder):
        self._folder = Path(folder)
        self.cases = self.refused = 0
        self._start()

    def _start(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaign.fuzzing", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdout.readline() == "ready\n"

    def examine(self, case):
        """Try a case; fail where it ends in anything but an answer or a refusal."""
        call, file_format = case[:2]
        path = self._folder / f"case.{file_format}"
        path.write_bytes(content(*case))
        answer = self.ask(call, path)
        self.cases += 1
        self.refused += "refused" in answer

    def ask(self, call, path):
        """Have a call made of a file; return the words of a refusal and the memory held."""
        self._process.stdin.write(json.dumps([call, str(path)]) + "\n")
        self._process.stdin.flush()
        if not self._answered():
            self._process.kill()
            self._restart()
            raise AssertionError(f"{call} of {path.name} took over {PATIENCE} seconds")
        line = self._process.stdout.readline()
        if not line:
            code = self._restart()
            raise AssertionError(f"{call} of {path.name} killed the process ({code})")
        answer = json.loads(line)
        assert "trace" not in answer, answer["trace"]
        assert answer["memory"] < MEMORY, f"{answer['memory']:,} kilobytes were held"
        return answer

    def _answered(self):
        """Wait; not by the clock alone, since other programs may have the processor meanwhile."""
        watched = psutil.Process(self._process.pid)
        began, spent = time.monotonic(), sum(watched.cpu_times()[:2])
        while not select.select([self._process.stdout], [], [], 1)[0]:
            worked = sum(watched.cpu_times()[:2]) - spent
            if worked > PATIENCE or time.monotonic() - began > 30 * PATIENCE:
                return False
        return True

    def _restart(self):
        code = self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._start()
        return code

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


def _peak():
    """Return the most memory that this program held since it was last forgotten, in KiB.

    Not by getrusage, which counts what the process was before it became this program.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    [line] = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1])


def _tried(call, path, campaign):
    from seqbatch.campaign import Campaign
    from seqbatch.campaign.spec.template import starting_spec
    from seqbatch.errors import SeqbatchError

    try:
        if call == "init":
            starting_spec(path)
        elif call == "create":
            Campaign.create(path, store=campaign.store)
        else:
            getattr(campaign, call)(path)
    except SeqbatchError as error:
        return {"refused": str(error)}
    except BaseException:
        return {"trace": traceback.format_exc()}
    return {}


def main(folder):
    from seqbatch.campaign import Campaign
    from seqbatch.storage import open_store

    store = open_store(Path(folder) / "fuzzed.db")
    if not store.names():
        Campaign.create(OPEN, store=store).assign(units(20))
    campaign = Campaign.open("spring", store=store)
    print("ready", flush=True)
    for line in sys.stdin:
        call, path = json.loads(line)
        # What earlier cases held at most is forgotten.
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        answer = _tried(call, path, campaign)
        answer["memory"] = _peak()
        print(json.dumps(answer), flush=True)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1])
