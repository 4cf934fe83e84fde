"""Values that stand for a missing one are found, doubted, and count as missing where declared."""

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.files.column_name import personal
from seqbatch.campaign.files.stand_ins import DAYS, days_for_missing, numbers_for_missing
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.spec.template import Choices, first_spec
from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.refusals import refused

ROWS = 200
AGES = [20 + row % 50 for row in range(ROWS)]
SEEN = [(date(2021, 1, 1) + timedelta(row % 150)) for row in range(ROWS)]


def with_odd(values, odd, every):
    """Return values with an odd one in each so many rows."""
    return [odd if row % every == 0 else value for row, value in enumerate(values)]


def found(values):
    unique, counts = np.unique(np.array(values, dtype=float), return_counts=True)
    return numbers_for_missing(unique, counts, len(values))


@pytest.mark.parametrize(("values", "expected"), [
    (with_odd(AGES, 999, 10), [999]),
    (with_odd(AGES, -1, 10), [-1]),
    (with_odd(with_odd(AGES, 9999, 10), -99, 7), [-99, 9999]),
    # As close as an age may come, but much too frequent.
    (with_odd(AGES, 99, 4), [99]),
    (AGES, []),
    # At most 5% of rows.
    (with_odd(AGES, 999, 20), []),
    # Among other large or negative numbers it is one like them.
    ([1005 - row if row % 3 else 999 for row in range(ROWS)], []),
    (with_odd([row - 100 for row in range(ROWS)], -1, 5), []),
    # Few values: a score, or a code.
    ([(-1, 0, 1)[row % 3] for row in range(ROWS)], []),
    (with_odd(AGES, 500, 5), []),
])  # fmt: skip
def test_numbers_that_stand_for_a_missing_value(values, expected):
    assert found(values) == expected


@pytest.mark.parametrize(("odd", "expected"), [
    (date(1900, 1, 1), True), (date(1970, 1, 1), True), (date(9999, 12, 31), True),
    (date(1985, 5, 5), False),
])  # fmt: skip
def test_dates_that_stand_for_a_missing_value(odd, expected):
    days = [(day - date(1970, 1, 1)).days for day in with_odd(SEEN, odd, 10)]
    unique, counts = np.unique(np.array(days, dtype=float), return_counts=True)
    assert days_for_missing(unique, counts, ROWS) == ([odd] if expected else [])


def test_a_conventional_day_among_others_needs_a_spike():
    born = [date(1960, 1, 1) + timedelta(37 * row) for row in range(ROWS)]
    for every, expected in ((10, [date(1970, 1, 1)]), (30, [])):
        days = [(day - date(1970, 1, 1)).days for day in with_odd(born, date(1970, 1, 1), every)]
        unique, counts = np.unique(np.array(days, dtype=float), return_counts=True)
        assert days_for_missing(unique, counts, ROWS) == expected
    assert len(set(DAYS)) == len(DAYS)


@pytest.fixture
def path(tmp_path):
    pl.DataFrame(
        {
            "id": [f"C{row}" for row in range(ROWS)],
            "age": with_odd(AGES, 999, 10),
            "born": [f"{day:%d.%m.%Y}" for day in with_odd(SEEN, date(1900, 1, 1), 8)],
        }
    ).write_csv(tmp_path / "units.csv")
    return tmp_path / "units.csv"


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "campaigns.db")
    yield opened
    opened.close()


def test_a_first_spec_counts_them_as_missing_and_asks(path, store):
    made = first_spec(path, Choices(waves=1, today=date(2026, 1, 1)))
    spec = parse_spec(made.text)
    assert spec.features.numeric["age"].missing_values == (999,)
    assert spec.features.date["born"].missing_values == (date(1900, 1, 1),)
    age, born = made.draft.columns[1:]
    assert age.asks
    assert born.asks
    assert age.why.startswith("21 to 69; missing values (10.0%)")
    assigned = Campaign.create(spec, store=store).assign(path)
    assert not assigned.doubts
    with store.read(spec.name) as reader:
        [chunk] = reader.unit_chunks(given=True)
    # They are kept as missing: later encodings never see them.
    kept = unpack(chunk.given)
    assert kept["age"].null_count == 20
    assert kept["born"].null_count == 25


def test_an_undeclared_one_is_doubted_when_units_are_assigned(path, store):
    declared = {
        "name": "plain", "seed": 1, "unit": "id", "actions": ["a", "b"], "start": date(2026, 1, 1),
        **about("y"), "grid": {"sizes": [ROWS]},
        "features": {"numeric": {"age": "learn"}, "date": {"born": "%d.%m.%Y"}},
    }  # fmt: skip
    doubts = Campaign.create(declared, store=store).assign(path).doubts
    assert [(one.kind, one.column, one.examples) for one in doubts] == [
        ("stand-in", "age", ("999",)), ("stand-in", "born", ("1900-01-01",)),
    ]  # fmt: skip


def test_missing_values_are_refused_or_filled_like_empty_cells(path, store):
    declared = {
        "name": "strict", "seed": 1, "unit": "id", "actions": ["a", "b"],
        **about("y"), "grid": {"sizes": [ROWS]},
        "features": {"numeric": {"age": {"scale": "learn", "missing_values": [999]}}},
    }  # fmt: skip
    with refused("invalid-rows", row=2, column="age", problem="missing"):
        Campaign.create(declared, store=store).assign(path)


@pytest.mark.parametrize(("name", "kind"), [
    ("first_name", "name"), ("Vorname", "name"), ("Anrede", "salutation"), ("remark", "remark"),
    ("Bemerkung", "remark"), ("comment", "remark"), ("street", "address"), ("Straße", "address"),
    ("e-mail", "e-mail"), ("E-Mail Address", "e-mail"), ("phone", "phone"), ("Name", "name"),
    ("Default Address Address1", "address"), ("billing_name", "name"), ("product_name", None),
    ("email_domain", None), ("Default Address City", None), ("rename", None), ("phone_type", None),
    ("campaign name", None), ("notebook", None), ("comments_count", None),
])  # fmt: skip
def test_personal_details_are_known_by_whole_names(name, kind):
    assert personal(name) == kind
