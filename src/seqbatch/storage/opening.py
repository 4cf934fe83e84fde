"""Which store an address means."""

from collections.abc import Mapping
from pathlib import Path

from seqbatch.errors import InvalidArgumentError, StoreError
from seqbatch.storage.lake.stores import PREFIX, LakeStore, open_lake
from seqbatch.storage.stores import PostgresStore, SQLiteStore, SQLStore


def open_store(url: str | Path, *, create: bool = True) -> SQLStore:
    """Open a store, bringing its tables to this version's schema.

    Parameters
    ----------
    url
        A path for SQLite; ``postgresql://user@host/database``; or ``lake:folder`` for Parquet files
        with a ledger in SQLite among them, ``lake:folder?ledger=postgresql://...`` with one there.
    create
        Whether a file or folder that is not there is made; otherwise it is refused.

    Raises
    ------
    StoreError
        Where it cannot be opened, or was made by a later version; it is then left as it is.
    """
    text = str(url)
    if text.startswith(PREFIX):
        return open_lake(text, create=create)
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresStore(text)
    if "://" in text and not text.startswith("sqlite:///"):
        rule = "a path, sqlite:///path, postgresql://... or lake:folder"
        raise InvalidArgumentError("store", rule, text.partition("://")[0] + "://")
    if text.lower().startswith(PREFIX):
        rule = f"spelled in small letters where it is a lake, {PREFIX}folder"
        raise InvalidArgumentError("store", rule, text.partition("?")[0])
    path = Path(text.removeprefix("sqlite:///"))
    if not create and not path.exists():
        raise StoreError(
            f"{path}: there is no such store. Creating a campaign makes one; or name another."
        )
    if path.is_dir():
        raise StoreError(
            f"{path}: is a folder; an SQLite store is a file. Nothing was touched. Name a lake by "
            f"{PREFIX}{path}, or a file."
        )
    return SQLiteStore(path)


def defaults_of(url: str | Path) -> Mapping[str, str]:
    """Return what a spec that says nothing of some fields means in a store, without opening it."""
    return (LakeStore if str(url).startswith(PREFIX) else SQLStore).defaults
