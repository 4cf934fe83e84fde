"""The cost of rounding, and the speed of a database compared with the SQLite store.

``python -m benchmarks.warehouse`` runs all parts; add ``rounding``, ``speed`` or ``wide`` to run
one.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from seqbatch.campaign import Campaign
from seqbatch.core.arrays import Floats
from seqbatch.storage import open_store

NAMES = [f"n{number}" for number in range(8)]
LEVELS = [f"l{number}" for number in range(6)]
ACTIONS = ["a", "b", "c", "d"]
TRIALS, SIZES = 40, (500, 1_000, 4_000)
UNITS, WIDE = 500_000, 1_000_000


def spec_of(**changes: Any) -> dict[str, Any]:
    """Return the spec of the campaigns that are measured."""
    number = {"scale": {"mean": 0.1, "sd": 1.1}, "range": [-6, 6]}
    return {
        "name": "bench", "unit": "id", "actions": ACTIONS, "draws": "md5", "randomised": 0.05,
        "metrics": {"y": {"range": [-30, 30]}}, "objective": {"maximise": "y"},
        "grid": {"sizes": list(SIZES)},
        "policy": {"kind": "SBPE", "first": "uniform"},
        "features": {
            "numeric": dict.fromkeys(NAMES, number),
            "categorical": {"level": LEVELS, "other": LEVELS},
        },
        **changes,
    }  # fmt: skip


def sample_units(random: np.random.Generator, count: int, start: int = 0) -> pl.DataFrame:
    """Return random units with ids from a number on."""
    return pl.DataFrame(
        {
            "id": [f"{number:09d}" for number in range(start, start + count)],
            **{name: random.normal(size=count) for name in NAMES},
            "level": random.choice(LEVELS, count),
            "other": random.choice(LEVELS, count),
        }
    )


def _means(theta: Floats, units: pl.DataFrame) -> Floats:
    """Return the mean reward of every unit under every action."""
    numbers = units.select(NAMES).to_numpy()
    places = [LEVELS.index(level) for level in units["level"]]
    means: Floats = numbers @ theta[: len(NAMES)] + theta[len(NAMES) :][places]
    return means


def _answers(campaign: Campaign, units: pl.DataFrame) -> pl.DataFrame:
    answers = pl.from_arrow(campaign.assign(units).table)
    assert isinstance(answers, pl.DataFrame)
    return answers


def _regret(sums: str, seed: int) -> tuple[float, list[str]]:
    """Run one campaign; return its regret for each unit, and the actions."""
    random = np.random.default_rng(seed)
    theta = random.normal(scale=0.3, size=(len(NAMES) + len(LEVELS), len(ACTIONS)))
    total, given, start = 0.0, list[str](), 0
    with TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "campaigns.db")
        campaign = Campaign.create(spec_of(sums=sums, seed=seed), store=store)
        for size in SIZES:
            units, noise = sample_units(random, size, start), random.normal(size=size)
            start += size
            means = _means(theta, units)
            actions = _answers(campaign, units)["action"].to_list()
            places = [ACTIONS.index(action) for action in actions]
            mean = means[np.arange(size), places]
            total += float((means.max(axis=1) - mean).sum())
            given += actions
            campaign.record(pl.DataFrame({"id": units["id"], "y": mean + noise}))
            campaign.close()
        store.close()
    return total / sum(SIZES), given


def rounding() -> None:
    """Compare floating-point sums with exact sums of rounded numbers."""
    found, differ = [], 0
    for seed in range(TRIALS):
        (one, left), (two, right) = (_regret(sums, seed) for sums in ("floating", "exact"))
        found.append((one, two))
        differ += sum(a != b for a, b in zip(left, right, strict=True))
    means = np.mean(found, axis=0)
    gap = np.subtract(*np.transpose(found)[::-1])
    error = gap.std(ddof=1) / np.sqrt(TRIALS)
    units = TRIALS * sum(SIZES)
    print(f"{TRIALS} campaigns of {sum(SIZES):,} units in {len(SIZES)} waves")
    print(f"regret for each unit: floating {means[0]:.6f}, exact {means[1]:.6f}")
    print(f"difference: {gap.mean():.2g} (standard error {error:.2g})")
    print(f"actions that differ: {differ} of {units:,}")


def _timed(name: str, rows: int, call: Callable[[], Any]) -> Any:
    start, busy = time.perf_counter(), time.process_time()
    result = call()
    wall, used = time.perf_counter() - start, time.process_time() - busy
    print(f"{name:32} {wall:8.2f} {used:8.2f} {rows / wall:12,.0f} {rows / used:12,.0f}")
    return result


def speed() -> None:
    """Assign and learn a second wave: in DuckDB, Parquet to Parquet, and in the SQLite store."""
    import duckdb

    random = np.random.default_rng(0)
    first, units = sample_units(random, 2_000), sample_units(random, UNITS, 2_000)
    print(f"{UNITS:,} units, {len(NAMES)} numbers, 2 categories, {len(ACTIONS)} actions")
    print(f"{'':32} {'seconds':>8} {'busy':>8} {'rows/s':>12} {'rows/busy s':>12}")
    with TemporaryDirectory() as folder:
        here = Path(folder)
        store = open_store(here / "campaigns.db")
        spec = spec_of(sums="exact", grid={"sizes": [2_000, UNITS, 10]})
        campaign = Campaign.create(spec, store=store)
        ids = _answers(campaign, first)["id"]
        campaign.record(pl.DataFrame({"id": ids, "y": random.normal(size=2_000)}))
        campaign.close()
        outcomes = pl.DataFrame({"id": units["id"], "y": random.normal(size=UNITS)})
        units.write_parquet(here / "units.parquet")
        outcomes.write_parquet(here / "outcomes.parquet")
        database = duckdb.connect()
        for name in ("units", "outcomes"):
            file = here / f"{name}.parquet"
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{file}'")
        database.execute("CREATE TABLE before (id VARCHAR, wave BIGINT, campaign VARCHAR)")
        texts = {
            "assign": campaign.sql(units="units", assignments="before"),
            "sums": campaign.sql(what="sums", assignments="roster", outcomes="outcomes"),
        }
        for what, text in texts.items():
            copy = f"COPY ({text}) TO '{here / what}.parquet'"
            _timed(f"DuckDB, {what}", UNITS, partial(database.execute, copy))
            if what == "assign":
                view = f"CREATE VIEW roster AS SELECT * FROM '{here / 'assign.parquet'}'"
                database.execute(view)
        source = here / "units.parquet"
        _timed(
            "SQLite store, assign", UNITS, lambda: campaign.assign(source, out=here / "a.parquet")
        )
        _timed("SQLite store, record", UNITS, lambda: campaign.record(here / "outcomes.parquet"))
        _timed("SQLite store, close, exact sums", UNITS, campaign.close)
        store.close()


def wide() -> None:
    """Sum up a first wave of many columns: in DuckDB, and by the rule on Arrow batches."""
    import duckdb

    from seqbatch.campaign.warehouse.wave_list import WaveList
    from seqbatch.engine import merge_tree

    random = np.random.default_rng(0)
    numbers, levels = [f"n{place}" for place in range(20)], [f"k{place}" for place in range(5)]
    number = {"scale": {"mean": 0.1, "sd": 1.1}, "range": [-6, 6]}
    features = {
        "numeric": dict.fromkeys(numbers, number),
        "categorical": dict.fromkeys(levels, LEVELS[:5]),
    }
    units = pl.DataFrame({
        "id": [f"{place:09d}" for place in range(WIDE)],
        **{name: random.normal(size=WIDE) for name in numbers},
        **{name: random.choice(LEVELS[:5], WIDE) for name in levels},
    })  # fmt: skip
    print(f"{WIDE:,} units, {len(numbers)} numbers, {len(levels)} categories of 5 levels")
    print(f"{'':32} {'seconds':>8} {'busy':>8} {'rows/s':>12} {'rows/busy s':>12}")
    with TemporaryDirectory() as folder, duckdb.connect(str(Path(folder) / "shop.db")) as database:
        store = open_store(Path(folder) / "campaigns.db")
        spec = spec_of(rows="elsewhere", grid={"sizes": [WIDE, 10]}, features=features, seed=3)
        campaign = Campaign.create(spec, store=store)
        outcomes = pl.DataFrame({"id": units["id"], "y": random.normal(size=WIDE)})
        for name, frame in (("units", units), ("outcomes", outcomes)):
            database.register("given", frame.to_arrow())
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        script = campaign.sql(units="units", assignments="roster", write=True)
        _timed("DuckDB, assign and insert", WIDE, lambda: database.execute(script).fetchall())
        text = campaign.sql(what="sums", assignments="roster", outcomes="outcomes")
        _timed("DuckDB, sums", WIDE, lambda: database.execute(text).fetchall())
        rule, batches = campaign.rule(), units.to_arrow().to_batches(max_chunksize=20_000)
        rule = rule.with_wave(merge_tree(WaveList.merged, map(rule.listed, batches)))
        answers = _timed("Arrow, assign", WIDE, lambda: list(map(rule.assign, batches)))
        ys = [outcomes["y"][a : a + 20_000].to_arrow() for a in range(0, WIDE, 20_000)]
        told = [one.append_column("y", y) for one, y in zip(answers, ys, strict=True)]
        _timed("Arrow, sums", WIDE, lambda: list(map(rule.sums, told)))
        store.close()


def main() -> None:
    """Run the requested parts."""
    parts = {"rounding": rounding, "speed": speed, "wide": wide}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
