"""Delimited text as people have it: delimiters, encodings, quotes, ends of lines, odd starts."""

import csv
import gzip
import io
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqbatch.campaign.files import csv as delimited
from seqbatch.campaign.files.csv import (
    CsvDialect,
    DelimitedError,
    dialect_of,
    records,
    stated_delimiter,
    stated_encoding,
)
from seqbatch.campaign.files.reading import Source
from tests.refusals import refused

CELL = st.text(alphabet='ab"é,;\n\r \t|x', max_size=5)


def cut(text, delimiter=",", at=()):
    """All records of a text that comes in blocks, with the lines they begin on."""
    data = text.encode()
    ends = [0, *sorted({min(place, len(data)) for place in at}), len(data)]
    blocks = [data[low:high] for low, high in pairwise(ends)]
    return [
        (found.record(row), int(found.lines[row]))
        for found in records(blocks, delimiter)
        for row in range(len(found))
    ]


def by_csv(text, delimiter=","):
    """The same by Python's own reader; it counts the lines that a record ends on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    found, begun = [], 1
    for row in reader:
        if any(row):
            found.append((row, begun))
        begun = reader.line_num + 1
    return found


@given(
    st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=6),
    st.sampled_from(",;\t|"),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 80), max_size=4),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_was_written_is_read(rows, delimiter, ending, at, quoting):
    if quoting == csv.QUOTE_MINIMAL:
        # Python's writer leaves ends of lines that are not its own without quotes.
        rows = [[cell.replace("\r", "").replace("\n", "") for cell in row] for row in rows]
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator=ending, quoting=quoting)
    writer.writerows(rows)
    found = cut(file.getvalue(), delimiter, at)
    # A record whose cells stand in quotes is something, though nothing is in them.
    written = rows if quoting == csv.QUOTE_ALL else [row for row in rows if any(row) or row == [""]]
    assert [row for row, _ in found] == written


@given(st.text(alphabet='ab"é,;\n\r ', max_size=40), st.lists(st.integers(0, 60), max_size=4))
def test_any_text_is_cut_as_python_cuts_it(text, at):
    try:
        found = cut(text, ",", at)
    except DelimitedError:
        # Read strictly, Python refuses it too.
        with pytest.raises(csv.Error):
            list(csv.reader(io.StringIO(text, newline=""), strict=True))
        return
    expected = by_csv(text)
    assert [row for row, _ in found if any(row)] == [row for row, _ in expected]
    lines = [line for row, line in found if any(row)]
    if "\r" not in text:
        assert lines == [line for _, line in expected]


@given(st.text(alphabet='ab"\n\r,', max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_blocks_do_not_matter(text, at):
    def outcome(places):
        try:
            return cut(text, ",", places)
        except DelimitedError as error:
            return str(error)

    assert outcome(at) == outcome([])


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_lines_of_quoted_line_breaks(ending):
    text = ending.join(["a,b", '"x', 'y",1', "", "2,3", '"p', "", 'q",4', "5,6"])
    assert [line for _, line in cut(text)] == [1, 2, 5, 6, 9]


def test_rows_longer_than_a_block(monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK", 100)
    with pytest.raises(DelimitedError, match=r"100 bytes; .* on line 3"):
        cut("a,b\n1,2\n" + '"' + "x" * 300 + '"', at=(50, 150, 250))


TABLE = "kunde;umsatz;stadt\n007;1.234,56;Köln\n8;-2,5;Zürich\n"
READ = {"kunde": ["007", "8"], "umsatz": ["1.234,56", "-2,5"], "stadt": ["Köln", "Zürich"]}


def read(path, **stated):
    with Source(path, **stated) as opened:
        columns = opened.columns()
        table = pa.Table.from_batches(opened.batches(columns))
        return opened, table.to_pydict()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", [
    "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1",
])  # fmt: skip
def test_every_spelling_is_found(tmp_path, delimiter, encoding):
    path = tmp_path / "u.csv"
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows([list(READ), *zip(*READ.values(), strict=True)])
    path.write_bytes(file.getvalue().encode(encoding))
    opened, found = read(path)
    assert found == READ
    assert opened.dialect.delimiter == delimiter
    usual = delimiter == "," and encoding in ("utf-8", "utf-8-sig")
    assert (opened.read_as == "") == usual
    packed = tmp_path / "u.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(packed)[1] == READ


def test_bytes_beyond_windows_1252_are_latin_1(tmp_path):
    path = tmp_path / "u.txt"
    path.write_bytes("a;b\nx\x81;é\n".encode("latin-1"))
    opened, found = read(path)
    assert (opened.dialect, found) == (
        CsvDialect(";", "latin-1", decimal=","),
        {"a": ["x\x81"], "b": ["é"]},
    )
    assert opened.read_as.endswith("was read as semicolon-separated, Latin-1 text")


def test_a_damaged_character_is_not_read_as_others(tmp_path):
    path = tmp_path / "u.csv"
    path.write_bytes("name\nKöln\nZürich\n".encode() + b"M\xfcnchen\n")
    with refused("invalid-rows", problem="unreadable"):
        read(path)
    assert read(path, encoding="latin-1")[1]["name"][2] == "München"


def test_what_is_stated_wins(tmp_path):
    path = tmp_path / "u.csv"
    path.write_text("a,b;c\n1,2;3\n")
    assert read(path, delimiter=",")[1] == {"a": ["1"], "b;c": ["2;3"]}
    assert read(path, delimiter="semicolon")[1] == {"a,b": ["1,2"], "c": ["3"]}
    path.write_bytes(TABLE.encode("cp1252"))
    with refused("invalid-rows", problem="unreadable"):
        read(path, encoding="utf-8")
    for wrong in ("", "ab", "a", "1", '"', "\n", "€"):
        with refused("invalid-argument", field="delimiter"):
            stated_delimiter(wrong)
    for wrong in ("klingon", "rot13", "hex"):
        with refused("invalid-argument", field="encoding"):
            stated_encoding(wrong)


def test_a_comma_in_a_header_of_semicolons(tmp_path):
    path = tmp_path / "u.csv"
    path.write_text("id;revenue, net;city\n1;2,5;x\n2;3,5;y\n")
    assert list(read(path)[1]) == ["id", "revenue, net", "city"]


def test_what_spreadsheets_write_first(tmp_path):
    path = tmp_path / "u.csv"
    path.write_text("sep=|\r\na|b\r\n1|x\r\n")
    opened, found = read(path)
    assert found == {"a": ["1"], "b": ["x"]}
    assert opened.lines(np.array([1])).tolist() == [3]


def test_lines_above_the_header_are_named(tmp_path):
    path = tmp_path / "u.csv"
    path.write_text("Report of May\n\nid,age,city\n" + "1,2,x\n" * 5)
    with refused("invalid-rows", row=3, problem="late-header") as caught:
        read(path)
    assert [each.plain() for each in caught.value.remedies] == [
        {"action": "skip-rows", "options": {"skip_rows": 2}}
    ]
    opened, found = read(path, skip_rows=2)
    assert found["city"] == ["x"] * 5
    assert opened.lines(np.array([1, 5])).tolist() == [4, 8]


def test_empty_rows_cells_and_names(tmp_path):
    path = tmp_path / "u.csv"
    path.write_text(",a , b,\n0,1,2,\n\n,,,\n1,3,4,\n2,5,6,,,\n3,7,8\n")
    opened, found = read(path)
    assert found == {"a": ["1", "3", "5"], "b": ["2", "4", "6"]}
    assert opened.lines(np.array([1, 2, 3])).tolist() == [2, 5, 6]
    assert [(each.row, each.code) for each in opened.ragged] == [(7, "cell-count")]


@pytest.mark.parametrize(("start", "what"), [
    (b"PK\x03\x04....", "Excel workbook"), (b"\xd0\xcf\x11\xe0..", "old Excel workbook"),
    (b"PAR1....", "a Parquet file"), (b"ARROW1\0\0", "an Arrow file"), (b"%PDF-1.4", "a PDF"),
])  # fmt: skip
def test_files_that_are_something_else(tmp_path, start, what):
    path = tmp_path / "u.csv"
    path.write_bytes(start + b"\n1,2\n")
    with refused("invalid-rows", problem="unreadable", match=what):
        read(path)


def test_capital_endings_and_workbooks(tmp_path):
    path = tmp_path / "EXPORT.CSV"
    path.write_text("a\n1\n")
    assert read(path)[1] == {"a": ["1"]}
    with refused("invalid-argument", field="file"):
        read(tmp_path / "u.ods")
    with refused("invalid-rows", problem="folder"):
        read(tmp_path, file_format="csv")


class Foreign:
    """A table of another library, known by Arrow's interface alone."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_any_table_with_arrows_interface():
    frame = pl.DataFrame({"a": ["1", "2"], "b": [1.5, None]})
    expected = {"a": ["1", "2"], "b": [1.5, None]}
    for table in (frame, frame.to_arrow(), Foreign(frame.to_arrow()),
                  frame.to_arrow().to_batches()[0]):  # fmt: skip
        assert read(table)[1] == expected
    with refused("invalid-argument", field="file"):
        read({"a": [1]})


def test_pieces_of_a_large_file_have_their_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK", 1 << 10)
    path = tmp_path / "u.csv"
    rng = np.random.default_rng(3)
    rows, line = [], 2
    expected = []
    for number in range(3_000):
        breaks = int(rng.integers(0, 3)) if rng.random() < 0.1 else 0
        rows.append(f'{number},"x{chr(10) * breaks}"' if breaks else f"{number},x")
        expected.append(line)
        line += 1 + breaks
    path.write_text("id,note\n" + "\n".join(rows))
    opened, found = read(path)
    assert found["id"] == [str(number) for number in range(3_000)]
    assert opened.lines(np.arange(1, 3_001)).tolist() == expected


def test_encodings_are_looked_for_in_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK", 64)
    path = tmp_path / "u.csv"
    path.write_bytes(b"id;city\n" + b"1;Bonn\n" * 50 + "2;Köln\n".encode("cp1252"))
    assert dialect_of(path, delimiter=None, encoding=None) == CsvDialect(";", "cp1252", decimal=",")
    path.write_bytes(b"id;city\n" + b"1;Bonn\n" * 50 + "2;Köln\n".encode())
    assert dialect_of(path, delimiter=None, encoding=None) == CsvDialect(";", decimal=",")
    assert read(path)[1]["city"][-1] == "Köln"


@pytest.mark.parametrize(("encoding", "mark"), [
    ("utf-32-le", b"\xff\xfe\0\0"), ("utf-32-be", b"\0\0\xfe\xff"), ("utf-32-le", b""),
    ("utf-32-be", b""), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b""),
])  # fmt: skip
def test_wide_encodings(tmp_path, encoding, mark):
    path = tmp_path / "u.csv"
    path.write_bytes(mark + "id,city\n1,Köln\n2,東京\n".encode(encoding))
    with Source(path) as source:
        assert source.dialect.encoding == encoding
        [piece] = source.batches(source.columns())
    assert piece.to_pydict() == {"id": ["1", "2"], "city": ["Köln", "東京"]}


@pytest.mark.parametrize("block", [8 << 20, 3])
def test_the_last_byte_of_a_file_may_be_an_accent(tmp_path, monkeypatch, block):
    monkeypatch.setattr(delimited, "BLOCK", block)
    path = tmp_path / "u.csv"
    path.write_bytes("id,x\n1,caf".encode("latin-1") + b"\xe9")
    assert dialect_of(path, delimiter=None, encoding=None).encoding == "cp1252"
    path.write_bytes("id,x\n1,café".encode()[:-1])
    assert dialect_of(path, delimiter=None, encoding=None).encoding == "cp1252"
    path.write_bytes("id,x\n1,é\n2,café".encode()[:-1])
    with pytest.raises(DelimitedError, match=r"1 bytes .*0xc3"):
        dialect_of(path, delimiter=None, encoding=None)


@pytest.mark.parametrize("text", ["a;b,c\n1;2,3\n", "id,x;y\n1,2;3\n4,5;6\n", "a|b\tc\n1|2\t3\n"])
def test_an_ambiguous_delimiter_is_refused(tmp_path, text):
    path = tmp_path / "u.csv"
    path.write_text(text)
    with Source(path) as source, refused("invalid-rows", match="state the delimiter"):
        source.columns()
    stated = "|" if "|" in text else ";"
    with Source(path, delimiter=stated) as source:
        assert len(source.columns()) == 2
