"""Store addresses: open an SQLite path, a `postgresql:` URL or a `lake:` folder."""

import re
from collections.abc import Mapping
from pathlib import Path

from seqbatch.errors import InvalidArgumentError, StoreError
from seqbatch.storage.lake import PREFIX
from seqbatch.storage.stores import PostgresStore, SQLiteStore, SQLStore, require_place

ADDRESSES = "a path, sqlite:///path, postgresql://user@host/database or lake:folder"
#: The word and colon that an address begins with; a single letter is a Windows drive.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
#: Words that name a kind of store and are unlikely file names.
_KINDS = ("lake", "postgres", "postgresql", "sqlite")


def open_store(url: str | Path, *, create: bool = True, wait_for_server: bool = False) -> SQLStore:
    """Open a store and migrate its tables to this version's schema.

    Parameters
    ----------
    url
        A path for SQLite; ``postgresql://user@host/database``; ``lake:folder`` for Parquet files
        with an SQLite ledger in the same folder; or ``lake:folder?ledger=postgresql://...`` for
        Parquet files with a PostgreSQL ledger.
    create
        Whether to create a missing file or folder; if not, it is refused.
    wait_for_server
        Whether to accept a PostgreSQL server that cannot be reached yet. Each call then tries to
        reach it, and fails until it can.

    Raises
    ------
    StoreError
        If the store cannot be opened or was made by a later version. The store is not changed.
    """
    text = str(url)
    if text.startswith(PREFIX):
        from seqbatch.storage.lake.store import open_lake

        folder, mark, rest = text.removeprefix(PREFIX).partition("?")
        folder = _at_home(folder)
        if create and not folder.startswith("//"):
            require_place(Path(folder))
        return open_lake(
            f"{PREFIX}{folder}{mark}{rest}", create=create, wait_for_server=wait_for_server
        )
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresStore(text, wait_for_server=wait_for_server)
    path = Path(_at_home(_file_of(text)))
    if not create and not path.exists():
        raise StoreError(
            f"{path}: this store does not exist. Create a campaign to make it, or name another "
            "store.",
            code="no-such-store",
        )
    if path.is_dir():
        raise StoreError(
            f"{path} is a folder, but an SQLite store is a file. Nothing was touched. Name a "
            f"file; or, to use the folder as a lake, {PREFIX}{path}.",
            code="folder",
        )
    require_place(path)
    return SQLiteStore(path)


def _at_home(path: str) -> str:
    """Replace ``~`` in a path by the home folder."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:  # The user is unknown.
        return path


def _file_of(text: str) -> str:
    """Return the file of an address; refuse text that looks like another kind of store."""
    if text.removeprefix("sqlite:///") == ":memory:":
        advice = (
            "Every connection to :memory: would get its own empty database. Name a file in a "
            "temporary folder; on Linux, /dev/shm is in memory."
        )
        raise InvalidArgumentError("store", ADDRESSES, text, advice)
    if text.startswith("sqlite:///"):
        return text.removeprefix("sqlite:///")
    if text.lower().startswith(PREFIX):
        rule = f"written in lower case if it is a lake ({PREFIX}folder)"
        raise InvalidArgumentError("store", rule, text.partition("?")[0])
    scheme = _SCHEME.match(text)
    if "://" in text:
        raise InvalidArgumentError("store", ADDRESSES, text.partition("://")[0] + "://")
    if (scheme or text.lower() in _KINDS) and not Path(text).exists():
        # The text after the word may be a password.
        shown = scheme[0] if scheme else text
        advice = "If this is the name of a file, write ./ before it."
        raise InvalidArgumentError("store", ADDRESSES, shown, advice)
    return text


def defaults_of(url: str | Path) -> Mapping[str, str]:
    """Return a store's defaults for spec fields that are not set, without opening the store."""
    if not str(url).startswith(PREFIX):
        return SQLStore.defaults
    from seqbatch.storage.lake.store import LakeStore

    return LakeStore.defaults
