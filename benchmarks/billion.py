"""What a wave of millions costs whose units stay elsewhere: processor time and memory by step.

``python -m benchmarks.billion duckdb 1000000`` measures one engine (duckdb, arrow, dask or spark)
with that many units, and replaces its rows in docs/billion.md. Without arguments it measures those
of `RUNS`, each in a separate process. Units and outcomes are functions of their number, computed
when they are read: nothing but the database's table of assignments is stored.
"""

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

from seqbatch.campaign import Campaign
from seqbatch.campaign.warehouse.frozen_rule import FrozenRule
from seqbatch.campaign.warehouse.wave_list import WaveList
from seqbatch.campaign.warehouse.wave_tally import WaveTally
from seqbatch.engine import Engine, as_completed, merge_tree, open_engine
from seqbatch.storage import open_store

RUNS = (
    ("duckdb", 1_000_000), ("arrow", 1_000_000), ("duckdb", 10_000_000), ("arrow", 10_000_000),
    ("dask", 20_000_000), ("spark", 20_000_000),
)  # fmt: skip
NUMBERS, LEVELS, ACTIONS = 20, ("l0", "l1", "l2", "l3", "l4"), ("a", "b", "c", "d")
CATEGORIES, FIRST, PIECE, SHARD, WORKERS = 5, 2_000, 50_000, 1_000_000, 2
BILLION, MIB = 1_000_000_000, 1 << 20
PAGE = Path("docs/billion.md")
BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"
HEAD = (
    "| where | units | step | processor s | µs a unit | peak MiB | 10^9: core hours | 10^9: GiB |\n"
    "|---|---:|---|---:|---:|---:|---:|---:|"
)


def spec(units: int) -> dict[str, Any]:
    """Return the campaign's spec: a small first wave, and the one that is measured."""
    number = {"scale": {"mean": 0.0, "sd": 1.2}, "range": [-2, 2]}
    return {
        "name": "large", "seed": 1, "unit": "id", "actions": list(ACTIONS), "rows": "elsewhere",
        "randomised": 0.05, "metrics": {"y": {"range": [-5, 5]}}, "objective": {"maximise": "y"},
        "policy": {"kind": "SBPE", "first": "uniform"}, "grid": {"sizes": [FIRST, units]},
        "features": {
            "numeric": {f"x{n}": number for n in range(NUMBERS)},
            "categorical": {f"c{n}": list(LEVELS) for n in range(CATEGORIES)},
        },
    }  # fmt: skip


def units_sql(first: int, count: int) -> str:
    """Return the query of units, whose columns are hashes of their numbers."""
    numbers = (f"hash(i, {n}) % 1000000 / 250000.0 - 2 AS x{n}" for n in range(NUMBERS))
    levels = (f"'l' || hash(i, {100 + n}) % {len(LEVELS)} AS c{n}" for n in range(CATEGORIES))
    columns = ", ".join([_id(), *numbers, *levels])
    return f"SELECT {columns} FROM range({first}, {first + count}) AS numbered(i)"


def outcomes_sql(first: int, count: int) -> str:
    """Return the query of the units' outcomes."""
    outcome = "hash(i, 200) % 1000000 / 250000.0 - 2 AS y"
    return f"SELECT {_id()}, {outcome} FROM range({first}, {first + count}) AS numbered(i)"


def _id() -> str:
    return "'C' || lpad(CAST(i AS VARCHAR), 10, '0') AS id"


@cache
def _here() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def pieces(query: Callable[[int, int], str], first: int, count: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query in batches."""
    for start in range(first, first + count, PIECE):
        size = min(PIECE, first + count - start)
        table = _here().sql(query(start, size)).to_arrow_table()
        yield table.combine_chunks().to_batches()[0]


# ----------------------------------------------------------------------
# Measure the steps of one process: its own processor time, and that of workers that ended.


@dataclass
class Meter:
    """The rows of the page for one engine and number of units."""

    where: str
    units: int
    rows: list[list[str]]

    @contextmanager
    def step(self, name: str, *, workers: bool = False) -> Iterator[None]:
        """Measure a step; the memory of workers is that of the largest one."""
        Path("/proc/self/clear_refs").write_text("5")
        before = _busy()
        yield
        busy = _busy() - before
        peak = _peak()
        if workers:
            ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            peak = max(peak, ended, *map(_peak, _running()))
        cells = [self.where, f"{self.units:,}", name, f"{busy:,.1f}"]
        cells += [f"{busy / self.units * 1e6:.2f}", f"{peak * 1024 / MIB:,.0f}"]
        self.rows.append(cells)
        print(" | ".join(cells), flush=True)


def _busy() -> float:
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ticks = sum(sum(map(int, fields[11:15])) for fields in _running().values())
    ended = sum(each.ru_utime + each.ru_stime for each in both)
    return ended + ticks / os.sysconf("SC_CLK_TCK")


def _running() -> dict[int, list[str]]:
    """Return the running descendants of this process, with the fields of /proc after the name."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    own, more = set[int](), {os.getpid()}
    while more:
        more = {each for each, fields in found.items() if int(fields[1]) in more}
        own |= more
    return {each: found[each] for each in own}


def _peak(process: int | str = "self") -> int:
    """Return the most memory of a running process, in KiB; 0 if it has ended."""
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
        return int(found[1]) if found else 0
    return 0


@contextmanager
def second_wave(units: int) -> Iterator[tuple[Campaign, WaveList, Path]]:
    """Yield a campaign whose first wave is closed, the list of its units, and a folder."""
    with TemporaryDirectory(prefix="seqbatch-billion-") as name:
        folder = Path(name)
        store = open_store(folder / "campaigns.db")
        campaign = Campaign.create(spec(units), store=store)
        rule, listed = campaign.rule(), lists(campaign.rule(), (0, FIRST))
        tally = tallied((rule.with_wave(listed), (0, FIRST)))
        text = campaign.sql(what="sums", assignments="roster", outcomes="outcomes")
        (folder / "sums-1.sql").write_text(text, encoding="utf-8")
        campaign.record_sums(rule.result(tally, text), statement=folder / "sums-1.sql")
        yield campaign, listed, folder
        store.close()


# ----------------------------------------------------------------------
# The engines.

#: The first number of a shard's units, and how many there are.
Shard = tuple[int, int]


def lists(rule: FrozenRule, shard: Shard) -> WaveList:
    """Return the list of a shard's units."""
    listed = map(rule.listed, pieces(lambda *one: f"SELECT id FROM ({units_sql(*one)})", *shard))
    return merge_tree(WaveList.merged, listed)


def tallied(task: tuple[FrozenRule, Shard]) -> WaveTally:
    """Assign the units of a shard and sum them up with their outcomes."""
    rule, shard = task
    both = zip(pieces(units_sql, *shard), pieces(outcomes_sql, *shard), strict=True)
    tallies = (rule.sums(told(rule.assign(own), outcomes)) for own, outcomes in both)
    return merge_tree(WaveTally.merged, tallies)


def told(answers: pa.RecordBatch, outcomes: pa.RecordBatch) -> pa.RecordBatch:
    """Return answers with the outcomes beside them, which have the same order."""
    return answers.append_column("y", outcomes.column("y"))


def on_arrow(meter: Meter) -> None:
    """Run the wave in this process, one batch at a time."""
    shard = (FIRST, meter.units)
    with second_wave(meter.units) as (campaign, earlier, _):
        with meter.step("make units and outcomes"):
            for query in (units_sql, outcomes_sql):
                for _piece in pieces(query, *shard):
                    pass
        rule = campaign.rule()
        with meter.step("list units, choose the wave"):
            rule = rule.with_wave(lists(rule, shard), earlier)
        with meter.step("make, assign and sum"):
            tally = tallied((rule, shard))
        with meter.step("result"):
            text = campaign.sql(what="sums", assignments="roster", outcomes="outcomes")
            assert rule.result(tally, text, earlier).num_rows


def on_dask(meter: Meter) -> None:
    """Run the wave on two local workers of Dask, by shards."""
    shards = [(first, SHARD) for first in range(FIRST, FIRST + meter.units, SHARD)]
    with second_wave(meter.units) as (campaign, earlier, _):
        rule = campaign.rule()
        with (
            meter.step("list, make, assign and sum", workers=True),
            open_engine("dask", jobs=WORKERS) as engine,
        ):
            tally = on_engine(engine, rule, shards, earlier)
        text = campaign.sql(what="sums", assignments="roster", outcomes="outcomes")
        assert rule.result(tally, text, earlier).num_rows


def on_engine(
    engine: Engine, rule: FrozenRule, shards: list[Shard], earlier: WaveList
) -> WaveTally:
    """Return the sums of a wave whose shards are worked on by an engine."""
    listed = dict(as_completed(engine, partial(lists, rule), shards))
    own = rule.with_wave(merge_tree(WaveList.merged, listed.values()), earlier)
    tasks = ((own.of_shard(listed[place]), shard) for place, shard in enumerate(shards))
    tallies = (tally for _, tally in as_completed(engine, tallied, tasks))
    return merge_tree(WaveTally.merged, tallies)


def on_spark(meter: Meter) -> None:
    """Run the wave on two local workers of Spark, by mapInArrow over shards."""
    from pyspark.sql import SparkSession

    with second_wave(meter.units) as (campaign, earlier, _):
        rule = campaign.rule()
        with meter.step("list, make, assign and sum", workers=True):
            # Spark's workers must find seqbatch and this module.
            os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
            builder: Any = SparkSession.builder
            builder = builder.master(f"local[{WORKERS}]").config("spark.ui.enabled", "false")
            builder = builder.config("spark.driver.memory", "4g")
            spark = builder.config("spark.driver.maxResultSize", "4g").getOrCreate()
            listed = lists(rule, (FIRST, meter.units))
            own = rule.with_wave(listed, earlier)
            numbers = spark.range(FIRST, FIRST + meter.units, PIECE, meter.units // SHARD)
            packed = numbers.mapInArrow(
                partial(_tallies, own),
                "place long, part long, seen long, sums array<string>, ids binary",
            )
            batches = packed.toArrow().to_batches()
            tally = merge_tree(WaveTally.merged, map(WaveTally.unpacked, batches))
        spark.stop()
        text = campaign.sql(what="sums", assignments="roster", outcomes="outcomes")
        assert rule.result(tally, text, earlier).num_rows


def _tallies(rule: FrozenRule, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the sums of the units that begin at the numbers of batches."""
    firsts = [first for batch in batches for first in batch.column(0).to_pylist()]
    yield merge_tree(WaveTally.merged, (tallied((rule, (a, PIECE))) for a in firsts)).packed()


def on_duckdb(meter: Meter) -> None:
    """Run the wave as SQL, from views into the table of assignments."""
    with second_wave(meter.units) as (campaign, _, folder):
        database = duckdb.connect(
            str(folder / "shop.db"), config={"threads": WORKERS, "memory_limit": "4GB"}
        )
        everyone = (0, FIRST + meter.units)
        for name, query in (("units", units_sql), ("outcomes", outcomes_sql)):
            database.execute(f"CREATE VIEW {name} AS {query(*everyone)}")
        _first_wave(database, folder)
        with meter.step("make, assign and insert"):
            script = campaign.sql(units="units", assignments="roster", write=True)
            database.execute(script).fetchall()
        with meter.step("make outcomes and sum"):
            text = campaign.sql(what="sums", assignments="roster", outcomes="outcomes")
            found = database.execute(text).fetchall()
        assert found
        database.close()
        size = (folder / "shop.db").stat().st_size
        print(f"table of assignments: {size / meter.units:,.0f} bytes a unit")


def _first_wave(database: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Insert the first wave as its own script would have."""
    other = open_store(folder / "again.db")
    campaign = Campaign.create(spec(1), store=other)
    database.execute(f"CREATE VIEW early AS {units_sql(0, FIRST)}")
    script = campaign.sql(units="early", assignments="roster", write=True)
    database.execute(script).fetchall()
    other.close()


ENGINES = {"duckdb": on_duckdb, "arrow": on_arrow, "dask": on_dask, "spark": on_spark}


# ----------------------------------------------------------------------
# The page.


def write(rows: list[list[str]]) -> None:
    """Replace rows of the page's table, and compute again what they give for a billion units."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table, _, after = rest.partition(END)
    lines = [line for line in table.split("\n") if re.match(r"\| \w+ \| [\d,]+ \|", line)]
    known = [[cell.strip() for cell in line.split("|")[1:7]] for line in lines]
    own = {_run(row) for row in rows}
    every = sorted([*(row for row in known if _run(row) not in own), *rows], key=_run)
    made = [f"| {' | '.join([*row, *extrapolated(row, every)])} |" for row in every]
    PAGE.write_text(f"{before}{BEGIN}\n\n{HEAD}\n" + "\n".join([*made, "", END]) + after)


def extrapolated(row: list[str], every: list[list[str]]) -> list[str]:
    """Return the core hours and the memory of a billion units, as they grew up to this row."""
    units = _run(row)[1]
    smaller = [each for each in every if (each[0], each[2]) == (row[0], row[2])]
    smaller = [each for each in smaller if _run(each)[1] < units]
    hours = f"{float(row[4]) * BILLION / 1e6 / 3600:.2f}"
    # DuckDB keeps to its limit, and writes the rest to disk.
    if not smaller or row[0] == "duckdb":
        return [hours, ""]
    grown = _number(row[5]) - _number(smaller[-1][5])
    most = _number(row[5]) + grown * (BILLION - units) / (units - _run(smaller[-1])[1])
    return [hours, f"{most / 1024:,.1f}"]


def _run(row: list[str]) -> tuple[int, float]:
    return list(ENGINES).index(row[0]), _number(row[1])


def _number(cell: str) -> float:
    return float(cell.replace(",", ""))


def main() -> None:
    """Measure one run in this process, or all of them, each in its own."""
    if len(sys.argv) < 3:
        for engine, units in RUNS:
            command = [sys.executable, "-m", "benchmarks.billion", engine, str(units)]
            subprocess.run(command, check=True)
        return
    meter = Meter(sys.argv[1], int(sys.argv[2]), [])
    ENGINES[meter.where](meter)
    write(meter.rows)


if __name__ == "__main__":
    # Workers find functions by the name of their module, which is not __main__ there.
    from benchmarks import billion

    billion.main()
