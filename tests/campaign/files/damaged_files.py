"""Parquet and Arrow files of every type, whole and damaged, made from a number."""

import datetime
import decimal
import io
import struct
import uuid
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from seqbatch.campaign.files.column_values import categories, texts
from seqbatch.campaign.files.date_format import ISO, read_dates
from seqbatch.campaign.files.number_format import read_numbers
from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.spec.template import starting_spec
from seqbatch.errors import InvalidFileError, SeqbatchError

ROWS = 12
DAY = datetime.datetime(2024, 2, 29, 12, 30)
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
            pa.uint64())  # fmt: skip
TEXTS = (pa.string(), pa.large_string(), pa.string_view())
BYTES = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3))
UNITS = ("s", "ms", "us", "ns")


def _column(values, kind):
    return pa.array([*values, None, *values] * ROWS, kind)[:ROWS]


def _columns():
    """Yield a column of every type that Arrow has."""
    for kind in (*INTEGERS, pa.float16(), pa.float32(), pa.float64()):
        # Older versions of Arrow make half floats of NumPy's alone.
        yield _column(
            [np.float16(n) for n in (0, 1, 2)] if kind == pa.float16() else [0, 1, 2], kind
        )
    for kind in TEXTS:
        yield _column(["a", "", "a text of more than twelve bytes"], kind)
    for kind in BYTES:
        yield _column([b"\xff\0\1", b"abc"], kind)
    yield _column([True, False], pa.bool_())
    yield pa.nulls(ROWS)
    for unit in UNITS:
        yield _column([DAY], pa.timestamp(unit))
        yield _column([DAY], pa.timestamp(unit, tz="America/New_York"))
        yield _column([1, 2], pa.duration(unit))
    # A nanosecond that Python's microseconds cannot express.
    yield pa.array([1_700_000_000_000_000_001] * ROWS, pa.timestamp("ns"))
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        yield (
            pa.array([1, None] * (ROWS // 2), pa.int64())
            .cast(pa.int32() if "32" in str(kind) else pa.int64())
            .cast(kind)
        )
    yield _column([DAY.date()], pa.date32())
    # A time of day, which the type should not have.
    yield pa.array([86_400_000 * 19_000 + 1, None] * (ROWS // 2), pa.int64()).view(pa.date64())
    for kind in (pa.decimal128(9, 2), pa.decimal256(50, 2)):
        yield _column([decimal.Decimal("1.50")], kind)
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_view(pa.int64())):
        yield _column([[1], [], [2, None]], kind)
    yield _column([[1, 2]], pa.list_(pa.int64(), 2))
    yield _column([{"a": 1, "b": "x"}], pa.struct({"a": pa.int64(), "b": pa.string()}))
    yield _column([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    for values in (pa.array(["a", "b"]), pa.array([1, 2]), pa.array(["a", "b"], pa.string_view())):
        places = pa.array([0, 1, None] * (ROWS // 3), pa.int8())
        yield pa.DictionaryArray.from_arrays(places, values)
    yield pa.RunEndEncodedArray.from_arrays(pa.array([2, ROWS]), pa.array(["a", "b"]))
    yield pa.UnionArray.from_dense(
        pa.array([0, 1] * (ROWS // 2), pa.int8()),
        pa.array([n // 2 for n in range(ROWS)], pa.int32()),
        [pa.array(range(ROWS)), pa.array(list("abcdefghijkl"))],
    )
    yield pa.UnionArray.from_sparse(
        pa.array([0, 1] * (ROWS // 2), pa.int8()),
        [pa.array(range(ROWS)), pa.array(list("abcdefghijkl"))],
    )
    yield pa.array([(1, 2, 3)] * ROWS, pa.month_day_nano_interval())
    if hasattr(pa, "uuid"):
        yield pa.array([uuid.UUID(int=n).bytes for n in range(ROWS)], pa.uuid())


COLUMNS = tuple(_columns())
ENDINGS = ("parquet", "arrow", "stream.arrow")


def whole(columns, ending, *, packing=None, pieces=2, stated=True):
    """Return a file with these columns; None where the format does not have their types."""
    table = pa.table({"id": pa.array([f"unit {n}" for n in range(ROWS)]), **columns})
    sink, rows = io.BytesIO(), -(-ROWS // pieces)
    try:
        if ending == "parquet":
            pa.parquet.write_table(
                table, sink, compression=packing or "none", row_group_size=rows,
                write_page_index=packing is None, store_schema=stated,
            )  # fmt: skip
            return sink.getvalue()
        maker = pa.ipc.new_stream if "stream" in ending else pa.ipc.new_file
        options = pa.ipc.IpcWriteOptions(compression=packing)
        with maker(sink, table.schema, options=options) as file:
            file.write_table(table, max_chunksize=rows)
    except (pa.ArrowException, NotImplementedError):
        return None
    return sink.getvalue()


def crashing(table):
    """Return a Parquet file that makes pyarrow abort the process that reads its row groups' sizes.

    The footer declares the first column as required, while its size statistics count missing
    values.
    """
    sink, name = io.BytesIO(), table.column_names[0].encode()
    pa.parquet.write_table(table, sink)
    # Field 3 of the schema element is the repetition (1 for optional, in zigzag), 4 is the name.
    optional, required = (bytes([0x25, kind, 0x18, len(name)]) + name for kind in (2, 0))
    content = sink.getvalue()
    assert content.count(optional) == 1
    return content.replace(optional, required)


def damaged(number):
    """Return the ending and the content of a damaged file: the same ones for the same number."""
    draw = np.random.default_rng(number)
    content = None
    while content is None:
        ending = ENDINGS[draw.integers(len(ENDINGS))]
        column = COLUMNS[draw.integers(len(COLUMNS))]
        packing = [None, "zstd"][draw.integers(2)]
        content = whole({"x": column}, ending, packing=packing, stated=bool(draw.integers(2)))
    footer = ()
    if ending == "parquet":
        # Half of the changes are in the description of the columns; Arrow's schema follows it.
        footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        ends = [content.find(mark, footer) for mark in (b"ARROW:schema", b"parquet-cpp")]
        footer = range(footer, min(end for end in ends if end > 0))
    for _ in range(1 + draw.geometric(0.7) // 2):
        content = _changed(content, draw, footer)
    return ending, content


def _changed(content, draw, footer):
    """Change bytes: half the time in the footer of a Parquet file."""
    size = max(len(content), 1)
    at = int(draw.integers(size))
    if footer and draw.integers(2):
        at = min(footer[draw.integers(len(footer))], size - 1)
    match draw.integers(6):
        case 0:
            return content[:at] + bytes([draw.integers(256)]) + content[at + 1 :]
        case 1:
            flipped = bytes([content[at] ^ (1 << int(draw.integers(8)))]) if content else b""
            return content[:at] + flipped + content[at + 1 :]
        case 2:
            numbers = (0, 1, 2**16, 2**31 - 1, 2**40, 2**63 - 1, -1, -(2**31), -(2**63))
            value = numbers[draw.integers(len(numbers))]
            form = "<i" if -(2**31) <= value < 2**31 else "<q"
            return content[:at] + struct.pack(form, value) + content[at + struct.calcsize(form) :]
        case 3:
            return content[:at]
        case 4:
            other = int(draw.integers(size))
            length = int(draw.integers(1, 64))
            return content[:at] + content[other : other + length] + content[at + length :]
        case _:
            return content[:at] + content[at + int(draw.integers(1, 16)) :]


def examine(path):
    """Read a file in every way that a campaign reads files; return its number of rows.

    An error of the package is a refusal, and anything else is a fault.
    """
    with Source(path) as source:
        rows = 0
        for piece in source.batches(source.columns()):
            for column in piece.columns:
                texts(column)
                categories(column)
                read_numbers(column)
                read_dates(column, form=ISO)
            rows += piece.num_rows
    with suppress(SeqbatchError):
        starting_spec(path)
    return rows


def examine_many(numbers, folder):
    """Examine damaged files; return how many were refused, and how many of these crash."""
    refused = unreadable = 0
    for number in numbers:
        ending, content = damaged(number)
        path = folder / f"{number}.{ending}"
        path.write_bytes(content)
        try:
            examine(path)
        except InvalidFileError as error:
            refused += 1
            unreadable += error.code == "unreadable-file"
        except Exception as error:
            raise AssertionError(f"damaged file {number} ({path.name})") from error
        path.unlink()
    return refused, unreadable
