"""The Parquet files of a lake: written whole, identified by name, size and SHA-256."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from seqbatch.campaign.record.events import canonical
from seqbatch.campaign.record.store import RowsElsewhere
from seqbatch.errors import StoreError
from seqbatch.storage.stores import FILE

# ----------------------------------------------------------------------
# The ids of a file of units, read without its other columns, and by a hash of their own.
#
# They are the first column: the bytes up to its end, and those at the end of the file that say
# where columns are, are all that is read. Bytes between them are not looked at.


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


# ----------------------------------------------------------------------
# The Parquet files of a lake: written whole, and known by name, size and SHA-256.
#
# A file is written under a name that ends in ``.partial`` and gets its own when its event is
# added, safely on disk, right before the ledger keeps the event. Whatever a crash leaves is
# therefore known to no event: nobody reads it, and the next who changes the campaign, having
# locked it, removes it.


#: The kinds of rows, each in a folder of its own.
UNITS, DECISIONS, OUTCOMES = "units", "decisions", "outcomes"
PARTIAL = ".partial"
DAMAGED = "Restore it from a copy of the lake."
NUMBER = "number"
#: So many first numbers of a column are compressed for a trial, and the share that is worth it.
SAMPLE, WORTHWHILE = 4096, 0.9
#: What files are called, by their events.
OWN = re.compile(r"event-(\d{6,})-\d{6,}\.parquet(?:\.partial)?")


class FileRows(RowsElsewhere):
    """What the ledger holds of a file: its place in the lake, bytes, rows and SHA-256."""

    folder: Path

    @classmethod
    def of(cls, content: bytes, folder: Path) -> "FileRows | bytes":
        """Return what a record of the ledger holds, able to read its file."""
        if not content.startswith(FILE):
            return content
        made = cls(content)
        made.folder = folder
        return made

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows; a file that is not the one that was written raises StoreError.

        All columns, or those of these names that there are.
        """
        # What is in memory need not be fetched ahead.
        file = pa.parquet.ParquetFile(pa.BufferReader(self._content()), pre_buffer=False)
        every = file.schema_arrow.names
        own = every[:-1] if self.kind in (UNITS, DECISIONS) else every
        wanted = own if columns is None else [name for name in own if name in columns]
        return file.read(columns=wanted, use_threads=False)

    def ids(self) -> pa.ChunkedArray:
        """Return the ids of units, without reading their other columns; raises StoreError too."""
        found = read_ids_alone(self.path, json.loads(self))
        # What is wrong is said by whoever reads the whole of it.
        return self.table().column(0) if found is None else found

    @property
    def kind(self) -> str:
        """Whether these are units, decisions or outcomes."""
        return self.path.parent.name

    @property
    def name(self) -> str:
        """Where the file is in the lake."""
        return str(json.loads(self)["file"])

    @property
    def path(self) -> Path:
        """Where the file is: under its own name, or before its event is added under another."""
        whole = self.folder / self.name
        partial = _partial(whole)
        return partial if partial.exists() and not whole.exists() else whole

    @property
    def fingerprint(self) -> bytes:
        """A hash of the rows, wherever they lie."""
        return str(json.loads(self)["sha256"]).encode()

    def _content(self) -> pa.Buffer:
        said = json.loads(self)
        try:
            content = _read(self.path)
        except FileNotFoundError:
            raise StoreError(f"file {self.name}: is missing. {DAMAGED}") from None
        except OSError as error:
            reason = f"cannot be read: {error.strerror}. Make it readable, or restore it"
            raise StoreError(f"file {self.name}: {reason} from a copy of the lake.") from None
        if len(content) != said["bytes"]:
            reason = f"has {len(content):,} bytes, not the {said['bytes']:,} that were written"
            raise StoreError(f"file {self.name}: {reason}. {DAMAGED}")
        if hashlib.sha256(content).hexdigest() != said["sha256"]:
            reason = "its bytes are not those that were written"
            raise StoreError(f"file {self.name}: {reason}. {DAMAGED}")
        return content


class Files:
    """The files of one campaign, and those that one change writes.

    Parameters
    ----------
    lake
        The lake's folder.
    campaign, name
        The campaign's number and name.
    """

    def __init__(self, lake: Path, campaign: int, name: str) -> None:
        self._lake = lake
        self._folder = lake / folder_name(campaign, name)
        self._written: list[Path] = []
        self._published: list[Path] = []
        # A thread waits for the disk while other files are made.
        self._syncing = ThreadPoolExecutor(1)
        self._synced: list[Future[None]] = []

    def write(
        self, rows: pa.Table, *, kind: str, event: int, chunk: int, first: int | None
    ) -> FileRows:
        """Write rows to a file of its own; it gets its name by :meth:`publish`."""
        path = self._folder / kind / f"event-{event:06d}-{chunk:06d}.parquet"
        content = _parquet(rows if first is None else _numbered(rows, first))
        self._written.append(path)
        with _naming(path):
            _make_folder(path.parent)
            _partial(path).write_bytes(content)
        self._synced.append(self._syncing.submit(_sync_partial, path))
        said: dict[str, Any] = {
            "file": path.relative_to(self._lake).as_posix(),
            "bytes": len(content),
            "rows": rows.num_rows,
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        if kind == UNITS:
            said["ids"] = where_ids_are(content)
        made = FileRows.of(canonical(said).encode(), self._lake)
        assert isinstance(made, FileRows)
        return made

    def publish(self) -> None:
        """Put what was written on disk, under its own names."""
        for synced in self._synced:
            synced.result()
        for path in self._written:
            with _naming(path):
                _partial(path).replace(path)
        for folder in {path.parent for path in self._written}:
            with _naming(folder):
                _sync(folder)
        self._published += self._written
        self._written, self._synced = [], []

    def drop(self, *, after: int = 0) -> None:
        """Remove what was written and is not to be kept, but for what was published first."""
        wait([synced for synced in self._synced if not synced.cancel()])
        for path in self._written:
            _partial(path).unlink(missing_ok=True)
        for path in self._published[after:]:
            path.unlink(missing_ok=True)
        self._written, self._synced, self._published = [], [], self._published[:after]

    @property
    def published(self) -> int:
        """How many files were published."""
        return len(self._published)

    def sweep(self, *, after_event: int) -> None:
        """Remove the files of later events than there are; the campaign must be locked."""
        for kind in (UNITS, DECISIONS, OUTCOMES):
            folder = self._folder / kind
            for path in folder.iterdir() if folder.is_dir() else ():
                if (found := OWN.fullmatch(path.name)) and int(found[1]) > after_event:
                    path.unlink(missing_ok=True)

    def require_none(self) -> None:
        """Refuse a folder for a new campaign that another ledger's campaign has filled."""
        if any(self._folder.glob("*/event-*.parquet")):
            raise StoreError(
                f"{self._folder}: has files of a campaign that the ledger does not know: it is an "
                "older one, or another lake's. Nothing was touched. Restore the ledger that knows "
                "them, move the folder away, or choose another name."
            )

    def remove(self) -> None:
        """Remove all files of a campaign that was deleted."""
        shutil.rmtree(self._folder, ignore_errors=True)


def folder_name(campaign: int, name: str) -> str:
    """Return what the folder of a campaign is called.

    >>> folder_name(3, "spring/2030")
    '3-spring_2030'
    """
    return f"{campaign}-{re.sub(r'[^A-Za-z0-9_.-]', '_', name)[:80]}"


def _numbered(rows: pa.Table, first: int) -> pa.Table:
    """Return rows with the units' numbers, by which files are joined, in a last column."""
    name = NUMBER
    while name in rows.column_names:
        name += "_"
    numbers = np.arange(first, first + rows.num_rows, dtype=np.int64)
    return rows.append_column(name, pa.array(numbers))


def _parquet(rows: pa.Table) -> memoryview:
    """Return a table as the bytes of a Parquet file; the same table gives the same bytes.

    A column in which nothing is missing says so: it is read in half the time. So is one that is not
    compressed, where that would be for nothing.
    """
    sink = pa.BufferOutputStream()
    columns = zip(rows.schema, rows.columns, strict=True)
    fields = [field.with_nullable(column.null_count > 0) for field, column in columns]
    rows = pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))
    categories = [field.name for field in rows.schema if pa.types.is_dictionary(field.type)]
    pa.parquet.write_table(
        rows, sink, row_group_size=max(rows.num_rows, 1),
        compression={name: _compression(rows[name]) for name in rows.column_names},
        use_dictionary=categories or False, write_statistics=False,
    )  # fmt: skip
    return memoryview(sink.getvalue())


def _compression(column: pa.ChunkedArray) -> str:
    """Return how a column is compressed: numbers that were measured hardly ever get smaller."""
    if not pa.types.is_floating(column.type):
        return "lz4"
    sample = column.slice(0, SAMPLE).to_numpy().tobytes()
    packed = pa.compress(sample, codec="lz4_raw", asbytes=True)
    return "lz4" if len(packed) < WORTHWHILE * len(sample) else "none"


def _read(path: Path) -> pa.Buffer:
    """Return the bytes of a file, in memory that Arrow uses again for the next one."""
    with path.open("rb", buffering=0) as file:
        content = pa.allocate_buffer(os.fstat(file.fileno()).st_size)
        return content.slice(0, file.readinto(content))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn what a disk that is full or broken raises into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written: {error.strerror or error}. Nothing was changed; the same "
            "call can be made again."
        ) from error


def _partial(path: Path) -> Path:
    """Return where a file is before it has its name."""
    return path.with_name(path.name + PARTIAL)


def _sync_partial(path: Path) -> None:
    with _naming(path):
        _sync(_partial(path))


def _make_folder(folder: Path) -> None:
    """Make a folder that only its owner can read, and those above it."""
    if folder.exists():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _sync(folder.parent)


def _sync(path: Path) -> None:
    """Wait until a file, or what a folder says of its files, is on disk."""
    if os.name == "nt" and path.is_dir():
        # There a folder cannot be opened; renames are kept by the file system's own journal.
        return
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
