"""Files written whole or not at all."""

import errno
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
