"""Tables and states as bytes, and back: Arrow streams and NumPy archives, never pickle."""

import io
import json
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
    """Return a policy's state as a NumPy archive; the same state gives the same bytes."""
    arrays: dict[str, AnyArray] = {}
    values: dict[str, Any] = {}
    flatten("state", state, arrays, values)
    arrays["values"] = np.frombuffer(json.dumps(values, sort_keys=True).encode(), dtype=np.uint8)
    sink = io.BytesIO()
    np.savez(sink, allow_pickle=False, **arrays)
    return sink.getvalue()


def unpack_state(content: bytes, now: Situation) -> Any:
    """Return the state that the policy had, for the problem as it stands now."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    values = json.loads(arrays.pop("values").tobytes())
    return unflatten("state", now.made_policy().begin(now.problem()), arrays, values)
