"""Serialise tables and policy states as Arrow streams and plain arrays, without pickle."""

import json
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.archive import flatten, unflatten
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.store import Reader, RowsElsewhere
from seqbatch.core.arrays import AnyArray
from seqbatch.errors import StoreError

# ----------------------------------------------------------------------
# Serialise and read tables and policy states.


#: Advice for a record that cannot be read.
DAMAGED = "Verify the campaign to see what is damaged, and restore the database."
#: The name prefix of arrays that are stored with a state.
KEPT = "kept."
# A single thread makes the bytes reproducible.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
# Reading uses one thread too: for small tables, a thread pool takes five times as long.
_READING = pa.ipc.IpcReadOptions(use_threads=False)


def pack(table: pa.Table) -> bytes:
    """Return a table as a compressed Arrow stream; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack(content: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a record; raise StoreError if it is damaged.

    Values are validated first, because offsets in damaged bytes may point anywhere in memory.

    Parameters
    ----------
    content
        The record.
    columns
        The columns to return, as far as they exist; all columns if None.
    """
    if isinstance(content, RowsElsewhere):
        return content.table(columns)
    try:
        table = pa.ipc.open_stream(content, options=_READING).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise StoreError(
            f"a stored table cannot be read ({reason}). {DAMAGED}", code="damaged"
        ) from None
    if columns is None:
        return table
    return table.select([name for name in table.column_names if name in columns])


class RowsAtHand(RowsElsewhere):
    """The rows of an unpacked record, which are read once and can be used several times."""

    rows: pa.Table
    record: bytes

    @classmethod
    def of(cls, content: bytes, columns: Sequence[str]) -> "RowsAtHand":
        """Unpack these columns of a record, as far as they exist."""
        made = cls()
        made.rows, made.record = unpack(content, columns), content
        return made

    @classmethod
    def holding(cls, rows: pa.Table) -> "RowsAtHand":
        """Return rows that were never packed."""
        made = cls()
        made.rows, made.record = rows, b""
        return made

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows with all unpacked columns, or with the named ones."""
        names = self.rows.column_names
        return self.rows.select([name for name in names if columns is None or name in columns])

    @property
    def fingerprint(self) -> bytes:
        """The record's rows, or their hash if they are stored outside the record."""
        return fingerprint(self.record)


def fingerprint(content: bytes) -> bytes:
    """Return the bytes to hash for a record: its rows, or a hash of rows stored elsewhere."""
    return content.fingerprint if isinstance(content, RowsElsewhere) else content


def pack_state(state: Any, kept: Mapping[str, AnyArray] | None = None) -> bytes:
    """Return a policy's state as bytes, which are the same on every machine.

    A line of JSON lists every array with its type and shape; their bytes follow in that order.

    Parameters
    ----------
    state
        The state.
    kept
        Arrays to store with it, by name.
    """
    arrays: dict[str, AnyArray] = {KEPT + name: array for name, array in (kept or {}).items()}
    values: dict[str, Any] = {}
    flatten("state", state, arrays, values)
    # Little-endian on every machine.
    plain = {name: array.astype(array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    head = {
        "values": dict(sorted(values.items())),
        "arrays": {name: [array.dtype.str, array.shape] for name, array in sorted(plain.items())},
    }
    parts = [np.ascontiguousarray(plain[name]).tobytes() for name in sorted(plain)]
    return b"".join([json.dumps(head, separators=(",", ":")).encode(), b"\n", *parts])


def unpack_state(content: bytes, now: Situation) -> Any:
    """Return the stored policy state, for the campaign's current problem.

    Raise StoreError if it is damaged, since compiled code does not check its arrays.
    """
    like = now.made_policy().begin(now.problem())
    try:
        arrays, values = _parts(content)
        arrays = {name: array for name, array in arrays.items() if not name.startswith(KEPT)}
        _require_alike(like, arrays, values)
        return unflatten("state", like, arrays, values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"a stored state cannot be read ({error}). {DAMAGED}", code="damaged"
        ) from None


def unpack_kept(content: bytes) -> dict[str, AnyArray] | None:
    """Return the arrays stored with a state, or None without any."""
    try:
        arrays, _ = _parts(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"a stored state cannot be read ({error}). {DAMAGED}", code="damaged"
        ) from None
    found = {name.removeprefix(KEPT): arrays[name] for name in arrays if name.startswith(KEPT)}
    return found or None


def _require_alike(like: Any, arrays: dict[str, AnyArray], values: dict[str, Any]) -> None:
    """Refuse arrays whose type or shape differs from the policy's; a root may still be empty."""
    expected: dict[str, AnyArray] = {}
    plain: dict[str, Any] = {}
    flatten("state", like, expected, plain)
    if arrays.keys() != expected.keys() or values.keys() != plain.keys():
        raise ValueError("its parts do not match the policy")
    for name, array in arrays.items():
        shapes = {expected[name].shape}
        if name.endswith(".root"):
            theta = expected[name.removesuffix("root") + "theta"].shape
            shapes |= {(0, 0, 0), (*theta, theta[1])}
        if array.dtype != expected[name].dtype or array.shape not in shapes:
            raise ValueError(f"{name} is an array of {array.dtype} of shape {array.shape}")
    if any(type(values[name]) is not type(plain[name]) for name in values):
        raise ValueError("the types of its values do not match the policy")


def _parts(content: bytes) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Return the arrays and values of a packed state."""
    head, _, rest = content.partition(b"\n")
    said, arrays, start = json.loads(head), {}, 0
    for name, (kind, shape) in said["arrays"].items():
        if not all(isinstance(length, int) and length >= 0 for length in shape):
            raise ValueError(f"{name} has the shape {shape}")
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(rest, dtype=dtype, count=count, offset=start)
        arrays[name] = array.reshape(shape).astype(dtype.newbyteorder("="))
        start += count * dtype.itemsize
    return arrays, said["values"]


def agreement(left: Any, right: Any) -> float:
    """Return how much two states differ: 0 if identical, infinity if their structures differ.

    Differences are relative to the largest number of each array.
    """
    arrays: tuple[dict[str, AnyArray], dict[str, AnyArray]] = ({}, {})
    values: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    flatten("state", left, arrays[0], values[0])
    flatten("state", right, arrays[1], values[1])
    if values[0] != values[1] or arrays[0].keys() != arrays[1].keys():
        return math.inf
    return max((difference(arrays[0][name], arrays[1][name]) for name in arrays[0]), default=0.0)


def difference(left: AnyArray, right: AnyArray) -> float:
    """Return the largest difference of two arrays, relative to their largest number."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return math.inf
    if left.tobytes() == right.tobytes():
        return 0.0
    if left.dtype.kind != "f" or not (np.isfinite(left).all() and np.isfinite(right).all()):
        return math.inf
    size = max(np.abs(left).max(), np.abs(right).max())
    return float(np.abs(left - right).max() / size)


# ----------------------------------------------------------------------
# A cache of policy states for open waves.
#
# The policy's state does not change between two closes, so a process that assigns single units
# does not need to read it for every unit. The cache compares hashes: after a close or an amendment
# in any process, all other processes read the new state.


#: The most campaigns in the cache, and the most bytes of a cached state.
MOST, LONGEST = 16, 64 << 20

_lock = threading.Lock()
_known: dict[tuple[str, int], tuple[str, Any]] = {}


def frozen_state(reader: Reader, now: Situation) -> Any:
    """Return the policy's state in the open wave; callers must not modify it."""
    place = (now.name, reader.number)
    wanted = f"{reader.last_state_hash()} {now.policy} {now.problem()}"
    with _lock:
        kept = _known.get(place)
    if kept is not None and kept[0] == wanted:
        return kept[1]
    record = reader.last_state()
    assert record is not None
    state = unpack_state(record.content, now)
    with _lock:
        # Keep one state for each campaign, and drop that of a closed wave.
        _known.pop(place, None)
        if len(record.content) <= LONGEST:
            while len(_known) >= MOST:
                _known.pop(next(iter(_known)))
            _known[place] = (wanted, state)
    return state
