"""Output files: checks that a path may be written, and atomic writing."""

import errno
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from seqbatch.errors import InvalidArgumentError, Remedy

# ----------------------------------------------------------------------
# Which paths may be written, checked before any work is done.


def require_target(
    path: str | Path,
    *,
    name: str = "out",
    force: bool = False,
    endings: Sequence[str] = (),
    apart_from: Mapping[str, Iterable[str | Path]] | None = None,
) -> Path:
    """Return the path if it may be written to, or raise an error.

    Parameters
    ----------
    path
        The file to write; for a link, its target.
    name
        The name of the argument in messages.
    force
        Whether an existing regular file may be overwritten. Nothing else is ever overwritten.
    endings
        The allowed endings of the name, in lower case; if empty, any.
    apart_from
        Files that must never be written to, by description.

    Raises
    ------
    InvalidArgumentError
        If the file is one of `apart_from`, has another ending, is a folder, device, pipe or
        socket, if its folder does not exist, or if it exists and `force` is False.
    """
    target, found = Path(path), _resolved(path)
    if found is None:
        raise InvalidArgumentError(name, "a valid file name", repr(str(path)))
    try:
        found.exists()
    except OSError as error:
        # A name that is too long, or a folder that may not be searched.
        advice = f"{error.strerror}."
        raise InvalidArgumentError(name, "a valid file name", path, advice) from None
    for what, files in (apart_from or {}).items():
        if any(_same(target, Path(file)) for file in files):
            raise InvalidArgumentError(name, f"a file other than {what}", path)
    if endings and not target.name.lower().endswith(tuple(endings)):
        kinds = " or ".join(part for part in (", ".join(endings[:-1]), endings[-1]) if part)
        raise InvalidArgumentError(name, f"a {kinds} file", path)
    _require_place(name, path, found, force=force)
    return target


def _require_place(name: str, path: str | Path, found: Path, *, force: bool) -> None:
    """Refuse a path where no file can be created, or where one exists that must stay."""
    if not found.parent.is_dir():
        advice = f"Create {found.parent} first."
        raise InvalidArgumentError(name, "in a folder that exists", path, advice)
    if found.is_dir():
        raise InvalidArgumentError(name, "a file", f"{path}, a folder")
    if found.exists() and not found.is_file():
        raise InvalidArgumentError(name, "a regular file", f"{path}, a device, pipe or socket")
    if found.exists() and not force:
        raise InvalidArgumentError(
            name, "a new file", f"{path}, which exists", "Choose another name, or overwrite it",
            code="file-exists", remedies=[Remedy("overwrite")],
        )  # fmt: skip


def _same(one: Path, other: Path) -> bool:
    """Return whether a path is the given file, or lies in the given folder, however spelled."""
    where, place = _resolved(one), _resolved(other)
    if where == place or (place in where.parents if where and place and place.is_dir() else False):
        return True
    return one.exists() and other.exists() and one.samefile(other)


def _resolved(path: str | Path) -> Path | None:
    """Return the path with all links resolved; None if it is invalid, as with a NUL character."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        return None


# ----------------------------------------------------------------------
# Atomic writing.


@contextmanager
def atomically(target: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path; it replaces `target` when the block ends, and is removed on failure.

    At any time and after any crash, `target` is either the old file or the complete new one. A file
    that is replaced keeps its permissions, but only its owner may ever read a private one. If it
    cannot be written, the error names `target`.

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
    requested = os.fspath(target)
    # Resolve links: the file that they point to is replaced, not the link.
    target = Path(os.path.realpath(target))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", str(target))
    # The partial file is in the same folder, because only a rename within one file system is
    # atomic. Its name is unique for each process and thread that writes the same target.
    _remove_leftovers(target)
    writer = f"{os.getpid()}-{threading.get_ident()}"
    partial = target.with_name(f"{target.name}.{writer}.partial")
    try:
        mode = 0o600 if private else _mode(target)
        if mode is not None:
            # The content must not be readable by others while it is written.
            os.close(os.open(partial, os.O_CREAT | os.O_WRONLY, 0o600))
        yield partial
        # Without fsync, a power cut soon after the rename could leave an empty file.
        sync(partial)
        if mode is not None:
            partial.chmod(mode)
        partial.replace(target)
        # Without this, a power cut could undo the rename.
        sync(target.parent)
    except OSError as error:
        # A write that fails, as on a full disk, names no file.
        unnamed = error.filename is None and error.errno is not None
        if unnamed or (error.filename and os.fspath(error.filename) == str(partial)):
            _rename_in_error(error, requested)
        raise
    finally:
        # If it cannot be removed, the next write does it; the first error is the one to report.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the directory entries of a folder, are on disk."""
    if os.name == "nt" and path.is_dir():
        # Windows cannot open a folder; the file system's journal makes renames durable.
        return
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _mode(target: Path) -> int | None:
    """Return the permissions of a file; None if there is no file."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        return None


def _rename_in_error(error: OSError, requested: str) -> None:
    """Make an error name the requested file, with advice."""
    advice = "choose another name, or a folder that you may write to"
    error.filename, error.filename2 = requested, None
    error.strerror = f"cannot be written: {error.strerror}; {advice}"


def _remove_leftovers(target: Path) -> None:
    """Remove partial files of the target that killed processes left behind."""
    pattern = re.compile(re.escape(target.name) + r"\.(\d+)-\d+\.partial")
    try:
        there = [path.name for path in target.parent.iterdir()]
    except OSError:
        return
    for name in there:
        if (found := pattern.fullmatch(name)) and not _is_running(int(found[1])):
            target.with_name(name).unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        # The process belongs to another user, or the system cannot tell.
        return True
    return True
