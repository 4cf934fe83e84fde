"""A wave of millions on a lake, beside the same wave in SQLite: assign, record, close and verify.

``python -m benchmarks.lake`` measures 10 million units, or the number given after it, and writes
its table into docs/lake.md. Every call runs in a separate process, to measure its peak memory, and
both stores get the same files: 20 numbers, 5 categories and 4 actions, in Parquet, with ids in
random order. It measures the second wave, after a small first one, because only then
scores are computed.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

UNITS, FIRST, NUMBERS, CATEGORIES, LEVELS = 10_000_000, 20_000, 20, 5, 5
ACTIONS = ("a", "b", "c", "d")
CALLS = ("assign", "record", "close", "verify")
PAGE = Path("docs/lake.md")
BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"
#: Rows of the files that are made at once.
PIECE = 250_000


def spec(units: int) -> dict[str, Any]:
    """Return the campaign's spec; draws and sums are the defaults of each store."""
    return {
        "name": "large",
        "seed": 1,
        "unit": "id",
        "actions": list(ACTIONS),
        "randomised": 0.05,
        "floor": 0.01,
        "metrics": {"y": {"range": [-10, 10]}},
        "objective": {"maximise": "y"},
        "features": {
            "numeric": {f"x{n}": "learn" for n in range(NUMBERS)},
            "categorical": {f"c{n}": [f"l{k}" for k in range(LEVELS)] for n in range(CATEGORIES)},
        },
        "grid": {"sizes": [FIRST, units]},
    }


def write_units(path: Path, wave: int, count: int) -> None:
    """Write a wave of units with ids in random order."""
    random = np.random.default_rng(wave)
    order, levels = random.permutation(count), pa.array([f"l{k}" for k in range(LEVELS)])
    writer = None
    for start in range(0, count, PIECE):
        some = order[start : start + PIECE]
        columns: dict[str, Any] = {"id": pa.array([f"C{wave}{number:09d}" for number in some])}
        for n in range(NUMBERS):
            columns[f"x{n}"] = random.standard_normal(len(some))
        for n in range(CATEGORIES):
            codes = random.integers(0, LEVELS, len(some)).astype(np.int32)
            columns[f"c{n}"] = pa.DictionaryArray.from_arrays(codes, levels).dictionary_decode()
        table = pa.table(columns)
        writer = writer or pa.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=131_072)
    assert writer is not None
    writer.close()


def write_outcomes(path: Path, answers: Path, wave: int) -> None:
    """Write an outcome for every answer."""
    random, writer = np.random.default_rng(wave), None
    for batch in pa.parquet.ParquetFile(answers).iter_batches(PIECE, columns=["id"]):
        values = np.clip(random.standard_normal(batch.num_rows), -10, 10)
        table = pa.table({"id": batch.column("id"), "y": values})
        writer = writer or pa.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def call(url: str, folder: Path, what: str, wave: int) -> None:
    """Make one call in this process, and print its time and memory."""
    from seqbatch.campaign import Campaign
    from seqbatch.storage import open_store

    store = open_store(url)
    campaign = Campaign.open("large", store=store)
    answers, outcomes = folder / "answers.parquet", folder / "outcomes.parquet"
    start = time.perf_counter()
    if what == "assign":
        campaign.assign(folder / f"units{wave}.parquet", out=answers, force=True)
    elif what == "record":
        campaign.record(outcomes)
    elif what == "close":
        campaign.close()
    elif not (found := campaign.verify()).sound:
        raise SystemExit(str(found.findings[:3]))
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    store.close()
    busy = used.ru_utime + used.ru_stime
    print(json.dumps({"seconds": seconds, "busy": busy, "memory": used.ru_maxrss * 1024}))


def measure(url: str, folder: Path, units: int) -> dict[str, dict[str, float]]:
    """Run two waves on a store; return the measurements of the second."""
    from seqbatch.campaign import Campaign
    from seqbatch.storage import open_store

    store = open_store(url)
    Campaign.create(spec(units), store=store)
    store.close()
    found: dict[str, dict[str, float]] = {}
    for wave in (1, 2):
        for what in CALLS if wave == 2 else CALLS[:3]:
            command = [sys.executable, "-m", "benchmarks.lake", "call", url, str(folder), what]
            done = subprocess.run([*command, str(wave)], stdout=subprocess.PIPE, check=True)
            found[what] = json.loads(done.stdout.splitlines()[-1])
            if what == "assign":
                write_outcomes(folder / "outcomes.parquet", folder / "answers.parquet", wave)
    return found


def table(units: int, lake: dict[str, Any], sqlite: dict[str, Any]) -> list[str]:
    """Return the measurements as a table."""
    lines = [
        f"{units:,} units, {NUMBERS} numbers, {CATEGORIES} categories, {len(ACTIONS)} actions, "
        f"{os.cpu_count()} cores",
        "",
        "| call | lake, rows/s | SQLite, rows/s | ratio | lake, busy s | SQLite, busy s | "
        "lake, peak | SQLite, peak |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for what in CALLS:
        one, two = lake[what], sqlite[what]
        cells = [
            what,
            f"{units / one['seconds']:,.0f}",
            f"{units / two['seconds']:,.0f}",
            f"{two['seconds'] / one['seconds']:.1f}",
            f"{one['busy']:.1f}",
            f"{two['busy']:.1f}",
            f"{one['memory'] / 2**20:,.0f} MiB",
            f"{two['memory'] / 2**20:,.0f} MiB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main(units: int) -> None:
    """Measure both stores, print the table, and write it into the page."""
    with tempfile.TemporaryDirectory(prefix="seqbatch-bench-") as name:
        folder = Path(name)
        write_units(folder / "units1.parquet", 1, FIRST)
        write_units(folder / "units2.parquet", 2, units)
        lake = measure(f"lake:{folder / 'lake'}", folder, units)
        sqlite = measure(str(folder / "large.db"), folder, units)
    lines = table(units, lake, sqlite)
    print("\n".join(lines))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    made = "\n".join([BEGIN, "", *lines, "", END])
    PAGE.write_text(before + made + after, encoding="utf-8")
    print(f"Written to {PAGE}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["call"]:
        call(sys.argv[2], Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else UNITS)
