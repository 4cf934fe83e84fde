"""Numbers as they are spelled in files: what a declared example accepts, and what it refuses."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqbatch.campaign.files.column_values import MISSING
from seqbatch.campaign.files.number_format import (
    NumberFormat,
    _parsed_with_care,
    number_formats_for,
    numbers,
    read_numbers,
)

EXAMPLES = [
    "1.234,56", "1,234.56", "1 234,56", "1'234.56", "1234,56", "1234.56", "12,5 %", "12.5%",
    "1234,56-", "1.234,56-", "(1,234.56)", "1,234.56 $", "$1,234.56", "1.234,56 EUR", "€ 1234,56",
    "(1,234.56 $)", "1 234", "1,234,567", "1234", "1.234,56 EUR-",
]  # fmt: skip


@pytest.mark.parametrize(("example", "cells"), [
    ("1.234,56", {"1.234,56": 1234.56, "1234,5": 1234.5, "-7": -7, "+7": 7, " 7 ": 7, ",5": 0.5,
                  "12.345.678": 12345678, "1,5E+03": 1500, "−3": -3}),
    ("1,234.56 $", {"1,234.56 $": 1234.56, "$5": 5, "5$": 5, "-$5": -5, "$-5": -5, "5": 5}),
    ("12,5 %", {"12,5 %": 0.125, "12,5%": 0.125, "-3 %": -0.03}),
    ("1234,56-", {"1234,56-": -1234.56, "1234,56": 1234.56, "5 -": -5, "-5": -5}),
    ("($1,234.56)", {"($25.50)": -25.5, "$(25.50)": -25.5, "$ (1,234) ": -1234, "(5) $": -5}),
    ("(1,234.56)", {"(1,234.56)": -1234.56, "1,234.56": 1234.56, "( 5 )": -5, "-5": -5}),
    ("1 234,56", {"1 234,56": 1234.56, "1\u202f234,56": 1234.56, "1\u00a0234": 1234}),
    ("1'234.56", {"1’234.56": 1234.56, "1'000'000": 1e6}),
    ("1.234,56 EUR-", {"1.234,56 EUR-": -1234.56, "5- EUR": -5, "EUR 5-": -5}),
])  # fmt: skip
def test_what_an_example_accepts(example, cells):
    values, wrong = numbers(pa.array(list(cells)), form=NumberFormat.of(example))
    assert wrong == {}
    assert values.tolist() == list(cells.values())


@pytest.mark.parametrize(("example", "cells"), [
    ("1.234,56", ["1.5", "1,234.56", "12.34", "1.2345", "1,5,", "5-", "(5)", "5 EUR", "5%", "x",
                  "1 234,56", ".", ",", "1,", "--5", "٣", "1e9999", "5\n6"]),
    ("12,5 %", ["12,5", "5", "%"]),
    ("1234,56-", ["-5-", "1.234,56-"]),
    ("(1,234.56)", ["(5", "5)", "(-5)", "((5))", "()"]),
    ("1,234.56 $", ["1$5", "5 €", "$"]),
    ("1234", ["1.5", "1,5"]),
])  # fmt: skip
def test_what_an_example_refuses(example, cells):
    values, wrong = numbers(pa.array(cells), form=NumberFormat.of(example))
    assert not values.any()
    for row, cell in enumerate(cells):
        said, _, advice = wrong[row].partition("; it looks like a negative number")
        assert said == f"must be a number written like {example}; received {cell!r}"
        assert bool(advice) == (cell in ("(5)", "5-"))


@pytest.mark.parametrize(
    ("example", "cell", "wider"),
    [
        ("$1,234.56", "($25.50)", "($1,234.56)"),
        ("$1,234.56", "$(25.50)", "($1,234.56)"),
        ("1.234,56 EUR", "25,50 EUR\u2212", "1.234,56 EUR-"),
        ("(1,234.56)", "25.50-", "(1,234.56-)"),
        ("1234,56-", "(25,50)", "(1234,56-)"),
        ("12,5 %", "(3 %)", "(12,5 %)"),
    ],
)
def test_negative_numbers_of_another_spelling_are_told_the_format(example, cell, wider):
    (said,) = numbers(pa.array([cell]), form=NumberFormat.of(example))[1].values()
    advice = f'it looks like a negative number: format = "{wider}" would accept it, too'
    assert said.endswith(f"; {advice}")
    values, wrong = numbers(pa.array([cell]), form=NumberFormat.of(wider))
    assert wrong == {}
    assert values[0] < 0


@pytest.mark.parametrize("cell", ["(25,50)", "(x)", "25.50 EUR", "(25.50 %)", "-(5)"])
def test_what_may_mean_anything_is_told_no_format(cell):
    (said,) = numbers(pa.array([cell]), form=NumberFormat.of("$1,234.56"))[1].values()
    assert said == f"must be a number written like $1,234.56; received {cell!r}"


@pytest.mark.parametrize("example", [
    "1.234", "1,234", "abc", "", "%", "1,2,3", "1.23,45,6", "1 2", "EUR 5 EUR", "1 EUR 2", "5 %%",
    "1.2345,6", "12'34.5",
])  # fmt: skip
def test_an_example_that_shows_no_format_is_refused(example):
    with pytest.raises(ValueError, match="a format must"):
        NumberFormat.of(example)


@settings(max_examples=300)
@given(
    st.sampled_from(EXAMPLES),
    st.lists(st.text("0123456789.,'%-+()e E$€R\u00a0", max_size=12), min_size=1, max_size=8),
)
def test_a_column_is_read_like_its_cells(example, cells):
    form = NumberFormat.of(example)
    read = read_numbers(pa.array(cells), form=form)
    for row, cell in enumerate(cells):
        alone = form.read(cell)
        if read.missing[row]:
            assert cell.strip() in ("", "-")
        elif row in read.wrong:
            assert alone is None or not abs(alone) < 1e30
        else:
            assert read.values_and_wrong()[0][row] == alone


@settings(max_examples=100)
@given(st.sampled_from(EXAMPLES), st.integers(-(10**9), 10**9))
def test_what_is_spelled_in_a_format_is_read_back(example, cents):
    form = NumberFormat.of(example)
    whole, part = divmod(abs(cents), 100)
    if not form.decimal:
        part = 0
    text = f"{whole:,}".replace(",", form.thousands) + (f"{form.decimal}{part:02}" if part else "")
    text += (" %" if form.percent else "") + (f" {form.currency}" if form.currency else "")
    if cents < 0:
        text = f"({text})" if form.brackets else f"{text}-" if form.trailing else f"-{text}"
    size = float(f"{whole}.{part:02}")
    size = size / 100 if form.percent else size
    values, wrong = numbers(pa.array([text]), form=form)
    assert wrong == {}
    assert values.tolist() == [-size if cents < 0 else size]


def test_missing_numbers_are_told_from_wrong_ones():
    cells = ["1", "", " ", "NA", "N/A", "NaN", "null", "None", "-", "#N/A", "?", None, "nil"]
    for form in (None, NumberFormat.of("1.234,56")):
        read = read_numbers(pa.array(cells), form=form)
        assert read.missing.tolist() == [False, *[True] * 11, False]
        assert list(read.wrong) == [12]
        assert not read.values_and_wrong()[0][1:].any()
        _, wrong = numbers(pa.array(cells), form=form)
        assert [row for row, why in wrong.items() if why == MISSING] == list(range(1, 12))


def test_a_number_that_is_no_plain_one_is_told_the_setting_that_accepts_it():
    _, wrong = numbers(pa.array(["1.234,56", "12,5 %", "1,234", "yes"]))
    assert wrong == {
        0: "must be a number; received '1.234,56'; format = \"1.234,56\" would accept it",
        1: "must be a number; received '12,5 %'; format = \"1.234,56 %\" would accept it",
        2: "must be a number; received '1,234'; format = \"1.234,56\" or format = \"1,234.56\" "
           "would accept it",
        3: "must be a number; received 'yes'",
    }  # fmt: skip


@settings(max_examples=200)
@given(st.text("0123456789.,'%-()e E$€R", max_size=10))
def test_every_format_that_is_proposed_accepts_the_cell(cell):
    read = [NumberFormat.of(example).read(cell) for example in number_formats_for(cell)]
    assert None not in read
    assert len(set(read)) == len(read)


@pytest.mark.parametrize("kind", [
    pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(10, 2),
])  # fmt: skip
def test_numbers_of_any_type_pass_as_they_are(kind):
    column = pa.array([1, 2, None]).cast(pa.float64()).cast(kind)
    read = read_numbers(column, form=NumberFormat.of("1.234,56"))
    assert np.array_equal(read.values_and_wrong()[0], [1, 2, 0])
    assert read.missing.tolist() == [False, False, True]
    assert read.wrong == {}


NUMBERISH = st.one_of(
    st.text(alphabet="0159.eE+- ,", max_size=6),
    st.floats().map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        ["", "NA", "nan", "inf", "1e400", "1e-400", " 7", "7 ", "0x1", "1_0", "\u0661"]
    ),
)


@given(st.lists(st.one_of(NUMBERISH, st.none()), max_size=6))
def test_plain_numbers_are_read_as_with_care(texts):
    column = pa.array(texts, pa.string())
    read, careful = read_numbers(column), _parsed_with_care(column)
    for found, expected in ((read._values, careful._values), (read.missing, careful.missing)):
        np.testing.assert_array_equal(found, expected)
    assert read.wrong == careful.wrong
