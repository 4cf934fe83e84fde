"""Tables and states as bytes, and back: Arrow streams and plain arrays, never pickle."""

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.archive import flatten, unflatten
from seqbatch.campaign.record.situation import Situation
from seqbatch.core.arrays import AnyArray

# One thread, so that the same table always gives the same bytes.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def pack(table: pa.Table) -> bytes:
    """Return a table as a compressed Arrow stream; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack(content: bytes) -> pa.Table:
    """Return the table of an Arrow stream."""
    return pa.ipc.open_stream(content).read_all()


def pack_state(state: Any) -> bytes:
    """Return a policy's state as bytes: the same state gives the same bytes, anywhere.

    A line of JSON names every array with its type and shape; their bytes follow, in that order.
    """
    arrays: dict[str, AnyArray] = {}
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
    """Return the state that the policy had, for the problem as it stands now."""
    head, _, rest = content.partition(b"\n")
    said, arrays, start = json.loads(head), {}, 0
    for name, (kind, shape) in said["arrays"].items():
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(rest, dtype=dtype, count=count, offset=start)
        arrays[name] = array.reshape(shape).astype(dtype.newbyteorder("="))
        start += count * dtype.itemsize
    return unflatten("state", now.made_policy().begin(now.problem()), arrays, said["values"])


def agreement(left: Any, right: Any) -> float:
    """Return by how much two states differ: 0 for the same bits, infinity for another make.

    Numbers are compared by the size of the largest of their array.
    """
    arrays: tuple[dict[str, AnyArray], dict[str, AnyArray]] = ({}, {})
    values: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    flatten("state", left, arrays[0], values[0])
    flatten("state", right, arrays[1], values[1])
    if values[0] != values[1] or arrays[0].keys() != arrays[1].keys():
        return math.inf
    return max((difference(arrays[0][name], arrays[1][name]) for name in arrays[0]), default=0.0)


def difference(left: AnyArray, right: AnyArray) -> float:
    """Return the largest difference of two arrays, by the size of the largest number in them."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return math.inf
    if left.tobytes() == right.tobytes():
        return 0.0
    if left.dtype.kind != "f" or not (np.isfinite(left).all() and np.isfinite(right).all()):
        return math.inf
    size = max(np.abs(left).max(), np.abs(right).max())
    return float(np.abs(left - right).max() / size)
