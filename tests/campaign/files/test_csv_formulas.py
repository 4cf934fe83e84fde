"""Text that a spreadsheet would run: inert in CSV files, and the same again when it is read."""

import csv
import re
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqbatch.campaign import Campaign
from seqbatch.campaign.files.csv import marked, unmarked, unmarked_name
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.hostile import EVERY, FORMULAS

SPEC = {
    "name": "x", "unit": "=id", "actions": ["=mail", "@call"],
    **about("-visit", row_id="+order"), "features": {"categorical": {"@kind": list(EVERY)}},
    "grid": {"sizes": [len(EVERY), len(EVERY)]}, "randomised": 1.0,
}  # fmt: skip
NUMBER = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?")


def runs(cell):
    return cell.startswith(tuple("=+-@\t\r\n＝＋－＠")) and not NUMBER.fullmatch(cell)


@given(st.text(alphabet="'=+-@\t\r\n＝a5.e") | st.text())
def test_every_text_comes_back(text):
    table = marked(pa.table({text: [text, None]}))
    [name], [written, nothing] = table.column_names, table.column(0).to_pylist()
    assert not runs(written)
    assert not runs(name)
    assert nothing is None
    assert unmarked(table.column(0)).to_pylist() == [text, None]
    assert unmarked_name(name) == text


def test_numbers_and_plain_text_stay():
    kept = ["-5", "+4.5e3", ".5", "-1.", "007", "a=b", "'tis", "", "é"]
    assert marked(pa.table({"a": kept}))["a"].to_pylist() == kept
    numbers = pa.table({"a": [-1.5, 2.0]})
    assert marked(numbers).equals(numbers)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow"])
def test_ids_survive_the_way_through_every_file(tmp_path, monkeypatch, ending):
    monkeypatch.chdir(tmp_path)
    campaign = Campaign.create(SPEC, store=open_store("c.db"))
    frame = pl.DataFrame({"=id": [*EVERY, "late"], "@kind": [*EVERY, EVERY[0]]})
    rest, out, export = (f"{name}.{ending}" for name in ("rest", "out", "export"))
    assert campaign.assign(frame, partial=True, out=out, rest=rest).left_over == 1
    assert campaign.assign(rest, partial=True).left_over == 1
    campaign.export(export)
    again = campaign.assign(export, out=f"again.{ending}")
    assert (again.assigned, again.repeated) == (0, len(EVERY))
    assert Path(f"again.{ending}").read_bytes() == Path(out).read_bytes()
    # Another program takes the ids from the answers as they stand there.
    mark = "'" if "csv" in ending else ""
    ids = _read(out)[f"{mark}=id"]
    assert (ids.to_list() == list(EVERY)) == (mark == "")
    made = pl.DataFrame({f"{mark}=id": ids, f"{mark}-visit": 1.0, f"{mark}+order": ids})
    outcomes = "o.csv" if mark else "o.parquet"
    made.write_csv(outcomes) if mark else made.write_parquet(outcomes)
    assert campaign.record(outcomes).accepted == len(EVERY)
    assert campaign.record(outcomes).duplicate == len(EVERY)
    assert campaign.verify().sound


def _read(path):
    if "csv" in path:
        return pl.read_csv(path, infer_schema=False)
    return pl.read_parquet(path) if path.endswith("parquet") else pl.read_ipc(path)


def test_no_cell_of_a_csv_file_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    campaign = Campaign.create(SPEC, store=open_store("c.db"), who="=who")
    campaign.assign(pl.DataFrame({"=id": EVERY, "@kind": EVERY}), out="a.csv")
    campaign.record(pl.DataFrame({"=id": FORMULAS, "-visit": [1.0] * len(FORMULAS),
                                  "+order": FORMULAS}), reason="=why")  # fmt: skip
    strange = pl.DataFrame({"=id": ["=ghost"], "-visit": [1.0], "+order": ["@ghost"]})
    campaign.record(strange)
    for what in ("units", "outcomes", "held", "events"):
        campaign.export(f"{what}.csv", what=what)
    for path in tmp_path.glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert cells
        assert [cell for cell in cells if runs(cell)] == []
    campaign.export("held.parquet", what="held")
    assert pl.read_parquet("held.parquet")["=id"].to_list() == ["=ghost"]
