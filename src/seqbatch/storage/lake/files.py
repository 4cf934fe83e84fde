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
from seqbatch.output_files import sync
from seqbatch.storage.stores import FILE

# ----------------------------------------------------------------------
# Reading only the unit ids of a file
#
# The ids are the first column and have their own hash. Only the bytes up to the end of this column
# and the Parquet footer are read and verified; the bytes between them are skipped.


def where_ids_are(content: memoryview) -> dict[str, Any]:
    """Return the sizes of the head and tail that hold a file's ids, and their SHA-256.

    The last eight bytes of a Parquet file are the length of its footer and the magic number.
    """
    first = pa.parquet.read_metadata(pa.BufferReader(content)).row_group(0).column(0)
    head = (first.dictionary_page_offset or first.data_page_offset) + first.total_compressed_size
    tail = 8 + int.from_bytes(content[-8:-4], "little")
    return {"head": head, "tail": tail, "sha256": _hash(content[:head], content[-tail:])}


def read_ids_alone(path: Path, said: dict[str, Any]) -> pa.ChunkedArray | None:
    """Return the ids of a file; None if its length or hash differs from the recorded one.

    Parameters
    ----------
    path
        The file.
    said
        Its recorded length (`bytes`) and the place and hash of its ids (`ids`).
    """
    head, tail = said["ids"]["head"], said["ids"]["tail"]
    # Pages that are never written take no memory.
    content: Any = np.zeros(said["bytes"], dtype=np.uint8)
    if not _filled(path, content, head, tail):
        return None
    if _hash(content[:head], content[-tail:]) != said["ids"]["sha256"]:
        return None
    name = pa.parquet.read_schema(pa.BufferReader(content)).names[0]
    read = pa.parquet.read_table(pa.BufferReader(content), columns=[name], use_threads=False)
    return read.column(0)


def _filled(path: Path, content: Any, head: int, tail: int) -> bool:
    """Read both ends of a file into a buffer; return whether the file has the buffer's length."""
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
# Writing and reading Parquet files
#
# A file is first written under a name that ends in ``.partial``. It is synced to disk and renamed
# right before the ledger commits its event. No event refers to a file that a crash leaves behind:
# such a file is never read, and the next change of the campaign removes it after locking the
# campaign.


#: The kinds of rows; each has its own folder.
UNITS, DECISIONS, OUTCOMES = "units", "decisions", "outcomes"
PARTIAL = ".partial"
DAMAGED = "Restore it from a copy of the lake."
NUMBER = "number"
#: Length of the sample that is compressed to test a column, and the ratio that is worth it.
SAMPLE, WORTHWHILE = 4096, 0.9
#: The pattern of file names, which contain the event's number.
OWN = re.compile(r"event-(\d{6,})-\d{6,}\.parquet(?:\.partial)?")


class FileRows(RowsElsewhere):
    """The ledger's reference to a file: its path in the lake, size, rows and SHA-256."""

    folder: Path

    @classmethod
    def of(cls, content: bytes, folder: Path) -> "FileRows | bytes":
        """Parse the content of a ledger record; rows stored inline are returned unchanged."""
        if not content.startswith(FILE):
            return content
        made = cls(content)
        made.folder = folder
        return made

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows; raise StoreError if the file is not the one that was written.

        Returns all columns, or those of the given names that exist.
        """
        # The bytes are already in memory, so pre-buffering gains nothing.
        file = pa.parquet.ParquetFile(pa.BufferReader(self._content()), pre_buffer=False)
        every = file.schema_arrow.names
        own = every[:-1] if self.kind in (UNITS, DECISIONS) else every
        wanted = own if columns is None else [name for name in own if name in columns]
        return file.read(columns=wanted, use_threads=False)

    def ids(self) -> pa.ChunkedArray:
        """Return the unit ids without reading other columns; raise StoreError like `table`."""
        found = read_ids_alone(self.path, json.loads(self))
        # Reading the whole file reports what is wrong with it.
        return self.table().column(0) if found is None else found

    @property
    def kind(self) -> str:
        """The kind of rows: units, decisions or outcomes."""
        return self.path.parent.name

    @property
    def name(self) -> str:
        """The path of the file within the lake."""
        return str(json.loads(self)["file"])

    @property
    def path(self) -> Path:
        """The path of the file: its final name, or the partial one until its event is added."""
        whole = self.folder / self.name
        partial = _partial(whole)
        return partial if partial.exists() and not whole.exists() else whole

    @property
    def fingerprint(self) -> bytes:
        """A hash of the rows that does not depend on where they are stored."""
        return str(json.loads(self)["sha256"]).encode()

    def _content(self) -> pa.Buffer:
        said = json.loads(self)
        try:
            content = _read(self.path)
        except FileNotFoundError:
            raise StoreError(
                f"file {self.name} is missing. {DAMAGED}", code="file-missing"
            ) from None
        except OSError as error:
            reason = f"cannot be read: {error.strerror}. Make it readable, or restore it"
            raise StoreError(
                f"file {self.name} {reason} from a copy of the lake.",
                code="file-unreadable",
            ) from None
        if len(content) != said["bytes"]:
            reason = f"has {len(content):,} bytes, not the {said['bytes']:,} that were written"
            raise StoreError(f"file {self.name} {reason}. {DAMAGED}", code="file-damaged")
        if hashlib.sha256(content).hexdigest() != said["sha256"]:
            reason = "does not hold the bytes that were written"
            raise StoreError(f"file {self.name} {reason}. {DAMAGED}", code="file-damaged")
        return content


class Files:
    """The files of one campaign, including those that the current change writes.

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
        # A thread syncs files to disk while further files are prepared.
        self._syncing = ThreadPoolExecutor(1)
        self._synced: list[Future[None]] = []

    def write(
        self, rows: pa.Table, *, kind: str, event: int, chunk: int, first: int | None
    ) -> FileRows:
        """Write rows to a new partial file; :meth:`publish` gives it its final name."""
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
        """Sync the written files to disk and rename them to their final names."""
        for synced in self._synced:
            synced.result()
        for path in self._written:
            with _naming(path):
                _partial(path).replace(path)
        for folder in {path.parent for path in self._written}:
            with _naming(folder):
                sync(folder)
        self._published += self._written
        self._written, self._synced = [], []

    def drop(self, *, after: int = 0) -> None:
        """Remove files that were written but not kept, except the first `after` published ones."""
        wait([synced for synced in self._synced if not synced.cancel()])
        for path in self._written:
            _partial(path).unlink(missing_ok=True)
        for path in self._published[after:]:
            path.unlink(missing_ok=True)
        self._written, self._synced, self._published = [], [], self._published[:after]

    @property
    def published(self) -> int:
        """The number of published files."""
        return len(self._published)

    def sweep(self, *, after_event: int) -> None:
        """Remove files of events after the last one; the campaign must be locked."""
        for kind in (UNITS, DECISIONS, OUTCOMES):
            folder = self._folder / kind
            for path in folder.iterdir() if folder.is_dir() else ():
                if (found := OWN.fullmatch(path.name)) and int(found[1]) > after_event:
                    path.unlink(missing_ok=True)

    def sweep_others(self, listed: set[str]) -> None:
        """Remove all files except the listed ones; the campaign must be locked."""
        for path in self._folder.glob("*/event-*.parquet"):
            if path.relative_to(self._lake).as_posix() not in listed:
                path.unlink(missing_ok=True)

    def require_none(self) -> None:
        """Refuse a new campaign whose folder holds files of another ledger's campaign."""
        if any(self._folder.glob("*/event-*.parquet")):
            raise StoreError(
                f"{self._folder} has files of a campaign that is not in the ledger. The ledger "
                "may be an older copy, or belong to another lake. Nothing was touched. Restore "
                "the right ledger, move the folder away, or choose another campaign name.",
                code="unknown-files",
            )

    def remove(self) -> None:
        """Remove all files of a deleted campaign."""
        shutil.rmtree(self._folder, ignore_errors=True)


def folder_name(campaign: int, name: str) -> str:
    """Return the name of a campaign's folder.

    >>> folder_name(3, "spring/2030")
    '3-spring_2030'
    """
    return f"{campaign}-{re.sub(r'[^A-Za-z0-9_.-]', '_', name)[:80]}"


def _numbered(rows: pa.Table, first: int) -> pa.Table:
    """Append a column of unit numbers, the key that joins files."""
    name = NUMBER
    while name in rows.column_names:
        name += "_"
    numbers = np.arange(first, first + rows.num_rows, dtype=np.int64)
    return rows.append_column(name, pa.array(numbers))


def _parquet(rows: pa.Table) -> memoryview:
    """Return a table as the bytes of a Parquet file; the same table gives the same bytes.

    Columns without missing values are declared non-nullable, and columns that hardly shrink are
    not compressed. Either halves the time to read them.
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
    """Choose a column's compression: measured numbers hardly ever compress."""
    if not pa.types.is_floating(column.type):
        return "lz4"
    sample = column.slice(0, SAMPLE).to_numpy().tobytes()
    packed = pa.compress(sample, codec="lz4_raw", asbytes=True)
    return "lz4" if len(packed) < WORTHWHILE * len(sample) else "none"


def _read(path: Path) -> pa.Buffer:
    """Return the bytes of a file, in memory that Arrow reuses for the next file."""
    with path.open("rb", buffering=0) as file:
        content = pa.allocate_buffer(os.fstat(file.fileno()).st_size)
        return content.slice(0, file.readinto(content))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn disk errors (full, broken) into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror or error}. Nothing was changed; you can "
            "make the same call again.",
            code="file-not-written",
        ) from error


def _partial(path: Path) -> Path:
    """Return the path of a file before it gets its final name."""
    return path.with_name(path.name + PARTIAL)


def _sync_partial(path: Path) -> None:
    with _naming(path):
        sync(_partial(path))


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, readable only by the owner."""
    if folder.exists():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync(folder.parent)
