"""Of the rows of a repeated unit, one counts: the first, the last or the newest."""

import datetime

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqbatch.campaign import validate
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.files.repeats import Dedupe
from seqbatch.campaign.spec.template import first_spec
from seqbatch.storage import open_store
from tests.campaign.files.workbooks import write_workbook
from tests.campaign.instances import created, outcomes, units
from tests.refusals import places, refused


def kept(given, dedupe, ids=("id",)):
    """Return the source, and the rows that count."""
    with Source(given, dedupe=dedupe) as opened:
        opened.keep_one(ids)
        pieces = list(opened.batches(opened.columns()))
        return opened, [row for piece in pieces for row in piece.to_pylist()]


def numbered(given, dedupe):
    return [row["n"] for row in kept(given, dedupe)[1]]


TABLE = pa.table({"id": ["a", "b", "a", "c", "b", "a"], "n": [0, 1, 2, 3, 4, 5]})


@pytest.mark.parametrize(("rule", "rows"), [
    ("first", [0, 1, 3]), ("last", [3, 4, 5]), ("newest-by n", [3, 4, 5]),
])  # fmt: skip
def test_one_row_of_each_unit_counts(rule, rows):
    assert numbered(TABLE, rule) == rows


def test_counts_and_positions(tmp_path):
    path = tmp_path / "u.csv"
    path.write_text("id,n\na,1\nb,2\n\na,3\n")
    opened, rows = kept(path, "last")
    assert [row["n"] for row in rows] == ["2", "3"]
    assert opened.lines(np.array([1, 2])).tolist() == [3, 5]
    assert opened.read_as == f"{path}: 1 row of 1 unit (id) was a repeat; kept the last of each"
    opened, _ = kept(TABLE, "newest-by n")
    assert opened.read_as == (
        "table: 3 rows of 2 units (id) were repeats; kept the newest of each by n"
    )
    opened, _ = kept(pa.table({"id": ["a", "b"]}), "first")
    assert opened.read_as == "table: no unit (id) is repeated"


def test_a_cell_that_is_too_long_is_named_among_all_rows(tmp_path):
    path = tmp_path / "u.csv"
    path.write_text(f"id,n\na,1\na,2\nb,{'x' * 20_000}\n")
    with refused("invalid-rows", row=4, column="n", problem="too-long"):
        kept(path, "last")


def test_rows_without_an_id_all_count():
    table = pa.table({"id": ["", "a", None, "a"], "n": [0, 1, 2, 3]})
    assert numbered(table, "last") == [0, 2, 3]


def test_units_of_several_columns():
    table = pa.table({"id": ["a", "a", "b"], "week": [1, 2, 1], "n": [0, 1, 2]})
    assert len(kept(table, "last", ids=("id", "week"))[1]) == 3
    assert len(kept(table, "last")[1]) == 2


def days(*values):
    return pa.table({"id": ["a"] * len(values), "n": list(range(len(values))), "when": values})


@pytest.mark.parametrize(("values", "newest"), [
    (["2024-01-31", "2024-02-01"], 1),
    (["31.01.2024", "01.02.2024"], 1),
    (["2024-01-31 10:00", "2024-01-31 09:59"], 0),
    (["2024-01-31T10:00:00Z", "2024-01-31T11:30:00+02:00"], 0),
    (["15.1.2024 10:15", "15.1.2024 10:05"], 0),
    (["9", "10"], 1),
    (["1.234,5", "999,0"], 0),
    (["20240131", "20231231"], 0),
    ([datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)], 1),
    ([datetime.datetime(2024, 1, 1, 10), datetime.datetime(2024, 1, 1, 9)], 0),
    ([2.5, -1.0], 0),
    ([10**15, 10**15 + 1], 1),
])  # fmt: skip
def test_the_newest_by_dates_with_times_or_numbers(values, newest):
    assert numbered(days(*values), "newest-by when") == [newest]


def test_other_rows_tell_day_and_month_apart():
    table = pa.table({
        "id": ["a", "a", "b"], "n": [0, 1, 2], "when": ["02/03/2024", "03/01/2024", "31/01/2024"],
    })  # fmt: skip
    assert numbered(table, "newest-by when") == [0, 2]
    with refused("invalid-rows", column="when", problem="not-comparable"):
        kept(table.slice(0, 2), "newest-by when")


@pytest.mark.parametrize(("values", "problem"), [
    (["2024-01-31", ""], (2, "when", "not-comparable")),
    (["2024-01-31", "soon"], (2, "when", "not-comparable")),
    (["2024-01-31", "31.01.2024"], (0, "when", "not-comparable")),
    ([1.0, None], (2, "when", "not-comparable")),
    ([1.0, float("nan")], (2, "when", "not-comparable")),
    (["2024-01-31", "2024-01-31"], (2, "when", "tied")),
    ([5, 5], (2, "when", "tied")),
    ([7, 5, 7], (3, "when", "tied")),
])  # fmt: skip
def test_ties_and_unreadable_values_are_refused_with_their_rows(values, problem):
    with refused("invalid-rows") as caught:
        kept(days(*values), "newest-by when")
    assert places(caught.value) == [problem]


def test_a_tie_below_the_newest_does_not_matter():
    assert numbered(days(5, 5, 7), "newest-by when") == [2]


def test_only_repeated_units_need_a_value():
    table = pa.table({"id": ["a", "b", "b"], "n": [0, 1, 2], "when": ["?", "1", "2"]})
    assert numbered(table, "newest-by when") == [0, 2]


@pytest.mark.parametrize("rule", ["", "newest", "newest-by", "newest-by ", "last one", "FIRST"])
def test_other_rules_are_refused(rule):
    with refused("invalid-argument", field="dedupe"):
        Source(TABLE, dedupe=rule)


def test_a_column_that_is_not_there():
    with refused("invalid-rows", column="changed", problem="no-such-column"):
        kept(TABLE, "newest-by changed")
    assert Dedupe.of(" newest-by changed at ").column == "changed at"


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), min_size=1, max_size=30))
def test_against_a_plain_loop(rows):
    table = pa.table({
        "id": [unit for unit, _ in rows], "n": list(range(len(rows))),
        "age": [10 * age + place % 10 for place, (_, age) in enumerate(rows)],
    })  # fmt: skip
    first, last = {}, {}
    for place, (unit, _) in enumerate(rows):
        first.setdefault(unit, place)
        last[unit] = place
    assert numbered(table, "first") == sorted(first.values())
    assert numbered(table, "last") == sorted(last.values())
    ages, newest = table["age"].to_pylist(), {}
    for place, (unit, _) in enumerate(rows):
        if unit not in newest or ages[place] > ages[newest[unit]]:
            newest[unit] = place
    tops = [[a for a, (u, _) in zip(ages, rows, strict=True) if u == unit] for unit in newest]
    if all(own.count(max(own)) == 1 for own in tops):
        assert numbered(table, "newest-by age") == sorted(newest.values())
    else:
        with refused("invalid-rows", problem="tied"):
            kept(table, "newest-by age")


# ----------------------------------------------------------------------
# In a campaign.


@pytest.fixture
def campaign(tmp_path):
    store = open_store(tmp_path / "c.db")
    yield created(store)
    store.close()


def doubled(frame):
    """Return a frame whose first ten units come again, a year older."""
    again = frame.head(10).with_columns(pl.col("age") + 1)
    return pl.concat([frame, again])


def test_a_repeated_unit_is_refused_with_the_remedy(campaign):
    with refused("invalid-rows", problem="repeated") as caught:
        campaign.assign(doubled(units(20)))
    [remedy] = caught.value.remedies
    assert (remedy.action, dict(remedy.options)) == ("dedupe", {"dedupe": "last"})
    assert 'dedupe="last"' in str(caught.value)
    result = campaign.assign(doubled(units(20)), **remedy.options)
    assert result.assigned == 20
    assert "10 rows of 10 units (id) were repeats" in result.read_as
    noted = {"rule": "last", "rows": 10, "units": 10}
    assert campaign.events()[-1].payload["left_out"] == noted
    assert campaign.verify().sound


def test_the_kept_rows_are_stored_and_repeated_calls_agree(campaign, tmp_path):
    frame = doubled(units(20))
    first = campaign.assign(frame, dedupe="newest-by age").table
    campaign.export(tmp_path / "units.parquet")
    ages = dict(pl.read_parquet(tmp_path / "units.parquet").select("id", "age").iter_rows())
    newest = dict(frame.group_by("id").agg(pl.col("age").max()).iter_rows())
    assert ages == newest
    assert campaign.assign(frame, dedupe="last").table.sort_by("id") == first.sort_by("id")


def test_units_that_do_not_fit_are_the_kept_ones(campaign, tmp_path):
    frame = doubled(units(310))
    result = campaign.assign(
        frame, dedupe="first", partial=True, out=tmp_path / "a.csv", rest=tmp_path / "rest.csv"
    )
    assert (result.assigned, result.left_over) == (300, 10)
    rest = pl.read_csv(tmp_path / "rest.csv", schema_overrides={"id": pl.String})
    assert rest["id"].to_list() == frame["id"].to_list()[300:310]


def test_outcomes_are_recorded_once_for_each_unit(campaign):
    found = outcomes(campaign.assign(units(20)).table)
    again = found.head(5).with_columns(pl.col("visit") + 1)
    result = campaign.record(pl.concat([found, again]), dedupe="last")
    assert (result.rows, result.accepted, result.conflict) == (20, 20, 0)
    assert "5 rows of 5 units (id) were repeats; kept the last of each" in result.read_as
    assert campaign.events()[-1].payload["left_out"]["rows"] == 5


def test_a_first_spec_and_its_validation(tmp_path):
    rows = [["customer id", "order no", "visits", "changed"]] + [
        [f"c{n % 25}", f"o{n}", n % 7, datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=n)]
        for n in range(40)
    ]
    path = write_workbook(tmp_path / "u.xlsx", rows)
    made = first_spec(Source(path, dedupe="newest-by changed"))
    # The orders are all different, but whose rows were dropped are the customers.
    assert made.draft.unit == ("customer id",)
    assert made.draft.rows == 25
    assert "15 rows of 15 units (customer id) were repeats" in made.read_as
    (tmp_path / "spec.toml").write_text(made.text, encoding="utf-8")
    scratch = open_store(tmp_path / "scratch.db")
    found = validate(tmp_path / "spec.toml", path, scratch=scratch, dedupe="newest-by changed")
    scratch.close()
    assert found.sound
    assert (found.units, found.left_over) == (25, 25 - made.sizes[0])
