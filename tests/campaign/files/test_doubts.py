"""Numbers whose dots may separate thousands or decimals are refused until a format is declared."""

import polars as pl
import pytest

from tests.campaign.instances import created, units
from tests.campaign.specs import about
from tests.refusals import places, refused

BOTH = r'may be 2.75 \(format = "1234.56"\) or 2750 \(format = "1.234,56"\)'


def open_wave(store, **settings):
    campaign = created(store, **about("visit", **settings))
    campaign.assign(units(300))
    return campaign


def outcome_file(tmp_path, cells, *, mark=","):
    path = tmp_path / "outcomes.csv"
    rows = [f"{row:06}{mark}{cell}" for row, cell in enumerate(cells)]
    path.write_text("\n".join([f"id{mark}visit", *rows, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize(("cells", "mark"), [
    (["2.750", "12"], ","),
    (["2.750", "-1.234"], ";"),
    (["12", "", "2.750", "3,5"], ";"),
])  # fmt: skip
def test_dots_that_may_part_thousands_are_refused(store, tmp_path, cells, mark):
    campaign = open_wave(store)
    with refused("invalid-rows") as caught:
        campaign.record(outcome_file(tmp_path, cells, mark=mark))
    assert places(caught.value) == [(cells.index("2.750") + 2, "visit", "ambiguous-number")]
    assert campaign.status().waves[0].observed == 0


@pytest.mark.parametrize(("cells", "mark"), [
    (["2.750", "12", "0.125"], ","),
    (["2.750", "12.5", "7"], ";"),
    (["2.750", "1.234"], ","),
    (["2.750", "1e3", "2750.125"], ";"),
])  # fmt: skip
def test_dots_that_part_decimals_are_read_as_such(store, tmp_path, cells, mark):
    campaign = open_wave(store)
    assert campaign.record(outcome_file(tmp_path, cells, mark=mark)).accepted == len(cells)


@pytest.mark.parametrize(("example", "mean"), [("1234.56", 2.75), ("1.234,56", 2750.0)])
def test_a_declared_format_says_which(store, tmp_path, example, mean):
    campaign = open_wave(store, format=example)
    assert campaign.record(outcome_file(tmp_path, ["2.750"] * 300, mark=";")).accepted == 300
    assert {row.mean for row in campaign.status().actions} == {mean}


def test_numbers_that_are_no_text_are_never_unclear(store):
    campaign = open_wave(store)
    table = pl.DataFrame({"id": ["000000", "000001"], "visit": [2.125, 12.0]})
    assert campaign.record(table).accepted == 2


def test_a_later_piece_tells_what_the_first_ones_did_not(store, tmp_path, monkeypatch):
    monkeypatch.setattr("seqbatch.campaign.files.csv.BLOCK", 64)
    campaign = open_wave(store)
    unclear = ["2.750", "12"] * 20
    with refused("invalid-rows", row=2, column="visit", problem="ambiguous-number"):
        campaign.record(outcome_file(tmp_path, unclear))
    assert campaign.record(outcome_file(tmp_path, [*unclear, "0.5"])).accepted == 41


def test_metrics_and_features_are_asked_too(store, tmp_path):
    campaign = open_wave(store, metrics={"calls": {}})
    path = tmp_path / "metrics.csv"
    path.write_text("id,visit,calls\n000000,1,2.750\n000001,1,3\n", encoding="utf-8")
    with refused("invalid-rows", row=2, column="calls", problem="ambiguous-number"):
        campaign.record(path)
    other = created(store, name="features")
    path = tmp_path / "units.csv"
    frame = units(300).with_columns(age=pl.Series(["2.750", *["12"] * 299]))
    frame.write_csv(path)
    with refused("invalid-rows", row=2, column="age", problem="ambiguous-number"):
        other.assign(path)
