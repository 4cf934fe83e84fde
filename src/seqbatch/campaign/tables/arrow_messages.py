"""How much memory an Arrow stream asks for, told from its messages before any of it is decoded.

A compressed buffer starts with the number of bytes that it unpacks to, and a reader believes it: a
file of a few kilobytes may ask for all the memory there is. Here only the head of each message and
the first bytes of its buffers are read, by the layout of Arrow's IPC format (flatbuffers).
"""

import struct
from collections.abc import Iterator
from typing import Any

#: What a file that can be read at random starts and ends with; a stream has neither.
MAGIC = b"ARROW1"
#: Kinds of messages, and the places of fields within their tables, as Arrow's schema numbers them.
DICTIONARY, BATCH = 2, 3
KIND, HEADER, BODY = 1, 2, 3
DATA = 1
BUFFERS, COMPRESSION = 2, 3
DICTIONARIES, BATCHES = 2, 3
#: No head of a message and no footer is longer: a schema of 20,000 columns takes 5 MB.
LONGEST_HEAD = 1 << 26


class DamagedStreamError(ValueError):
    """A stream whose messages do not fit together."""


def unpacked_sizes(file: Any) -> Iterator[int]:
    """Yield the bytes that each message of an Arrow file, or of a stream, unpacks to.

    Parameters
    ----------
    file
        A seekable file; it is left at its start.
    """
    size = file.seek(0, 2)
    try:
        for message, body in _messages(file, size):
            length = message.number(BODY, "<q")
            if length < 0 or body + length > size:
                raise DamagedStreamError(f"a message of {length:,} bytes in a file of {size:,}")
            yield _unpacked(file, message, body, length)
    except (struct.error, OverflowError) as error:
        raise DamagedStreamError(str(error)) from None
    finally:
        file.seek(0)


def _messages(file: Any, size: int) -> "Iterator[tuple[_Table, int]]":
    """Yield the messages that hold rows, each with the place where its body starts."""
    file.seek(0)
    if file.read(len(MAGIC)) == MAGIC:
        for place in _places(file, size):
            head = _head(file, place)
            if head is not None:
                yield head
        return
    place = 0
    while (head := _head(file, place)) is not None:
        yield head
        place = head[1] + head[0].number(BODY, "<q")


def _places(file: Any, size: int) -> list[int]:
    """Return where the messages of a file are, by its footer."""
    tail = len(MAGIC) + 4
    file.seek(max(size - tail, 0))
    end = file.read(tail)
    if not end.endswith(MAGIC):
        raise DamagedStreamError("the file is cut off: its last bytes are missing")
    footer = _Table.root(_content(file, size - tail - _length(end[:4]), _length(end[:4])))
    return [
        block[0] for field in (DICTIONARIES, BATCHES) for block in footer.structs(field, "<qi4xq")
    ]


def _length(prefix: bytes) -> int:
    length: int = struct.unpack("<i", prefix)[0]
    if not 0 < length <= LONGEST_HEAD:
        raise DamagedStreamError(f"the head of a message has {length:,} bytes")
    return length


def _content(file: Any, place: int, length: int) -> bytes:
    if place < 0:
        raise DamagedStreamError("a message before the start of the file")
    file.seek(place)
    content: bytes = file.read(length)
    if len(content) < length:
        raise DamagedStreamError("the file ends within the head of a message")
    return content


class _Table:
    """One table of a flatbuffer: fields are found through a list of their places."""

    def __init__(self, content: bytes, place: int) -> None:
        self._content = content
        self._place = place
        self._fields = place - self._at(place, "<i")

    @classmethod
    def root(cls, content: bytes) -> "_Table":
        """Return the table that a flatbuffer is of."""
        return cls(content, struct.unpack_from("<I", content)[0])

    def _at(self, place: int, form: str) -> int:
        if place < 0:
            raise DamagedStreamError("a field before the start of its message")
        return int(struct.unpack_from(form, self._content, place)[0])

    def _field(self, number: int) -> int | None:
        """Return where a field is, None where it is left out."""
        entry = 4 + 2 * number
        if entry + 2 > self._at(self._fields, "<H"):
            return None
        offset = self._at(self._fields + entry, "<H")
        return self._place + offset if offset else None

    def number(self, number: int, form: str) -> int:
        """Return a field that is a number, 0 where it is left out."""
        place = self._field(number)
        return 0 if place is None else self._at(place, form)

    def table(self, number: int) -> "_Table | None":
        """Return a field that is a table."""
        place = self._field(number)
        return None if place is None else _Table(self._content, place + self._at(place, "<I"))

    def structs(self, number: int, form: str) -> Iterator[tuple[int, ...]]:
        """Yield the elements of a field that is a list of structures."""
        place = self._field(number)
        if place is None:
            return
        start = place + self._at(place, "<I")
        for index in range(self._at(start, "<I")):
            place = start + 4 + struct.calcsize(form) * index
            yield struct.unpack_from(form, self._content, place)


def _head(file: Any, place: int) -> tuple[_Table, int] | None:
    """Return the head of the message at a place and where its body starts; None at the end."""
    if place < 0:
        raise DamagedStreamError("a message before the start of the file")
    file.seek(place)
    prefix = file.read(4)
    if prefix == b"\xff\xff\xff\xff":
        place, prefix = place + 4, file.read(4)
    if len(prefix) < 4 or prefix == b"\0\0\0\0":
        return None
    length = _length(prefix)
    return _Table.root(_content(file, place + 4, length)), place + 4 + length


def _unpacked(file: Any, message: _Table, body: int, length: int) -> int:
    """Return the bytes that a message's buffers unpack to; its own length where not packed."""
    header, kind = message.table(HEADER), message.number(KIND, "<B")
    if header is not None and kind == DICTIONARY:
        header = header.table(DATA)
    if header is None or kind not in (DICTIONARY, BATCH) or header.table(COMPRESSION) is None:
        return length
    total = 0
    for offset, packed in header.structs(BUFFERS, "<qq"):
        if packed >= 8 and 0 <= offset <= length - 8:
            file.seek(body + offset)
            # -1 says that the buffer is not packed after all.
            said = struct.unpack("<q", file.read(8))[0]
            total += said if said >= 0 else packed
    return total
