"""The benchmark of waves elsewhere: engines sum up the same wave; the page keeps other runs."""

import duckdb
import pytest

from benchmarks import billion
from seqbatch.engine import open_engine


@pytest.fixture
def page(tmp_path, monkeypatch):
    path = tmp_path / "billion.md"
    path.write_text(f"Above.\n{billion.BEGIN}\n{billion.END}\nBelow.\n", encoding="utf-8")
    monkeypatch.setattr(billion, "PAGE", path)
    return path


def test_all_engines_have_the_same_wave(monkeypatch):
    monkeypatch.setattr(billion, "PIECE", 700)
    with billion.second_wave(2_500) as (campaign, earlier, folder), open_engine("local") as engine:
        rule, shards = campaign.rule(), [(2_000, 1_200), (3_200, 1_300)]
        statement = campaign.sql(what="sums", assignments="roster", outcomes="outcomes")
        one = rule.result(billion.on_engine(engine, rule, shards, earlier), statement, earlier)
        with duckdb.connect() as database:
            database.execute(f"CREATE VIEW units AS {billion.units_sql(0, 4_500)}")
            database.execute(f"CREATE VIEW outcomes AS {billion.outcomes_sql(2_000, 2_500)}")
            billion._first_wave(database, folder)
            script = campaign.sql(units="units", assignments="roster", write=True)
            assert database.execute(script).fetchall() == [(2_500,)]
            two = database.sql(statement).to_arrow_table()
    rows = [
        sorted([str(value) for value in row.values()] for row in table.to_pylist())
        for table in (one.select(two.column_names), two)
    ]
    assert rows[0] == rows[1]


def test_a_run_replaces_its_own_rows(page):
    def row(where, units, seconds, peak):
        return [where, f"{units:,}", "sum", f"{seconds}", "3.60", f"{peak:,}"]

    billion.write([row("arrow", 10_000_000, 2, 1_900), row("arrow", 1_000_000, 1, 1_000)])
    billion.write([row("duckdb", 1_000_000, 3, 500), row("arrow", 1_000_000, 4, 1_000)])
    rows = [line.split("|") for line in page.read_text().split("\n") if " sum " in line]
    assert [line[4].strip() for line in rows] == ["3", "4", "2"]
    # Every million units takes 100 MiB, and 990 millions are missing.
    assert [line[7:9] for line in rows] == [
        [" 1.00 ", "  "], [" 1.00 ", "  "], [" 1.00 ", f" {(1_900 + 99_000) / 1024:,.1f} "],
    ]  # fmt: skip
    assert page.read_text().startswith("Above.")
    assert page.read_text().endswith("Below.\n")
