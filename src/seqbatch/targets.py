"""Which files may be written, decided before any work is done."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from seqbatch.errors import InvalidArgumentError


def require_target(
    path: str | Path,
    *,
    name: str = "out",
    force: bool = False,
    endings: Sequence[str] = (),
    apart_from: Mapping[str, Iterable[str | Path]] | None = None,
) -> Path:
    """Return a path that may be written to, or refuse it.

    Parameters
    ----------
    path
        The file to be written. A link stands for the file that it leads to.
    name
        What the argument is called in messages.
    force
        Whether a plain file that is there may be overwritten. Nothing else ever is.
    endings
        What the name may end in, in lower case; anything where there are none.
    apart_from
        Files that are never written to, by what they are.

    Raises
    ------
    InvalidArgumentError
        Where the file is one of `apart_from`, has another ending, is a folder, a device, a pipe or
        a socket, has no folder, or is there and `force` does not hold.
    """
    target, found = Path(path), _resolved(path)
    if found is None:
        raise InvalidArgumentError(name, "a name that a file can have", repr(str(path)))
    for what, files in (apart_from or {}).items():
        if any(_same(target, Path(file)) for file in files):
            raise InvalidArgumentError(name, f"another file than {what}", path)
    if endings and not target.name.lower().endswith(tuple(endings)):
        kinds = " or ".join(part for part in (", ".join(endings[:-1]), endings[-1]) if part)
        raise InvalidArgumentError(name, f"a {kinds} file", path)
    _require_place(name, path, found, force=force)
    return target


def _require_place(name: str, path: str | Path, found: Path, *, force: bool) -> None:
    """Refuse a place where no file can be made, or where something is that must stay."""
    if not found.parent.is_dir():
        advice = f"Create {found.parent} first."
        raise InvalidArgumentError(name, "in a folder that exists", path, advice)
    if found.is_dir():
        raise InvalidArgumentError(name, "a file", f"{path}, a folder")
    if found.exists() and not found.is_file():
        raise InvalidArgumentError(name, "a plain file", f"{path}, a device, pipe or socket")
    if found.exists() and not force:
        advice = "Choose another name, or overwrite it (force=True)."
        raise InvalidArgumentError(name, "a new file", f"{path}, which exists", advice)


def _same(one: Path, other: Path) -> bool:
    """Say whether a name leads to a file, or into a folder, also through other spellings."""
    where, place = _resolved(one), _resolved(other)
    if where == place or (place in where.parents if where and place and place.is_dir() else False):
        return True
    return one.exists() and other.exists() and one.samefile(other)


def _resolved(path: str | Path) -> Path | None:
    """Return where a name leads; None where no file can have it, as with a NUL character."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        return None
