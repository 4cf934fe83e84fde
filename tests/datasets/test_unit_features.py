"""A sample for a plan is read as a campaign reads its units, whatever the file."""

import datetime

import numpy as np
import polars as pl
import pytest

from seqbatch.datasets import features_table, table_columns
from tests.campaign.files.workbooks import write_workbook
from tests.campaign.test_corpus import CORPUS, MANIFEST
from tests.refusals import refused

#: Each row, with a number, a day, an answer and a word; some are missing.
ROWS = [
    (f"k{n:02}", None if n == 3 else round(12.5 * n, 2), datetime.date(2024, 1, 1 + n),
     n % 3 == 0, None if n == 5 else ["Köln", "Bonn"][n % 2])
    for n in range(24)
]  # fmt: skip
NAMES = ("kunde", "umsatz", "seit", "mail", "ort")
FEATURES = ("umsatz", "seit", "mail", "ort")


def german(cell):
    if isinstance(cell, bool):
        return "ja" if cell else "nein"
    if isinstance(cell, datetime.date):
        return cell.strftime("%d.%m.%Y")
    if isinstance(cell, float):
        return f"{cell:.2f} €".replace(".", ",")
    return "" if cell is None else str(cell)


@pytest.fixture(params=["frame", "german.csv", "book.xlsx", "title.xlsx"])
def sample(request, tmp_path):
    """The same units in a frame and in files, with the options that read them."""
    path = tmp_path / request.param
    if request.param == "frame":
        return pl.DataFrame(ROWS, schema=NAMES, orient="row"), {}
    if request.param == "german.csv":
        lines = [";".join(NAMES), *(";".join(map(german, row)) for row in ROWS)]
        path.write_bytes("\r\n".join(lines).encode("cp1252"))
        return path, {}
    title = [["Kunden"], []] if request.param == "title.xlsx" else []
    write_workbook(path, [*title, NAMES, *ROWS])
    return path, {"skip_rows": 2} if title else {}


def test_every_file_gives_the_same_features(sample):
    given, options = sample
    found, names = features_table(given, features=FEATURES, **options)
    assert names == ("umsatz", "seit", "mail", "ort=", "ort=Bonn", "ort=Köln")
    spend = np.array([np.nan if row[1] is None else row[1] for row in ROWS])
    spend = np.where(np.isnan(spend), np.nanmedian(spend), spend)
    expected = (spend - spend.mean()) / spend.std()
    np.testing.assert_allclose(found[:, 0], expected)
    assert (np.diff(found[:, 1]) > 0).all()
    assert set(found[:, 2] > 0) == {True, False}
    assert found[5, 3:].tolist() == [1, 0, 0]
    assert table_columns(given, **options) == {
        "kunde": True, "umsatz": False, "seit": True, "mail": False, "ort": False,
    }  # fmt: skip


def test_repeated_units_count_once():
    frame = pl.DataFrame({"customer id": ["a", "b", "a"], "age": [1.0, 2.0, 5.0]})
    found, _ = features_table(frame, features=["age"], dedupe="last")
    assert len(found) == 2


def test_columns_that_are_no_features(tmp_path):
    frame = pl.DataFrame({
        "id": [f"u{n}" for n in range(100)], "x": range(100), "none": [None] * 100,
        "list": [[1]] * 100,
    })  # fmt: skip
    for name in ("id", "none", "list"):
        with refused("invalid-argument", field=f"column {name!r}"):
            features_table(frame, features=[name])
    for names, field in ((["y"], "each of features"), ([], "features"), (["x", "x"], "features")):
        with refused("invalid-argument", field=field):
            features_table(frame, features=names)
    with refused("invalid-rows", problem="no-such-file"):
        features_table(tmp_path / "none.csv")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    with refused("invalid-rows", problem="cell-count"):
        features_table(tmp_path / "ragged.csv")


@pytest.mark.parametrize("case", [
    pytest.param(case, id=case["file"])
    for case in MANIFEST
    if case["happens"] == "usable" and "numeric" in case.get("became", {}).values()
])  # fmt: skip
def test_what_init_reads_is_a_sample(case):
    options = case.get("options", [])
    reading = {
        name[2:].replace("-", "_"): value
        for name, value in zip(options[::2], options[1::2], strict=True)
    }
    if "skip_rows" in reading:
        reading["skip_rows"] = int(reading["skip_rows"])
    names = [name for name, kind in case["became"].items() if kind == "numeric"]
    found, columns = features_table(CORPUS / case["file"], features=names, **reading)
    assert columns == tuple(names)
    assert found.shape == (case["rows"], len(names))
    assert np.isfinite(found).all()
