"""Labelled data: rows of features with a class, and loaders for your own CSV or Parquet table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from seqbatch.core import arguments
from seqbatch.core.arguments import LARGEST
from seqbatch.core.arrays import Floats, Integers
from seqbatch.datasets.files import (
    DamagedDatasetError,
    MissingDatasetError,
    levels,
    one_hot,
    standardised,
)
from seqbatch.environments import ArrayEnvironment, classification
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# The data.


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of features and their classes, in the file's order.

    Parameters
    ----------
    features
        Shape (n, p).
    labels
        The index of each row's class in `classes`, shape (n,).
    classes
        The names of the classes, in sorted order.
    columns
        The names of the features.

    Examples
    --------
    >>> data = Labelled(np.eye(2), np.array([1, 0]), ("no", "yes"), ("a", "b"))
    >>> len(data), data.environment().actions, data.head(1).labels
    (2, 2, array([1]))
    """

    features: Floats
    labels: Integers
    classes: tuple[str, ...]
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        wanted = (len(self.labels), len(self.columns))
        if np.shape(self.features) != wanted:
            raise InvalidArgumentError(
                "features",
                f"of shape {wanted}: one row per label and one column per name",
                f"shape {np.shape(self.features)}",
            )

    def __len__(self) -> int:
        return len(self.labels)

    def head(self, n: int) -> "Labelled":
        """Return the first n rows; the classes remain those of all rows."""
        n = arguments.integer("n", n)
        if n > len(self):
            raise InvalidArgumentError("n", f"at most {len(self)}, the number of rows", n)
        return replace(self, features=self.features[:n], labels=self.labels[:n])

    def environment(self) -> ArrayEnvironment:
        """Return the problem of guessing the class, with one row per unit."""
        return classification(self.features, self.labels, classes=len(self.classes))


# ----------------------------------------------------------------------
# Loading a table: CSV or Parquet.


#: A text column with more levels than this is most likely an identifier, not a feature.
MOST_LEVELS = 1_000


def labelled_table(
    path: str | Path, *, label: str, features: Sequence[str] | None = None
) -> Labelled:
    """Load labelled data: numbers standardised, text one-hot, classes in sorted order.

    Parameters
    ----------
    path
        A .csv, .csv.gz or .parquet file.
    label
        The class column: text, whole numbers or booleans, with at least two distinct values.
    features
        The feature columns, in the desired order; None for all but the label. Numbers and booleans
        are standardised over the file (a constant column becomes 0); text gets one indicator per
        level.

    Raises
    ------
    MissingDatasetError
        If there is no such file.
    DamagedDatasetError
        If it is empty or cannot be read in the format of its name.
    InvalidArgumentError
        If a column is missing or unusable, or if a value is missing; the error names row and
        column.

    Examples
    --------
    >>> labelled_table("notes.txt", label="y")
    Traceback (most recent call last):
    ...
    seqbatch.errors.InvalidArgumentError: path must be a .csv, .csv.gz or .parquet file; received \
notes.txt.
    """
    table = _read(Path(path))
    wanted = _wanted(table, label, features)
    for name in (label, *wanted):
        _refuse_missing(table[name])
    classes, labels = _classes(table[label])
    encoded = [_encoded(table[name]) for name in wanted]
    return Labelled(
        features=np.hstack([values for values, _ in encoded]),
        labels=labels,
        classes=classes,
        columns=tuple(name for _, names in encoded for name in names),
    )


def _read(path: Path) -> pl.DataFrame:
    parquet = path.name.endswith(".parquet")
    if not parquet and not path.name.endswith((".csv", ".csv.gz")):
        raise InvalidArgumentError("path", "a .csv, .csv.gz or .parquet file", path.name)
    if not path.is_file():
        raise MissingDatasetError(f"path must be an existing file; received {path}.", field="path")
    try:
        # Infer types from all rows: the first text may be in the last one.
        table = pl.read_parquet(path) if parquet else pl.read_csv(path, infer_schema_length=None)
    except pl.exceptions.NoDataError:
        table = pl.DataFrame()
    except (pl.exceptions.PolarsError, OSError) as error:
        kind = "Parquet" if parquet else "CSV"
        raise DamagedDatasetError(
            f"{path} must be a {kind} file; reading it failed with: {error}", code="unreadable"
        ) from error
    if table.is_empty():
        raise DamagedDatasetError(
            f"{path} must have at least one row of data; it has none.", code="no-rows"
        )
    return table


def _wanted(table: pl.DataFrame, label: str, features: Sequence[str] | None) -> list[str]:
    """Return the feature columns after checking that they exist, are distinct and not the label."""
    there = f"one of the file's columns ({', '.join(table.columns)})"
    if label not in table.columns:
        raise InvalidArgumentError("label", there, repr(label))
    if isinstance(features, str):
        raise InvalidArgumentError("features", "a list of column names", repr(features))
    wanted = [name for name in table.columns if name != label] if features is None else [*features]
    for name in wanted:
        if name not in table.columns:
            raise InvalidArgumentError("each of features", there, repr(name))
    if not wanted or label in wanted or len(set(wanted)) < len(wanted):
        rule = f"at least one column, without repetition and without {label!r}"
        raise InvalidArgumentError("features", rule, f"{wanted}")
    return wanted


def _refuse_missing(column: pl.Series) -> None:
    bad = column.is_null()
    if column.dtype.is_numeric():
        bad = bad | ~(column.cast(pl.Float64).abs() < LARGEST).fill_null(value=False)
    if bad.any():
        row = int(np.argmax(bad.to_numpy()))
        raise InvalidArgumentError(
            f"column {column.name!r}",
            f"filled in every row, with finite numbers smaller than {LARGEST:g}",
            f"{column[row]} in row {row + 1} (counting data rows from 1)",
            "Remove such rows or fill in the missing values before loading the file.",
        )


def _is_text(column: pl.Series) -> bool:
    return column.dtype in (pl.String, pl.Categorical, pl.Enum)


def _classes(column: pl.Series) -> tuple[tuple[str, ...], Integers]:
    if column.dtype.is_float():
        whole = (column == column.round()) & (column.abs() < 2.0**53)
        column = column.cast(pl.Int64) if whole.all() else column
    if _is_text(column):
        column = column.cast(pl.String)
    elif not column.dtype.is_integer() and column.dtype != pl.Boolean:
        raise InvalidArgumentError(
            f"label column {column.name!r}",
            "of text, whole numbers or booleans",
            f"type {column.dtype}",
        )
    classes, labels = levels(column)
    if len(classes) < 2:
        raise InvalidArgumentError(
            f"label column {column.name!r}", "at least two classes", f"only {classes[0]!r}"
        )
    return classes, labels


def _encoded(column: pl.Series) -> tuple[Floats, tuple[str, ...]]:
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return standardised(column.cast(pl.Float64).to_numpy()[:, None]), (column.name,)
    if not _is_text(column):
        raise InvalidArgumentError(
            f"column {column.name!r}",
            "of numbers, booleans or text",
            f"type {column.dtype}",
            "Convert it, or leave it out of features.",
        )
    different = column.n_unique()
    if different > MOST_LEVELS:
        raise InvalidArgumentError(
            f"column {column.name!r}",
            f"text with at most {MOST_LEVELS} distinct values",
            f"{different}",
            "Group rare values, or leave the column out of features.",
        )
    return one_hot(column.cast(pl.String))
