"""A campaign of a million units: assign, record and close, on both stores.

Each store runs in a separate process, to measure its peak memory. `python -m benchmarks.campaign`
runs only this benchmark and replaces its section of the page.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

UNITS, NUMBERS, CATEGORIES, LEVELS = 1_000_000, 20, 5, 5
ACTIONS = ("a", "b", "c", "d")
PAGE, HEAD = Path("docs/benchmarks.md"), "## Campaigns"
SPEC: dict[str, Any] = {
    "name": "large",
    "seed": 1,
    "unit": "id",
    "actions": list(ACTIONS),
    "randomised": 0.05,
    "floor": 0.01,
    "metrics": {"y": {}},
    "objective": {"maximise": "y"},
    "features": {
        "numeric": {f"x{n}": "learn" for n in range(NUMBERS)},
        "categorical": {f"c{n}": [f"l{k}" for k in range(LEVELS)] for n in range(CATEGORIES)},
    },
    "grid": {"sizes": [UNITS, UNITS]},
}


def write_units(path: Path, wave: int) -> None:
    """Write a wave of units with ids in random order."""
    random = np.random.default_rng(wave)
    columns: dict[str, Any] = {
        "id": pa.array([f"C{wave}{number:08d}" for number in random.permutation(UNITS)])
    }
    for n in range(NUMBERS):
        columns[f"x{n}"] = random.standard_normal(UNITS)
    for n in range(CATEGORIES):
        codes = random.integers(0, LEVELS, UNITS).astype(np.int32)
        levels = pa.array([f"l{k}" for k in range(LEVELS)])
        columns[f"c{n}"] = pa.DictionaryArray.from_arrays(codes, levels).dictionary_decode()
    pa.parquet.write_table(pa.table(columns), path, row_group_size=131_072)


def measure(url: str, folder: Path) -> dict[str, Any]:
    """Run two waves; return the seconds of their calls, and the peak memory."""
    from seqbatch.campaign import Campaign
    from seqbatch.storage import open_store

    store = open_store(url)
    campaign = Campaign.create(SPEC, store=store)
    result: dict[str, Any] = {}
    for wave in (1, 2):
        for call, made in _calls(campaign, folder, wave):
            start = time.perf_counter()
            made()
            result[f"{call} {wave}"] = time.perf_counter() - start
    result["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    store.close()
    return result


def _calls(campaign: Any, folder: Path, wave: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    answers, outcomes = folder / "answers.parquet", folder / "outcomes.parquet"
    units = folder / f"units{wave}.parquet"
    yield "assign", lambda: campaign.assign(units, out=answers, force=True)
    ids = pa.parquet.read_table(answers, columns=["id"])
    values = np.random.default_rng(wave).standard_normal(UNITS)
    pa.parquet.write_table(ids.append_column("y", pa.array(values)), outcomes)
    del ids, values
    yield "record", lambda: campaign.record(outcomes)
    yield "close", lambda: campaign.close()


@contextmanager
def postgres(folder: Path) -> Iterator[str | None]:
    """Run a separate PostgreSQL with default settings; None if it cannot start."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pgserver.postgres_server import get_server

            folder.chmod(0o755)
            server = get_server(folder / "postgres", cleanup_mode="stop")
    except Exception as error:  # whatever is missing, the other store can be measured
        print(f"  no PostgreSQL: {error}")
        yield None
        return
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def section() -> list[str]:
    """Measure, and return the page's section."""
    lines = [
        HEAD,
        "",
        f"{UNITS:,} units a wave with {NUMBERS} numeric and {CATEGORIES} categorical columns and "
        f"{len(ACTIONS)} actions, from Parquet to Parquet, ids in random order; SBPE. Each call is "
        "one transaction, synced to disk. Aims: assign and record at least 100,000 units a second "
        "on SQLite, close in under 5 seconds, peak memory under 1 GiB; PostgreSQL within 2 times.",
        "",
        "| store | call | seconds, waves 1 and 2 | units/second | peak memory |",
        "|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory(prefix="seqbatch-bench-") as name:
        folder = Path(name)
        for wave in (1, 2):
            write_units(folder / f"units{wave}.parquet", wave)
        lines += _rows("SQLite", str(folder / "large.db"), folder)
        with postgres(folder) as url:
            if url is not None:
                lines += _rows("PostgreSQL", url, folder)
        shutil.rmtree(folder / "postgres", ignore_errors=True)
    return lines


def _rows(label: str, url: str, folder: Path) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.campaign", url, str(folder)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    result = json.loads(done.stdout.splitlines()[-1])
    lines = []
    for call in ("assign", "record", "close"):
        seconds = [result[f"{call} {wave}"] for wave in (1, 2)]
        cells = [
            label,
            call,
            ", ".join(f"{each:.1f}" for each in seconds),
            ", ".join(f"{UNITS / each:,.0f}" for each in seconds),
            f"{result['memory'] / 2**20:,.0f} MiB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
        print(f"  {lines[-1]}", flush=True)
    return lines


def main() -> None:
    """Measure one store for the parent process, or all stores for the page."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
        return
    before = PAGE.read_text(encoding="utf-8").partition(HEAD)[0].rstrip()
    PAGE.write_text(before + "\n\n" + "\n".join(section()) + "\n", encoding="utf-8")
    print(f"Written to {PAGE}")


if __name__ == "__main__":
    main()
