"""Find cells of an Excel file that its reader returns as empty, or without their leading zeros.

The reader returns nothing for an error such as #REF! and for a formula that was never computed, and
it does not return the format that shows the number 17 as 00017. This file finds these cells in the
file itself: in the XML of an .xlsx file, or in the records of an .xls file.
"""

import re
import struct
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO
from xml.etree import ElementTree

#: A format that shows leading zeros, such as 00000.
ZEROS = re.compile(r"0{2,15}")


@dataclass(frozen=True)
class CellNotes:
    """What the reader does not say about some cells; rows and columns are counted from 0.

    Parameters
    ----------
    errors
        The error in each cell that has one, by row and column.
    hollow
        Cells with a formula but without its result.
    zeros
        The number of digits that a format shows, by row and column.
    unplaced
        Errors in cells without an address, which some programs leave out.
    """

    errors: dict[int, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    hollow: list[tuple[int, int]] = field(default_factory=list)
    zeros: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    unplaced: list[str] = field(default_factory=list)


# ----------------------------------------------------------------------
# An .xlsx file: an archive of XML. Sheets have hundreds of megabytes of it, so they are searched
# for the few cells of interest instead of being parsed.


#: The bytes of a sheet that are searched at once.
BLOCK = 1 << 22
#: The name of an element, with any prefix.
_NAME = rb"(?:[\w.-]+:)?"
_ERROR = re.compile(
    rb"<" + _NAME + rb"c\s([^>]*?\bt=[\"']e[\"'][^>]*)>"
    rb"(?:(?!</" + _NAME + rb"c>).)*?<" + _NAME + rb"v[^>]*>([^<]*)<",
    re.DOTALL,
)  # fmt: skip
_FORMULA = re.compile(
    rb"<" + _NAME + rb"c\s([^>]*)>\s*"
    rb"<" + _NAME + rb"f\b(?:[^>]*/>|[^>]*[^/>]>[^<]*</" + _NAME + rb"f>|>[^<]*</" + _NAME + rb"f>)"
    rb"\s*(<" + _NAME + rb"v\s*/>|<" + _NAME + rb"v[^>]*>\s*</" + _NAME + rb"v>)?\s*"
    rb"</" + _NAME + rb"c>"
)  # fmt: skip
_PLACE = re.compile(rb"\br=[\"']([A-Z]{1,3})([0-9]{1,7})[\"']")
_STYLE = re.compile(rb"\bs=[\"']([0-9]+)[\"']")
_TEXT = re.compile(rb"\bt=[\"']str[\"']")


def xlsx_notes(path: str, sheet: str) -> CellNotes:
    """Return the notes on the cells of a sheet of an .xlsx file."""
    found = CellNotes()
    with zipfile.ZipFile(path) as archive:
        part = _parts(archive).get(sheet)
        if part is None:
            return found
        widths = _padded(archive)
        wanted = b"|".join(str(style).encode() for style in widths)
        styled = re.compile(
            rb"<" + _NAME + rb"c\s([^>]*?\bs=[\"'](?:" + wanted + rb")[\"'][^>]*)>"
        )  # fmt: skip
        with archive.open(part) as file:
            for text in _rows(file):
                _search(text, found)
                for cell in styled.finditer(text) if widths else ():
                    style = _STYLE.search(cell[1])
                    assert style is not None
                    for row, column in _places(cell[1]):
                        found.zeros[row][column] = widths[int(style[1])]
    return found


def _search(text: bytes, found: CellNotes) -> None:
    """Add the errors and uncomputed formulas of some rows."""
    # Most sheets have neither, and looking for a few bytes is fast.
    if b't="e"' in text or b"t='e'" in text:
        for cell in _ERROR.finditer(text):
            error, places = cell[2].decode(errors="replace"), list(_places(cell[1]))
            for row, column in places:
                found.errors[row][column] = error
            found.unplaced.extend([] if places else [error])
    if b"<f" in text or b":f" in text:
        for cell in _FORMULA.finditer(text):
            # The result of a formula may be an empty text.
            if cell[2] is None or not _TEXT.search(cell[1]):
                found.hollow.extend(_places(cell[1]))


def _rows(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the XML of a sheet in pieces that end with a row."""
    rest = b""
    while block := file.read(BLOCK):
        text = rest + block
        end = text.rfind(b"row>") + 4
        if end < 4:
            rest = text
            continue
        yield text[:end]
        rest = text[end:]
    yield rest


def _places(cell: bytes) -> Iterator[tuple[int, int]]:
    """Yield the row and column of a cell, from its attributes."""
    if found := _PLACE.search(cell):
        yield int(found[2]) - 1, column_number(found[1].decode())


def column_number(letters: str) -> int:
    """Return the number of a column, counted from 0.

    >>> column_number("A"), column_number("AB")
    (0, 27)
    """
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _parts(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the files of an archive that hold the sheets, by the sheets' names."""
    there = set(archive.namelist())
    book = next((name for name in there if name.endswith("xl/workbook.xml")), "")
    beside = PurePosixPath(book)
    links = str(beside.parent / "_rels" / f"{beside.name}.rels")
    if not book or links not in there:
        return {}
    targets = {
        link.get("Id"): link.get("Target", "")
        for link in ElementTree.fromstring(archive.read(links))
    }
    found = {}
    for element in ElementTree.fromstring(archive.read(book)).iter():
        if element.tag.endswith("}sheet"):
            link = next((own for key, own in element.attrib.items() if key.endswith("}id")), None)
            target = targets.get(link, "")
            part = target[1:] if target.startswith("/") else str(beside.parent / target)
            if part in there:
                found[element.get("name", "")] = part
    return found


def _padded(archive: zipfile.ZipFile) -> dict[int, int]:
    """Return the styles that show leading zeros, each with its number of digits."""
    part = next((name for name in archive.namelist() if name.endswith("xl/styles.xml")), None)
    if part is None:
        return {}
    root = ElementTree.fromstring(archive.read(part))
    codes = {
        element.get("numFmtId"): len(element.get("formatCode", ""))
        for element in root.iter()
        if element.tag.endswith("}numFmt") and ZEROS.fullmatch(element.get("formatCode", ""))
    }
    styles = next((element for element in root.iter() if element.tag.endswith("}cellXfs")), ())
    return {
        place: codes[style.get("numFmtId")]
        for place, style in enumerate(styles)
        if style.get("numFmtId") in codes
    }


# ----------------------------------------------------------------------
# An .xls file: a container (like a small disk) with a stream of records.


#: Errors by their codes in a record.
ERRORS = {
    0x00: "#NULL!", 0x07: "#DIV/0!", 0x0F: "#VALUE!", 0x17: "#REF!", 0x1D: "#NAME?", 0x24: "#NUM!",
    0x2A: "#N/A",
}  # fmt: skip
#: The kinds of records that are used, by their numbers.
FORMULA, EOF, BOUNDSHEET, MULRK, XF = 0x06, 0x0A, 0x85, 0xBD, 0xE0
NUMBER, BOOLERR, RK, FORMAT = 0x203, 0x205, 0x27E, 0x41E
#: The last sectors that a chain may name; larger numbers mark its end.
LAST_SECTOR = 0xFFFF_FFFA


def xls_notes(path: str, sheet: str) -> CellNotes:
    """Return the notes on the cells of a sheet of an .xls file."""
    found = CellNotes()
    # The reader has read the file before; a container that only this code cannot follow is sound.
    with suppress(struct.error, IndexError):
        _add_notes(_stream(Path(path).read_bytes()), sheet, found)
    return found


def _add_notes(book: bytes, sheet: str, found: CellNotes) -> None:
    start, codes, styles = None, dict[int, int](), list[int]()
    for kind, content in _records(book, 0):
        if kind == BOUNDSHEET and _short_name(content) == sheet:
            start = struct.unpack_from("<I", content)[0]
        elif kind == FORMAT and len(content) > 5:
            code = _text(content, 2)
            if ZEROS.fullmatch(code):
                codes[struct.unpack_from("<H", content)[0]] = len(code)
        elif kind == XF:
            styles.append(struct.unpack_from("<H", content, 2)[0])
    if start is not None:
        widths = {place: codes[form] for place, form in enumerate(styles) if form in codes}
        for kind, content in _records(book, start):
            _note(kind, content, widths, found)


def _note(kind: int, content: bytes, widths: dict[int, int], found: CellNotes) -> None:
    """Add what one record says about a cell."""
    if kind not in (FORMULA, MULRK, NUMBER, BOOLERR, RK):
        return
    row, column, style = struct.unpack_from("<HHH", content)
    if kind == BOOLERR and content[7]:
        found.errors[row][column] = ERRORS.get(content[6], "#ERROR!")
    elif kind == FORMULA and content[12:14] == b"\xff\xff" and content[6] == 2:
        found.errors[row][column] = ERRORS.get(content[8], "#ERROR!")
    elif kind == MULRK:
        for place in range((len(content) - 6) // 6):
            (style,) = struct.unpack_from("<H", content, 4 + 6 * place)
            if style in widths:
                found.zeros[row][column + place] = widths[style]
    elif style in widths:
        found.zeros[row][column] = widths[style]


def _records(book: bytes, place: int) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a part of a stream, each with its number, until the part ends."""
    deep = 0
    while place + 4 <= len(book):
        kind, length = struct.unpack_from("<HH", book, place)
        yield kind, book[place + 4 : place + 4 + length]
        place += 4 + length
        # Charts are parts within a part.
        deep += (kind == 0x809) - (kind == EOF)
        if kind == EOF and deep <= 0:
            return


def _short_name(content: bytes) -> str:
    """Return the name of a sheet, whose length has one byte."""
    length, wide = content[6], content[7] & 1
    text = content[8 : 8 + (length << wide)]
    return text.decode("utf-16-le" if wide else "latin-1", errors="replace")


def _text(content: bytes, place: int) -> str:
    """Return a text whose length has two bytes."""
    length, wide = struct.unpack_from("<H", content, place)[0], content[place + 2] & 1
    text = content[place + 3 : place + 3 + (length << wide)]
    return text.decode("utf-16-le" if wide else "latin-1", errors="replace")


def _stream(content: bytes) -> bytes:
    """Return the stream of the workbook in a container; empty if there is none."""
    size = 1 << struct.unpack_from("<H", content, 30)[0]
    small = 1 << struct.unpack_from("<H", content, 32)[0]
    folder, least, small_table = struct.unpack_from("<I4xII", content, 48)

    def sectors(numbers: Iterator[int]) -> bytes:
        return b"".join(content[size * (n + 1) : size * (n + 2)] for n in numbers)

    table = _numbers(sectors(_table_sectors(content, size)))
    entries = sectors(_chain(table, folder))
    inner = b""
    for place in range(0, len(entries) - 127, 128):
        entry = entries[place : place + 128]
        name = entry[: max(struct.unpack_from("<H", entry, 64)[0] - 2, 0)].decode(
            "utf-16-le", errors="ignore"
        )
        first, length = struct.unpack_from("<II", entry, 116)
        if place == 0:
            inner = sectors(_chain(table, first))
        elif name in ("Workbook", "Book") and length >= least:
            return sectors(_chain(table, first))[:length]
        elif name in ("Workbook", "Book"):
            own = _numbers(sectors(_chain(table, small_table)))
            places = _chain(own, first)
            return b"".join(inner[small * n : small * (n + 1)] for n in places)[:length]
    return b""


def _table_sectors(content: bytes, size: int) -> Iterator[int]:
    """Yield the sectors that hold the table of sectors."""
    first, _ = struct.unpack_from("<II", content, 68)
    numbers = struct.unpack_from("<109I", content, 76)
    seen: set[int] = set()
    while True:
        yield from (number for number in numbers if number <= LAST_SECTOR)
        if first > LAST_SECTOR or first in seen:
            return
        seen.add(first)
        *numbers_, first = _numbers(content[size * (first + 1) : size * (first + 2)])
        numbers = tuple(numbers_)


def _numbers(content: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(content) // 4}I", content[: len(content) // 4 * 4])


def _chain(table: tuple[int, ...], sector: int) -> Iterator[int]:
    """Yield the sectors of a chain; a damaged one ends where it repeats or leaves the table."""
    for _ in range(len(table)):
        if sector >= len(table):
            return
        yield sector
        sector = table[sector]
