"""Read a sheet of an Excel workbook: its header, and columns of text, numbers, dates or yes/no.

A cell keeps its type. A column of one type has that type, as in a Parquet file. A column of several
types becomes text, in the spelling that a CSV file would have.
"""

import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import python_calamine as calamine

from seqbatch.campaign.files import unpacked_size
from seqbatch.campaign.files.excel_cells import CellNotes, xls_notes, xlsx_notes
from seqbatch.campaign.files.header import LOOKED_AT

# ----------------------------------------------------------------------
# Open a workbook, and choose the sheet.


#: The first bytes of an .xlsx file (an archive) and of an .xls file.
ARCHIVE, CONTAINER = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
#: The first bytes of files that are called .xls or .xlsx, but are something else.
OTHERWISE = {
    b"<": (
        "a web page or XML with the name of a workbook, as some shop systems write it; open it in "
        "Excel and save it as .xlsx"
    ),
    b"PAR1": "a Parquet file; state its format (parquet)",
    b"ARROW1": "an Arrow file; state its format (arrow)",
    b"%PDF": "a PDF document",
}  # fmt: skip
#: The advice for a file that is none of these.
AS_TEXT = "not a workbook; if it is text with the name of one, state its format (csv)"
#: The end of the advice for a file with a password.
OPEN = "open it in Excel, remove the password, and save it"


class WorkbookError(ValueError):
    """A workbook that cannot be read.

    Parameters
    ----------
    reason, code
        The reason, for the user, and a code, for programs; "" if the contents are inconsistent.
    """

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code


def _kind(path: str) -> str:
    """Return the kind of a workbook by its first bytes, whatever its name."""
    with Path(path).open("rb") as file:
        first = file.read(512)
    if first.startswith(ARCHIVE):
        return "xlsx"
    if first.startswith(CONTAINER):
        return "xls"
    bare = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    for mark, what in OTHERWISE.items():
        if bare.startswith(mark):
            raise WorkbookError(f"it is {what}", "not-a-workbook")
    raise WorkbookError("the file is empty" if not bare else f"it is {AS_TEXT}", "not-a-workbook")


def _opened(path: str, kind: str) -> Any:
    """Open a workbook that is not too large to be unpacked, and has no password."""
    if kind == "xlsx":
        try:
            with zipfile.ZipFile(path) as archive:
                size = sum(each.file_size for each in archive.infolist())
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise WorkbookError(f"the archive is damaged: {error}") from None
        if why := unpacked_size.too_large_workbook(size, Path(path).stat().st_size):
            raise WorkbookError(why, "too-large")
    try:
        return calamine.CalamineWorkbook.from_filelike(Path(path).open("rb"))
    except calamine.PasswordError:
        raise WorkbookError(f"it has a password; {OPEN}", "password") from None
    except calamine.CalamineError as error:
        if kind == "xls" and b"E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0" in Path(path).read_bytes():
            raise WorkbookError(f"it has a password; {OPEN}", "password") from None
        raise WorkbookError(str(error) or "it is not a workbook") from None


@dataclass(frozen=True)
class _Chosen:
    """The chosen sheet, its name, and the names of the other sheets."""

    sheet: Any
    name: str
    others: list[str]


def _chosen(book: Any, wanted: str | None) -> _Chosen:
    """Return the sheet of a name, or the first visible one with rows below a header, or cells."""
    kind = calamine.SheetTypeEnum.WorkSheet
    sheets = [each for each in book.sheets_metadata if each.typ == kind]
    names = [each.name for each in sheets]
    if wanted is not None and wanted not in names:
        some = ", ".join(repr(name[:60]) for name in names[:10])
        raise WorkbookError(f"the workbook has no sheet {wanted!r}; it has {some}", "no-such-sheet")
    visible = [each.name for each in sheets if each.visible == calamine.SheetVisibleEnum.Visible]
    if wanted is not None:
        return _Chosen(_sheet(book, wanted), wanted, [each for each in visible if each != wanted])
    titles: list[_Chosen] = []
    for name in visible:
        found = _sheet(book, name)
        chosen = _Chosen(found, name, [each for each in visible if each != name])
        if found.height > 1:
            return chosen
        titles += [chosen] if found.height else []
    if titles:
        return titles[0]
    raise WorkbookError("no visible sheet of the workbook has cells", "no-columns")


def _sheet(book: Any, name: str) -> Any:
    try:
        return book.get_sheet_by_name(name)
    except calamine.CalamineError as error:
        raise WorkbookError(f"sheet {name!r}: {error}") from None


# ----------------------------------------------------------------------
# The columns of a sheet. Rows are read a part at a time: Arrow holds cells in less memory.


#: The day 0 of the calendar, for which some programs write 1900-01-01; it comes as a time of day.
DAY_ZERO = time()
#: Numbers have 15 digits in Excel: those of a larger one are rounded.
ROUNDED = 1e15
#: The kinds of cells, and the Arrow type of a part of a column with cells of one kind.
KINDS = {
    int: "number", float: "number", str: "text", bool: "yes", date: "date", datetime: "moment",
    time: "time", timedelta: "time",
}  # fmt: skip
TYPES = {
    "number": pa.float64(), "text": pa.string(), "yes": pa.bool_(), "date": pa.date32(),
    "moment": pa.timestamp("us"),
}  # fmt: skip


class SheetColumn:
    """A column of a sheet, collected in parts: an array, or a list of cells of several kinds."""

    def __init__(self) -> None:
        self._parts: list[pa.Array | list[Any]] = []
        #: The first row with a cell of each kind.
        self._first: dict[str, int] = {}
        #: The first row with a number that Excel has rounded; 0 for none.
        self.rounded = 0
        self._fractions = False
        #: Whether there is a time of day that is not the day 0 of the calendar.
        self._times = False

    def add(self, cells: Sequence[Any], rows: Sequence[int]) -> None:
        """Add the cells of some rows; an empty text is an empty cell."""
        kinds = {KINDS[kind] for kind in set(map(type, cells))}
        if "text" in kinds:
            kinds = {KINDS[type(cell)] for cell in cells if cell != ""}
        for kind in kinds - self._first.keys():
            self._first[kind] = next(
                row
                for row, cell in zip(rows, cells, strict=True)
                if cell != "" and KINDS[type(cell)] == kind
            )
        if "number" in kinds:
            self._note_numbers(cells, rows)
        if "time" in kinds:
            times = (cell for cell in cells if KINDS[type(cell)] == "time")
            self._times = self._times or any(cell != DAY_ZERO for cell in times)
        if kinds <= {"text"}:
            self._parts.append(pa.array(cells, pa.string()))
        elif len(kinds) == 1 and kinds <= TYPES.keys():
            there = [None if cell == "" else cell for cell in cells]
            self._parts.append(pa.array(there, TYPES[kinds.pop()]))
        else:
            self._parts.append(list(cells))

    def _note_numbers(self, cells: Sequence[Any], rows: Sequence[int]) -> None:
        values = np.array([cell if type(cell) in (int, float) else 0.0 for cell in cells])
        self._fractions = self._fractions or bool((values != np.floor(values)).any())
        large = np.flatnonzero(np.abs(values) >= ROUNDED)
        self.rounded = self.rounded or (rows[int(large[0])] if len(large) else 0)

    @property
    def dated(self) -> int:
        """The first row with a date or a time among other cells; 0 for none."""
        dates = [self._first[kind] for kind in ("date", "moment", "time") if kind in self._first]
        return min(dates, default=0) if self._type() is None else 0

    @property
    def shown_otherwise(self) -> bool:
        """Whether the column is text that is not spelled as Excel shows it."""
        return self._type() is None and self._fractions

    def _type(self) -> pa.DataType | None:
        """Return the type of the column; None if it is the text of cells of several kinds."""
        kinds = set(self._first)
        if kinds & {"date", "moment"} and not self._times:
            kinds -= {"time"}
        if kinds == {"number"}:
            return pa.float64() if self._fractions or self.rounded else pa.int64()
        if kinds and kinds <= {"date", "moment"}:
            return TYPES["moment" if "moment" in kinds else "date"]
        if len(kinds) < 2 and kinds <= TYPES.keys():
            return TYPES[next(iter(kinds), "text")]
        return None

    def arrays(self) -> Iterator[pa.Array]:
        """Yield the parts in the column's type."""
        return self._made(_spelled)

    def shown(self) -> Iterator[pa.Array]:
        """Yield the parts as text, spelled as Excel shows it."""
        return self._made(_shown)

    def _made(self, spelled: Callable[[Any], str]) -> Iterator[pa.Array]:
        kind = self._type()
        for part in self._parts:
            if kind is None:
                cells = part if isinstance(part, list) else part.to_pylist()
                yield pa.array(["" if cell is None else spelled(cell) for cell in cells])
            elif isinstance(part, list):
                yield pa.array([_moment(cell) for cell in part], kind)
            elif pa.types.is_string(part.type) and kind != part.type:
                # Nothing but empty cells.
                yield pa.nulls(len(part), kind)
            else:
                yield part.cast(kind)


def _moment(cell: Any) -> datetime | None:
    """Return a date as the start of its day; None for an empty cell."""
    if cell == "" or isinstance(cell, datetime):
        return cell or None
    return datetime.combine(date(1900, 1, 1) if cell == DAY_ZERO else cell, time())


def _shown(cell: Any) -> str:
    """Return the text of a cell, in the spelling of programs.

    >>> [_shown(cell) for cell in (12.0, 12.5, True, date(2024, 2, 29), timedelta(hours=36))]
    ['12', '12.5', 'TRUE', '2024-02-29', '36:00:00']
    """
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, timedelta):
        minutes, seconds = divmod(int(cell.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ")
    if isinstance(cell, date | time):
        return cell.isoformat()
    whole = abs(cell) < ROUNDED and float(cell).is_integer()
    return str(int(cell)) if whole else repr(cell)


def _spelled(cell: Any) -> str:
    """Return the text of a cell, so that no number format can misread a fraction.

    Among texts such as 1.234,50 the number 234.567 would look like a large whole number. With an
    exponent instead of a dot it is the same number in every format.

    >>> _spelled(234.567), _spelled(-0.5), _spelled(1.5e-7), _spelled(12.0), _spelled("1.5")
    ('234567e-3', '-5e-1', '15e-8', '12', '1.5')
    """
    shown = _shown(cell)
    if not isinstance(cell, float) or "." not in shown:
        return shown
    mantissa, _, exponent = shown.partition("e")
    whole, _, decimals = mantissa.partition(".")
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    return f"{sign}{(digits + decimals).lstrip('0')}e{int(exponent or 0) - len(decimals)}"


# ----------------------------------------------------------------------
# Read a sheet.


#: The most rows and cells of a part.
PART, CELLS = 65_536, 2_000_000
#: The column of row numbers, and the mark before the name of a column as Excel shows it.
ROWS, AS_SHOWN = "", "\0"
#: A row of a sheet: its number, counted from 1, and its cells.
Row = tuple[int, list[Any]]


def sheet_pieces(
    path: str, sheet: str | None, skip_rows: int
) -> Generator[pa.RecordBatch, None, dict[str, Any]]:
    """Yield the rows of a sheet in pieces, with their row numbers; return what else it says.

    Parameters
    ----------
    path
        The file.
    sheet
        The name of the sheet; None for the first visible one with cells.
    skip_rows
        The number of rows above the header.
    """
    kind = _kind(path)
    chosen = _chosen(_opened(path, kind), sheet)
    notes = (xlsx_notes if kind == "xlsx" else xls_notes)(path, chosen.name)
    if notes.unplaced:
        raise WorkbookError(
            f"a cell holds the error {notes.unplaced[0][:20]}, but the file does not say which; "
            "open it in Excel, correct the cell, and save it",
            "error-cell",
        )
    rows = _rows(chosen.sheet, notes, skip_rows)
    names = [_shown(cell).strip() for cell in next(rows, (0, []))[1]]
    said: dict[str, Any] = {"sheet": chosen.name, "others": chosen.others, "columns": names}
    columns, numbers = [SheetColumn() for _ in names], list[list[int]]()
    while part := list(islice(rows, max(1, min(PART, CELLS // max(len(names), 1))))):
        if (unnamed := _unnamed(names, part)) is not None:
            return {**said, "unnamed": unnamed}
        numbers.append([number for number, _ in part])
        cells = zip(*(own for _, own in part), strict=True)
        for column, own in zip(columns, cells, strict=True):
            column.add(own, numbers[-1])
    named = {name: own for name, own in zip(names, columns, strict=True) if name}
    yield from _pieces(named, numbers)
    left = (chosen.sheet.start or (0, 0))[1]
    places = {left + place: name for place, name in enumerate(names) if name}
    return {
        **said,
        "hollow": {
            places[column]: row + 1 for row, column in reversed(notes.hollow) if column in places
        },
        "rounded": {name: own.rounded for name, own in named.items() if own.rounded},
        "dated": {name: own.dated for name, own in named.items() if own.dated},
    }


def _rows(sheet: Any, notes: CellNotes, skip_rows: int) -> Iterator[Row]:
    """Yield the rows that have cells, with errors as text and numbers as a format shows them."""
    left = (sheet.start or (0, 0))[1]
    noted = notes.errors.keys() | notes.zeros.keys()
    for number, cells in enumerate(sheet.iter_rows()):
        if number in noted:
            for place, cell in enumerate(cells):
                width = notes.zeros.get(number, {}).get(left + place, 0)
                shown = _padded(cell, width) if width else cell
                cells[place] = notes.errors.get(number, {}).get(left + place, shown)
        if number >= skip_rows and cells.count("") < len(cells):
            yield number + 1, cells


def _padded(cell: Any, width: int) -> Any:
    """Return a whole number with leading zeros, as a text; other cells unchanged."""
    whole = type(cell) in (int, float) and 0 <= cell < ROUNDED and float(cell).is_integer()
    return str(int(cell)).zfill(width) if whole else cell


def _unnamed(names: list[str], part: list[Row]) -> dict[str, Any] | None:
    """Return the first cell in a column without a name, as its column and the rows from its own on.

    The first column may lack a name.
    """
    for place in (place for place, name in enumerate(names) if place and not name):
        for first, (_, cells) in enumerate(part):
            if cells[place] != "":
                below = part[first : first + LOOKED_AT]
                shown = [(number, [_shown(cell) for cell in own]) for number, own in below]
                return {"place": place, "rows": shown}
    return None


def _pieces(
    columns: Mapping[str, SheetColumn], numbers: list[list[int]]
) -> Iterator[pa.RecordBatch]:
    """Yield the parts of the columns together."""
    shown = {AS_SHOWN + name: own for name, own in columns.items() if own.shown_otherwise}
    names = [ROWS, *columns, *shown]
    rows = (pa.array(part, pa.int64()) for part in numbers)
    spelled = [own.arrays() for own in columns.values()]
    for arrays in zip(rows, *spelled, *(own.shown() for own in shown.values()), strict=True):
        yield pa.record_batch(list(arrays), names=names)
