"""Dates as they are spelled in files."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from seqbatch.campaign.files.date_format import DateFormat, date_formats_for, read_dates

DAY = datetime.date(2026, 3, 1)


@pytest.mark.parametrize(("form", "cells"), [
    ("iso", ["2026-03-01", " 2026-03-01 ", "2026-03-01T23:59", "2026-03-01 00:00:00",
             "2026-03-01T23:59:59.123456Z", "2026-03-01T23:30:00-05:00", "2026-03-01 00:30+0900"]),
    ("%d.%m.%Y", ["01.03.2026", "1.3.2026"]),
    ("%m/%d/%Y %H:%M", ["03/01/2026 23:59", "3/1/2026 0:05"]),
    ("%m/%d/%Y %I:%M %p", ["3/1/2026 11:59 PM", "03/01/2026 12:00 am"]),
    ("%Y%m%d", ["20260301"]),
    ("%d.%m.%y", ["01.03.26"]),
    ("%d %b %Y", ["1 Mar 2026", "01 MAR 2026"]),
    ("%A, %d %B %Y", ["Sunday, 1 March 2026"]),
    ("%Y-%j", ["2026-060"]),
    ("%Y-%m-%d %H:%M:%S.%f", ["2026-03-01 10:00:00.5", "2026-03-01 10:00:00.123456"]),
    ("%d/%m/%Y %H:%M %z", ["01/03/2026 23:30 -0500", "01/03/2026 00:30 +09:00"]),
])  # fmt: skip
def test_the_day_of_a_cell_is_the_one_that_is_written(form, cells):
    days, missing, wrong = read_dates(pa.array(cells), form=form)
    assert wrong == {}
    assert not missing.any()
    assert days.to_pylist() == [DAY] * len(cells)


@pytest.mark.parametrize(("form", "cells"), [
    ("iso", ["2026-02-30", "2026-3-1", "01.03.2026", "2026-03-01T25:00", "2026-03-01x", "soon",
             "2026-03", "20260301"]),
    ("%d.%m.%Y", ["31.02.2026", "01.03.26", "2026-03-01", "01.03.2026 10:00", "1.13.2026"]),
    ("%Y%m%d", ["2026301", "202603011"]),
    ("%m/%d/%Y", ["13/01/2026"]),
])  # fmt: skip
def test_other_cells_are_refused(form, cells):
    _, missing, wrong = read_dates(pa.array(cells), form=form)
    assert not missing.any()
    assert list(wrong) == list(range(len(cells)))
    for row, cell in enumerate(cells):
        assert f"received {cell!r}" in wrong[row]


def test_a_cell_that_is_no_iso_date_is_told_the_setting_that_accepts_it():
    _, _, wrong = read_dates(pa.array(["31.12.2025", "3/4/2025", "soon"]), form="iso")
    rule = "must be a date such as 2026-03-01; received"
    assert wrong == {
        0: f"{rule} '31.12.2025'; format = \"%d.%m.%Y\" would accept it",
        1: f'{rule} \'3/4/2025\'; format = "%d/%m/%Y" or format = "%m/%d/%Y" would accept it',
        2: f"{rule} 'soon'",
    }


@pytest.mark.parametrize("form", ["iso", "%m/%d/%Y"])
@pytest.mark.parametrize("kind", [pa.string(), pa.int64()])
def test_numbers_of_days_of_a_spreadsheet_are_told_their_date(form, kind):
    cells = pa.array([43466, 20000, 60000, 19999, 60001], pa.int64()).cast(kind)
    _, _, wrong = read_dates(cells, form=form)
    days = {0: "2019-01-01", 1: "1954-10-03", 2: "2064-04-08"}
    for row in range(5):
        hint = f"; it looks like Excel's number for the day {days.get(row)}: format the column as"
        assert (hint in wrong[row]) == (row in days)
        assert ("Excel" in wrong[row]) == (row in days)


@pytest.mark.parametrize("form", ["iso", "%m/%d/%Y"])
@pytest.mark.parametrize("cells", [
    pa.array(["43466.5", "43466,75", "43466.0", "19999.9", "2019.5", "43466.", None]),
    pa.array([43466.5, 43466.75, 43466.0, 19999.9, 2019.5, float("nan"), None]),
    pa.array([Decimal("43466.5"), Decimal("43466.75"), Decimal(43466), Decimal("19999.9"), None]),
])  # fmt: skip
def test_numbers_of_days_with_a_time_of_day_are_told_their_date(form, cells):
    _, _, wrong = read_dates(cells, form=form)
    assert len(wrong) >= 5
    for row, said in wrong.items():
        hint = "; it looks like Excel's number for the day 2019-01-01: format the column as dates"
        assert (hint in said) == ("Excel" in said) == (row < 3)


@settings(max_examples=200)
@given(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)), st.data())
def test_every_format_that_is_proposed_reads_the_day(moment, data):
    form = data.draw(st.sampled_from(["%d.%m.%Y", "%m/%d/%Y %H:%M", "%Y%m%d", "%d %b %Y"]))
    cell = moment.strftime(form)
    assert form in date_formats_for(cell)
    for each in date_formats_for(cell):
        days, _, wrong = read_dates(pa.array([cell]), form=each)
        assert wrong == {}
        assert days.to_pylist() == [datetime.datetime.strptime(cell, each).date()]


def test_dates_of_arrow_types():
    late = datetime.datetime(2026, 3, 1, 23, 30)
    utc = late.replace(tzinfo=datetime.UTC)
    for column, wanted in (
        (pa.array([DAY, None], pa.date32()), DAY),
        (pa.array([DAY, None], pa.date64()), DAY),
        (pa.array([late, None], pa.timestamp("ns")), DAY),
        (pa.array([datetime.datetime(1960, 3, 1, 23), None]), datetime.date(1960, 3, 1)),
        # Half past eleven in UTC is the next day in Berlin, which is what the column shows.
        (pa.array([utc, None], pa.timestamp("us", tz="Europe/Berlin")), datetime.date(2026, 3, 2)),
        (pa.array([utc, None], pa.timestamp("s", tz="UTC")), DAY),
        # The first moment that pandas knows: its day began before.
        (pa.array([1 - 2**63, None], pa.timestamp("ns")), datetime.date(1677, 9, 21)),
    ):
        days, missing, wrong = read_dates(column, form="%d.%m.%Y")
        assert days.to_pylist() == [wanted, None]
        assert missing.tolist() == [False, True]
        assert wrong == {}
    days, _, wrong = read_dates(pa.array([20260301]), form="%Y%m%d")
    assert days.to_pylist() == [DAY]
    _, _, wrong = read_dates(pa.array([20260301]), form="iso")
    assert wrong[0].endswith("received '20260301'; format = \"%Y%m%d\" would accept it")
    _, _, wrong = read_dates(pa.array([1.5]), form="iso")
    assert "must be dates, or text; received" in wrong[0]
    _, _, wrong = read_dates(pa.array([10**9, -(10**7)], pa.date32()), form="iso")
    assert len(wrong) == 2


def test_missing_dates():
    cells = ["2026-03-01", "", None, "NA", "n/a", "-", "NaN", "null", "None", "#N/A", "?"]
    days, missing, wrong = read_dates(pa.array(cells), form="iso")
    assert missing.tolist() == [False] + [True] * 10
    assert days.null_count == 10
    assert wrong == {}


@pytest.mark.parametrize("form", [
    "", "%H:%M", "%d.%m", "%s", "%d.%m.%Y %Q", "%z %d.%m.%Y", "%Y-%m-%d %Z", "day",
])  # fmt: skip
def test_a_format_that_names_no_day_is_refused(form):
    with pytest.raises(ValidationError):
        TypeAdapter(DateFormat).validate_python(form)
