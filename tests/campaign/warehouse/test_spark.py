"""Waves on Spark: the statements and the recipe give the bits that DuckDB and Python give."""

import shutil

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.storage import open_store
from tests.campaign.warehouse.test_frozen_rule import texts
from tests.campaign.warehouse.test_sums import assigned, stored, summed
from tests.campaign.warehouses import ELSEWHERE, customers, first_wave, in_duckdb

pytest.importorskip("pyspark", reason="pyspark is not installed; `make spark` installs it")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

from examples import spark_wave

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def spark():
    session = spark_wave.session()
    yield session
    session.stop()


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def shown(spark, name, frame):
    """Return a frame as one of Spark's, known to its SQL by a name."""
    made = spark.createDataFrame(frame.to_arrow())
    made.createOrReplaceTempView(name)
    return made


@pytest.mark.parametrize("policy", ["SBPE", "SBUCB"])
def test_decisions_are_the_same(spark, store, policy):
    campaign = first_wave(store, policy={"kind": policy})
    units = customers(2_000, seed=2)
    made = shown(spark, "units", units)
    wanted = in_duckdb(campaign.sql(units="units"), units=units).sort("id")
    found = {
        "sql": pl.DataFrame(spark.sql(campaign.sql(units="units", dialect="spark")).toArrow()),
        "arrow": pl.DataFrame(spark_wave.assigned(campaign.rule(), made).toArrow()),
    }
    for name, frame in found.items():
        frame = frame.sort("id")
        for column in wanted.columns:
            assert frame[column].equals(wanted[column], null_equal=True), (name, column)


def test_sums_are_the_same_and_close_the_wave(spark, store, tmp_path):
    campaign = Campaign.create(ELSEWHERE, store=store)
    units, outcomes = assigned(campaign, 600, 1)
    wanted, _ = summed(campaign, tmp_path, units, outcomes)
    wanted = texts(wanted)
    tables = [shown(spark, name, frame) for name, frame in (("u", units), ("o", outcomes))]
    shown(spark, "roster", stored(campaign, units))
    text = campaign.sql(what="sums", dialect="spark", assignments="roster", outcomes="o")
    rule = spark_wave.entered(campaign, tables[0])
    answers = spark_wave.assigned(rule, tables[0])
    by_sql = spark_wave.by_sql(spark, text)
    by_arrow = spark_wave.summed(rule, answers, tables[1], text)
    for table in (by_sql, by_arrow):
        frame = texts(table)
        assert frame.select(wanted.columns).equals(wanted, null_equal=True)
    path = tmp_path / "sums.sql"
    path.write_text(text, encoding="utf-8")
    assert sum(campaign.record_sums(by_arrow, statement=path).closed.assigned.values()) == 600
    assert campaign.verify().sound
