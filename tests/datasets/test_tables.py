"""A user's table: encoded as promised, and refused with the place named."""

import datetime

import numpy as np
import polars as pl
import pytest

from seqbatch.datasets import labelled, labelled_table
from tests.refusals import refused

TABLE = pl.DataFrame(
    {
        "age": [20, 40, 60],
        "town": ["b", "a", "b"],
        "same": [0.1, 0.1, 0.1],
        "member": [True, False, True],
        "answer": ["yes", "no", "yes"],
    }
)


@pytest.fixture(params=["csv", "parquet"])
def saved(request, tmp_path):
    def save(table):
        path = tmp_path / f"table.{request.param}"
        table.write_csv(path) if request.param == "csv" else table.write_parquet(path)
        return path

    return save


def test_numbers_are_standardised_and_text_is_one_hot(saved):
    data = labelled_table(saved(TABLE), label="answer")
    assert data.columns == ("age", "town=a", "town=b", "same", "member")
    assert data.classes == ("no", "yes")
    assert data.labels.tolist() == [1, 0, 1]
    up = np.sqrt(1.5)
    half = 1 / np.sqrt(2)
    expected = [[-up, 0, 1, 0, half], [0, 1, 0, 0, -2 * half], [up, 0, 1, 0, half]]
    np.testing.assert_allclose(data.features, expected, atol=1e-15)
    assert (data.features[:, 3] == 0).all()
    assert data.environment().actions == 2


def test_chosen_features_come_in_the_order_given(saved):
    data = labelled_table(saved(TABLE), label="answer", features=["member", "age"])
    assert data.columns == ("member", "age")


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([10, 9, 10], ("9", "10")),
        ([2.0, 1.0, 1.0], ("1", "2")),
        ([True, False, True], ("False", "True")),
    ],
)
def test_number_labels_sort_as_numbers(saved, labels, classes):
    data = labelled_table(saved(TABLE.with_columns(answer=pl.Series(labels))), label="answer")
    assert data.classes == classes


@pytest.mark.parametrize("name", ["age", "town", "answer"])
def test_a_missing_value_is_named(saved, name):
    holed = TABLE.with_columns(pl.when(pl.int_range(3) != 1).then(pl.col(name)).alias(name))
    with refused("invalid-argument", match=f"'{name}'.* row 2 "):
        labelled_table(saved(holed), label="answer")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e200])
def test_numbers_that_cannot_be_used_are_named(saved, value):
    table = TABLE.with_columns(age=pl.Series([1.0, 2.0, value]))
    with refused("invalid-argument", field="column 'age'"):
        labelled_table(saved(table), label="answer")


def test_text_in_the_last_row_makes_a_text_column(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("x,y\n" + "1,a\n" * 2_000 + "one,b\n", encoding="utf-8")
    assert labelled_table(path, label="y").columns == ("x=1", "x=one")


@pytest.mark.parametrize(
    ("options", "field", "received"),
    [
        ({"label": "class"}, "label", "'class'"),
        ({"label": "answer", "features": ["size"]}, "each of features", "'size'"),
        ({"label": "answer", "features": []}, "features", "[]"),
        ({"label": "answer", "features": ["age", "age"]}, "features", "['age', 'age']"),
        ({"label": "answer", "features": ["answer"]}, "features", "['answer']"),
        ({"label": "answer", "features": "age"}, "features", "'age'"),
        ({"label": "same"}, "label column 'same'", "type Float64"),
    ],
)
def test_wrong_columns_are_refused(saved, options, field, received):
    with refused("invalid-argument", field=field, received=received):
        labelled_table(saved(TABLE), **options)


def test_one_class_is_not_a_problem_to_learn(saved):
    table = TABLE.with_columns(answer=pl.lit("yes"))
    with refused("invalid-argument", field="label column 'answer'", received="only 'yes'"):
        labelled_table(saved(table), label="answer")


def test_a_type_without_meaning_is_refused(tmp_path):
    path = tmp_path / "dates.parquet"
    TABLE.with_columns(day=pl.lit(datetime.date(2020, 1, 1))).write_parquet(path)
    with refused("invalid-argument", field="column 'day'"):
        labelled_table(path, label="answer")


def test_an_identifier_is_not_a_feature(saved, monkeypatch):
    monkeypatch.setattr(labelled, "MOST_LEVELS", 1)
    with refused("invalid-argument", field="column 'town'"):
        labelled_table(saved(TABLE), label="answer")


def test_files_that_are_not_tables(tmp_path):
    with refused("invalid-argument", field="path"):
        labelled_table(tmp_path / "a.xlsx", label="y")
    with refused("no-dataset", field="path"):
        labelled_table(tmp_path / "none.csv", label="y")
    for name, content in [("empty.csv", b""), ("header.csv", b"x,y\n")]:
        (tmp_path / name).write_bytes(content)
        with refused("no-rows"):
            labelled_table(tmp_path / name, label="y")
    for name, content in [("bad.parquet", b"not parquet"), ("ragged.csv", b"x,y\n1,2,3\n")]:
        (tmp_path / name).write_bytes(content)
        with refused("unreadable"):
            labelled_table(tmp_path / name, label="y")
