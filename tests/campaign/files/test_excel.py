"""Sheets of workbooks are read by the rules of CSV files, and hostile ones are refused in words."""

import csv
import datetime
import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.files import reader_process, reading
from seqbatch.campaign.files.column_values import decoded
from seqbatch.campaign.files.csv import marked
from seqbatch.campaign.files.excel_cells import column_number, xls_notes, xlsx_notes
from seqbatch.campaign.files.number_format import NumberFormat, numbers
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.files.units import read_units
from seqbatch.campaign.spec.toml import check_spec
from seqbatch.errors import SeqbatchError
from tests.campaign.files.workbooks import Formula, with_part, write_workbook
from tests.campaign.specs import about
from tests.refusals import places, refused

CORPUS = Path(__file__).parents[2] / "corpus"
DAY, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 13, 30, 15)
SHEET = "xl/worksheets/sheet1.xml"
HEAD = (
    b'<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/'
    b'main"><sheetData>'
)
TAIL = b"</sheetData></worksheet>"


def read(path, columns=None, *, shown=False, **options):
    """Return the source, and its columns by name."""
    with Source(path, **options) as opened:
        names = opened.columns() if columns is None else columns
        pieces = list(opened.batches(names, shown=shown))
        table = pa.Table.from_batches(pieces) if pieces else pa.table({name: [] for name in names})
        return opened, table


def column(tmp_path, *cells):
    """Return a column of a sheet with these cells."""
    rows = [["id", "x"], *([f"u{n}", cell] for n, cell in enumerate(cells))]
    return read(write_workbook(tmp_path / "u.xlsx", rows))[1]["x"]


@pytest.mark.parametrize(("cells", "kind", "values"), [
    ((1, 2.0, None), pa.int64(), [1, 2, None]),
    ((1, 2.5, None), pa.float64(), [1.0, 2.5, None]),
    ((True, None, False), pa.bool_(), [True, None, False]),
    ((DAY, None), pa.date32(), [DAY, None]),
    ((DAY, MOMENT), pa.timestamp("us"), [datetime.datetime(2024, 2, 29), MOMENT]),
    (("a", None, " b "), pa.string(), ["a", "", " b "]),
    ((None, None), pa.string(), ["", ""]),
    (("a", 12.0, 1.5), pa.string(), ["a", "12", "15e-1"]),
    (("a", True, DAY), pa.string(), ["a", "TRUE", "2024-02-29"]),
    ((1, DAY), pa.string(), ["1", "2024-02-29"]),
    (("a", MOMENT), pa.string(), ["a", "2024-02-29 13:30:15"]),
    ((datetime.time(13, 30), 1), pa.string(), ["13:30:00", "1"]),
    ((("x", None), (0.125, "0.0%")), pa.string(), ["x", "125e-3"]),
    (((7, "00000"), (123456, "00000"), (1.5, "00000")), pa.string(), ["00007", "123456", "15e-1"]),
    ((1e300, 5), pa.float64(), [1e300, 5.0]),
    (("007", "008"), pa.string(), ["007", "008"]),
    (("=1+1", "'x", "@y"), pa.string(), ["=1+1", "'x", "@y"]),
])  # fmt: skip
def test_a_column_of_one_type_has_it_and_others_are_text(tmp_path, cells, kind, values):
    if cells[0] == datetime.time(13, 30):
        cells = ((cells[0], "hh:mm"), cells[1])
    found = column(tmp_path, *cells)
    assert found.type == kind
    assert found.to_pylist() == values


@pytest.mark.parametrize("others", [(DAY,), (DAY, None, MOMENT)])
def test_the_day_zero_of_the_calendar_among_dates_is_the_first_of_january(tmp_path, others):
    """Programs write 1900-01-01 for it; the reader returns a time of day."""
    found = column(tmp_path, (0, "dd.mm.yyyy"), *others, (0, "dd.mm.yyyy"), (1, "dd.mm.yyyy"))
    assert pa.types.is_temporal(found.type)
    first = [cell.strftime("%Y-%m-%d") for cell in found.to_pylist() if cell is not None]
    assert (first[0], first[-2:]) == ("1900-01-01", ["1900-01-01"] * 2)
    # A time of day is none: it stays text, and its row is refused where a date is needed.
    mixed = column(tmp_path, DAY, (0.5, "dd.mm.yyyy"), (0, "dd.mm.yyyy"))
    assert mixed.to_pylist() == ["2024-02-29", "12:00:00", "00:00:00"]
    assert column(tmp_path, "a", DAY, (0, "hh:mm")).to_pylist() == ["a", "2024-02-29", "00:00:00"]


def test_a_title_keeps_its_row_where_cells_are_empty(tmp_path):
    rows = [[], ["id", None, "x"], [], ["a", None, 1], [None, None, None], ["b", None, 2]]
    opened, table = read(write_workbook(tmp_path / "u.xlsx", rows, left=2))
    assert table.to_pydict() == {"id": ["a", "b"], "x": [1, 2]}
    assert opened.lines(np.array([1, 2])).tolist() == [4, 6]
    assert opened.place == "row"


def test_the_first_visible_sheet_with_cells_is_read_and_said(tmp_path):
    rows = [["id"], ["a"]]
    path = write_workbook(
        tmp_path / "u.xlsx", rows, sheet="Kunden", hidden=["Alt"], before=["Leer"]
    )
    opened, table = read(path)
    assert table.to_pydict() == {"id": ["a"]}
    assert opened.read_as == f"{path} was read from sheet 'Kunden', not 'Leer'"
    assert read(path, sheet="Alt")[1].column_names == ["hidden"]
    with refused("invalid-rows", problem="no-such-sheet", match="'Alt', 'Leer', 'Kunden'"):
        read(path, sheet="kunden")
    with refused("invalid-rows", problem="no-columns"):
        read(path, sheet="Leer")
    one = write_workbook(tmp_path / "one.xlsx", rows)
    assert read(one)[0].read_as == ""


def test_a_workbook_without_cells_and_a_header_alone(tmp_path):
    with refused("invalid-rows", problem="no-columns"):
        read(write_workbook(tmp_path / "u.xlsx", []))
    assert read(write_workbook(tmp_path / "u.xlsx", [["id", "x"]]))[1].num_rows == 0


def test_titles_are_skipped_and_counted(tmp_path):
    rows = [["Customers", None], [], ["id", "age"], ["a", 31]]
    path = write_workbook(tmp_path / "u.xlsx", rows)
    with refused("invalid-rows", row=3, problem="late-header") as caught:
        read(path)
    [remedy] = caught.value.remedies
    assert (remedy.action, remedy.options) == ("skip-rows", {"skip_rows": 2})
    opened, table = read(path, **remedy.options)
    assert table.to_pydict() == {"id": ["a"], "age": [31]}
    assert opened.lines(np.array([1])).tolist() == [4]
    dated = [["Customers"], ["As of", datetime.date(2026, 11, 1)], [], ["id", "age", "city"],
             ["a", 31, "Oslo"]]  # fmt: skip
    with refused("invalid-rows", row=4, problem="late-header"):
        read(write_workbook(tmp_path / "dated.xlsx", dated))
    with refused("invalid-rows", problem="no-columns"):
        read(path, skip_rows=9)
    with refused("invalid-argument", field="skip_rows"):
        read(path, skip_rows=-1)


def test_values_below_no_name_are_refused_but_for_an_index(tmp_path):
    rows = [["id", None], ["a", 31], ["b", None]]
    with refused("invalid-rows", row=2, problem="unnamed-column"):
        read(write_workbook(tmp_path / "u.xlsx", rows))
    opened, table = read(write_workbook(tmp_path / "v.xlsx", [[None, "id"], [0, "a"], [1, "b"]]))
    assert table.to_pydict() == {"id": ["a", "b"]}
    assert opened.has_index


def test_dates_of_both_calendars_are_the_same(tmp_path):
    rows = [["id", "day"], ["a", DAY], ["b", datetime.date(1999, 12, 31)]]
    old = write_workbook(tmp_path / "old.xlsx", rows, date_1904=True)
    new = write_workbook(tmp_path / "new.xlsx", rows)
    assert read(old)[1] == read(new)[1]
    assert read(new)[1]["day"].to_pylist() == [DAY, datetime.date(1999, 12, 31)]


def test_errors_are_text_and_formulas_need_results(tmp_path):
    error, good = Formula("=1/0", "#DIV/0!"), Formula("=1+1", 2)
    gone = Formula("=VLOOKUP(1,A1,1)", "#N/A")
    found = column(tmp_path, error, 1.5, gone, good)
    assert found.to_pylist() == ["#DIV/0!", "15e-1", "#N/A", "2"]
    rows = [["id", "x", "y"], ["a", 1, 2], ["b", Formula("=1+1"), 3]]
    path = write_workbook(tmp_path / "f.xlsx", rows)
    with refused("invalid-rows", row=3, column="x", problem="formula"):
        read(path)
    # The column is not needed.
    assert read(path, ["id", "y"])[1].num_rows == 2


def test_an_empty_result_is_a_result(tmp_path):
    rows = [["id", "x"], ["a", "b"]]
    path = write_workbook(tmp_path / "u.xlsx", rows)
    cells = (
        b'<row r="1"><c r="A1" t="str"><v>id</v></c><c r="B1" t="str"><v>x</v></c></row>'
        b'<row r="2"><c r="A2" t="str"><v>a</v></c><c r="B2" t="str"><f>IF(1,"")</f><v></v></c>'
        b"</row>"
    )
    with_part(path, SHEET, HEAD + cells + TAIL)
    assert read(path)[1].to_pydict() == {"id": ["a"], "x": [""]}


@pytest.mark.parametrize(("cell", "errors", "hollow"), [
    (b'<c r="B2" s="4" t="e"><v>#REF!</v></c>', {1: {1: "#REF!"}}, []),
    (b"<c t='e' r='B2'><f>A1</f><v>#NUM!</v></c>", {1: {1: "#NUM!"}}, []),
    (b'<x:c r="AB2" t="e"><x:f>A1</x:f><x:v>#N/A</x:v></x:c>', {1: {27: "#N/A"}}, []),
    (b'<c r="B2"><f>A1</f></c>', {}, [(1, 1)]),
    (b'<c r="B2"><f>A1</f><v/></c>', {}, [(1, 1)]),
    (b'<c r="B2"><f t="shared" si="0"/><v></v></c>', {}, [(1, 1)]),
    (b'<x:c r="B2"><x:f ca="1">A1</x:f><x:v /></x:c>', {}, [(1, 1)]),
    (b'<c r="B2" t="str"><f>A1</f></c>', {}, [(1, 1)]),
    (b'<c r="B2" t="str"><f>A1</f><v></v></c>', {}, []),
    (b'<c r="B2"><f>A1</f><v>0</v></c>', {}, []),
    (b'<c r="B2" t="inlineStr"><is><t>&lt;f&gt; t="e"</t></is></c>', {}, []),
])  # fmt: skip
def test_cells_that_the_reader_drops_are_found(tmp_path, cell, errors, hollow):
    path = write_workbook(tmp_path / "u.xlsx", [["id"]])
    with_part(path, SHEET, HEAD + b'<row r="2">' + cell + b"</row>" + TAIL)
    found = xlsx_notes(str(path), "Data")
    assert (dict(found.errors), found.hollow) == (errors, hollow)


def test_errors_without_an_address_are_refused(tmp_path):
    path = write_workbook(tmp_path / "u.xlsx", [["id"]])
    with_part(path, SHEET, HEAD + b'<row><c t="e"><v>#REF!</v></c></row>' + TAIL)
    with refused("invalid-rows", problem="error-cell"):
        read(path)


def test_letters_number_columns():
    assert [column_number(each) for each in ("A", "Z", "AA", "XFD")] == [0, 25, 26, 16_383]


def test_an_old_workbook_says_the_same():
    opened, table = read(CORPUS / "legacy.xls")
    assert table["Debitor"].to_pylist()[0] == "0000100234"
    assert table["Saldo"].to_pylist()[4:] == ["995e-1", "#N/A"]
    assert opened.lines(np.array([1])).tolist() == [2]
    notes = xls_notes(str(CORPUS / "legacy.xls"), "Debitoren")
    assert notes.errors == {6: {2: "#N/A"}}
    assert notes.zeros[1] == {0: 10}


def test_the_content_tells_the_kind_of_a_workbook(tmp_path):
    renamed = shutil.copy(CORPUS / "legacy.xls", tmp_path / "u.xlsx")
    assert read(renamed)[1] == read(CORPUS / "legacy.xls")[1]
    renamed = shutil.copy(CORPUS / "workbook.xlsx", tmp_path / "u.xls")
    assert read(renamed)[1] == read(CORPUS / "workbook.xlsx")[1]
    renamed = shutil.copy(CORPUS / "workbook.xlsx", tmp_path / "u.csv")
    with refused("invalid-rows", problem="unreadable", match=r"\(xlsx\)"):
        read(renamed)
    assert read(renamed, file_format="xlsx")[1] == read(CORPUS / "workbook.xlsx")[1]


@pytest.mark.parametrize(("content", "problem"), [
    (b"", "not-a-workbook"), (b"id;age\n1;2\n", "not-a-workbook"),
    (b"\xef\xbb\xbf <html><table>", "not-a-workbook"), (b"<?xml version='1.0'?>", "not-a-workbook"),
    (b"PAR1....", "not-a-workbook"), (b"%PDF-1.4", "not-a-workbook"),
    (b"PK\x03\x04 cut off", "unreadable"), (b"\xd0\xcf\x11\xe0 cut off", "unreadable"),
])  # fmt: skip
@pytest.mark.parametrize("ending", [".xlsx", ".xls"])
def test_what_is_no_workbook_is_refused(tmp_path, content, problem, ending):
    path = tmp_path / f"u{ending}"
    path.write_bytes(content)
    with refused("invalid-rows", problem=problem):
        read(path)


def test_a_password_is_named():
    with refused("invalid-rows", problem="password"):
        read(CORPUS / "password.xlsx")


def test_ids_that_excel_changed_are_named(tmp_path):
    long = [["id", "x"], ["a", 1], [10**15, 2], [10**15 - 1, 3]]
    opened, _ = read(write_workbook(tmp_path / "u.xlsx", long))
    assert [(p.row, p.code) for p in opened.changed_ids(["id", "x"])] == [(3, "rounded-id")]
    dated = [["id", "x"], ["a", DAY], [DAY, DAY]]
    opened, _ = read(write_workbook(tmp_path / "v.xlsx", dated))
    assert [(p.row, p.column, p.code) for p in opened.changed_ids(["id", "x"])] == [
        (3, "id", "dated-id")
    ]


@pytest.mark.parametrize("form", ["1.234,56", "1,234.56", "1 234,5 EUR", "1234,5-", "", "(5)"])
@pytest.mark.parametrize("cell", [234.567, -0.125, 1.5e-7, 12.0, 1e14 + 0.5, 5e-324, 0.1 + 0.2])
def test_no_format_misreads_a_number_among_texts(tmp_path, form, cell):
    """The texts 234.567 and 234,567 would be large numbers in some formats."""
    found = column(tmp_path, "x", cell)
    # The writer keeps 16 digits.
    expected = float(f"{cell:.16G}")
    values, wrong = numbers(found, form=NumberFormat.of(form) if form else None)
    assert values[1] == expected
    assert list(wrong) == [0]
    shown = read(tmp_path / "u.xlsx", shown=True)[1]["x"]
    assert float(shown[1].as_py()) == expected
    assert "e-1" not in shown[1].as_py()


# ----------------------------------------------------------------------
# The same table in a CSV file and in a sheet gives the same units.


SPEC = {
    "name": "s", "seed": 1, "unit": "id", "actions": ["a", "b"], **about("y"),
    "grid": {"sizes": [100]}, "start": "2025-01-01",
    "features": {
        "numeric": {"amount": {"scale": "raw", "missing": "median"}},
        "date": {"day": {"format": "iso", "parts": ["days"], "missing": "median"}},
        "boolean": {"member": "level"},
        "categorical": {"code": {"hash": 8, "missing": "level"}},
    },
}  # fmt: skip
LETTERS = st.characters(
    codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="_"
)
TEXT = st.text(LETTERS, min_size=1, max_size=8).filter(lambda text: text.strip())
IDS = st.one_of(TEXT, st.integers(0, 10**15 - 1))
AMOUNTS = st.one_of(
    st.none(), st.integers(-(10**9), 10**9),
    st.decimals(-1000, 1000, places=3).map(float),
    st.floats(-1e9, 1e9).map(lambda x: float(f"{x:.15G}")),
)  # fmt: skip
DAYS = st.one_of(st.none(), st.dates(datetime.date(1900, 3, 1), datetime.date(2200, 1, 1)))
ROWS = st.lists(
    st.tuples(
        IDS, AMOUNTS, DAYS, st.one_of(st.none(), st.booleans()),
        st.one_of(st.none(), TEXT, st.integers(0, 99)),
    ),
    min_size=1, max_size=12, unique_by=lambda row: str(row[0]),
)  # fmt: skip


def as_text(cell):
    if cell is None:
        return ""
    return str(cell).upper() if isinstance(cell, bool) else str(cell)


def units(path):
    """Return the units of a file as a campaign stores and encodes them, or why it refuses them."""
    spec = check_spec(SPEC)
    encoder = Encoder.of(spec, actions=spec.actions, learned=None)
    try:
        with Source(path) as opened, read_units(opened, encoder, lambda _rows: None) as found:
            [piece] = found.pieces()
            stored = decoded(piece.given).to_pydict()
            # A missing category is a null or an empty text.
            stored["code"] = [code or "" for code in stored["code"]]
            return repr(stored), encoder.encode(piece.given).tobytes()
    except SeqbatchError as error:
        return sorted((column, code) for _, column, code in places(error))


@settings(suppress_health_check=list(HealthCheck), database=None, deadline=None, max_examples=25)
@given(ROWS)
@example([("007", 2.125, None, True, "1"), (8, 3, None, None, None)])
def test_a_sheet_and_a_text_file_give_the_same_units(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("same")
    header = ("id", "amount", "day", "member", "code")
    write_workbook(folder / "u.xlsx", [header, *rows])
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    # A spreadsheet's text is not marked; the marks of a CSV file are taken off when it is read.
    texts = [[_marked(as_text(cell)) for cell in row] for row in rows]
    writer.writerows([header, *texts])
    (folder / "u.csv").write_text(file.getvalue(), encoding="utf-8", newline="")
    found = units(folder / "u.xlsx")
    by_text = units(folder / "u.csv")
    if by_text == [("amount", "ambiguous-number")]:
        # The text 2.125 may mean two numbers; the cell of a sheet is one.
        assert isinstance(found, tuple)
    else:
        assert found == by_text


def _marked(text):
    return marked(pa.table({"x": [text]}))["x"][0].as_py()


# ----------------------------------------------------------------------
# Damaged and hostile workbooks.


def kind_of_answer(path):
    """Read a file; return "read", or the code of its refusal."""
    try:
        read(path)
    except SeqbatchError as error:
        return error.code
    return "read"


@pytest.mark.parametrize("name", ["workbook.xlsx", "workbook-errors.xlsx", "legacy.xls"])
@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_workbook_is_read_or_refused(tmp_path, name, seed):
    random = np.random.default_rng(seed)
    whole = (CORPUS / name).read_bytes()
    content = np.frombuffer(whole, dtype=np.uint8).copy()
    places = random.integers(0, len(content), [1, 5, 60][seed % 3])
    content[places] = random.integers(0, 256, len(places))
    cut = len(content) if seed % 2 else int(random.integers(1, len(content)))
    path = tmp_path / name
    path.write_bytes(content[:cut].tobytes())
    assert kind_of_answer(path) in ("read", "invalid-rows", "unreadable-file")
    path.write_bytes(whole)
    assert kind_of_answer(path) == "read"


@pytest.mark.thorough
def test_a_sheet_of_far_cells_does_not_exhaust_memory(tmp_path):
    path = write_workbook(tmp_path / "u.xlsx", [["id"]])
    near = b'<row r="1"><c r="A1"><v>1</v></c></row>'
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    with_part(path, SHEET, HEAD + near + far + TAIL)
    with refused("unreadable-file"):
        read(path)


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path):
    path = write_workbook(tmp_path / "u.xlsx", [["id"]])
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/media/image.bin", "w", force_zip64=True) as part,
    ):
        for _ in range(600):
            part.write(bytes(1 << 20))
    with refused("invalid-rows", problem="too-large"):
        read(path)


def test_entities_do_not_expand(tmp_path):
    path = write_workbook(tmp_path / "u.xlsx", [["id"], ["a"]])
    entities = b"".join(
        b'<!ENTITY e%d "%s">' % (n, b"&e%d;" % (n - 1) * 10 if n else b"ha") for n in range(10)
    )
    with zipfile.ZipFile(path) as archive:
        book = archive.read("xl/workbook.xml")
    start = book.index(b"?>") + 2
    bomb = b"<!DOCTYPE x [" + entities + b"]>"
    content = book[:start] + bomb + book[start:].replace(b"<sheets>", b"<y>&e9;</y><sheets>")
    with_part(path, "xl/workbook.xml", content)
    assert kind_of_answer(path) in ("invalid-rows", "unreadable-file")


def test_too_many_rows_are_refused(tmp_path, monkeypatch):
    path = write_workbook(tmp_path / "u.xlsx", [["id"], *([n] for n in range(50))])
    monkeypatch.setattr("seqbatch.campaign.files.unpacked_size.MOST_ROWS", 40)
    with refused("invalid-rows", problem="too-many-rows"):
        read(path)


def test_a_sheet_is_converted_once_while_it_does_not_change(tmp_path, monkeypatch):
    path = write_workbook(tmp_path / "u.xlsx", [["id"], ["a"]])
    calls, made = [], reading.Sheet
    monkeypatch.setattr(reading, "Sheet", lambda *args: calls.append(args) or made(*args))
    source = Source(path)
    for _ in range(3):
        with source:
            assert source.columns() == ["id"]
    assert len(calls) == 1
    write_workbook(tmp_path / "u.xlsx", [["unit"], ["a"]])
    with source:
        assert source.columns() == ["unit"]


def test_a_workbook_is_read_without_the_library():
    """The child imports little; the reader of workbooks must not need the packages' __init__."""
    packages = reader_process._START.partition("from seqbatch")[0]
    folder, paths = str(Path(reader_process.__file__).parents[2]), repr(sys.path).replace("'", '"')
    code = packages + "import seqbatch.campaign.files.excel\nprint('polars' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code, folder, paths], capture_output=True, text=True, check=True
    )
    assert found.stdout == "False\n"
