"""Plain blocks of delimited text are read as the cutter of any text reads them."""

import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from seqbatch.campaign.files import csv as delimited
from seqbatch.campaign.files.plain_records import plain_records
from seqbatch.campaign.files.reading import Source
from seqbatch.errors import InvalidFileError

CORPUS = sorted((Path(__file__).parents[2] / "corpus").glob("*.csv*"))
#: Cells of files as people have them.
CELLS = (
    "", "0", "7", "-12.50", "1,5", "north", "Köln", "'=1+1", "'tis", "=1", '"', 'a"b', "x\0y", " ",
    "12345678", "more than eight bytes", "1.234.567", "\u3000", "€", "'",
)  # fmt: skip
ODD = ('"a,b"', '"two\nlines"', '""', '"open', "a\rb", "\r")


def made(chance):
    """Return a random file: mostly rows of as many cells, sometimes odd ones."""
    width, delimiter = chance.randint(1, 5), chance.choice(",,;\t|")
    ending = chance.choice(["\n", "\n", "\r\n", "\r"])
    oddities = chance.choice([0, 0, 0.01, 0.2])

    def odd():
        return chance.random() < oddities

    def cell():
        return chance.choice(ODD if odd() else CELLS).replace(delimiter, "" if not odd() else ";")

    widths = [width + odd() - odd() for _ in range(chance.randint(0, 40))]
    lines = [delimiter.join(f"column {n}" for n in range(width))]
    lines += [delimiter.join(cell() for _ in range(width)) for width in widths]
    ends = (chance.choice(["\n", "\r\n", "\r"]) if odd() else ending for _ in lines)
    text = "".join(line + end for line, end in zip(lines, ends, strict=True))
    text = text if chance.random() < 0.7 else text.rstrip("\r\n")
    encoding = chance.choice(["utf-8"] * 5 + ["utf-8-sig", "utf-16", "cp1252"])
    return text.encode(encoding, errors="replace")


def read(path):
    """Return all that the reader says of a file: cells, lines, problems, or the refusal."""
    try:
        with Source(path) as source:
            columns = source.columns()
            rows = [row for piece in source.batches(columns) for row in piece.to_pylist()]
            lines = source.where(range(1, len(rows) + 1))
            return source.dialect, columns, rows, lines, source.ragged
    except InvalidFileError as error:
        return error.problems


def read_both(path, monkeypatch):
    """Read a file as usual, and again with every block taken for odd."""
    usual = read(path)
    with monkeypatch.context() as patch:
        patch.setattr(delimited, "plain_records", lambda *_: None)
        return usual, read(path)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_corpus_is_read_the_same(path, monkeypatch):
    usual, by_cutter = read_both(path, monkeypatch)
    assert usual == by_cutter


@pytest.mark.parametrize("block", [37, 200, 8 << 20])
def test_random_files_are_read_the_same(block, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK", block)
    plain = []
    noting = partial(_noted, plain)
    path = tmp_path / "random.csv"
    for seed in range(60):
        path.write_bytes(made(random.Random(seed)))
        with monkeypatch.context() as patch:
            patch.setattr(delimited, "plain_records", noting)
            usual, by_cutter = read(path), read_both(path, patch)[1]
        assert usual == by_cutter, seed
    # Both kinds of blocks occur.
    assert {True, False} <= set(plain)


def _noted(found, *given):
    made = plain_records(*given)
    found.append(made is not None)
    return made


@pytest.mark.parametrize("text", [
    b'a,b\n"1",2\n', b"a,b\n1\n", b"a,b\n1,2,3\n", b"a,b\n,\n", b"a,b\n\n", b"a,b\r\n1,2\n",
    b"a,b\n1,2\r\n", b"a,b\n1\r,2\n", b"a,b\r\n1\r,2\r\n", b"a,b\r\n1,\n", b"a,b\r\n,\r\n", b"a,b",
    b"a\n\n", b"a\r\n\r\n",
])  # fmt: skip
def test_what_is_not_plain(text):
    assert plain_records(text, ",", 1, 0) is None


def test_columns_of_a_plain_block():
    text = "a,b,c\r\nlonger than eight bytes,é,\r\n,'=1,12345678\r\nrest".encode()
    found = plain_records(text, ",", 5, 3)
    rows = np.ones(3, dtype=np.bool_)
    assert [found.column(place, rows).to_pylist() for place in range(3)] == [
        ["a", "longer than eight bytes", ""], ["b", "é", "'=1"], ["c", "", "12345678"],
    ]  # fmt: skip
    assert found.record(2) == ["", "'=1", "12345678"]
    assert (found.lines.tolist(), text[found.used :]) == ([5, 6, 7], b"rest")
