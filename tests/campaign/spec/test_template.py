"""What `init` proposes for files as people have them, and that the proposal accepts its file."""

import math
import tomllib
from datetime import UTC, date, datetime

import polars as pl
import pyarrow as pa
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.spec.consent import Consent
from seqbatch.campaign.spec.template import Choices, first_spec, starting_spec
from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.errors import (
    InvalidSpecError,
)
from seqbatch.planning.campaign_terms import CampaignTerms
from seqbatch.storage import open_store
from tests.refusals import refused

TODAY = date(2026, 3, 1)
COUNT = 60


def column(*values, count=COUNT):
    """Return these values again and again, as many rows as there are."""
    return [values[row % len(values)] for row in range(count)]


def ids(pattern="C{:04d}"):
    return [pattern.format(row + 1) for row in range(COUNT)]


def write(path, columns, *, quote=True):
    pl.DataFrame(columns, strict=False).write_csv(
        path, quote_style="always" if quote else "necessary"
    )
    return path


def accepted(units, **choices):
    """Return the proposal for a file, after a campaign made by it has assigned every row."""
    made = first_spec(units, Choices(waves=1, today=TODAY, **choices))
    store = open_store(units.parent / "campaigns.db")
    campaign = Campaign.create(tomllib.loads(made.text), store=store)
    assert campaign.assign(units).table.num_rows == made.draft.rows
    store.close()
    return tomllib.loads(made.text)["features"], {each.column: each for each in made.draft.columns}


def test_excel_in_german(tmp_path):
    path = write(tmp_path / "kunden.csv", {
        "Kunden-Nr": ids("{:05d}"),
        "PLZ": column("01067", "10115", "80331"),
        "Umsatz Vorjahr": column("1.234,50 €", "99,00 €", "", "12.000,00 €"),
        "Rabatt": column("12,5 %", "0,0 %", "7,0 %", "3,5 %", "1,5 %"),
        "Geburtstag": column("31.01.1980", "02.03.1975", "15.12.1990", "01.01.1960", "03.04.1971",
                             "09.09.1999", "24.12.1988"),
        "Newsletter": column("WAHR", "FALSCH", "FALSCH"),
        "Stadt": column("Berlin", "Köln", "", "Berlin", "Köln", "Berlin", "Berlin"),
    })  # fmt: skip
    features, became = accepted(path)
    assert became["Kunden-Nr"].became == "unit"
    assert features["numeric"] == {
        "Umsatz Vorjahr": {"scale": "learn", "missing": "median", "format": "1.234,56 €"},
        "Rabatt": {"scale": "learn", "format": "1234,56 %"},
    }
    assert "(25.0%) get the median" in became["Umsatz Vorjahr"].why
    assert features["date"] == {"Geburtstag": {"format": "%d.%m.%Y", "parts": ["days"]}}
    assert became["Geburtstag"].why == "1960-01-01 to 1999-09-09"
    assert features["boolean"] == {"Newsletter": "refuse"}
    assert features["categorical"]["PLZ"]["levels"] == ["01067", "10115", "80331"]
    city = {"levels": ["Berlin", "Köln"], "other": True, "missing": "level"}
    assert features["categorical"]["Stadt"] == city


def test_customers_of_a_shop(tmp_path):
    path = write(tmp_path / "customers.csv", {
        "Customer ID": [6_800_000_000_000 + row for row in range(COUNT)],
        "First Name": ids("Ann{}"),
        "Email": ids("ann{}@example.org"),
        "Accepts Email Marketing": column("yes", "no", "yes"),
        "Default Address Country Code": column("US", "CA", "GB", "US"),
        "Phone": [f"'+1555{row:07d}" if row % 2 else "" for row in range(COUNT)],
        "Total Spent": column("0.00", "1,240.10", "19.90", "7.00"),
        "Total Orders": column(0, 3, 1, 1, 2),
        "Note": ids("Please leave parcel {} with the neighbours, thank you"),
        "Tags": column("", "vip", "", ""),
        "Tax Exempt": column("no"),
    })  # fmt: skip
    features, became = accepted(path)
    assert became["Customer ID"].became == "unit"
    for name, code in {
        "First Name": "personal", "Email": "personal", "Phone": "personal", "Note": "personal",
        "Tax Exempt": "one-value",
    }.items():  # fmt: skip
        assert (became[name].became, became[name].code) == ("left out", code), name
    assert features["numeric"]["Total Spent"]["format"] == "1,234.56"
    assert features["numeric"]["Total Orders"] == "learn"
    assert features["categorical"]["Tags"]["missing"] == "level"
    # A consent to e-mail; none of the actions says that it is one.
    accepts = became["Accepts Email Marketing"]
    assert (accepts.became, accepts.among) == ("question", "eligibility")
    assert accepts.consent == Consent(permits=True, channels=("e-mail",), sure=False)


def test_sap_with_the_minus_behind(tmp_path):
    path = write(tmp_path / "sap.csv", {
        "KUNNR": ids("{:010d}"),
        "SALDO": column("1.234,56-", "12,00", "0,00", "700,10-", "3.000,00"),
        "MENGE": column("12 ST", "7 ST", "1.200 ST", "3 ST"),
        "ERDAT_date": column("20240131", "20231224", "20220815", "20240229"),
        "AKTIV": column("X", "", ""),
    })  # fmt: skip
    features, became = accepted(path)
    assert became["KUNNR"].became == "unit"
    assert features["numeric"]["SALDO"]["format"] == "1.234,56-"
    assert "a minus sign after the number" in became["SALDO"].why
    assert features["numeric"]["MENGE"]["format"] == "1.234,56 ST"
    assert 'CHECK: "1.200 ST" is read as 1200' in became["MENGE"].why
    assert features["date"]["ERDAT_date"]["format"] == "%Y%m%d"
    assert features["categorical"]["AKTIV"] == {
        "levels": ["X"], "other": True, "missing": "level"
    }  # fmt: skip


def test_dates_in_three_formats(tmp_path):
    path = write(tmp_path / "dates.csv", {
        "id": ids(),
        "iso": column("2024-01-31T12:30:00Z", "2024-02-01", "2023-05-06 07:08", "2022-02-03"),
        "american": column("12/31/2023 11:59 PM", "1/2/2024 1:05 AM", "6/15/2022 3:00 PM"),
        "words": column("31-Jan-24", "02-May-23", "11-Dec-22", "NA", "05-Jun-21"),
        "either": column("01/02/2024", "03/04/2024", "05/06/2023"),
        "mixed": column("2024-01-31", "31.01.2024", "01/31/2024", "2024-02-03", "05.02.2024"),
        "time": column("12:30", "13:45", "07:00"),
    })  # fmt: skip
    features, became = accepted(path)
    formats = {name: rule["format"] for name, rule in features["date"].items()}
    assert formats == {
        "iso": "iso", "american": "%m/%d/%Y %I:%M %p", "words": "%d-%b-%y", "either": "%m/%d/%Y"
    }  # fmt: skip
    assert features["date"]["words"]["missing"] == "median"
    assert "month first (as in the file's other dates)" in became["either"].why
    assert "more than one format" in became["mixed"].why
    assert tomllib.loads(starting_spec(path, today=TODAY))["start"] == TODAY


@pytest.mark.parametrize(("beside", "expected", "why"), [
    ({"seen": column("31/12/2023", "01/02/2024")}, "%d/%m/%Y", "as in the file's other dates"),
    ({"spend": column("1,5", "2,25", "7,0")}, "%d/%m/%Y", "with decimal commas"),
    ({}, "%m/%d/%Y", "no other column shows it"),
])  # fmt: skip
def test_day_and_month_that_may_be_either(tmp_path, beside, expected, why):
    dates = column("01/02/2024", "03/04/2024", "05/06/2023")
    path = write(tmp_path / "u.csv", {"id": ids(), "joined": dates, **beside})
    features, became = accepted(path)
    assert features["date"]["joined"]["format"] == expected
    assert became["joined"].why.startswith("20")
    assert why in became["joined"].why


@pytest.mark.parametrize(("beside", "values", "expected", "read"), [
    ({}, ("1,234", "999", "12,500"), "1,234.56", "1234 (the usual"),
    ({"other": column("1,5", "2,25", "7,0")}, ("1,234", "999"), "1234,56", "1.234 (as in"),
    ({}, ("1.234", "999", "12.500"), "1234.56", "1.234 (the usual"),
    ({"other": column("1,5", "2,25", "7,0")}, ("1.234", "999"), "1.234,56", "1234 (as in"),
])  # fmt: skip
def test_thousands_that_may_be_decimals(tmp_path, beside, values, expected, read):
    path = write(tmp_path / "u.csv", {"id": ids(), "spend": column(*values), **beside})
    features, became = accepted(path)
    rule = features["numeric"]["spend"]
    assert rule["format"] == expected
    assert f'CHECK: "{values[0]}" is read as {read}' in became["spend"].why


def test_semicolons_tell_that_the_comma_parts_decimals(tmp_path):
    path = tmp_path / "kunden.csv"
    rows = [f"{row:05d};1.{100 + 7 * row};0{row % 9 + 1}/05/2024;Köln" for row in range(COUNT)]
    path.write_text("\n".join(["Kunde;Umsatz Vorjahr;seit;Ort", *rows]), encoding="latin-1")
    features, became = accepted(path)
    assert features["numeric"]["Umsatz Vorjahr"]["format"] == "1.234,56"
    assert "is read as 1100 (as usual in files with semicolons)" in became["Umsatz Vorjahr"].why
    assert features["date"]["seit"]["format"] == "%d/%m/%Y"
    assert became["Ort"].why == 'has the same value in every row: "Köln"'


def test_a_zero_before_the_mark_tells_decimals(tmp_path):
    path = write(tmp_path / "u.csv", {"id": ids(), "x": column("0.123", "-1.234", "2.345")})
    features, became = accepted(path)
    assert features["numeric"] == {"x": "learn"}
    assert "CHECK" not in became["x"].why


@pytest.mark.parametrize(("values", "expected"), [
    (("(1,234.56)", "12.00", "7.50"), "(1,234.56)"),
    (("$1,234.50", "$12.00", "-$7.50"), "1,234.56 $"),
    (("1 234,5", "12,0", "7,25"), "1 234,56"),
    (("1'234.50", "12.00", "7.50"), "1'234.56"),
    (("CHF 12.50", "CHF 7.00", "3.25"), "1234.56 CHF"),
    (("12%", "7%", "100%"), "1234.56 %"),
    (("1e3", " 12 ", "-7.5"), None),
])  # fmt: skip
def test_numbers_as_people_write_them(tmp_path, values, expected):
    path = write(tmp_path / "u.csv", {"id": ids(), "x": column(*values)})
    rule = accepted(path)[0]["numeric"]["x"]
    assert (None if rule == "learn" else rule["format"]) == expected


@pytest.mark.parametrize(("values", "missing"), [
    (("Yes", "no", "YES"), "refuse"), (("ja", "nein", ""), "level"), ((1, 0, 0), "refuse"),
    (("t", "f", "NULL"), "level"), (("on", "off"), "refuse"), (("Oui", "Non", "?"), "level"),
])  # fmt: skip
def test_booleans_in_words(tmp_path, values, missing):
    path = write(tmp_path / "u.csv", {"id": ids(), "x": column(*values)})
    assert accepted(path)[0]["boolean"] == {"x": missing}


def test_parquet_with_the_types_of_programs(tmp_path):
    table = pa.table({
        "customer": pa.array(range(COUNT), pa.int64()),
        "age": pa.array(column(31, None, 45, 27), pa.int32()),
        "score": pa.array(column(0.5, float("nan"), 1.25, 7.0)),
        "price": pa.array(column(1, 2, None, 4), pa.int64()).cast(pa.decimal128(30, 2)),
        "member": pa.array(column(True, False, None)),
        "plan": pa.array(column("a", "b", None, "a")).dictionary_encode(),
        "joined": pa.array(column(date(2024, 1, 2), None, date(2023, 3, 4))),
        "seen": pa.array([datetime(2024, 1, row % 9 + 1, tzinfo=UTC) for row in range(COUNT)]),
        "nothing": pa.nulls(COUNT),
        "basket": pa.array(column([1], [2, 3])),
        "flag": pa.array(column(1.0, 0.0, None, 0.0)),
        "text": pa.array(column("x", "y", "x"), pa.large_string()),
    })  # fmt: skip
    path = tmp_path / "u.parquet"
    pa.parquet.write_table(table, path)
    features, became = accepted(path)
    learned = {"scale": "learn", "missing": "median"}
    assert features["numeric"] == {"age": learned, "score": learned, "price": learned}
    assert features["boolean"] == {"member": "level", "flag": "level"}
    assert features["categorical"]["plan"]["missing"] == "level"
    assert features["categorical"]["text"]["levels"] == ["x", "y"]
    assert features["date"]["joined"]["missing"] == "median"
    assert features["date"]["seen"] == {"format": "iso", "parts": ["days"]}
    assert became["nothing"].why == "has no values"
    assert "list<" in became["basket"].why


def test_columns_that_say_the_same(tmp_path):
    path = write(tmp_path / "u.csv", {
        "id": ids(), "cents": column(*range(100, 1700, 100)),
        "euros": [f"{value / 100:.2f}" for value in column(*range(100, 1700, 100))],
        "cents again": column(*range(100, 1700, 100)),
        "country": column("Germany", "France", "Italy"), "code": column("DE", "FR", "IT"),
        "again": column("Germany", "France", "Italy"), "row": list(range(COUNT)),
        "other": column("Germany", "France"),
    })  # fmt: skip
    features, became = accepted(path)
    assert list(features["numeric"]) == ["cents"]
    assert list(features["categorical"]) == ["country", "other"]
    assert became["euros"].why == "is a multiple of cents"
    assert became["cents again"].why == "has the same numbers as cents"
    assert became["code"].why == "has other words for the values of country"
    assert became["again"].why == "has the same values as country"
    assert became["row"].why == "is a row number"


def test_outcomes_and_treatments_are_asked_about(tmp_path):
    path = write(tmp_path / "u.csv", {
        "id": ids(), "revenue": column("1,5", "2,5", "7,1"), "arm": column("a", "b"),
        "revenue_last_year": column("1,5", "2,5", "9,1", "3,3"), "profit": column(1, 2, 4),
    })  # fmt: skip
    features, became = accepted(path, metric="profit")
    assert list(features["numeric"]) == ["revenue_last_year"]
    assert "the reward" in became["profit"].why
    assert became["revenue"].became == became["arm"].became == "question"
    text = starting_spec(path)
    question = "may be an outcome: is it known before the unit is assigned?"
    assert f'# {question}\n# revenue = {{scale = "learn", format = "1234,56"}}\n' in text
    # Who answers yes takes the mark away.
    answered = parse_spec(text.replace("# revenue =", "revenue ="))
    assert answered.features.numeric["revenue"].format == "1234,56"


def test_categories_of_many_levels(tmp_path):
    count = 6_000
    tail, big = [f"town {row % 900}" for row in range(count)], ("Paris", "Berlin")
    path = write(tmp_path / "u.csv", {
        "id": [f"C{row:05d}" for row in range(count)],
        "town": tail,
        "city": [tail[row] if row % 10 == 0 else big[row % 2] for row in range(count)],
        "state": [f"S{row % 45}" for row in range(count)],
        "rare": ["odd" if row < 5 else "even" if row % 2 else "" for row in range(count)],
        "answer": column("NA", "none", "x", "y", count=count),
    })  # fmt: skip
    features, became = accepted(path)
    kinds = features["categorical"]
    assert kinds["town"] == {"hash": 16}
    assert "too many for indicators" in became["town"].why
    assert kinds["city"] == {"levels": ["Berlin", "Paris"], "least": 20, "other": True}
    assert ") count as other" in became["city"].why
    assert len(kinds["state"]["levels"]) == 45
    assert kinds["rare"] == {"levels": ["even"], "least": 20, "other": True, "missing": "level"}
    assert kinds["answer"]["levels"] == ["x", "y", "NA", "none"]


def test_a_unit_of_two_columns(tmp_path):
    path = write(tmp_path / "u.csv", {
        "spend": column(1.5, 2.5, 7.5), "customer": [f"C{row // 4}" for row in range(COUNT)],
        "year": column(2024), "week": [row % 4 + 1 for row in range(COUNT)],
    })  # fmt: skip
    declared = tomllib.loads(starting_spec(path))
    assert declared["unit"] == ["customer", "week"]
    assert declared["cluster"] == "customer"
    features, became = accepted(path)
    assert list(features["numeric"]) == ["spend"]
    assert "categorical" not in features
    assert became["week"].why == "identifies units together with customer"


def test_files_without_ids(tmp_path):
    for columns in (
        {"a": [1, 1]}, {"spend": [1.5, 2.5, 3.5], "event": [1, 2, 3]},
        {"customer": ["a", "a", "b"], "x": [1, 1, 2]},
    ):  # fmt: skip
        with refused("invalid-rows", problem="no-ids"):
            starting_spec(write(tmp_path / "u.csv", columns))


@pytest.mark.parametrize(("columns", "unit"), [
    ({"n": [1, 2, 3], "name": ["x", "y", "z"]}, "name"),
    ({"n": [1, 2, 3], "name": ["x", "y", "y"]}, "n"),
    ({"code": ["x", "y", "z"], "user_id": [7, 8, 9]}, "user_id"),
    ({"customer_spend": [7, 8, 9], "customer_id": ["x", "y", "z"]}, "customer_id"),
    ({"joined": ["2024-01-01", "2024-01-02", "2024-01-03"], "n": [3, 1, 2]}, "n"),
])  # fmt: skip
def test_the_ids_that_are_found(tmp_path, columns, unit):
    path = write(tmp_path / "u.csv", columns)
    assert tomllib.loads(starting_spec(path, today=TODAY))["unit"] == unit


def test_columns_that_cannot_be_used_as_they_are(tmp_path):
    path = write(tmp_path / "u.csv", {
        "id": ids(), "price": column("12 EUR", "7 USD", "3 EUR", "8 USD"),
        "age": [str(20 + row % 40) if row != 7 else "about 30" for row in range(COUNT)],
        "huge": column("1e300", "2", "inf"), "x" * 300: column("a", "b"),
        "empty": column("NA", "", "null"), "account no": [row**2 for row in range(COUNT)],
        "phone": [5_550_000 + 7 * row for row in range(COUNT)],
    })  # fmt: skip
    features, became = accepted(path)
    assert list(features) == ["intercept", "categorical"]
    assert list(features["categorical"]) == ["huge"]
    assert became["price"].why == "amounts in EUR, USD; convert them to one currency or unit"
    assert 'such as "about 30"; correct those cells' in became["age"].why
    assert became["account no"].why == "like an id: a different value in every row"
    assert became["phone"].code == "personal"
    assert became["empty"].why == "has no values"
    assert "1 to 200 characters" in became["x" * 300].why


def test_a_long_tail_is_named(tmp_path):
    path = write(tmp_path / "u.csv", {"id": ids(), "spend": column(1.5, 2.0, 3.0, 900.5, 2.5)})
    assert "the largest is 360 times the median" in accepted(path)[1]["spend"].why


def test_names_that_need_quotes():
    names = ['a "b"', "new\nline", "tab\t", "\u202eturned", "# no comment", "a.b", "ü", "'", "[x]"]
    columns = {
        name: column("x", f"y{place}", "z" * (place + 1)) for place, name in enumerate(names)
    }
    table = pa.table({"id": ids()} | {n: c[p:] + c[:p] for p, (n, c) in enumerate(columns.items())})
    text = starting_spec(table)
    declared = tomllib.loads(text)["features"].get("categorical", {})
    left = sum(line.startswith("#   ") for line in text.splitlines())
    assert set(declared) <= set(names)
    assert len(declared) + left >= len(names)
    assert text.replace("\n", "").isprintable()


def test_choices_are_checked_by_the_rules_of_a_spec():
    with refused("invalid-spec", field="name"):
        first_spec(None, Choices(name="two words"))
    with refused("invalid-spec", field="control"):
        first_spec(None, Choices(actions=("a", "b"), control="c"))
    with refused("invalid-spec", field="actions"):
        first_spec(None, Choices(actions=("a", "a")))
    with refused("invalid-argument", field="waves"):
        first_spec(None, Choices(waves=0))
    spec = parse_spec(starting_spec(actions=("none", "offer A"), metric="revenue", waves=4))
    assert [action.name for action in spec.actions] == ["none", "offer A"]
    assert (spec.control, spec.reward.label) == ("none", "revenue")
    assert spec.grid.sizes == (2500, 2500, 2500, 2500)
    assert parse_spec(starting_spec(actions=("none", "b"), control="b")).control == "b"
    many = tuple(f"offer {number}" for number in range(200))
    assert parse_spec(starting_spec(actions=many)).floor == 0.0025


@pytest.mark.usefixtures("few_trials")
def test_sizes_by_a_plan(tmp_path):
    path = write(tmp_path / "u.csv", {"id": ids(), "age": column(30, 40, 55, 61)})
    known = {"plan": True, "base_rate": "4%", "smallest_lift": "0.5pp"}
    made = first_spec(path, Choices(**known, units_in_all=3_000, waves=2))
    spec = parse_spec(made.text)
    assert spec.reward.range == (0, 1)
    assert len(made.sizes) == 2
    assert sum(made.sizes) == 3_000
    assert spec.grid.sizes == made.sizes
    assert "2 waves, as requested, earn " in made.text


@pytest.mark.parametrize(("known", "field"), [
    # A share of yes says nothing about an amount, and a standard deviation nothing about a share:
    # an effect of a fifth of it would be assumed.
    ({"kind": "amount", "base_rate": "4%", "smallest_lift": "1pp"}, "base_rate"),
    ({"kind": "count", "base_rate": "4%", "smallest_lift": "1pp"}, "base_rate"),
    ({"kind": "yes/no", "spread": 0.24}, "spread"),
    ({"kind": "yes/no", "spread": 1, "smallest_lift": 0.2}, "spread"),
    ({"kind": "yes/no", "base_rate": "4%"}, "smallest_lift"),
    ({"kind": "amount", "spread": 35, "zeros": "90%"}, "mean"),
    ({"kind": "yes/no"}, "base_rate"),
])  # fmt: skip
def test_plans_know_the_kind_of_outcome(known, field):
    with refused("invalid-argument", field=field):
        Choices(plan=True, **known).check()


def test_a_plan_takes_the_amounts_of_buyers_with_the_share_of_zeros():
    terms = CampaignTerms.of(
        customers=9_000, mean="50 EUR", spread="35 EUR", zeros="90%", smallest_lift="0.40 EUR"
    )  # fmt: skip
    known = {"mean": "50", "spread": "35", "zeros": "90%", "smallest_lift": "0.40 EUR"}
    assert Choices(plan=True, **known).scale == terms.scale


def test_numbers_that_are_not_finite_are_no_reason_to_stop():
    table = pa.table({"id": ["a", "b", "c"], "x": [1.0, math.inf, 3.0], "y": [2.0, 2.0, 5.0]})
    assert "x" not in parse_spec(starting_spec(table)).features.columns


@pytest.mark.parametrize(("spend", "offered"), [(("1,5", "2,25"), True), (("1.5", "2.25"), False)])
def test_a_format_for_outcomes_is_offered_where_units_have_decimal_commas(tmp_path, spend, offered):
    path = write(tmp_path / "u.csv", {"id": ids(), "spend": column(*spend)})
    assert ('# format = "1.234,56"' in starting_spec(path)) is offered


def test_years_of_two_digits_begin_with_69(tmp_path):
    path = write(tmp_path / "u.csv", {"id": ids(), "born": column("03.07.69", "26.11.70")})
    _, became = accepted(path)
    assert became["born"].why.startswith(
        "1969-07-03 to 1970-11-26; years 69 to 99 are read as 1969"
    )
    assert not became["born"].asks
    path = write(tmp_path / "u.csv", {"id": ids(), "born": column("03.07.68", "26.11.70")})
    born = first_spec(path, Choices(today=TODAY)).draft.columns[1]
    assert born.why.startswith("1970-11-26 to 2068-07-03")
    assert born.why.endswith(f"CHECK: {COUNT // 2} dates after 2026-03-01")
    assert born.asks


def test_words_for_nothing_are_counted_among_the_levels(tmp_path):
    path = write(tmp_path / "u.csv", {"id": ids(), "sport": column("Freq", "None", "None", "Some")})
    features, became = accepted(path)
    assert features["categorical"]["sport"]["levels"] == ["None", "Freq", "Some"]
    assert became["sport"].why == ('3 levels, the most frequent first; kept as a level: "None"')


def customers(path):
    return write(path / "u.csv", {
        "id": ids(), "order": ids("O{:03d}"), "age": column(30, 40, 55, 61),
        "region": column("north", "south"), "spent": column(1.5, 2.5, 100.0),
        "visited": column(1, 0), "since": column("2025-01-31", "2025-02-01", "2024-12-24"),
        "same": column("x"),
    })  # fmt: skip


def test_columns_become_what_somebody_says(tmp_path):
    path = customers(tmp_path)
    kinds = {"age": "categorical", "region": "left out", "visited": "boolean", "spent": "numeric"}
    features, became = accepted(path, unit=("order",), kinds=kinds)
    assert became["order"].became == "unit"
    assert became["id"].became == "left out"
    assert became["region"].why == "as requested"
    assert set(features["categorical"]) == {"age"}
    # What would be a question is none where somebody has answered it.
    assert became["visited"].became == "boolean"
    assert not became["visited"].asks
    features, became = accepted(path, unit=("id", "order"), name="pair")
    assert became["order"].why == "identifies units together with id"


@pytest.mark.parametrize(
    ("choices", "field", "received"),
    [
        ({"kinds": {"region": "numeric"}}, "features.region", 'values such as "north"'),
        ({"kinds": {"age": "date"}}, "features.age", 'values such as "30"'),
        ({"kinds": {"spent": "boolean"}}, "features.spent", 'values such as "1.5", "100.0"'),
        ({"kinds": {"none": "numeric"}}, "features", "none"),
        ({"unit": ("none",)}, "unit", "none"),
    ],
)
def test_columns_cannot_become_what_they_are_not(tmp_path, choices, field, received):
    with refused("invalid-argument", field=field, received=received):
        first_spec(customers(tmp_path), Choices(today=TODAY, **choices))


def test_all_that_a_form_asks_is_in_the_spec(tmp_path):
    choices = Choices(
        name="spring", actions=("none", "mail"), costs={"mail": 0.4}, control="none",
        metric="revenue", direction="min", range=(0, 500), randomised=0.25, floor=0.02,
        required_outcomes=0.8, sizes=(10, 50), today=TODAY,
    )  # fmt: skip
    spec = parse_spec(first_spec(customers(tmp_path), choices).text)
    assert [(action.name, action.cost) for action in spec.actions] == [("none", 0), ("mail", 0.4)]
    assert spec.reward.direction == "min"
    assert spec.reward.range == (0, 500)
    assert (spec.randomised, spec.floor, spec.required_outcomes) == (0.25, 0.02, 0.8)
    assert spec.grid.sizes == (10, 50)


def test_a_refused_spec_tells_its_places():
    with pytest.raises(InvalidSpecError) as refused:
        first_spec(None, Choices(name="two words", randomised=3.0))
    assert [place for place, _ in refused.value.places] == [("name",), ("randomised",)]
    assert refused.value.places[1][1] == "randomised must be at most 1; received 3.0"
    assert (refused.value.code, refused.value.field) == ("invalid-spec", "name")


def test_a_value_in_several_spellings_is_asked_about(tmp_path):
    path = write(tmp_path / "units.csv", {
        "customer": ids(),
        "zip": column("Urban", "Rural", "urban", "Urban ", "URBAN"),
        "channel": column("Web", "Phone"),
    })  # fmt: skip
    features, became = accepted(path)
    assert len(features["categorical"]["zip"]["levels"]) == 5
    assert became["zip"].asks
    assert '"Urban", "urban", "Urban ", ... differ only by case or spaces' in became["zip"].why
    assert not became["channel"].asks
