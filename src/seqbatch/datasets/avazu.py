"""Avazu click logs: Kaggle's ``train.csv`` read in a stream, 22 columns hashed to d = 40.

The file (40,428,967 rows, 24 columns) may not be passed on: get it from the Avazu click-through
rate competition. Where it cannot be had, :class:`~seqbatch.datasets.SyntheticAvazu` makes rows
with the same columns.
"""

from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import polars as pl

from seqbatch.core import arguments
from seqbatch.datasets.files import DamagedDatasetError, MissingDatasetError, find, opened
from seqbatch.datasets.hashed import DIM, Codes, HashedRows, dimension, hash_codes

#: The columns that are hashed, in the file's order.
FEATURES = (
    *("hour", "C1", "banner_pos", "site_id", "site_domain", "site_category"),
    *("app_id", "app_domain", "app_category", "device_id", "device_ip", "device_model"),
    *("device_type", "device_conn_type", "C14", "C15", "C16", "C17", "C18", "C19", "C20", "C21"),
)
#: All columns of the file.
COLUMNS = ("id", "click", *FEATURES)
#: The names it is looked for under.
NAMES = ("train.csv", "train.csv.gz", "train.gz")

_HEADER = 1 << 16
_PIECE = 1 << 25


def avazu(path: str | Path | None = None, *, rows: int | None = None, dim: int = DIM) -> HashedRows:
    """Load the log, hashed: 23 bytes a row, 887 MiB for the whole file.

    Parameters
    ----------
    path
        The file, plain or compressed with gzip; looked for under its usual names where None.
    rows
        Stop after this many; all where None.
    dim
        d, at most 127; 40 in the paper.

    Raises
    ------
    MissingDatasetError
        Where there is no such file.
    DamagedDatasetError
        Where a column is missing, a value is missing, or click is not 0 or 1.
    """
    return HashedRows.joined(avazu_chunks(path, rows=rows, dim=dim))


def avazu_chunks(
    path: str | Path | None = None,
    *,
    rows: int | None = None,
    dim: int = DIM,
    piece: int = _PIECE,
) -> Iterator[HashedRows]:
    """Read the log piece by piece, in memory that does not grow with the file.

    Parameters
    ----------
    path, rows, dim
        See :func:`avazu`.
    piece
        About how many bytes of text are held at a time; the rows do not depend on it.
    """
    dimension(dim)
    arguments.integer("piece", piece)
    if rows is not None:
        arguments.integer("rows", rows)
    file = find(NAMES) if path is None else Path(path)
    if not file.is_file():
        raise MissingDatasetError(f"path must be a file that exists; received {file}.")
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
        raise DamagedDatasetError(f"{file} must have at least one row of data; it has none.")


def _header(file: Path, stream: BufferedIOBase) -> list[str]:
    """Return the column names of the first line, every one that is needed among them."""
    line = stream.readline(_HEADER).decode("utf-8-sig", errors="replace")
    names = line.rstrip("\r\n").split(",")
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise DamagedDatasetError(
            f"{file} must start with a line that names the columns {', '.join(COLUMNS)}; "
            f"{', '.join(missing)} not found in {line[:200]!r}. "
            "Kaggle's test file has no click: use its train file."
        )
    return names


def _pieces(stream: BufferedIOBase, size: int) -> Iterator[bytes]:
    """Cut a stream into pieces of whole lines."""
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
    """Return a piece's needed columns as text."""
    schema = dict.fromkeys(names, pl.String)
    try:
        table = pl.read_csv(text, has_header=False, schema=schema, quote_char=None)
    except pl.exceptions.PolarsError as error:
        raise DamagedDatasetError(
            f"{file} must be a CSV file of {len(names)} columns; reading on after row {before} "
            f"failed with: {error}"
        ) from error
    return table.select("click", *FEATURES)


def _refuse_missing(file: Path, table: pl.DataFrame, before: int) -> None:
    for column in table:
        if column.null_count():
            row = before + int(np.argmax(column.is_null().to_numpy())) + 1
            raise DamagedDatasetError(
                f"{file} must have a value in every column; {column.name} is empty in row {row} "
                "(the first row of data is 1)."
            )


def _codes(table: pl.DataFrame, dim: int) -> Codes:
    codes = np.empty((len(table), len(FEATURES)), np.uint8)
    for place, name in enumerate(FEATURES):
        # Each different value is hashed once a piece: keeping them all would not be bounded.
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
            "(the first row of data is 1)."
        )
    return (click == "1").to_numpy().astype(np.uint8)
