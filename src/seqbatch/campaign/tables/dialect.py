"""How a file of delimited text is spelled: its encoding, and what stands between its cells.

Both are found in the file, unless they are stated, and both are said to who reads it. What a file
holds is never guessed: a file that could be meant in two ways is refused.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from seqbatch.campaign.tables import delimited, sizes
from seqbatch.campaign.tables.delimited import DelimitedError
from seqbatch.errors import InvalidArgumentError

#: What may stand between cells, and what it is called.
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
#: Encodings by what they are called in messages.
ENCODINGS = {
    "utf-8": "UTF-8", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16", "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
}  # fmt: skip
MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
#: Bytes that Windows-1252 leaves undefined; Latin-1 does not.
UNDEFINED = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D])
#: Characters in which the delimiter is looked for.
LOOKED_AT = 1 << 18
#: What spreadsheets write before the header to say what stands between cells.
STATED = re.compile(r"\Asep=([\t -~])\r?\n", re.IGNORECASE)
#: First bytes of files that are something else, whatever they are called.
OTHERWISE = {
    b"PK\x03\x04": "an Excel workbook or another archive; save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"PAR1": "a Parquet file; say so (format parquet)",
    b"ARROW1": "an Arrow file; say so (format arrow)",
    b"%PDF": "a PDF document",
}


@dataclass(frozen=True)
class Dialect:
    """How a file is spelled.

    Parameters
    ----------
    delimiter
        What stands between cells, one character.
    encoding
        How its characters are written, by a name that Python knows.
    before
        Characters before the header that are no part of the table.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    before: int = 0

    def __str__(self) -> str:
        between = DELIMITERS.get(self.delimiter, repr(self.delimiter))
        return f"{between}-separated, {ENCODINGS.get(self.encoding, self.encoding)}"

    @property
    def usual(self) -> bool:
        """Whether nobody needs to be told."""
        return (self.delimiter, self.encoding) == (",", "utf-8")


def stated_delimiter(value: str) -> str:
    r"""Return a delimiter that a person stated, by itself or by its name.

    >>> stated_delimiter("tab"), stated_delimiter(";")
    ('\t', ';')
    """
    named = {name: mark for mark, name in DELIMITERS.items()} | {r"\t": "\t"}
    mark = named.get(value.lower(), value)
    if len(mark) != 1 or not mark.isascii() or mark in '"\r\n' or mark.isalnum():
        rule = "one ASCII character that is no letter, digit or quote, or one of"
        raise InvalidArgumentError("delimiter", f"{rule} {', '.join(DELIMITERS.values())}", value)
    return mark


def stated_encoding(value: str) -> str:
    """Return an encoding that a person stated, by Python's name for it."""
    try:
        name = codecs.lookup(value).name
        "".encode(name)
    except LookupError:
        raise InvalidArgumentError(
            "encoding", "one that Python knows, such as utf-8, utf-16 or cp1252", value
        ) from None
    return {"utf_8_sig": "utf-8", "utf-8-sig": "utf-8", "iso8859-1": "latin-1"}.get(name, name)


def dialect_of(path: Path, *, delimiter: str | None, encoding: str | None) -> Dialect:
    """Return how a file is spelled, looking for what was not stated."""
    _refuse_otherwise(path)
    encoding = stated_encoding(encoding) if encoding else _encoding(path)
    text = ""
    for block in decoded(path, encoding):
        text += block.decode("utf-8")
        if len(text) > LOOKED_AT:
            break
    found = STATED.match(text)
    before = found.end() if found else 0
    if delimiter is not None:
        delimiter = stated_delimiter(delimiter)
    elif found:
        delimiter = found[1]
    else:
        delimiter = _delimiter(text)
    return Dialect(delimiter, encoding, before)


def decoded(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield the bytes of a file block by block, its characters in UTF-8, without a mark."""
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
        while block := stream.read(delimited.BLOCK):
            read += len(block)
            if why := sizes.too_much_decoded(read, size):
                raise DelimitedError(why)
            yield block


def _refuse_otherwise(path: Path) -> None:
    first = next(_blocks(path), b"")[:8]
    for mark, what in OTHERWISE.items():
        if first.startswith(mark):
            raise DelimitedError(f"it is {what}")


def _encoding(path: Path) -> str:
    """Return how a file's characters are written: by its mark, its zeros, or as its bytes fit."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    first, genuine = True, 0
    for block in _blocks(path):
        if first:
            for mark, name in MARKS.items():
                if block.startswith(mark):
                    return name
            if wide := _wide(block[:4096]):
                return wide
            first = False
        try:
            if not block.isascii():
                genuine += sum(not c.isascii() for c in decoder.decode(block)[:LOOKED_AT])
        except UnicodeDecodeError as error:
            return _single_byte(path, block, error, genuine)
    return "utf-8"


def _wide(start: bytes) -> str | None:
    """Return UTF-16 without a mark: text in which every other byte is zero."""
    pairs = len(start) // 2
    low, high = start[0 : 2 * pairs : 2].count(0), start[1 : 2 * pairs : 2].count(0)
    if pairs and high > 0.5 * pairs and low < 0.1 * pairs:
        return "utf-16-le"
    return "utf-16-be" if pairs and low > 0.5 * pairs and high < 0.1 * pairs else None


def _single_byte(path: Path, block: bytes, error: UnicodeDecodeError, genuine: int) -> str:
    """Return the encoding of one byte a character that a file which is not UTF-8 may be in.

    Characters of two bytes and more that are right in UTF-8 hardly ever arise by chance: a file
    with such ones is damaged UTF-8, and read otherwise its names would be garbled.
    """
    text = block.decode("utf-8", errors="surrogateescape")
    wrong = sum("\udc80" <= character <= "\udcff" for character in text)
    genuine += sum(not c.isascii() for c in text) - wrong
    if genuine >= max(wrong, 1):
        byte = error.object[error.start]
        raise DelimitedError(
            f"it is UTF-8 but for {wrong:,} bytes, the first 0x{byte:02x}; save it as UTF-8 again, "
            "or state the encoding"
        )
    undefined = any(mark in part for part in _blocks(path) for mark in UNDEFINED)
    return "latin-1" if undefined else "cp1252"


def _delimiter(text: str) -> str:
    """Return what stands between the cells: what gives most rows the header's number of cells."""
    best: tuple[bool, float, int] = (False, 0.0, 1)
    chosen, above = ",", 0
    for mark in DELIMITERS:
        widths, lines = delimited.widths(text, mark, final=len(text) <= LOOKED_AT)
        if not len(widths):
            continue
        usual, often = Counter(widths[1:] or widths).most_common(1)[0]
        if usual < 2:
            continue
        score = (widths[0] == usual, often / len(widths), usual)
        if score > best:
            best, chosen = score, mark
            above = 0 if widths[0] >= usual else lines[widths.index(usual)]
    if above:
        raise DelimitedError(
            f"its first line has fewer cells than the lines from {above:,} on, where the header "
            f"seems to be; delete the lines above it"
        )
    return chosen
