"""Copy a store to an empty one of any kind, in one consistent view, and compare the copy."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from seqbatch.errors import CampaignStateError, StoreError
from seqbatch.storage import schema
from seqbatch.storage.stores import OF_CAMPAIGNS, SQLStore, rows_in_pieces

#: The tables that are copied, and how many rows at once.
TABLES: dict[sa.Table, int] = {
    schema.campaigns: 1_000,
    **OF_CAMPAIGNS,
    schema.tombstones: 1_000,
    schema.tokens: 1_000,
    schema.answers: 1_000,
    schema.answer_pieces: 8,
}
#: Tables that a lake computes from its records and does not have.
INDEXES = (schema.assignments, schema.outcomes, schema.outcome_rows)


@dataclass(frozen=True, kw_only=True)
class Copied:
    """What was copied.

    Parameters
    ----------
    campaigns
        The names of the campaigns.
    rows
        The number of rows of each table.
    files
        The number of files of a lake.
    """

    campaigns: tuple[str, ...]
    rows: dict[str, int]
    files: int = 0


def copy_store(source: SQLStore, target: SQLStore) -> Copied:
    """Copy campaigns, tombstones, tokens and answers of a store to an empty one.

    The source may be in use: the copy is its state at one moment, and keeps all hashes. It is
    compared with the source before it is committed; on any error the target stays empty. Sessions
    of the dashboard are not copied: people sign in again.

    Parameters
    ----------
    source, target
        The stores. Rows of a lake are in files, which only another lake can hold.
    """
    from seqbatch.storage.lake.store import LakeStore

    if isinstance(source, LakeStore) and not isinstance(target, LakeStore):
        raise StoreError(
            f"{source.label} is a lake: its rows are in files, and its hashes are of files. "
            f"{target.label} cannot hold them; nothing was copied. Copy it to another lake "
            "(lake:folder).",
            code="lake-to-other",
        )
    tables = [each for each in TABLES if not (isinstance(target, LakeStore) and each in INDEXES)]
    with source.transaction(write=False) as reading, target.transaction(write=True) as writing:
        _require_empty(writing, target)
        rows = {table.name: _copied(table, reading, writing) for table in tables}
        for table in tables:
            if _digest(table, reading) != _digest(table, writing):
                raise StoreError(
                    f"{target.label}: table {table.name} differs from that of {source.label} after "
                    "copying. Nothing was kept. Check the source with `seqbatch store check`.",
                    code="copy-differs",
                )
        names = reading.execute(sa.select(schema.campaigns.c.name)).scalars().all()
        files = 0
        if isinstance(source, LakeStore) and isinstance(target, LakeStore):
            # Files of later events may come along; the next change of the campaign removes them.
            files = _copied_files(source.folder, target.folder)
    return Copied(campaigns=tuple(names), rows=rows, files=files)


def _require_empty(connection: sa.Connection, store: SQLStore) -> None:
    for table in (schema.campaigns, schema.tombstones, schema.tokens):
        if connection.execute(sa.select(sa.func.count()).select_from(table)).scalar():
            raise CampaignStateError(
                f"{store.label} must be empty, but it has {table.name}. Nothing was copied. Name a "
                "new store.",
                code="not-empty",
            )


def _copied(table: sa.Table, reading: sa.Connection, writing: sa.Connection) -> int:
    """Copy a table; return the number of rows."""
    done = 0
    for rows in _pieces(table, reading):
        writing.execute(table.insert(), rows)
        done += len(rows)
    return done


def _pieces(table: sa.Table, connection: sa.Connection) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a table in the order of its key, some at a time."""
    asked = sa.select(table).order_by(*table.primary_key)
    yield from rows_in_pieces(connection, asked, TABLES[table])


def _digest(table: sa.Table, connection: sa.Connection) -> int:
    """Return a hash of all rows in any order, because databases sort texts differently."""
    total = 0
    for rows in _pieces(table, connection):
        for row in rows:
            # A value of another type differs as well: 1 and "1" are written differently.
            written = repr([*row.values()]).encode()
            total += int.from_bytes(blake2b(written, digest_size=16).digest())
    return total % 2**128


def _copied_files(source: Path, target: Path) -> int:
    """Copy the files of a lake's campaigns; return their number."""
    count = 0
    for folder in sorted(path for path in source.iterdir() if path.is_dir()):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                to = target / path.relative_to(source)
                to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copy2(path, to)
                with to.open("rb") as copied:
                    os.fsync(copied.fileno())
                count += 1
    return count
