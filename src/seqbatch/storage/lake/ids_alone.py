"""The ids of a file of units, read without its other columns, and by a hash of their own.

They are the first column: the bytes up to its end, and those at the end of the file that say where
columns are, are all that is read. Bytes between them are not looked at.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet


def where_ids_are(content: memoryview) -> dict[str, Any]:
    """Return how many bytes at both ends of a file its ids are read from, and their SHA-256.

    The last eight bytes are the length of what says where columns are, and the format's mark.
    """
    first = pa.parquet.read_metadata(pa.BufferReader(content)).row_group(0).column(0)
    head = (first.dictionary_page_offset or first.data_page_offset) + first.total_compressed_size
    tail = 8 + int.from_bytes(content[-8:-4], "little")
    return {"head": head, "tail": tail, "sha256": _hash(content[:head], content[-tail:])}


def read_ids_alone(path: Path, said: dict[str, Any]) -> pa.ChunkedArray | None:
    """Return the ids of a file; None where it is not the one that was written.

    Parameters
    ----------
    path
        The file.
    said
        Its length (`bytes`), and where its ids are (`ids`).
    """
    head, tail = said["ids"]["head"], said["ids"]["tail"]
    # What is not filled in takes no memory.
    content: Any = np.zeros(said["bytes"], dtype=np.uint8)
    if not _filled(path, content, head, tail):
        return None
    if _hash(content[:head], content[-tail:]) != said["ids"]["sha256"]:
        return None
    name = pa.parquet.read_schema(pa.BufferReader(content)).names[0]
    read = pa.parquet.read_table(pa.BufferReader(content), columns=[name], use_threads=False)
    return read.column(0)


def _filled(path: Path, content: Any, head: int, tail: int) -> bool:
    """Read both ends of a file; say whether it is as long as its content."""
    try:
        with path.open("rb", buffering=0) as file:
            read = (
                file.readinto(content[:head]),
                file.seek(-tail, 2),
                file.readinto(content[-tail:]),
            )
    except OSError:
        return False
    return read == (head, len(content) - tail, tail)


def _hash(head: Any, tail: Any) -> str:
    made = hashlib.sha256(head)
    made.update(tail)
    return made.hexdigest()
