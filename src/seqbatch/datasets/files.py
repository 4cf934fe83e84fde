"""Where files are looked for, and whether they are what they claim to be.

The folder is the one that the environment variable ``SEQBATCH_DATA`` names; where it is not set,
``data`` in the current working directory. Each file may be plain or compressed with gzip (its name
then ends in ``.gz``).
"""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from seqbatch.errors import SeqbatchError

#: The environment variable that names the folder of data files.
VARIABLE = "SEQBATCH_DATA"

_READ = 1 << 20


class MissingDatasetError(SeqbatchError, FileNotFoundError):
    """A data file that is in none of the folders looked in."""


class DamagedDatasetError(SeqbatchError, ValueError):
    """A data file whose content is not what it should be."""


@dataclass(frozen=True)
class PublicFile:
    """A file as its source published it.

    Parameters
    ----------
    name
        Its name, uncompressed.
    sha256
        The checksum of its uncompressed bytes.
    """

    name: str
    sha256: str


#: The files that this room can check, by the name of their loader.
PUBLIC_FILES = {
    "mushroom": PublicFile(
        "agaricus-lepiota.data",
        "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e",
    ),
    "covertype": PublicFile(
        "covtype.data",
        "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
    ),
    "hillstrom": PublicFile(
        "hillstrom.csv",
        "0e5893329d8b93cefecc571777672028290ab69865718020c78c7284f291aece",
    ),
}

# What was hashed already: (path, size, time of change) to checksum. A changed file is hashed anew.
_known: dict[tuple[Path, int, int], str] = {}


def folders() -> tuple[Path, ...]:
    """Return the folders that files are looked for in, in order."""
    named = os.environ.get(VARIABLE)
    return (Path(named),) if named else (Path("data"),)


def find(names: Sequence[str], *, sha256: str | None = None) -> Path:
    """Return the first file of one of these names, in the first folder that has one.

    Parameters
    ----------
    names
        Names to look for, in order.
    sha256
        Said in the error where there is no such file.
    """
    for folder in folders():
        for name in names:
            if (folder / name).is_file():
                return folder / name
    looked = ", ".join(f"{f} ({'is' if f.is_dir() else 'not'} a folder)" for f in folders())
    checksum = f" (sha256 of the uncompressed bytes: {sha256})" if sha256 else ""
    raise MissingDatasetError(
        f"{' or '.join(names)}{checksum} must be in one of the folders looked in: {looked}. "
        f"Put the file there, or set the environment variable {VARIABLE} to the folder that has "
        f"it, as in: export {VARIABLE}=path/to/folder"
    )


def public(dataset: str) -> Path:
    """Return the path of a file of :data:`PUBLIC_FILES`, its content checked."""
    file = PUBLIC_FILES[dataset]
    path = find((file.name, f"{file.name}.gz"), sha256=file.sha256)
    found = checksum(path)
    if found != file.sha256:
        raise DamagedDatasetError(
            f"{path} must have uncompressed bytes of sha256 {file.sha256}; found {found}. "
            "It was changed or cut short: get it again from its source."
        )
    return path


def checksum(path: Path) -> str:
    """Return the sha256 of a file's uncompressed bytes; computed once for an unchanged file."""
    status = path.stat()
    key = (path.resolve(), status.st_size, status.st_mtime_ns)
    if key not in _known:
        digest = hashlib.sha256()
        with opened(path) as stream:
            while piece := stream.read(_READ):
                digest.update(piece)
        _known[key] = digest.hexdigest()
    return _known[key]


@contextmanager
def opened(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file for reading its uncompressed bytes, whatever its name ends in."""
    with path.open("rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not compressed:
            yield raw
            return
        try:
            with gzip.open(raw) as stream:
                yield stream
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DamagedDatasetError(
                f"{path} must be a whole gzip file; reading it failed with: {error}. "
                "It was changed or cut short: get it again from its source."
            ) from error
