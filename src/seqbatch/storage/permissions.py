"""What to do where a store's file or folder may not be written, or is no store."""

import os
from pathlib import Path

from seqbatch.errors import StoreError


def require_place(path: Path) -> None:
    """Refuse to make a store where its folder is missing or may not be written."""
    folder = path.absolute().parent
    if path.exists():
        return
    if not folder.is_dir():
        raise StoreError(f"{path}: there is no folder {folder} to make it in. Make that first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(
            f"{path}: cannot be made: you may not write to {folder}. Nothing was touched. Name "
            "another place, or ask the folder's owner for the right to write there."
        )


def remedy(path: Path, reason: str) -> str | None:
    """Return what to do about what SQLite says of a file; None where the call can be made again."""
    folder = path.absolute().parent
    if "readonly database" in reason:
        return (
            f"Nothing was changed. You may read {path} but not write it: ask its owner for the "
            f"right to write that file and its folder {folder}."
        )
    if "unable to open" in reason:
        return (
            f"Nothing was changed. You need the right to read and write {path} and its folder "
            f"{folder}: ask their owner for it, or name another store."
        )
    if "not a database" in reason or "malformed" in reason:
        return (
            f"Nothing was changed. {path} is no store, or it was damaged: name another, or restore "
            "it from a copy."
        )
    return None
