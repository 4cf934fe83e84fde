"""Files of assignments: the dialect of the units' file, workbooks, carried columns, split lists."""

import codecs
import datetime
import io
import zipfile
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
import python_calamine as calamine

from seqbatch.campaign import Campaign
from seqbatch.campaign.files.csv import CsvDialect
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.files.workbook import LONGEST, Workbook
from seqbatch.campaign.files.writing import SplitWriter, Writer, split_targets
from seqbatch.errors import OutputError
from seqbatch.storage import open_store
from tests.campaign.files.workbooks import write_workbook
from tests.campaign.specs import about
from tests.refusals import refused

ROWS = [
    ("Kunde", "Name", "Umsatz", "seit"),
    *(
        (f"{n:04}", f"Müller {n}", f"{n % 9},{n % 7}5", f"{1 + n % 28:02}.01.2024")
        for n in range(40)
    ),
]
SPEC = {
    "name": "s", "seed": 5, "unit": "Kunde", "actions": ["none", "mail A"], **about("y"),
    "features": {"numeric": {"Umsatz": {"scale": "learn", "format": "1.234,56"}}},
    "grid": {"sizes": [30, 10]},
}  # fmt: skip


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store(tmp_path / "c.db")
    yield Campaign.create(SPEC, store=store)
    store.close()


def text(delimiter=";", *, above=""):
    lines = (delimiter.join(f'"{cell}"' if "," in cell else cell for cell in row) for row in ROWS)
    return above + "\r\n".join(lines) + "\r\n"


def cells(path):
    """Return the cells of a workbook, as its reader finds them."""
    [sheet] = calamine.CalamineWorkbook.from_path(path).sheet_names
    return calamine.CalamineWorkbook.from_path(path).get_sheet_by_name(sheet).to_python()


@pytest.mark.parametrize(("delimiter", "encoding", "mark"), [
    (";", "cp1252", b""), (";", "utf-8", b""), (";", "utf-8-sig", codecs.BOM_UTF8),
    ("\t", "utf-16", codecs.BOM_UTF16_LE), (",", "utf-8", b""), ("|", "utf-8-sig", codecs.BOM_UTF8),
])  # fmt: skip
def test_answers_have_the_dialect_of_the_units(campaign, delimiter, encoding, mark):
    Path("u.csv").write_bytes(text(delimiter).encode(encoding))
    campaign.assign("u.csv", out="a.csv", draw=True, with_columns=["Name"])
    content = Path("a.csv").read_bytes()
    assert content.startswith(mark)
    assert content.startswith(codecs.BOM_UTF8) == (mark == codecs.BOM_UTF8)
    lines = content.decode(encoding).splitlines()
    start = ["Kunde", "Name", "action", "wave", "score", "probability"]
    assert lines[0].split(delimiter)[:6] == start
    if delimiter != ",":
        assert "0,5" in lines[1].split(delimiter)
    else:
        assert '"0,5"' in lines[1]
    # The file of answers is read as it was written.
    with Source("a.csv") as written, Source("u.csv") as given:
        assert written.dialect == given.dialect
        table = pa.Table.from_batches(written.batches(["Kunde", "Name"]))
    assert set(table["Name"].to_pylist()) <= {row[1] for row in ROWS}


def test_a_line_that_states_the_delimiter_is_kept(campaign):
    Path("u.csv").write_text(text(above="sep=;\r\n"), encoding="utf-8", newline="")
    campaign.assign("u.csv", out="a.csv", draw=True)
    assert Path("a.csv").read_text(encoding="utf-8").startswith("sep=;\nKunde;action;")


def test_dots_and_commas_come_from_the_file(tmp_path):
    for content, decimal in [
        ("id;x\na;1.5\nb;2.25\n", "."), ("id;x\na;1,5\n", ","), ("id;x\na;1\n", ","),
        ("id,x\na,1\n", "."), ('id,x\na,"1,5"\n', ","), ("id;x\na;1.234,5 €\nb;17.11.2021\n", ","),
        ("id\tx\na\t12.5 %\n", "."),
    ]:  # fmt: skip
        (tmp_path / "u.csv").write_text(content, encoding="utf-8")
        with Source(tmp_path / "u.csv") as opened:
            assert opened.dialect.decimal == decimal, content


def test_a_letter_that_the_encoding_lacks_assigns_nothing(tmp_path):
    store = open_store(tmp_path / "c.db")
    campaign = Campaign.create({**SPEC, "actions": ["none", "→ mail"]}, store=store)
    (tmp_path / "u.csv").write_bytes(text().encode("cp1252"))
    with refused("invalid-argument", field="out", match="'→'"):
        campaign.assign(tmp_path / "u.csv", out=tmp_path / "a.csv", draw=True)
    assert campaign.situation().assigned == 0
    assert not (tmp_path / "a.csv").exists()
    campaign.assign(tmp_path / "u.csv", out=tmp_path / "a.xlsx", draw=True)
    assert "→ mail" in {row[1] for row in cells(tmp_path / "a.xlsx")[1:]}
    store.close()


def test_a_workbook_has_ids_as_text_and_no_formulas(campaign):
    table = pl.DataFrame({
        "Kunde": [f"{n:04}" for n in range(30)], "Umsatz": [n + 0.5 for n in range(30)],
        "note": ["=1+1", "+4", "@x", "-5", "'q", "http://a.b/c"] * 5,
        "seit": [datetime.date(2024, 1, 1 + n % 28) for n in range(30)],
        "am": [datetime.datetime(2024, 1, 1, 10, 30)] * 30, "ja": [True, False, None] * 10,
    })  # fmt: skip
    names = ["note", "seit", "am", "ja", "Umsatz"]
    result = campaign.assign(table, out="a.xlsx", with_columns=names)
    assert result.table is None
    header, *rows = cells("a.xlsx")
    assert header[:6] == ["Kunde", *names]
    by_id = {row[0]: row for row in rows}
    assert set(by_id) == set(table["Kunde"])
    for given in table.iter_rows(named=True):
        ja = "" if given["ja"] is None else given["ja"]
        expected = [given["note"], given["seit"], given["am"], ja, given["Umsatz"]]
        assert by_id[given["Kunde"]][1:6] == expected
    with zipfile.ZipFile("a.xlsx") as archive:
        assert b"<f>" not in archive.read("xl/worksheets/sheet1.xml")
    before = Path("a.xlsx").read_bytes()
    campaign.assign(table, out="a.xlsx", with_columns=names, force=True)
    assert Path("a.xlsx").read_bytes() == before


def test_what_a_sheet_cannot_hold(monkeypatch):
    def written(table):
        book = Workbook(io.BytesIO())
        try:
            book.write(table)
        finally:
            book.close()

    written(pa.table({"x": ["a" * LONGEST], "n": [float("nan")], "big": [10**17]}))
    with refused("invalid-argument", field="out"):
        written(pa.table({"x": ["a" * (LONGEST + 1)]}))
    monkeypatch.setattr("seqbatch.campaign.files.workbook.MOST_ROWS", 3)
    written(pa.table({"x": ["a", "b"]}))
    with refused("invalid-argument", field="out"):
        written(pa.table({"x": ["a", "b", "c"]}))


def test_carried_columns_belong_to_their_units(campaign):
    """Also in a draw from a longer list, in a repeated call, and for units of earlier calls."""
    Path("u.csv").write_bytes(text().encode("cp1252"))
    names = {row[0]: row[1:] for row in ROWS[1:]}
    for draw, out in ((True, "a.parquet"), (True, "b.parquet"), (False, "c.parquet")):
        given = "u.csv"
        if not draw:
            given = pl.read_parquet("a.parquet").select("Kunde", "Umsatz", "Name", "seit").reverse()
        campaign.assign(given, out=out, draw=draw, with_columns=["Name", "Umsatz", "seit"])
        found = pl.read_parquet(out)
        assert found.columns[:5] == ["Kunde", "Name", "Umsatz", "seit", "action"]
        assert len(found) == 30
        for unit, *carried in found.select("Kunde", "Name", "Umsatz", "seit").iter_rows():
            assert tuple(carried) == names[unit]
    assert pl.read_parquet("a.parquet").equals(pl.read_parquet("b.parquet"))


def test_carried_cells_of_a_sheet_are_as_shown(campaign):
    rows = [
        ["Kunde", "Umsatz", "size"],
        *([f"{n:04}", n, "XL" if n % 2 else 38.5] for n in range(9)),
    ]
    path = write_workbook("u.xlsx", rows)
    table = campaign.assign(path, with_columns=["size"]).table
    assert set(table["size"].to_pylist()) == {"XL", "38.5"}


def test_columns_that_cannot_be_carried(campaign):
    Path("u.csv").write_bytes(text().encode("cp1252"))
    with refused("invalid-rows", column="Mail", problem="no-such-column"):
        campaign.assign("u.csv", draw=True, with_columns=["Mail"])
    for names in (["Kunde"], ["action"], ["Name", "Name"]):
        with refused("invalid-argument", field="with_columns"):
            campaign.assign("u.csv", draw=True, with_columns=names)
    assert campaign.situation().assigned == 0


# ----------------------------------------------------------------------
# One file for each action.


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "xlsx", "parquet"])
def test_one_list_for_each_action(campaign, ending):
    Path("u.csv").write_bytes(text().encode("cp1252"))
    whole = campaign.assign("u.csv", draw=True, with_columns=["Name"]).table
    campaign.assign("u.csv", draw=True, with_columns=["Name"], out=f"l.{ending}", split_by="action")
    assert not Path(f"l.{ending}").exists()
    for action, name in (("none", f"l-none.{ending}"), ("mail A", f"l-mail-A.{ending}")):
        with Source(name) as opened:
            names = opened.columns()
            found = pa.Table.from_batches(opened.batches(names))
        assert names == whole.column_names
        expected = whole.filter(pa.compute.equal(whole["action"], action))
        assert found["Kunde"].to_pylist() == expected["Kunde"].to_pylist()
        assert found["Name"].to_pylist() == expected["Name"].to_pylist()


def test_the_names_of_split_files():
    found = split_targets(Path("a/b.CSV.GZ"), ["A", "a", "x/y", "..", "ß é", "a-2"])
    assert [str(each) for each in found.values()] == [
        "a/b-A.CSV.GZ", "a/b-a-2.CSV.GZ", "a/b-x-y.CSV.GZ", "a/b-action.CSV.GZ", "a/b-ß-é.CSV.GZ",
        "a/b-a-2-2.CSV.GZ",
    ]  # fmt: skip
    with refused("invalid-argument", field="split_by"):
        split_targets("-", ["a"])


def test_split_files_are_not_written_over_others(campaign):
    Path("u.csv").write_bytes(text().encode("cp1252"))
    Path("l-none.csv").write_text("mine")
    with refused("file-exists", field="out"):
        campaign.assign("u.csv", draw=True, out="l.csv", split_by="action")
    assert campaign.situation().assigned == 0
    assert not Path("l-mail-A.csv").exists()
    with refused("invalid-argument", field="split_by"):
        campaign.assign("u.csv", draw=True, out="l.csv", split_by="wave")
    with refused("invalid-argument", field="split_by"):
        campaign.assign("u.csv", draw=True, split_by="action")
    campaign.assign("u.csv", draw=True, out="l.csv", split_by="action", force=True)
    assert Path("l-none.csv").read_text(encoding="cp1252").startswith("Kunde;")


def test_all_lists_are_published_or_none(campaign, monkeypatch):
    Path("u.csv").write_bytes(text().encode("cp1252"))
    Path("l-none.csv").write_text("before")
    real, done = Writer.publish, []

    def failing(writer):
        if done:
            raise OSError(28, "No space left on device", "l-mail-A.csv")
        done.append(real(writer))

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "publish", failing)
        with pytest.raises(OutputError, match="30 units were assigned"):
            campaign.assign("u.csv", draw=True, out="l.csv", split_by="action", force=True)
    assert Path("l-none.csv").read_text() == "before"
    assert sorted(path.name for path in Path().iterdir()) == ["c.db", "l-none.csv", "u.csv"]
    again = campaign.assign("u.csv", draw=True, out="l.csv", split_by="action", force=True)
    assert (again.assigned, again.repeated) == (0, 30)


def test_a_writer_that_fails_to_begin_leaves_nothing(tmp_path):
    targets = {"a": tmp_path / "a.csv", "b": tmp_path / "none" / "b.csv"}
    with pytest.raises(OSError, match="none"), SplitWriter(targets):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_plain_file_is_written_as_before(tmp_path):
    table = pa.table({"id": ["ä", "=x"], "p": [0.5, 1.0]})
    with Writer(tmp_path / "a.csv") as writer:
        writer.write(table)
        writer.publish()
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "id,p\nä,0.5\n'=x,1.0\n"
    assert CsvDialect().opening == b""


def test_units_that_were_sent_before_are_told_and_so_are_changed_features(tmp_path):
    features = {
        "numeric": {"age": {"scale": "raw", "missing": 0.0}}, "categorical": {"city": ["a", "b"]},
        "boolean": {"new": "level"},
    }  # fmt: skip
    spec = {**SPEC, "unit": "id", "features": features}
    rows = pl.DataFrame(
        {
            "id": [f"u{n}" for n in range(20)],
            "age": [None if n == 3 else n + 18.0 for n in range(20)],
            "city": ["ab"[n % 2] for n in range(20)],
            "new": [None if n == 4 else n % 3 == 0 for n in range(20)],
        }
    )
    store = open_store(tmp_path / "d.db")
    campaign = Campaign.create(spec, store=store)
    first = campaign.assign(rows[:12])
    assert not first.before.any()
    again = campaign.assign(rows.reverse())
    assert again.before.tolist() == [n < 12 for n in reversed(range(20))]
    assert again.doubts == ()
    moved = rows.with_columns(
        age=pl.when(pl.col("id").is_in(["u3", "u5", "u15"])).then(50.0).otherwise("age"),
        city=pl.when(pl.col("id") == "u7").then(pl.lit("a")).otherwise("city"),
        new=pl.when(pl.col("id") == "u4").then(pl.lit(True)).otherwise("new"),
    )
    told = campaign.assign(moved.sample(fraction=1.0, shuffle=True, seed=1))
    found = {(each.kind, each.column): each.rows for each in told.doubts}
    assert found == {("features-changed", name): rows for name, rows in
                     {"age": 3, "city": 1, "new": 1}.items()}  # fmt: skip
    pl_first = pl.from_arrow(again.table).sort("id")
    assert pl.from_arrow(told.table).sort("id").equals(pl_first)
    assert campaign.verify().sound
    store.close()
