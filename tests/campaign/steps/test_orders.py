"""Orders: several rows of one unit, delivered twice, dated, refunded, corrected, without ids."""

import random
import tempfile
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.campaign import Campaign
from seqbatch.campaign.views.status import remarks
from seqbatch.errors import InvalidFileError
from seqbatch.storage import open_store
from tests.campaign.crashing import Nursery, order
from tests.cases import thorough
from tests.oracles.orders import Order, Orders
from tests.refusals import refused

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
IDS = [f"c{number:02}" for number in range(12)]
COMBINED = {
    "revenue": ("amount", "sum", "amount"),
    "orders": ("count", "count", "order_id"),
    "bought": ("yes/no", "any", "order_id"),
    "earliest": ("amount", "first", "amount"),
    "latest": ("amount", "last", "amount"),
    "largest": ("amount", "max", "amount"),
}


class Clock:
    """A clock that tells what it is told."""

    def __init__(self):
        self.time = START

    def __call__(self):
        return self.time


def spec_of(metrics, objective="revenue", **changes):
    return {
        "name": "shop", "seed": 5, "unit": "id", "actions": ["none", "mail"], "control": "none",
        "randomised": 1.0, "grid": {"sizes": [12, 6, 6]}, "policy": {"kind": "SBPE"},
        "required_outcomes": 0.0, "sums": "floating", "metrics": metrics,
        "objective": {"maximise": objective}, **changes,
    }  # fmt: skip


def of_orders(**settings):
    """Return all six ways to combine the rows of a file with the columns amount and order_id."""
    made = {}
    for name, (kind, rows, column) in COMBINED.items():
        own = {"kind": kind, "rows": rows, "column": column, "row_id": "order_id", **settings}
        if own["row_id"] is None:
            own = {**own, "column": "amount"}
            del own["row_id"]
        if kind == "yes/no":
            own.pop("range", None)
        if rows != "any" or "row_id" in own:
            made[name] = own
    return made


def shop(store, clock=None, **settings):
    """Create a campaign about orders, and assign its first units."""
    campaign = Campaign.create(
        spec_of(of_orders(**settings)), store=store, who="ann", clock=clock or Clock()
    )
    campaign.assign(pl.DataFrame({"id": IDS}))
    return campaign


def frame(rows, *, dated=False, ids=True):
    columns = {"id": [row.unit for row in rows], "amount": [row.amount for row in rows]}
    if ids:
        columns["order_id"] = [row.id for row in rows]
    if dated:
        columns["ordered"] = [row.when.isoformat() for row in rows]
    kinds = {"id": pl.String, "amount": pl.Float64, "order_id": pl.String, "ordered": pl.String}
    return pl.DataFrame(columns, schema_overrides={name: kinds[name] for name in columns})


def values(campaign, *names):
    """Return the metrics of every unit by its id."""
    with tempfile.TemporaryDirectory() as folder:
        campaign.export(f"{folder}/u.parquet")
        found = pl.read_parquet(f"{folder}/u.parquet").select("id", *names)
    return {row[0]: row[1:] if len(names) > 1 else row[1] for row in found.iter_rows()}


def expected(oracle, names=tuple(COMBINED), *, dated=False):
    return {
        unit: tuple(oracle.value(unit, COMBINED[name][1], dated=dated) for name in names)
        for unit in oracle.assigned
    }


def counts(result):
    names = ("accepted", "duplicate", "conflict", "quarantined", "outside")
    made = {name: getattr(result, name) for name in names}
    assert sum(made.values()) == result.rows
    return made


def assert_sound(campaign):
    found = campaign.verify()
    assert found.sound, found.findings


# ----------------------------------------------------------------------
# Against a dictionary of lists.


AMOUNTS = st.sampled_from([-20.0, -0.5, 0.0, 0.25, 5.0, 12.5, 100.0, 12.5, None])
TIMES = st.one_of(
    st.integers(-3, 20).map(lambda days: date(2026, 3, 1) + timedelta(days=days)),
    st.integers(-50, 400).map(lambda hours: START + timedelta(hours=hours)),
    st.sampled_from([START, START + timedelta(days=14), START - timedelta(microseconds=1)]),
)


@st.composite
def some_orders(draw, most=30):
    count = draw(st.integers(1, most))
    return [
        Order(f"o{number}", draw(st.sampled_from([*IDS[:6], "nobody"])), draw(AMOUNTS), draw(TIMES))
        for number in range(count)
    ]


def delivered(rows, draw):
    """Split rows into files, in any order, some of them delivered twice."""
    rows = rows + [row for row in rows if draw.random() < 0.3]
    draw.shuffle(rows)
    files = [[] for _ in range(draw.randint(1, 5))]
    for row in rows:
        draw.choice(files).append(row)
    return [file for file in files if file]


def play(rows, seed, **settings):
    """Record orders in files, and compare every file and the end with the dictionary."""
    draw, within = random.Random(seed), settings.get("within")
    dated = "date" in settings
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"{folder}/c.db")
        campaign = shop(store, **settings)
        oracle = Orders(dict.fromkeys(IDS, START), timedelta(days=14) if within else None)
        for file in delivered(rows, draw):
            result = campaign.record(frame(file, dated=dated))
            assert counts(result) == oracle.record(file)
        assert values(campaign, *COMBINED) == expected(oracle, dated=dated)
        assert_sound(campaign)
        store.close()


@settings(max_examples=20, deadline=None)
@given(some_orders(), st.integers(0, 2**32))
def test_files_of_orders_against_a_dictionary(rows, seed):
    play(rows, seed)


@settings(max_examples=20, deadline=None)
@given(some_orders(), st.integers(0, 2**32))
def test_dated_orders_against_a_dictionary(rows, seed):
    play(rows, seed, date="ordered", within="14 days")


@settings(max_examples=10, deadline=None)
@given(some_orders(), st.integers(0, 2**32))
def test_any_order_of_any_files_gives_the_same_outcomes(rows, seed):
    """First and last by date; the amounts are such that their sums are exact."""
    ends = []
    for shuffle in range(2):
        with tempfile.TemporaryDirectory() as folder:
            store = open_store(f"{folder}/c.db")
            campaign = shop(store, date="ordered")
            for file in delivered(rows, random.Random(f"{seed} {shuffle}")):
                campaign.record(frame(file, dated=True))
            ends.append(values(campaign, *COMBINED))
            store.close()
    assert ends[0] == ends[1]


@settings(max_examples=15, deadline=None)
@given(some_orders(most=15), st.integers(0, 2**32))
def test_corrections_against_a_dictionary(rows, seed):
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"{folder}/c.db")
        campaign = shop(store, date="ordered")
        oracle = Orders(dict.fromkeys(IDS, START))
        for _ in range(4):
            file = [
                Order(
                    row.id, row.unit if draw.random() < 0.9 else draw.choice(IDS),
                    draw.choice([row.amount, 7.5, 40.0]),
                    row.when if draw.random() < 0.8 else date(2026, 3, draw.randint(2, 14)),
                )
                for row in draw.choices(rows, k=draw.randint(1, len(rows)))
            ]  # fmt: skip
            correct = draw.random() < 0.5
            result = campaign.record(frame(file, dated=True), correct=correct, reason="as it is")
            assert counts(result) == oracle.record(file, correct=correct)
        assert values(campaign, *COMBINED) == expected(oracle, dated=True)
        assert_sound(campaign)
        store.close()


# ----------------------------------------------------------------------
# On every kind of store.


def o(number, unit, amount, when=None):
    return Order(f"o{number}", unit, amount, when)


def test_refunds_are_subtracted(store):
    campaign = shop(store)
    rows = [o(1, "c00", 50.0), o(2, "c00", -20.0), o(3, "c01", -5.0)]
    result = campaign.record(frame(rows))
    assert counts(result)["accepted"] == 3
    assert (result.units, result.late, result.corrected) == (2, 0, 0)
    found = values(campaign, "revenue", "orders")
    assert (found["c00"], found["c01"], found["c02"]) == ((30.0, 2.0), (-5.0, 1.0), (None, None))
    assert campaign.situation().observed == 2
    assert_sound(campaign)


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_the_same_file_twice_adds_nothing(store, tmp_path, monkeypatch, block):
    """Also if the rows of a unit are spread over the pieces of a file."""
    monkeypatch.setattr("seqbatch.campaign.files.csv.BLOCK", block)
    campaign, draw = shop(store), random.Random(7)
    rows = [o(n, draw.choice(IDS), float(draw.randint(-40, 400)) / 4) for n in range(120)]
    frame(rows + rows[:30]).write_csv(tmp_path / "orders.csv")
    first = campaign.record(tmp_path / "orders.csv")
    assert (first.accepted, first.duplicate, first.repeated) == (120, 30, 30)
    events, state = len(campaign.events()), campaign.status().state
    again = campaign.record(tmp_path / "orders.csv")
    assert (again.duplicate, again.event) == (150, None)
    assert (len(campaign.events()), campaign.status().state) == (events, state)
    oracle = Orders(dict.fromkeys(IDS, START))
    oracle.record(rows)
    assert values(campaign, *COMBINED) == expected(oracle)
    assert campaign.status().logged == 120
    assert_sound(campaign)


def test_a_late_order_is_a_correction_of_the_estimate(store):
    clock = Clock()
    campaign = Campaign.create(
        spec_of(of_orders(absent=0, date="ordered", within="14 days") | {
            "bought": {"kind": "yes/no", "rows": "any", "column": "order_id",
                       "row_id": "order_id", "date": "ordered"},
        }), store=store, clock=clock,
    )  # fmt: skip
    campaign.assign(pl.DataFrame({"id": IDS}))
    campaign.record(frame([o(1, "c00", 10.0, date(2026, 3, 2))], dated=True))
    clock.time += timedelta(days=15)
    closed = campaign.close()
    assert sum(closed.absent.values()) == 11
    late = [o(2, "c00", 5.5, date(2026, 3, 9)), o(3, "c01", 7.0, date(2026, 3, 12))]
    result = campaign.record(frame(late, dated=True))
    assert (result.accepted, result.late, result.corrected) == (2, 2, 0)
    campaign.assign(pl.DataFrame({"id": [f"d{n}" for n in range(6)]}))
    campaign.record(frame([o(4, "d0", 1.0, date(2026, 3, 17))], dated=True))
    closed = campaign.close(force=True, reason="soon enough")
    assert (closed.corrected, closed.replaced, closed.late) == (1, 1, 0)
    assert closed.held == 0
    found = values(campaign, "revenue", "reward", "observed")
    assert found["c00"] == (15.5, 15.5, "recorded")
    assert found["c01"] == (7.0, 7.0, "recorded")
    assert found["c02"] == (None, 0.0, "absent")
    assert_sound(campaign)


def test_close_names_the_day_when_the_last_window_ends(store):
    clock = Clock()
    settings = {"absent": 0, "date": "ordered", "within": "14 days"}
    spec = spec_of(of_orders(**settings), required_outcomes=0.9)
    campaign = Campaign.create(spec, store=store, clock=clock)
    campaign.assign(pl.DataFrame({"id": IDS[:6]}), partial=True)
    clock.time += timedelta(days=2)
    campaign.assign(pl.DataFrame({"id": IDS[6:]}))
    campaign.record(frame([o(1, "c00", 10.0, date(2026, 3, 2))], dated=True))
    with refused("too-few-outcomes", match="2026-03-17 12:00 UTC"):
        campaign.close()
    clock.time += timedelta(days=14)
    assert sum(campaign.close().absent.values()) == 11


def test_rows_outside_the_window_are_counted_and_told(store, tmp_path):
    campaign = shop(store, date="ordered", within="14 days")
    rows = [
        o(1, "c00", 1.0, date(2026, 3, 1)),  # the day of the assignment
        o(2, "c00", 2.0, datetime(2026, 3, 1, 11, 59, 59, tzinfo=UTC)),  # before it
        o(3, "c00", 4.0, datetime(2026, 3, 1, 12, 0, tzinfo=UTC)),
        o(4, "c00", 8.0, datetime(2026, 3, 15, 12, 0, tzinfo=UTC)),
        o(5, "c00", 16.0, datetime(2026, 3, 15, 12, 0, 1, tzinfo=UTC)),  # after it
        o(6, "c00", 32.0, date(2026, 3, 15)),
        o(7, "c00", 64.0, date(2026, 3, 16)),  # after it
        o(8, "c01", 128.0, date(2026, 2, 27)),  # before it
    ]
    result = campaign.record(frame(rows, dated=True))
    assert (result.accepted, result.outside, result.windows) == (4, 4, {"14 days": (2, 2)})
    said = "4 rows are outside 14 days of the unit's assignment (2 before, 2 after)"
    assert any(text.startswith(said) for text in result.remarks)
    found = values(campaign, "revenue", "observed")
    # A unit whose rows are all outside is a unit without a row.
    assert (found["c00"], found["c01"]) == ((45.0, "recorded"), (None, "none"))
    again = campaign.record(frame(rows, dated=True))
    assert again.duplicate == 8
    status = campaign.status()
    assert (status.logged, status.outside) == (8, {"14 days": 4})
    said = "4 rows are outside 14 days of the unit's assignment, and not in the numbers."
    assert said in remarks(status)
    campaign.export(tmp_path / "rows.parquet", what="rows")
    exported = pl.read_parquet(tmp_path / "rows.parquet")
    assert exported["verdict"].to_list() == [
        "counted", "outside", "counted", "counted", "outside", "counted", "outside", "outside",
    ]  # fmt: skip
    assert exported["row time"][1] == datetime(2026, 3, 1, 11, 59, 59, tzinfo=UTC)
    assert exported["row day"].to_list() == [True, *[False] * 4, *[True] * 3]
    assert_sound(campaign)


def test_times_have_zones_and_are_utc_without_one(store):
    campaign = shop(store, date="ordered", within="1 day")
    made = pl.DataFrame({
        "id": ["c00"] * 5, "order_id": list("abcde"), "amount": [1.0, 2.0, 4.0, 8.0, 16.0],
        "ordered": [
            "2026-03-01T13:00:00+01:00", "2026-03-01T12:59:59+01:00", "2026-03-01 12:00",
            "2026-03-02T12:00:00.000000Z", "2026-03-02 07:00:01 -0500",
        ],
    })  # fmt: skip
    assert campaign.record(made).windows == {"1 day": (1, 1)}
    assert values(campaign, "revenue")["c00"] == 13.0


@pytest.mark.parametrize("cell", ["", "yesterday", "31.12.2025", "2026-02-30"])
def test_a_date_that_cannot_be_read_is_held(store, cell):
    campaign = shop(store, date="ordered", within="14 days")
    made = pl.DataFrame({"id": ["c00"], "order_id": ["a"], "amount": [1.0], "ordered": [cell]})
    result = campaign.record(made)
    assert result.quarantined == 1
    assert result.held[0][3].startswith(
        "ordered is missing" if not cell else "ordered must be a date"
    )


def german(*dates):
    count = len(dates)
    ids = [f"o{number}" for number in range(count)]
    return pl.DataFrame(
        {"id": ["c00"] * count, "order_id": ids, "amount": [1.0] * count, "ordered": dates}
    )


@pytest.mark.parametrize(
    ("form", "inside", "before", "after"),
    [
        ("%d.%m.%Y", "01.03.2026", "28.02.2026", "16.03.2026"),
        ("%d.%m.%Y %H:%M", "01.03.2026 12:00", "01.03.2026 11:59", "15.03.2026 12:01"),
        ("%m/%d/%y %I:%M %p", "03/01/26 12:00 PM", "03/01/26 11:59 AM", "03/15/26 12:01 PM"),
        (
            "%d.%m.%Y %H:%M:%S %z", "01.03.2026 13:00:00 +01:00", "01.03.2026 12:59:59 +01:00",
            "15.03.2026 12:00:01 Z",
        ),
    ],
)  # fmt: skip
def test_a_declared_format_reads_the_dates_of_rows(store, form, inside, before, after):
    campaign = shop(store, date="ordered", date_format=form, within="14 days")
    result = campaign.record(german(inside, before, after, "2026-03-02"))
    assert (result.accepted, result.quarantined) == (1, 1)
    assert result.windows == {"14 days": (1, 1)}
    assert_sound(campaign)


def test_a_date_in_another_format_names_the_setting_and_amend_takes_it(store):
    campaign = shop(store, date="ordered", within="14 days")
    # 03/04 alone could mean March or April; the other row tells.
    held = campaign.record(german("13/03/2026", "03/04/2026"), dry_run=True).held
    assert [row[3].count("date_format = ") for row in held] == [1, 1]
    assert 'date_format = "%d/%m/%Y"' in held[1][3]
    form = {name: {"date_format": "%d/%m/%Y"} for name in COMBINED}
    campaign.amend(reason="as the shop writes them", metrics=form)
    result = campaign.record(german("13/03/2026", "03/04/2026"))
    assert (result.accepted, result.windows) == (1, {"14 days": (0, 1)})
    assert_sound(campaign)


def test_metrics_of_one_file_share_the_format_of_dates(store):
    campaign = shop(store, date="ordered", within="14 days")
    campaign.amend(reason="one of them", metrics={"revenue": {"date_format": "%d.%m.%Y"}})
    with pytest.raises(InvalidFileError) as caught:
        campaign.record(german("13.03.2026"))
    assert caught.value.problems[0].code == "different-date-format"


@pytest.mark.parametrize("kind", ["pandas", "arrow", "polars", "days"])
def test_frames_of_every_kind(store, kind):
    campaign = shop(store, date="ordered", within="14 days")
    times = [datetime(2026, 3, 2, 9, tzinfo=UTC), datetime(2026, 3, 20, tzinfo=UTC)]
    columns = {"id": ["c00", "c00"], "order_id": [1, 2], "amount": [1.5, 2.5], "ordered": times}
    made = {
        "pandas": lambda: pytest.importorskip("pandas").DataFrame(columns),
        "arrow": lambda: pa.table(columns),
        "polars": lambda: pl.DataFrame(columns).with_columns(pl.col("amount").cast(pl.Float32)),
        "days": lambda: pl.DataFrame(columns).with_columns(pl.col("ordered").dt.date()),
    }[kind]()
    result = campaign.record(made)
    assert (result.accepted, result.outside) == (1, 1)
    assert values(campaign, "revenue", "orders")["c00"] == (1.5, 1.0)
    assert campaign.record(made).duplicate == 2
    assert_sound(campaign)


def test_metrics_with_other_windows_count_other_rows(store):
    settings = {"kind": "amount", "rows": "sum", "column": "amount", "row_id": "order_id",
                "date": "ordered"}  # fmt: skip
    metrics = {
        "revenue": {**settings, "within": "7 days"}, "later": {**settings, "within": "30 days"},
        "all": settings,
    }  # fmt: skip
    campaign = Campaign.create(spec_of(metrics), store=store, clock=Clock())
    campaign.assign(pl.DataFrame({"id": IDS}))
    days = [2, 9, 40]
    rows = [o(n, "c00", 2.0**n, date(2026, 3, 1) + timedelta(days=n_days))
            for n, n_days in enumerate(days)]  # fmt: skip
    result = campaign.record(frame(rows, dated=True))
    assert (result.accepted, result.outside) == (3, 0)
    assert result.windows == {"7 days": (0, 2), "30 days": (0, 1)}
    assert values(campaign, "revenue", "later", "all")["c00"] == (1.0, 3.0, 7.0)
    assert_sound(campaign)


# ----------------------------------------------------------------------
# Without ids.


def test_equal_rows_without_ids_are_asked_about(store, tmp_path):
    campaign = shop(store, row_id=None)
    rows = [o(1, "c00", 20.0), o(2, "c00", 20.0), o(3, "c00", 5.0), o(4, "c01", 20.0)]
    frame(rows, ids=False).write_csv(tmp_path / "orders.csv")
    before = len(campaign.events())
    with refused("equal-rows", row=3, problem="equal-rows") as caught:
        campaign.record(tmp_path / "orders.csv")
    assert [each.options for each in caught.value.remedies] == [
        {"equal_rows": "drop"}, {"equal_rows": "keep"},
    ]  # fmt: skip
    assert "equals line 2" in str(caught.value)
    with refused("equal-rows"):
        campaign.record(tmp_path / "orders.csv", dry_run=True)
    assert len(campaign.events()) == before
    with refused("invalid-argument", field="equal_rows"):
        campaign.record(tmp_path / "orders.csv", equal_rows="both")
    kept = campaign.record(tmp_path / "orders.csv", equal_rows="keep")
    assert (kept.accepted, kept.duplicate) == (4, 0)
    assert values(campaign, "revenue", "orders")["c00"] == (45.0, 3.0)
    # The same file again: asked about, dropped, and not counted twice even if rows are kept.
    with refused("equal-rows"):
        campaign.record(tmp_path / "orders.csv")
    for equal_rows in ("drop", "keep"):
        again = campaign.record(tmp_path / "orders.csv", equal_rows=equal_rows)
        assert (again.duplicate, again.event) == (4, None)
    # Another file with an equal row: one more if it is kept.
    more = frame([o(5, "c00", 20.0), o(6, "c02", 1.0)], ids=False)
    with refused("equal-rows", row=1):
        campaign.record(more)
    result = campaign.record(more, equal_rows="keep")
    assert result.accepted == 2
    assert values(campaign, "revenue", "orders")["c00"] == (65.0, 4.0)
    assert_sound(campaign)


def test_equal_rows_are_dropped_and_told(store):
    campaign = shop(store, row_id=None)
    rows = [o(1, "c00", 20.0), o(2, "c00", 20.0), o(3, "c00", 5.0)]
    result = campaign.record(frame(rows, ids=False), equal_rows="drop")
    assert (result.accepted, result.duplicate, result.repeated) == (2, 1, 1)
    assert any(text.startswith("1 row repeats another row") for text in result.remarks)
    assert values(campaign, "revenue")["c00"] == 25.0
    assert_sound(campaign)


def test_a_date_tells_equal_orders_apart(store):
    campaign = shop(store, row_id=None, date="ordered")
    rows = [o(1, "c00", 20.0, date(2026, 3, 2)), o(2, "c00", 20.0, date(2026, 3, 3))]
    assert campaign.record(frame(rows, ids=False, dated=True)).accepted == 2
    assert values(campaign, "revenue")["c00"] == 40.0


@pytest.mark.parametrize("block", [32, 1 << 20])
def test_equal_rows_in_other_pieces_of_a_file(store, tmp_path, monkeypatch, block):
    monkeypatch.setattr("seqbatch.campaign.files.csv.BLOCK", block)
    campaign = shop(store, row_id=None)
    rows = [o(n, IDS[n % 3], float(n % 7)) for n in range(30)]
    frame(rows, ids=False).write_csv(tmp_path / "orders.csv")
    with refused("equal-rows", match="9 rows of the file equal an earlier row of it"):
        campaign.record(tmp_path / "orders.csv")
    assert campaign.record(tmp_path / "orders.csv", equal_rows="keep").accepted == 30
    total = sum(value for value in values(campaign, "revenue").values() if value is not None)
    assert total == sum(row.amount for row in rows)
    assert_sound(campaign)


# ----------------------------------------------------------------------
# Corrections, conflicts, ranges, amendments, several files.


def test_a_correction_replaces_a_row(store):
    campaign = shop(store)
    campaign.record(frame([o(1, "c00", 10.0), o(2, "c00", 5.0), o(3, "c01", 1.0)]))
    other = frame([o(1, "c00", 12.0)])
    result = campaign.record(other)
    assert result.conflict == 1
    reason = "order_id 'o1' is already recorded with other values (revenue 10; received 12)"
    assert result.held[0][3] == reason
    assert values(campaign, "revenue")["c00"] == 15.0
    result = campaign.record(other, correct=True, reason="typo")
    assert (result.accepted, result.corrected) == (1, 1)
    assert values(campaign, *COMBINED)["c00"] == (17.0, 2.0, 1.0, 5.0, 12.0, 12.0)
    moved = campaign.record(frame([o(1, "c01", 12.0)]), correct=True, reason="typo")
    assert moved.held[0][3] == "order_id 'o1' is already recorded for another unit"
    assert_sound(campaign)


def test_a_correction_of_a_date_moves_a_row_out(store):
    campaign = shop(store, date="ordered", within="14 days")
    campaign.record(frame([o(1, "c00", 10.0, date(2026, 3, 2))], dated=True))
    late = frame([o(1, "c00", 10.0, date(2026, 4, 2))], dated=True)
    result = campaign.record(late, correct=True, reason="a wrong date")
    # Nothing says what the first order of a unit without orders is: the row is held.
    assert (result.quarantined, result.held[0][2]) == (1, "quarantined")
    assert values(campaign, "revenue")["c00"] == 10.0
    campaign = Campaign.create(
        spec_of({"revenue": {"rows": "sum", "column": "amount", "row_id": "order_id",
                             "date": "ordered", "within": "14 days"}}, name="sums"),
        store=store, clock=Clock(),
    )  # fmt: skip
    campaign.assign(pl.DataFrame({"id": IDS}))
    campaign.record(frame([o(1, "c00", 10.0, date(2026, 3, 2))], dated=True))
    result = campaign.record(late, correct=True, reason="a wrong date")
    assert (result.outside, result.units) == (1, 1)
    assert values(campaign, "revenue")["c00"] == 0.0
    assert_sound(campaign)


def test_a_total_out_of_range_holds_the_rows_of_its_unit(store):
    campaign = shop(store, range=[-50, 100])
    rows = [o(1, "c00", 80.0), o(2, "c00", 60.0), o(3, "c01", 70.0), o(4, "c01", -60.0)]
    result = campaign.record(frame(rows, dated=False).with_columns(wave=pl.lit(1)))
    assert counts(result) == {
        "accepted": 1, "duplicate": 0, "conflict": 0, "quarantined": 3, "outside": 0,
    }  # fmt: skip
    said = [reason for _, _, _, reason in result.held]
    assert "the unit's total of amount must be between -50 and 100; it would be 140" in said
    # A single amount of -60 is below the range of the metrics that take one row.
    assert "amount must be between -50 and 100; received -60" in said
    assert values(campaign, "revenue")["c01"] == 70.0
    result = campaign.record(frame(rows[:1]))
    assert result.accepted == 1
    assert values(campaign, "revenue", "orders")["c00"] == (80.0, 1.0)
    assert_sound(campaign)


def test_orders_and_other_metrics_come_in_several_files(store):
    settings = {"rows": "sum", "row_id": "order_id", "absent": 0}
    metrics = {
        "revenue": {"column": "amount", **settings},
        "returned": {"rows": "sum", "row_id": "return_id", "absent": 0},
        "unsubscribed": {"kind": "yes/no", "absent": 0},
    }
    objective = {"maximise": {"revenue": 1, "returned": -1}}
    spec = {**spec_of(metrics), "objective": objective}
    campaign = Campaign.create(spec, store=store, clock=Clock())
    campaign.assign(pl.DataFrame({"id": IDS}))
    campaign.record(frame([o(1, "c00", 30.0), o(2, "c01", 8.0), o(3, "c00", 12.0)]))
    # A return may have the id of an order.
    returns = pl.DataFrame({"id": ["c00"], "return_id": ["o1"], "returned": [12.0]})
    assert campaign.record(returns).accepted == 1
    campaign.record(pl.DataFrame({"id": ["c00", "c05"], "unsubscribed": ["no", "yes"]}))
    assert campaign.situation().observed == 1
    both = frame([o(9, "c02", 1.0)]).with_columns(return_id=pl.lit("r"), returned=pl.lit(1.0))
    with refused("invalid-rows", problem="different-row-id"):
        campaign.record(both)
    closed = campaign.close()
    assert (sum(closed.observed.values()), sum(closed.absent.values())) == (1, 11)
    found = values(campaign, "revenue", "returned", "unsubscribed", "reward")
    assert found["c00"] == (42.0, 12.0, 0.0, 30.0)
    assert found["c01"] == (8.0, None, None, 8.0)
    assert found["c05"] == (None, None, 1.0, 0.0)
    # A late order of an absent unit: the return is still assumed to be none.
    campaign.record(frame([o(4, "c05", 2.5)]))
    assert values(campaign, "reward")["c05"] == 2.5
    assert campaign.record(returns).duplicate == 1
    assert_sound(campaign)


def test_a_metric_without_rows_beside_orders(store):
    metrics = of_orders() | {"rating": {"kind": "count"}}
    campaign = Campaign.create(spec_of(metrics), store=store, clock=Clock())
    campaign.assign(pl.DataFrame({"id": IDS}))
    rows = frame([o(1, "c00", 10.0), o(2, "c00", 5.0), o(3, "c01", 1.0)])
    with refused("several-rows", field="rating", row=2) as caught:
        campaign.record(rows.with_columns(rating=pl.Series([4, 4, 1])))
    ways = [each.options["metrics"]["rating"]["rows"] for each in caught.value.remedies]
    assert ways == ["sum", "count", "first", "last", "max"]
    once = rows.with_columns(rating=pl.Series([None, 5, 1]))
    assert campaign.record(once).accepted == 3
    assert values(campaign, "revenue", "rating")["c00"] == (15.0, 5.0)
    more = frame([o(4, "c00", 1.0)]).with_columns(rating=pl.lit(3))
    result = campaign.record(more)
    assert result.held[0][3] == "the unit already has rating 5; received 3"
    assert campaign.record(more, correct=True, reason="asked again").accepted == 1
    assert values(campaign, "revenue", "rating")["c00"] == (16.0, 3.0)
    assert_sound(campaign)


def test_rows_are_declared_after_a_file_was_refused(store):
    metrics = {"revenue": {"column": "amount"}}
    campaign = Campaign.create(spec_of(metrics), store=store, clock=Clock())
    campaign.assign(pl.DataFrame({"id": IDS}))
    campaign.record(frame([o(1, "c00", 10.0), o(2, "c01", 5.0)]))
    rows = frame([o(3, "c02", 10.0), o(4, "c02", 2.0), o(5, "c00", 1.0)])
    with refused("several-rows"):
        campaign.record(rows)
    changed = {"revenue": {"rows": "sum", "row_id": "order_id"}}
    campaign.amend(metrics=changed, reason="several orders")
    result = campaign.record(rows)
    # It is not known whether the first value of c00 has this order in it.
    assert (result.accepted, result.conflict) == (2, 1)
    assert values(campaign, "revenue")["c02"] == 12.0
    assert values(campaign, "revenue")["c00"] == 10.0
    every = frame([o(1, "c00", 10.0), o(5, "c00", 1.0)])
    assert campaign.record(every, correct=True, reason="its orders").accepted == 2
    assert values(campaign, "revenue")["c00"] == 11.0
    assert campaign.record(frame([o(6, "c00", 4.0)])).accepted == 1
    assert values(campaign, "revenue")["c00"] == 15.0
    for setting, to in (("rows", "max"), ("row_id", "id2"), ("date", "ordered")):
        with refused("rows-combined", field=f"metrics.revenue.{setting}"):
            campaign.amend(metrics={"revenue": {setting: to}}, reason="better")
    campaign.amend(metrics={"revenue": {"absent": 0}}, reason="no order")
    assert_sound(campaign)


def test_a_row_may_be_completed_by_another_file(store):
    settings = {"rows": "sum", "row_id": "order_id"}
    metrics = {"revenue": {"column": "amount", **settings}, "items": {"kind": "count", **settings}}
    campaign = Campaign.create(spec_of(metrics), store=store, clock=Clock())
    campaign.assign(pl.DataFrame({"id": IDS}))
    rows = frame([o(1, "c00", 10.0), o(2, "c00", 5.0)])
    campaign.record(rows)
    assert campaign.record(rows.with_columns(items=pl.Series([2, None]))).accepted == 1
    assert values(campaign, "revenue", "items")["c00"] == (15.0, 2.0)
    assert campaign.record(rows).duplicate == 2
    assert_sound(campaign)


def test_a_file_needs_the_columns_of_its_metrics(store):
    campaign = shop(store, date="ordered")
    rows = frame([o(1, "c00", 10.0, date(2026, 3, 2))], dated=True)
    for name in ("order_id", "ordered"):
        with refused("invalid-rows", column=name, problem="no-such-column"):
            campaign.record(rows.drop(name))


# ----------------------------------------------------------------------
# Killed, and tried again.


@pytest.fixture(scope="module")
def nursery():
    made = Nursery()
    yield made
    made.close()


@pytest.mark.slow
# After a step is before the next one, but for what is done between them.
@pytest.mark.parametrize("when", ["before", *thorough("after")])
@pytest.mark.parametrize("step", ["index_rows", "add_outcomes", "index_outcomes", "add_event",
                                  "commit"])  # fmt: skip
@pytest.mark.parametrize("kind", ["sqlite", "lake"])
def test_a_killed_call_that_is_made_again_counts_once(nursery, tmp_path, kind, step, when):
    url = f"lake:{tmp_path}/lake" if kind == "lake" else str(tmp_path / "c.db")
    store = open_store(url)
    campaign, draw = shop(store), random.Random(3)
    rows = [o(n, draw.choice(IDS), float(draw.randint(-40, 400)) / 4) for n in range(40)]
    campaign.record(frame(rows[:10]))
    store.close()
    frame(rows).write_parquet(tmp_path / "orders.parquet")
    given = {"outcomes": tmp_path / "orders.parquet"}
    [died] = nursery.run(order(url, "record", name="shop", die_at=(step, when), **given))
    assert died["killed"]
    for _ in range(2):
        [done] = nursery.run(order(url, "record", name="shop", **given))
        assert done["done"]
    store = open_store(url)
    campaign = Campaign.open("shop", store=store)
    oracle = Orders(dict.fromkeys(IDS, START))
    oracle.record(rows)
    assert values(campaign, *COMBINED) == expected(oracle)
    assert_sound(campaign)
    store.close()


def test_a_million_is_not_needed_to_see_that_sums_are_left_folds(store):
    """Sums are added in the order of the record, whatever the file they came in."""
    amounts = np.random.default_rng(5).normal(0, 1, 60)
    campaign = shop(store)
    rows = [o(n, "c00", float(amount)) for n, amount in enumerate(amounts)]
    for start, stop in ((0, 7), (7, 8), (8, 41), (41, 60)):
        campaign.record(frame(rows[start:stop]))
    total = 0.0
    for amount in amounts:
        total += float(amount)
    assert values(campaign, "revenue")["c00"] == total
    assert_sound(campaign)
