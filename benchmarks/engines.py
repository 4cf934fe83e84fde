"""The cost of engines: to start, per task, and over Arrow batches.

``python -m benchmarks.engines`` prints one table with all engines; ``--write`` also puts it into
docs/how-to/choosing.md.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.warehouse import sample_units, spec_of
from seqbatch.campaign import Campaign
from seqbatch.campaign.warehouse.frozen_rule import FrozenRule
from seqbatch.campaign.warehouse.wave_list import WaveList
from seqbatch.campaign.warehouse.wave_tally import WaveTally
from seqbatch.engine import Engine, as_completed, merge_tree, open_engine, over_batches
from seqbatch.storage import open_store

PAGE = Path("docs/how-to/choosing.md")
ENGINES = (("local", 1), ("local", 2), ("dask", 2), ("ray", 2))
EMPTY, BUSY, SECONDS = 500, 60, 0.05
ROWS, BATCH = 200_000, 20_000


def nothing(_piece: int) -> None:
    """Do nothing: what is left is the engine's own time."""


def busy(_piece: int) -> None:
    """Keep a processor busy for a while."""
    end = time.process_time() + SECONDS
    while time.process_time() < end:
        pass


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@contextmanager
def _second_wave() -> Iterator[tuple[FrozenRule, pa.Table]]:
    """Yield the rule of a campaign's second wave, and its answers with outcomes."""
    random = np.random.default_rng(0)
    first, units = sample_units(random, 2_000), sample_units(random, ROWS, 2_000)
    with TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "campaigns.db")
        spec = spec_of(sums="exact", grid={"sizes": [2_000, ROWS, 10]})
        campaign = Campaign.create(spec, store=store)
        ids = first["id"].to_arrow()
        campaign.assign(first)
        campaign.record(pa.table({"id": ids, "y": random.normal(size=2_000)}))
        campaign.close()
        batches = units.to_arrow().to_batches()
        rule = campaign.rule()
        listed = merge_tree(WaveList.merged, map(rule.listed, batches))
        rule = rule.with_wave(listed)
        answers = pa.Table.from_batches(map(rule.assign, batches))
        yield rule, answers.append_column("y", pa.array(random.normal(size=ROWS)))
        store.close()


def _measured(engine: Engine, rule: FrozenRule, table: pa.Table) -> tuple[list[float], pa.Table]:
    """Return seconds for each empty piece, pieces a second, rows a second; and the sums."""
    # Processes import what they need with their first task.
    list(over_batches(engine, rule.sums, table[:2_000].to_batches(max_chunksize=100)))
    empty = _seconds(lambda: list(as_completed(engine, nothing, range(EMPTY)))) / EMPTY
    work = _seconds(lambda: list(as_completed(engine, busy, range(BUSY))))
    batches = table.to_batches(max_chunksize=BATCH)
    start = time.perf_counter()
    tally = merge_tree(WaveTally.merged, over_batches(engine, rule.sums, batches))
    rows = ROWS / (time.perf_counter() - start)
    return [empty, BUSY / work, rows], tally.table(rule.now, "")


def table() -> str:
    """Measure all engines; return the table."""
    lines = [
        f"pieces of {SECONDS * 1000:.0f} ms; {ROWS:,} units of 8 numbers and 2 categories, in "
        f"batches of {BATCH:,}",
        f"{'':18}{'start, s':>10}{'a piece, ms':>14}{'pieces/s':>11}{'summed rows/s':>16}",
    ]
    found = []
    with _second_wave() as (rule, units):
        for kind, jobs in ENGINES:
            start = time.perf_counter()
            with open_engine(kind, jobs=jobs) as engine:
                list(as_completed(engine, nothing, range(2 * jobs)))
                begun = time.perf_counter() - start
                (empty, pieces, rows), sums = _measured(engine, rule, units)
            found.append(sums)
            name = f"{kind}, {jobs} process{'es' if jobs > 1 else ''}"
            lines.append(f"{name:18}{begun:10.2f}{empty * 1e3:14.2f}{pieces:11.1f}{rows:16,.0f}")
    same = all(sums.equals(found[0]) for sums in found)
    return "\n".join([*lines, f"the same sums, digit for digit: {'yes' if same else 'NO'}"]) + "\n"


def main() -> None:
    """Print the table, and write it with --write."""
    made = table()
    print(made, end="")
    if "--write" in sys.argv[1:]:
        text = PAGE.read_text(encoding="utf-8")
        pattern = r"(python -m benchmarks\.engines`.*?```\n).*?(```)"
        found, count = re.subn(pattern, lambda m: m[1] + made + m[2], text, count=1, flags=re.S)
        assert count == 1, PAGE
        PAGE.write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main()
