"""Data files: the data folder, checksums of public files, and encoding of columns."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import polars as pl

from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import SeqbatchError

# ----------------------------------------------------------------------
# Encoding: levels, indicators, standardised columns, rows of unit length.


def levels(column: pl.Series) -> tuple[tuple[str, ...], Integers]:
    """Return a column's distinct values in sorted order, and each row's index among them.

    >>> levels(pl.Series(["b", "?", "b"]))
    (('?', 'b'), array([1, 0, 1]))
    """
    values = column.unique().sort()
    places = np.arange(len(values), dtype=np.int64)
    index = column.replace_strict(values, pl.Series(places), return_dtype=pl.Int64)
    return tuple(str(value) for value in values), index.to_numpy().astype(np.int64)


def one_hot(column: pl.Series) -> tuple[Floats, tuple[str, ...]]:
    """Return one indicator column per level, without dropping any, and their names.

    >>> one_hot(pl.Series("odor", ["n", "a"]))
    (array([[0., 1.],
           [1., 0.]]), ('odor=a', 'odor=n'))
    """
    names, index = levels(column)
    indicators = np.zeros((len(index), len(names)))
    indicators[np.arange(len(index)), index] = 1.0
    return indicators, tuple(f"{column.name}={name}" for name in names)


def standardised(values: Floats) -> Floats:
    """Return columns of mean 0 and population standard deviation 1; constant ones become 0.

    >>> standardised(np.array([[1.0, 0.1], [3.0, 0.1]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    centred = values - values.mean(axis=0)
    # The mean of equal numbers may be off by rounding, which must not be scaled up.
    constant = values.min(axis=0) == values.max(axis=0)
    centred[:, constant] = 0.0
    deviation = np.sqrt(np.mean(centred**2, axis=0))
    result: Floats = centred / np.where(deviation > 0, deviation, 1.0)
    return result


def unit_rows(values: Floats) -> Floats:
    """Return every row scaled to unit length; rows of zeros are unchanged.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
    result: Floats = values / np.where(lengths > 0, lengths, 1.0)[:, None]
    return result


# ----------------------------------------------------------------------
# The data folder and checksums.
#
# The folder is that of the environment variable ``SEQBATCH_DATA``, or ``data`` in the working
# directory if the variable is not set. Files may be plain or gzipped (named ``....gz``).


#: The environment variable that names the folder of data files.
VARIABLE = "SEQBATCH_DATA"

_READ = 1 << 20


class MissingDatasetError(SeqbatchError, FileNotFoundError):
    """A data file that is not in the data folder."""

    usual = "no-dataset"


class DamagedDatasetError(SeqbatchError, ValueError):
    """A data file with unexpected content."""

    usual = "damaged-dataset"


@dataclass(frozen=True)
class PublicFile:
    """A public file, as published by its source.

    Parameters
    ----------
    name
        Its name when uncompressed.
    sha256
        The checksum of its uncompressed bytes.
    """

    name: str
    sha256: str


#: The public files, by the name of their loader.
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

# Checksums by (path, size, modification time). A changed file is hashed again.
_known: dict[tuple[Path, int, int], str] = {}


def folders() -> tuple[Path, ...]:
    """Return the folders to search, in order."""
    named = os.environ.get(VARIABLE)
    return (Path(named),) if named else (Path("data"),)


def find(names: Sequence[str], *, sha256: str | None = None) -> Path:
    """Return the first file with one of these names, in the first folder that has one.

    Parameters
    ----------
    names
        The names to search for, in order.
    sha256
        The checksum to state in the error if there is no such file.
    """
    for folder in folders():
        for name in names:
            if (folder / name).is_file():
                return folder / name
    looked = ", ".join(f"{f} ({'is' if f.is_dir() else 'not'} a folder)" for f in folders())
    checksum = f" (sha256 of the uncompressed bytes: {sha256})" if sha256 else ""
    raise MissingDatasetError(
        f"{' or '.join(names)}{checksum} must be in one of these folders: {looked}. "
        f"Put the file there, or set the environment variable {VARIABLE} to its folder: "
        f"export {VARIABLE}=path/to/folder"
    )


def public(dataset: str) -> Path:
    """Return the path of a file in :data:`PUBLIC_FILES` after checking its content."""
    file = PUBLIC_FILES[dataset]
    path = find((file.name, f"{file.name}.gz"), sha256=file.sha256)
    found = checksum(path)
    if found != file.sha256:
        raise DamagedDatasetError(
            f"{path} must have uncompressed bytes of sha256 {file.sha256}; found {found}. "
            "It was modified or truncated: download it again."
        )
    return path


def checksum(path: Path) -> str:
    """Return the sha256 of a file's uncompressed bytes, cached while the file is unchanged."""
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
    """Open a file to read its uncompressed bytes, whatever its name."""
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
                f"{path} must be a complete gzip file; reading it failed with: {error}. "
                "It was modified or truncated: download it again."
            ) from error
