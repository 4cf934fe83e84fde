"""A wave on Spark: assigned and summed up by mapInArrow or by SQL, and closed here.

The rows stay in Spark. Only the wave's sums come back, a few kilobytes and 16 bytes for each
unit; both ways give the same sums to the last digit.

Run ``python examples/spark_wave.py``; it needs pyspark and Java.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from seqbatch.campaign import Campaign
from seqbatch.campaign.warehouse.frozen_rule import FrozenRule
from seqbatch.campaign.warehouse.wave_list import WaveList
from seqbatch.campaign.warehouse.wave_tally import WaveTally
from seqbatch.engine import merge_tree
from seqbatch.storage import open_store

SPEC: dict[str, Any] = {
    "name": "afar",
    "seed": 7,
    "unit": "customer",
    "actions": ["none", "mail"],
    "randomised": 0.1,
    "rows": "elsewhere",
    "metrics": {"visit": {"kind": "yes/no", "absent": 0}},
    "objective": {"maximise": "visit"},
    "features": {
        "numeric": {"age": {"scale": {"mean": 45, "sd": 15}, "range": [18, 100]}},
        "categorical": {"region": ["north", "south"]},
    },
    "grid": {"sizes": [2000, 3000]},
}


def session(cores: int = 2) -> SparkSession:
    """Return a local Spark session without the web UI."""
    # Spark's workers must use the Python that has seqbatch.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder: Any = SparkSession.builder
    made: SparkSession = (
        builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", cores)
        .getOrCreate()
    )
    return made


def entered(campaign: Campaign, units: DataFrame, earlier: WaveList | None = None) -> FrozenRule:
    """Return the rule for the units that enter the open wave; those of earlier waves do not.

    The ids come here, 24 bytes each, because only all of them tell which units enter.
    """
    rule = campaign.rule()
    ids = units.select(*campaign.situation().spec.unit).toArrow().to_batches()
    listed = merge_tree(WaveList.merged, (WaveList.empty(), *map(rule.listed, ids)))
    return rule.with_wave(listed, earlier)


def assigned(rule: FrozenRule, units: DataFrame) -> DataFrame:
    """Return the action of each unit, decided by seqbatch's kernels in Spark's workers."""
    empty = rule.assign(pa.RecordBatch.from_pylist([], schema=units.limit(0).toArrow().schema))
    return units.mapInArrow(rule.assign_all, _schema(units.sparkSession, empty))


def summed(rule: FrozenRule, answers: DataFrame, outcomes: DataFrame, statement: str) -> pa.Table:
    """Return the sums of the wave, as the SQL statement for sums would.

    An outcome that is repeated with the same value counts once; with two values it repeats its
    unit, which `record_sums` refuses.
    """
    spec = rule.now.spec
    known = outcomes.select(*spec.unit, *spec.reward.columns).dropDuplicates()
    both = answers.join(known, on=list(spec.unit), how="left")
    parts = both.mapInArrow(rule.sums_of_all, _schema(answers.sparkSession, WaveTally({}).packed()))
    tallies = map(WaveTally.unpacked, parts.toArrow().to_batches())
    return rule.result(merge_tree(WaveTally.merged, (WaveTally({}), *tallies)), statement)


def by_sql(spark: SparkSession, statement: str) -> pa.Table:
    """Return the result of one of the campaign's statements (dialect spark)."""
    return spark.sql(statement).toArrow()


def digits(table: pa.Table, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the rows of a table as texts, sorted."""
    cells = [[str(cell) for cell in table[name].to_pylist()] for name in columns]
    return sorted(zip(*cells, strict=True))


def _schema(spark: SparkSession, batch: pa.RecordBatch) -> Any:
    """Return the Spark schema of a batch."""
    return spark.createDataFrame(pa.Table.from_batches([batch])).schema


def main() -> None:
    """Run a wave both ways, and compare."""
    spark = session()
    with TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "campaigns.db")
        campaign = Campaign.create(SPEC, store=store)
        units = spark.sql(
            "SELECT concat('c', id) AS customer, CAST(18 + (id * 37) % 60 AS DOUBLE) AS age, "
            "CASE WHEN id % 3 = 0 THEN 'north' ELSE 'south' END AS region FROM range(2000)"
        )
        units.createOrReplaceTempView("wave_1")
        rule = entered(campaign, units)
        answers = assigned(rule, units)
        answers.createOrReplaceTempView("answers")
        # No unit had an earlier wave. A script with --write creates this table instead.
        spark.sql(
            "SELECT '' AS customer, 0 AS wave, '' AS campaign WHERE 1 = 0"
        ).createOrReplaceTempView("none_yet")
        text = campaign.sql(units="wave_1", assignments="none_yet", dialect="spark")
        same = spark.sql(text)
        same.createOrReplaceTempView("roster")
        keys = ["customer", "action", "score", "probability"]
        rows = (digits(table, keys) for table in (answers.toArrow(), same.toArrow()))
        print(f"decisions that differ: {sum(a != b for a, b in zip(*rows, strict=True))} of 2,000")
        outcomes = spark.sql(
            "SELECT customer, 1 AS visit FROM answers "
            "WHERE md5(customer) < CASE action WHEN 'mail' THEN '4' ELSE '3' END"
        )
        outcomes.createOrReplaceTempView("visits")
        text = campaign.sql(what="sums", dialect="spark", assignments="roster", outcomes="visits")
        path = Path(folder) / "sums-1.sql"
        path.write_text(text, encoding="utf-8")
        result, wanted = summed(rule, answers, outcomes, text), by_sql(spark, text)
        names = result.column_names
        print(f"the same sums: {digits(result, names) == digits(wanted, names)}")
        closed = campaign.record_sums(result, statement=path).closed
        assert closed is not None
        print(f"wave 1 closed: {closed.observed} of {closed.assigned}")
        store.close()
    spark.stop()


if __name__ == "__main__":
    main()
