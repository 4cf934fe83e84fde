"""Read delimited text: detect encoding and delimiter, split records, escape formulas."""

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files import unpacked_size
from seqbatch.campaign.files.header import HeaderError, late_header
from seqbatch.campaign.files.plain_records import PlainRecords, plain_records
from seqbatch.core import kernels
from seqbatch.core.arrays import AnyArray, Bools, Integers
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# Escape text that a spreadsheet would run as a formula, and restore it when reading.
#
# A spreadsheet runs a cell that begins with =, +, -, @, a tab or a line break, unless the cell is
# a number. Such text is written with an apostrophe in front, and so is text that already begins
# with apostrophes followed by one of these characters. Reading removes exactly one apostrophe,
# which restores every text exactly.


#: In some languages spreadsheets treat the full-width forms like the plain ones.
FORMULA = r"^'*[=+\-@\t\r\n＝＋－＠]"
MARKED = r"^'+[=+\-@\t\r\n＝＋－＠]"
NUMBER = r"^'*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
#: A number with a decimal comma, which no spreadsheet runs.
COMMA_NUMBER = r"^[+-][0-9]{1,3}([. ]?[0-9]{3})*,[0-9]+$"


def marked(table: pa.Table) -> pa.Table:
    """Return a table whose text and column names a spreadsheet shows instead of running.

    >>> marked(pa.table({"=a": ["=1+1", "-5", "-1.234,5", "'@x", "plain"]})).to_pydict()
    {"'=a": ["'=1+1", '-5', '-1.234,5', "''@x", 'plain']}
    """
    columns = [_marked(column) for column in table.columns]
    return pa.table(columns, names=[_marked_name(name) for name in table.column_names])


def unmarked(column: Any) -> Any:
    """Return a column of text as it was before :func:`marked`.

    >>> unmarked(pa.array(["'=1+1", "-5", "''@x", "'tis"])).to_pylist()
    ['=1+1', '-5', "'@x", "'tis"]
    """
    # Few files have such an apostrophe, and checking for one is fast.
    if not pc.any(pc.starts_with(column, "'")).as_py():
        return column
    chosen = _matches(column, MARKED)
    return pc.if_else(chosen, pc.utf8_slice_codeunits(column, 1), column)


def unmarked_name(name: str) -> str:
    """Return a column's name as it was before :func:`marked`."""
    return name[1:] if re.search(MARKED, name) and not _numeric(name) else name


def _marked(column: Any) -> Any:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    chosen = _matches(column, FORMULA)
    if not pc.any(chosen).as_py():
        return column
    chosen = pc.and_not(chosen, pc.match_substring_regex(column, COMMA_NUMBER))
    apostrophe = pa.scalar("'", column.type)
    nothing = pa.scalar("", column.type)
    return pc.if_else(chosen, pc.binary_join_element_wise(apostrophe, column, nothing), column)


def _matches(column: Any, pattern: str) -> Any:
    found = pc.match_substring_regex(column, pattern)
    # Usually nothing matches, and there are no numbers to exclude.
    if not pc.any(found).as_py():
        return found
    return pc.and_not(found, pc.match_substring_regex(column, NUMBER))


def _marked_name(name: str) -> str:
    return f"'{name}" if re.search(FORMULA, name) and not _numeric(name) else name


def _numeric(name: str) -> bool:
    # Python's $ would also match before a final line break.
    return re.search(NUMBER.replace("$", r"\Z"), name) is not None


# ----------------------------------------------------------------------
# Split delimited text into records and cells, block by block, with the line of each record.
#
# Quotes, quoted line breaks and all three line endings are handled as in spreadsheets and Python's
# csv module; plain blocks, without any of this, are split faster. Nothing is read ahead: Arrow's
# CSV reader reads ahead on background threads, which outlive a refused file and have crashed the
# process at exit.


#: The number of bytes read at once; no row may be longer.
BLOCK = 8 << 20


class DelimitedError(ValueError):
    """Text that cannot be split into cells, or is ambiguous.

    Parameters
    ----------
    reason
        The reason in words.
    delimiters
        The delimiters that would all split it.
    """

    def __init__(self, reason: str, delimiters: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.delimiters = tuple(delimiters)


@dataclass(frozen=True, eq=False)
class Records:
    """Some records of a file.

    Parameters
    ----------
    data
        The bytes of the records.
    starts, ends, quoted
        The position of each cell, and whether it is in quotes.
    firsts
        The index of each record's first cell, followed by the number of cells.
    lines
        The line on which each record begins.
    """

    data: AnyArray
    starts: AnyArray
    ends: AnyArray
    quoted: Bools
    firsts: AnyArray
    lines: Integers

    #: Whether a text may begin with an apostrophe.
    apostrophes: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def widths(self) -> AnyArray:
        """The number of cells in each record."""
        return np.diff(self.firsts)

    def fits(self, width: int) -> Bools:
        """Return which records have `width` cells, ignoring empty cells at the end."""
        widths = self.widths
        fits: Bools = widths == width
        if (longer := np.flatnonzero(widths > width)).size:
            lengths = np.concatenate([[0], np.cumsum(self.ends - self.starts)])
            surplus = lengths[self.firsts[longer + 1]] - lengths[self.firsts[longer] + width]
            fits[longer] = surplus == 0
        return fits

    def column(self, place: int, rows: Bools) -> Any:
        """Return the text of one cell of each of these rows."""
        return self.cells(self.firsts[:-1][rows] + place)

    def cells(self, chosen: AnyArray) -> Any:
        """Return the text of these cells."""
        out = np.empty(int((self.ends[chosen] - self.starts[chosen]).sum()), dtype=np.uint8)
        offsets = np.empty(len(chosen) + 1, dtype=np.int32)
        size = kernels.texts.copy_cells(
            self.data, self.starts, self.ends, self.quoted, chosen, out, offsets
        )
        buffers = pa.py_buffer(offsets), pa.py_buffer(out[:size])
        return pa.StringArray.from_buffers(len(chosen), *buffers)

    def record(self, number: int) -> list[str]:
        """Return the cells of one record."""
        cells = np.arange(self.firsts[number], self.firsts[number + 1], dtype=np.int32)
        texts: list[str] = self.cells(cells).to_pylist()
        return texts


def records(
    blocks: Iterable[bytes], delimiter: str, *, line: int = 1
) -> Iterator[Records | PlainRecords]:
    r"""Yield the records of UTF-8 text that comes in blocks and begins on line `line`.

    >>> for found in records([b'a,b\n"x', b'\ny",2\n3,4'], ","):
    ...     print([found.record(row) for row in range(len(found))], found.lines.tolist())
    [['a', 'b']] [1]
    [['x\ny', '2'], ['3', '4']] [2, 4]
    """
    rest, width = b"", 0
    found: Records | PlainRecords | None
    for block, final in _with_end(blocks):
        text = rest + block
        found = None if final else plain_records(text, delimiter, line, width)
        if found is None:
            found, used, line = _cut(text, delimiter, line, final=final)
        else:
            used, line = found.used, line + len(found)
        rest = text[used:]
        if len(found):
            width = width or int(found.widths[0])
            yield found
        if len(rest) >= BLOCK:
            rule = f"a row must have fewer than {BLOCK:,} bytes"
            raise DelimitedError(f"{rule}; a quote may be left open on line {line:,}")


def _with_end(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each block, and whether it is the last one."""
    waiting = b""
    for block in blocks:
        yield waiting, False
        waiting = block
    yield waiting, True


def _cut(text: bytes, delimiter: str, line: int, *, final: bool) -> tuple[Records, int, int]:
    """Return the complete records of a text, the bytes used, and the line of the next record."""
    data = np.frombuffer(text, dtype=np.uint8)
    ends_of_lines = text.count(b"\n") + text.count(b"\r") + 1
    most = ends_of_lines + text.count(delimiter.encode())
    starts, ends = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    quoted = np.empty(most, dtype=np.bool_)
    firsts = np.empty(ends_of_lines + 1, dtype=np.int32)
    lines = np.empty(ends_of_lines, dtype=np.int64)
    count, cells, used, line, unclosed = kernels.texts.split_cells(
        data, ord(delimiter), final, line, starts, ends, quoted, firsts, lines
    )
    if unclosed:
        raise DelimitedError(f"a quote is left open in the row that begins on line {line:,}")
    firsts[count] = cells
    found = Records(
        data, starts[:cells], ends[:cells], quoted[:cells], firsts[: count + 1], lines[:count]
    )
    return found, used, line


def record_widths(text: str, delimiter: str, *, final: bool) -> tuple[list[int], list[int]]:
    """Return the number of cells of each record of a text, and the line on which it begins."""
    try:
        found, _, _ = _cut(text.encode(), delimiter, 1, final=final)
    except DelimitedError:
        # A quote is not closed: use only the records before it.
        found, _, _ = _cut(text.encode(), delimiter, 1, final=False)
    return found.widths.tolist(), found.lines.tolist()


# ----------------------------------------------------------------------
# The dialect of a delimited text file: its encoding and its delimiter.
#
# Both are detected unless they are stated, and both are reported to the user. An ambiguous file is
# refused instead of guessed.


#: Delimiters and their names.
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
#: Encodings by their names in messages.
ENCODINGS = {
    "utf-8": "UTF-8", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16", "cp1252": "Windows-1252",
    "latin-1": "Latin-1", "utf-32-le": "UTF-32", "utf-32-be": "UTF-32",
}  # fmt: skip
#: Byte order marks; that of UTF-32 begins like that of UTF-16.
MARKS = {
    b"\xff\xfe\0\0": "utf-32-le", b"\0\0\xfe\xff": "utf-32-be", b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be",
}  # fmt: skip
#: Bytes that Windows-1252 leaves undefined; Latin-1 does not.
UNDEFINED = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D])
#: The number of characters in which the delimiter is searched.
LOOKED_AT = 1 << 18
#: The line that spreadsheets write before the header to state the delimiter.
STATED = re.compile(r"\Asep=([\t -~])\r?\n", re.IGNORECASE)
#: Numbers with a decimal comma and with a decimal dot, with or without a unit; 1.234 may be either.
DECIMALS = (
    r"^[^\d\pL]*\d[\d.' ]*,(\d{1,2}|\d{4,})([^\d.,]{0,5})$",
    r"^[^\d\pL]*\d[\d,' ]*\.(\d{1,2}|\d{4,})([^\d.,]{0,5})$",
)
#: The first bytes of files in other formats, whatever their names.
OTHERWISE = {
    b"PK\x03\x04": "an Excel workbook or another archive; state its format (xlsx)",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; state its format (xls)",
    b"PAR1": "a Parquet file; state its format (parquet)",
    b"ARROW1": "an Arrow file; state its format (arrow)",
    b"%PDF": "a PDF document",
}


@dataclass(frozen=True)
class CsvDialect:
    """The encoding and the delimiter of a file.

    Parameters
    ----------
    delimiter
        The character between cells.
    encoding
        The encoding, by a name that Python knows.
    before, header_line
        The number of bytes before the header, in UTF-8, and the line of the header.
    mark
        Whether the file begins with a byte order mark.
    decimal
        The decimal mark of its numbers.
    stated
        The line before the header that states the delimiter, if any.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    before: int = 0
    header_line: int = 1
    mark: bool = False
    decimal: str = "."
    stated: str = ""

    def __str__(self) -> str:
        between = DELIMITERS.get(self.delimiter, repr(self.delimiter))
        return f"{between}-separated, {ENCODINGS.get(self.encoding, self.encoding)}"

    @property
    def opening(self) -> bytes:
        """The bytes before the header: a byte order mark, and the line with the delimiter."""
        mark = (
            next(own for own, name in MARKS.items() if name == self.encoding) if self.mark else b""
        )
        return mark + self.stated.encode(self.encoding)

    @property
    def usual(self) -> bool:
        """Whether the dialect is too common to mention."""
        return (self.delimiter, self.encoding) == (",", "utf-8")


def stated_delimiter(value: str) -> str:
    r"""Return a delimiter that the user stated, either itself or by name.

    >>> stated_delimiter("tab"), stated_delimiter(";")
    ('\t', ';')
    """
    named = {name: mark for mark, name in DELIMITERS.items()} | {r"\t": "\t"}
    mark = named.get(value.lower(), value)
    if len(mark) != 1 or not mark.isascii() or mark in '"\r\n' or mark.isalnum():
        rule = "one ASCII character other than a letter, digit or quote, or one of"
        raise InvalidArgumentError("delimiter", f"{rule} {', '.join(DELIMITERS.values())}", value)
    return mark


def stated_encoding(value: str) -> str:
    """Return an encoding that the user stated, by Python's name for it."""
    try:
        name = codecs.lookup(value).name
        "".encode(name)
    except LookupError:
        raise InvalidArgumentError(
            "encoding", "an encoding that Python knows, such as utf-8, utf-16 or cp1252", value
        ) from None
    return {"utf_8_sig": "utf-8", "utf-8-sig": "utf-8", "iso8859-1": "latin-1"}.get(name, name)


def dialect_of(
    path: Path, *, delimiter: str | None, encoding: str | None, skip_rows: int = 0
) -> CsvDialect:
    """Return the dialect of a file, detecting whatever was not stated.

    Parameters
    ----------
    path
        The file.
    delimiter, encoding
        What was stated.
    skip_rows
        The number of lines above the header.
    """
    first = _refuse_otherwise(path)
    encoding = stated_encoding(encoding) if encoding else _encoding(path)
    text = ""
    for block in decoded(path, encoding):
        text += block.decode("utf-8")
        if len(text) > LOOKED_AT:
            break
    found = STATED.match(text)
    skipped = max(skip_rows, 1 if found else 0)
    above = _first_lines(text, skipped)
    below = text[len(above) :]
    if delimiter is not None:
        delimiter = stated_delimiter(delimiter)
    elif found:
        delimiter = found[1]
    else:
        delimiter = _delimiter(below, skipped)
    return CsvDialect(
        delimiter,
        encoding,
        before=len(above.encode()),
        header_line=skipped + 1,
        mark=any(first.startswith(mark) for mark in MARKS),
        decimal=_decimal(below, delimiter),
        stated=found[0] if found else "",
    )


def _first_lines(text: str, count: int) -> str:
    r"""Return the first lines of a text, with their ends.

    >>> _first_lines("a\r\nb\nc", 2)
    'a\r\nb\n'
    """
    ends = [0, *(end.end() for end in islice(re.finditer("\r\n|\r|\n", text), count))]
    return text[: ends[-1]] if len(ends) > count else text


def _decimal(text: str, delimiter: str) -> str:
    r"""Return the decimal mark of most numbers; if there are none, the usual one.

    >>> _decimal("id;spend\na;12,5\nb;3", ";"), _decimal("id;spend\na;12.5\nb;3", ";")
    (',', '.')
    >>> _decimal("id;age\na;12", ";"), _decimal("id,age\na,12", ",")
    (',', '.')
    """
    # Most texts need no look at their cells: no cell has the other mark.
    other = "," if delimiter != ";" else "."
    if ('"' if other == delimiter else other) not in text:
        return "." if other == "," else ","
    found, _, _ = _cut(f"{text}\n".encode(), delimiter, 1, final=False)
    cells = found.cells(np.arange(len(found.starts), dtype=np.int32))
    commas, dots = (
        pc.sum(pc.match_substring_regex(cells, pattern)).as_py() or 0 for pattern in DECIMALS
    )
    if commas == dots:
        return "," if delimiter == ";" else "."
    return "," if commas > dots else "."


def decoded(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield a file block by block, converted to UTF-8 without a byte order mark."""
    decoder = codecs.getincrementaldecoder(encoding)()
    first = True
    for block in _blocks(path):
        plain = encoding == "utf-8" and block.isascii() and not decoder.getstate()[0]
        text = block if plain else decoder.decode(block).encode("utf-8")
        if first and text:
            text, first = text.removeprefix(codecs.BOM_UTF8), False
        yield text
    yield decoder.decode(b"", final=True).encode("utf-8")


def _blocks(path: Path) -> Iterator[bytes]:
    size, read = path.stat().st_size, 0
    with pa.input_stream(str(path)) as stream:
        while block := stream.read(BLOCK):
            read += len(block)
            if why := unpacked_size.too_much_decoded(read, size):
                raise DelimitedError(why)
            yield block


def _refuse_otherwise(path: Path) -> bytes:
    """Return the first bytes of a text file; refuse a file in another format."""
    first = next(_blocks(path), b"")[:8]
    for mark, what in OTHERWISE.items():
        if first.startswith(mark):
            raise DelimitedError(f"it is {what}")
    return first


def _encoding(path: Path) -> str:
    """Detect a file's encoding: from its byte order mark, its zero bytes, or its contents."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    first, genuine = True, 0
    # An empty block at the end: the last character may be cut off.
    for block in chain(_blocks(path), [b""]):
        if first:
            for mark, name in MARKS.items():
                if block.startswith(mark):
                    return name
            if wide := _wide(block[:4096]):
                return wide
            first = False
        try:
            if not block or not block.isascii() or decoder.getstate()[0]:
                text = decoder.decode(block, final=not block)
                genuine += sum(not c.isascii() for c in text[:LOOKED_AT])
        except UnicodeDecodeError as error:
            return _single_byte(path, error, genuine)
    return "utf-8"


def _wide(start: bytes) -> str | None:
    """Detect UTF-32 and UTF-16 without a byte order mark: most bytes are zero, at fixed places."""
    fours = len(start) // 4
    zeros = [start[place : 4 * fours : 4].count(0) for place in range(4)]
    if fours and zeros[3] == fours and zeros[2] > 0.5 * fours and zeros[0] < 0.1 * fours:
        return "utf-32-le"
    if fours and zeros[0] == fours and zeros[1] > 0.5 * fours and zeros[3] < 0.1 * fours:
        return "utf-32-be"
    pairs = len(start) // 2
    low, high = start[0 : 2 * pairs : 2].count(0), start[1 : 2 * pairs : 2].count(0)
    if pairs and high > 0.5 * pairs and low < 0.1 * pairs:
        return "utf-16-le"
    return "utf-16-be" if pairs and low > 0.5 * pairs and high < 0.1 * pairs else None


def _single_byte(path: Path, error: UnicodeDecodeError, genuine: int) -> str:
    """Return the single-byte encoding of a file that is not valid UTF-8.

    Valid multi-byte UTF-8 characters hardly ever arise by chance: a file that contains some is
    damaged UTF-8, and any other encoding would garble its names.
    """
    text = error.object.decode("utf-8", errors="surrogateescape")
    wrong = sum("\udc80" <= character <= "\udcff" for character in text)
    genuine += sum(not c.isascii() for c in text) - wrong
    if genuine >= max(wrong, 1):
        byte = error.object[error.start]
        raise DelimitedError(
            f"it is UTF-8 except for {wrong:,} bytes (the first is 0x{byte:02x}); save it as "
            "UTF-8 again, or state its encoding"
        )
    undefined = any(mark in part for part in _blocks(path) for mark in UNDEFINED)
    return "latin-1" if undefined else "cp1252"


def _delimiter(text: str, skipped: int) -> str:
    """Detect the delimiter: the one that gives most rows as many cells as the header.

    Parameters
    ----------
    text
        The text that begins with the header.
    skipped
        The number of lines above it.
    """
    best: tuple[bool, float, int] = (False, 0.0, 1)
    chosen, above, other = ",", 0, ""
    shown, final = text[:LOOKED_AT], len(text) <= LOOKED_AT
    for mark in DELIMITERS:
        widths, lines = record_widths(shown, mark, final=final)
        if not len(widths):
            continue
        usual, often = Counter(widths[1:] or widths).most_common(1)[0]
        if usual < 2:
            continue
        score = (widths[0] == usual, often / len(widths), usual)
        if score == best:
            other = mark
        if score > best:
            best, chosen, other = score, mark, ""
            above = 0 if widths[0] >= usual else lines[widths.index(usual)]
    if other:
        raise DelimitedError(
            f"a {DELIMITERS[chosen]} and a {DELIMITERS[other]} would both give rows of {best[2]} "
            "cells; state the delimiter",
            (chosen, other),
        )
    if above:
        raise HeaderError(late_header("line", skipped + above))
    return chosen
