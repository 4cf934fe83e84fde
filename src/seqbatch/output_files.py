"""Output files: which may be written, and written whole or not at all."""

import errno
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from seqbatch.errors import InvalidArgumentError, Remedy

# ----------------------------------------------------------------------
# Which files may be written, decided before any work is done.


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
        raise InvalidArgumentError(
            name, "a new file", f"{path}, which exists", "Choose another name, or overwrite it",
            code="file-exists", remedies=[Remedy("overwrite")],
        )  # fmt: skip


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


# ----------------------------------------------------------------------
# Files written whole or not at all.


@contextmanager
def atomically(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to; it becomes `target` when the block ends, and vanishes if it fails.

    Whoever looks at `target`, at any time and after any crash, sees the old file or the new one.
    Where nothing can be written there, the error names `target`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     target = Path(folder) / "note.txt"
    ...     with atomically(target) as partial:
    ...         _ = partial.write_text("whole")
    ...     target.read_text(), len(list(Path(folder).iterdir()))
    ('whole', 1)
    """
    asked = os.fspath(target)
    # Through links: the file that they lead to is the one to be replaced.
    target = Path(os.path.realpath(target))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", str(target))
    # In the same folder, since only a rename within one file system is atomic; with names that two
    # processes or threads that write the same target do not share.
    _sweep(target)
    writer = f"{os.getpid()}-{threading.get_ident()}"
    partial = target.with_name(f"{target.name}.{writer}.partial")
    try:
        yield partial
        # Without this, a power cut soon after the rename can leave the new name on an empty file.
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        if error.filename is not None and os.fspath(error.filename) == str(partial):
            _name(error, asked)
        raise
    finally:
        # What cannot be removed either is swept by the next one; the first error is the one to say.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _name(error: OSError, asked: str) -> None:
    """Have an error name the file that was asked for, and say what to do."""
    # A name or a folder of which nothing can be made.
    advice = "choose another name, or a folder that you may write to"
    error.filename, error.filename2 = asked, None
    error.strerror = f"cannot be written: {error.strerror}; {advice}"


def _sweep(target: Path) -> None:
    """Remove what processes that were killed left beside a target."""
    pattern = re.compile(re.escape(target.name) + r"\.(\d+)-\d+\.partial")
    try:
        there = [path.name for path in target.parent.iterdir()]
    except OSError:
        return
    for name in there:
        if (found := pattern.fullmatch(name)) and not _runs(int(found[1])):
            target.with_name(name).unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        # It belongs to somebody else, or this system cannot tell.
        return True
    return True
