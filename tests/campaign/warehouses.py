"""Campaigns, units and databases for tests of SQL."""

import duckdb
import numpy as np
import polars as pl
import psycopg

from seqbatch.campaign import Campaign
from seqbatch.campaign.record.codec import unpack_state
from seqbatch.campaign.warehouse.assignments import AssignmentsTable, WaveEntry
from seqbatch.campaign.warehouse.decisions import rule_of
from seqbatch.campaign.warehouse.dialects import dialect_of
from seqbatch.campaign.warehouse.stages import id_of, named
from seqbatch.campaign.warehouse.statement import assigning
from tests.campaign.specs import about

SPEC = {
    "name": "warm",
    "seed": 5,
    "start": "2026-03-01",
    "unit": ["id"],
    "actions": ["none", "it's mail", "call"],
    "randomised": 0.2,
    "floor": 0.02,
    "draws": "md5",
    "sums": "exact",
    **about("visit", range=[-10, 10]),
    "features": {
        "numeric": {
            "age": {"missing": "median"},
            "spend": {"scale": {"mean": 10, "sd": 5}, "range": [0, 60]},
        },
        "boolean": {"vip": "level", "new": True},
        "categorical": {
            "zip": {"levels": ["urban", "rur'al\\"], "other": True, "missing": "level"},
            "kind": {"levels": ["a", "b", "c"], "least": 20},
            "branch": {"hash": 3, "by": "md5", "missing": "level"},
        },
        "date": {
            "since": {"parts": ["month", "days", "weekday"], "missing": "median"},
            "born": {"parts": ["days"]},
        },
        "interactions": [["age", "zip"], ["age", "spend"]],
    },
    "grid": {"sizes": [600, 20_000, 100]},
}
#: Of such a campaign nothing is learned but sums.
ELSEWHERE = {
    **SPEC,
    "name": "afar",
    "rows": "elsewhere",
    "features": {
        "numeric": {
            "age": {"scale": {"mean": 40, "sd": 12}, "range": [0, 100], "missing": 40,
                    "indicator": 1},
            "spend": {"scale": {"mean": 10, "sd": 5}, "range": [0, 60]},
        },
        "boolean": {"vip": "level"},
        "categorical": {"zip": {"levels": ["urban", "rur'al\\"], "other": True,
                                "missing": "level"}},
        "date": {"since": {"parts": ["weekday"], "missing": "median"}},
    },
    "grid": {"sizes": [600, 400, 100]},
}  # fmt: skip
TYPES = {
    pl.String: "text", pl.Float64: "double precision", pl.Boolean: "boolean", pl.Date: "date",
    pl.Int32: "integer", pl.Int64: "bigint",
}  # fmt: skip


def customers(count, *, seed):
    """Return units with missing values, quotes, other alphabets and levels not declared."""
    random = np.random.default_rng(seed)

    ages = random.normal(40, 12, count)

    def sometimes(values, share=0.1):
        gone = random.random(count) < share
        return [None if lost else value for value, lost in zip(values, gone, strict=True)]

    return pl.DataFrame(
        {
            "id": [f"ü'{seed}-{number}" for number in range(count)],
            # What is missing is a null or a NaN.
            "age": sometimes(np.where(random.random(count) < 0.05, np.nan, ages).tolist()),
            "spend": random.exponential(10, count),
            "vip": sometimes((random.random(count) < 0.3).tolist()),
            "new": sometimes((random.random(count) < 0.5).tolist()),
            "zip": sometimes(random.choice(["urban", "rur'al\\", "x", ""], count).tolist()),
            "kind": random.choice(["a", "b", "c"], count, p=[0.5, 0.49, 0.01]),
            # From 1959 to 2027, as dates and as text.
            "since": sometimes(dates(random.integers(-4_000, 21_000, count))),
            "born": [str(day) for day in dates(random.integers(-15_000, 12_000, count))],
            "branch": [f"ß'{n % 37}" if n % 11 else None for n in range(count)],
        },
        schema_overrides={
            "age": pl.Float64,
            "vip": pl.Boolean,
            "new": pl.Boolean,
            "since": pl.Date,
        },
    )


def dates(days):
    """Return the days so many days after 1970-01-01."""
    return (np.datetime64("1970-01-01") + days).tolist()


def visits(ids, actions, *, seed):
    effect = {"none": 0.0, "it's mail": 0.2, "call": 0.4, "sms": 0.1}
    noise = np.random.default_rng([seed, 1]).normal(0, 1, len(ids))
    values = np.array([effect[action] for action in actions]) + noise
    return pl.DataFrame(
        {
            "id": ids,
            "visit": np.clip(values, -10, 10),
            "bonus": np.round(np.abs(noise), 3),
            "bought": (values > 1).astype(float),
        }
    )


def first_wave(store, **changes):
    """Return a campaign whose first wave is closed."""
    campaign = Campaign.create({**SPEC, **changes}, store=store)
    table = campaign.assign(customers(600, seed=1)).table
    campaign.record(visits(table["id"].to_pylist(), table["action"].to_pylist(), seed=1))
    campaign.close()
    return campaign


def decided(campaign, units):
    """Return what the table of assignments would hold of these units, whoever they are.

    The campaign's own script would refuse units that are repeated or had an earlier wave.
    """
    now = campaign.situation()
    with campaign.store.read(campaign.name) as reader:
        rule = rule_of(now, unpack_state(reader.last_state().content, now))
    entry = Anyone(AssignmentsTable(now, dialect_of("duckdb"), "x"), "units", True, False)
    text = assigning(now, rule, dialect_of("duckdb"), "units", entry)
    return in_duckdb(text, units=units).drop("problem")


class Anyone(WaveEntry):
    """All units of a table enter."""

    def add(self, stages, ids, read):
        joined = id_of(self.table.sql, ids)
        stages.add("taken", [*named(*ids, *read), (joined, "id")])
        stages.add("checked", [("0", "verdict")], source="(SELECT 1) AS one")
        stages.add("entered", named(*ids, *read, "id"), source="taken")


def in_duckdb(statement, *, into=None, **tables):
    """Run a statement in DuckDB; return its result, or have it written to a file."""
    with duckdb.connect() as connection:
        for name, frame in tables.items():
            connection.register(name, frame.to_arrow())
        if into is not None:
            return connection.execute(f"COPY ({statement}) TO '{into}'")
        return pl.from_arrow(connection.sql(statement).to_arrow_table())


def in_postgres(uri, statement, **tables):
    """Run a statement in PostgreSQL; return its result."""
    with psycopg.connect(uri) as connection, connection.cursor() as cursor:
        for name, frame in tables.items():
            columns = ", ".join(f'"{c}" {TYPES[t.base_type()]}' for c, t in frame.schema.items())
            cursor.execute(f'CREATE TEMPORARY TABLE "{name}" ({columns})')
            with cursor.copy(f'COPY "{name}" FROM STDIN') as copy:
                for row in frame.iter_rows():
                    copy.write_row(row)
        cursor.execute(statement)
        names = [column.name for column in cursor.description]
        return pl.DataFrame(cursor.fetchall(), schema=names, orient="row", infer_schema_length=None)


class DuckDBShop:
    """A database in memory, in which a campaign's waves run."""

    dialect = "duckdb"

    def __init__(self):
        self._connection = duckdb.connect()

    def put(self, name, frame):
        """Replace a table."""
        self._connection.register("given", frame.to_arrow())
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")

    def run(self, text):
        """Run a script or a statement; return the rows of its last query, if it has any."""
        found = self._connection.sql(text)
        return None if found is None else pl.from_arrow(found.to_arrow_table())

    def close(self):
        self._connection.close()


class PostgresShop:
    """A PostgreSQL database, in which a campaign's waves run."""

    dialect = "postgres"

    def __init__(self, uri):
        self._connection = psycopg.connect(uri, autocommit=True)
        self.run("DROP SCHEMA IF EXISTS shop CASCADE")
        self.run("CREATE SCHEMA shop")
        self.run("SET search_path TO shop")

    def put(self, name, frame):
        """Replace a table."""
        columns = ", ".join(f'"{c}" {TYPES[t.base_type()]}' for c, t in frame.schema.items())
        with self._connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {name}")
            cursor.execute(f"CREATE TABLE {name} ({columns})")
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in frame.iter_rows():
                    copy.write_row(row)

    def run(self, text):
        """Run a script or a statement; return the rows of its last query, if it has any."""
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(text)
            except psycopg.Error:
                self._connection.rollback()
                raise
            while cursor.nextset():
                pass
            if cursor.description is None:
                return None
            names = [column.name for column in cursor.description]
            rows = cursor.fetchall()
        return pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)

    def close(self):
        self._connection.close()
