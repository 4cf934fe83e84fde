"""The Avazu click log: streamed from its CSV file, with 22 columns hashed to d = 40."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from seqbatch.core import Statistics, arguments, kernels, least_squares
from seqbatch.core.arrays import Array, Bytes, Floats, Integers
from seqbatch.datasets.files import DamagedDatasetError, MissingDatasetError, find, opened
from seqbatch.errors import InvalidArgumentError
from seqbatch.simulation.device.units import chunks, signed_counts

# ----------------------------------------------------------------------
# MurmurHash3 of many texts of the same length at once, in integer arithmetic of any array library.


_LOW = 0xFFFFFFFF


def murmur3(text: Sequence[Array]) -> Array:
    """Return the signed 32-bit hashes of texts, with seed 0.

    Parameters
    ----------
    text
        The byte at each position: one number for all texts, or an int64 array with one per text.

    Examples
    --------
    >>> import numpy as np
    >>> murmur3([*b"device_type=", np.array([*b"10"])])  # of device_type=1 and device_type=0
    array([1643934509, 1521219419])
    """
    state: Array = 0
    for start in range(0, len(text), 4):
        word = text[start : start + 4]
        state = state ^ _mixed(sum(byte << (8 * place) for place, byte in enumerate(word)))
        if len(word) == 4:
            state = (_turned(state, 13) * 5 + 0xE6546B64) & _LOW
    state = state ^ len(text)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _LOW
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _LOW
    state = state ^ (state >> 16)
    return state - ((state >> 31) << 32)


def murmur3_of(texts: Sequence[str]) -> Integers:
    """Return the signed 32-bit hashes of texts of any length, with seed 0.

    Examples
    --------
    >>> murmur3_of(["device_type=1", "C1=1005"])
    array([1643934509,  634513031])
    """
    written = [text.encode() for text in texts]
    lengths = np.fromiter(map(len, written), dtype=np.int64, count=len(written))
    hashes = np.empty(len(written), dtype=np.int64)
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        joined = b"".join([written[place] for place in places])
        columns = np.frombuffer(joined, np.uint8).reshape(len(places), length).astype(np.int64).T
        hashes[places] = murmur3(list(columns))
    return hashes


def _mixed(word: Array) -> Array:
    word = (word * 0xCC9E2D51) & _LOW
    return (_turned(word, 15) * 0x1B873593) & _LOW


def _turned(word: Array, by: int) -> Array:
    """Rotate 32 bits to the left."""
    return ((word << by) & _LOW) | (word >> (32 - by))


# ----------------------------------------------------------------------
# Rows of hashed categories, one byte per column, and the regression on them.
#
# As in scikit-learn's FeatureHasher, a category "column=value" is hashed to one of d positions with
# a sign: position |h| mod d and the sign of h, where h is the signed 32-bit MurmurHash3. A row's
# vector is the sum over its columns, times 1/sqrt(d).


Codes = Bytes

#: d in the paper (Section 6.3).
DIM = 40
#: The largest d: the position takes seven bits of a byte, and 255 means "not hashed yet".
LARGEST_DIM = 127

_NEGATIVE = 128
_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class HashedRows:
    """Rows of hashed categories with a 0/1 outcome.

    Parameters
    ----------
    codes
        One byte per column, shape (n, columns): the position, plus 128 if the sign is negative.
    click
        The outcome, shape (n,).
    dim
        d, the length of a row's vector.

    Examples
    --------
    >>> rows = HashedRows(np.array([[0, 129, 1], [2, 2, 130]]), np.array([0, 1]), dim=4)
    >>> rows.dense([1, 0])
    array([[0. , 0. , 0.5, 0. ],
           [0.5, 0. , 0. , 0. ]])
    """

    codes: Codes
    click: Codes
    dim: int = DIM

    def __post_init__(self) -> None:
        dimension(self.dim)
        codes, click = np.asarray(self.codes), np.asarray(self.click)
        if codes.ndim != 2 or click.shape != (len(codes),):
            raise InvalidArgumentError(
                "codes and click",
                "of shapes (n, columns) and (n,)",
                f"shapes {codes.shape} and {click.shape}",
            )
        object.__setattr__(self, "codes", codes.astype(np.uint8, copy=False))
        object.__setattr__(self, "click", click.astype(np.uint8, copy=False))

    @classmethod
    def joined(cls, chunks: Iterable[HashedRows]) -> HashedRows:
        """Return the rows of all chunks, of which there is at least one, in one table.

        Each chunk is released as soon as it is copied; the rows are never held twice.
        """
        waiting = list(chunks)
        rows = sum(len(chunk) for chunk in waiting)
        columns, dim = waiting[0].codes.shape[1], waiting[0].dim
        whole = cls(np.empty((rows, columns), np.uint8), np.empty(rows, np.uint8), dim)
        end = rows
        while waiting:
            chunk = waiting.pop()
            start = end - len(chunk)
            whole.codes[start:end], whole.click[start:end] = chunk.codes, chunk.click
            end = start
        return whole

    def __len__(self) -> int:
        return len(self.click)

    @property
    def scale(self) -> float:
        """The factor 1/sqrt(d) of every vector."""
        return float(1.0 / np.sqrt(self.dim))

    def counts(self, place: Any) -> Array:
        """Return the signed counts of all rows, as int8 on a device."""
        xp = place.xp
        result = xp.empty((len(self), self.dim), dtype=xp.int8, device=place.device)
        for part in chunks(len(self)):
            columns = place.array(self.codes[part]).T
            result[part] = signed_counts(list(columns), self.dim, xp)
        return result

    @property
    def nbytes(self) -> int:
        """Memory of the rows in bytes."""
        return int(self.codes.nbytes + self.click.nbytes)

    def dense(self, indices: ArrayLike | slice) -> Floats:
        """Return the vectors of the given rows, shape (*indices.shape, d)."""
        vectors = self.sums(indices)
        vectors *= self.scale
        return vectors

    def sums(self, indices: ArrayLike | slice) -> Floats:
        """Return the vectors before the factor 1/sqrt(d): integers, sums of signs."""
        codes = self.codes[indices if isinstance(indices, slice) else _places(indices)]
        totals = np.zeros((*codes.shape[:-1], self.dim))
        kernels.signed_counts(codes.reshape(-1, codes.shape[-1]), totals.reshape(-1, self.dim))
        return totals


def _places(indices: ArrayLike) -> Integers:
    array = np.asarray(indices)
    if array.dtype.kind not in "iu" and array.size:
        raise InvalidArgumentError("indices", "whole numbers", f"dtype {array.dtype}")
    return array.astype(np.int64, copy=False)


def dimension(dim: int) -> int:
    """Return `dim` if the codes can represent it."""
    if arguments.integer("dim", dim) > LARGEST_DIM:
        raise InvalidArgumentError("dim", f"at most {LARGEST_DIM}", dim)
    return dim


def hash_codes(column: str, values: Sequence[str], dim: int) -> Codes:
    """Return the code of each value of a column.

    >>> hash_codes("device_type", ["1", "0", "1"], 40)
    array([29, 19, 29], dtype=uint8)
    """
    hashes = murmur3_of([f"{column}={value}" for value in values])
    codes = np.abs(hashes) % dim + np.where(hashes < 0, _NEGATIVE, 0)
    return codes.astype(np.uint8)


def fit_theta(rows: HashedRows, click: ArrayLike | None = None) -> Floats:
    """Return the least-squares parameter of click on the rows' vectors, d numbers.

    The Gram matrix is summed in chunks of integers: for 0/1 outcomes there is no rounding before
    the solution. If it is singular, the minimum-norm solution is returned.

    Parameters
    ----------
    rows
        The features.
    click
        The outcomes, one per row; those of `rows` if None.

    Examples
    --------
    >>> rows = HashedRows(np.array([[0], [1]]), np.array([0, 1]), dim=4)
    >>> fit_theta(rows)
    array([0., 2., 0., 0.])
    """
    arguments.integer("the number of rows", len(rows))
    target = rows.click if click is None else arguments.floats("click", click, (len(rows),))
    gram, moment, squares = np.zeros((rows.dim, rows.dim)), np.zeros(rows.dim), 0.0
    for start in range(0, len(rows), _CHUNK):
        sums = rows.sums(slice(start, start + _CHUNK))
        part = target[start : start + _CHUNK].astype(np.float64)
        gram += sums.T @ sums
        moment += part @ sums
        squares += float(part @ part)
    return theta_of(gram, moment, squares, len(rows))


def theta_of(gram: Floats, moment: Floats, squares: float, rows: int) -> Floats:
    """Return the parameter from sums over the vectors without the factor 1/sqrt(d)."""
    dim = len(moment)
    statistics = Statistics(
        gram=gram[None] / dim,
        moment=moment[None] / np.sqrt(dim),
        squares=np.array([squares]),
        count=np.array([rows]),
    )
    theta: Floats = least_squares(statistics).theta[0]
    return theta


# ----------------------------------------------------------------------
# Reading Kaggle's ``train.csv`` as a stream.
#
# The file (40,428,967 rows, 24 columns) may not be redistributed: download it from the Avazu
# click-through rate competition. :class:`~seqbatch.datasets.SyntheticAvazu` generates rows with the
# same columns instead.


#: The hashed columns, in the file's order.
FEATURES = (
    *("hour", "C1", "banner_pos", "site_id", "site_domain", "site_category"),
    *("app_id", "app_domain", "app_category", "device_id", "device_ip", "device_model"),
    *("device_type", "device_conn_type", "C14", "C15", "C16", "C17", "C18", "C19", "C20", "C21"),
)
#: All columns of the file.
COLUMNS = ("id", "click", *FEATURES)
#: The names under which the file is searched.
NAMES = ("train.csv", "train.csv.gz", "train.gz")

_HEADER = 1 << 16
_PIECE = 1 << 25


def avazu(path: str | Path | None = None, *, rows: int | None = None, dim: int = DIM) -> HashedRows:
    """Load the hashed log: 23 bytes per row, 887 MiB for the whole file.

    Parameters
    ----------
    path
        The file, plain or gzipped; if None, it is searched under its usual names.
    rows
        Stop after this many rows; None for all.
    dim
        d, at most 127; 40 in the paper.

    Raises
    ------
    MissingDatasetError
        If there is no such file.
    DamagedDatasetError
        If a column or a value is missing, or if click is not 0 or 1.
    """
    return HashedRows.joined(avazu_chunks(path, rows=rows, dim=dim))


def avazu_chunks(
    path: str | Path | None = None,
    *,
    rows: int | None = None,
    dim: int = DIM,
    piece: int = _PIECE,
) -> Iterator[HashedRows]:
    """Read the log in chunks, with memory that does not grow with the file.

    Parameters
    ----------
    path, rows, dim
        See :func:`avazu`.
    piece
        Approximate number of bytes of text held at a time; the rows do not depend on it.
    """
    dimension(dim)
    arguments.integer("piece", piece)
    if rows is not None:
        arguments.integer("rows", rows)
    file = find(NAMES) if path is None else Path(path)
    if not file.is_file():
        raise MissingDatasetError(f"path must be an existing file; received {file}.", field="path")
    return _chunks(file, rows, dim, piece)


def _chunks(file: Path, rows: int | None, dim: int, piece: int) -> Iterator[HashedRows]:
    read = 0
    with opened(file) as stream:
        names = _header(file, stream)
        for text in _pieces(stream, piece):
            table = _parsed(file, text, names, read)
            if rows is not None:
                table = table.head(rows - read)
            _refuse_missing(file, table, read)
            yield HashedRows(_codes(table, dim), _click(file, table, read), dim)
            read += len(table)
            if read == rows:
                return
    if not read:
        raise DamagedDatasetError(
            f"{file} must have at least one row of data; it has none.", code="no-rows"
        )


def _header(file: Path, stream: BufferedIOBase) -> list[str]:
    """Return the column names of the first line; all required ones must be among them."""
    line = stream.readline(_HEADER).decode("utf-8-sig", errors="replace")
    names = line.rstrip("\r\n").split(",")
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise DamagedDatasetError(
            f"{file} must start with a line that names the columns {', '.join(COLUMNS)}; "
            f"{', '.join(missing)} not found in {line[:200]!r}. "
            "Use Kaggle's train file: its test file has no click column."
        )
    return names


def _pieces(stream: BufferedIOBase, size: int) -> Iterator[bytes]:
    """Split a stream into pieces of whole lines."""
    rest = b""
    while block := stream.read(size):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
    if rest:
        yield rest


def _parsed(file: Path, text: bytes, names: list[str], before: int) -> pl.DataFrame:
    """Return the required columns of a piece, as text."""
    schema = dict.fromkeys(names, pl.String)
    try:
        table = pl.read_csv(text, has_header=False, schema=schema, quote_char=None)
    except pl.exceptions.PolarsError as error:
        raise DamagedDatasetError(
            f"{file} must be a CSV file of {len(names)} columns; reading after row {before} "
            f"failed with: {error}"
        ) from error
    return table.select("click", *FEATURES)


def _refuse_missing(file: Path, table: pl.DataFrame, before: int) -> None:
    for column in table:
        if column.null_count():
            row = before + int(np.argmax(column.is_null().to_numpy())) + 1
            raise DamagedDatasetError(
                f"{file} must have a value in every column; {column.name} is empty in row {row} "
                "(counting data rows from 1)."
            )


def _codes(table: pl.DataFrame, dim: int) -> Codes:
    codes = np.empty((len(table), len(FEATURES)), np.uint8)
    for place, name in enumerate(FEATURES):
        # Each distinct value is hashed once per piece; caching all of them would be unbounded.
        values = table[name].unique()
        hashed = pl.Series(hash_codes(name, values.to_list(), dim))
        codes[:, place] = table[name].replace_strict(values, hashed, return_dtype=pl.UInt8)
    return codes


def _click(file: Path, table: pl.DataFrame, before: int) -> Codes:
    click = table["click"]
    wrong = ~click.is_in(["0", "1"]).to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DamagedDatasetError(
            f"{file} must have click 0 or 1; received {click[row]!r} in row {before + row + 1} "
            "(counting data rows from 1)."
        )
    return (click == "1").to_numpy().astype(np.uint8)
